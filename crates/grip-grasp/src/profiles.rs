//! Profiles and relay lists of newcomers: taken before their author is known here, for a day and
//! within bounds, so that nobody needs another relay to begin (G03-5).

use std::{
    collections::{BTreeMap, VecDeque},
    ops::ControlFlow,
    sync::Arc,
    time::Duration,
};

use grip_nostr::{Address, EventId, Filter, Kind, PublicKey, Timestamp, kinds};
use grip_purgatory::Millis;
use grip_store::{EventView, Limits};
use parking_lot::Mutex;

use crate::{admission::ViewError, error::GraspError, grasp::Core};

/// The kinds that a newcomer publishes first.
pub(crate) const KINDS: [Kind; 2] = [kinds::PROFILE, kinds::RELAY_LIST];
/// Such events of unknown authors over all networks of clients: the next sweep removes the oldest
/// of more, and until then twice as many are taken. The share of each network is that of the relay
/// for events that need no relation.
const MAX_PROFILES: usize = 2_000;
/// Longest event of an unknown author, in the bytes of its content and tags.
const MAX_BYTES: usize = 16 << 10;
/// How long one is kept unless its author becomes known.
const LIFETIME: Duration = Duration::from_secs(86_400);

/// Kinds by which an author becomes known: each is only taken in relation to a repository here.
const BY_WHICH_KNOWN: [u16; 13] = [
    30_617, 30_618, 1_617, 1_618, 1_619, 1_621, 1_622, 1_111, 1_630, 1_631, 1_632, 1_633, 1_985,
];

/// What a profile takes of its network's share of unrelated events: a few are enough for anybody.
pub(crate) const SHARE_BYTES: usize = 32 << 10;

/// Profiles of authors who were not known when they came, by age.
#[derive(Default)]
pub(crate) struct Newcomers(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    since: BTreeMap<(PublicKey, Kind), Millis>,
    order: VecDeque<(PublicKey, Kind)>,
}

impl Newcomers {
    /// Notes a profile that is stored now; says whether there was room. A newer version takes the
    /// place of an older one and does not stay longer.
    pub(crate) fn add(&self, author: PublicKey, kind: Kind, now: Millis) -> bool {
        let mut waiting = self.0.lock();
        let key = (author, kind);
        if waiting.since.contains_key(&key) {
            return true;
        }
        if waiting.order.len() >= 2 * MAX_PROFILES {
            return false;
        }
        waiting.since.insert(key, now);
        waiting.order.push_back(key);
        true
    }

    /// Takes out those whose time is over, and the oldest of too many.
    fn due(&self, now: Millis) -> Vec<(PublicKey, Kind)> {
        let mut waiting = self.0.lock();
        let mut due = Vec::new();
        while let Some(key) = waiting.order.front().copied() {
            let since = waiting.since.get(&key).copied();
            let is_over = since.is_none_or(|since| now >= since + LIFETIME);
            if !is_over && waiting.order.len() <= MAX_PROFILES {
                break;
            }
            waiting.order.pop_front();
            waiting.since.remove(&key);
            due.push(key);
        }
        due
    }
}

/// Says whether a profile is small enough to be taken from somebody who is not known.
pub(crate) fn is_small(event: &grip_nostr::Event) -> bool {
    let tags = event.tags.iter().flat_map(|tag| tag.as_slice());
    // With the quotes and the comma of each.
    let bytes: usize = tags.map(|text| text.len() + 3).sum();
    bytes + event.content.len() <= MAX_BYTES
}

impl Core {
    /// Says whether somebody has a repository here, or has said something about one, or is this
    /// service itself.
    pub(crate) fn is_known(
        &self,
        author: &PublicKey,
        events: &dyn EventView,
    ) -> Result<bool, ViewError> {
        if self.policy.load().is_service(author) {
            return Ok(true);
        }
        for kind in BY_WHICH_KNOWN {
            let bytes = events.stored_bytes(author, Kind::Custom(kind), 1);
            if bytes.map_err(ViewError::new)? > 0 {
                return Ok(true);
            }
        }
        Ok(self.hosted.is_owner(author))
    }

