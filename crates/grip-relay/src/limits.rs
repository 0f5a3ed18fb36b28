//! Every bound of the engine in one place, so that NIP-11 can state them truthfully.

use std::time::Duration;

use grip_nostr::Deletion;
use grip_types::NetworkPrefixes;

/// What a message takes beside its event: `["EVENT",]`, and a few blanks.
pub const EVENT_FRAME_BYTES: usize = 16;

/// The refusal of filters beyond [`Limits::subscription_bytes`]. Waiting does not help against it, and so
/// a node that follows tells it from the refusals by rate.
pub const SUBSCRIPTIONS_TOO_LARGE: &str =
    "rate-limited: the filters of your subscriptions take too much memory; close some first";

/// The bounds of a relay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Longest text frame; a state event of 20,000 refs takes about 1.6 MB.
    pub message_bytes: usize,
    /// Longest event, and most tags of one, for kind 30618.
    pub state: EventLimits,
    /// The same for all other kinds.
    pub event: EventLimits,
    /// Events and addresses that one event may refer to by `e`, `E`, `a`, `A` and `q`, each counted
    /// once: all of them are looked up before it is stored.
    pub references: usize,
    /// The same for a deletion request, whose targets they are (NIP-09). As many tags beyond those of
    /// `event` may name them.
    pub deletion_targets: usize,
    /// How far `created_at` may lie ahead of our clock.
    pub future: Duration,
    /// Longest subscription id in characters. NIP-01 says 64; clients with longer ones exist.
    pub subscription_id_chars: usize,
    /// Open subscriptions per connection; more are refused with `CLOSED`.
    pub subscriptions: usize,
    /// Filters per REQ or COUNT; more are refused with `CLOSED`.
    pub filters: usize,
    /// What all filters of a connection may cost, those that wait for their turn included; what
    /// exceeds it is refused with `CLOSED`.
    pub subscription_bytes: usize,
    /// REQ, COUNT and NIP-77 messages of a connection that wait for their turn; reading stops at
    /// the bound.
    pub waiting_requests: usize,
    /// Memory of all connections for what waits to be sent, is subscribed to or half received. One
    /// network of clients has an eighth of what is free.
    pub memory_bytes: usize,
    /// Index entries that one query may look at; beyond it is ended with `CLOSED` or `NEG-ERR`.
    pub query_steps: u64,
    /// How long one query may be worked on, its waiting not counted, with the same end.
    pub query_time: Duration,
    /// Stored events per filter that names no `limit`.
    pub default_limit: usize,
    /// Stored events per filter at most; a larger `limit` is clamped.
    pub max_limit: usize,
    /// Stored events of one REQ over all its filters; what is older is left out.
    pub max_results: usize,
    /// What may wait to be sent to one connection. A live event that does not fit cuts the
    /// connection; answers to its own messages wait, and then so does reading from it.
    pub outbound_bytes: usize,
    /// Events of one connection that are read and not yet answered; reading stops at the bound.
    pub in_flight_events: usize,
    /// Bytes of those.
    pub in_flight_bytes: usize,
    /// Bytes of those over all connections; one network of clients has an eighth of what is free.
    pub in_flight_bytes_total: usize,
    /// Events that wait for the policy's `settle` at once, over all connections, shared out in the
    /// same way; others queue.
    pub settling: usize,
    /// Requests to the writer that may wait; at the bound the sessions wait.
    pub write_queue: usize,
    /// Open NIP-77 exchanges per connection.
    pub reconciliations: usize,
    /// Records one NIP-77 exchange may cover.
    pub reconciliation_records: usize,
    /// Records of all open exchanges of all connections, shared out in the same way.
    pub reconciliation_records_total: usize,
    /// How long an exchange may rest.
    pub reconciliation_idle: Duration,
    /// Longest NIP-77 message of ours in bytes before it becomes hex.
    pub reconciliation_frame_bytes: usize,
    /// How often a connection is pinged; one that takes nothing for two pings is cut.
    pub ping_every: Duration,
    /// A connection that is silent for so long, pongs included, is closed.
    pub idle: Duration,
    /// Per connection.
    pub connection_rates: Rates,
    /// Per network of clients.
    pub address_rates: Rates,
    /// Bytes of events that need no relation to anything served, per network of clients.
    pub unrelated_bytes: HourlyBytes,
    /// Bytes of events that relate to something served and wait for no data, likewise.
    pub related_bytes: HourlyBytes,
    /// Bytes of events that were read from relays, per network of relays.
    pub synced_bytes: HourlyBytes,
    /// Which addresses are one network.
    pub networks: NetworkPrefixes,
}

/// What one event may measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventLimits {
    pub bytes: usize,
    pub tags: usize,
}

/// How much may come in over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    pub events: Rate,
    /// REQ, COUNT, NEG-OPEN and NEG-MSG.
    pub requests: Rate,
    /// Messages of any type.
    pub messages: Rate,
}

/// A token bucket of bytes; `per_hour` 0 switches it off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HourlyBytes {
    pub per_hour: u32,
    pub burst: u32,
}

/// A token bucket; `per_second` 0 switches it off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub per_second: u32,
    pub burst: u32,
}

impl Rate {
    pub const OFF: Self = Self {
        per_second: 0,
        burst: 0,
    };

    pub const fn new(per_second: u32, burst: u32) -> Self {
        Self { per_second, burst }
    }
}

impl Rates {
    pub const OFF: Self = Self {
        events: Rate::OFF,
        requests: Rate::OFF,
        messages: Rate::OFF,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: 2 << 20,
            state: EventLimits {
                bytes: 2 << 20,
                tags: 25_000,
            },
            event: EventLimits {
                bytes: 192 << 10,
                tags: 2_000,
            },
            references: 500,
            deletion_targets: Deletion::MAX_TARGETS,
            future: Duration::from_secs(900),
            subscription_id_chars: 250,
            subscriptions: 300,
            filters: 200,
            subscription_bytes: 8 << 20,
            waiting_requests: 512,
            memory_bytes: 512 << 20,
            query_steps: 2_000_000,
            query_time: Duration::from_secs(10),
            default_limit: 500,
            max_limit: 5_000,
            max_results: 20_000,
            outbound_bytes: 8 << 20,
            in_flight_events: 256,
            in_flight_bytes: 4 << 20,
            in_flight_bytes_total: 256 << 20,
            settling: 256,
            write_queue: 1_024,
            reconciliations: 10,
            reconciliation_records: 500_000,
            reconciliation_records_total: 4_000_000,
            reconciliation_idle: Duration::from_secs(60),
            reconciliation_frame_bytes: 500_000,
            ping_every: Duration::from_secs(45),
            idle: Duration::from_secs(120),
            connection_rates: Rates {
                events: Rate::new(1_000, 10_000),
                requests: Rate::new(200, 2_000),
                messages: Rate::new(2_000, 20_000),
            },
            address_rates: Rates {
                events: Rate::new(2_000, 20_000),
                requests: Rate::new(1_000, 5_000),
                messages: Rate::new(5_000, 50_000),
            },
            unrelated_bytes: HourlyBytes {
                per_hour: 64 << 10,
                burst: 1 << 20,
            },
            related_bytes: HourlyBytes {
                per_hour: 32 << 20,
                burst: 32 << 20,
            },
            synced_bytes: HourlyBytes {
                per_hour: 256 << 20,
                burst: 2 << 30,
            },
            networks: NetworkPrefixes::default(),
        }
    }
}
