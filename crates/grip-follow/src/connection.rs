//! One connection: the socket, the decisions on what it delivers, and the session between them.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _, future::BoxFuture};
use grip_egress::WebSocket;
use grip_nostr::{EventId, relay_proof};
use grip_types::EventSource;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout},
};
use tokio_tungstenite::tungstenite::Message;

use crate::{
    intake::Decided,
    plan::{Class, Plan},
    relay_permits::RelayPermit,
    session::{Fate, Item, Now, Output, Session},
    worker::{Shared, Worker, now_ms, unix},
};

/// How long the relay may be silent (G02-43), at least and at most: half as long again as the time after
/// which disconnected relays are looked over. It is pinged so often in that time.
const MIN_SILENCE: Duration = Duration::from_secs(10);
const MAX_SILENCE: Duration = Duration::from_secs(90);
const PINGS: u32 = 3;
/// How long a message may take to be sent.
const SEND_TIME: Duration = Duration::from_secs(30);
/// Events of one connection that are forged or were not asked for: each costs a check.
const MAX_WORTHLESS: usize = 2_000;
/// How often a stream of events changes what is shown of the relay.
const SHOW_EVERY: Duration = Duration::from_millis(250);
/// How often progress is saved while nothing happens.
const SAVE_EVERY: Duration = Duration::from_secs(60);
/// How often the relay is asked for states that it is not known to have, and for how many.
const CHECK_EVERY: Duration = Duration::from_secs(60);
const MAX_CHECKED: usize = 300;
/// How long one relay starts requests for history before others have their turn.
const TURN_TIME: Duration = Duration::from_secs(60);

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The other side closed it, broke it, or fell silent.
    Lost(&'static str),
    /// It sends little else than what was not asked for or is forged.
    Hostile,
    /// Nothing is wanted of the relay any more, or the node stops.
    Dropped,
}

pub(crate) struct Connection<'a> {
    pub(crate) worker: &'a mut Worker,
    pub(crate) socket: WebSocket,
    pub(crate) session: Session,
    pub(crate) source: EventSource,
    pub(crate) plans: watch::Receiver<Arc<Plan>>,
    /// Effective states that were here when the set of a reconciliation was loaded.
    pub(crate) judged: Vec<EventId>,
}

