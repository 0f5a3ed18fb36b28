//! The settings as options of each component: policy, HTTP edge, purgatory, relay.

use std::time::Duration;

use grip_grasp::{Bounds, Lifecycle, Policy, SyncDelays};
use grip_relay::{Limits, Rate, Rates};
use grip_store::Retention;
use grip_types::{NetworkPrefixes, Service};
use grip_web::{NodeInfo, WebLimits, WebSettings};

use crate::config::{
    Settings,
    options::{Deletion, Timeouts},
};

/// What admission reads.
pub(crate) fn policy(settings: &Settings, service: &Service) -> Policy {
    Policy {
        aliases: settings.reach.domain_aliases.clone(),
        former: Vec::new(),
        maintainer_rule: settings.acceptance.maintainer_rule,
        repository_whitelist: settings.acceptance.repository_whitelist.clone(),
        repository_blacklist: settings.acceptance.repository_blacklist.clone(),
        event_blacklist: settings.acceptance.event_blacklist.clone(),
        blacklist_auto_restore: settings.acceptance.blacklist_auto_restore,
        ignores_deletions: settings.deletion.deletion_request_disrespector,
        ..Policy::open(service.clone())
    }
}

/// More requests a second than one address can make.
const BOUNDLESS: u32 = 50_000_000;

/// What the edge reads.
pub(crate) fn web(settings: &Settings, service: &Service) -> WebSettings {
    let limits = &settings.limits;
    let http_rate = match limits.http_requests_per_second {
        0 => BOUNDLESS,
        rate => rate,
    };
    WebSettings {
        node: node(settings),
        limits: WebLimits {
            connections: limits.max_connections,
            connections_per_ip: limits.max_connections_per_ip,
            networks: networks(settings),
            requests_per_second: http_rate,
            request_burst: http_rate.saturating_mul(10),
            fetch: limits.max_fetches,
            push: limits.max_pushes,
            websocket: limits.max_connections,
            ..WebLimits::default()
        },
        timeouts: grip_web::Timeouts {
            transfer_bytes_per_second: limits.transfer_min_bytes_per_second,
            ..timeouts(&settings.timeouts)
        },
        trusted_proxies: settings.reach.trusted_proxy_cidrs.clone(),
        metrics: settings.logs.metrics_enabled,
        ..WebSettings::new(service.clone())
    }
}

fn timeouts(timeouts: &Timeouts) -> grip_web::Timeouts {
    grip_web::Timeouts {
        header: timeouts.header_timeout,
        idle: timeouts.idle_timeout,
        body_stall: timeouts.stall_timeout,
        transfer: timeouts.transfer_deadline,
        write_stall: timeouts.stall_timeout,
        ..grip_web::Timeouts::default()
    }
}

fn node(settings: &Settings) -> NodeInfo {
    let open = NodeInfo::default();
    let curated = !settings.acceptance.repository_whitelist.is_empty();
    NodeInfo {
        name: settings.relay_name(),
        description: settings.about.relay_description.clone(),
        contact: settings.about.relay_contact.clone(),
        icon: settings.about.relay_icon.clone(),
        owner: settings.owner(),
        repo_acceptance_criteria: if curated {
            "Only repositories that the operator chose".to_owned()
        } else {
            open.repo_acceptance_criteria.clone()
        },
        curation: curation(settings),
        ignores_deletions: settings.deletion.deletion_request_disrespector,
        grasps: grasps(settings),
        ..open
    }
}

fn curation(settings: &Settings) -> Option<String> {
    let chosen = !settings.acceptance.repository_whitelist.is_empty();
    let chosen = chosen.then_some("Repositories are chosen by the operator");
    let kept = settings.deletion.deletion_request_disrespector;
    let kept = kept.then_some("Deletion requests are kept and delete nothing");
    let said: Vec<&str> = chosen.into_iter().chain(kept).collect();
    (!said.is_empty()).then(|| said.join(". "))
}

