use grip_nostr::{Event, Kind, kinds};
use nostr::prelude::Keys;

use crate::admission::{Cause, Effect, Outcome, fake::*};

const COMMENT: Kind = Kind::Custom(1111);
const NOTE: Kind = Kind::Custom(1);

fn by_stranger(kind: Kind, tags: &[&[&str]]) -> Event {
    sign(&Keys::generate(), kind, tags, 100)
}

#[test]
fn g01_7_an_event_that_tags_a_served_announcement_is_served() {
    let (view, owner) = FakeView::hosted(&[]);
    let repo = coordinate(30617, &owner.public_key());
    for (kind, tag) in [
        (kinds::ISSUE, "a"),
        (COMMENT, "A"),
        (NOTE, "q"),
        (kinds::PATCH, "a"),
    ] {
        let event = by_stranger(kind, &[&[tag, &repo]]);
        assert_eq!(view.outcome(&event), Outcome::Serve, "{kind} {tag}");
    }
    let id = view.served[0].id.to_hex();
    assert_eq!(
        view.outcome(&by_stranger(NOTE, &[&["e", &id]])),
        Outcome::Serve
    );
}

/// E-1: application, release and asset hang on a repository by any stored address.
#[test]
fn releases_are_served_by_the_address_of_their_application() {
    let (mut view, owner) = FakeView::hosted(&[]);
    let repo = coordinate(30617, &owner.public_key());
    let author = Keys::generate();
    let address = |kind: u16, d: &str| format!("{kind}:{}:{d}", author.public_key().to_hex());
    let asset = sign(
        &author,
        Kind::Custom(3063),
        &[&["i", "app"], &["x", "00"]],
        100,
    );
    let release = sign(
        &author,
        Kind::Custom(30063),
        &[
            &["d", "app@1.0"],
            &["a", &address(32267, "app")],
            &["e", &asset.id.to_hex()],
            // E-2: a channel, not a commit.
            &["c", "main"],
        ],
        100,
    );
    let application = sign(
        &author,
        Kind::Custom(32267),
        &[&["d", "app"], &["a", &repo]],
        100,
    );
    assert_eq!(view.cause(&asset), Cause::Unrelated);
    assert_eq!(view.cause(&release), Cause::Unrelated);
    for event in [&application, &release, &asset] {
        assert_eq!(view.taken(event), Outcome::Serve, "{}", event.kind);
    }
}

/// §17: lists of repositories by their addresses, container images, labels; CI in passing.
#[test]
fn user_lists_images_and_runs_are_taken_by_relation() {
    let (view, owner) = FakeView::hosted(&[]);
    let repo = coordinate(30617, &owner.public_key());
    let runs = (9_840..=9_844).chain([19_843, 19_844, 39_842, 39_844]);
    for kind in [1624, 1985, 10_018, 10_617, 30_624].into_iter().chain(runs) {
        let event = by_stranger(Kind::Custom(kind), &[&["d", "x"], &["a", &repo]]);
        assert_eq!(view.outcome(&event), Outcome::Serve, "{kind}");
    }
    let run = by_stranger(Kind::Custom(29_846), &[&["a", &repo]]);
    assert_eq!(view.outcome(&run), Outcome::Broadcast);
    for kind in [9_905, 9_906, 9_907, 10_318] {
        let event = by_stranger(Kind::Custom(kind), &[&["a", &repo]]);
        assert_eq!(view.cause(&event), Cause::Kind, "{kind}");
    }
    let people = by_stranger(
        Kind::Custom(10_017),
        &[&["p", &owner.public_key().to_hex()]],
    );
    assert_eq!(view.cause(&people), Cause::Unrelated);
    // Sites are taken where they name a repository, and usually they name none.
    for kind in [15_128, 35_128].map(Kind::Custom) {
        let (tagged, plain) = (
            by_stranger(kind, &[&["d", "x"], &["a", &repo]]),
            by_stranger(kind, &[&["d", "x"]]),
        );
        assert_eq!(view.cause(&plain), Cause::Unrelated, "{kind}");
        assert_eq!(view.outcome(&tagged), Outcome::Serve, "{kind}");
    }
}

/// E-4
#[test]
fn events_of_the_service_itself_need_no_relation() {
    let mut view = FakeView::new();
    let own = Keys::generate();
    let event = sign(&own, NOTE, &[], 100);
    assert_eq!(view.cause(&event), Cause::Unrelated);
    view.policy.service_key = Some(own.public_key());
    view.policy.event_blacklist.insert(own.public_key());
    assert_eq!(view.outcome(&event), Outcome::Serve);
}

