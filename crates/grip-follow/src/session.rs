//! The protocol with one connected relay: which requests are open, which come next, what their
//! ends mean.
//!
//! Pure: messages, decisions about events and times go in, messages and batches come out. A
//! request counts only after its EOSE and after everything delivered before it was decided
//! (G02-21).

mod everything;
mod history;
mod inbox;
mod live;
mod progress;

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use grip_nostr::Filter;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use self::{history::History, live::Live};
use crate::{
    message::{self, RelayMessage},
    plan::Plan,
    refusal::Refusal,
};

pub(crate) use self::{
    everything::Everything,
    history::{Item, UNKNOWN_ID},
    inbox::{Asked, Delivery, Fate, Inbox},
    progress::{PauseReason, Progress},
};

/// Subscriptions that a relay is taken to allow if it says nothing (G02-13).
const DEFAULT_BUDGET: usize = 20;
/// More than this is never used, whatever a relay says.
const MAX_BUDGET: usize = 200;

/// A moment by both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) at: Instant,
    /// Seconds since 1970.
    pub(crate) unix: u64,
}

/// Spacing of requests after `too many queries`, at first and at most, and how far apart two such
/// texts are that make it longer (G02-27).
const FIRST_SPACING: Duration = Duration::from_millis(600);
const MAX_SPACING: Duration = Duration::from_secs(10);
const EPISODE: u64 = 60;
/// Characters of a refusal that are said in the log.
const MAX_TEXT_CHARS: usize = 200;

/// What a relay says about itself (NIP-11).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RemoteLimits {
    pub(crate) max_subscriptions: Option<usize>,
    /// Events of one answer.
    pub(crate) default_limit: Option<u64>,
    /// None where it does not say which NIPs it knows.
    pub(crate) knows_nip77: Option<bool>,
    /// It says that it is a GRASP server.
    #[serde(default)]
    pub(crate) is_grasp: bool,
}

/// What the session wants done.
#[derive(Debug)]
pub(crate) enum Output {
    Send(String),
    /// Load time and id of all we have that matches, and call [`Session::set_loaded`].
    LoadSet(Filter),
    /// The same for all that the plan wants.
    LoadEverything,
    /// Prove our key by this challenge (NIP-42).
    Authenticate(String),
    /// Of the announcements and states of `identifiers` that were loaded to be compared, the relay
    /// lacks these.
    Compared {
        identifiers: Arc<[Arc<str>]>,
        lacking: Vec<[u8; 32]>,
    },
    /// Of what was loaded as everything, the relay lacks these.
    ComparedAll {
        lacking: Vec<[u8; 32]>,
    },
    /// Of the events that [`Session::check`] asked for, the relay lacks some.
    Checked {
        asked: Vec<[u8; 32]>,
        lacking: Vec<[u8; 32]>,
    },
    /// Say in the log that a pass over all that is wanted has ended.
    PassEnded {
        is_full: bool,
        /// Something that the relay said it has did not come.
        has_gaps: bool,
        took: Duration,
    },
    /// Say in the log that requests pause.
    Paused {
        reason: PauseReason,
        length: Duration,
        /// What the relay said, where it said anything.
        text: Option<String>,
    },
    /// Say in the log that not all subscriptions fit what the relay allows.
    Crowded {
        max_bytes: u64,
    },
    /// Progress that must survive a restart.
    Save,
    /// The same for how all that the relay has differs from what is here.
    SaveEverything,
}

/// The session with one relay, from its connection to its end.
pub(crate) struct Session {
    plan: Arc<Plan>,
    live: Live,
    history: History,
    pub(crate) inbox: Inbox,
    pub(crate) progress: Progress,
    names: Names,
    out: Vec<Output>,
    /// When anything was heard last, in seconds since 1970.
    heard: u64,
    /// The challenge of the relay, and how many names were given when it was answered.
    challenge: Option<String>,
    authenticated: Option<u64>,
    /// The least time between two requests, and since when it is so long.
    spacing: Duration,
    spaced_at: Option<u64>,
    /// The refusal that is being heard.
    refusal_text: Option<String>,
}

/// Names of subscriptions: ours alone, never used twice on a connection (G02-34).
#[derive(Default)]
struct Names(u64);

impl Names {
    fn next(&mut self) -> String {
        self.0 += 1;
        format!("g{}", self.0)
    }
}

