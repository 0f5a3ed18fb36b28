//! Access to a private relay: its members, and the proof of a client that it is one (NIP-42,
//! GRASP-08).

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use grip_nostr::{Event, PublicKey, Timestamp, values};
use grip_types::Service;
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use url::Url;

/// The kind of events that prove a key to a relay.
const KIND: u16 = 22_242;
/// How far the moment of signing may be from now, in seconds (G08-5).
const WINDOW: u64 = 120;
/// How long a client may take to prove a key.
const LOGIN_TIME: Duration = Duration::from_secs(30);
/// Invalid proofs after which a connection is closed.
const MAX_FAILURES: u8 = 3;

/// The keys that a private service lets in. Clones see every change at once.
#[derive(Clone, Debug)]
pub struct Members(watch::Receiver<Arc<BTreeSet<PublicKey>>>);

impl Members {
    /// Members as `keys` says at any time.
    pub fn new(keys: &watch::Sender<Arc<BTreeSet<PublicKey>>>) -> Self {
        Self(keys.subscribe())
    }

    pub fn contains(&self, key: &PublicKey) -> bool {
        self.0.borrow().contains(key)
    }

    /// Resolves once `key` is no member's any more. Cancel safe.
    pub async fn revoked(&self, key: &PublicKey) {
        let mut keys = self.0.clone();
        if keys.wait_for(|keys| !keys.contains(key)).await.is_err() {
            // The owner of the list has ended, and the node ends too.
            std::future::pending::<()>().await;
        }
    }
}

/// What a private relay asks of its clients.
#[derive(Clone, Debug)]
pub struct Access {
    /// The name that a proof must be made for.
    pub service: Service,
    pub members: Members,
}

/// The login of one connection.
pub(crate) struct Login {
    access: Access,
    pub(crate) challenge: String,
    deadline: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    member: Option<PublicKey>,
    failures: u8,
}

/// The end of an attempt to log in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    Member,
    /// A valid proof of a key that is no member's.
    Stranger,
    Invalid {
        why: &'static str,
        is_last: bool,
    },
}

/// Why a connection may not go on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Lockout {
    TooLate,
    /// Its key is no longer a member's.
    Revoked,
}

impl Login {
    pub(crate) fn new(access: Access) -> Self {
        Self {
            access,
            challenge: faster_hex::hex_string(&rand::random::<[u8; 16]>()),
            deadline: Instant::now() + LOGIN_TIME,
            state: Mutex::default(),
        }
    }

    /// The key that was proved, if it was.
    pub(crate) fn member(&self) -> Option<PublicKey> {
        self.state.lock().member
    }

    /// Judges a proof. A proof that counts replaces the one before it.
    pub(crate) fn prove(&self, event: Option<&Event>, now: Timestamp) -> Proof {
        let key = match self.verify(event, now) {
            Ok(key) => key,
            Err(why) => {
                let mut state = self.state.lock();
                state.failures = state.failures.saturating_add(1);
                let is_last = state.failures >= MAX_FAILURES;
                return Proof::Invalid { why, is_last };
            }
        };
        // Set before the members are read: a revocation in between is then seen here or by
        // `locked_out`.
        self.state.lock().member = Some(key);
        if self.access.members.contains(&key) {
            return Proof::Member;
        }
        self.state.lock().member = None;
        Proof::Stranger
    }

    fn verify(&self, event: Option<&Event>, now: Timestamp) -> Result<PublicKey, &'static str> {
        let event = event.ok_or("AUTH needs a whole event")?;
        if event.kind.as_u16() != KIND {
            return Err("an event of kind 22242 is needed");
        }
        if event.created_at.as_secs().abs_diff(now.as_secs()) > WINDOW {
            return Err("created_at is more than two minutes from now");
        }
        let one = |name| {
            let mut found = values(event, name);
            let first = found.next();
            first.filter(|_| found.next().is_none())
        };
        if one("challenge") != Some(self.challenge.as_str()) {
            return Err("the tag challenge must be the one that was sent here");
        }
        let is_here = |url: &str| {
            let url = Url::parse(url).ok();
            let below = url.and_then(|url| {
                let segments = self.access.service.segments_of(&url, &["ws", "wss"])?;
                Some(segments.is_empty() && url.query().is_none())
            });
            below == Some(true)
        };
        if !one("relay").is_some_and(is_here) {
            return Err("the tag relay must be the address of this relay");
        }
        event
            .verify()
            .map_err(|_| "the id or the signature is wrong")?;
        Ok(event.pubkey)
    }

    /// Resolves when the connection must end. Cancel safe.
    pub(crate) async fn locked_out(&self) -> Lockout {
        let mut members = self.access.members.0.clone();
        loop {
            let now = Arc::clone(&members.borrow_and_update());
            match self.member() {
                Some(key) if !now.contains(&key) => return Lockout::Revoked,
                None if Instant::now() >= self.deadline => return Lockout::TooLate,
                Some(_) | None => {}
            }
            tokio::select! {
                changed = members.changed() => {
                    // The owner of the list has ended, and the node ends too.
                    if changed.is_err() {
                        std::future::pending::<()>().await;
                    }
                }
                () = sleep_until(self.deadline), if self.member().is_none() => {}
            }
        }
    }
}