impl Connection<'_> {
    /// Runs until the connection ends, and leaves the progress with the worker.
    pub(crate) async fn run(mut self) -> Ending {
        let ending = self.follow().await;
        self.worker.memory.progress = self.session.end();
        ending
    }

    async fn follow(&mut self) -> Ending {
        let stop = self.worker.shared.group.token();
        let mut deciding: Option<BoxFuture<'static, Vec<Decided>>> = None;
        let mut loading: Option<BoxFuture<'static, Option<Vec<Item>>>> = None;
        let mut turn: Option<RelayPermit> = None;
        let mut turn_ends: Option<Instant> = None;
        let mut acquiring: Option<BoxFuture<'static, RelayPermit>> = None;
        let look_every = self.worker.shared.options.look_every;
        let max_silence = look_every.saturating_mul(3) / 2;
        let max_silence = max_silence.clamp(MIN_SILENCE, MAX_SILENCE);
        let ping_every = max_silence / PINGS;
        let (mut heard, mut ping_at) = (Instant::now(), Instant::now() + ping_every);
        let mut save_at = Instant::now() + SAVE_EVERY;
        let check_every = look_every.min(CHECK_EVERY);
        let mut check_at = Instant::now() + check_every;
        let (mut shown, mut must_show) = (Instant::now(), true);
        let (mut worthless, mut received) = (0, 0);
        loop {
            if let Some(ending) = self.carry_out(&mut loading).await {
                return ending;
            }
            if deciding.is_none()
                && let Some(batch) = self.session.inbox.take()
            {
                let (intake, source) = (Arc::clone(&self.worker.shared.intake), self.source);
                let relay = self.worker.relay.clone();
                let decide = async move { intake.decide(batch, &relay, source).await };
                deciding = Some(decide.boxed());
            }
            let now = moment();
            let wants_turn = self.session.wants_turn(now);
            // After its time a relay starts nothing more, and lets go once nothing is under way.
            if turn_ends.is_some_and(|at| at <= now.at) {
                turn_ends = None;
                self.session.set_turn(false, now);
            }
            let is_over = turn_ends.is_none() && !self.session.is_asking();
            if turn.is_some() && (!wants_turn || is_over) {
                (turn, turn_ends) = (None, None);
                self.session.set_turn(false, now);
            }
            if !wants_turn {
                acquiring = None;
            } else if turn.is_none() && acquiring.is_none() {
                let turns = self.worker.shared.turns.clone();
                let is_configured = self.source.is_configured;
                let acquire = async move { turns.acquire(is_configured).await };
                acquiring = Some(acquire.boxed());
            }
            if must_show || shown.elapsed() >= SHOW_EVERY {
                shown = Instant::now();
                self.worker.show(Some(self.session.status(unix())));
            }
            must_show = true;
            let wake_at = self
                .session
                .wake_at(now)
                .min(ping_at)
                .min(save_at)
                .min(check_at);
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ending::Dropped,
                decided = next(&mut deciding), if deciding.is_some() => {
                    deciding = None;
                    self.decided(&decided);
                    worthless += decided.iter().filter(|it| it.2 == Fate::Worthless).count();
                    received += decided.len();
                    if worthless > MAX_WORTHLESS && worthless > received / 2 {
                        return Ending::Hostile;
                    }
                }
                items = next(&mut loading), if loading.is_some() => {
                    loading = None;
                    self.session.set_loaded(items, moment());
                }
                changed = self.plans.changed() => {
                    let plan = Arc::clone(&self.plans.borrow_and_update());
                    if changed.is_err() || plan.is_empty() {
                        self.drain(deciding).await;
                        return Ending::Dropped;
                    }
                    self.worker.report.repositories = plan.repositories;
                    self.session.set_plan(plan, moment());
                }
                permit = next(&mut acquiring), if acquiring.is_some() => {
                    acquiring = None;
                    turn = Some(permit);
                    turn_ends = Some(Instant::now() + TURN_TIME);
                    self.session.set_turn(true, moment());
                }
                frame = self.socket.next(), if !self.session.inbox.is_full() => {
                    heard = Instant::now();
                    must_show = false;
                    match frame {
                        Some(Ok(Message::Text(text))) => {
                            self.worker.report.messages += 1;
                            self.worker.report.bytes_received += text.len() as u64;
                            self.session.hear(&text, moment());
                        }
                        Some(Ok(Message::Close(_))) | None => return Ending::Lost("the relay closed the connection"),
                        Some(Ok(_)) => {}
                        Some(Err(_)) => return Ending::Lost("the connection broke"),
                    }
                }
                () = sleep_until(wake_at) => {
                    // What we did not read is no silence.
                    if self.session.inbox.is_full() {
                        heard = Instant::now();
                    }
                    if heard.elapsed() >= max_silence {
                        return Ending::Lost("the relay fell silent");
                    }
                    if Instant::now() >= ping_at {
                        ping_at = Instant::now() + ping_every;
                        if !self.send(Message::Ping(Default::default())).await {
                            return Ending::Lost("the connection broke");
                        }
                    }
                    if Instant::now() >= save_at {
                        save_at = Instant::now() + SAVE_EVERY;
                        self.session.confirm();
                        self.save().await;
                    }
                    if Instant::now() >= check_at {
                        check_at = Instant::now() + check_every;
                        let Worker { shared, relay, .. } = &*self.worker;
                        let due = shared.replication.take_due(relay, MAX_CHECKED, now_ms());
                        self.session.check(due, moment());
                    }
                    self.session.advance(moment());
                }
            }
        }
    }

    /// Decides on what has come; nothing more is asked for or read (G02-10).
    async fn drain(&mut self, deciding: Option<BoxFuture<'static, Vec<Decided>>>) {
        if let Some(deciding) = deciding {
            let decided = deciding.await;
            self.decided(&decided);
        }
        while let Some(batch) = self.session.inbox.take() {
            let Worker { shared, relay, .. } = &*self.worker;
            let decided = shared.intake.decide(batch, relay, self.source).await;
            self.decided(&decided);
        }
    }

    fn decided(&mut self, decided: &[Decided]) {
        for (_, _, fate) in decided {
            self.worker.shared.board.count(*fate);
            self.worker.report.taken += u64::from(*fate == Fate::Taken);
        }
        self.worker.report.received += decided.len() as u64;
        self.session.inbox.decided();
        self.session.admitted(decided, moment());
        if decided.iter().any(|(_, _, fate)| *fate == Fate::Taken) {
            self.worker.shared.arrived.notify_one();
        }
    }

    /// Does what the session wants; says how the connection ended if it did.
    async fn carry_out(
        &mut self,
        loading: &mut Option<BoxFuture<'static, Option<Vec<Item>>>>,
    ) -> Option<Ending> {
        let (mut must_save, mut must_save_everything) = (false, false);
        for output in self.session.outputs() {
            match output {
                Output::Send(text) => {
                    self.worker.report.messages += 1;
                    self.worker.report.bytes_sent += text.len() as u64;
                    if !self.send(Message::text(text)).await {
                        return Some(Ending::Lost("the connection broke"));
                    }
                }
                Output::Authenticate(challenge) => {
                    let Worker { shared, relay, .. } = &*self.worker;
                    let proof = relay_proof(&shared.keys, relay.as_str(), &challenge);
                    let message = serde_json::json!(["AUTH", proof]).to_string();
                    if proof.is_some() && !self.send(Message::text(message)).await {
                        return Some(Ending::Lost("the connection broke"));
                    }
                }
                Output::LoadSet(filter) => {
                    let replication = &self.worker.shared.replication;
                    self.judged = replication.expected(&self.worker.relay);
                    let intake = Arc::clone(&self.worker.shared.intake);
                    let load = async move { intake.load(filter).await };
                    *loading = Some(load.boxed());
                }
                Output::LoadEverything => {
                    let replication = &self.worker.shared.replication;
                    self.judged = replication.expected(&self.worker.relay);
                    let intake = Arc::clone(&self.worker.shared.intake);
                    let plan = Arc::clone(self.session.plan());
                    let load = async move { intake.load_plan(plan).await };
                    *loading = Some(load.boxed());
                }
                Output::ComparedAll { lacking } => {
                    let Worker { shared, relay, .. } = &*self.worker;
                    let judged = std::mem::take(&mut self.judged);
                    let lacking = lacking.into_iter().collect();
                    let replication = &shared.replication;
                    replication.compared(relay, &judged, &lacking, now_ms());
                }
                Output::SaveEverything => must_save_everything = true,
                Output::Compared {
                    identifiers,
                    lacking,
                } => self.compared(&identifiers, &lacking),
                Output::Checked { asked, lacking } => {
                    let asked: Vec<EventId> =
                        asked.into_iter().map(EventId::from_byte_array).collect();
                    let lacking = lacking.into_iter().collect();
                    let Worker { shared, relay, .. } = &*self.worker;
                    let replication = &shared.replication;
                    replication.compared(relay, &asked, &lacking, now_ms());
                }
                Output::PassEnded {
                    is_full,
                    has_gaps,
                    took,
                } => {
                    let relay = &self.worker.relay;
                    if has_gaps {
                        tracing::debug!(%relay, ?took, "relay did not give all that it said it has");
                    } else {
                        tracing::debug!(%relay, full = is_full, ?took, "read the history of relay");
                    }
                }
                Output::Paused {
                    reason,
                    length,
                    text,
                } => {
                    let relay = &self.worker.relay;
                    tracing::info!(%relay, %reason, ?length, text, "paused requests to relay");
                    // It outlives a kill, and operators see it (G02-48).
                    must_save = true;
                }
                Output::Crowded { max_bytes } => {
                    let relay = &self.worker.relay;
                    tracing::debug!(%relay, max_bytes, "polling what relay has no room for");
                }
                Output::Save => must_save = true,
            }
        }
        if must_save_everything {
            let everything = self.session.progress.everything.as_ref();
            let Worker { shared, relay, .. } = &*self.worker;
            shared.memories.save_everything(relay, everything).await;
        }
        if must_save || must_save_everything {
            self.save().await;
        }
        None
    }

    /// Notes which states of these identifiers the relay has, by a comparison of whole histories.
    fn compared(&mut self, identifiers: &[Arc<str>], lacking: &[[u8; 32]]) {
        let Worker { shared, relay, .. } = &*self.worker;
        let judged = std::mem::take(&mut self.judged);
        let lacking = lacking.iter().copied().collect();
        let replication = &shared.replication;
        replication.compared_of(relay, &judged, identifiers, &lacking, now_ms());
    }

    async fn save(&mut self) {
        self.worker.memory.progress = self.session.progress.clone();
        let Shared { options, board, .. } = &*self.worker.shared;
        if options.is_index(&self.worker.relay) {
            let asked = self.session.progress.covered(Class::Profiles);
            if board.note_asked(&self.worker.relay, asked) {
                self.worker.shared.arrived.notify_one();
            }
        }
        self.worker.save().await;
        // What is shown survives a kill.
        self.worker.show(Some(self.session.status(unix())));
    }

    async fn send(&mut self, message: Message) -> bool {
        let sent = timeout(SEND_TIME, self.socket.send(message)).await;
        matches!(sent, Ok(Ok(())))
    }
}

async fn next<T>(pending: &mut Option<BoxFuture<'static, T>>) -> T {
    match pending {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

fn moment() -> Now {
    Now {
        at: Instant::now(),
        unix: unix(),
    }
}
