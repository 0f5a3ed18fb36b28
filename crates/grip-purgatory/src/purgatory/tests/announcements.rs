use super::*;

fn holding(keys: &Keys, origin: Origin) -> Purgatory {
    let mut purgatory = Purgatory::default();
    let event = announcement(keys, 100);
    let added = purgatory.add_announcement(event, identifier("repo"), origin, NOW);
    assert_eq!(added.unwrap().len(), 1);
    purgatory
}

#[test]
fn g01_20_an_announcement_is_hidden_first_and_forgotten_a_day_later() {
    let keys = Keys::generate();
    let mut purgatory = holding(&keys, Origin::Submitted);
    assert!(purgatory.cleanup(NOW + LIFETIME - SECOND).0.is_empty());

    let (expired, changes) = purgatory.cleanup(NOW + LIFETIME);
    assert_eq!(expired, [Expired::AnnouncementRepository(addr(&keys))]);
    assert!(matches!(&changes[..], [Change::Put(_)]));
    let entry = purgatory.find_announcement(&addr(&keys)).unwrap();
    assert_eq!(entry.phase, Phase::Hidden);
    assert_eq!(purgatory.count().hidden_announcements, 1);

    let (event_id, created_at) = (entry.held.id(), entry.held.event.created_at());
    let end = NOW + LIFETIME + HIDDEN_LIFETIME;
    assert!(purgatory.cleanup(end - SECOND).0.is_empty());
    let (expired, changes) = purgatory.cleanup(end);
    let addr = addr(&keys);
    let forgotten = Expired::Announcement {
        addr,
        event_id,
        created_at,
        has_ended: false,
    };
    assert_eq!(expired, [forgotten]);
    assert!(matches!(&changes[..], [Change::Remove { .. }]));
    assert_eq!(purgatory, Purgatory::default());
}

#[test]
fn g01_20_a_hidden_announcement_can_be_revived() {
    let keys = Keys::generate();
    let mut purgatory = holding(&keys, Origin::Submitted);
    let _ = purgatory.cleanup(NOW + LIFETIME);
    let later = NOW + LIFETIME + MINUTE;
    // Its timer alone does not bring the repository back.
    assert!(
        purgatory
            .restart_announcement_timer(&addr(&keys), later)
            .is_empty()
    );
    assert_eq!(purgatory.revive(&addr(&keys), later).1.len(), 1);
    let entry = purgatory.find_announcement(&addr(&keys)).unwrap();
    assert_eq!(entry.phase, Phase::Shown);
    assert_eq!(entry.held.expires_at, later + LIFETIME);
    assert_eq!(purgatory.count().hidden_announcements, 0);
}

#[test]
fn g01_19_the_timer_of_an_announcement_begins_again() {
    let keys = Keys::generate();
    let mut purgatory = holding(&keys, Origin::Submitted);
    let _ = purgatory.restart_announcement_timer(&addr(&keys), NOW + MINUTE);
    assert_eq!(purgatory.next_deadline(), Some(NOW + MINUTE + LIFETIME));
    let other = addr(&Keys::generate());
    assert!(purgatory.restart_announcement_timer(&other, NOW).is_empty());
}

#[test]
fn g01_18_a_newer_version_replaces_and_an_older_one_changes_nothing() {
    let keys = Keys::generate();
    let mut purgatory = holding(&keys, Origin::Submitted);
    let _ = purgatory.cleanup(NOW + LIFETIME);
    let before = purgatory.clone();
    let add = |purgatory: &mut Purgatory, event, at| {
        let added = purgatory.add_announcement(event, identifier("repo"), Origin::Submitted, at);
        added.unwrap()
    };
    let older = announcement(&keys, 99);
    assert!(add(&mut purgatory, older, NOW + LIFETIME).is_empty());
    assert_eq!(purgatory, before);

    let newer = announcement(&keys, 101);
    let later = NOW + LIFETIME + MINUTE;
    assert_eq!(add(&mut purgatory, newer.clone(), later).len(), 1);
    let entry = purgatory.find_announcement(&addr(&keys)).unwrap();
    assert_eq!((entry.held.id(), entry.phase), (newer.id, Phase::Shown));
    assert_eq!(purgatory.next_deadline(), Some(later + LIFETIME));
    assert_eq!(purgatory.count().announcements, 1);
    assert_eq!(purgatory.announcements(&identifier("repo")).count(), 1);
}

#[test]
fn removing_an_announcement_leaves_nothing() {
    let keys = Keys::generate();
    let mut purgatory = holding(&keys, Origin::Synced);
    assert_eq!(purgatory.remove_announcement(&addr(&keys)).len(), 1);
    assert!(purgatory.remove_announcement(&addr(&keys)).is_empty());
    assert_eq!(purgatory, Purgatory::default());
}

#[test]
fn an_announcement_whose_own_time_is_over_goes_with_its_repository_at_once() {
    let keys = Keys::generate();
    let end = NOW + MINUTE;
    let tag = (end.get() / 1000).to_string();
    let tags = [["d", "repo"], ["expiration", &tag]];
    let event = event(&keys, kinds::ANNOUNCEMENT, 1, &tags);
    let (event_id, created_at, addr) = (event.id, event.created_at, addr(&keys));
    let mut purgatory = Purgatory::default();
    let added = purgatory.add_announcement(event, identifier("repo"), Origin::Submitted, NOW);
    let _ = added.unwrap();
    let (expired, _) = purgatory.cleanup(end);
    assert_eq!(
        expired,
        [
            Expired::AnnouncementRepository(addr.clone()),
            Expired::Announcement {
                addr,
                event_id,
                created_at,
                has_ended: true,
            }
        ]
    );
    assert_eq!(purgatory, Purgatory::default());
}
