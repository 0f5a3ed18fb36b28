use grip_types::{ClientNetwork, EventSource, NetworkPrefixes};

use super::*;
use crate::{Full, Which};

const FEW: Bounds = Bounds {
    per_author: 2,
    per_author_bytes: 1 << 20,
    per_identifier: 3,
    per_identifier_bytes: 1 << 20,
    total: 5,
    total_bytes: 1 << 20,
    hidden: 2,
    hidden_bytes: 1 << 20,
    expired_ids: 2,
    lifetime: LIFETIME,
    placeholder_lifetime: PLACEHOLDER_LIFETIME,
    wanted: 2,
    wanted_bytes: 1 << 20,
    wanted_lifetime: WANTED_LIFETIME,
    wanted_interval: WANTED_INTERVAL,
    sync_delays: SyncDelays {
        submitted: SYNC_DELAY_DEFAULT,
        synced: SYNC_DELAY_IMMEDIATE,
    },
};

fn add(purgatory: &mut Purgatory, keys: &Keys, at: u64, name: &str) -> Result<(), Full> {
    let event = state(keys, at, &[]);
    let added = purgatory.add_state(event, identifier(name), Origin::Submitted, NOW);
    added.map(|_| ())
}

fn full(which: Which, limit: usize) -> Result<(), Full> {
    Err(Full { which, limit })
}

#[test]
fn g01_22_one_author_cannot_hold_more_than_its_share() {
    let mut purgatory = Purgatory::new(FEW);
    let keys = Keys::generate();
    add(&mut purgatory, &keys, 1, "a").unwrap();
    add(&mut purgatory, &keys, 2, "b").unwrap();
    let before = purgatory.clone();
    assert_eq!(add(&mut purgatory, &keys, 3, "c"), full(Which::Author, 2));
    assert_eq!(purgatory, before, "a refusal changes nothing");
    // The same event again is no new one.
    add(&mut purgatory, &keys, 1, "a").unwrap();
    let _ = purgatory.cleanup(NOW + LIFETIME);
    add(&mut purgatory, &keys, 3, "c").unwrap();
}

/// A network of one address.
fn network(last: u8) -> ClientNetwork {
    NetworkPrefixes::default().network([192, 0, 2, last].into())
}

fn from(network: Option<ClientNetwork>, families: Vec<Family>) -> Provenance {
    Provenance {
        source: EventSource {
            network,
            ..Origin::Submitted.into()
        },
        families,
    }
}

fn family(owner: &Keys, granted: bool) -> Family {
    let repository = addr(owner);
    Family {
        repository,
        granted,
    }
}

fn add_from(purgatory: &mut Purgatory, keys: &Keys, from: Provenance) -> Result<(), Full> {
    let event = state(keys, 1, &[]);
    let added = purgatory.add_state(event, identifier("repo"), from, NOW);
    added.map(|_| ())
}

fn announce_from(purgatory: &mut Purgatory, keys: &Keys, from: Provenance, at: Millis) {
    let event = announcement(keys, 1);
    let added = purgatory.add_announcement(event, identifier("repo"), from, at);
    drop(added.unwrap());
}

#[test]
fn g01_22_the_maintainers_of_one_repository_cannot_hold_more_than_their_share_of_a_class() {
    let mut purgatory = Purgatory::new(FEW);
    let owner = Keys::generate();
    let of_owner = |granted| from(None, vec![family(&owner, granted)]);
    for _ in 0..3 {
        add_from(&mut purgatory, &Keys::generate(), of_owner(false)).unwrap();
    }
    let fourth = Keys::generate();
    assert_eq!(
        add_from(&mut purgatory, &fourth, of_owner(false)),
        full(Which::Identifier, 3)
    );
    // States do not keep pull requests out, nor these them.
    let identifiers = vec![identifier("repo")];
    let event = pr(&fourth, 1);
    let added = purgatory.add_pr(event, oid('a'), identifiers, of_owner(false), NOW);
    assert!(added.is_ok());
}

