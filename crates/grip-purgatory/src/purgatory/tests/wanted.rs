//! Events still looked for after their 30 minutes.

use super::*;
use crate::WantedEntry;

const MAIN: &str = "refs/heads/main";
const HOUR: Duration = WANTED_INTERVAL;
const EXPIRED: Millis = Millis::new(NOW.get() + 30 * 60 * 1000);

/// A state that names an object.
fn naming(keys: &Keys, created_at: u64) -> Event {
    state(keys, created_at, &[[MAIN, &"a".repeat(40)]])
}

fn hold(purgatory: &mut Purgatory, event: &Event, source: Origin, at: Millis) -> Vec<Change> {
    let added = purgatory.add_state(event.clone(), identifier("repo"), source, at);
    added.unwrap()
}

/// A purgatory in which this state has expired.
fn wanting(event: &Event, source: Origin) -> Purgatory {
    let mut purgatory = Purgatory::default();
    let _ = hold(&mut purgatory, event, source, NOW);
    let (expired, _) = purgatory.cleanup(EXPIRED);
    assert_eq!(expired.len(), 1);
    purgatory
}

fn wanted_ids(purgatory: &Purgatory) -> Vec<EventId> {
    let repo = identifier("repo");
    let wanted = purgatory.wanted(&repo);
    wanted.map(|entry| entry.held.id()).collect()
}

#[test]
fn g02_2_a_state_that_expires_without_its_data_is_wanted_and_not_held() {
    let event = naming(&Keys::generate(), 1);
    for source in [Origin::Submitted, Origin::Synced] {
        let purgatory = wanting(&event, source);
        let WantedEntry { identifiers, held } = purgatory.find_wanted(&event.id).unwrap();
        assert_eq!(identifiers, &[identifier("repo")]);
        assert_eq!((held.origin, held.added_at), (source, EXPIRED));
        assert_eq!(held.deadline(), EXPIRED + WANTED_LIFETIME);
        // In no other sense is it here.
        assert!(purgatory.find_event(&event.id).is_none());
        assert!(purgatory.find_state(&identifier("repo")).is_empty());
        let counts = purgatory.count();
        assert_eq!((counts.states, counts.bytes, counts.wanted), (0, 0, 1));
        assert_eq!(purgatory.oldest_age(EXPIRED), None);
        // But for the search.
        assert!(purgatory.has_pending_events(&identifier("repo")));
        assert_eq!(counts.sync_queue, 1);
    }
}

#[test]
fn g02_3_a_pull_request_that_expires_is_wanted_for_each_of_its_identifiers() {
    let (one, two) = (identifier("one"), identifier("two"));
    let event = pr(&Keys::generate(), 1);
    let mut purgatory = Purgatory::default();
    let identifiers = vec![one.clone(), two.clone()];
    let added = purgatory.add_pr(event.clone(), oid('a'), identifiers, Origin::Synced, NOW);
    let _ = added.unwrap();
    let _ = purgatory.cleanup(EXPIRED);
    for it in [&one, &two] {
        assert_eq!(purgatory.wanted(it).count(), 1);
        assert!(purgatory.has_pending_events(it));
        assert!(purgatory.sync_entry(it).is_some());
    }
    // The row, and of each identifier the search.
    assert_eq!(purgatory.remove_pr(&event.id).len(), 3);
    assert_eq!(purgatory.count().wanted, 0);
    assert_eq!(purgatory.count().sync_queue, 0);
}

