//! Metrics under the names operators know.
//!
//! Labels come from sets written in the source: no path, key, id or address is ever one. The one
//! exception are remote hosts, of which a fixed number is named (`domains`).

mod cached_count;
mod collected;
mod database_samples;
mod domains;
mod ingest;
mod process;
mod resolver;
mod sync;

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use grip_index::Reader;
use grip_tasks::Live;
use http::StatusCode;
use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{
        counter::Counter,
        family::{Family, MetricConstructor},
        gauge::{ConstGauge, Gauge},
        histogram::Histogram,
    },
    registry::Registry,
};
use tokio::time::Instant;

use self::collected::ForReader;
pub(crate) use self::{collected::Collected, database_samples::DatabaseSamples, domains::Domains};
use crate::{
    limits::{Class, Full},
    server::Verdict,
};

/// The release this is, for `/version`, NIP-11 and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Build {
    pub version: &'static str,
    /// The commit it was built from, if the build knew.
    pub commit: Option<&'static str>,
}

impl Build {
    /// `0.1.0` or `0.1.0+1a2b3c4`.
    pub(crate) fn full_version(&self) -> String {
        match self.commit {
            Some(commit) => format!("{}+{}", self.version, short(commit)),
            None => self.version.to_owned(),
        }
    }
}

fn short(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}

/// Defines sets of labels whose values are written in the source.
macro_rules! labels {
    ($($name:ident { $($label:ident),* })*) => {$(
        #[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
        struct $name {
            $($label: &'static str,)*
        }
    )*};
}

labels! {
    Request { route, status }
    Route { route }
    Reason { reason }
    Op { op }
    GitOperation { operation, status }
    Operation { operation }
    Outcome { result }
    Delivered { outcome }
    Direction { direction }
    BuildLabels { version, commit }
}

/// Makes histograms with one set of buckets.
#[derive(Clone)]
struct Buckets(&'static [f64]);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

/// For whom the text is made.
const READERS: [Reader; 2] = [Reader::Anybody, Reader::All];

fn place(reader: Reader) -> usize {
    usize::from(reader == Reader::All)
}

/// How often the text is made for strangers.
const RENDER_INTERVAL: Duration = Duration::from_secs(1);

const ANSWER_SECONDS: Buckets = Buckets(&[0.0005, 0.002, 0.01, 0.05, 0.2, 1.0, 5.0, 30.0, 300.0]);

const SOCKET_SECONDS: [f64; 8] = [1.0, 5.0, 15.0, 30.0, 60.0, 300.0, 900.0, 3600.0];

/// Defines the metrics that requests write, with their names and help in the registry.
macro_rules! metrics {
    ($($field:ident: $type:ty = $value:expr, $name:literal, $help:literal;)*) => {
        /// The metrics that requests write, and the registry that prints them all.
        pub(crate) struct Metrics {
            registry: Registry,
            /// Figures of other parts, as each reader may see them.
            collected: [Registry; READERS.len()],
            /// The last text for each, and when it was made.
            recent: [Live<(Option<Instant>, Bytes)>; READERS.len()],
            $($field: $type,)*
        }

        impl Metrics {
            fn registered() -> Self {
                let mut registry = Registry::default();
                $(let $field: $type = $value;
                registry.register($name, $help, $field.clone());)*
                Self {
                    registry,
                    collected: Default::default(),
                    recent: READERS.map(|_| Live::new((None, Bytes::new()))),
                    $($field,)*
                }
            }
        }
    };
}

metrics! {
    requests: Family<Request, Counter> = Family::default(),
        "http_requests", "Answered requests";
    latency: Family<Route, Histogram, Buckets> = Family::new_with_constructor(ANSWER_SECONDS),
        "request_latency_seconds", "From the head of a request to the head of its answer";
    busy: Family<Route, Counter> = Family::default(),
        "busy_rejections", "Requests refused because all slots of their route were taken";
    rejected: Family<Reason, Counter> = Family::default(),
        "rejected", "Connections and requests refused by a bound per address or in total";
    cut: Family<Reason, Counter> = Family::default(),
        "connections_cut", "Connections closed because the client kept us waiting";
    timeouts: Family<Op, Counter> = Family::default(),
        "io_timeouts", "What was given up because it took too long, by route or by what was waited for";
    git_operations: Family<GitOperation, Counter> = Family::default(),
        "ngit_git_operations", "Git operations by type and status";
    git_seconds: Family<Operation, Histogram, Buckets> = Family::new_with_constructor(ANSWER_SECONDS),
        "ngit_git_operation_duration_seconds", "Duration of git operations to the last byte";
    git_bytes: Family<Direction, Counter> = Family::default(),
        "ngit_git_bytes", "Bytes of git requests and answers";
    pushes: Family<Outcome, Counter> = Family::default(),
        "ngit_git_push_authorization", "Pushes carried out, and those that were not";
    socket_seconds: Histogram = Histogram::new(SOCKET_SECONDS),
        "ngit_websocket_connection_duration_seconds", "Duration of WebSocket connections";
    deliveries: Family<Delivered, Counter> = Family::default(),
        "webhook_deliveries", "Deliveries of GitHub's webhooks, by what became of them";
}

/// A git operation, as operators of the peer know them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GitOp {
    Advertise,
    Fetch,
    Push,
}

impl GitOp {
    fn label(self) -> &'static str {
        match self {
            Self::Advertise => "advertise",
            Self::Fetch => "fetch",
            Self::Push => "push",
        }
    }
}