    /// The same by what is served now; what cannot be read is left to the judgement.
    pub(crate) fn is_known_now(&self, author: &PublicKey) -> bool {
        let view = self.store.read().ok();
        let known = view.and_then(|view| self.is_known(author, &view).ok());
        known.unwrap_or(true)
    }

    /// Finds the profiles whose authors are not known, after a start: their day begins again.
    pub(crate) async fn restore_newcomers(self: &Arc<Self>, now: Millis) -> Result<(), GraspError> {
        let look = move |core: &Self| -> Result<(), ViewError> {
            let view = core.store.read().map_err(ViewError::new)?;
            let filter = Filter {
                kinds: Some(KINDS.iter().map(|kind| kind.as_u16()).collect()),
                ..Filter::default()
            };
            let limits = Limits {
                default_limit: usize::MAX,
                max_limit: usize::MAX,
            };
            let mut found = Vec::new();
            view.query(&[filter], limits, Timestamp::now(), &mut |stored| {
                let author = PublicKey::from_byte_array(stored.author);
                found.push((author, Kind::Custom(stored.kind)));
                ControlFlow::Continue(())
            })
            .map_err(ViewError::new)?;
            // The oldest first, which are the first to go.
            for (author, kind) in found.into_iter().rev() {
                if !core.is_known(&author, &view)? {
                    core.newcomers.add(author, kind, now);
                }
            }
            Ok(())
        };
        Ok(self.blocking("grasp.look", look).await??)
    }

    /// Removes the profiles whose day is over and whose authors are still not known.
    pub(crate) async fn end_newcomers(self: &Arc<Self>, now: Millis) -> Result<usize, GraspError> {
        let due = self.newcomers.due(now);
        if due.is_empty() {
            return Ok(0);
        }
        let look = move |core: &Self| -> Result<Vec<EventId>, ViewError> {
            let view = core.store.read().map_err(ViewError::new)?;
            let mut ended = Vec::new();
            for (author, kind) in due {
                let address = Address {
                    kind,
                    author,
                    d: String::new(),
                };
                if !core.is_known(&author, &view)?
                    && let Some(event) = view.latest(&address).map_err(ViewError::new)?
                {
                    ended.push(event.id);
                }
            }
            Ok(ended)
        };
        let ended = self.blocking("grasp.look", look).await??;
        let count = ended.len();
        if count > 0 {
            self.commit.remove_events(ended).await?;
            tracing::info!(count, "profiles of authors who are not known here removed");
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use nostr::prelude::Keys;

    use super::*;

    fn hour(hours: i64) -> Millis {
        Millis::new(hours * 3_600_000)
    }

    #[test]
    fn a_profile_stays_for_a_day_and_a_newer_version_does_not_prolong_it() {
        let newcomers = Newcomers::default();
        let author = Keys::generate().public_key();
        newcomers.add(author, kinds::PROFILE, hour(1));
        newcomers.add(author, kinds::PROFILE, hour(20));
        newcomers.add(author, kinds::RELAY_LIST, hour(20));
        assert!(newcomers.due(hour(24)).is_empty());
        assert_eq!(newcomers.due(hour(25)), [(author, kinds::PROFILE)]);
        assert_eq!(newcomers.due(hour(44)), [(author, kinds::RELAY_LIST)]);
        assert!(newcomers.0.lock().since.is_empty());
    }

    #[test]
    fn the_oldest_of_too_many_goes_first_and_no_more_than_twice_as_many_are_taken() {
        let newcomers = Newcomers::default();
        let add = |author| newcomers.add(author, kinds::PROFILE, hour(1));
        let author = |n: usize| {
            let mut bytes = [1; 32];
            bytes[..8].copy_from_slice(&n.to_be_bytes());
            PublicKey::from_byte_array(bytes)
        };
        assert!((0..2 * MAX_PROFILES).all(|n| add(author(n))));
        assert!(!add(author(2 * MAX_PROFILES)));
        let due = newcomers.due(hour(1));
        assert_eq!((due.len(), due[0].0), (MAX_PROFILES, author(0)));
        assert!(add(author(2 * MAX_PROFILES)));
    }
}
