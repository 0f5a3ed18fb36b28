//! The settings as options of each component: policy, HTTP edge, purgatory, relay.

use std::time::Duration;

use grip_git::{ContributorQuotas, Quota};
use grip_grasp::{ArchiveMode, Bounds, Keep, Lifecycle, Policy, PullRequestBytes, SyncDelays};
use grip_relay::{HourlyBytes, Limits, Rate, Rates};
use grip_store::Retention;
use grip_types::{NetworkPrefixes, Service};
use grip_web::{AdminToken, NodeInfo, WebLimits, WebSettings};

use super::identity::Identity;
use crate::config::{
    Settings,
    options::{Deletion, Timeouts},
};

/// What admission reads.
pub(super) fn policy(settings: &Settings, service: &Service, identity: &Identity) -> Policy {
    Policy {
        aliases: settings.reach.domain_aliases.clone(),
        former: Vec::new(),
        maintainer_rule: settings.acceptance.maintainer_rule,
        contributors: takes_contributions(settings),
        repository_whitelist: settings.acceptance.repository_whitelist.clone(),
        repository_blacklist: settings.acceptance.repository_blacklist.clone(),
        event_blacklist: settings.acceptance.event_blacklist.clone(),
        archive: settings.archive(),
        service_key: Some(identity.keys.public_key()),
        members: identity.members(),
        blacklist_auto_restore: settings.acceptance.blacklist_auto_restore,
        ignores_deletions: settings.deletion.deletion_request_disrespector,
        request_bytes_per_key: request_bytes_per_key(&settings.deletion),
        pull_request_bytes: PullRequestBytes {
            per_network: settings.limits.pull_request_max_bytes_per_address,
            per_author: settings.limits.pull_request_max_bytes_per_author,
            per_repository: settings.limits.pull_request_max_bytes_per_repository,
        },
        ..Policy::open(service.clone())
    }
}

fn request_bytes_per_key(deletion: &Deletion) -> Option<usize> {
    let bytes = deletion.deletion_request_max_bytes_per_key;
    (bytes > 0).then_some(bytes)
}

/// More requests a second than one address can make.
const BOUNDLESS: u32 = 50_000_000;

/// What the edge reads.
pub(super) fn web(settings: &Settings, service: &Service, identity: &Identity) -> WebSettings {
    let limits = &settings.limits;
    let http_rate = match limits.http_requests_per_second {
        0 => BOUNDLESS,
        rate => rate,
    };
    WebSettings {
        node: node(settings, identity),
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
        private: identity.access(settings, service),
        index_readers: readers(settings),
        ..WebSettings::new(service.clone())
    }
}

