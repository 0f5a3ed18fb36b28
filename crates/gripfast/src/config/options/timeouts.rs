//! The timeouts of connections and of held events.

use std::time::Duration;

use crate::config::option::options;

options! {
    /// Timeouts of connections and of held events.
    Timeouts: "Timeouts" {
        /// How long work under way may go on after SIGTERM before it is cut.
        drain_deadline: Duration = "5s", live;
        /// How long a client may send or take nothing in the middle of a push, fetch or answer.
        stall_timeout: Duration = "60s";
        /// How long a connection may rest between requests.
        idle_timeout: Duration = "60s", live;
        /// How long a client may take to send its headers.
        header_timeout: Duration = "10s", live;
        /// How long an event waits for its git data; GRASP-01 says 30 minutes.
        purgatory_lifetime: Duration = "30m";
        /// How long a pushed `refs/nostr/…` waits for its event; GRASP-01 says 20 minutes.
        orphan_ref_lifetime: Duration = "20m";
        /// How often what has waited too long is looked for.
        purgatory_sweep_interval: Duration = "60s";
    }
}