impl Session {
    /// Begins with what is known from earlier connections.
    pub(crate) fn start(
        limits: RemoteLimits,
        uses_nip77: bool,
        plan: Arc<Plan>,
        mut progress: Progress,
        now: Now,
    ) -> Self {
        let said = limits.max_subscriptions.filter(|most| *most > 0);
        let budget = said.unwrap_or(DEFAULT_BUDGET).min(MAX_BUDGET);
        progress.hear_limits(limits);
        let by_nip77 = uses_nip77 && limits.knows_nip77 != Some(false);
        // What cannot be compared is not known by a comparison either.
        progress.everything.take_if(|_| !by_nip77);
        progress.restore(&plan, now.unix);
        let mut session = Self {
            live: Live::new(budget),
            history: History::new(by_nip77, limits),
            inbox: Inbox::default(),
            plan: Arc::default(),
            names: Names::default(),
            out: Vec::new(),
            heard: now.unix,
            challenge: None,
            authenticated: None,
            spacing: Duration::ZERO,
            spaced_at: None,
            refusal_text: None,
            progress,
        };
        session.history.begin_pass(&plan, &session.progress, now);
        session.take_plan(plan, now);
        session.advance(now);
        session
    }

    /// Follows another plan from now on; what is new in it gets its history.
    pub(crate) fn set_plan(&mut self, plan: Arc<Plan>, now: Now) {
        self.history.add_new(&plan, &self.plan, &self.progress, now);
        self.take_plan(plan, now);
        self.advance(now);
    }

    /// What is wanted of the relay.
    pub(crate) fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    fn take_plan(&mut self, plan: Arc<Plan>, now: Now) {
        self.progress.forget_dropped(&plan);
        self.progress.note_plan(&plan, now.unix);
        self.live
            .set_everything(self.progress.has_everything(now.unix));
        self.live.set_plan(&plan);
        self.plan = plan;
        self.live
            .open(&mut self.names, &self.progress, now, &mut self.out);
    }