#[test]
fn g01_22_strangers_under_the_same_name_use_up_nothing_of_its_owner() {
    let mut purgatory = Purgatory::new(Bounds { total: 100, ..FEW });
    for _ in 0..20 {
        add(&mut purgatory, &Keys::generate(), 1, "repo").unwrap();
    }
    // Neither the owner of something served nor one who is new here.
    for granted in [true, false] {
        let owner = Keys::generate();
        let own = from(None, vec![family(&owner, granted)]);
        add_from(&mut purgatory, &owner, own).unwrap();
    }
}

#[test]
fn g01_22_maintainers_of_something_served_find_room_whatever_strangers_hold() {
    let mut purgatory = Purgatory::new(FEW);
    for n in 0..5 {
        let name = format!("repo{n}");
        add(&mut purgatory, &Keys::generate(), 1, &name).unwrap();
    }
    let (owner, stranger) = (Keys::generate(), Keys::generate());
    let new = from(None, vec![family(&stranger, false)]);
    assert_eq!(
        add_from(&mut purgatory, &stranger, new),
        full(Which::Total, 5)
    );
    let served = from(None, vec![family(&owner, true)]);
    add_from(&mut purgatory, &owner, served.clone()).unwrap();
    // His own share is bounded all the same.
    for at in [2, 3] {
        let event = state(&owner, at, &[]);
        let added = purgatory.add_state(event, identifier("repo"), served.clone(), NOW);
        assert_eq!(added.is_ok(), at == 2);
    }
    // Who is listed by somebody whose room is used up takes that of the next.
    let other = Keys::generate();
    add_from(&mut purgatory, &Keys::generate(), served.clone()).unwrap();
    let both = from(None, vec![family(&owner, true), family(&other, true)]);
    add_from(&mut purgatory, &Keys::generate(), both).unwrap();
    assert_eq!(
        add_from(&mut purgatory, &Keys::generate(), served),
        full(Which::Identifier, 3)
    );
}

#[test]
fn g01_22_one_network_has_an_eighth_of_what_is_free_and_leaves_room_to_others() {
    let mut purgatory = Purgatory::new(Bounds {
        total: 900,
        per_identifier: 1_000,
        ..FEW
    });
    let mut fill = |last: u8| {
        let from = from(Some(network(last)), Vec::new());
        let all = (0..1_000).map(|_| add_from(&mut purgatory, &Keys::generate(), from.clone()));
        all.take_while(Result::is_ok).count()
    };
    assert_eq!(fill(1), 100);
    assert_eq!(fill(1), 0, "with whatever key");
    let others: Vec<usize> = (2..=50).map(fill).collect();
    assert!(others.iter().all(|count| *count > 0), "{others:?}");
    let refusal = {
        let from = from(Some(network(1)), Vec::new());
        add_from(&mut purgatory, &Keys::generate(), from).unwrap_err()
    };
    assert_eq!(refusal.which, Which::Network);
    // What a network held comes back to it.
    let _ = purgatory.cleanup(NOW + LIFETIME);
    assert_eq!(purgatory.usage, Usage::default());
}

#[test]
fn g01_22_the_bytes_of_an_author_and_of_a_network_are_bounded() {
    let mut purgatory = Purgatory::new(Bounds {
        per_author: 100,
        per_author_bytes: 3_000,
        total: 1_000,
        total_bytes: 80_000,
        ..FEW
    });
    let long = "x".repeat(1_000);
    let mut hold = |keys: &Keys, at: u64| {
        let event = event(keys, kinds::STATE, at, &[["d", &long]]);
        let from = from(Some(network(1)), Vec::new());
        let added = purgatory.add_state(event, identifier("a"), from, NOW);
        added.map(|_| ()).map_err(|full| full.which)
    };
    let keys = Keys::generate();
    let mine: Vec<_> = (0..3).map(|at| hold(&keys, at)).collect();
    assert_eq!(mine, [Ok(()), Ok(()), Err(Which::AuthorBytes)]);
    let ours = (0..20).map(|_| hold(&Keys::generate(), 1));
    let refused = ours.filter_map(Result::err).next();
    assert_eq!(refused, Some(Which::NetworkBytes));
}

