//! Events that hang on one announcement alone, and go with it (G01-107).
//!
//! The served events that refer to each other are a graph. What is connected with the announcement,
//! and not, by whatever way, with another one that stays, has nothing left to belong to.

use std::{
    collections::{BTreeMap, HashSet},
    ops::ControlFlow,
};

use grip_nostr::{Address, Event, EventId, Filter, RepoAddr, kinds, references};
use grip_store::{EventView as _, Limits, ReadView};

use crate::{
    admission::ViewError,
    grasp::{Core, timestamp},
};

const MAX_NODES: usize = 50_000;
const MAX_EDGES: usize = 250_000;
const MAX_DELETIONS: usize = 20_000;

impl Core {
    /// The events that hang on the announcements of `gone` alone, each with the first of them that it
    /// refers to, and the states of each identifier if nobody else has announced it. Beyond the bounds,
    /// which are for all of them together, none: then the coordinates go alone. Blocks.
    pub(crate) fn hanging_on(
        &self,
        gone: &[RepoAddr],
    ) -> Result<Vec<(Event, RepoAddr)>, ViewError> {
        let events = self.store.read().map_err(ViewError::new)?;
        let mut walk = Walk::new(&events, gone);
        let mut hanging = Vec::new();
        for addr in gone {
            let Some(found) = walk.hanging_on(addr)? else {
                tracing::warn!(repository = %addr, repositories = gone.len(), "too much refers to what is deleted: it goes alone");
                return Ok(Vec::new());
            };
            hanging.extend(found.into_iter().map(|event| (event, addr.clone())));
            let announced = events.with_d(kinds::ANNOUNCEMENT, addr.identifier.as_str());
            let announced = announced.map_err(ViewError::new)?;
            let others = announced.iter().any(|it| it.pubkey != addr.owner);
            let is_held_by_others = || {
                let purgatory = self.purgatory.lock();
                let mut held = purgatory.announcements(&addr.identifier);
                held.any(|entry| entry.addr.owner != addr.owner)
            };
            if !others && !is_held_by_others() {
                let states = events.with_d(kinds::STATE, addr.identifier.as_str());
                let states = states.map_err(ViewError::new)?;
                hanging.extend(states.into_iter().map(|event| (event, addr.clone())));
            }
        }
        Ok(hanging)
    }
}

/// A walk over the graph without the announcements that go.
struct Walk<'a> {
    events: &'a ReadView<'a>,
    /// The addresses of what goes. A repository is known by that of its owner's state, too.
    gone: HashSet<Address>,
    /// The events that were come to.
    seen: HashSet<EventId>,
    /// Those of them that are connected with something that stays.
    kept: HashSet<EventId>,
    nodes: usize,
    edges: usize,
    deletions: usize,
}

/// There is more than the bounds allow.
struct TooMuch;

impl<'a> Walk<'a> {
    fn new(events: &'a ReadView<'a>, gone: &[RepoAddr]) -> Self {
        Self {
            events,
            gone: gone.iter().flat_map(addresses_of).collect(),
            seen: HashSet::new(),
            kept: HashSet::new(),
            nodes: 0,
            edges: 0,
            deletions: 0,
        }
    }

    /// What is connected with the announcement of `addr`, and with none that stays; none if there is
    /// too much.
    fn hanging_on(&mut self, addr: &RepoAddr) -> Result<Option<Vec<Event>>, ViewError> {
        let mut first = BTreeMap::new();
        for address in addresses_of(addr) {
            self.referring(['a', 'A', 'q'], &address.to_string(), &mut first)?;
        }
        let latest = self.events.latest(&Address::of_announcement(addr));
        if let Some(event) = latest.map_err(ViewError::new)? {
            self.referring(['e', 'E', 'q'], &event.id.to_hex(), &mut first)?;
        }
        let mut hanging = Vec::new();
        for event in first.into_values() {
            if !is_node(&event) || !self.seen.insert(event.id) {
                continue;
            }
            match self.connected(event)? {
                Ok(connected) => hanging.extend(connected),
                Err(TooMuch) => return Ok(None),
            }
        }
        self.deletions += hanging.len();
        Ok((self.deletions <= MAX_DELETIONS).then_some(hanging))
    }

