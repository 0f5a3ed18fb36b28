//! Announcements that have been read, each once.
//!
//! Every decision about a name looks at all who announced it, strangers too. To parse an event and the
//! URLs in it takes a hundred times as long as to look at what came of it; so that is kept, and a decision
//! parses what is new.

use std::sync::Arc;

use grip_nostr::{Announcement, Event, EventId};
use grip_types::ByteLru;
use parking_lot::Mutex;

use super::EventStatus;
use crate::policy::Policy;

/// Bytes of announcements that are kept. Of more than that the longest unused are parsed again.
const MAX_BYTES: usize = 16 << 20;

/// What a tag or one of its values takes beside its text.
const PER_VALUE: usize = 48;

/// An announcement and what was found out when it was read.
#[derive(Debug)]
pub(crate) struct ReadAnnouncement {
    pub(crate) announcement: Announcement,
    /// It has a repository on this server: it lists it, or is archived.
    pub(crate) is_hosted: bool,
}

/// The same with its status here.
#[derive(Clone, Debug)]
pub(crate) struct KnownAnnouncement {
    pub(crate) read: Arc<ReadAnnouncement>,
    pub(crate) status: EventStatus,
}

impl ReadAnnouncement {
    pub(crate) fn new(announcement: Announcement, policy: &Policy) -> Self {
        Self {
            is_hosted: policy.hosts(&announcement),
            announcement,
        }
    }

    /// None for what counts nowhere: what does not parse was never admitted, and what is banned counts no
    /// longer.
    pub(crate) fn read(event: Event, policy: &Policy) -> Option<Arc<Self>> {
        let announcement = Announcement::parse(event).ok()?;
        let counts = !policy.bans(&announcement.addr());
        counts.then(|| Arc::new(Self::new(announcement, policy)))
    }
}

/// The announcements that were read last, under the rules in force.
pub(crate) struct ReadAnnouncements(Mutex<Kept>);

struct Kept {
    /// By which they were read. Kept, so that no other rules can be at the same place in memory.
    policy: Arc<Policy>,
    by_id: ByteLru<EventId, Option<Arc<ReadAnnouncement>>>,
}

impl ReadAnnouncements {
    pub(crate) fn new(policy: Arc<Policy>) -> Self {
        Self(Mutex::new(Kept {
            policy,
            by_id: nothing(),
        }))
    }

    /// Has announcements looked up by their ids under `policy`. Rules that are not `in_force` are those of
    /// a moment ago, by which nothing is kept.
    pub(crate) fn reader<'a>(
        &'a self,
        policy: &'a Policy,
        in_force: impl FnOnce() -> Arc<Policy>,
    ) -> Reader<'a> {
        let mut kept = self.0.lock();
        if !std::ptr::eq(&*kept.policy, policy) {
            let in_force = in_force();
            if std::ptr::eq(&*in_force, policy) {
                *kept = Kept {
                    policy: in_force,
                    by_id: nothing(),
                };
            }
        }
        let is_kept = std::ptr::eq(&*kept.policy, policy);
        drop(kept);
        Reader {
            policy,
            kept: is_kept.then_some(&self.0),
        }
    }
}

/// Reads announcements under one set of rules.
pub(crate) struct Reader<'a> {
    policy: &'a Policy,
    kept: Option<&'a Mutex<Kept>>,
}

impl Reader<'_> {
    /// The announcement of this id; `load` is asked for the event if it has not been read.
    pub(crate) fn get<E>(
        &self,
        id: EventId,
        load: impl FnOnce() -> Result<Option<Event>, E>,
    ) -> Result<Option<Arc<ReadAnnouncement>>, E> {
        let of_policy = |kept: &Kept| std::ptr::eq(&*kept.policy, self.policy);
        if let Some(kept) = self.kept {
            let mut kept = kept.lock();
            if of_policy(&kept)
                && let Some(read) = kept.by_id.get(&id)
            {
                return Ok(read.clone());
            }
        }
        let Some(event) = load()? else {
            return Ok(None);
        };
        let read = ReadAnnouncement::read(event, self.policy);
        if let Some(kept) = self.kept {
            let mut kept = kept.lock();
            if of_policy(&kept) {
                kept.by_id.put(id, read.clone());
            }
        }
        Ok(read)
    }
}

