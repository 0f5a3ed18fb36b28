//! The identifiers an event is about, whose turns are taken before anything is decided.

use std::collections::BTreeSet;

use grip_nostr::{
    Address, Deletion, Event, EventId, PullRequest, References, first_value, kinds, references,
};
use grip_types::Identifier;

use crate::{
    admission::{View, ViewError, contributor_repositories, roots},
    grasp::Core,
};

/// Contributor repositories of one pull request; admission takes none with more names.
const MAX_CONTRIBUTED: usize = 4;

/// The identifier of an announcement or state; none if it has no usable one.
pub(crate) fn own_identifier(event: &Event) -> Option<Identifier> {
    Identifier::parse(first_value(event, "d")?).ok()
}

impl Core {
    /// What a pull request or a deletion is about: only identifiers that something is hosted or
    /// held for, so that their number is ours and not the sender's, and those of the few contributor
    /// repositories it names.
    pub(super) fn concerns(
        &self,
        event: &Event,
        view: &dyn View,
    ) -> Result<Vec<Identifier>, ViewError> {
        let mut found = BTreeSet::new();
        if let Some(deletion) = Deletion::parse(event.clone()) {
            for id in &deletion.ids {
                self.concerned_by(id, view, &mut found)?;
            }
            let addresses = deletion.addresses.iter();
            let repositories = addresses.filter_map(Address::repository);
            found.extend(repositories.map(|repository| repository.identifier));
        } else if PullRequest::is_one(event) {
            found.extend(named(&references(event)));
            for root in roots(event, view)? {
                found.extend(named(&references(&root)));
            }
            let pushed_to = view.placeholders(&event.id)?;
            found.extend(
                pushed_to
                    .into_iter()
                    .map(|repository| repository.identifier),
            );
        }
        // Of what a deletion concerns, contributor repositories may be all that is here.
        let is_deletion = event.kind == kinds::DELETION;
        found.retain(|identifier| {
            let has_contributors = || !self.repositories.contributors(identifier).is_empty();
            self.knows(identifier) || (is_deletion && has_contributors())
        });
        if let Ok(request) = PullRequest::parse(event.clone()) {
            let contributed = contributor_repositories(&request, &self.policy.load());
            let identifiers = contributed
                .into_iter()
                .map(|repository| repository.identifier);
            found.extend(identifiers.take(MAX_CONTRIBUTED));
        }
        Ok(found.into_iter().collect())
    }

    fn concerned_by(
        &self,
        id: &EventId,
        view: &dyn View,
        found: &mut BTreeSet<Identifier>,
    ) -> Result<(), ViewError> {
        let target = match view.served_event(id)? {
            Some(event) => Some(event),
            None => self.waiting_event(id),
        };
        let Some(target) = target else { return Ok(()) };
        found.extend(own_identifier(&target));
        if PullRequest::is_one(&target) {
            found.extend(self.concerns(&target, view)?);
        }
        Ok(())
    }

    fn knows(&self, identifier: &Identifier) -> bool {
        if !self.hosted.owners(identifier).is_empty() {
            return true;
        }
        let purgatory = self.purgatory.lock();
        purgatory.has_pending_events(identifier)
            || purgatory.announcements(identifier).next().is_some()
    }
}

fn named(references: &References) -> impl Iterator<Item = Identifier> {
    let repositories = references.addresses.iter().filter_map(Address::repository);
    repositories.map(|repository| repository.identifier)
}