#[test]
fn g01_7_acceptance_is_transitive() {
    let (mut view, owner) = FakeView::hosted(&[]);
    let repo = coordinate(30617, &owner.public_key());
    let mut last = by_stranger(kinds::ISSUE, &[&["a", &repo]]);
    view.take(&last);
    for (kind, tag) in [
        (kinds::ISSUE, "q"),
        (COMMENT, "E"),
        (NOTE, "e"),
        (Kind::Custom(7), "e"),
    ] {
        last = by_stranger(kind, &[&[tag, &last.id.to_hex()]]);
        assert_eq!(view.taken(&last), Outcome::Serve, "{kind} {tag}");
    }
}

#[test]
fn g01_7_an_event_that_something_served_tags_is_served_when_it_comes_later() {
    let (mut view, owner) = FakeView::hosted(&[]);
    let repo = coordinate(30617, &owner.public_key());
    let article = sign(
        &Keys::generate(),
        Kind::Custom(30023),
        &[&["d", "tides"]],
        100,
    );
    let article_address = format!("30023:{}:tides", article.pubkey.to_hex());
    for (tag, later) in [("q", NOTE), ("e", NOTE), ("E", COMMENT)] {
        let later = by_stranger(later, &[]);
        assert_eq!(view.cause(&later), Cause::Unrelated);
        let id = later.id.to_hex();
        view.take(&by_stranger(kinds::ISSUE, &[&["a", &repo], &[tag, &id]]));
        assert_eq!(view.outcome(&later), Outcome::Serve);
    }
    view.take(&by_stranger(
        kinds::ISSUE,
        &[&["a", &repo], &["q", &article_address]],
    ));
    assert_eq!(view.outcome(&article), Outcome::Serve);
}

#[test]
fn g01_7_what_concerns_only_a_repository_never_accepted_is_blocked() {
    let (view, owner) = FakeView::hosted(&[]);
    let unknown = coordinate(30617, &Keys::generate().public_key());
    let key = owner.public_key().to_hex();
    for event in [
        by_stranger(kinds::ISSUE, &[&["a", &unknown]]),
        by_stranger(COMMENT, &[&["A", &unknown]]),
        by_stranger(NOTE, &[&["q", &unknown]]),
        by_stranger(NOTE, &[]),
        by_stranger(NOTE, &[&["p", &key]]),
    ] {
        view.refuses(&event, Cause::Unrelated, "blocked: ");
    }
}

#[test]
fn g01_8_a_repository_is_also_known_by_its_state_and_identifiers_may_hold_colons() {
    let (mut view, owner) = FakeView::hosted(&[]);
    let by_state = coordinate(30618, &owner.public_key());
    assert_eq!(
        view.outcome(&by_stranger(NOTE, &[&["a", &by_state]])),
        Outcome::Serve
    );

    let keys = Keys::generate();
    let announcement = sign(&keys, kinds::ANNOUNCEMENT, &[&["d", "a:b"]], 100);
    view.serve(&announcement);
    let colons = format!("30617:{}:a:b", keys.public_key().to_hex());
    assert_eq!(
        view.outcome(&by_stranger(NOTE, &[&["a", &colons]])),
        Outcome::Serve
    );
}

#[test]
fn g01_8_what_concerns_only_a_held_announcement_is_told_to_come_back() {
    let owner = Keys::generate();
    let mut view = FakeView::new();
    view.take(&listing(&owner, &[], 100));
    let repo = coordinate(30617, &owner.public_key());
    let id = view.held[0].id.to_hex();
    for tags in [&[&["a", repo.as_str()][..]][..], &[&["e", id.as_str()]]] {
        view.refuses(
            &by_stranger(kinds::ISSUE, tags),
            Cause::NoGitData,
            "blocked: repository has no git data yet",
        );
    }
}

#[test]
fn g01_10_g03_5_lists_deletion_requests_and_profiles_are_taken_from_anyone_and_relate_nothing() {
    for kind in [kinds::GRASP_LIST, kinds::DELETION, kinds::PROFILE] {
        let mut view = FakeView::new();
        let named = by_stranger(NOTE, &[]);
        let tags: &[&[&str]] = &[&["g", "wss://x.example"], &["e", &named.id.to_hex()]];
        let event = by_stranger(kind, tags);
        assert_eq!(view.taken(&event), Outcome::Serve, "{kind}");
        assert_eq!(view.cause(&named), Cause::Unrelated, "{kind}");
        let address = format!("{}:{}:", kind.as_u16(), event.pubkey.to_hex());
        for (tag, value) in [("e", event.id.to_hex()), ("a", address)] {
            let note = by_stranger(NOTE, &[&[tag, &value]]);
            assert_eq!(view.cause(&note), Cause::Unrelated, "{kind} {tag}");
        }
    }
}

