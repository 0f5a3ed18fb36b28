use super::*;

fn add(purgatory: &mut Purgatory, repo: &RepoAddr, commit: char, at: Millis) -> Vec<Change> {
    let added = purgatory.add_pr_placeholder(id(7), oid(commit), repo.clone(), None, at);
    added.unwrap()
}

#[test]
fn g01_47_a_ref_without_event_ends_20_minutes_after_its_last_push() {
    let repo = addr(&Keys::generate());
    let mut purgatory = Purgatory::default();
    let _ = add(&mut purgatory, &repo, 'a', NOW);
    let _ = add(&mut purgatory, &repo, 'b', NOW + MINUTE);
    assert_eq!(purgatory.count().placeholders, 1);
    assert!(purgatory.cleanup(NOW + PLACEHOLDER_LIFETIME).0.is_empty());
    let (expired, changes) = purgatory.cleanup(NOW + MINUTE + PLACEHOLDER_LIFETIME);
    assert_eq!(
        expired,
        [Expired::Placeholder {
            event_id: id(7),
            repo,
            commit: oid('b')
        }]
    );
    assert_eq!(changes.len(), 1);
    assert_eq!(purgatory, Purgatory::default());
}

#[test]
fn a_placeholder_knows_every_repository_and_its_commit() {
    let (one, two) = (addr(&Keys::generate()), addr(&Keys::generate()));
    let mut purgatory = Purgatory::default();
    let _ = add(&mut purgatory, &one, 'a', NOW);
    let _ = add(&mut purgatory, &two, 'b', NOW + MINUTE);
    let placeholder = purgatory.find_pr_placeholder(&id(7)).unwrap();
    assert_eq!(placeholder.refs.len(), 2);
    assert_eq!(placeholder.matching(oid('a')).collect::<Vec<_>>(), [&one]);

    // Each ref has its own 20 minutes.
    assert_eq!(purgatory.cleanup(NOW + PLACEHOLDER_LIFETIME).0.len(), 1);
    assert_eq!(purgatory.find_pr_placeholder(&id(7)).unwrap().refs.len(), 1);
    assert_eq!(purgatory.remove_pr_placeholder_in(&id(7), &two).len(), 1);
    assert_eq!(purgatory, Purgatory::default());
}

#[test]
fn a_pull_request_is_found_by_id_and_by_each_identifier() {
    let mut purgatory = Purgatory::default();
    let event = pr(&Keys::generate(), 1);
    let (one, two) = (identifier("one"), identifier("two"));
    let identifiers = vec![two.clone(), one.clone(), one.clone()];
    let added = purgatory.add_pr(event.clone(), oid('a'), identifiers, Origin::Submitted, NOW);
    // Its own row, and a search for each identifier.
    assert_eq!(added.unwrap().len(), 3);
    assert_eq!(purgatory.find_pr(&event.id).unwrap().commit, oid('a'));
    assert!(purgatory.find_pr_placeholder(&event.id).is_none());
    for identifier in [&one, &two] {
        assert_eq!(purgatory.prs(identifier).count(), 1);
        assert!(purgatory.has_pending_events(identifier));
    }
    let late = NOW + LIFETIME - SECOND;
    let _ = purgatory.extend_expiry(&two, &[event.id], LIFETIME / 2, late);
    assert_eq!(purgatory.next_deadline(), Some(late + LIFETIME / 2));
    assert_eq!(purgatory.remove_pr(&event.id).len(), 3);
    assert_eq!(purgatory, Purgatory::default());
}

#[test]
fn removing_a_pull_request_removes_both_halves() {
    let repo = addr(&Keys::generate());
    let event = pr(&Keys::generate(), 1);
    let mut purgatory = Purgatory::default();
    let pushed = purgatory.add_pr_placeholder(event.id, oid('a'), repo, None, NOW);
    let _ = pushed.unwrap();
    let added = purgatory.add_pr(event.clone(), oid('b'), vec![], Origin::Submitted, NOW);
    let _ = added.unwrap();
    assert_eq!(purgatory.remove_pr(&event.id).len(), 2);
    assert_eq!(purgatory, Purgatory::default());
}

#[test]
fn an_expired_pull_request_names_its_identifiers_and_leaves_pushed_refs_alone() {
    let repo = addr(&Keys::generate());
    let event = pr(&Keys::generate(), 1);
    let mut purgatory = Purgatory::default();
    let identifiers = vec![identifier("repo")];
    let added = purgatory.add_pr(event.clone(), oid('b'), identifiers, Origin::Submitted, NOW);
    let _ = added.unwrap();
    let end = NOW + LIFETIME;
    let pushed = purgatory.add_pr_placeholder(event.id, oid('a'), repo, None, end);
    let _ = pushed.unwrap();
    let (expired, _) = purgatory.cleanup(end);
    assert_eq!(
        expired,
        [Expired::Pr {
            identifiers: vec![identifier("repo")],
            event_id: event.id
        }]
    );
    assert!(purgatory.find_pr_placeholder(&event.id).is_some());
}

#[test]
fn g06_8_a_placeholder_of_a_contributor_is_apart_and_comes_back_after_a_restart() {
    let keys = Keys::generate();
    let hosted = addr(&keys);
    let contributor = RepoAddr::contributor(hosted.owner, hosted.identifier.clone());
    let mut purgatory = Purgatory::default();
    let mut changes = add(&mut purgatory, &hosted, 'a', NOW);
    changes.extend(add(&mut purgatory, &contributor, 'b', NOW));
    let rows = changes.into_iter().filter_map(|change| match change {
        Change::Put(row) => Some(row),
        Change::Remove { .. } => None,
    });
    let restored = Purgatory::restore(rows, Bounds::default(), NOW).purgatory;
    assert_eq!(restored, purgatory);
    let placeholder = restored.find_pr_placeholder(&id(7)).unwrap();
    assert_eq!(
        placeholder.matching(oid('b')).collect::<Vec<_>>(),
        [&contributor]
    );
    assert_eq!(
        placeholder.matching(oid('a')).collect::<Vec<_>>(),
        [&hosted]
    );
}
