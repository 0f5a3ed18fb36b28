use bytes::Bytes;
use grip_go::tag;
use proptest::prelude::*;

use super::*;

fn path(text: &str) -> ModulePath {
    ModulePath::parse(text).unwrap()
}

fn text(text: &str) -> Known {
    Known::of(&GoMod::Text(Bytes::copy_from_slice(text.as_bytes())))
}

fn verdict(name: &str, own: &Known, major: &Known, trust: Trust) -> Verdict {
    let tag = tag::read(name).unwrap();
    let location = path("github.com/acme/widget");
    judge(&tag, Some(&location), (own, major), |_| trust)
}

fn version(path: &str, version: &str, proven: bool) -> Verdict {
    Verdict::Version {
        path: path.into(),
        version: version.into(),
        proven,
    }
}

#[test]
fn a_go_mod_names_the_module_and_its_place_proves_it() {
    let own = text("module github.com/acme/widget\n");
    let seen = verdict("v1.2.3", &own, &Known::Absent, Trust::Proven);
    assert_eq!(seen, version("github.com/acme/widget", "v1.2.3", true));
}

#[test]
fn a_nested_module_and_a_major_directory_are_found() {
    let own = text("module github.com/acme/widget/sub\n");
    let seen = verdict("sub/v0.1.0", &own, &Known::Absent, Trust::Proven);
    assert_eq!(seen, version("github.com/acme/widget/sub", "v0.1.0", true));
    let major = text("module github.com/acme/widget/v2\n");
    let seen = verdict("v2.0.0", &Known::Absent, &major, Trust::Proven);
    assert_eq!(seen, version("github.com/acme/widget/v2", "v2.0.0", true));
}

#[test]
fn no_go_mod_and_a_high_major_is_incompatible() {
    let seen = verdict("v3.0.0", &Known::Absent, &Known::Absent, Trust::Proven);
    let expected = version("github.com/acme/widget", "v3.0.0+incompatible", true);
    assert_eq!(seen, expected);
}

#[test]
fn a_path_that_nobody_vouches_for_stays_out_with_a_reason() {
    let own = text("module go.example/tool\n");
    let Verdict::Not(why) = verdict("v1.0.0", &own, &Known::Absent, Trust::Refused) else {
        panic!("it was believed");
    };
    assert_eq!(
        why,
        "nothing proves that go.example/tool is this repository"
    );
    let chosen = verdict("v1.0.0", &own, &Known::Absent, Trust::Chosen);
    assert_eq!(chosen, version("go.example/tool", "v1.0.0", false));
}

#[test]
fn a_go_mod_that_is_no_text_stays_out_with_the_reason_noted_when_it_was_read() {
    let own = Known::of(&GoMod::Text(Bytes::from_static(b"module \xff\xfe\n")));
    let Known::Bad(noted) = own.clone() else {
        panic!("it was read");
    };
    let Verdict::Not(why) = verdict("v1.0.0", &own, &Known::Absent, Trust::Proven) else {
        panic!("it was believed");
    };
    assert!(why.contains(&noted), "{why}");
    let large = Known::of(&GoMod::TooLarge);
    assert!(matches!(large, Known::Bad(_)));
}

#[test]
fn a_go_mod_of_10_megabytes_is_read() {
    let mut large = b"module github.com/acme/widget\n".to_vec();
    large.resize(10 << 20, b'\n');
    let own = Known::of(&GoMod::Text(large.into()));
    assert_eq!(own, Known::Names("github.com/acme/widget".into()));
}

#[test]
fn a_repository_whose_place_is_no_path_holds_only_modules_of_other_names() {
    let tag = tag::read("v1.0.0").unwrap();
    let none = (&Known::Absent, &Known::Absent);
    let seen = judge(&tag, None, none, |_| Trust::Proven);
    assert!(matches!(seen, Verdict::Not(_)), "{seen:?}");
    let own = text("module go.example/tool\n");
    let seen = judge(&tag, None, (&own, &Known::Absent), |_| Trust::Chosen);
    assert_eq!(seen, version("go.example/tool", "v1.0.0", false));
}

fn claim(repo: &str, proven: bool, claimed_ns: i64) -> Claim {
    Claim {
        path: "m.example".into(),
        version: "v1.0.0".into(),
        org_repo_name: repo.into(),
        tag_name: "v1.0.0".into(),
        commit_oid: "a".into(),
        created: 1,
        proven: proven.into(),
        claimed_ns,
        audience: 0,
    }
}

#[test]
fn a_proof_beats_a_choice_and_then_the_first_wins() {
    let claims = [
        claim("late", true, 9),
        claim("chosen", false, 1),
        claim("early", true, 5),
    ];
    assert_eq!(winner(&claims), Some(&claims[2]));
    assert_eq!(winner(&claims[..2]), Some(&claims[0]));
    assert_eq!(winner(&claims[1..2]), Some(&claims[1]));
    assert_eq!(winner([]), None);
    let same = [claim("b", true, 1), claim("a", true, 1)];
    assert_eq!(winner(&same), Some(&same[1]));
}

#[test]
fn the_feed_changes_only_where_the_believed_claim_differs() {
    let claim = claim("a", true, 1);
    let live = Live {
        first_seen_ns: 7,
        path: claim.path.clone(),
        version: claim.version.clone(),
        created: 1,
        org_repo_name: "a".into(),
        tag_name: "v1.0.0".into(),
        commit_oid: "a".into(),
        audience: 0,
    };
    assert_eq!(step(None, None), None);
    assert_eq!(step(None, Some(&claim)), Some(Step::Add));
    assert_eq!(step(Some(&live), Some(&claim)), None);
    assert_eq!(step(Some(&live), None), Some(Step::Remove));
    let moved = Live {
        commit_oid: "b".into(),
        ..live.clone()
    };
    assert_eq!(step(Some(&moved), Some(&claim)), Some(Step::Move));
    let restricted = Live {
        audience: 1,
        ..live.clone()
    };
    assert_eq!(step(Some(&restricted), Some(&claim)), Some(Step::Replace));
    let elsewhere = Live {
        org_repo_name: "b".into(),
        ..live
    };
    assert_eq!(step(Some(&elsewhere), Some(&claim)), Some(Step::Move));
}

#[test]
fn strange_names_are_kept_under_a_stand_in() {
    for plain in ["v1.0.0", "..", "<b>x</b>", "naïve", "a b"] {
        assert_eq!(kept_name(plain), plain);
    }
    let (nul, line) = (kept_name("v1.0.0\0"), kept_name("v1\n.0.0"));
    assert!(nul.starts_with("v1.0.0\\0… ("), "{nul}");
    assert!(line.starts_with("v1\\n.0.0… ("), "{line}");
    let long = "x".repeat(4096);
    let other = format!("{long}y");
    assert!(kept_name(&long).len() < 200);
    assert_ne!(kept_name(&long), kept_name(&other));
}

proptest! {
    #[test]
    fn every_name_and_reason_can_be_kept(text in any::<String>()) {
        for kept in [kept_name(&text).into_owned(), kept_why(&text)] {
            prop_assert!(kept.len() <= MAX_NAME_BYTES);
            prop_assert!(!kept.chars().any(char::is_control));
        }
    }
}