#[test]
fn an_ephemeral_event_with_a_relation_is_broadcast_and_without_one_refused() {
    let (view, owner) = FakeView::hosted(&[]);
    let repo = coordinate(30617, &owner.public_key());
    let ephemeral = Kind::Custom(29846);
    let decision = view.ask(&by_stranger(ephemeral, &[&["a", &repo]]));
    assert_eq!(decision.outcome, Outcome::Broadcast);
    assert_eq!(view.cause(&by_stranger(ephemeral, &[])), Cause::Unrelated);
}

#[test]
fn private_messages_and_auth_events_are_blocked_whatever_they_name() {
    let (view, owner) = FakeView::hosted(&[]);
    let repo = coordinate(30617, &owner.public_key());
    for kind in [4, 13, 14, 1059, 21_059, 22_242] {
        let event = by_stranger(Kind::Custom(kind), &[&["a", &repo]]);
        view.refuses(&event, Cause::Kind, "blocked: ");
    }
}

#[test]
fn g01_52_patches_issues_and_statuses_are_never_held() {
    let (view, owner) = FakeView::hosted(&[]);
    let repo = coordinate(30617, &owner.public_key());
    for kind in [1617, 1621, 1622, 1624, 1630, 1631, 1632, 1633, 1985] {
        let event = by_stranger(
            Kind::Custom(kind),
            &[&["a", &repo], &["c", &oid(1).to_hex()]],
        );
        assert_eq!(view.outcome(&event), Outcome::Serve, "{kind}");
    }
}

#[test]
fn g01_7_a_judgement_looks_once_by_key_for_each_thing_named_and_reads_no_event() {
    let (mut view, owner) = FakeView::hosted(&[]);
    for _ in 0..20 {
        view.hold(&listing(&Keys::generate(), &[], 100));
    }
    let large = sign(&owner, Kind::Custom(1621), &[], 100);
    view.serve(&large);
    let ids: Vec<String> = (0..50).map(|n| format!("{n:064x}")).collect();
    let held = coordinate(30617, &Keys::generate().public_key());
    let (large, held) = (large.id.to_hex(), held.as_str());
    // Forty times the same.
    let mut tags: Vec<[&str; 2]> = Vec::new();
    for _ in 0..40 {
        tags.extend(ids.iter().map(|id| ["e", id.as_str()]));
        tags.push(["a", held]);
    }
    let sign_with = |more: &[[&str; 2]]| {
        let tags: Vec<&[&str]> = tags.iter().chain(more).map(|tag| &tag[..]).collect();
        sign(&Keys::generate(), Kind::Custom(1111), &tags, 200)
    };
    let unrelated = sign_with(&[]);
    assert_eq!(view.cause(&unrelated), Cause::Unrelated);
    // Served and held, each of 51, and a few about the event itself.
    assert!(view.looks.get() <= 2 * 51 + 10, "{}", view.looks.get());
    assert_eq!(view.reads.get(), 0);
    let related = sign_with(&[["e", &large]]);
    assert_eq!(view.outcome(&related), Outcome::Serve);
    assert_eq!(view.reads.get(), 0);
}

#[test]
fn g03_5_a_profile_is_taken_from_anybody_and_is_noted_unless_its_author_is_known() {
    let (mut view, owner) = FakeView::hosted(&[]);
    let newcomer = Keys::generate();
    for kind in [kinds::PROFILE, kinds::RELAY_LIST] {
        let decision = view.ask(&sign(&newcomer, kind, &[], 100));
        assert_eq!(decision.outcome, Outcome::Serve);
        assert_eq!(decision.effects, [Effect::NoteNewcomer]);
        let decision = view.ask(&sign(&owner, kind, &[], 100));
        assert_eq!(
            (decision.outcome, decision.effects),
            (Outcome::Serve, vec![])
        );
    }
    let long = "x".repeat(17 << 10);
    let event = sign(&newcomer, kinds::PROFILE, &[&["i", &long]], 100);
    assert_eq!(view.cause(&event), Cause::Unrelated);
    // Once they have said something about a repository, they are known.
    let repo = coordinate(30617, &owner.public_key());
    view.take(&sign(&newcomer, kinds::ISSUE, &[&["a", &repo]], 100));
    assert_eq!(view.ask(&event).effects, []);
}
