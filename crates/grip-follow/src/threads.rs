//! Issues, patches and pull requests of a repository, and the answers below them (G02-5, G02-12).

use std::{
    collections::{BTreeMap, HashMap},
    ops::ControlFlow,
};

use grip_nostr::{
    Address, Event, EventId, Filter, PublicKey, RepoAddr, Timestamp, address_of, kinds, references,
};
use grip_store::{Item, Limits, Match, Query, ReadView, StoreError};

use crate::targets::{TakenPart, Threads};

/// Issues, patches and pull requests of one repository that are followed, the newest.
const MAX_ROOTS: usize = 5_000;
/// Kinds of applications, releases and container images.
const SOFTWARE: [u16; 3] = [30_063, 30_624, 32_267];
/// Those of one repository that are followed, the newest.
const MAX_SOFTWARE: usize = 500;
/// Answers of one repository that are followed.
const MAX_ANSWERS: usize = 10_000;
/// How far down answers are followed.
const MAX_DEPTH: usize = 8;
/// Events that one level is asked for at a time.
const AT_ONCE: usize = 500;

const UNLIMITED: Limits = Limits {
    default_limit: usize::MAX,
    max_limit: usize::MAX,
};

/// What is served of a repository. What cannot be read is left out: it is looked at again soon.
pub(crate) fn of(view: &ReadView<'_>, addr: &RepoAddr, max_descendants: usize) -> Threads {
    read(view, addr, max_descendants).unwrap_or_else(|error| {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "failed to read issues and their answers"
        );
        Threads::default()
    })
}

fn read(
    view: &ReadView<'_>,
    addr: &RepoAddr,
    max_descendants: usize,
) -> Result<Threads, StoreError> {
    let found = roots(view, addr)?;
    let roots: Vec<EventId> = found.iter().map(|(id, _)| *id).collect();
    let mut walk = Walk::below(&roots, max_descendants);
    for (root, author) in found {
        walk.participants.push(TakenPart {
            author,
            root,
            is_its_author: true,
        });
    }
    for (id, address) in software(view, addr)? {
        walk.add_software(id, address, max_descendants);
    }
    for _ in 0..MAX_DEPTH {
        if walk.level.is_empty() {
            break;
        }
        walk.descend(view)?;
    }
    Ok(Threads {
        roots,
        descendants: walk.found,
        addresses: walk.addresses,
        participants: walk.participants,
    })
}

/// The newest roots with their authors, the oldest of them first.
fn roots(view: &ReadView<'_>, addr: &RepoAddr) -> Result<Vec<(EventId, PublicKey)>, StoreError> {
    let kinds = [kinds::PATCH, kinds::PULL_REQUEST, kinds::ISSUE];
    let filter = Filter {
        kinds: Some(kinds.iter().map(|kind| kind.as_u16()).collect()),
        tags: BTreeMap::from([('a', vec![Address::of_announcement(addr).to_string()])]),
        limit: Some(MAX_ROOTS),
        ..Filter::default()
    };
    let mut found = Vec::new();
    view.query(&[filter], UNLIMITED, Timestamp::now(), &mut |stored| {
        found.push((stored.created_at, stored.id, stored.author));
        ControlFlow::Continue(())
    })?;
    found.sort_unstable();
    let found = found.into_iter().map(|(_, id, author)| {
        let author = PublicKey::from_byte_array(author);
        (EventId::from_byte_array(id), author)
    });
    Ok(found.collect())
}

/// Applications, releases and images of a repository: what speaks of them names their addresses.
fn software(view: &ReadView<'_>, addr: &RepoAddr) -> Result<Vec<(EventId, Address)>, StoreError> {
    let filter = Filter {
        kinds: Some(SOFTWARE.to_vec()),
        tags: BTreeMap::from([('a', vec![Address::of_announcement(addr).to_string()])]),
        limit: Some(MAX_SOFTWARE),
        ..Filter::default()
    };
    let mut found = Vec::new();
    view.query(&[filter], UNLIMITED, Timestamp::now(), &mut |stored| {
        let event = serde_json::from_slice::<Event>(stored.json).ok();
        let address = event.as_ref().and_then(address_of);
        found.extend(address.map(|address| (EventId::from_byte_array(stored.id), address)));
        ControlFlow::Continue(())
    })?;
    found.sort_unstable_by_key(|(id, _)| *id);
    Ok(found)
}

/// Time and id of every match; none if there are more than `most`.
pub(crate) fn items(
    view: &ReadView<'_>,
    filter: &Filter,
    most: usize,
) -> Result<Option<Vec<Item>>, StoreError> {
    let mut found = Vec::new();
    let mut is_too_many = false;
    let mut keep = |matched: &Match<'_>| {
        is_too_many = found.len() == most;
        if !is_too_many {
            found.push(matched.item());
        }
        Ok(!is_too_many)
    };
    let mut query = Query::new(vec![filter.clone()], UNLIMITED);
    query.run(view, Timestamp::now(), u64::MAX, &mut keep)?;
    Ok((!is_too_many).then_some(found))
}