impl Metrics {
    pub(crate) fn new(build: &Build, collected: Collected) -> Self {
        let mut metrics = Self::registered();
        let build_info: Family<BuildLabels, Gauge> = Family::default();
        let (version, commit) = (build.version, build.commit.unwrap_or("unknown"));
        build_info
            .get_or_create(&BuildLabels { version, commit })
            .set(1);
        let (registry, started) = (&mut metrics.registry, ConstGauge::new(unix_now()));
        registry.register("ngit_build_info", "Build information", build_info);
        let help = "When the node started, in unix time";
        registry.register("ngit_start_time_seconds", help, started);
        let collected = Arc::new(collected);
        for (registry, reader) in metrics.collected.iter_mut().zip(READERS) {
            let collected = Arc::clone(&collected);
            registry.register_collector(Box::new(ForReader { collected, reader }));
        }
        metrics.at_zero()
    }

    /// Series that are watched for a first time exist from the start, at zero.
    fn at_zero(self) -> Self {
        for class in Class::ALL {
            let route = class.label();
            drop(self.busy.get_or_create(&Route { route }));
        }
        for op in ["slow_head", "idle", "stuck", "resolve"] {
            drop(self.timeouts.get_or_create(&Op { op }));
        }
        self
    }

    /// The text form that scrapers read, with what this reader may see.
    pub(crate) fn render(&self, reader: Reader) -> Result<Bytes, fmt::Error> {
        let mut out = String::new();
        text::encode_registry(&mut out, &self.registry)?;
        text::encode_registry(&mut out, &self.collected[place(reader)])?;
        text::encode_eof(&mut out)?;
        Ok(out.into())
    }

    /// The text of the last second, made by the first who asks after that: however many ask, once a
    /// second.
    pub(crate) fn recent(&self, reader: Reader) -> Result<Bytes, fmt::Error> {
        let is_recent = |made: &(Option<Instant>, Bytes)| {
            made.0.is_some_and(|at| at.elapsed() < RENDER_INTERVAL)
        };
        // A failure is no text: the next who asks tries again.
        let mut failure = None;
        let recent = self.recent[place(reader)].renew(is_recent, || match self.render(reader) {
            Ok(text) => (Some(Instant::now()), text),
            Err(error) => {
                failure = Some(error);
                (None, Bytes::new())
            }
        });
        failure.map_or_else(|| Ok(recent.1.clone()), Err)
    }

    pub(crate) fn responded(&self, route: &'static str, status: StatusCode, took: Duration) {
        if status == StatusCode::GATEWAY_TIMEOUT {
            self.timed_out(route);
        }
        let status = status_class(status);
        self.requests
            .get_or_create(&Request { route, status })
            .inc();
        self.latency
            .get_or_create(&Route { route })
            .observe(took.as_secs_f64());
    }

    pub(crate) fn busy(&self, class: Class) {
        let route = class.label();
        self.busy.get_or_create(&Route { route }).inc();
    }

    pub(crate) fn rejected(&self, reason: &'static str) {
        self.rejected.get_or_create(&Reason { reason }).inc();
    }

    pub(crate) fn refused_connection(&self, full: Option<Full>) {
        self.rejected(match full {
            Some(Full::Connections) => "connections",
            Some(Full::PerIp) => "connections_per_ip",
            None => "draining",
        });
    }

    pub(crate) fn cut_connection(&self, verdict: Verdict) {
        let reason = match verdict {
            Verdict::SlowHead => "slow_head",
            Verdict::Idle => "idle",
            Verdict::Stuck => "stuck",
            Verdict::Spent => "reserve",
            Verdict::LookAt(_) => return,
        };
        self.cut.get_or_create(&Reason { reason }).inc();
        self.timed_out(reason);
    }

    /// Counts a stream that was cut alone, because its client took nothing.
    pub(crate) fn cut_stream(&self) {
        self.timed_out("stuck");
    }

    fn timed_out(&self, op: &'static str) {
        self.timeouts.get_or_create(&Op { op }).inc();
    }

    pub(crate) fn git(&self, operation: GitOp, ok: bool, took: Duration) {
        let operation = operation.label();
        let status = if ok { "success" } else { "error" };
        self.git_operations
            .get_or_create(&GitOperation { operation, status })
            .inc();
        self.git_seconds
            .get_or_create(&Operation { operation })
            .observe(took.as_secs_f64());
    }

    pub(crate) fn push(&self, allowed: bool) {
        let result = if allowed { "allowed" } else { "denied" };
        self.pushes.get_or_create(&Outcome { result }).inc();
    }

    pub(crate) fn git_bytes(&self, direction: &'static str, bytes: u64) {
        self.git_bytes
            .get_or_create(&Direction { direction })
            .inc_by(bytes);
    }

    pub(crate) fn delivery(&self, outcome: &'static str) {
        self.deliveries.get_or_create(&Delivered { outcome }).inc();
    }

    pub(crate) fn socket_closed(&self, lasted: Duration) {
        self.socket_seconds.observe(lasted.as_secs_f64());
    }
}

fn status_class(status: StatusCode) -> &'static str {
    match status.as_u16() {
        100..=199 => "1xx",
        200..=299 => "2xx",
        300..=399 => "3xx",
        429 => "429",
        400..=499 => "4xx",
        _ => "5xx",
    }
}

pub(crate) fn unix_now() -> i64 {
    jiff::Timestamp::now().as_second()
}

pub(crate) fn unix_now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}