#[test]
fn one_network_takes_a_quarter_of_the_pull_requests_of_a_repository() {
    let mut purgatory = Purgatory::new(Bounds {
        per_identifier: 40,
        total: 10_000,
        ..FEW
    });
    let owner = Keys::generate();
    let mut propose = |last: u8, granted: bool| {
        let event = pr(&Keys::generate(), 1);
        let from = from(Some(network(last)), vec![family(&owner, granted)]);
        let added = purgatory.add_pr(event, oid('a'), vec![identifier("repo")], from, NOW);
        added.map(|_| ()).map_err(|full| full.which)
    };
    let flood = (0..40).map(|_| propose(1, false));
    assert_eq!(flood.filter(Result::is_ok).count(), 8);
    assert_eq!(propose(1, false), Err(Which::Network));
    assert_eq!(propose(2, false), Ok(()));
    assert_eq!(propose(1, true), Ok(()), "a maintainer's, from anywhere");
}

#[test]
fn a_name_full_of_announcements_is_open_to_the_next_owner() {
    let mut purgatory = Purgatory::new(Bounds {
        total: 100,
        hidden: 100,
        ..FEW
    });
    let (honest, maintainer) = (Keys::generate(), Keys::generate());
    announce_from(
        &mut purgatory,
        &honest,
        from(Some(network(1)), Vec::new()),
        NOW,
    );
    let granted = from(Some(network(2)), vec![family(&honest, true)]);
    announce_from(&mut purgatory, &maintainer, granted, NOW);
    let flood: Vec<Keys> = (0..4).map(|_| Keys::generate()).collect();
    for (n, keys) in flood.iter().enumerate() {
        let at = NOW + SECOND * u32::try_from(n + 1).unwrap();
        let one = from(Some(network(2)), Vec::new());
        announce_from(&mut purgatory, keys, one, at);
        let MadeRoom {
            expired: hidden,
            changes,
            ..
        } = purgatory.make_room(&addr(keys), at);
        let expected: &[Expired] = match n {
            // The owner is the oldest, but the flood comes from one network.
            2 => &[Expired::AnnouncementRepository(addr(&flood[0]))],
            3 => &[Expired::AnnouncementRepository(addr(&flood[1]))],
            _ => &[],
        };
        assert_eq!(hidden, expected);
        assert_eq!(changes.len(), expected.len());
    }
    // Those who have signed a state go last.
    let state = state(&flood[2], 1, &[]);
    let added = purgatory.add_state(state, identifier("repo"), Origin::Submitted, NOW);
    drop(added.unwrap());
    let one = from(Some(network(2)), Vec::new());
    let newest = Keys::generate();
    announce_from(&mut purgatory, &newest, one, NOW + MINUTE);
    let hidden = purgatory.make_room(&addr(&newest), NOW + MINUTE).expired;
    assert_eq!(hidden, [Expired::AnnouncementRepository(addr(&flood[3]))]);
    let phase = |keys: &Keys| purgatory.find_announcement(&addr(keys)).unwrap().phase;
    assert_eq!(phase(&honest), Phase::Shown);
    assert_eq!(phase(&maintainer), Phase::Shown);
}

#[test]
fn room_that_was_made_for_what_could_not_be_journalled_is_given_back() {
    // The second hides the first, which forgets the one hidden before it.
    for hidden in [0, 2] {
        let mut purgatory = Purgatory::new(Bounds {
            per_identifier: 1,
            hidden,
            ..FEW
        });
        let (old, new) = (Keys::generate(), Keys::generate());
        announce_from(&mut purgatory, &old, Origin::Synced.into(), NOW);
        let before = purgatory.clone();
        announce_from(&mut purgatory, &new, Origin::Synced.into(), NOW + MINUTE);
        let made = purgatory.make_room(&addr(&new), NOW + MINUTE);
        assert!(!made.expired.is_empty());
        drop(purgatory.remove_announcement(&addr(&new)));
        purgatory.put_back_announcements(made.before);
        assert_eq!(purgatory, before);
    }
}

