//! Test fixture: a fake GitHub, a gateway to it, and workers that run step by step.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use grip_db::Db;
use grip_egress::Egress;
use grip_github::{GitHub, Token};
use grip_limits::{BreakerOptions, Limits, Throttle};
use grip_queue::{Lease, Outcome, Queue};
use grip_testkit::{FakeGitHub, github::Setup};
use grip_types::Domain;
use parking_lot::Mutex;
use serde_json::Value;

use crate::{
    accept::{Accepted, Arrival, Batch},
    extract::Push,
    fields::{Field, Kind},
    ingest::PushListener,
    jobs::{self, Context, Role},
    options::Options,
    store::{RecordKind, Store},
};

pub(crate) const LEASE: Duration = Duration::from_secs(60);

/// Records the ids of the pushes it is notified of.
#[derive(Default)]
pub(crate) struct RecordedPushes(pub(crate) Mutex<Vec<String>>);

impl PushListener for RecordedPushes {
    fn pushed<'a>(&'a self, push: &'a Push) -> BoxFuture<'a, ()> {
        self.0.lock().push(push.id.clone());
        Box::pin(async {})
    }

    fn tagged<'a>(&'a self, repository: &'a str, is_private: bool) -> BoxFuture<'a, ()> {
        let is_private = if is_private { " (private)" } else { "" };
        self.0
            .lock()
            .push(format!("tags of {repository}{is_private}"));
        Box::pin(async {})
    }
}

pub(crate) struct Fixture {
    pub(crate) host: FakeGitHub,
    pub(crate) context: Arc<Context>,
    pub(crate) pushes: Arc<RecordedPushes>,
}

/// A fixture with one GitHub token.
pub(crate) async fn fixture(db: &Db, options: Options) -> Fixture {
    let setup = Setup {
        tokens: vec!["t".to_owned()],
        ..Setup::default()
    };
    fixture_with(db, options, setup).await
}

pub(crate) async fn fixture_with(db: &Db, options: Options, setup: Setup) -> Fixture {
    let tokens = setup.tokens.clone();
    let host = FakeGitHub::with("127.0.0.1", setup).await.unwrap();
    let pushes = Arc::new(RecordedPushes::default());
    let context = Context {
        store: Store::new(db.clone()),
        queue: Queue::new(db.clone()),
        github: gateway(&host, &tokens),
        pushes: pushes.clone(),
        options,
        group: grip_tasks::TaskGroup::new("test"),
    };
    Fixture {
        host,
        context: Arc::new(context),
        pushes,
    }
}

/// A gateway with budgets and a throttle of its own, which hardly narrows anything.
pub(crate) fn gateway(host: &FakeGitHub, tokens: &[String]) -> GitHub {
    let throttle = Throttle::memory(grip_limits::Options {
        limits: Limits {
            in_flight: 1_000,
            per_window: 1_000_000,
            window: Duration::from_secs(1),
        },
        breaker: BreakerOptions {
            min_requests: 1_000_000,
            ..BreakerOptions::default()
        },
        ..grip_limits::Options::default()
    });
    let options = grip_egress::Options {
        private_hosts: vec![Domain::parse(&host.domain()).unwrap()],
        ..grip_egress::Options::default()
    };
    let egress = Egress::new(options, throttle).unwrap();
    let options = grip_github::Options {
        api: host.api().parse().unwrap(),
        tokens: tokens
            .iter()
            .map(|text| Token::new(text).unwrap())
            .collect(),
        ..grip_github::Options::default()
    };
    GitHub::new(options, egress).unwrap()
}

/// All kinds of work and who does them, in the order in which workers would be likely to.
pub(crate) fn roles() -> Vec<(&'static str, Role)> {
    vec![
        (jobs::POLL, Role::Poll),
        (jobs::push_kind(true), Role::Push),
        (jobs::push_kind(false), Role::Push),
        (
            jobs::new_kind(RecordKind::User),
            Role::New(RecordKind::User),
        ),
        (
            jobs::new_kind(RecordKind::Repository),
            Role::New(RecordKind::Repository),
        ),
        (jobs::REFRESH, Role::Refresh),
        (jobs::REEXTRACT, Role::Reextract),
        (jobs::FILL_JSON, Role::FillJson),
    ]
}

