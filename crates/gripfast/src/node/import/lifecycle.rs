//! Lifecycle stores of ngit-grasp (L-7): removed events, versions that others replaced, and the times of
//! requests to delete and to vanish. Each holds events, and records of a kind of its own about them.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use anyhow::Context as _;
use grip_grasp::{HoldingReason, Kept, Policy, RemovedEvent, RequestTimes, TakenBack};
use grip_nostr::{Address, Event, EventId, PublicKey, RepoAddr, Timestamp, first_value, kinds};
use grip_store::nostr_lmdb::{self, Found};
use grip_types::Identifier;

use super::{
    Report, check_stopped,
    target::{BATCH, Target},
};
use crate::commands::progress::Progress;

/// Kinds of the records, as each store has its own.
const REMOVED: u16 = 9_905;
const REPLACED: u16 = 9_906;
const REQUESTED: u16 = 9_907;

/// Why an event was removed, in its record.
const SOURCE: &str = "holding-source";

const VANISHED: &str = "removed events: their authors have asked to vanish";

/// The three stores.
#[derive(Debug, Default)]
pub(super) struct Lifecycle {
    removed: Records,
    replaced: Records,
    requests: Records,
}

/// Events of a store, and the latest record about each.
#[derive(Debug, Default)]
struct Records {
    events: Vec<Event>,
    about: HashMap<EventId, Event>,
    unreadable: u64,
}

impl Lifecycle {
    /// Reads the stores below the directory of the event store; a file with lines has none.
    pub(super) fn read(relay: &Path) -> anyhow::Result<Self> {
        Ok(Self {
            removed: Records::read(&relay.join("holding"), REMOVED)?,
            replaced: Records::read(&relay.join("replaceable-history"), REPLACED)?,
            requests: Records::read(&relay.join("tombstones"), REQUESTED)?,
        })
    }

    /// Archives of repositories whose owners have asked to vanish, below the directory of archives.
    pub(super) fn vanished_archives(&self) -> HashSet<String> {
        let records = self.removed.about.values();
        let vanished = records.filter(|record| first_value(record, SOURCE) == Some("nip62"));
        let archives = vanished.filter_map(|record| first_value(record, "holding-archive-path"));
        archives.map(str::to_owned).collect()
    }

    /// Notes how much there is.
    pub(super) fn count(&self, report: &mut Report) {
        report.holding.found = self.removed.events.len() as u64;
        report.history.found = self.replaced.events.len() as u64;
        for _ in 0..self.removed.unreadable + self.replaced.unreadable {
            report.skip("events that cannot be read");
        }
    }
}

impl Records {
    fn read(store: &Path, kind: u16) -> anyhow::Result<Self> {
        let mut records = Self::default();
        if !nostr_lmdb::is_store(store) {
            return Ok(records);
        }
        check_stopped(store)?;
        let mut each = |found| match found {
            Found::Event(event) if event.kind.as_u16() == kind => records.add(*event),
            Found::Event(event) => records.events.push(*event),
            Found::Unreadable => records.unreadable += 1,
        };
        let read = nostr_lmdb::read(store, &mut each);
        read.with_context(|| format!("cannot read {}", store.display()))?;
        Ok(records)
    }

    /// A store keeps what it recorded before: the latest counts.
    fn add(&mut self, record: Event) {
        let about = first_value(&record, "e").and_then(|id| EventId::from_hex(id).ok());
        let Some(about) = about else {
            return;
        };
        let rank = |it: &Event| (removed_at(it), it.created_at, it.id);
        let known = self.about.get(&about);
        if known.is_none_or(|known| rank(known) < rank(&record)) {
            self.about.insert(about, record);
        }
    }
}

impl Target {
    /// Takes all of it over, each as if it had been removed, replaced or seen here.
    pub(super) async fn take_lifecycle(
        &self,
        lifecycle: Lifecycle,
        report: &mut Report,
    ) -> anyhow::Result<()> {
        lifecycle.count(report);
        let Lifecycle {
            removed,
            replaced,
            requests,
        } = lifecycle;
        let times: Vec<RequestTimes> = requests.about.iter().filter_map(times).collect();
        for times in times.chunks(BATCH) {
            let dated = self.grasp.take_request_times(times.to_vec()).await?;
            report.request_times += dated as u64;
        }
        self.take_replaced(replaced.events, report).await?;
        self.take_removed(removed, report).await
    }

