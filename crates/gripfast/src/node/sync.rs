//! Missing git data, brought from elsewhere: the parts of that, wired over the service.

mod context;
mod lately;
mod report;

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use anyhow::Context as _;
use grip_egress::Egress;
use grip_git::Repositories;
use grip_grasp::Grasp;
use grip_sync::{GitFetch, GitOptions, Sync};
use grip_tasks::TaskGroup;
use grip_throttle::{Limits, RedisOptions, Throttle};
use grip_types::Service;
use grip_web::SyncHandle;

use self::{context::Context, lately::Lately, report::Report};
use crate::config::{Settings, SyncSettings, service_at};

/// What the limits of a host count over.
const MINUTE: Duration = Duration::from_secs(60);

/// What sync stands on.
pub(super) struct Base<'a> {
    pub(super) grasp: &'a Grasp,
    pub(super) repositories: &'a Repositories,
    pub(super) service: &'a Service,
    /// Where we listen.
    pub(super) address: SocketAddr,
    /// Owns the search; it stops when no new work is taken on, and fetches under way are given up.
    pub(super) search: TaskGroup,
    /// Owns the books of the throttle, which outlive the search to take back its slots.
    pub(super) books: &'a TaskGroup,
}

/// Starts to look for what waits, unless that is switched off.
pub(super) async fn start(settings: &Settings, base: Base<'_>) -> anyhow::Result<SyncHandle> {
    let sync = &settings.sync;
    if !sync.enabled {
        tracing::info!("sync is switched off: nothing is fetched from elsewhere");
        return Ok(SyncHandle::off());
    }
    let throttle = throttle(sync, base.books).await?;
    let egress = Egress::new(
        way_out(settings, base.service, base.address),
        throttle.clone(),
    )
    .context("cannot set up requests to other hosts")?;
    let fetch = GitFetch::new(
        egress,
        base.repositories.clone(),
        GitOptions {
            max_pack_bytes: sync.pack_bytes,
            min_free_bytes: sync.min_free_bytes,
            // The silence of a host is noticed below first, which knows whose it is.
            stall: sync.idle.saturating_mul(2),
            ..GitOptions::default()
        },
    );
    let lately = Lately::default();
    let running = Sync::start(grip_sync::Parts {
        context: Context::new(base.grasp.clone(), lately.clone()),
        fetch,
        throttle: throttle.clone(),
        options: grip_sync::Options {
            loop_interval: sync.loop_interval,
            immediate: sync.synced_delay,
            max_tasks: sync.tasks,
            ..grip_sync::Options::default()
        },
        group: base.search,
    });
    Ok(SyncHandle::new(Report::new(running, throttle, lately)))
}

async fn throttle(sync: &SyncSettings, books: &TaskGroup) -> anyhow::Result<Throttle> {
    let options = limits(sync);
    let Some(url) = &sync.redis_url else {
        return Ok(Throttle::memory(options));
    };
    let redis = RedisOptions {
        url: url.clone(),
        fallback_percent: sync.redis_fallback_percent,
        ..RedisOptions::default()
    };
    Throttle::redis(options, redis, books)
        .await
        .context("cannot count with Redis (redis_url)")
}

fn limits(sync: &SyncSettings) -> grip_throttle::Options {
    let limits = |in_flight, per_window| Limits {
        in_flight,
        per_window,
        window: MINUTE,
    };
    let own = sync.host_limits.iter();
    let overrides: BTreeMap<_, _> = own
        .map(|l| (l.host.clone(), limits(l.concurrent, l.per_minute)))
        .collect();
    grip_throttle::Options {
        limits: limits(sync.concurrent, sync.per_minute),
        overrides,
        ..grip_throttle::Options::default()
    }
}

fn way_out(settings: &Settings, service: &Service, address: SocketAddr) -> grip_egress::Options {
    let sync = &settings.sync;
    let mut own = vec![service.clone()];
    own.extend(settings.aliases.iter().cloned());
    // Whatever the node is called, its own address leads to it as well.
    own.push(service_at(address, ""));
    grip_egress::Options {
        allow_non_global: sync.allow_non_global,
        own,
        schemes: sync.schemes.clone(),
        connect: sync.connect,
        idle: sync.idle,
        total: sync.total,
        ..grip_egress::Options::default()
    }
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::*;
    use crate::config::tests::Fake;

    #[test]
    fn single_hosts_have_limits_of_their_own() {
        let loaded = Fake::default()
            .env("NGIT_SYNC_DOMAIN_CONCURRENT", "3")
            .env("GRIPFAST_SYNC_HOST_LIMITS", "github.com=10/60")
            .loaded();
        let options = limits(&loaded.settings.sync);
        assert_eq!(
            (options.limits.in_flight, options.limits.per_window),
            (3, 30)
        );
        let (host, own) = options.overrides.first_key_value().unwrap();
        assert_eq!(host.as_str(), "github.com");
        assert_eq!((own.in_flight, own.per_window), (10, 60));
    }

    #[test]
    fn the_defaults_of_the_table_are_those_of_the_parts() {
        let settings = Fake::default().loaded().settings;
        let theirs = grip_throttle::Options::default();
        assert_eq!(limits(&settings.sync), theirs);
        let (ours, theirs) = (
            way_out(&settings, &settings.service, settings.bind_address),
            grip_egress::Options::default(),
        );
        assert_eq!(ours.schemes, theirs.schemes);
        assert_eq!(
            (ours.connect, ours.idle, ours.total),
            (theirs.connect, theirs.idle, theirs.total)
        );
        let theirs = GitOptions::default();
        assert_eq!(settings.sync.pack_bytes, theirs.max_pack_bytes);
        assert_eq!(settings.sync.min_free_bytes, theirs.min_free_bytes);
        let theirs = grip_sync::Options::default();
        assert_eq!(settings.sync.loop_interval, theirs.loop_interval);
        assert_eq!(settings.sync.synced_delay, theirs.immediate);
        assert_eq!(settings.sync.tasks, theirs.max_tasks);
    }

    #[test]
    fn the_node_knows_itself_under_all_its_names() {
        let loaded = Fake::default()
            .env("NGIT_DOMAIN", "grasp.example.com")
            .env(
                "GRIPFAST_DOMAIN_ALIASES",
                "www.example.com,example.com:8443",
            )
            .env("NGIT_BIND_ADDRESS", "0.0.0.0:7334")
            .loaded();
        let settings = &loaded.settings;
        let options = way_out(settings, &settings.service, settings.bind_address);
        for url in [
            "https://grasp.example.com/x.git",
            "https://www.example.com/x.git",
            "https://example.com:8443/x.git",
            "http://localhost:7334/x.git",
        ] {
            let url = Url::parse(url).unwrap();
            assert!(
                options.own.iter().any(|own| own.has_authority(&url)),
                "{url}"
            );
        }
        let other = Url::parse("https://example.com/x.git").unwrap();
        assert!(!options.own.iter().any(|own| own.has_authority(&other)));
    }
}