#[test]
fn attempts_for_wanted_events_are_due_every_hour_and_are_counted() {
    let repo = identifier("repo");
    let mut purgatory = wanting(&naming(&Keys::generate(), 1), Origin::Synced);
    let first = purgatory.next_sync().unwrap();
    assert!(first <= EXPIRED + HOUR);
    let mut due = first;
    for count in 1..=3 {
        assert_eq!(purgatory.begin_sync(due - SECOND).due(), None);
        assert_eq!(purgatory.begin_sync(due + SECOND).due(), Some(repo.clone()));
        // However long an attempt takes, the next is due an hour after this one was.
        let ended = due + SECOND * 90;
        let _ = match count {
            // A complete search that leaves it waiting is no other.
            3 => purgatory.complete_sync(&repo, ended),
            _ => purgatory.retry_sync(&repo, SECOND * 20, ended),
        };
        due = due + HOUR;
        let entry = *purgatory.sync_entry(&repo).unwrap();
        assert_eq!((entry.attempt_count, entry.next_attempt), (count, due));
    }
    // After a night without the node the attempt is made at once, and then again every hour.
    let morning = due + HOUR * 9;
    assert_eq!(purgatory.begin_sync(morning).due(), Some(repo.clone()));
    let _ = purgatory.retry_sync(&repo, SECOND * 20, morning);
    let soon = morning + SECOND * 20;
    assert_eq!(purgatory.begin_sync(soon).due(), Some(repo.clone()));
    let _ = purgatory.retry_sync(&repo, SECOND * 20, soon);
    assert_eq!(purgatory.next_sync(), Some(soon + HOUR));
    // One that has not come to its end goes on by itself.
    let _ = purgatory.sync_now(&repo, soon);
    let _ = purgatory.begin_sync(soon);
    let _ = purgatory.resume_sync(&repo, SECOND, soon);
    assert_eq!(purgatory.next_sync(), Some(soon + SECOND));
}

#[test]
fn rows_of_versions_without_a_time_for_wanted_events_get_one_within_the_hour() {
    let mut journal = Journal::default();
    let mut purgatory = Purgatory::default();
    let event = naming(&Keys::generate(), 1);
    journal.apply(hold(&mut purgatory, &event, Origin::Synced, NOW));
    journal.apply(purgatory.cleanup(EXPIRED).1);
    for ((class, _), row) in &mut journal.0 {
        if class == "sync" {
            row.expires_at = i64::MAX;
        }
    }
    let restored = journal.restore(EXPIRED);
    let due = restored.purgatory.next_sync().unwrap();
    assert!((EXPIRED..=EXPIRED + HOUR).contains(&due));
    journal.apply(restored.changes);
    assert_eq!(
        journal.restore(EXPIRED + SECOND).purgatory,
        restored.purgatory
    );
}

#[test]
fn while_something_is_held_beside_it_a_wanted_event_is_looked_for_more_often() {
    let repo = identifier("repo");
    let mut purgatory = wanting(&naming(&Keys::generate(), 1), Origin::Synced);
    let other = naming(&Keys::generate(), 2);
    let _ = hold(&mut purgatory, &other, Origin::Synced, EXPIRED);
    assert_eq!(
        purgatory.begin_sync(EXPIRED + SECOND).due().as_ref(),
        Some(&repo),
        "the new event brought the attempt forward"
    );
    let _ = purgatory.retry_sync(&repo, SECOND * 20, EXPIRED + SECOND);
    assert_eq!(
        purgatory.next_sync().unwrap(),
        EXPIRED + SECOND * 21,
        "as for any held event"
    );
}

#[test]
fn a_state_that_names_no_object_is_not_wanted() {
    let mut purgatory = Purgatory::default();
    let _ = hold(
        &mut purgatory,
        &state(&Keys::generate(), 1, &[]),
        Origin::Submitted,
        NOW,
    );
    let _ = purgatory.cleanup(EXPIRED);
    assert_eq!(purgatory, Purgatory::default());
}

#[test]
fn what_names_an_object_that_can_never_be_here_is_not_wanted() {
    let sha256 = "a".repeat(64);
    let refs = [[MAIN, &"a".repeat(40)], ["refs/tags/v1", &sha256]];
    let mut purgatory = Purgatory::default();
    let event = state(&Keys::generate(), 1, &refs);
    let _ = hold(&mut purgatory, &event, Origin::Submitted, NOW);
    let (commit, repo) = (sha256.parse().unwrap(), vec![identifier("repo")]);
    let event = pr(&Keys::generate(), 1);
    let added = purgatory.add_pr(event, commit, repo, Origin::Submitted, NOW);
    let _ = added.unwrap();
    assert_eq!(purgatory.cleanup(EXPIRED).0.len(), 2);
    assert_eq!(purgatory, Purgatory::default());
}