    /// What has to be done, in this order.
    pub(crate) fn outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.out)
    }

    /// Hears a text frame.
    pub(crate) fn hear(&mut self, text: &str, now: Now) {
        self.heard = now.unix;
        let Some(message) = RelayMessage::read(text) else {
            return;
        };
        match message {
            RelayMessage::Event {
                subscription,
                event,
                created_at,
            } => self.hear_event(&subscription, event, created_at, now),
            RelayMessage::Eose(subscription) => {
                self.history
                    .eose(&subscription, &mut self.progress, now, &mut self.out);
            }
            RelayMessage::Closed { subscription, text } => self.closed(&subscription, &text, now),
            RelayMessage::Notice(text) => self.notice(&text, now),
            RelayMessage::Reconcile {
                subscription,
                message,
            } => {
                let history = &mut self.history;
                let (progress, names) = (&mut self.progress, &mut self.names);
                history.reconcile(&subscription, &message, progress, names, now, &mut self.out);
            }
            RelayMessage::Auth(challenge) => self.challenge = Some(challenge.into_owned()),
            RelayMessage::ReconcileError { subscription, text } => {
                let refusal = self.refusal(&subscription, &text);
                self.pause_for(refusal, now);
                let history = &mut self.history;
                history.reconcile_refused(
                    &subscription,
                    refusal,
                    &mut self.progress,
                    &mut self.names,
                    now,
                    &mut self.out,
                );
            }
        }
        self.advance(now);
    }

    fn hear_event(&mut self, subscription: &str, event: &str, created_at: u64, now: Now) {
        if self.live.knows(subscription) || self.history.knows(subscription) {
            self.progress.hear_event(created_at, now.unix);
        }
        let plan = || Arc::clone(&self.plan);
        if self.live.is_everything(subscription) {
            self.inbox.push(event, Asked::Everything(plan()), None);
        } else if self.live.knows(subscription) {
            self.inbox.push(event, Asked::Plan(plan()), None);
        } else if let Some((filters, job)) = self.history.deliver(subscription, created_at, now) {
            let asked = if self.history.is_everything() {
                Asked::Everything(plan())
            } else {
                Asked::Filters(filters)
            };
            self.inbox.push(event, asked, Some(job));
        }
    }

    /// Hears what became of events that were taken from the inbox.
    pub(crate) fn admitted(&mut self, fates: &[(Option<u64>, [u8; 32], Fate)], now: Now) {
        // More than its share is not asked for, as of a relay that answers nothing (G02-28).
        if fates.iter().any(|(_, _, fate)| *fate == Fate::OverShare) {
            self.progress.leave_incomplete(now.unix);
        }
        self.history
            .admitted(fates, &mut self.progress, now, &mut self.out);
        self.advance(now);
    }

    /// Hears the set that a reconciliation compares with; none if it is too large or unreadable.
    pub(crate) fn set_loaded(&mut self, items: Option<Vec<Item>>, now: Now) {
        let (progress, names) = (&mut self.progress, &mut self.names);
        self.history
            .set_loaded(items, progress, names, now, &mut self.out);
        self.advance(now);
    }

    /// Asks whether the relay has events that are here, in the turn for history.
    pub(crate) fn check(&mut self, items: Vec<Item>, now: Now) {
        self.history.check(items);
        self.advance(now);
    }

    fn closed(&mut self, subscription: &str, text: &str, now: Now) {
        let refusal = self.refusal(subscription, text);
        if self.live.knows(subscription) {
            self.pause_for(refusal, now);
            let refused = self
                .live
                .closed(subscription, refusal, &mut self.progress, now);
            if let Some(class) = refused {
                self.history.add_probe(class, &self.plan);
            }
        } else if self.history.knows(subscription) {
            self.pause_for(refusal, now);
            self.history
                .refused(refusal, &mut self.progress, now, &mut self.out);
        }
    }

    /// Reads a refusal of a request. Who we are is told once, where a request of ours is refused for
    /// it; requests from before are made again, later ones are refused for good (G02-30).
    fn refusal(&mut self, subscription: &str, text: &str) -> Refusal {
        self.refusal_text = Some(text.chars().take(MAX_TEXT_CHARS).collect());
        match Refusal::read(text) {
            Refusal::AuthRequired if self.authenticate(subscription) => Refusal::AuthRequired,
            Refusal::AuthRequired => Refusal::Policy,
            Refusal::TooManyBytes(most) => self.too_many_bytes(subscription, most),
            refusal => refusal,
        }
    }

    /// Reads a refusal for the bytes of all that is open. What was open without the refused request is
    /// what fits; from there on less is opened each time, until a request that is refused for itself
    /// alone waits as after any other refusal by rate.
    fn too_many_bytes(&mut self, subscription: &str, most: Option<u64>) -> Refusal {
        let is_live = self.live.knows(subscription);
        if !is_live && !self.history.has(subscription) {
            return Refusal::TooManyBytes(most);
        }
        let beside = self.live.beside(subscription);
        let open = beside.unwrap_or_else(|| self.live.open_bytes());
        let is_less = self.progress.refuse_active_bytes(open);
        if is_less {
            self.rearrange();
        }
        if is_less || is_live {
            Refusal::TooManyBytes(most)
        } else {
            Refusal::RateLimited
        }
    }

    /// Keeps the subscriptions to the bytes that they may have.
    fn rearrange(&mut self) {
        self.live.rearrange();
        let max_bytes = self.progress.active_bytes();
        let crowded = max_bytes.map(|max_bytes| Output::Crowded { max_bytes });
        self.out.extend(crowded);
    }

    /// Says whether a request is worth repeating because our key is proved by now.
    fn authenticate(&mut self, subscription: &str) -> bool {
        let Some(number) = self.number_of(subscription) else {
            return false;
        };
        if let Some(before) = self.authenticated {
            return number <= before;
        }
        let Some(challenge) = self.challenge.clone() else {
            return false;
        };
        self.authenticated = Some(self.names.0);
        self.out.push(Output::Authenticate(challenge));
        true
    }

    /// The number of one of our open requests.
    fn number_of(&self, subscription: &str) -> Option<u64> {
        let is_ours = self.live.knows(subscription) || self.history.has(subscription);
        let number = subscription.strip_prefix('g').filter(|_| is_ours)?;
        number.parse().ok()
    }

    fn notice(&mut self, text: &str, now: Now) {
        let refusal = match Refusal::read(text) {
            // It does not say which request there was no room for.
            Refusal::TooManyBytes(None) => Refusal::RateLimited,
            refusal => refusal,
        };
        self.refusal_text = Some(text.chars().take(MAX_TEXT_CHARS).collect());
        self.pause_for(refusal, now);
        if Refusal::is_about_nip77(text) {
            let history = &mut self.history;
            history.nip77_unknown(&mut self.names, now, &mut self.out);
        }
    }

    fn pause_for(&mut self, refusal: Refusal, now: Now) {
        match refusal {
            Refusal::RateLimited => self.progress.limit_rate(now.unix),
            Refusal::TooManyQueries => {
                self.progress.limit_rate(now.unix);
                self.history.without_nip77();
                self.slow_down(now);
            }
            Refusal::TooManyBytes(Some(most)) => {
                if self.progress.hear_active_bytes(most) {
                    self.rearrange();
                    self.out.push(Output::Save);
                }
            }
            Refusal::TooManyBytes(None)
            | Refusal::TooManyFilters
            | Refusal::AuthRequired
            | Refusal::Policy
            | Refusal::Unknown => {}
        }
    }

    fn slow_down(&mut self, now: Now) {
        let is_same = |at: u64| now.unix.saturating_sub(at) < EPISODE;
        if self.spaced_at.is_some_and(is_same) {
            return;
        }
        self.spaced_at = Some(now.unix);
        self.spacing = (self.spacing * 2).clamp(FIRST_SPACING, MAX_SPACING);
        self.live.set_spacing(self.spacing);
        self.history.set_spacing(self.spacing);
    }

    /// Says whether the turn for history is wanted or in use (G02-26).
    pub(crate) fn wants_turn(&self, now: Now) -> bool {
        self.history.has_work(&self.progress, now)
    }

    /// Says whether a request for history is under way.
    pub(crate) fn is_asking(&self) -> bool {
        self.history.is_active()
    }

    /// Gives the turn for history, or takes it back once it is not wanted any more.
    pub(crate) fn set_turn(&mut self, has_turn: bool, now: Now) {
        self.history.has_turn = has_turn;
        self.advance(now);
    }

    /// Does what the time has come for.
    pub(crate) fn advance(&mut self, now: Now) {
        let waited = self.inbox.is_full();
        self.history.expire(
            waited,
            &mut self.progress,
            &mut self.names,
            now,
            &mut self.out,
        );
        if self.progress.is_full_due(now.unix) && !self.history.is_in_pass() {
            if !self.progress.has_everything(now.unix) {
                self.progress.start_over();
            }
            self.history.begin_pass(&self.plan, &self.progress, now);
        }
        self.live
            .set_everything(self.progress.has_everything(now.unix));
        self.live
            .open(&mut self.names, &self.progress, now, &mut self.out);
        self.history.poll(self.live.polled(), &self.progress, now);
        self.history.poll_held(&self.plan, &self.progress, now);
        self.history
            .start_next(&mut self.names, &self.progress, now, &mut self.out);
        self.history
            .end_pass(&self.plan, &mut self.progress, now, &mut self.out);
        let text = self.refusal_text.take();
        for (reason, length) in self.progress.take_began() {
            let text = text.clone();
            self.out.push(Output::Paused {
                reason,
                length,
                text,
            });
        }
    }

    /// When [`Session::advance`] has something to do again, at the latest.
    pub(crate) fn wake_at(&self, now: Now) -> Instant {
        let live = self.live.wake_at(&self.progress, now);
        let history = self.history.wake_at(&self.progress, now);
        let next = live.min(history).min(now.at + Duration::from_secs(60));
        next.max(now.at)
    }

    /// Ends with the connection. What was confirmed stays so up to the last message, if nothing was
    /// under way and every subscription was open.
    pub(crate) fn end(mut self) -> Progress {
        self.confirm();
        self.progress
    }

    /// Notes that everything up to the last message is here, if so.
    pub(crate) fn confirm(&mut self) {
        if self.live.is_whole() && self.history.is_settled() && self.inbox.is_empty() {
            self.progress.confirm(self.heard);
        }
    }

    pub(crate) fn status(&self, now: u64) -> SessionStatus {
        SessionStatus {
            subscriptions: self.live.count() + usize::from(self.history.is_active()),
            budget: self.live.budget(),
            filters: self.live.ceiling(),
            page: self.history.page_size(),
            is_in_pass: self.history.is_in_pass(),
            has_failed: self.progress.has_failed || self.progress.is_degraded,
            by_nip77: self.history.uses_nip77(),
            by_everything: self.progress.has_everything(now),
        }
    }
}

/// How a session stands (G02-45).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SessionStatus {
    pub(crate) subscriptions: usize,
    pub(crate) budget: usize,
    /// Most filters of one REQ.
    pub(crate) filters: usize,
    /// The largest page seen.
    pub(crate) page: u64,
    pub(crate) is_in_pass: bool,
    /// In the pass under way, or in one that was cut off, or the last full one ended so.
    pub(crate) has_failed: bool,
    pub(crate) by_nip77: bool,
    pub(crate) by_everything: bool,
}

/// Sends the end of a subscription.
fn close(name: &str, out: &mut Vec<Output>) {
    out.push(Output::Send(message::close(name)));
}
