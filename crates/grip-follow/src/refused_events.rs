//! Refused events that are kept whole for a while: answers that wait for what they belong to, and
//! announcements and states that wait for a maintainer (G02-35, G02-36).

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use grip_nostr::{Address, Event, EventId, Filter, address_of, first_value, references};
use grip_types::{ClientNetwork, EventSource};
use tokio::time::Instant;

/// Events that one arrival may bring back.
const MAX_CLOSURE: usize = 512;

/// How much is kept, and how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) events: usize,
    pub(crate) bytes: usize,
    /// Of one event.
    pub(crate) event_bytes: usize,
    pub(crate) lifetime: Duration,
}

/// Answers that wait for what they belong to.
pub(crate) const ORPHANS: Bounds = Bounds {
    events: 1_024,
    bytes: 8 << 20,
    event_bytes: 128 << 10,
    lifetime: Duration::from_secs(7 * 86_400),
};

/// Announcements and states of any length that relays take, for as long as the settings say.
pub(crate) fn hot(lifetime: Duration) -> Bounds {
    Bounds {
        event_bytes: 192 << 10,
        lifetime,
        ..ORPHANS
    }
}

/// An event that is kept, as it came.
#[derive(Clone, Debug)]
pub(crate) struct KeptEvent {
    pub(crate) event: Event,
    pub(crate) text: Bytes,
    pub(crate) source: EventSource,
    at: Instant,
}

/// Events by id. Where there is no room, the oldest goes of the network that has the most, so that
/// no relay pushes out what others delivered.
pub(crate) struct Kept {
    bounds: Bounds,
    by_id: HashMap<EventId, KeptEvent>,
    /// By age, for each network.
    order: BTreeMap<Option<ClientNetwork>, VecDeque<EventId>>,
    bytes: usize,
}

