//! Wiring of the GitHub watch: push events, webhooks, avatars.

mod wake;

use std::{net::SocketAddr, sync::Arc};

use anyhow::Context as _;
use grip_db::Db;
use grip_egress::Egress;
use grip_grasp::Grasp;
use grip_index::Index;
use grip_ingest::{
    Ingest,
    avatars::{AvatarOptions, AvatarParts, Avatars, PictureStore},
    wake::Wake,
    webhook::{Secrets, Webhook},
};
use grip_limits::Throttle;
use grip_queue::Queue;
use grip_tasks::TaskGroup;
use grip_types::{Domain, Service};
use grip_web::Watch;

use self::wake::{Indexed, Waiting};
use super::{
    egress::egress_options,
    github::{Gateways, private_way},
};
use crate::config::Settings;

/// The public GitHub, whose pictures come from hosts of their own.
const PUBLIC: &str = "github.com";

/// What it stands on.
pub(super) struct Base<'a> {
    pub(super) db: &'a Db,
    pub(super) queue: &'a Queue,
    pub(super) grasp: &'a Grasp,
    pub(super) index: Option<&'a Arc<Index>>,
    pub(super) gateways: &'a Gateways,
    pub(super) service: &'a Service,
    /// Where we listen.
    pub(super) address: SocketAddr,
    pub(super) throttle: &'a Throttle,
    /// Owns the work; it stops when no new work is taken on.
    pub(super) work: TaskGroup,
}

/// Starts to watch what the settings name; none where they name nothing.
pub(super) async fn start(settings: &Settings, base: Base<'_>) -> anyhow::Result<Option<Watch>> {
    let Some(watched) = settings.watched() else {
        return Ok(None);
    };
    let watch = &settings.watch;
    let github = base.gateways.to(&watched.host);
    let github = github.context("the host that is watched is one that is asked")?;
    let index = base.index.cloned();
    let mut wake = Wake::new(
        &watched.host,
        index.map(|index| Arc::new(Indexed(index)) as _),
    );
    if settings.sync.sync_enabled {
        let queue = Waiting(base.grasp.clone());
        wake = wake.with_sync(queue, settings.sync.sync_immediate_delay_ms, &base.work);
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
        group: base.work.clone(),
    });
    let ingest = ingest.await.context("cannot begin to watch GitHub")?;
    let webhook = match watch.github_webhook_secret.as_slice() {
        [] => None,
        secrets => {
            let secrets = Secrets::new(secrets.iter().map(|secret| secret.reveal()));
            let secrets = secrets.context("no secret of a webhook (github_webhook_secret)")?;
            let (db, queue) = (base.db.clone(), base.queue.clone());
            let group = base.work.clone();
            Some(Webhook::new(secrets, db, queue, live_for, group))
        }
    };
    let avatars = if watch.watch_avatars && watch.watch_enrich {
        Some(avatars(settings, &watched.host, &base).await?)
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

async fn avatars(settings: &Settings, host: &Service, base: &Base<'_>) -> anyhow::Result<Avatars> {
    let pictures = {
        let place = settings.avatars_store();
        let opening = base
            .work
            .spawn_blocking("open", move || PictureStore::open(&place));
        let opened = opening.await.context("opening was interrupted")?;
        opened.context("cannot keep pictures (watch_avatars_store)")?
    };
    let (service, address, throttle) = (base.service, base.address, base.throttle);
    let egress = Egress::new(egress_options(settings, service, address), throttle.clone())
        .context("cannot set up requests for pictures")?;
    let mut options = AvatarOptions::default();
    let mut named = egress.clone();
    if host.authority() != PUBLIC {
        let url = url::Url::parse(&host.http_url()).context("a host has a URL")?;
        options.hosts = Domain::of(&url).into_iter().collect();
        let hosts = options.hosts.clone();
        named = private_way(settings, service, address, throttle, hosts)
            .context("cannot set up requests for pictures")?;
    }
    let avatars = Avatars::start(AvatarParts {
        db: base.db.clone(),
        queue: base.queue.clone(),
        pictures,
        egress,
        named,
        options,
        group: base.work.clone(),
    });
    avatars.await.context("cannot begin to keep pictures")
}
