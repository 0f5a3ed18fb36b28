//! The breakers of all peers: one writer, many readers.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use grip_dht::PeerName;
use grip_tasks::TaskGroup;
use tokio::{sync::mpsc, time::Instant};

use super::{Breaker, Change, Options, Outcome};

/// Outcomes that wait for the writer. Beyond it they are dropped and counted: one less only
/// delays a decision, and a probe is made again.
const NOTES: usize = 1_024;
/// Peers remembered. Beyond it those of which nothing is held leave, then the one heard of longest
/// ago.
const MAX_PEERS: usize = 4_096;

/// What readers see: the peers that are not passing, few as they are.
type View = HashMap<PeerName, Arc<Door>>;

/// A peer that is shut until a time, and from then on lets so many probes through.
struct Door {
    until: Instant,
    /// Probes that may still begin.
    probes: AtomicU32,
}

/// How a peer stands, for pages and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    Shut,
    Probing,
}

/// Says whether a peer may be asked, and learns how it went.
pub(crate) struct Breakers {
    view: Arc<ArcSwap<View>>,
    notes: mpsc::Sender<Note>,
    dropped: AtomicU64,
}

struct Note {
    peer: PeerName,
    outcome: Outcome,
    probe: Option<Arc<Door>>,
}

/// The right to ask one peer once.
///
/// Dropped without a word, the question was given up: that speaks against a peer that had longer
/// than it should need, and says nothing otherwise.
#[must_use = "a question that was begun is also ended"]
pub(crate) struct Pass {
    breakers: Arc<Breakers>,
    peer: PeerName,
    probe: Option<Arc<Door>>,
    began: Instant,
    slow_after: Duration,
    is_ended: bool,
}

impl Breakers {
    pub fn start(options: Options, group: &TaskGroup) -> Arc<Self> {
        let (notes, waiting) = mpsc::channel(NOTES);
        let view: Arc<ArcSwap<View>> = Arc::default();
        let writer = Writer {
            options,
            peers: HashMap::new(),
            view: Arc::clone(&view),
        };
        let stop = group.token();
        group.spawn("resolve.breakers", async move {
            stop.run_until_cancelled(writer.run(waiting)).await;
        });
        Arc::new(Self {
            view,
            notes,
            dropped: AtomicU64::new(0),
        })
    }

    /// Leave to ask `peer` now; else until when it is left alone.
    pub fn admit(
        self: &Arc<Self>,
        peer: &PeerName,
        slow_after: Duration,
        now: Instant,
    ) -> Result<Pass, Instant> {
        let door = self.view.load().get(peer).cloned();
        if let Some(door) = &door {
            let taken = |left: u32| left.checked_sub(1);
            let is_open = now >= door.until;
            if !is_open || door.probes.fetch_update(Relaxed, Relaxed, taken).is_err() {
                return Err(door.until.max(now));
            }
        }
        Ok(Pass {
            breakers: Arc::clone(self),
            peer: peer.clone(),
            probe: door,
            began: now,
            slow_after,
            is_ended: false,
        })
    }

    /// Until when a peer is left alone, if it is.
    pub fn shut_until(&self, peer: &PeerName, now: Instant) -> Option<Instant> {
        let view = self.view.load();
        view.get(peer)
            .map(|door| door.until)
            .filter(|until| *until > now)
    }

    /// The peers that are not passing.
    pub fn states(&self, now: Instant) -> Vec<(PeerName, PeerState)> {
        let state = |door: &Door| match door.until > now {
            true => PeerState::Shut,
            false => PeerState::Probing,
        };
        let view = self.view.load();
        let mut states: Vec<_> = view
            .iter()
            .map(|(peer, door)| (peer.clone(), state(door)))
            .collect();
        states.sort_by(|(a, _), (b, _)| a.cmp(b));
        states
    }

    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// Has the writer take in an outcome; false if there is no room for it.
    fn note(&self, note: Note) -> bool {
        let is_taken = self.notes.try_send(note).is_ok();
        self.dropped.fetch_add(u64::from(!is_taken), Relaxed);
        is_taken
    }
}

impl Pass {
    pub fn end(mut self, outcome: Outcome) {
        self.tell(outcome);
    }

    fn tell(&mut self, outcome: Outcome) {
        self.is_ended = true;
        let probe = self.probe.take();
        let note = || Note {
            peer: self.peer.clone(),
            outcome,
            probe: probe.clone(),
        };
        let is_heard = outcome != Outcome::Neither && self.breakers.note(note());
        // A probe that said nothing, or that nobody hears of, may be made again.
        if let Some(door) = probe.filter(|_| !is_heard) {
            door.probes.fetch_add(1, Relaxed);
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if self.is_ended {
            return;
        }
        match self.began.elapsed() >= self.slow_after {
            true => self.tell(Outcome::Bad),
            false => self.tell(Outcome::Neither),
        }
    }
}

/// The one who changes breakers.
struct Writer {
    options: Options,
    peers: HashMap<PeerName, (Breaker, Instant)>,
    view: Arc<ArcSwap<View>>,
}

impl Writer {
    async fn run(mut self, mut waiting: mpsc::Receiver<Note>) {
        while let Some(note) = waiting.recv().await {
            self.take(note, Instant::now());
        }
    }

    fn take(&mut self, note: Note, now: Instant) {
        self.make_room(&note.peer, now);
        let present = self.view.load();
        let present = present.get(&note.peer);
        let is_probe = match (&note.probe, present) {
            (Some(probe), Some(present)) => Arc::ptr_eq(probe, present),
            _ => false,
        };
        let (breaker, heard) = self
            .peers
            .entry(note.peer.clone())
            .or_insert_with(|| (Breaker::default(), now));
        *heard = now;
        if let Some(change) = breaker.note(note.outcome, is_probe, &self.options, now) {
            self.show(&note.peer, change);
        }
    }

    fn show(&self, peer: &PeerName, change: Change) {
        let mut view = View::clone(&self.view.load());
        match change {
            Change::Passing => {
                view.remove(peer);
            }
            Change::Shut { until } => {
                let probes = AtomicU32::new(self.options.probes.max(1));
                view.insert(peer.clone(), Arc::new(Door { until, probes }));
            }
        }
        self.view.store(Arc::new(view));
    }

    fn make_room(&mut self, peer: &PeerName, now: Instant) {
        if self.peers.len() < MAX_PEERS || self.peers.contains_key(peer) {
            return;
        }
        let window = self.options.window;
        self.peers
            .retain(|_, (breaker, _)| !breaker.is_blank(window, now));
        if self.peers.len() < MAX_PEERS {
            return;
        }
        let oldest = self.peers.iter().min_by_key(|(_, (_, heard))| *heard);
        if let Some(oldest) = oldest.map(|(peer, _)| peer.clone()) {
            self.peers.remove(&oldest);
            self.show(&oldest, Change::Passing);
        }
    }
}