#[test]
fn an_event_whose_own_time_is_over_is_not_wanted_and_a_wanted_one_ends_with_it() {
    let keys = Keys::generate();
    for (end, wanted) in [(EXPIRED, 0), (EXPIRED + HOUR, 1)] {
        let tag = (end.get() / 1000).to_string();
        let event = state(&keys, 1, &[[MAIN, &"a".repeat(40)], ["expiration", &tag]]);
        let mut purgatory = Purgatory::default();
        let _ = hold(&mut purgatory, &event, Origin::Submitted, NOW);
        let _ = purgatory.cleanup(EXPIRED);
        assert_eq!(purgatory.count().wanted, wanted);
        let _ = purgatory.cleanup(end);
        assert_eq!(purgatory, Purgatory::default());
    }
}

#[test]
fn a_newer_version_takes_the_place_of_a_wanted_state_and_an_older_one_does_not() {
    let (keys, stranger) = (Keys::generate(), Keys::generate());
    let event = naming(&keys, 10);
    let mut purgatory = wanting(&event, Origin::Synced);
    for other in [naming(&keys, 9), naming(&stranger, 11)] {
        let _ = hold(&mut purgatory, &other, Origin::Synced, EXPIRED);
    }
    assert_eq!(wanted_ids(&purgatory), [event.id]);
    // The older one expires, and is not wanted beside the newer one; the stranger's is.
    let _ = purgatory.cleanup(EXPIRED + LIFETIME);
    assert_eq!(purgatory.count().wanted, 2);
    assert!(purgatory.find_wanted(&event.id).is_some());

    let newer = naming(&keys, 11);
    let changes = hold(
        &mut purgatory,
        &newer,
        Origin::Submitted,
        EXPIRED + LIFETIME,
    );
    let (class, key) = ("wanted".to_owned(), event.id.to_hex());
    assert!(changes.contains(&Change::Remove { class, key }));
    assert!(purgatory.find_wanted(&event.id).is_none());
    assert_eq!(purgatory.count().wanted, 1);
}

#[test]
fn of_two_held_versions_only_the_newer_is_wanted_whichever_expires_first() {
    let keys = Keys::generate();
    let (old, new) = (naming(&keys, 1), naming(&keys, 2));
    for order in [[&old, &new], [&new, &old]] {
        let mut purgatory = Purgatory::default();
        let _ = hold(&mut purgatory, order[0], Origin::Synced, NOW);
        let _ = hold(&mut purgatory, order[1], Origin::Synced, NOW + MINUTE);
        let _ = purgatory.cleanup(EXPIRED);
        let _ = purgatory.cleanup(EXPIRED + MINUTE);
        assert_eq!(wanted_ids(&purgatory), [new.id]);
    }
}

#[test]
fn a_synced_copy_changes_nothing_and_a_submitted_one_is_held_again() {
    let event = naming(&Keys::generate(), 1);
    let mut purgatory = wanting(&event, Origin::Synced);
    assert!(purgatory.was_expired(&event.id));
    let before = purgatory.clone();
    assert!(hold(&mut purgatory, &event, Origin::Synced, EXPIRED).is_empty());
    assert_eq!(purgatory, before);

    let _ = hold(&mut purgatory, &event, Origin::Submitted, EXPIRED);
    assert!(purgatory.find_wanted(&event.id).is_none());
    assert!(!purgatory.was_expired(&event.id));
    let held = purgatory.find_event(&event.id).unwrap().held();
    assert_eq!(held.deadline(), EXPIRED + LIFETIME);
    assert_eq!(purgatory.count().sync_queue, 1);
}

#[test]
fn the_oldest_leaves_for_a_new_one_at_the_bounds_of_number_and_bytes() {
    let repo = |n: usize| identifier(&format!("repo{n}"));
    let events: Vec<Event> = (0..3).map(|_| naming(&Keys::generate(), 1)).collect();
    let size = wanting(&events[0], Origin::Synced).count().wanted_bytes * 5 / 2;
    for bounds in [
        Bounds {
            wanted: 2,
            ..Bounds::default()
        },
        Bounds {
            wanted_bytes: size,
            ..Bounds::default()
        },
    ] {
        let mut purgatory = Purgatory::new(bounds);
        let mut last = Vec::new();
        for (n, event) in events.iter().enumerate() {
            let at = NOW + MINUTE * u32::try_from(n).unwrap();
            let added = purgatory.add_state(event.clone(), repo(n), Origin::Synced, at);
            let _ = added.unwrap();
            last = purgatory.cleanup(at + LIFETIME).1;
        }
        let known = events
            .iter()
            .map(|e| purgatory.find_wanted(&e.id).is_some());
        assert_eq!(known.collect::<Vec<_>>(), [false, true, true]);
        let (class, key) = ("wanted".to_owned(), events[0].id.to_hex());
        assert!(last.contains(&Change::Remove { class, key }));
        assert!(!purgatory.has_pending_events(&repo(0)));
        assert_eq!(purgatory.sync_entry(&repo(0)), None);
        assert!(purgatory.count().wanted_bytes <= size);
    }
    let mut none = Purgatory::new(Bounds {
        wanted: 0,
        ..Bounds::default()
    });
    let _ = hold(&mut none, &events[0], Origin::Submitted, NOW);
    let _ = none.cleanup(EXPIRED);
    assert_eq!(none.count(), Counts::default());
}

