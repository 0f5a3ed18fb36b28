//! Metrics of sync and of the requests to remote hosts.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;

use super::collected::{Collected, counter, counters, gauge, gauges};
use crate::Backend;

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
        gauges(out, "purgatory_domain_in_flight", "Requests under way by remote host", "domain", in_flight)?;
        counters(out, "purgatory_domain_requests", "Requests by remote host", "domain", requests)?;
        gauges(out, "throttle_backend", "Where the limits of remote hosts are counted: 1 for the one in use", "backend", Backend::LABELS.map(is))
    }
}
