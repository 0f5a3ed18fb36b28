//! The tips of served pull requests: which repositories have to show them.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
};

use grip_nostr::{Address, Event, EventId, Filter, PullRequest, RepoAddr, kinds};
use grip_store::{Limits, ReadView};
use grip_types::{Identifier, RefName};

use super::Expected;
use crate::{
    admission::{Found, View, ViewError, contributor_repositories, is_relevant, targets},
    error::GraspError,
    grasp::{Core, timestamp},
    policy::Policy,
};

/// Pull requests of one identifier that are looked at; those beyond keep the refs they have.
const MAX_REQUESTS: usize = 10_000;
/// Names in one query.
const PER_QUERY: usize = 100;

impl Core {
    /// Adds to what is expected the tips of the served pull requests that are here.
    pub(super) fn expect_tips(
        &self,
        expected: &mut Expected,
        identifier: &Identifier,
        events: &ReadView<'_>,
        view: &dyn View,
        policy: &Policy,
    ) -> Result<(), GraspError> {
        let mut requests = Vec::new();
        for request in served_requests(expected, events)? {
            let targets = targets(&request, view, policy)?;
            requests.push((request, targets));
        }
        let oids: Vec<_> = requests.iter().map(|(request, _)| request.tip).collect();
        let found = view.objects(identifier, &oids)?;
        for ((request, targets), found) in requests.iter().zip(found) {
            let is_here = match found {
                Found::Commit => true,
                Found::Missing => self.is_contributed(request, policy),
                Found::Other => continue,
            };
            // One that names several repositories may have been served for another.
            if !is_here && self.is_beside(identifier, request, targets, view)? {
                continue;
            }
            for (addr, repository) in &mut expected.repositories {
                if is_relevant(addr, targets, &expected.announcements) {
                    let tips = if is_here {
                        &mut repository.tips
                    } else {
                        &mut repository.lost_tips
                    };
                    tips.insert(request.event.id, request.tip);
                }
            }
        }
        Ok(())
    }

    /// Says whether the tip of a pull request is in a contributor repository here.
    fn is_contributed(&self, request: &PullRequest, policy: &Policy) -> bool {
        let mut sources = contributor_repositories(request, policy).into_iter();
        let name = RefName::for_nostr_event(request.event.id.as_bytes());
        sources.any(|addr| self.repositories.is_staged(&addr, &name, &request.tip))
    }

    /// Says whether the tip of a pull request is among the objects of another repository that it is for.
    fn is_beside(
        &self,
        identifier: &Identifier,
        request: &PullRequest,
        targets: &[RepoAddr],
        view: &dyn View,
    ) -> Result<bool, ViewError> {
        let names = targets.iter().map(|target| &target.identifier);
        let others: BTreeSet<&Identifier> = names.filter(|it| *it != identifier).collect();
        for other in others {
            if view.objects(other, &[request.tip])?[0] == Found::Commit {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The served pull requests that name a repository of the identifier, and the updates of these.
fn served_requests(
    expected: &Expected,
    events: &ReadView<'_>,
) -> Result<Vec<PullRequest>, GraspError> {
    let targets = expected.targets().into_iter();
    let addresses = targets.map(|addr| Address::of_announcement(&addr).to_string());
    let mut addresses: Vec<String> = addresses.collect();
    addresses.sort();
    let kinds = [kinds::PULL_REQUEST, kinds::PULL_REQUEST_UPDATE];
    let mut found: BTreeMap<EventId, Event> = BTreeMap::new();
    for addresses in addresses.chunks(PER_QUERY) {
        query(events, &kinds, 'a', addresses, &mut found)?;
    }
    let roots: Vec<String> = found.keys().map(EventId::to_hex).collect();
    for roots in roots.chunks(PER_QUERY) {
        for letter in ['E', 'e'] {
            query(events, &kinds[1..], letter, roots, &mut found)?;
        }
    }
    let requests = found
        .into_values()
        .filter_map(|it| PullRequest::parse(it).ok());
    Ok(requests.collect())
}

fn query(
    events: &ReadView<'_>,
    kinds: &[grip_nostr::Kind],
    letter: char,
    values: &[String],
    found: &mut BTreeMap<EventId, Event>,
) -> Result<(), ViewError> {
    let filter = Filter {
        kinds: Some(kinds.iter().map(|kind| kind.as_u16()).collect()),
        tags: BTreeMap::from([(letter, values.to_vec())]),
        ..Filter::default()
    };
    let limits = Limits {
        default_limit: MAX_REQUESTS,
        max_limit: MAX_REQUESTS,
    };
    let queried = events.query(&[filter], limits, timestamp(), &mut |stored| {
        if let Ok(event) = serde_json::from_slice::<Event>(stored.json) {
            found.insert(event.id, event);
        }
        if found.len() < MAX_REQUESTS {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    queried.map_err(ViewError::new)
}