#[test]
fn a_wanted_event_is_given_up_after_30_days_and_remembered_if_it_was_synced() {
    for (source, remembered) in [(Origin::Synced, true), (Origin::Submitted, false)] {
        let event = naming(&Keys::generate(), 1);
        let mut purgatory = wanting(&event, source);
        let end = EXPIRED + WANTED_LIFETIME;
        assert_eq!(purgatory.next_deadline(), Some(end));
        assert!(purgatory.cleanup(end - SECOND).0.is_empty());
        let (expired, _) = purgatory.cleanup(end);
        let (identifiers, event_id) = (vec![identifier("repo")], event.id);
        assert_eq!(
            expired,
            [Expired::Wanted {
                identifiers,
                event_id
            }]
        );
        assert_eq!(purgatory.was_expired(&event.id), remembered);
        assert!(!purgatory.has_pending_events(&identifier("repo")));
        assert_eq!(purgatory.count().sync_queue, 0);
    }
}

#[test]
fn a_restart_keeps_what_is_wanted_and_how_often_it_was_looked_for() {
    let (mut journal, mut purgatory) = (Journal::default(), Purgatory::default());
    let repo = identifier("repo");
    let event = naming(&Keys::generate(), 1);
    journal.apply(hold(&mut purgatory, &event, Origin::Synced, NOW));
    journal.apply(purgatory.cleanup(EXPIRED).1);
    journal.apply(purgatory.sync_now(&repo, EXPIRED));
    let _ = purgatory.begin_sync(EXPIRED);
    journal.apply(purgatory.retry_sync(&repo, SECOND, EXPIRED));
    assert_eq!(purgatory.sync_entry(&repo).unwrap().attempt_count, 1);
    // In the middle of the next attempt.
    let later = EXPIRED + HOUR;
    journal.apply(purgatory.sync_now(&repo, later));
    let before = *purgatory.sync_entry(&repo).unwrap();
    let _ = purgatory.begin_sync(later).due().unwrap();

    let later = later + MINUTE;
    let restored = journal.restore(later);
    assert!(restored.changes.is_empty() && restored.unreadable.is_empty());
    let mut purgatory = restored.purgatory;
    assert_eq!(*purgatory.sync_entry(&repo).unwrap(), before);
    assert_eq!(wanted_ids(&purgatory), [event.id]);
    assert_eq!(purgatory.begin_sync(later).due(), Some(repo), "made again");
}

#[test]
fn a_restart_with_tighter_bounds_gives_up_the_oldest() {
    let (mut journal, mut purgatory) = (Journal::default(), Purgatory::default());
    let events: Vec<Event> = (0..3).map(|_| naming(&Keys::generate(), 1)).collect();
    for (event, n) in events.iter().zip(0u32..) {
        let at = NOW + MINUTE * n;
        journal.apply(hold(&mut purgatory, event, Origin::Synced, at));
        journal.apply(purgatory.cleanup(at + LIFETIME).1);
    }
    let bounds = Bounds {
        wanted: 1,
        ..Bounds::default()
    };
    let restored = Purgatory::restore(journal.0.values().cloned(), bounds, EXPIRED);
    assert_eq!(wanted_ids(&restored.purgatory), [events[2].id]);
    assert_eq!(restored.changes.len(), 2, "{:?}", restored.changes);
}