    async fn take_replaced(
        &self,
        mut versions: Vec<Event>,
        report: &mut Report,
    ) -> anyhow::Result<()> {
        // The latest first: of too many the oldest are left out.
        versions.sort_by_key(|event| (std::cmp::Reverse(event.created_at), event.id));
        drop_forged(&mut versions, report);
        let mut progress = Progress::items("replaced versions", versions.len() as u64);
        for batch in versions.chunks(BATCH) {
            for kept in self.grasp.take_replaced(batch.to_vec()).await? {
                match kept {
                    Kept::Stored => report.history.taken += 1,
                    Kept::Duplicate => report.history.already_here += 1,
                    Kept::Unserved => report.skip("replaced versions: no later one is served"),
                    Kept::Deleted => report.skip("replaced versions: deleted by their authors"),
                    Kept::Beyond => report.skip("replaced versions: beyond what is kept of one"),
                }
                progress.add(1);
            }
        }
        progress.finish();
        Ok(())
    }

    async fn take_removed(&self, records: Records, report: &mut Report) -> anyhow::Result<()> {
        let Records {
            mut events, about, ..
        } = records;
        drop_forged(&mut events, report);
        let policy = self.grasp.policy();
        let mut progress = Progress::items("removed events", events.len() as u64);
        for event in events {
            progress.add(1);
            let Some(record) = about.get(&event.id) else {
                report.skip("removed events: nothing says when and why");
                continue;
            };
            let Some(removed) = removed_event(event, record, &policy) else {
                report.skip(VANISHED);
                continue;
            };
            match self.grasp.take_removed(removed).await? {
                TakenBack::Stored => report.holding.taken += 1,
                TakenBack::Duplicate => report.holding.already_here += 1,
                TakenBack::TooOld => report.skip("removed events: removed too long ago"),
                TakenBack::Vanished => report.skip(VANISHED),
            }
        }
        progress.finish();
        Ok(())
    }
}

fn drop_forged(events: &mut Vec<Event>, report: &mut Report) {
    events.retain(|event| {
        let is_authentic = event.verify().is_ok();
        if !is_authentic {
            report.skip("events with a wrong id or signature");
        }
        is_authentic
    });
}

fn times((request, record): (&EventId, &Event)) -> Option<RequestTimes> {
    Some(RequestTimes {
        request: *request,
        first_seen: time(record, "tombstone-first-seen-at")?,
        last_used: time(record, "tombstone-last-used-at"),
    })
}

fn removed_at(record: &Event) -> Option<Timestamp> {
    time(record, "holding-deleted-at")
}

fn time(record: &Event, tag: &str) -> Option<Timestamp> {
    let seconds = first_value(record, tag)?.parse().ok()?;
    Some(Timestamp::from_secs(seconds))
}

/// What a record says of a removed event; none if nothing may be kept of its author (G01-120).
fn removed_event(event: Event, record: &Event, policy: &Policy) -> Option<RemovedEvent> {
    let repository = repository(&event, record);
    let reason = match first_value(record, SOURCE) {
        Some("nip62") => return None,
        Some("blacklist") => HoldingReason::Blacklist,
        // It also says so of a repository whose owner has left: only the owner brings that back.
        Some("whitelist") => match &repository {
            Some(addr) if policy.selects(addr) => HoldingReason::Deleted,
            _ => HoldingReason::Whitelist,
        },
        _ => HoldingReason::Deleted,
    };
    Some(RemovedEvent {
        removed_at: removed_at(record).unwrap_or(record.created_at),
        event,
        repository,
        reason,
    })
}

/// The repository that an event was removed with: the coordinate, else owner and identifier.
fn repository(event: &Event, record: &Event) -> Option<RepoAddr> {
    let address = first_value(record, "a").and_then(|it| it.parse::<Address>().ok());
    let address = address.filter(|it| it.kind == kinds::ANNOUNCEMENT);
    if let Some(addr) = address.and_then(|it| it.repository()) {
        return Some(addr);
    }
    let owner = first_value(record, "holding-owner-pubkey");
    let owner = owner.and_then(|key| PublicKey::from_hex(key).ok());
    let identifier = first_value(record, "d").and_then(|d| Identifier::parse(d).ok());
    if let (Some(owner), Some(identifier)) = (owner, identifier) {
        return Some(RepoAddr::new(owner, identifier));
    }
    let is_repository = [kinds::ANNOUNCEMENT, kinds::STATE].contains(&event.kind);
    let identifier = first_value(event, "d").filter(|_| is_repository);
    let identifier = Identifier::parse(identifier?).ok()?;
    Some(RepoAddr::new(event.pubkey, identifier))
}