    /// All that is connected with an event; nothing if something that stays is. The walk ends there: how
    /// much else is connected with that, is for strangers to say.
    fn connected(&mut self, first: Event) -> Result<Result<Vec<Event>, TooMuch>, ViewError> {
        let (mut next, mut found) = (vec![first], Vec::new());
        while let Some(event) = next.pop() {
            self.nodes += 1;
            let mut neighbours = BTreeMap::new();
            self.neighbours(&event, &mut neighbours)?;
            self.edges += neighbours.len();
            if self.nodes > MAX_NODES || self.edges > MAX_EDGES {
                return Ok(Err(TooMuch));
            }
            found.push(event);
            if neighbours.values().any(|it| self.keeps(it)) {
                let connected = found.iter().chain(&next);
                self.kept.extend(connected.map(|event| event.id));
                return Ok(Ok(Vec::new()));
            }
            let neighbours = neighbours.into_values().filter(is_node);
            next.extend(neighbours.filter(|it| self.seen.insert(it.id)));
        }
        Ok(Ok(found))
    }

    /// Says whether what is connected with `event` has something to belong to.
    fn keeps(&self, event: &Event) -> bool {
        let stays = [kinds::ANNOUNCEMENT, kinds::GRASP_LIST].contains(&event.kind);
        // The ones that go do not keep what hangs on them.
        (stays && !self.is_gone(event)) || self.kept.contains(&event.id)
    }

    fn is_gone(&self, event: &Event) -> bool {
        grip_nostr::address_of(event).is_some_and(|address| self.gone.contains(&address))
    }

    fn neighbours(
        &self,
        event: &Event,
        found: &mut BTreeMap<EventId, Event>,
    ) -> Result<(), ViewError> {
        let named = references(event);
        for id in &named.ids {
            let event = self.events.get(id).map_err(ViewError::new)?;
            found.extend(event.map(|event| (event.id, event)));
        }
        for address in &named.addresses {
            if self.gone.contains(address) {
                continue;
            }
            let event = self.events.latest(address).map_err(ViewError::new)?;
            found.extend(event.map(|event| (event.id, event)));
            if let Some(repository) = address.repository() {
                let of_repository = Address::of_announcement(&repository);
                let event = self.events.latest(&of_repository);
                let event = event.map_err(ViewError::new)?;
                found.extend(event.map(|event| (event.id, event)));
            }
        }
        self.referring(['e', 'E', 'q'], &event.id.to_hex(), found)?;
        if let Some(address) = grip_nostr::address_of(event) {
            self.referring(['a', 'A', 'q'], &address.to_string(), found)?;
        }
        Ok(())
    }

    /// The events that name something by one of three tags.
    fn referring(
        &self,
        letters: [char; 3],
        value: &str,
        found: &mut BTreeMap<EventId, Event>,
    ) -> Result<(), ViewError> {
        let filters = letters.map(|letter| Filter {
            tags: BTreeMap::from([(letter, vec![value.to_owned()])]),
            ..Filter::default()
        });
        let limits = Limits {
            default_limit: MAX_NODES,
            max_limit: MAX_NODES,
        };
        let queried = self
            .events
            .query(&filters, limits, timestamp(), &mut |stored| {
                let event = serde_json::from_slice::<Event>(stored.json).ok();
                found.extend(event.map(|event| (event.id, event)));
                if found.len() > MAX_EDGES - self.edges {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            });
        queried.map_err(ViewError::new)
    }
}

fn addresses_of(addr: &RepoAddr) -> [Address; 2] {
    [Address::of_announcement(addr), Address::of_state(addr)]
}

/// Says whether an event connects others: requests to delete do not, and states go by a rule of their own.
fn is_node(event: &Event) -> bool {
    let others = [kinds::STATE, kinds::ANNOUNCEMENT, kinds::GRASP_LIST];
    !kinds::is_request(event.kind) && !others.contains(&event.kind)
}