#[test]
fn dropping_by_hand_ends_the_search() {
    let event = naming(&Keys::generate(), 1);
    let mut purgatory = wanting(&event, Origin::Submitted);
    assert_eq!(purgatory.drop_event(&event.id, EXPIRED).len(), 2);
    assert_eq!(purgatory, Purgatory::default());
    assert!(purgatory.drop_event(&event.id, EXPIRED).is_empty());

    let _ = hold(&mut purgatory, &event, Origin::Synced, NOW);
    let _ = purgatory.drop_event(&event.id, NOW);
    assert!(purgatory.find_event(&event.id).is_none() && purgatory.was_expired(&event.id));
}

#[test]
fn a_flood_of_wanted_pull_requests_takes_no_others_place() {
    let bounds = Bounds {
        per_identifier: 3,
        ..Bounds::default()
    };
    let mut purgatory = Purgatory::new(bounds);
    let (repo, other) = (identifier("repo"), identifier("other"));
    let kept = naming(&Keys::generate(), 1);
    let _ = hold(&mut purgatory, &kept, Origin::Synced, NOW);
    let mut want = |n: u64, identifiers: &[&Identifier]| {
        let at = NOW + LIFETIME * u32::try_from(n).unwrap();
        let identifiers = identifiers.iter().copied().cloned().collect();
        let event = pr(&Keys::generate(), n);
        let added = purgatory.add_pr(event.clone(), oid('a'), identifiers, Origin::Synced, at);
        let _ = added.unwrap();
        let (_, changes) = purgatory.cleanup(at + LIFETIME);
        (event.id, changes)
    };
    let elsewhere = want(0, &[&other]).0;
    let flood: Vec<_> = (1..=5).map(|n| want(n, &[&repo, &other])).collect();
    let removed = |(id, _): &(EventId, _)| Change::remove(Class::Wanted, id);
    assert!(flood[3].1.contains(&removed(&flood[0])));
    let ids: BTreeSet<_> = wanted_ids(&purgatory).into_iter().collect();
    let newest = flood[2..].iter().map(|(id, _)| *id);
    assert_eq!(ids, newest.chain([kept.id]).collect());
    assert!(purgatory.find_wanted(&elsewhere).is_none());
    assert_eq!(purgatory.wanted(&other).count(), 3);
}

/// Lets the event of a new author expire, `n` minutes after the first.
fn expire(purgatory: &mut Purgatory, event: &Event, name: &str, n: u32) -> Vec<Change> {
    let (at, it) = (NOW + MINUTE * n, identifier(name));
    let added = if event.kind == kinds::STATE {
        purgatory.add_state(event.clone(), it, Origin::Synced, at)
    } else {
        purgatory.add_pr(event.clone(), oid('a'), vec![it], Origin::Synced, at)
    };
    let _ = added.unwrap();
    purgatory.cleanup(at + LIFETIME).1
}

#[test]
fn one_author_has_a_share_of_what_is_wanted_and_gives_up_its_own_oldest() {
    let bounds = Bounds {
        per_author: 2,
        ..Bounds::default()
    };
    let mut purgatory = Purgatory::new(bounds);
    let (victim, flooder) = (naming(&Keys::generate(), 1), Keys::generate());
    let _ = expire(&mut purgatory, &victim, "victim", 0);
    let flood: Vec<Event> = (1..=4).map(|n| pr(&flooder, n)).collect();
    let mut journal = Journal::default();
    for (event, n) in flood.iter().zip(1..) {
        journal.apply(expire(&mut purgatory, event, &format!("repo{n}"), n));
    }
    let is_wanted =
        |purgatory: &Purgatory, event: &Event| purgatory.find_wanted(&event.id).is_some();
    assert!(is_wanted(&purgatory, &victim));
    let left = flood.iter().map(|event| is_wanted(&purgatory, event));
    assert_eq!(left.collect::<Vec<_>>(), [false, false, true, true]);
    assert!(!purgatory.has_pending_events(&identifier("repo1")));

    // A smaller share counts from the next start on.
    let bounds = Bounds {
        per_author: 1,
        ..bounds
    };
    let restored = Purgatory::restore(journal.0.values().cloned(), bounds, EXPIRED);
    assert!(is_wanted(&restored.purgatory, &flood[3]));
    assert_eq!(restored.purgatory.count().wanted, 1);
    assert!(
        restored
            .changes
            .contains(&Change::remove(Class::Wanted, &flood[2].id))
    );
}