#[cfg(test)]
mod tests {
    use grip_types::Service;
    use nostr::prelude::{EventBuilder, FinalizeEvent as _, Keys, Kind, Tag};

    use super::*;

    fn sign(keys: &Keys, kind: u16, tags: &[&[&str]]) -> Event {
        let tags = tags.iter().map(|tag| Tag::parse(tag.iter().copied()));
        let tags = tags.map(|tag| tag.unwrap());
        let event = EventBuilder::new(Kind::from(kind), "").tags(tags);
        event.finalize(keys).unwrap()
    }

    fn policy() -> Policy {
        Policy::open(Service::parse("git.example").unwrap())
    }

    #[test]
    fn the_reason_of_a_removal_is_taken_over_and_nothing_of_who_vanished() {
        let keys = Keys::generate();
        let coordinate = format!("30617:{}:tides", keys.public_key().to_hex());
        let event = sign(&keys, 1621, &[]);
        let reason = |source: &str, policy: &Policy| {
            let tags: [&[&str]; 3] = [
                &["a", &coordinate],
                &[SOURCE, source],
                &["holding-deleted-at", "17"],
            ];
            let record = sign(&Keys::generate(), REMOVED, &tags);
            let removed = removed_event(event.clone(), &record, policy)?;
            assert_eq!(removed.removed_at, Timestamp::from_secs(17));
            Some(removed.reason)
        };
        let open = policy();
        assert_eq!(reason("nip09", &open), Some(HoldingReason::Deleted));
        assert_eq!(reason("blacklist", &open), Some(HoldingReason::Blacklist));
        assert_eq!(reason("nip62", &open), None);
        // Nothing here keeps it out, so its owner has left.
        assert_eq!(reason("whitelist", &open), Some(HoldingReason::Deleted));
        let chosen = Policy {
            repository_whitelist: "waves".parse().unwrap(),
            ..policy()
        };
        assert_eq!(reason("whitelist", &chosen), Some(HoldingReason::Whitelist));
    }

    #[test]
    fn an_event_belongs_to_the_repository_that_its_record_names_or_to_its_own() {
        let (owner, other) = (Keys::generate(), Keys::generate());
        let hex = owner.public_key().to_hex();
        let tides = RepoAddr::new(owner.public_key(), Identifier::parse("tides").unwrap());
        let address = format!("30617:{hex}:tides");
        let by_address = [&["a", address.as_str()][..]];
        let by_owner = [&["d", "tides"][..], &["holding-owner-pubkey", &hex]];
        let issue = sign(&other, 1621, &[]);
        for tags in [&by_address[..], &by_owner] {
            let record = sign(&other, REMOVED, tags);
            assert_eq!(repository(&issue, &record), Some(tides.clone()));
        }
        let record = sign(&other, REMOVED, &[&["d", "tides"]]);
        assert_eq!(repository(&issue, &record), None);
        let state = sign(&owner, 30_618, &[&["d", "tides"]]);
        assert_eq!(repository(&state, &record), Some(tides));
    }

    #[test]
    fn of_several_records_the_latest_removal_counts_and_archives_of_who_vanished_are_told() {
        let (keys, event) = (Keys::generate(), sign(&Keys::generate(), 1, &[]));
        let mut lifecycle = Lifecycle::default();
        for (at, source) in [("20", "nip62"), ("10", "nip09")] {
            let tags: [&[&str]; 4] = [
                &["e", &event.id.to_hex()],
                &[SOURCE, source],
                &["holding-deleted-at", at],
                &["holding-archive-path", "npub1x/tides-20.tar.gz"],
            ];
            lifecycle.removed.add(sign(&keys, REMOVED, &tags));
        }
        assert_eq!(lifecycle.removed.about.len(), 1);
        let vanished: Vec<String> = lifecycle.vanished_archives().into_iter().collect();
        assert_eq!(vanished, ["npub1x/tides-20.tar.gz"]);
    }
}