impl Kept {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            by_id: HashMap::new(),
            order: BTreeMap::new(),
            bytes: 0,
        }
    }

    pub(crate) fn add(&mut self, event: Event, text: Bytes, source: EventSource, now: Instant) {
        let Bounds {
            events,
            bytes,
            event_bytes,
            lifetime,
        } = self.bounds;
        let is_known = self.by_id.contains_key(&event.id);
        if text.len() > event_bytes || is_known || lifetime.is_zero() {
            return;
        }
        self.forget_old(now);
        while self.by_id.len() >= events || self.bytes + text.len() > bytes {
            // Who has the most of what is lacking.
            let lacks_bytes = self.bytes + text.len() > bytes;
            let size = |ids: &VecDeque<EventId>| -> usize {
                if !lacks_bytes {
                    return ids.len();
                }
                let kept = ids.iter().filter_map(|id| self.by_id.get(id));
                kept.map(|kept| kept.text.len()).sum()
            };
            let largest = self.order.iter().max_by_key(|(_, ids)| size(ids));
            let Some(oldest) = largest.and_then(|(_, ids)| ids.front().copied()) else {
                return;
            };
            self.remove(&oldest);
        }
        self.bytes += text.len();
        let of_network = self.order.entry(source.network).or_default();
        of_network.push_back(event.id);
        let kept = KeptEvent {
            text,
            source,
            at: now,
            event,
        };
        self.by_id.insert(kept.event.id, kept);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(crate) fn contains(&self, id: &EventId) -> bool {
        self.by_id.contains_key(id)
    }

    /// Time and id of what matches.
    pub(crate) fn items(&self, filter: &Filter) -> Vec<(u64, [u8; 32])> {
        let events = self.by_id.values().map(|kept| &kept.event);
        let events = events.filter(|event| filter.matches(event));
        events
            .map(|event| (event.created_at.as_secs(), event.id.to_bytes()))
            .collect()
    }

    /// Takes out what belongs to one of `arrived`.
    pub(crate) fn take_answers(&mut self, arrived: &[Event], now: Instant) -> Vec<KeptEvent> {
        let ids: HashSet<EventId> = arrived.iter().map(|event| event.id).collect();
        let addresses: HashSet<Address> = arrived.iter().filter_map(address_of).collect();
        self.take(now, |event| {
            let named = references(event);
            let mut addressed = named.addresses.iter();
            named.ids.iter().any(|id| ids.contains(id))
                || addressed.any(|address| addresses.contains(address))
        })
    }

    /// Takes out what belongs to one of `names`: events and addresses as filters write them.
    pub(crate) fn take_naming(
        &mut self,
        names: &HashSet<Arc<str>>,
        now: Instant,
    ) -> Vec<KeptEvent> {
        self.take(now, |event| {
            let named = references(event);
            let mut addressed = named.addresses.iter();
            let mut ids = named.ids.iter();
            ids.any(|id| names.contains(&*id.to_hex()))
                || addressed.any(|address| names.contains(&*address.to_string()))
        })
    }

    /// Takes out what speaks of one of `identifiers`.
    pub(crate) fn take_of(&mut self, identifiers: &HashSet<&str>, now: Instant) -> Vec<KeptEvent> {
        self.take(now, |event| {
            first_value(event, "d").is_some_and(|identifier| identifiers.contains(identifier))
        })
    }

    fn take(&mut self, now: Instant, is_wanted: impl Fn(&Event) -> bool) -> Vec<KeptEvent> {
        if self.by_id.is_empty() {
            return Vec::new();
        }
        self.forget_old(now);
        let events = self.by_id.values().map(|kept| &kept.event);
        let wanted = events.filter(|event| is_wanted(event));
        let ids: Vec<EventId> = wanted.map(|event| event.id).take(MAX_CLOSURE).collect();
        ids.iter().filter_map(|id| self.remove(id)).collect()
    }

    fn remove(&mut self, id: &EventId) -> Option<KeptEvent> {
        let kept = self.by_id.remove(id)?;
        self.bytes -= kept.text.len();
        let network = kept.source.network;
        if let Some(ids) = self.order.get_mut(&network) {
            ids.retain(|other| other != id);
            if ids.is_empty() {
                self.order.remove(&network);
            }
        }
        Some(kept)
    }

    fn forget_old(&mut self, now: Instant) {
        let lifetime = self.bounds.lifetime;
        let oldest = self.order.values().flat_map(|ids| {
            let is_old = |id: &&EventId| {
                let at = self.by_id.get(*id).map(|kept| kept.at);
                at.is_none_or(|at| now.saturating_duration_since(at) >= lifetime)
            };
            ids.iter().take_while(is_old).copied()
        });
        let oldest: Vec<EventId> = oldest.collect();
        for id in oldest {
            self.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use grip_types::{NetworkPrefixes, Origin};

    use super::*;
    use crate::testing::event;

    fn from(address: &str) -> EventSource {
        let address: IpAddr = address.parse().unwrap();
        EventSource {
            origin: Origin::Synced,
            network: Some(NetworkPrefixes::default().network(address)),
            is_configured: false,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn g02_36_answers_wait_for_their_root_within_bounds() {
        let mut orphans = Kept::new(ORPHANS);
        let root = event(1621, "", &[]);
        let answer = event(1111, "", &[["E", &root.id.to_hex()]]);
        let here = from("192.0.2.1");
        orphans.add(answer.clone(), Bytes::from("x"), here, Instant::now());
        assert!(orphans.contains(&answer.id));
        let taken = orphans.take_answers(std::slice::from_ref(&root), Instant::now());
        assert_eq!(taken.len(), 1);
        orphans.add(answer.clone(), Bytes::from("x"), here, Instant::now());
        let other = HashSet::from([Arc::from("1".repeat(64))]);
        assert!(orphans.take_naming(&other, Instant::now()).is_empty());
        let names = HashSet::from([Arc::from(root.id.to_hex())]);
        assert_eq!(orphans.take_naming(&names, Instant::now()).len(), 1);
        assert!(orphans.is_empty());
        let long = event(1111, "long", &[]);
        let text = Bytes::from(vec![0; ORPHANS.event_bytes + 1]);
        orphans.add(long.clone(), text, here, Instant::now());
        assert!(!orphans.contains(&long.id));
        // The oldest goes first, and all go after a week.
        orphans.add(answer.clone(), Bytes::from("x"), here, Instant::now());
        for n in 0..ORPHANS.events {
            let other = event(1111, &n.to_string(), &[]);
            orphans.add(other, Bytes::from("x"), here, Instant::now());
        }
        assert!(!orphans.contains(&answer.id));
        assert_eq!(orphans.by_id.len(), ORPHANS.events);
        tokio::time::advance(ORPHANS.lifetime).await;
        orphans.add(answer, Bytes::from("x"), here, Instant::now());
        assert_eq!((orphans.by_id.len(), orphans.bytes), (1, 1));
        assert_eq!(orphans.order.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_relay_that_sends_much_pushes_out_its_own_events() {
        let mut orphans = Kept::new(ORPHANS);
        let root = event(1621, "", &[]);
        let honest = event(1111, "", &[["E", &root.id.to_hex()]]);
        orphans.add(
            honest.clone(),
            Bytes::from("x"),
            from("192.0.2.1"),
            Instant::now(),
        );
        for n in 0..2 * ORPHANS.events {
            let other = event(1111, &n.to_string(), &[]);
            orphans.add(
                other,
                Bytes::from("x"),
                from("198.51.100.1"),
                Instant::now(),
            );
        }
        assert!(orphans.contains(&honest.id));
    }

    #[tokio::test(start_paused = true)]
    async fn g02_35_a_refused_state_is_kept_whole_for_two_minutes() {
        let mut kept = Kept::new(hot(Duration::from_secs(120)));
        let state = event(30618, "", &[["d", "tides"]]);
        let here = from("192.0.2.1");
        kept.add(state.clone(), Bytes::from("x"), here, Instant::now());
        tokio::time::advance(Duration::from_secs(119)).await;
        let none = kept.take_of(&HashSet::from(["other"]), Instant::now());
        assert!(none.is_empty());
        assert_eq!(
            kept.take_of(&HashSet::from(["tides"]), Instant::now())
                .len(),
            1
        );
        kept.add(state, Bytes::from("x"), here, Instant::now());
        tokio::time::advance(Duration::from_secs(120)).await;
        assert!(
            kept.take_of(&HashSet::from(["tides"]), Instant::now())
                .is_empty()
        );
        // Switched off.
        let mut off = Kept::new(hot(Duration::ZERO));
        off.add(
            event(30618, "", &[]),
            Bytes::from("x"),
            here,
            Instant::now(),
        );
        assert!(off.by_id.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn long_events_of_one_network_push_out_its_own() {
        let mut orphans = Kept::new(ORPHANS);
        let (honest, flood) = (from("192.0.2.1"), from("198.51.100.1"));
        let small: Vec<Event> = (0..200).map(|n| event(1111, &n.to_string(), &[])).collect();
        for event in &small {
            orphans.add(event.clone(), Bytes::from("x"), honest, Instant::now());
        }
        // Fewer events than the honest network has, and far more bytes than there is room for.
        for n in 0..150 {
            let text = Bytes::from(vec![0; ORPHANS.event_bytes]);
            orphans.add(
                event(1111, &format!("long {n}"), &[]),
                text,
                flood,
                Instant::now(),
            );
        }
        assert!(small.iter().all(|event| orphans.contains(&event.id)));
        assert!(orphans.bytes <= ORPHANS.bytes);
    }
}
