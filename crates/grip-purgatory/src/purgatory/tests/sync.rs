use super::*;

fn holding(origin: Origin) -> Purgatory {
    let mut purgatory = Purgatory::default();
    let event = state(&Keys::generate(), 1, &[]);
    let added = purgatory.add_state(event, identifier("repo"), origin, NOW);
    let _ = added.unwrap();
    purgatory
}

fn next(purgatory: &Purgatory) -> Millis {
    purgatory.next_sync().unwrap()
}

#[test]
fn submitted_events_wait_three_minutes_and_synced_ones_half_a_second() {
    assert_eq!(next(&holding(Origin::Submitted)), NOW + SYNC_DELAY_DEFAULT);
    assert_eq!(next(&holding(Origin::Synced)), NOW + SYNC_DELAY_IMMEDIATE);
}

/// `new_event_resets_attempt_count` of the source document.
#[test]
fn a_new_event_resets_the_count_and_only_brings_the_attempt_forward() {
    let repo = identifier("repo");
    let mut purgatory = holding(Origin::Synced);
    let due = next(&purgatory);
    assert_eq!(purgatory.begin_sync(due - SECOND).due(), None);
    assert_eq!(purgatory.begin_sync(due).due(), Some(repo.clone()));
    assert_eq!(purgatory.begin_sync(due).due(), None);
    let _ = purgatory.retry_sync(&repo, MINUTE, due);
    let entry = *purgatory.sync_entry(&repo).unwrap();
    assert_eq!((entry.attempt_count, entry.in_progress), (1, false));
    assert_eq!(entry.next_attempt, due + MINUTE);

    // Later than planned: only the count changes.
    assert_eq!(purgatory.enqueue_sync_default(&repo, due).len(), 1);
    let entry = *purgatory.sync_entry(&repo).unwrap();
    let renewed = (entry.attempt_count, entry.next_attempt);
    assert_eq!(renewed, (0, due + MINUTE));
    assert!(purgatory.enqueue_sync_default(&repo, due).is_empty());
    let _ = purgatory.enqueue_sync_immediate(&repo, due);
    assert_eq!(next(&purgatory), due + SYNC_DELAY_IMMEDIATE);
}

#[test]
fn an_event_during_an_attempt_gets_one_of_its_own() {
    let repo = identifier("repo");
    let mut purgatory = holding(Origin::Synced);
    let due = next(&purgatory);
    let _ = purgatory.begin_sync(due);
    let _ = purgatory.enqueue_sync_immediate(&repo, due + SECOND);
    assert_eq!(purgatory.next_sync(), None);
    let _ = purgatory.retry_sync(&repo, MINUTE, due + SECOND * 2);
    assert_eq!(next(&purgatory), due + SECOND + SYNC_DELAY_IMMEDIATE);
    assert_eq!(purgatory.sync_entry(&repo).unwrap().attempt_count, 0);
}

#[test]
fn what_nothing_waits_for_is_not_looked_for() {
    let mut purgatory = holding(Origin::Submitted);
    let (repo, other) = (identifier("repo"), identifier("other"));
    assert!(purgatory.enqueue_sync_immediate(&other, NOW).is_empty());
    assert!(purgatory.sync_entry(&repo).is_some());
    assert!(purgatory.has_pending_events(&repo));
    assert_eq!(remove_states(&mut purgatory, &repo).len(), 2);
    assert_eq!(purgatory.sync_entry(&repo), None);
    assert!(purgatory.retry_sync(&repo, MINUTE, NOW).is_empty());
}

/// `enqueue_sync_debounces_rapid_calls` of the source document.
#[test]
fn a_burst_of_events_is_one_entry_with_one_attempt() {
    let mut purgatory = Purgatory::default();
    let repo = identifier("repo");
    for n in 0..50u32 {
        let event = state(&Keys::generate(), 1, &[]);
        let at = NOW + Duration::from_millis(u64::from(n));
        let added = purgatory.add_state(event, repo.clone(), Origin::Synced, at);
        let _ = added.unwrap();
    }
    assert_eq!(purgatory.count().sync_queue, 1);
    assert_eq!(next(&purgatory), NOW + SYNC_DELAY_IMMEDIATE);
    assert_eq!(
        purgatory.begin_sync(next(&purgatory)).due(),
        Some(repo),
        "all of them wait for one attempt"
    );
    assert_eq!(purgatory.next_sync(), None);
}