/// A walk down from the roots: breadth first, each level by age and id, so that two nodes with the
/// same events choose the same.
struct Walk {
    /// The root of everything met so far, by its place among the roots.
    root_of: HashMap<EventId, usize>,
    root_of_address: HashMap<Address, usize>,
    /// Answers that each root may still have.
    room: Vec<usize>,
    level: Vec<(EventId, Option<Address>)>,
    found: Vec<EventId>,
    addresses: Vec<Address>,
    roots: Vec<EventId>,
    participants: Vec<TakenPart>,
}

/// An answer that was found below a root.
struct Answer {
    created_at: u64,
    id: EventId,
    author: PublicKey,
    address: Option<Address>,
    root: usize,
}

impl Walk {
    fn below(roots: &[EventId], most_of_one: usize) -> Self {
        let places = roots.iter().copied().zip(0..);
        Self {
            root_of: places.collect(),
            root_of_address: HashMap::new(),
            room: vec![most_of_one; roots.len()],
            level: roots.iter().map(|id| (*id, None)).collect(),
            found: Vec::new(),
            addresses: Vec::new(),
            roots: roots.to_vec(),
            participants: Vec::new(),
        }
    }

    fn add_software(&mut self, id: EventId, address: Address, most: usize) {
        let place = self.room.len();
        self.room.push(most);
        self.root_of.insert(id, place);
        self.root_of_address.insert(address.clone(), place);
        self.addresses.push(address.clone());
        self.level.push((id, Some(address)));
    }

    fn descend(&mut self, view: &ReadView<'_>) -> Result<(), StoreError> {
        let mut answers = Vec::new();
        for part in self.level.chunks(AT_ONCE) {
            self.answers(view, part, &mut answers)?;
        }
        answers.sort_unstable_by_key(|answer| (answer.created_at, answer.id));
        answers.dedup_by_key(|answer| answer.id);
        self.level.clear();
        for answer in answers {
            let room = &mut self.room[answer.root];
            if *room == 0 || self.found.len() == MAX_ANSWERS {
                continue;
            }
            *room -= 1;
            self.root_of.insert(answer.id, answer.root);
            self.found.push(answer.id);
            // Software has a place, too, and is no root.
            if let Some(root) = self.roots.get(answer.root) {
                self.participants.push(TakenPart {
                    author: answer.author,
                    root: *root,
                    is_its_author: false,
                });
            }
            if let Some(address) = &answer.address {
                self.root_of_address.insert(address.clone(), answer.root);
                self.addresses.push(address.clone());
            }
            self.level.push((answer.id, answer.address));
        }
        Ok(())
    }

    /// What names one of `parents`.
    fn answers(
        &self,
        view: &ReadView<'_>,
        parents: &[(EventId, Option<Address>)],
        found: &mut Vec<Answer>,
    ) -> Result<(), StoreError> {
        let ids: Vec<String> = parents.iter().map(|(id, _)| id.to_hex()).collect();
        let addresses = parents.iter().filter_map(|(_, address)| address.as_ref());
        let addresses: Vec<String> = addresses.map(Address::to_string).collect();
        let both = [ids.as_slice(), addresses.as_slice()].concat();
        let lists = [
            ('e', &ids),
            ('E', &ids),
            ('q', &both),
            ('a', &addresses),
            ('A', &addresses),
        ];
        let asked = lists.into_iter().filter(|(_, values)| !values.is_empty());
        let filters: Vec<Filter> = asked
            .map(|(letter, values)| tagged(letter, values))
            .collect();
        view.query(&filters, UNLIMITED, Timestamp::now(), &mut |stored| {
            let id = EventId::from_byte_array(stored.id);
            if !self.root_of.contains_key(&id)
                && let Ok(event) = serde_json::from_slice::<Event>(stored.json)
                && let Some(root) = self.root(&event)
            {
                found.push(Answer {
                    created_at: stored.created_at,
                    id,
                    author: event.pubkey,
                    address: address_of(&event),
                    root,
                });
            }
            ControlFlow::Continue(())
        })
    }

    /// The oldest root that an event stands below.
    fn root(&self, event: &Event) -> Option<usize> {
        let named = references(event);
        let by_id = named.ids.iter().filter_map(|id| self.root_of.get(id));
        let addresses = named.addresses.iter();
        let by_address = addresses.filter_map(|address| self.root_of_address.get(address));
        by_id.chain(by_address).min().copied()
    }
}

fn tagged(letter: char, values: &[String]) -> Filter {
    let mut values = values.to_vec();
    values.sort_unstable();
    values.dedup();
    Filter {
        tags: BTreeMap::from([(letter, values)]),
        ..Filter::default()
    }
}

#[cfg(test)]
mod tests;