#[test]
fn pushed_tips_are_the_share_of_the_network_that_pushed_them() {
    let mut purgatory = Purgatory::new(Bounds::default());
    let repo =
        |n: usize| RepoAddr::new(Keys::generate().public_key(), identifier(&format!("r{n}")));
    let mut pushed = 0;
    let mut push = |purgatory: &mut Purgatory, repo: &RepoAddr, network| {
        let mut bytes = [7; 32];
        bytes[..8].copy_from_slice(&u64::to_be_bytes(pushed));
        pushed += 1;
        let id = EventId::from_byte_array(bytes);
        let noted = purgatory.add_pr_placeholder(id, oid('a'), repo.clone(), Some(network), NOW);
        noted.map(drop)
    };
    // One repository: a quarter of what is free in it, so that others find room.
    let victim = repo(0);
    let flood: Vec<_> = (0..200)
        .map(|_| push(&mut purgatory, &victim, network(1)))
        .collect();
    let taken = flood.iter().filter(|pushed| pushed.is_ok()).count();
    assert!((30..=50).contains(&taken), "{taken}");
    assert_eq!(push(&mut purgatory, &victim, network(2)), Ok(()));
    // All repositories: an eighth of what is free.
    let many: Vec<RepoAddr> = (1..400).map(repo).collect();
    let mut rounds = many.iter().cycle().take(20_000);
    let full = rounds.find_map(|repo| push(&mut purgatory, repo, network(1)).err());
    assert_eq!(full.map(|full| full.which), Some(Which::Network));
    assert!(purgatory.count().placeholders < 50_000 / 8);
    assert_eq!(push(&mut purgatory, &many[0], network(2)), Ok(()));
    let (_, changes) = purgatory.cleanup(NOW + PLACEHOLDER_LIFETIME);
    assert!(!changes.is_empty());
    assert_eq!(purgatory.usage, Default::default());
}

#[test]
fn hidden_announcements_have_a_bound_of_their_own_and_make_room_oldest_first() {
    let mut purgatory = Purgatory::new(FEW);
    let owners: Vec<Keys> = (0..4).map(|_| Keys::generate()).collect();
    for (n, keys) in owners.iter().enumerate() {
        let at = NOW + MINUTE * u32::try_from(n).unwrap();
        announce_from(&mut purgatory, keys, Origin::Submitted.into(), at);
    }
    let (expired, _) = purgatory.cleanup(NOW + LIFETIME + MINUTE * 3);
    let forgotten: Vec<&RepoAddr> = expired
        .iter()
        .filter_map(|expired| match expired {
            Expired::Announcement { addr, .. } => Some(addr),
            _ => None,
        })
        .collect();
    assert_eq!(forgotten, [&addr(&owners[0]), &addr(&owners[1])]);
    assert_eq!(purgatory.count().hidden_announcements, 2);
    // They use up nothing of what others may hold.
    assert_eq!(purgatory.usage.strangers_held(), 0);
    for _ in 0..5 {
        add(&mut purgatory, &Keys::generate(), 1, "a").unwrap();
    }
    assert!(
        purgatory
            .cleanup(NOW + LIFETIME * 2 + HIDDEN_LIFETIME)
            .0
            .len()
            >= 2
    );
    assert_eq!(purgatory.count().hidden_announcements, 0);
}

#[test]
fn a_name_has_no_more_hidden_announcements_than_shown_ones() {
    let mut purgatory = Purgatory::new(Bounds {
        per_identifier: 3,
        ..Bounds::default()
    });
    for n in 0..9 {
        let at = NOW + MINUTE * n;
        announce_from(
            &mut purgatory,
            &Keys::generate(),
            Origin::Submitted.into(),
            at,
        );
        let _ = purgatory.cleanup(at + LIFETIME);
        assert!(purgatory.count().hidden_announcements <= 3);
    }
    assert_eq!(purgatory.count().hidden_announcements, 3);
}