#[test]
fn states_and_pull_requests_both_count_as_pending() {
    let (repo, other) = (identifier("repo"), identifier("other"));
    let mut purgatory = holding(Origin::Submitted);
    assert!(purgatory.has_pending_events(&repo) && !purgatory.has_pending_events(&other));
    let event = pr(&Keys::generate(), 1);
    let identifiers = vec![other.clone()];
    let added = purgatory.add_pr(event.clone(), oid('a'), identifiers, Origin::Submitted, NOW);
    let _ = added.unwrap();
    assert!(purgatory.has_pending_events(&other));
    let _ = purgatory.remove_pr(&event.id);
    let _ = remove_states(&mut purgatory, &repo);
    assert!(!purgatory.has_pending_events(&repo) && !purgatory.has_pending_events(&other));
}

#[test]
fn the_delays_are_those_of_the_settings() {
    let bounds = Bounds {
        sync_delays: SyncDelays {
            submitted: MINUTE,
            synced: SECOND,
        },
        ..Bounds::default()
    };
    for (origin, delay) in [(Origin::Submitted, MINUTE), (Origin::Synced, SECOND)] {
        let mut purgatory = Purgatory::new(bounds);
        let event = state(&Keys::generate(), 1, &[]);
        let added = purgatory.add_state(event, identifier("repo"), origin, NOW);
        let _ = added.unwrap();
        assert_eq!(next(&purgatory), NOW + delay);
    }
}

#[test]
fn an_attempt_that_is_resumed_does_not_count() {
    let repo = identifier("repo");
    let mut purgatory = holding(Origin::Synced);
    let due = next(&purgatory);
    let _ = purgatory.begin_sync(due);
    let _ = purgatory.retry_sync(&repo, SECOND, due);
    let _ = purgatory.begin_sync(due + SECOND);
    let changes = purgatory.resume_sync(&repo, SECOND, due + SECOND);
    assert!(matches!(&changes[..], [Change::Put(_)]));
    let entry = *purgatory.sync_entry(&repo).unwrap();
    assert_eq!((entry.attempt_count, entry.in_progress), (1, false));
    assert_eq!(entry.next_attempt, due + SECOND * 2);
}

#[test]
fn a_complete_search_ends_unless_something_waits_all_the_same() {
    let repo = identifier("repo");
    let mut purgatory = holding(Origin::Synced);
    let due = next(&purgatory);
    let _ = purgatory.begin_sync(due);
    let _ = purgatory.complete_sync(&repo, due);
    assert_eq!(next(&purgatory), due + SECOND * 120);
    assert_eq!(purgatory.sync_entry(&repo).unwrap().attempt_count, 1);

    let _ = purgatory.begin_sync(next(&purgatory));
    let _ = remove_states(&mut purgatory, &repo);
    assert!(purgatory.complete_sync(&repo, due).is_empty());
    assert_eq!(purgatory, Purgatory::default());
}

#[test]
fn an_identifier_that_comes_back_waits_for_the_end_of_its_attempt() {
    let repo = identifier("repo");
    let mut purgatory = holding(Origin::Synced);
    let due = next(&purgatory);
    let _ = purgatory.begin_sync(due);
    let _ = remove_states(&mut purgatory, &repo);
    assert_eq!(purgatory.sync_entry(&repo), None);
    let event = state(&Keys::generate(), 2, &[]);
    let added = purgatory.add_state(event, repo.clone(), Origin::Synced, due);
    let _ = added.unwrap();
    let later = due + MINUTE;
    assert_eq!(purgatory.begin_sync(later).due(), None, "never two at once");
    assert_eq!(purgatory.sync_queue().count(), 1);
    let _ = purgatory.complete_sync(&repo, later);
    assert_eq!(next(&purgatory), due + SYNC_DELAY_IMMEDIATE);
    assert_eq!(purgatory.begin_sync(later).due(), Some(repo));
}

#[test]
fn an_attempt_can_be_brought_forward_by_hand_and_keeps_its_count() {
    let repo = identifier("repo");
    let mut purgatory = holding(Origin::Synced);
    let due = next(&purgatory);
    let _ = purgatory.begin_sync(due);
    let _ = purgatory.retry_sync(&repo, MINUTE, due);
    assert_eq!(purgatory.sync_now(&repo, due + SECOND).len(), 1);
    let entry = *purgatory.sync_entry(&repo).unwrap();
    let next = (entry.attempt_count, entry.next_attempt);
    assert_eq!(next, (1, due + SECOND));
    assert!(purgatory.sync_now(&identifier("other"), due).is_empty());
    let _ = remove_states(&mut purgatory, &repo);
    assert!(purgatory.sync_now(&repo, due).is_empty());
}

