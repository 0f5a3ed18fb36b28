//! The limits of connections, requests and held events.

use crate::config::{
    kinds::{Bytes, MemoryBytes, Positive, Rate},
    option::options,
};

options! {
    /// Limits of connections, requests and held events.
    Limits: "Limits" {
        /// Largest pack that a push may carry.
        max_pack_bytes: Bytes = "2 GiB", common;
        /// Bytes of pull requests from one address whose events have not come yet.
        staged_max_bytes_per_address: Bytes = "256 MiB";
        /// Bytes of pull requests to all repositories of one name whose events have not come yet.
        staged_max_bytes_per_identifier: Bytes = "512 MiB";
        /// Most connections at once.
        max_connections: Positive = "4096", ngit, live;
        /// Most connections at once from one address; IPv6 by /64.
        max_connections_per_ip: Positive = "256", live;
        /// Most pushes under way; a git process each.
        max_pushes: Positive = "64";
        /// Most fetches under way; a git process each.
        max_fetches: Positive = "64";
        /// Requests a second that one address may make for long; ten times as many in one go. 0
        /// lifts the limit.
        http_requests_per_second: Rate = "100";
        /// Events a second that one connection may send for long, and twice as many one address;
        /// ten times as many in one go. 0 lifts the limit.
        relay_events_per_second: Rate = "1000";
        /// Queries a second that one connection may make for long, and five times as many one
        /// address; ten times as many in one go. 0 lifts the limit.
        relay_requests_per_second: Rate = "200";
        /// Longest message and longest state event; one with 20,000 refs takes about 1.6 MB.
        relay_max_message_bytes: MemoryBytes = "2 MiB";
        /// Most open subscriptions of one connection.
        relay_max_subscriptions: Positive = "300", ngit;
        /// Most stored events that one filter brings.
        relay_filter_limit: Positive = "5000", ngit;
        /// Most events that wait for git data.
        purgatory_max_entries: Positive = "50000";
        /// Most bytes of such events.
        purgatory_max_bytes: MemoryBytes = "256 MiB";
        /// Most such events of one author.
        purgatory_max_per_author: Positive = "100";
        /// Most such events for one repository identifier.
        purgatory_max_per_identifier: Positive = "200";
    }
}
