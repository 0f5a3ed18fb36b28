//! Events that hang on one announcement alone, and go with it (G01-107).
//!
//! The served events that refer to each other are a graph. What is connected with the announcement,
//! and not, by whatever way, with another one that is served, has nothing left to belong to.

use std::{
    collections::{BTreeMap, BTreeSet},
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
    /// The events that hang on the announcement of `addr` alone, and the states of the identifier if
    /// nobody else has announced it. Beyond the bounds none: then the coordinate goes alone. Blocks.
    pub(crate) fn hanging_on(&self, addr: &RepoAddr) -> Result<Vec<Event>, ViewError> {
        let events = self.store.read().map_err(ViewError::new)?;
        let mut walk = Walk {
            events: &events,
            without: addr,
            nodes: 0,
            edges: 0,
        };
        let Some(mut hanging) = walk.run()? else {
            tracing::warn!(repository = %addr, "too much refers to a deleted repository: it goes alone");
            return Ok(Vec::new());
        };
        let announced = events.with_d(kinds::ANNOUNCEMENT, addr.identifier.as_str());
        let announced = announced.map_err(ViewError::new)?;
        let others = announced.iter().any(|it| it.pubkey != addr.owner);
        let purgatory = self.purgatory.lock();
        let mut held = purgatory.announcements(&addr.identifier);
        if !others && !held.any(|entry| entry.addr.owner != addr.owner) {
            let states = events.with_d(kinds::STATE, addr.identifier.as_str());
            hanging.extend(states.map_err(ViewError::new)?);
        }
        Ok(hanging)
    }
}

/// A walk over the graph without the announcement that goes.
struct Walk<'a> {
    events: &'a ReadView<'a>,
    without: &'a RepoAddr,
    nodes: usize,
    edges: usize,
}

impl Walk<'_> {
    /// None if there is too much.
    fn run(&mut self) -> Result<Option<Vec<Event>>, ViewError> {
        let mut first = BTreeMap::new();
        let gone = Address::of_announcement(self.without);
        let latest = self.events.latest(&gone).map_err(ViewError::new)?;
        for address in self.own_addresses() {
            self.referring(['a', 'A', 'q'], &address.to_string(), &mut first)?;
        }
        if let Some(event) = &latest {
            self.referring(['e', 'E', 'q'], &event.id.to_hex(), &mut first)?;
        }
        let (mut seen, mut hanging) = (BTreeSet::new(), Vec::new());
        for event in first.into_values() {
            if seen.contains(&event.id) {
                continue;
            }
            let Some((connected, is_kept)) = self.connected(event, &mut seen)? else {
                return Ok(None);
            };
            if !is_kept {
                hanging.extend(connected);
            }
            if hanging.len() > MAX_DELETIONS {
                return Ok(None);
            }
        }
        Ok(Some(hanging))
    }

    /// A repository is known by the address of its owner's state, too.
    fn own_addresses(&self) -> [Address; 2] {
        [
            Address::of_announcement(self.without),
            Address::of_state(self.without),
        ]
    }

    /// All that is connected with an event, and whether it has something else to belong to.
    fn connected(
        &mut self,
        first: Event,
        seen: &mut BTreeSet<EventId>,
    ) -> Result<Option<(Vec<Event>, bool)>, ViewError> {
        seen.insert(first.id);
        let (mut next, mut found, mut is_kept) = (vec![first], Vec::new(), false);
        while let Some(event) = next.pop() {
            if kinds::is_request(event.kind) {
                continue;
            }
            if event.kind == kinds::STATE {
                // Goes by a rule of its own.
                continue;
            }
            if event.kind == kinds::ANNOUNCEMENT || event.kind == kinds::GRASP_LIST {
                // The one that goes does not keep what hangs on it.
                is_kept |= !self.is_gone(&event);
                continue;
            }
            self.nodes += 1;
            let mut neighbours = BTreeMap::new();
            self.neighbours(&event, &mut neighbours)?;
            self.edges += neighbours.len();
            if self.nodes > MAX_NODES || self.edges > MAX_EDGES {
                return Ok(None);
            }
            next.extend(neighbours.into_values().filter(|it| seen.insert(it.id)));
            found.push(event);
        }
        Ok(Some((found, is_kept)))
    }

    fn is_gone(&self, event: &Event) -> bool {
        let addresses = self.own_addresses();
        grip_nostr::address_of(event).is_some_and(|address| addresses.contains(&address))
    }

    fn neighbours(
        &mut self,
        event: &Event,
        found: &mut BTreeMap<EventId, Event>,
    ) -> Result<(), ViewError> {
        let named = references(event);
        for id in &named.ids {
            let event = self.events.get(id).map_err(ViewError::new)?;
            found.extend(event.map(|event| (event.id, event)));
        }
        let own = self.own_addresses();
        for address in named.addresses.iter().filter(|it| !own.contains(it)) {
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
        &mut self,
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
                ControlFlow::Continue(())
            });
        queried.map_err(ViewError::new)
    }
}
