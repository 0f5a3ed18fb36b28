//! The GitHub hosts that are asked, and what to show them.

use std::path::Path;

use grip_types::Service;
use url::Url;

use super::Resolver;
use crate::config::{
    Source, Surroundings, Value,
    github::{self, HostToken, Place},
    settings::GithubHost,
};

impl Resolver<'_> {
    /// Every host once: those whose repositories are indexed, and the one that is watched.
    pub(super) fn github(
        &mut self,
        watched: Option<&Service>,
        around: &dyn Surroundings,
    ) -> Vec<GithubHost> {
        let places = self.optional("index_github", github::places);
        let tokens = self.github_tokens(around);
        let mut hosts: Vec<GithubHost> = Vec::new();
        for Place { host, owner } in places.unwrap_or_default() {
            find_or_add(&mut hosts, &host).owners.push(owner);
        }
        if let Some(host) = watched {
            find_or_add(&mut hosts, host);
        }
        self.give(&mut hosts, tokens);
        hosts
    }

    /// Gives each host its own tokens.
    fn give(&mut self, hosts: &mut [GithubHost], tokens: Vec<HostToken>) {
        if hosts.is_empty() {
            return;
        }
        for HostToken { host, token } in tokens {
            let name = host.map_or_else(|| github::PUBLIC.to_owned(), |host| host.authority());
            match hosts.iter_mut().find(|h| h.service.authority() == name) {
                Some(host) => host.tokens.push(token),
                None => self.warnings.push(format!(
                    "{}: github_token: a token is for {name}, which is neither indexed nor \
                     watched; write host=token for another host",
                    self.value("github_token").source
                )),
            }
        }
    }

    fn github_tokens(&mut self, around: &dyn Surroundings) -> Vec<HostToken> {
        if let Some(tokens) = self.optional("github_token", github::tokens) {
            return tokens;
        }
        let Some(text) = self.credential("github_token", "github_token_file", around) else {
            return Vec::new();
        };
        let (path, text) = text;
        let lines = text.lines().filter(|line| !line.trim().starts_with('#'));
        let text = lines.collect::<Vec<_>>().join(",");
        match github::tokens(&text) {
            Ok(tokens) => {
                self.keep_credential("github_token", &path, text);
                tokens
            }
            Err(complaint) => {
                self.mistakes
                    .push(format!("{}: github_token {complaint}", path.display()));
                Vec::new()
            }
        }
    }

    /// The file that a setting names, which must be there, or else the systemd credential of this
    /// name, where there is one.
    pub(super) fn credential(
        &mut self,
        name: &'static str,
        file: &'static str,
        around: &dyn Surroundings,
    ) -> Option<(std::path::PathBuf, String)> {
        let named = self.value(file).text.clone();
        let variables = around.variables();
        let credentials = variables
            .iter()
            .find(|(name, _)| name == "CREDENTIALS_DIRECTORY");
        let path = match &named {
            Some(path) => Path::new(path).to_owned(),
            None => Path::new(&credentials?.1).join(name),
        };
        match around.read(&path) {
            Ok(text) => Some((path, text)),
            Err(error) => {
                if named.is_some() || error.kind() != std::io::ErrorKind::NotFound {
                    let key = if named.is_some() { file } else { name };
                    self.mistakes
                        .push(format!("{}: {key} cannot be read: {error}", path.display()));
                }
                None
            }
        }
    }

    pub(super) fn keep_credential(&mut self, name: &'static str, path: &Path, text: String) {
        let source = Source::Credential {
            path: path.to_owned(),
        };
        let text = Some(text);
        self.values.insert(name, Value { text, source });
    }
}

fn find_or_add<'a>(hosts: &'a mut Vec<GithubHost>, host: &Service) -> &'a mut GithubHost {
    let is_it = |known: &GithubHost| known.service.http_url() == host.http_url();
    let at = hosts.iter().position(is_it).unwrap_or_else(|| {
        hosts.push(GithubHost {
            api: api(host),
            service: host.clone(),
            owners: Vec::new(),
            tokens: Vec::new(),
        });
        hosts.len() - 1
    });
    &mut hosts[at]
}

/// Where the API of a host begins.
fn api(host: &Service) -> Url {
    let text = match host.authority().as_str() {
        github::PUBLIC => "https://api.github.com/".to_owned(),
        _ => format!("{}/api/v3/", host.http_url()),
    };
    Url::parse(&text).expect("a host that was read makes a URL")
}