#[test]
fn whose_room_an_entry_takes_outlives_a_restart() {
    let mut journal = Journal::default();
    let mut purgatory = Purgatory::default();
    let (owner, other) = (Keys::generate(), Keys::generate());
    let served = from(None, vec![family(&owner, true)]);
    let event = state(&other, 1, &[]);
    let added = purgatory.add_state(event, identifier("repo"), served.clone(), NOW);
    journal.apply(added.unwrap());
    let event = pr(&other, 2);
    let added = purgatory.add_pr(event, oid('a'), vec![identifier("repo")], served, NOW);
    journal.apply(added.unwrap());
    assert_eq!(journal.restore(NOW).purgatory, purgatory);
}

#[test]
fn g01_22_the_whole_is_bounded_in_entries_and_bytes() {
    let mut purgatory = Purgatory::new(FEW);
    let repo = addr(&Keys::generate());
    for n in 0..3 {
        let added = purgatory.add_pr_placeholder(id(n), oid('a'), repo.clone(), None, NOW);
        let _ = added.unwrap();
    }
    add(&mut purgatory, &Keys::generate(), 1, "a").unwrap();
    add(&mut purgatory, &Keys::generate(), 1, "a").unwrap();
    assert_eq!(
        add(&mut purgatory, &Keys::generate(), 1, "b"),
        full(Which::Total, 5)
    );

    let keys = Keys::generate();
    let mut purgatory = Purgatory::new(Bounds {
        total_bytes: 1000,
        ..FEW
    });
    let long = "x".repeat(1000);
    let large = event(&keys, kinds::STATE, 1, &[["d", &long]]);
    let added = purgatory.add_state(large, identifier("a"), Origin::Submitted, NOW);
    assert_eq!(added.map(|_| ()), full(Which::Bytes, 1000));
    assert_eq!(purgatory.count(), Counts::default());
}

#[test]
fn a_push_of_a_known_ref_and_a_newer_announcement_need_no_new_room() {
    let keys = Keys::generate();
    let mut purgatory = Purgatory::new(Bounds {
        per_author: 1,
        per_identifier: 1,
        total: 2,
        ..FEW
    });
    for at in [1, 2] {
        let event = announcement(&keys, at);
        let added = purgatory.add_announcement(event, identifier("repo"), Origin::Submitted, NOW);
        assert!(added.is_ok());
        let pushed = purgatory.add_pr_placeholder(id(1), oid('a'), addr(&keys), None, NOW);
        assert!(pushed.is_ok());
    }
    let mut stricter = purgatory.clone();
    stricter.bounds = Bounds {
        total_bytes: 10,
        ..FEW
    };
    let before = stricter.clone();
    let event = announcement(&keys, 3);
    let added = stricter.add_announcement(event, identifier("repo"), Origin::Submitted, NOW);
    assert_eq!(added.map(|_| ()), full(Which::Bytes, 10));
    assert_eq!(stricter, before);
}