impl Fixture {
    pub(crate) fn queue(&self) -> &Queue {
        &self.context.queue
    }

    pub(crate) async fn accept(&self, events: &[&Value]) -> Accepted {
        let arrivals: Vec<_> = events.iter().map(|event| arrival(event)).collect();
        let (store, options) = (&self.context.store, &self.context.options);
        store
            .accept(
                self.queue(),
                "test",
                Batch::read(&arrivals),
                options.live_for,
            )
            .await
            .unwrap()
    }

    /// Does all that is due, and what follows from it at once; says how many jobs that were.
    pub(crate) async fn work(&self) -> usize {
        let mut done = 0;
        loop {
            let mut some = 0;
            for (kind, role) in roles() {
                some += self.work_on(kind, role).await;
            }
            if some == 0 {
                return done;
            }
            done += some;
        }
    }

    /// Does what is due of one kind.
    pub(crate) async fn work_on(&self, kind: &str, role: Role) -> usize {
        let leases = self.queue().claim(kind, 100, LEASE).await.unwrap();
        for lease in &leases {
            let outcome = self.context.run(role, lease).await;
            self.apply_outcome(lease, outcome).await;
        }
        leases.len()
    }

    /// What a worker does with an outcome.
    pub(crate) async fn apply_outcome(&self, lease: &Lease, outcome: Outcome) {
        let queue = self.queue();
        match outcome {
            Outcome::Done => drop(queue.finish(lease).await.unwrap()),
            Outcome::Finished => {}
            Outcome::Failed(failure) => drop(queue.fail(lease, failure).await.unwrap()),
            Outcome::Postponed { until_ms, reason } => {
                queue.postpone(lease, until_ms, &reason).await.unwrap();
            }
            Outcome::HandedOver { capability } => {
                queue.hand_over(lease, &capability).await.unwrap();
            }
            Outcome::Remove => drop(queue.remove_leased(lease).await.unwrap()),
        }
    }

    /// How many calls there were below a path.
    pub(crate) fn calls(&self, path: &str) -> usize {
        self.host.requests_for(path).len()
    }
}

pub(crate) fn arrival(event: &Value) -> Arrival {
    Arrival::Event(event.to_string().into())
}

/// Options under which events of any age are of today.
pub(crate) fn ageless() -> Options {
    Options {
        live_for: Duration::from_secs(u64::from(u32::MAX)),
        ..Options::default()
    }
}

/// Words that have a value of its own for each field, and what is to be kept of it.
pub(crate) fn words(fields: &[Field]) -> (Value, Vec<(&'static str, Value)>) {
    let mut words = Value::Object(serde_json::Map::new());
    let mut kept = Vec::new();
    for (at, field) in fields.iter().enumerate() {
        let number = 1_000 + at as i64;
        let (said, shown) = match field.kind {
            Kind::Id | Kind::MaybeId | Kind::Int => (Value::from(number), Value::from(number)),
            Kind::Flag => (Value::from(at % 2 == 0), Value::from(at % 2 == 0)),
            Kind::Text => {
                let text = format!("{} ü '\"\\ {at}", field.column);
                (Value::from(text.clone()), Value::from(text))
            }
            Kind::Time => {
                let moment = jiff::Timestamp::from_second(number).unwrap().to_string();
                (Value::from(moment), Value::from(number * 1_000))
            }
            Kind::Json => (serde_json::json!(["a", at]), serde_json::json!(["a", at])),
        };
        put(&mut words, field.pointer, said);
        kept.push((field.column, shown));
    }
    (words, kept)
}

/// Puts a value where a pointer says, with the objects around it.
pub(crate) fn put(words: &mut Value, pointer: &str, value: Value) {
    let parts: Vec<_> = pointer.trim_start_matches('/').split('/').collect();
    let place = parts.iter().fold(words, |at, part| &mut at[*part]);
    *place = value;
}
