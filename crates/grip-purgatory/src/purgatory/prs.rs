//! Pull requests, by event id: the event waits for its commit, or the pushed ref for its event.

use grip_nostr::{Event, EventId, RepoAddr};
use grip_types::{ClientNetwork, Identifier, Oid, Origin};

use super::{Home, Purgatory, promoted};
use crate::{
    Change, Full, Held, Millis, Placeholder, PlaceholderRef, PrEntry, Provenance, can_be_here,
    entry::NamedRef, journal::Class,
};

impl Purgatory {
    /// Holds a pull request or an update of one (kinds 1618 and 1619) until `commit` is in a
    /// repository of one of `identifiers`, and sees to it that it is looked for.
    ///
    /// One that is held already begins no new time, nor does a wanted one that comes by sync.
    pub fn add_pr(
        &mut self,
        event: Event,
        commit: Oid,
        mut identifiers: Vec<Identifier>,
        from: impl Into<Provenance>,
        now: Millis,
    ) -> Result<Vec<Change>, Full> {
        let (id, from) = (event.id, from.into());
        let origin = from.source.origin;
        if self.ids.contains_key(&id) {
            return Ok(self.promote_pr(&id, origin, now));
        }
        if self.is_wanted_already(&id, origin) {
            return Ok(Vec::new());
        }
        identifiers.sort();
        identifiers.dedup();
        let held = Held::new(&event, origin, now, now + self.bounds.lifetime);
        let entry = self.admit_from(&from, |family| PrEntry {
            commit,
            identifiers: identifiers.clone(),
            held: held.clone().charged_to(family, from.source.network),
        })?;
        let mut changes = vec![Change::put_pr(&entry)];
        let identifiers = entry.identifiers.clone();
        self.insert_pr(entry);
        changes.extend(self.remove_wanted(&id));
        changes.extend(self.unremember(&id));
        for identifier in &identifiers {
            changes.extend(self.enqueue_for(identifier, origin, now));
        }
        Ok(changes)
    }

    /// Notes that `refs/nostr/<event_id>` was pushed to `repo` from `network` before its event is
    /// known. A further push begins the 20 minutes again, and stays the share of the first.
    pub fn add_pr_placeholder(
        &mut self,
        event_id: EventId,
        commit: Oid,
        repo: RepoAddr,
        network: Option<ClientNetwork>,
        now: Millis,
    ) -> Result<Vec<Change>, Full> {
        let before = self.placeholder_ref(&event_id, &repo);
        let pushed = PlaceholderRef {
            commit,
            added_at: before.map_or(now, |before| before.added_at),
            expires_at: now + self.bounds.placeholder_lifetime,
            network: before.map_or(network, |before| before.network),
        };
        let named = NamedRef {
            event_id,
            repo: &repo,
            pushed,
        };
        match before {
            Some(pushed) => {
                self.count_out(&NamedRef { pushed, ..named });
                self.count_in(&named);
            }
            None => self.admit(&named)?,
        }
        let changes = vec![Change::put_placeholder(&named)];
        self.insert_placeholder_ref(event_id, repo, pushed);
        Ok(changes)
    }

    /// The held pull request event of this id.
    pub fn find_pr(&self, id: &EventId) -> Option<&PrEntry> {
        self.prs.get(id)
    }

    /// The pushed refs that wait for the event of this id.
    pub fn pr_placeholders(&self) -> impl Iterator<Item = &EventId> {
        self.placeholders.keys()
    }

    pub fn find_pr_placeholder(&self, id: &EventId) -> Option<&Placeholder> {
        self.placeholders.get(id)
    }

    /// The pull requests held for an identifier.
    pub fn prs(&self, identifier: &Identifier) -> impl Iterator<Item = &PrEntry> {
        let ids = self.prs_by_identifier.get(identifier);
        ids.into_iter().flatten().filter_map(|id| self.prs.get(id))
    }

    /// Removes the pull request of this id: the held or wanted event, and the note of pushed refs.
    pub fn remove_pr(&mut self, id: &EventId) -> Vec<Change> {
        let mut changes = self.take_pr(id);
        changes.extend(self.remove_wanted(id));
        changes.extend(self.remove_pr_placeholder(id));
        changes
    }

    /// Removes the note of all pushed refs of this id; a held event stays.
    pub fn remove_pr_placeholder(&mut self, id: &EventId) -> Vec<Change> {
        let Some(placeholder) = self.placeholders.get(id) else {
            return Vec::new();
        };
        let repos: Vec<RepoAddr> = placeholder.refs.keys().cloned().collect();
        let taken = repos.iter().filter_map(|repo| {
            let (_, change) = self.take_placeholder_ref(id, repo)?;
            Some(change)
        });
        taken.collect()
    }