fn nothing() -> ByteLru<EventId, Option<Arc<ReadAnnouncement>>> {
    ByteLru::new(MAX_BYTES, |_, read| {
        read.as_ref().map_or(0, |read| weight(&read.announcement))
    })
}

/// What an announcement takes in memory, about: the event, and its lists once more.
fn weight(announcement: &Announcement) -> usize {
    let event = &announcement.event;
    let of_tag = |values: &[String]| -> usize {
        let texts = values.iter().map(|value| value.len() + PER_VALUE);
        texts.sum::<usize>() + PER_VALUE
    };
    let tags: usize = event.tags.iter().map(|tag| of_tag(tag.as_slice())).sum();
    size_of::<ReadAnnouncement>() + event.content.len() + 2 * tags
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, convert::Infallible};

    use grip_types::Service;
    use nostr::prelude::Keys;

    use super::*;
    use crate::admission::fake::{SERVICE, listing};

    struct Scene {
        policy: Arc<Policy>,
        kept: ReadAnnouncements,
        /// Events that were parsed.
        loads: Cell<usize>,
    }

    impl Scene {
        fn new() -> Self {
            let policy = Arc::new(Policy::open(Service::parse(SERVICE).unwrap()));
            Self {
                kept: ReadAnnouncements::new(Arc::clone(&policy)),
                policy,
                loads: Cell::new(0),
            }
        }

        /// How many of them are hosted, and how many had to be parsed for it.
        fn read(&self, events: &[Event], policy: &Policy) -> (usize, usize) {
            let before = self.loads.get();
            let reader = self.kept.reader(policy, || Arc::clone(&self.policy));
            let read = events.iter().filter_map(|event| {
                let load = || {
                    self.loads.set(self.loads.get() + 1);
                    Ok::<_, Infallible>(Some(event.clone()))
                };
                let Ok(read) = reader.get(event.id, load);
                read
            });
            let hosted = read.filter(|read| read.is_hosted).count();
            (hosted, self.loads.get() - before)
        }
    }

    fn of_strangers(count: u64) -> Vec<Event> {
        let announce = |n| listing(&Keys::generate(), &[], 100 + n);
        (0..count).map(announce).collect()
    }

    #[test]
    fn a_decision_parses_what_is_new_and_nothing_of_strangers_again() {
        let scene = Scene::new();
        let mut events = of_strangers(300);
        assert_eq!(scene.read(&events, &scene.policy), (300, 300));
        assert_eq!(scene.read(&events, &scene.policy), (300, 0));
        events.extend(of_strangers(1));
        assert_eq!(scene.read(&events, &scene.policy), (301, 1));
    }

    #[test]
    fn other_rules_are_asked_again_and_those_of_a_moment_ago_leave_nothing() {
        let mut scene = Scene::new();
        let events = of_strangers(3);
        let before = Arc::clone(&scene.policy);
        assert_eq!(scene.read(&events, &before), (3, 3));
        let elsewhere = Policy::open(Service::parse("elsewhere.example").unwrap());
        scene.policy = Arc::new(elsewhere);
        let now = Arc::clone(&scene.policy);
        assert_eq!(scene.read(&events, &now), (0, 3));
        assert_eq!(scene.read(&events, &now), (0, 0));
        assert_eq!(scene.read(&events, &before), (3, 3));
        assert_eq!(scene.read(&events, &now), (0, 0));
    }

    #[test]
    fn what_is_banned_counts_nowhere() {
        let mut scene = Scene::new();
        let events = of_strangers(2);
        let mut policy = Policy::clone(&scene.policy);
        policy.event_blacklist.insert(events[0].pubkey);
        scene.policy = Arc::new(policy);
        let policy = Arc::clone(&scene.policy);
        assert_eq!(scene.read(&events, &policy), (1, 2));
        assert_eq!(scene.read(&events, &policy), (1, 0));
    }
}
