//! Requests to other hosts: their limits per host and the addresses they may reach.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use anyhow::Context as _;
use grip_limits::{Limits, RedisOptions, Throttle};
use grip_tasks::TaskGroup;
use grip_types::{Domain, Service};

use super::follow;
use crate::config::{Settings, options::Sync, service_at};

/// What the limits of a host count over.
const MINUTE: Duration = Duration::from_secs(60);

/// Counts what every host is asked. `books` owns it and outlives all who ask, to take back permits.
pub(super) async fn throttle(settings: &Settings, books: &TaskGroup) -> anyhow::Result<Throttle> {
    let sync = &settings.sync;
    let hosts = settings.github_hosts();
    let mut options = limits(sync);
    let of_github = hosts.iter().filter_map(|it| Domain::of(&it.api));
    options.configured = of_github
        .chain(follow::configured_hosts(settings))
        .collect();
    // Where nobody is asked, nobody has to be reached to count.
    let asks = sync.sync_enabled || !hosts.is_empty();
    let Some(url) = sync.redis_url.as_ref().filter(|_| asks) else {
        return Ok(Throttle::memory(options));
    };
    let redis = RedisOptions {
        url: url.reveal().to_owned(),
        fallback_percent: sync.redis_fallback_percent,
        ..RedisOptions::default()
    };
    Throttle::redis(options, redis, books)
        .await
        .context("cannot count with Redis (redis_url)")
}

pub(super) fn limits(sync: &Sync) -> grip_limits::Options {
    let limits = |in_flight, per_window| Limits {
        in_flight,
        per_window,
        window: MINUTE,
    };
    let own = sync.sync_host_limits.iter();
    let overrides: BTreeMap<_, _> = own
        .map(|l| (l.host.clone(), limits(l.concurrent, l.per_minute)))
        .collect();
    grip_limits::Options {
        limits: limits(sync.sync_domain_concurrent, sync.sync_domain_rate_limit),
        overrides,
        network: limits(sync.sync_network_concurrent, sync.sync_network_rate_limit),
        ..grip_limits::Options::default()
    }
}

pub(super) fn egress_options(
    settings: &Settings,
    service: &Service,
    address: SocketAddr,
) -> grip_egress::Options {
    let sync = &settings.sync;
    let mut own = vec![service.clone()];
    own.extend(settings.reach.domain_aliases.iter().cloned());
    // Its own address leads to the node under any name.
    own.push(service_at(address, ""));
    grip_egress::Options {
        allow_non_global: sync.sync_allow_non_global_targets,
        own,
        own_address: Some(address),
        schemes: sync.sync_schemes.clone(),
        connect: sync.sync_connect_timeout,
        idle: sync.sync_idle_timeout,
        total: sync.sync_total_timeout,
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
        use grip_sync::GitOptions;

        let settings = Fake::default().loaded().settings;
        let theirs = grip_limits::Options::default();
        assert_eq!(limits(&settings.sync), theirs);
        let (ours, theirs) = (
            egress_options(&settings, &settings.service(), settings.reach.bind_address),
            grip_egress::Options::default(),
        );
        assert_eq!(ours.schemes, theirs.schemes);
        assert_eq!(
            (ours.connect, ours.idle, ours.total),
            (theirs.connect, theirs.idle, theirs.total)
        );
        let theirs = GitOptions::default();
        assert_eq!(settings.sync.sync_max_pack_bytes, theirs.max_pack_bytes);
        assert_eq!(settings.sync.sync_min_free_bytes, theirs.min_free_bytes);
        assert_eq!(settings.sync.sync_min_bytes_per_second, theirs.min_rate);
        let theirs = grip_sync::Options::default();
        let interval = Duration::from_millis(settings.sync.sync_loop_interval_ms);
        assert_eq!(interval, theirs.loop_interval);
        assert_eq!(settings.sync.sync_max_tasks, theirs.max_tasks);
        let (per_author, total) = (theirs.downloads.per_author, theirs.downloads.total);
        assert_eq!(settings.sync.sync_author_bytes_per_hour, per_author);
        assert_eq!(settings.sync.sync_bytes_per_hour, total);
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
        let options = egress_options(settings, &settings.service(), settings.reach.bind_address);
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
