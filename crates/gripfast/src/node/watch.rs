//! Wiring of the GitHub watch: push events, webhooks, avatars.

mod wake;

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use grip_index::Index;
use grip_ingest::{
    Ingest,
    avatars::{AvatarOptions, AvatarParts, Avatars, PictureStore},
    wake::Wake,
    webhook::{Secrets, Webhook},
};
use grip_tasks::TaskGroup;
use grip_types::{Domain, Service};
use grip_web::Watch;

use self::wake::{Indexed, Waiting};
use super::{base::Base, github::Gateways};

/// The public GitHub, whose pictures come from hosts of their own.
const PUBLIC: &str = "github.com";

/// Starts to watch what the settings name; none where they name nothing.
pub(super) async fn start(
    base: &Base<'_>,
    index: Option<&Arc<Index>>,
    gateways: &Gateways,
) -> anyhow::Result<Option<Watch>> {
    let (settings, work) = (base.settings, base.front.child("watch"));
    let Some(watched) = settings.watched() else {
        return Ok(None);
    };
    let watch = &settings.watch;
    let github = gateways.to(&watched.host);
    let github = github.context("the host that is watched is one that is asked")?;
    let index = index.map(|index| Arc::new(Indexed(Arc::clone(index))) as _);
    let mut wake = Wake::new(&watched.host, index);
    if settings.sync.sync_enabled {
        let queue = Waiting(base.grasp.clone());
        let delay = Duration::from_millis(settings.sync.sync_immediate_delay_ms);
        wake = wake.with_sync(queue, delay, &work);
    }
    let options = grip_ingest::Options {
        sources: watched.sources.clone(),
        poll_every: watch.watch_poll_interval,
        enrich: watch.watch_enrich,
        fresh_for: watch.watch_fresh_for,
        refresh_reserve_percent: watch.watch_refresh_reserve_percent,
        keep: watch.keep(),
        ..grip_ingest::Options::default()
    };
    let live_for = options.live_for;
    let ingest = Ingest::start(grip_ingest::Parts {
        db: base.db.clone(),
        queue: base.queue.clone(),
        github: github.clone(),
        pushes: Arc::new(wake),
        options,
        group: work.clone(),
    });
    let ingest = ingest.await.context("cannot begin to watch GitHub")?;
    let webhook = match watch.github_webhook_secret.as_slice() {
        [] => None,
        secrets => {
            let secrets = Secrets::new(secrets.iter().map(|secret| secret.reveal()));
            let secrets = secrets.context("no secret of a webhook (github_webhook_secret)")?;
            let (db, queue) = (base.db.clone(), base.queue.clone());
            let group = work.clone();
            Some(Webhook::new(secrets, db, queue, live_for, group))
        }
    };
    let avatars = if watch.watch_avatars && watch.watch_enrich {
        Some(avatars(base, &watched.host, &work).await?)
    } else {
        None
    };
    tracing::info!(
        host = watched.host.authority(),
        lists = watched.sources.len(),
        webhooks = webhook.is_some(),
        "pushes are watched"
    );
    Ok(Some(Watch {
        ingest: Arc::new(ingest),
        webhook,
        avatars: avatars.map(Arc::new),
    }))
}

async fn avatars(base: &Base<'_>, host: &Service, work: &TaskGroup) -> anyhow::Result<Avatars> {
    let pictures = {
        let place = base.settings.avatars_store();
        let opening = work.spawn_blocking("open", move || PictureStore::open(&place));
        let opened = opening.await.context("opening was interrupted")?;
        opened.context("cannot keep pictures (watch_avatars_store)")?
    };
    let cannot = "cannot set up requests for pictures";
    let egress = base.egress(Vec::new()).context(cannot)?;
    let mut options = AvatarOptions::default();
    let mut named = egress.clone();
    if host.authority() != PUBLIC {
        let url = url::Url::parse(&host.http_url()).context("a host has a URL")?;
        options.hosts = Domain::of(&url).into_iter().collect();
        named = base.egress(options.hosts.clone()).context(cannot)?;
    }
    let avatars = Avatars::start(AvatarParts {
        db: base.db.clone(),
        queue: base.queue.clone(),
        pictures,
        egress,
        named,
        options,
        group: work.clone(),
    });
    avatars.await.context("cannot begin to keep pictures")
}
