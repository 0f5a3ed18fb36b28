//! Metrics of sync and of the requests to remote hosts.

use std::{collections::BTreeMap, fmt};

use prometheus_client::encoding::DescriptorEncoder;

use super::collected::{Collected, counter, counters, gauge, gauges};
use crate::{Backend, RelayHealth, ReplicaStatus};

// A table: one metric a line.
#[rustfmt::skip]
impl Collected {
    /// A node that fetches nothing shows nothing of this: an absent series is no zero.
    pub(super) fn encode_sync(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Some(report) = self.sync.get() else {
            return Ok(());
        };
        let totals = report.totals();
        let shown = self.domains.look(report.hosts());
        let in_flight = shown.iter().map(|(name, s)| (name.as_str(), s.in_flight));
        let requests = shown.iter().map(|(name, s)| (name.as_str(), s.requests));
        let backend = report.backend();
        let is = |label| (label, u64::from(label == backend.label()));
        gauge(out, "purgatory_sync_running", "Identifiers whose data is being fetched", totals.running as u64)?;
        counter(out, "purgatory_sync_attempts", "Attempts to fetch the missing data of an identifier", totals.attempts_total)?;
        counter(out, "purgatory_sync_requests", "URLs asked for missing git data", totals.requests_total)?;
        counter(out, "purgatory_sync_oids_fetched", "Missing objects that were fetched", totals.oids_fetched_total)?;
        gauge(out, "purgatory_sync_slow", "Identifiers whose host is slow", totals.slow as u64)?;
        counter(out, "purgatory_sync_received_bytes", "Bytes received from other hosts for missing git data", totals.received_bytes_total)?;
        gauge(out, "purgatory_sync_download_used_bytes", "Bytes of the hourly download budget in use", totals.download_used_bytes)?;
        gauge(out, "purgatory_sync_download_limit_bytes", "The hourly download budget", totals.download_limit_bytes)?;
        gauge(out, "throttle_departed_hosts", "Hosts to be left alone that made room in the table of hosts", totals.departed_hosts as u64)?;
        gauges(out, "purgatory_domain_in_flight", "Requests under way by remote host", "domain", in_flight)?;
        counters(out, "purgatory_domain_requests", "Requests by remote host", "domain", requests)?;
        gauges(out, "throttle_backend", "Where the limits of remote hosts are counted: 1 for the one in use", "backend", Backend::LABELS.map(is))?;
        let (relays, followed) = (report.relays(), report.followed());
        let of = |health: RelayHealth| relays.iter().filter(|relay| relay.health == health).count() as u64;
        let fates = [
            ("taken", followed.events_taken_total),
            ("known", followed.events_known_total),
            ("refused", followed.events_refused_total),
            ("worthless", followed.events_worthless_total),
            ("failed", followed.events_failed_total),
            ("foreign", followed.events_foreign_total),
        ];
        let connected = relays.iter().filter(|relay| relay.next_attempt.is_none()).count();
        gauge(out, "ngit_sync_relays_tracked_total", "Relays that are followed", relays.len() as u64)?;
        gauge(out, "ngit_sync_relays_connected_total", "Relays that are connected", connected as u64)?;
        gauge(out, "ngit_sync_relays_dead_total", "Relays that have not been reached for a day", of(RelayHealth::Dead))?;
        gauges(out, "ngit_sync_relays", "Relays that are followed, by health", "health", RelayHealth::ALL.map(|health| (health.label(), of(health))))?;
        counter(out, "ngit_sync_connection_attempts", "Dials of relays", followed.dials_total)?;
        counter(out, "ngit_sync_connection_failures", "Dials of relays that failed", followed.dials_failed_total)?;
        counter(out, "ngit_sync_events_synced", "Events of relays that were taken and were not here before", followed.events_taken_total)?;
        counters(out, "ngit_sync_events", "Events that relays delivered, by what became of them", "fate", fates)?;
        let replication = report.replication();
        let by_status = |counts: &BTreeMap<String, u64>| ReplicaStatus::ALL.map(|status| (status.label(), counts.get(status.label()).copied().unwrap_or_default()));
        gauges(out, "replication_relay_replicas", "Listed relays of served repositories, by whether they have the effective state", "status", by_status(&replication.relays))?;
        gauges(out, "replication_git_replicas", "Listed clone URLs of served repositories, by whether they have the effective state", "status", by_status(&replication.git))?;
        gauge(out, "replication_repositories_alone", "Repositories that list other servers, none of which is known to have the effective state", replication.repositories_alone)?;
        gauge(out, "replication_longest_lag_seconds", "The longest time that a listed server lacks an effective state", replication.longest_lag_seconds)
    }
}