    /// Removes the note of the ref pushed to one repository.
    pub fn remove_pr_placeholder_in(&mut self, id: &EventId, repo: &RepoAddr) -> Vec<Change> {
        let taken = self.take_placeholder_ref(id, repo);
        taken.map(|(_, change)| change).into_iter().collect()
    }

    pub(super) fn extend_pr(
        &mut self,
        identifier: &Identifier,
        id: &EventId,
        until: Millis,
    ) -> Option<Change> {
        let pr = self.find_pr(id)?;
        let until = until.min(self.latest_end(&pr.held));
        let extends = pr.identifiers.contains(identifier) && pr.held.expires_at < until;
        let longer = extends.then(|| Held {
            expires_at: until,
            ..pr.held.clone()
        })?;
        self.replace_pr(id, longer)
    }

    fn promote_pr(&mut self, id: &EventId, origin: Origin, now: Millis) -> Vec<Change> {
        let held = self.find_pr(id).and_then(|pr| promoted(&pr.held, origin));
        let Some(held) = held else {
            return Vec::new();
        };
        let mut changes: Vec<Change> = self.replace_pr(id, held).into_iter().collect();
        let identifiers = self.find_pr(id).map(|pr| pr.identifiers.clone());
        for identifier in identifiers.iter().flatten() {
            changes.extend(self.enqueue_for(identifier, origin, now));
        }
        changes
    }

    pub(super) fn replace_pr(&mut self, id: &EventId, held: Held) -> Option<Change> {
        let before = self.prs.remove(id)?;
        self.count_out(&before);
        let entry = PrEntry { held, ..before };
        self.count_in(&entry);
        let change = Change::put_pr(&entry);
        self.prs.insert(*id, entry);
        Some(change)
    }

    /// Files an entry that has been counted in.
    pub(super) fn insert_pr(&mut self, entry: PrEntry) {
        let id = entry.held.id();
        self.ids.insert(id, Home::Pr);
        for identifier in &entry.identifiers {
            let ids = self.prs_by_identifier.entry(identifier.clone());
            ids.or_default().insert(id);
        }
        self.prs.insert(id, entry);
    }

    /// Removes the held event alone.
    pub(super) fn take_pr(&mut self, id: &EventId) -> Vec<Change> {
        let Some(entry) = self.unfile_pr(id) else {
            return Vec::new();
        };
        let mut changes = vec![Change::remove(Class::Pr, id)];
        for identifier in &entry.identifiers {
            changes.extend(self.end_idle_search(identifier));
        }
        changes
    }

    /// Ends the time of a held event, which is wanted from now on if its commit can be here.
    pub(super) fn expire_pr(&mut self, id: &EventId, now: Millis) -> Vec<Change> {
        let Some(entry) = self.unfile_pr(id) else {
            return Vec::new();
        };
        let mut changes = vec![Change::remove(Class::Pr, id)];
        changes.extend(self.remember(*id, Some(entry.held.origin), now));
        if can_be_here(&entry.commit) {
            changes.extend(self.want(entry.identifiers.clone(), entry.held, now));
        }
        for identifier in &entry.identifiers {
            changes.extend(self.end_idle_search(identifier));
        }
        changes
    }

    pub(super) fn unfile_pr(&mut self, id: &EventId) -> Option<PrEntry> {
        let entry = self.prs.remove(id)?;
        self.ids.remove(id);
        self.count_out(&entry);
        for identifier in &entry.identifiers {
            if let Some(ids) = self.prs_by_identifier.get_mut(identifier) {
                ids.remove(id);
                if ids.is_empty() {
                    self.prs_by_identifier.remove(identifier);
                }
            }
        }
        Some(entry)
    }

    fn placeholder_ref(&self, id: &EventId, repo: &RepoAddr) -> Option<PlaceholderRef> {
        self.placeholders.get(id)?.refs.get(repo).copied()
    }

    /// Files a ref that has been counted in.
    pub(super) fn insert_placeholder_ref(
        &mut self,
        id: EventId,
        repo: RepoAddr,
        pushed: PlaceholderRef,
    ) {
        let placeholder = self.placeholders.entry(id).or_default();
        placeholder.refs.insert(repo, pushed);
    }

    pub(super) fn take_placeholder_ref(
        &mut self,
        id: &EventId,
        repo: &RepoAddr,
    ) -> Option<(Oid, Change)> {
        let placeholder = self.placeholders.get_mut(id)?;
        let pushed = placeholder.refs.remove(repo)?;
        if placeholder.refs.is_empty() {
            self.placeholders.remove(id);
        }
        let event_id = *id;
        self.count_out(&NamedRef {
            event_id,
            repo,
            pushed,
        });
        let change = Change::remove_placeholder(id, repo);
        Some((pushed.commit, change))
    }
}