fn readers(settings: &Settings) -> Vec<AdminToken> {
    let tokens = settings.index.index_reader_token.iter();
    tokens
        .map(|token| AdminToken::new(token.reveal()))
        .collect()
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

fn node(settings: &Settings, identity: &Identity) -> NodeInfo {
    let curation = curation(settings);
    let own_key = identity.keys.public_key();
    let is_private = settings.acceptance.private_mode;
    NodeInfo {
        name: settings.relay_name(),
        description: settings.about.relay_description.clone(),
        contact: settings.about.relay_contact.clone(),
        icon: settings.about.relay_icon.clone(),
        owner: settings.owner().or(Some(own_key)),
        own_key: Some(own_key),
        repo_acceptance_criteria: match curation {
            _ if is_private => {
                "Repositories of members that list this service in clone and relays".to_owned()
            }
            Some(_) if settings.archive().read_only => READ_ONLY.to_owned(),
            Some(_) => "Only repositories that the operator chose".to_owned(),
            None => NodeInfo::default().repo_acceptance_criteria,
        },
        curation,
        ignores_deletions: settings.deletion.deletion_request_disrespector,
        grasps: grasps(settings),
    }
}

/// Which repositories a read-only archive takes from clients.
const READ_ONLY: &str = "Only repositories that this read-only archive mirrors";

/// What is chosen here beyond spam, in the words of other servers (G05-11).
fn curation(settings: &Settings) -> Option<String> {
    let archive = settings.archive();
    let chosen = match archive.mode {
        Some(ArchiveMode::All) if archive.read_only => {
            Some("Read-only sync of all repositories found on network")
        }
        Some(ArchiveMode::Listed(_)) if archive.read_only => {
            Some("Read-only sync of whitelisted repositories and maintainers")
        }
        Some(ArchiveMode::Services(_)) if archive.read_only => {
            Some("Read-only sync of repositories on selected grasp servers")
        }
        _ if !settings.acceptance.repository_whitelist.is_empty() => {
            Some("Accepts only whitelisted repositories and maintainers that list this service")
        }
        _ => None,
    };
    let kept = settings.deletion.deletion_request_disrespector;
    let kept = kept.then_some("Deletion requests are kept and delete nothing");
    let said: Vec<&str> = chosen.into_iter().chain(kept).collect();
    (!said.is_empty()).then(|| said.join(". "))
}

/// The numbers of the GRASP documents that are on.
fn grasps(settings: &Settings) -> Vec<u8> {
    let documents = [
        (1, true),
        (2, settings.sync.sync_enabled),
        (3, uses_lists(settings)),
        (5, settings.archive().mode.is_some()),
        (6, takes_contributions(settings)),
        (8, settings.acceptance.private_mode),
    ];
    let is_on = documents.into_iter().filter(|(_, is_on)| *is_on);
    is_on.map(|(document, _)| document).collect()
}

/// Says whether lists of participants are looked up and followed (GRASP-03): they name relays that would
/// learn what a private service has, and become its members (G08-14).
pub(super) fn uses_lists(settings: &Settings) -> bool {
    let sync = &settings.sync;
    sync.sync_enabled && sync.sync_plus_enabled && !settings.acceptance.private_mode
}

/// Says whether pull requests are hosted below `/prs/`; a read-only archive takes no pushes (G05-8).
fn takes_contributions(settings: &Settings) -> bool {
    settings.contributors.grasp06_enable && !settings.archive().read_only
}

/// What may be kept in contributor repositories.
pub(super) fn contributor_quotas(settings: &Settings) -> ContributorQuotas {
    let quotas = &settings.contributors;
    ContributorQuotas {
        per_address: Quota {
            bytes: quotas.prs_max_bytes_per_address,
            refs: quotas.prs_max_refs_per_address,
        },
        per_key: Quota {
            bytes: quotas.prs_max_bytes_per_key,
            refs: quotas.prs_max_refs_per_key,
        },
        per_target: Quota {
            bytes: quotas.prs_max_bytes_per_target,
            refs: quotas.prs_max_refs_per_target,
        },
    }
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
        deletion_request_max_bytes_per_key: _,
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
        // One event of any length that is taken has room.
        per_author_bytes: limits
            .purgatory_max_bytes_per_author
            .max(settings.message_bytes().saturating_mul(2)),
        per_identifier: limits.purgatory_max_per_identifier,
        per_identifier_bytes: limits.purgatory_max_bytes_per_identifier,
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

/// How long what nobody needs stays on disk.
pub(crate) fn keep(settings: &Settings) -> Keep {
    Keep {
        unreachable: settings.storage.keep_unreachable,
    }
}

/// The bounds of the relay.
pub(crate) fn relay(settings: &Settings) -> Limits {
    let (limits, message_bytes) = (&settings.limits, settings.message_bytes());
    let defaults = Limits::default();
    let mut state = defaults.state;
    state.bytes = message_bytes;
    let mut event = defaults.event;
    event.bytes = limits.relay_max_event_size_bytes.min(state.bytes);
    // What an operator chose counts for filters without a limit too, as for ngit-grasp.
    let default_limit = if limits.relay_filter_limit == defaults.max_limit {
        defaults.default_limit
    } else {
        limits.relay_filter_limit
    };
    Limits {
        message_bytes,
        state,
        event,
        // As many messages of the longest as with the defaults.
        outbound_bytes: defaults.outbound_bytes.max(message_bytes.saturating_mul(4)),
        in_flight_bytes: defaults
            .in_flight_bytes
            .max(message_bytes.saturating_mul(2)),
        subscriptions: limits.relay_max_subscriptions,
        max_limit: limits.relay_filter_limit,
        default_limit,
        connection_rates: rates(
            limits.relay_events_per_second,
            limits.relay_requests_per_second,
        ),
        address_rates: rates(
            limits.relay_events_per_second.saturating_mul(2),
            limits.relay_requests_per_second.saturating_mul(5),
        ),
        memory_bytes: limits.relay_memory_bytes,
        in_flight_bytes_total: limits.relay_in_flight_bytes,
        query_steps: limits.relay_query_steps,
        query_time: limits.relay_query_time,
        unrelated_bytes: HourlyBytes {
            per_hour: limits.relay_unrelated_bytes_per_hour,
            burst: settings.unrelated_burst_bytes(),
        },
        related_bytes: HourlyBytes {
            per_hour: limits.relay_related_bytes_per_hour,
            burst: limits.relay_related_burst_bytes,
        },
        synced_bytes: HourlyBytes {
            per_hour: limits.relay_synced_bytes_per_hour,
            burst: limits.relay_synced_burst_bytes,
        },
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
    use crate::config::tests::Fake;

    #[test]
    fn bytes_of_deletion_requests_are_bounded_by_key_unless_that_is_lifted() {
        let bound = |value: &str| {
            let fake = Fake::default().env("GRIPFAST_DELETION_REQUEST_MAX_BYTES_PER_KEY", value);
            request_bytes_per_key(&fake.loaded().settings.deletion)
        };
        let service = Service::parse("git.example").unwrap();
        let usual = request_bytes_per_key(&Fake::default().loaded().settings.deletion);
        assert_eq!(usual, Policy::open(service).request_bytes_per_key);
        assert_eq!((bound("5000"), bound("0")), (Some(5_000), None));
    }

    #[test]
    fn every_time_of_the_lifecycle_is_that_of_its_setting() {
        let names = [
            "HOLDING_RETENTION_SECS",
            "HOLDING_CLEANUP_INTERVAL_SECS",
            "DELETION_REQUEST_RETENTION_UNUSED_SERVED_SECS",
            "DELETION_REQUEST_RETENTION_UNUSED_UNSERVED_GATING_ADDITIONAL_SECS",
            "DELETION_REQUEST_RETENTION_USED_SERVED_AFTER_LAST_USED_SECS",
            "DELETION_REQUEST_RETENTION_USED_UNSERVED_GATING_ADDITIONAL_SECS",
        ];
        let fake = names
            .iter()
            .zip(1..)
            .fold(Fake::default(), |fake, (name, n)| {
                fake.env(&format!("NGIT_{name}"), &n.to_string())
            });
        let Lifecycle {
            retention,
            holding,
            every,
        } = lifecycle(&fake.loaded().settings);
        let found = [
            holding,
            every,
            retention.unused_served,
            retention.unused_gating,
            retention.used_served,
            retention.used_gating,
        ];
        assert_eq!(found.map(|it| it.as_secs()), [1, 2, 3, 4, 5, 6]);
    }

    /// G01-11
    #[test]
    fn events_may_be_as_large_as_for_ngit_grasp_and_never_larger_than_a_message() {
        let relay = |name: &str, bytes: &str| {
            let limits = relay(&Fake::default().env(name, bytes).loaded().settings);
            (limits.event.bytes, limits.message_bytes)
        };
        let name = "NGIT_RELAY_MAX_EVENT_SIZE_BYTES";
        assert_eq!(relay(name, ""), (196_608, 2 << 20));
        assert_eq!(relay(name, "1 MiB"), (1 << 20, 2 << 20));
        assert_eq!(relay(name, "5 MiB"), (5 << 20, (5 << 20) + 1024));
        let name = "GRIPFAST_RELAY_MAX_MESSAGE_BYTES";
        assert_eq!(relay(name, "64 KiB"), (64 << 10, 64 << 10));
    }

    /// Whatever one event takes of a share fits into the share.
    #[test]
    fn shares_grow_with_the_largest_event() {
        let largest = Fake::default().env("NGIT_RELAY_MAX_EVENT_SIZE_BYTES", "5 MiB");
        let settings = largest.loaded().settings;
        let limits = relay(&settings);
        assert_eq!(limits.outbound_bytes, 4 * limits.message_bytes);
        assert_eq!(limits.in_flight_bytes, 2 * limits.message_bytes);
        assert_eq!(limits.unrelated_bytes.burst, 10 << 20);
        assert!(limits.related_bytes.burst as usize > 2 * limits.message_bytes);
        assert!(bounds(&settings).per_author_bytes >= 2 * limits.message_bytes);
        let (usual, defaults) = (relay(&Fake::default().loaded().settings), Limits::default());
        assert_eq!(usual.outbound_bytes, defaults.outbound_bytes);
        assert_eq!(usual.in_flight_bytes, defaults.in_flight_bytes);
        assert_eq!(usual.unrelated_bytes, defaults.unrelated_bytes);
    }

    /// G08-14, G05-8
    #[test]
    fn what_a_service_does_not_do_it_does_not_advertise() {
        let fake = |pairs: &[(&str, &str)]| {
            let fake = pairs.iter().fold(Fake::default(), |fake, (name, text)| {
                fake.env(&format!("NGIT_{name}"), text)
            });
            grasps(&fake.loaded().settings)
        };
        let plus = ("SYNC_PLUS_ENABLED", "true");
        assert_eq!(fake(&[plus]), [1, 2, 3]);
        let npub = "npub10xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqpkge6d";
        let private = [plus, ("PRIVATE_MODE", "true"), ("PRIVATE_MEMBERS", npub)];
        assert_eq!(
            fake(&private),
            [1, 2, 8],
            "lists of participants are not followed"
        );
        let prs = ("GRASP06_ENABLE", "true");
        assert_eq!(fake(&[prs]), [1, 2, 6]);
        let archive = [prs, ("ARCHIVE_ALL", "true")];
        assert_eq!(
            fake(&archive),
            [1, 2, 5],
            "a read-only archive takes no pushes"
        );
    }

    #[test]
    fn what_the_table_says_of_shares_reaches_the_relay_and_the_purgatory() {
        let loaded = |pairs: &[(&str, &str)]| {
            let fake = pairs.iter().fold(Fake::default(), |fake, (name, text)| {
                fake.env(&format!("GRIPFAST_{name}"), text)
            });
            fake.loaded().settings
        };
        let usual = loaded(&[]);
        let (relay_limits, usual_bounds) = (relay(&usual), bounds(&usual));
        let defaults = Limits::default();
        assert_eq!(relay_limits.memory_bytes, defaults.memory_bytes);
        assert_eq!(
            relay_limits.in_flight_bytes_total,
            defaults.in_flight_bytes_total
        );
        assert_eq!(relay_limits.query_steps, defaults.query_steps);
        assert_eq!(relay_limits.query_time, defaults.query_time);
        assert_eq!(relay_limits.unrelated_bytes, defaults.unrelated_bytes);
        assert_eq!(relay_limits.related_bytes, defaults.related_bytes);
        assert_eq!(relay_limits.synced_bytes, defaults.synced_bytes);
        assert_eq!(contributor_quotas(&usual), ContributorQuotas::default());
        let of_purgatory = Bounds::default();
        assert_eq!(usual_bounds.per_author_bytes, of_purgatory.per_author_bytes);
        assert_eq!(
            usual_bounds.per_identifier_bytes,
            of_purgatory.per_identifier_bytes
        );
        assert_eq!(keep(&usual), Keep::default());
        let other = loaded(&[
            ("RELAY_MEMORY_BYTES", "64 MiB"),
            ("RELAY_UNRELATED_BYTES_PER_HOUR", "0"),
            ("PURGATORY_MAX_BYTES_PER_IDENTIFIER", "8 MiB"),
            ("KEEP_UNREACHABLE", "2h"),
        ]);
        assert_eq!(relay(&other).memory_bytes, 64 << 20);
        assert_eq!(relay(&other).unrelated_bytes.per_hour, 0);
        assert_eq!(bounds(&other).per_identifier_bytes, 8 << 20);
        assert_eq!(keep(&other).unreachable, Duration::from_secs(7200));
    }

    #[test]
    fn the_defaults_of_the_table_are_those_of_the_relay() {
        let expected = Limits::default().connection_rates;
        assert_eq!(rates(1000, 200), expected);
        assert_eq!(rates(0, 200).messages, Rate::OFF);
    }
}