#[test]
fn at_the_bound_of_all_states_outlive_pull_requests() {
    let bounds = Bounds {
        wanted: 3,
        ..Bounds::default()
    };
    let mut purgatory = Purgatory::new(bounds);
    let author = Keys::generate;
    let oldest = naming(&author(), 1);
    let _ = expire(&mut purgatory, &oldest, "state", 0);
    let flood: Vec<Event> = (1..=5).map(|n| pr(&author(), n)).collect();
    for (event, n) in flood.iter().zip(1..) {
        let _ = expire(&mut purgatory, event, &format!("pr{n}"), n);
    }
    let all = |purgatory: &Purgatory| -> BTreeSet<EventId> {
        let wanted = purgatory.waiting().filter(|it| !it.is_held());
        wanted.map(|it| it.held().id()).collect()
    };
    let expected = [oldest.id, flood[3].id, flood[4].id];
    assert_eq!(all(&purgatory), expected.into());
    // New states take the place of pull requests while there are any, and then of the oldest.
    let states: Vec<Event> = (6..=8).map(|n| naming(&author(), n)).collect();
    let _ = expire(&mut purgatory, &states[0], "state6", 6);
    let _ = expire(&mut purgatory, &states[1], "state7", 7);
    let expected = [oldest.id, states[0].id, states[1].id];
    assert_eq!(all(&purgatory), expected.into());
    let before = purgatory.count();
    let late = pr(&author(), 9);
    let changes = expire(&mut purgatory, &late, "late", 8);
    assert_eq!(all(&purgatory), expected.into(), "no state leaves for it");
    assert!(
        !changes
            .iter()
            .any(|it| matches!(it, Change::Put(row) if row.class == "wanted"))
    );
    assert!(!purgatory.has_pending_events(&identifier("late")));
    assert_eq!(purgatory.count().sync_queue, before.sync_queue);
    let _ = expire(&mut purgatory, &states[2], "state8", 9);
    assert_eq!(
        all(&purgatory),
        states.iter().map(|state| state.id).collect()
    );
}

#[test]
fn holding_that_is_taken_back_leaves_everything_as_it_was() {
    let keys = Keys::generate();
    let (event, newer) = (naming(&keys, 1), naming(&keys, 2));
    let repo = identifier("repo");
    let is_same = |one: &Purgatory, other: &Purgatory| {
        // The next attempt may have come forward.
        let queued = |it: &Purgatory| {
            it.sync_queue()
                .map(|(it, _)| it.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!((one.count(), queued(one)), (other.count(), queued(other)));
        assert_eq!(wanted_ids(one), wanted_ids(other));
        assert_eq!(one.was_expired(&event.id), other.was_expired(&event.id));
        assert_eq!(one.find_state(&repo), other.find_state(&repo));
    };
    // The wanted event itself, its successor, and one that is held already.
    let mut held = Purgatory::default();
    let _ = hold(&mut held, &event, Origin::Synced, NOW);
    let wanting = wanting(&event, Origin::Synced);
    for (mut purgatory, event) in [
        (wanting.clone(), &event),
        (wanting, &newer),
        (held, &event),
        (Purgatory::default(), &event),
    ] {
        let earlier = purgatory.clone();
        let before = purgatory.before(&event.id, std::slice::from_ref(&repo));
        let _ = hold(&mut purgatory, event, Origin::Submitted, EXPIRED);
        assert_ne!(purgatory, earlier);
        purgatory.undo(before);
        is_same(&purgatory, &earlier);
    }

    let event = pr(&keys, 1);
    let mut purgatory = Purgatory::default();
    let _ = expire(&mut purgatory, &event, "repo", 0);
    let pushed = purgatory.add_pr_placeholder(event.id, oid('a'), addr(&keys), None, EXPIRED);
    let _ = pushed.unwrap();
    let earlier = purgatory.clone();
    let before = purgatory.before(&event.id, std::slice::from_ref(&repo));
    let added = purgatory.add_pr(
        event,
        oid('a'),
        vec![repo.clone()],
        Origin::Submitted,
        EXPIRED,
    );
    let _ = added.unwrap();
    purgatory.undo(before);
    is_same(&purgatory, &earlier);
}
