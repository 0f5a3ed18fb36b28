use super::*;

fn add(purgatory: &mut Purgatory, event: &Event, origin: Origin) -> Vec<Change> {
    let added = purgatory.add_state(event.clone(), identifier("repo"), origin, NOW);
    added.unwrap()
}

fn ids(states: &[&StateEntry]) -> Vec<EventId> {
    states.iter().map(|state| state.held.id()).collect()
}

#[test]
fn g01_12_a_state_is_discarded_after_30_minutes() {
    let mut purgatory = Purgatory::default();
    let event = state(&Keys::generate(), 1, &[]);
    // The row of the state, and that of the search for its data.
    assert_eq!(add(&mut purgatory, &event, Origin::Submitted).len(), 2);
    assert!(purgatory.cleanup(NOW + LIFETIME - SECOND).0.is_empty());
    let (expired, changes) = purgatory.cleanup(NOW + LIFETIME);
    let identifier = identifier("repo");
    let event_id = event.id;
    assert_eq!(
        expired,
        [Expired::State {
            identifier,
            event_id
        }]
    );
    assert_eq!(changes.len(), 2);
    assert_eq!(purgatory, Purgatory::default());
}

#[test]
fn g01_17_several_states_of_several_authors_are_held_oldest_first() {
    let (a, b) = (Keys::generate(), Keys::generate());
    let mut purgatory = Purgatory::default();
    let events = [state(&a, 30, &[]), state(&b, 10, &[]), state(&a, 20, &[])];
    for event in &events {
        let _ = add(&mut purgatory, event, Origin::Submitted);
    }
    let held: Vec<&StateEntry> = purgatory.find_state(&identifier("repo")).iter().collect();
    assert_eq!(ids(&held), [events[1].id, events[2].id, events[0].id]);
    assert!(purgatory.find_state(&identifier("other")).is_empty());
}

#[test]
fn of_two_states_of_one_second_the_lower_id_counts_as_the_newer() {
    let keys = Keys::generate();
    let main = "a".repeat(40);
    let mut events = [
        state(&keys, 1, &[]),
        state(&keys, 1, &[["refs/heads/main", &main]]),
    ];
    events.sort_by_key(|event| std::cmp::Reverse(event.id));
    let mut purgatory = Purgatory::default();
    for event in events.iter().rev() {
        let _ = add(&mut purgatory, event, Origin::Submitted);
    }
    let held: Vec<&StateEntry> = purgatory.find_state(&identifier("repo")).iter().collect();
    assert_eq!(ids(&held), [events[0].id, events[1].id]);
}

#[test]
fn an_extension_gives_at_least_15_minutes_and_never_takes_any() {
    let mut purgatory = Purgatory::default();
    let event = state(&Keys::generate(), 1, &[]);
    let _ = add(&mut purgatory, &event, Origin::Submitted);
    let repo = identifier("repo");
    let ids = [event.id];
    assert!(
        purgatory
            .extend_expiry(&repo, &ids, LIFETIME / 2, NOW)
            .is_empty()
    );
    let late = NOW + LIFETIME - SECOND;
    let other = identifier("other");
    assert!(
        purgatory
            .extend_expiry(&other, &ids, LIFETIME / 2, late)
            .is_empty()
    );
    let changes = purgatory.extend_expiry(&repo, &ids, LIFETIME / 2, late);
    assert!(matches!(&changes[..], [Change::Put(_)]));
    assert_eq!(purgatory.next_deadline(), Some(late + LIFETIME / 2));
}

#[test]
fn a_state_whose_own_time_is_over_goes_although_it_was_extended() {
    let keys = Keys::generate();
    let end = NOW + MINUTE;
    let tag = (end.get() / 1000).to_string();
    let event = state(&keys, 1, &[["expiration", &tag]]);
    let mut purgatory = Purgatory::default();
    let _ = add(&mut purgatory, &event, Origin::Submitted);
    let _ = purgatory.extend_expiry(&identifier("repo"), &[event.id], LIFETIME * 2, NOW);
    assert_eq!(purgatory.cleanup(end).0.len(), 1);
    assert_eq!(purgatory, Purgatory::default());
}

#[test]
fn g01_20_a_synced_event_that_expired_is_remembered_and_a_submitted_one_is_not() {
    let (synced, submitted) = (
        state(&Keys::generate(), 1, &[]),
        state(&Keys::generate(), 1, &[]),
    );
    let mut purgatory = Purgatory::default();
    let _ = add(&mut purgatory, &synced, Origin::Synced);
    let _ = add(&mut purgatory, &submitted, Origin::Submitted);
    let _ = purgatory.cleanup(NOW + LIFETIME);
    assert!(purgatory.was_expired(&synced.id));
    assert!(!purgatory.was_expired(&submitted.id));
    // A person tries again.
    let _ = add(&mut purgatory, &synced, Origin::Submitted);
    assert!(!purgatory.was_expired(&synced.id));
    let _ = purgatory.cleanup(NOW + LIFETIME);
    assert!(!purgatory.was_expired(&synced.id));
}

#[test]
fn a_person_who_sends_a_synced_event_stands_behind_it() {
    let mut purgatory = Purgatory::default();
    let event = state(&Keys::generate(), 1, &[]);
    let _ = add(&mut purgatory, &event, Origin::Synced);
    assert!(!add(&mut purgatory, &event, Origin::Submitted).is_empty());
    let held = purgatory.find_event(&event.id).unwrap().held();
    assert_eq!(held.origin, Origin::Submitted);
    assert!(add(&mut purgatory, &event, Origin::Synced).is_empty());
    assert_eq!(purgatory.count().states, 1);
}

#[test]
fn removing_the_states_of_an_identifier_ends_the_search_for_their_data() {
    let mut purgatory = Purgatory::default();
    let keys = Keys::generate();
    let events = [state(&keys, 1, &[]), state(&keys, 2, &[])];
    for event in &events {
        let _ = add(&mut purgatory, event, Origin::Submitted);
    }
    let repo = identifier("repo");
    assert_eq!(purgatory.remove_state_event(&repo, &events[0].id).len(), 1);
    assert!(purgatory.has_pending_events(&repo));
    assert!(
        purgatory
            .remove_state_event(&repo, &events[0].id)
            .is_empty()
    );
    assert_eq!(purgatory.remove_state_event(&repo, &events[1].id).len(), 2);
    assert_eq!(purgatory, Purgatory::default());
}

#[test]
fn no_number_of_pushes_keeps_a_state_for_more_than_a_day() {
    let mut purgatory = Purgatory::new(Bounds::default());
    let event = state(&Keys::generate(), 1, &[]);
    let added = purgatory.add_state(event.clone(), identifier("repo"), Origin::Submitted, NOW);
    let _ = added.unwrap();
    let mut now = NOW;
    for _ in 0..200 {
        now = now + LIFETIME / 4;
        let _ = purgatory.extend_expiry(&identifier("repo"), &[event.id], LIFETIME / 2, now);
    }
    assert_eq!(purgatory.next_deadline(), Some(NOW + LIFETIME * 48));
}