/// Anybody may send again what an author has signed: what fills his own share must not keep his next state out.
#[test]
fn g01_22_an_authors_older_events_give_way_to_his_newer_state() {
    let keys = Keys::generate();
    let repo = identifier("repo");
    let of_owner = || from(None, vec![family(&keys, true)]);
    let next = state(&keys, 9, &[]);
    let give_way = |purgatory: &mut Purgatory, event: &Event| {
        let (expired, changes) = purgatory.give_way_to_state(event, &repo, of_owner(), NOW);
        assert_eq!(expired.is_empty(), changes.is_empty());
        let id = |expired: Expired| match expired {
            Expired::Pr { event_id, .. } | Expired::State { event_id, .. } => event_id,
            other => panic!("{other:?}"),
        };
        expired.into_iter().map(id).collect::<Vec<_>>()
    };
    let add = |purgatory: &mut Purgatory, event: &Event, at: u64| {
        let at = NOW + std::time::Duration::from_secs(at);
        let (event, from) = (event.clone(), of_owner());
        let added = if event.kind == kinds::STATE {
            purgatory.add_state(event, repo.clone(), from, at)
        } else {
            purgatory.add_pr(event, oid('a'), vec![repo.clone()], from, at)
        };
        added.map(drop)
    };

    // The pull request that came first.
    let mut purgatory = Purgatory::new(FEW);
    let requests = [pr(&keys, 8), pr(&keys, 7)];
    for (at, request) in requests.iter().enumerate() {
        add(&mut purgatory, request, at as u64).unwrap();
    }
    assert_eq!(add(&mut purgatory, &next, 2), full(Which::Author, 2));
    assert_eq!(give_way(&mut purgatory, &next), [requests[0].id]);
    add(&mut purgatory, &next, 2).unwrap();
    assert!(purgatory.find_pr(&requests[1].id).is_some());

    // Without one, the oldest state of the name, and none that is newer.
    let mut purgatory = Purgatory::new(FEW);
    let states = [state(&keys, 2, &[]), state(&keys, 1, &[])];
    for held in &states {
        add(&mut purgatory, held, 0).unwrap();
    }
    let before = purgatory.clone();
    let oldest = state(&keys, 0, &[]);
    assert_eq!(add(&mut purgatory, &oldest, 0), full(Which::Author, 2));
    assert!(give_way(&mut purgatory, &oldest).is_empty());
    assert_eq!(purgatory, before);
    assert_eq!(give_way(&mut purgatory, &next), [states[1].id]);
    add(&mut purgatory, &next, 0).unwrap();

    // Nothing ends where others hold what is short.
    let bounds = Bounds { total: 2, ..FEW };
    let mut purgatory = Purgatory::new(bounds);
    add(&mut purgatory, &requests[0], 0).unwrap();
    let second = Keys::generate();
    let theirs = from(None, vec![family(&keys, true)]);
    add_from(&mut purgatory, &second, theirs).unwrap();
    let before = purgatory.clone();
    assert!(give_way(&mut purgatory, &next).is_empty());
    assert_eq!(purgatory, before);
}

#[test]
fn the_memory_of_expired_ids_forgets_the_oldest() {
    let mut purgatory = Purgatory::new(FEW);
    let events: Vec<Event> = (0..3).map(|n| state(&Keys::generate(), n, &[])).collect();
    let mut changes = Vec::new();
    for (n, event) in events.iter().enumerate() {
        let at = NOW + LIFETIME * u32::try_from(n).unwrap();
        let added = purgatory.add_state(event.clone(), identifier("a"), Origin::Synced, at);
        let _ = added.unwrap();
        changes = purgatory.cleanup(at + LIFETIME).1;
    }
    let known: Vec<bool> = events
        .iter()
        .map(|e| purgatory.was_expired(&e.id))
        .collect();
    assert_eq!(known, [false, true, true]);
    let key = events[0].id.to_hex();
    let class = "expired".to_owned();
    assert!(changes.contains(&Change::Remove { class, key }));
}

#[test]
fn every_refusal_is_a_sentence_for_the_client() {
    for which in [
        Which::Author,
        Which::AuthorBytes,
        Which::Network,
        Which::NetworkBytes,
        Which::Identifier,
        Which::Total,
        Which::Bytes,
    ] {
        let text = format!("rate-limited: {}", Full { which, limit: 100 });
        assert!(text.contains("100") && !text.contains('\n') && !text.ends_with('.'));
    }
}

/// Bytes of held events have a bound per repository as well, and of what comes from anyone a network
/// has a part of it alone.
#[test]
fn g01_22_events_for_one_repository_take_up_no_more_than_its_bytes() {
    let size = {
        let mut purgatory = Purgatory::new(Bounds::default());
        add(&mut purgatory, &Keys::generate(), 1, "a").unwrap();
        purgatory.count().bytes
    };
    let bounds = Bounds {
        per_identifier_bytes: 2 * size + size / 2,
        ..Bounds::default()
    };
    let mut purgatory = Purgatory::new(bounds);
    let owner = Keys::generate();
    for at in 1..=2 {
        add(&mut purgatory, &owner, at, "a").unwrap();
    }
    let refused = full(Which::IdentifierBytes, bounds.per_identifier_bytes);
    assert_eq!(add(&mut purgatory, &owner, 3, "a"), refused);
    add(&mut purgatory, &owner, 3, "b").unwrap();
    add(&mut purgatory, &Keys::generate(), 3, "a").unwrap();
    let _ = purgatory.cleanup(NOW + LIFETIME);
    add(&mut purgatory, &owner, 4, "a").unwrap();
}