/// The numbers of the GRASP documents that are on.
fn grasps(settings: &Settings) -> Vec<u8> {
    let follows = settings.sync.sync_enabled.then_some(2);
    [1].into_iter().chain(follows).collect()
}

/// How long what was taken back is remembered and kept.
pub(crate) fn lifecycle(settings: &Settings) -> Lifecycle {
    let seconds = Duration::from_secs;
    let Deletion {
        holding_retention_secs,
        holding_cleanup_interval_secs,
        deletion_request_retention_unused_served_secs: unused_served,
        deletion_request_retention_unused_unserved_gating_additional_secs: unused_gating,
        deletion_request_retention_used_served_after_last_used_secs: used_served,
        deletion_request_retention_used_unserved_gating_additional_secs: used_gating,
        deletion_request_disrespector: _,
    } = settings.deletion;
    Lifecycle {
        retention: Retention {
            unused_served: seconds(unused_served),
            unused_gating: seconds(unused_gating),
            used_served: seconds(used_served),
            used_gating: seconds(used_gating),
        },
        holding: seconds(holding_retention_secs),
        every: seconds(holding_cleanup_interval_secs),
    }
}

/// How much waits for git data, and how long.
pub(crate) fn bounds(settings: &Settings) -> Bounds {
    let (limits, timeouts) = (&settings.limits, &settings.timeouts);
    Bounds {
        per_author: limits.purgatory_max_per_author,
        per_author_bytes: limits.relay_max_message_bytes.saturating_mul(8),
        per_identifier: limits.purgatory_max_per_identifier,
        total: limits.purgatory_max_entries,
        total_bytes: limits.purgatory_max_bytes,
        lifetime: timeouts.purgatory_lifetime,
        placeholder_lifetime: timeouts.orphan_ref_lifetime,
        wanted: settings.sync.wanted_max,
        wanted_lifetime: settings.sync.wanted_lifetime,
        wanted_interval: settings.sync.wanted_interval,
        sync_delays: SyncDelays {
            submitted: Duration::from_secs(settings.sync.sync_default_delay_secs),
            synced: Duration::from_millis(settings.sync.sync_immediate_delay_ms),
        },
        ..Bounds::default()
    }
}

/// The bounds of the relay.
pub(crate) fn relay(settings: &Settings) -> Limits {
    let limits = &settings.limits;
    let defaults = Limits::default();
    let mut state = defaults.state;
    state.bytes = limits.relay_max_message_bytes;
    Limits {
        message_bytes: limits.relay_max_message_bytes,
        state,
        subscriptions: limits.relay_max_subscriptions,
        max_limit: limits.relay_filter_limit,
        default_limit: defaults.default_limit.min(limits.relay_filter_limit),
        connection_rates: rates(
            limits.relay_events_per_second,
            limits.relay_requests_per_second,
        ),
        address_rates: rates(
            limits.relay_events_per_second.saturating_mul(2),
            limits.relay_requests_per_second.saturating_mul(5),
        ),
        networks: networks(settings),
        ..defaults
    }
}

/// Which client addresses count as one.
fn networks(settings: &Settings) -> NetworkPrefixes {
    NetworkPrefixes {
        ipv4: settings.limits.client_ipv4_prefix,
        ipv6: settings.limits.client_ipv6_prefix,
    }
}

/// Messages of all types together are bounded where both of their main types are: `EVENT` and `REQ`
/// once each, and four `CLOSE` or other messages for every query.
fn rates(events: u32, queries: u32) -> Rates {
    let messages = match (events, queries) {
        (0, _) | (_, 0) => 0,
        _ => events.saturating_add(queries.saturating_mul(5)),
    };
    Rates {
        events: rate(events),
        requests: rate(queries),
        messages: rate(messages),
    }
}

fn rate(per_second: u32) -> Rate {
    match per_second {
        0 => Rate::OFF,
        n => Rate::new(n, n.saturating_mul(10)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_of_the_table_are_those_of_the_relay() {
        let expected = Limits::default().connection_rates;
        assert_eq!(rates(1000, 200), expected);
        assert_eq!(rates(0, 200).messages, Rate::OFF);
    }
}
