use super::*;
use crate::{SYNC_DELAY_DEFAULT, SYNC_DELAY_IMMEDIATE};

fn holding(source: Source) -> Purgatory {
    let mut purgatory = Purgatory::default();
    let event = state(&Keys::generate(), 1, &[]);
    let added = purgatory.add_state(event, identifier("repo"), source, NOW);
    let _ = added.unwrap();
    purgatory
}

fn next(purgatory: &Purgatory) -> Millis {
    purgatory.next_sync().unwrap().0
}

#[test]
fn submitted_events_wait_three_minutes_and_synced_ones_half_a_second() {
    assert_eq!(next(&holding(Source::Submitted)), NOW + SYNC_DELAY_DEFAULT);
    assert_eq!(next(&holding(Source::Synced)), NOW + SYNC_DELAY_IMMEDIATE);
}

#[test]
fn a_new_event_resets_the_count_and_only_brings_the_attempt_forward() {
    let repo = identifier("repo");
    let mut purgatory = holding(Source::Synced);
    let due = next(&purgatory);
    assert_eq!(purgatory.begin_sync(due - SECOND), None);
    assert_eq!(purgatory.begin_sync(due), Some(repo.clone()));
    assert_eq!(purgatory.begin_sync(due), None);
    let _ = purgatory.retry_sync(&repo, MINUTE, due);
    let entry = *purgatory.sync_entry(&repo).unwrap();
    assert_eq!((entry.attempt_count, entry.in_progress), (1, false));
    assert_eq!(entry.next_attempt, due + MINUTE);

    // Later than planned: only the count changes.
    assert_eq!(purgatory.enqueue_sync_default(&repo, due).len(), 1);
    let entry = *purgatory.sync_entry(&repo).unwrap();
    assert_eq!((entry.attempt_count, entry.next_attempt), (0, due + MINUTE));
    assert!(purgatory.enqueue_sync_default(&repo, due).is_empty());
    let _ = purgatory.enqueue_sync_immediate(&repo, due);
    assert_eq!(next(&purgatory), due + SYNC_DELAY_IMMEDIATE);
}

#[test]
fn an_event_during_an_attempt_gets_one_of_its_own() {
    let repo = identifier("repo");
    let mut purgatory = holding(Source::Synced);
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
    let mut purgatory = holding(Source::Submitted);
    let (repo, other) = (identifier("repo"), identifier("other"));
    assert!(purgatory.enqueue_sync_immediate(&other, NOW).is_empty());
    assert_eq!(purgatory.remove_from_sync_queue(&repo).len(), 1);
    assert_eq!(purgatory.sync_entry(&repo), None);
    assert!(purgatory.remove_from_sync_queue(&repo).is_empty());
    assert!(purgatory.retry_sync(&repo, MINUTE, NOW).is_empty());
    assert!(purgatory.has_pending_events(&repo));
}