#[test]
fn identifiers_are_taken_in_the_order_in_which_they_are_due() {
    let mut purgatory = Purgatory::default();
    for (name, seconds) in [("c", 3), ("a", 1), ("b", 2)] {
        let event = state(&Keys::generate(), 1, &[]);
        let at = NOW + SECOND * seconds;
        let added = purgatory.add_state(event, identifier(name), Origin::Synced, at);
        let _ = added.unwrap();
    }
    let taken: Vec<_> = std::iter::from_fn(|| purgatory.begin_sync(NOW + MINUTE).due()).collect();
    assert_eq!(taken, ["a", "b", "c"].map(identifier));
}

#[test]
fn a_clock_that_was_set_back_does_not_put_attempts_off() {
    let repo = identifier("repo");
    let mut journal = Journal::default();
    let mut purgatory = holding(Origin::Synced);
    let day = MINUTE * 60 * 24;
    let set_back = NOW - day;
    let (expired, changes) = purgatory.cleanup(set_back);
    assert!(expired.is_empty());
    assert_eq!(next(&purgatory), set_back);
    journal.apply(changes);
    assert!(
        journal
            .0
            .values()
            .any(|row| row.expires_at == set_back.get())
    );
    assert_eq!(purgatory.begin_sync(set_back).due(), Some(repo.clone()));
    // What is as far away as waits are stays where it is.
    let _ = purgatory.retry_sync(&repo, WANTED_INTERVAL, set_back);
    assert!(purgatory.cleanup(set_back).1.is_empty());
    assert_eq!(next(&purgatory), set_back + WANTED_INTERVAL);
}

#[test]
fn a_search_whose_row_is_lost_begins_again_at_the_start() {
    let mut journal = Journal::default();
    let mut purgatory = Purgatory::default();
    let (held, wanted) = (identifier("held"), identifier("wanted"));
    let event = pr(&Keys::generate(), 1);
    let added = purgatory.add_pr(event, oid('a'), vec![wanted.clone()], Origin::Synced, NOW);
    journal.apply(added.unwrap());
    journal.apply(purgatory.cleanup(NOW + LIFETIME).1);
    let event = state(&Keys::generate(), 1, &[]);
    let later = NOW + LIFETIME;
    let added = purgatory.add_state(event, held.clone(), Origin::Synced, later);
    journal.apply(added.unwrap());
    assert!(journal.restore(later).changes.is_empty());
    journal.0.retain(|(class, _), _| class != "sync");
    let restored = journal.restore(later);
    let next = |it| restored.purgatory.sync_entry(it).unwrap().next_attempt;
    assert_eq!(next(&held), later + SYNC_DELAY_DEFAULT);
    assert!((later..later + WANTED_INTERVAL).contains(&next(&wanted)));
    journal.apply(restored.changes);
    assert_eq!(journal.restore(later).purgatory, restored.purgatory);
}

#[test]
fn authors_take_turns_however_many_names_one_of_them_has() {
    let mut purgatory = Purgatory::default();
    let (greedy, honest, owner) = (Keys::generate(), Keys::generate(), Keys::generate());
    let mut created_at = 0;
    let mut add = |keys: &Keys, name: &str, from: Provenance| {
        created_at += 1;
        let event = state(keys, created_at, &[]);
        let added = purgatory.add_state(event, identifier(name), from, NOW);
        let _ = added.unwrap();
    };
    for n in 0..90 {
        add(&greedy, &format!("a{n:02}"), Origin::Synced.into());
    }
    add(&honest, "x", Origin::Synced.into());
    let repository = RepoAddr::new(owner.public_key(), identifier("z"));
    let served = Family {
        repository,
        granted: true,
    };
    let mut from = Provenance::from(Origin::Synced);
    from.families = vec![served];
    add(&owner, "z", from);
    let due = NOW + MINUTE;
    let mut begin = || purgatory.begin_sync(due).due().unwrap();
    let order: Vec<_> = (0..5).map(|_| begin().to_string()).collect();
    assert_eq!(
        order,
        ["z", "a00", "x", "a01", "a02"],
        "what is served comes first"
    );
    let waiting: Vec<_> = purgatory.sync_queue().map(|(it, _)| it.as_str()).collect();
    assert_eq!((waiting.len(), waiting[5]), (92, "a03"));
    // One that nothing waits for any more leaves its line.
    let _ = remove_states(&mut purgatory, &identifier("a03"));
    assert_eq!(purgatory.begin_sync(due).due(), Some(identifier("a04")));
}
