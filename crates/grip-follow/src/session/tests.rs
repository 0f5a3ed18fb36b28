//! A scripted relay on the other side of a session, with a clock of its own.

mod bounds;
mod checks;
mod crowded;
mod everything;
mod history;
mod live;
mod property;

use std::{sync::Arc, time::Duration};

use negentropy::{Id, Negentropy, NegentropyStorageVector};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::*;
use crate::plan::{Class, Draft, Plan};

/// A session and what it said.
struct Scene {
    session: Session,
    now: Now,
    said: Vec<Value>,
    /// Whether it asked for a set to compare with.
    wants_set: bool,
    saves: usize,
    /// What the relay was found to lack, by single checks and by comparisons.
    lacking: Vec<[u8; 32]>,
    /// Why requests paused, and what the relay had said.
    paused: Vec<(PauseReason, Option<String>)>,
}

/// The other side of a reconciliation.
struct Peer(Negentropy<'static, NegentropyStorageVector>);

impl Peer {
    fn new(items: &[Item]) -> Self {
        let mut storage = NegentropyStorageVector::new();
        for (at, id) in items {
            storage.insert(*at, Id::from_byte_array(*id)).unwrap();
        }
        storage.seal().unwrap();
        Self(Negentropy::owned(storage, 0).unwrap())
    }

    fn answer(&mut self, hex: &Value) -> String {
        let hex = hex.as_str().unwrap();
        let mut message = vec![0; hex.len() / 2];
        faster_hex::hex_decode(hex.as_bytes(), &mut message).unwrap();
        faster_hex::hex_string(&self.0.reconcile(&message).unwrap())
    }
}

/// A plan with values of one class.
fn plan_of(class: Class, values: impl IntoIterator<Item = String>) -> Arc<Plan> {
    let mut draft = Draft::default();
    for value in values {
        draft.add(class, &value.into());
    }
    Arc::new(draft.finish())
}

fn one(class: Class) -> Arc<Plan> {
    plan_of(class, ["x".to_owned()])
}

fn start() -> Now {
    Now {
        at: Instant::now(),
        unix: 1_800_000_000,
    }
}

impl Scene {
    fn new(plan: Arc<Plan>) -> Self {
        Self::with(plan, RemoteLimits::default(), false, Progress::default())
    }

    fn with(plan: Arc<Plan>, limits: RemoteLimits, nip77: bool, progress: Progress) -> Self {
        Self::at(start(), plan, limits, nip77, progress)
    }

    fn at(
        now: Now,
        plan: Arc<Plan>,
        limits: RemoteLimits,
        nip77: bool,
        progress: Progress,
    ) -> Self {
        let session = Session::start(limits, nip77, plan, progress, now);
        let mut scene = Self {
            session,
            now,
            said: Vec::new(),
            wants_set: false,
            saves: 0,
            lacking: Vec::new(),
            paused: Vec::new(),
        };
        scene.collect();
        scene
    }

    /// Gives the turn for history while it is wanted, and keeps what is said.
    fn collect(&mut self) {
        let wants = self.session.wants_turn(self.now);
        self.session.set_turn(wants, self.now);
        for output in self.session.outputs() {
            match output {
                Output::Send(text) => self.said.push(serde_json::from_str(&text).unwrap()),
                Output::LoadSet(_) | Output::LoadEverything => self.wants_set = true,
                Output::SaveEverything | Output::PassEnded { .. } | Output::Crowded { .. } => {}
                Output::Paused { reason, text, .. } => self.paused.push((reason, text)),
                Output::Authenticate(challenge) => self.said.push(json!(["AUTH", challenge])),
                Output::Save => self.saves += 1,
                Output::Checked { lacking, .. }
                | Output::Compared { lacking, .. }
                | Output::ComparedAll { lacking } => {
                    self.lacking.extend(lacking);
                }
            }
        }
    }

    fn hear(&mut self, message: Value) {
        self.session.hear(&message.to_string(), self.now);
        self.collect();
    }

    fn pass(&mut self, seconds: u64) {
        self.now.at += Duration::from_secs(seconds);
        self.now.unix += seconds;
        self.session.advance(self.now);
        self.collect();
    }

    /// Delivers an event of a subscription without deciding on it.
    fn deliver(&mut self, name: &str, created_at: u64) {
        self.hear(json!(["EVENT", name, { "created_at": created_at }]));
    }

    /// Decides on everything that was delivered; returns how much that was.
    fn decide(&mut self, fate: Fate) -> usize {
        let mut count = 0;
        while let Some(batch) = self.session.inbox.take() {
            let fates: Vec<_> = batch.iter().map(|it| (it.job, [0; 32], fate)).collect();
            count += fates.len();
            self.session.inbox.decided();
            self.session.admitted(&fates, self.now);
            self.collect();
        }
        count
    }

    /// What was said since the last time.
    fn said(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.said)
    }

    /// The requests for history that were made since the last time: name and filter.
    fn requests(&mut self) -> Vec<(String, Value)> {
        let said = self.said();
        let is_history = |message: &&Value| message[0] == "REQ" && message[2]["limit"].is_null();
        let requests = said.iter().filter(is_history);
        requests
            .map(|it| (it[1].as_str().unwrap().to_owned(), it[2].clone()))
            .collect()
    }

    fn is_complete(&self) -> bool {
        !self.session.history.is_in_pass()
    }
}
