//! The settings of what is watched on GitHub.

use std::path::Path;

use grip_ingest::Keep;
use grip_types::Service;

use super::Resolver;
use crate::config::{
    Surroundings, github, parse,
    settings::{Secret, Watch},
    watched,
};

impl Resolver<'_> {
    /// None where neither a list nor a webhook is to tell of pushes.
    pub(super) fn watch(&mut self, data_dir: &Path, around: &dyn Surroundings) -> Option<Watch> {
        let watched = self.optional("watch_github", watched::watched).flatten();
        let secrets = self.webhook_secrets(around);
        let place = data_dir.join("avatars").to_string_lossy().into_owned();
        let place = self.text_or("watch_avatars_store", || place);
        if watched.is_none() && secrets.is_empty() {
            return None;
        }
        let (host, sources) = match watched {
            Some(watched) => (watched.host, watched.sources),
            None => {
                let host = Service::parse(github::PUBLIC);
                (host.expect("because it is one"), Vec::new())
            }
        };
        let keep = |key| self.optional(key, parse::duration);
        Some(Watch {
            keep: Keep {
                events: keep("watch_keep_events"),
                enriched: keep("watch_keep_enriched"),
                rejected: keep("watch_keep_rejected"),
                closed_gaps: keep("watch_keep_closed_gaps"),
                open_gaps: keep("watch_keep_open_gaps"),
            },
            host,
            sources,
            secrets,
            poll_every: self.get("watch_poll_interval", parse::duration),
            enrich: self.get("watch_enrich", parse::boolean),
            fresh_for: self.get("watch_fresh_for", parse::duration),
            refresh_reserve_percent: self.count("watch_refresh_reserve_percent"),
            avatars: self.get("watch_avatars", parse::boolean).then_some(place),
        })
    }

    fn webhook_secrets(&mut self, around: &dyn Surroundings) -> Vec<Secret> {
        if let Some(secrets) = self.optional("github_webhook_secret", watched::secrets) {
            return secrets;
        }
        let (key, file) = ("github_webhook_secret", "github_webhook_secret_file");
        let Some((path, text)) = self.credential(key, file, around) else {
            return Vec::new();
        };
        // A line each, so that a comma is a part of a secret.
        let text = format!("{}\n", text.trim());
        match watched::secrets(&text) {
            Ok(secrets) => {
                self.keep_credential(key, &path, text);
                secrets
            }
            Err(complaint) => {
                self.mistakes
                    .push(format!("{}: {key} {complaint}", path.display()));
                Vec::new()
            }
        }
    }
}
