use grip_nostr::Timestamp;
use grip_testkit::events::{Author, Tags, tag};
use proptest::prelude::*;

use super::*;

mod laws;

const OID: &str = "1111111111111111111111111111111111111111";

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_secs(1_700_000_000 + seconds)
}

/// An announcement that lists others as maintainers.
fn listing(author: &Author, others: &[&Author], seconds: u64) -> Event {
    let mut list = tag(["maintainers"]);
    list.extend(others.iter().map(|other| other.hex()));
    announcement(author, vec![list], seconds)
}

fn announcement(author: &Author, more: Tags, seconds: u64) -> Event {
    author.announcement_at("git.example", "x", more, at(seconds))
}

fn state(author: &Author, seconds: u64) -> Event {
    author.state_at("x", &[("refs/heads/main", OID)], None, at(seconds))
}

#[test]
fn a_manifest_is_read_as_it_was_made() {
    let owner = Author::new();
    let made = Manifest::make(
        announcement(&owner, vec![], 1),
        vec![],
        Some(state(&owner, 2)),
    );
    let made = made.unwrap();
    let read = Manifest::decode(made.bytes()).unwrap();
    assert_eq!(read.bytes(), made.bytes());
    assert_eq!(read.id(), ManifestId::of(made.bytes()));
    assert_eq!(read.name().to_string(), format!("{}/x", owner.npub()));
    assert_eq!(read.signed_at(), at(2).as_secs());
    assert!(read.fits_a_record() && read.via().is_empty());
}

#[test]
fn the_urls_are_those_of_the_announcement_in_one_order() {
    let owner = Author::new();
    let clone = tag([
        "clone",
        "https://z.example/x.git",
        "HTTPS://A.example:443/x.git#part",
        "https://a.example/x.git",
        "ssh://git@a.example/x.git",
        "https://user:secret@a.example/x.git",
        "file:///etc/passwd",
        "nonsense",
    ]);
    let event = owner.sign_at(30617, "", vec![tag(["d", "x"]), clone], at(1));
    let made = Manifest::make(event, vec![], None).unwrap();
    let urls: Vec<&str> = made.urls().iter().map(Url::as_str).collect();
    assert_eq!(urls, ["https://a.example/x.git", "https://z.example/x.git"]);

    let text = std::str::from_utf8(made.bytes()).unwrap();
    let lie = text.replace(
        "\"https://a.example/x.git\",\"https://z",
        "\"https://evil.example\",\"https://z",
    );
    assert_ne!(lie, text);
    assert_eq!(
        Manifest::decode(lie.as_bytes()),
        Err(InvalidManifest::NotCanonical)
    );
}

/// G01-74
#[test]
fn a_maintainer_is_shown_by_the_announcements_by_which_both_sides_agree() {
    let [owner, b, c, d] = [(); 4].map(|()| Author::new());
    let between = listing(&b, &[&owner, &c], 2);
    let answer = listing(&c, &[&b], 2);
    let needless = listing(&d, &[&c], 2);
    let made = Manifest::make(
        listing(&owner, &[&b], 1),
        vec![
            needless.clone(),
            answer.clone(),
            between.clone(),
            listing(&b, &[], 1),
        ],
        Some(state(&c, 3)),
    );
    let made = made.unwrap();
    let via: Vec<_> = made.via().iter().map(|via| via.event.id).collect();
    assert_eq!(via, [between.id, answer.id]);
    assert_eq!(Manifest::decode(made.bytes()), Ok(made.clone()));

    for without in [vec![needless, answer], vec![between.clone()]] {
        let lists = listing(&owner, &[&b], 1);
        let made = Manifest::make(lists, without, Some(state(&c, 3)));
        assert_eq!(made, Err(InvalidManifest::NotAMaintainer));
    }
    // Who is invited and has not answered moves nothing.
    let invited = Manifest::make(listing(&owner, &[&c], 1), vec![], Some(state(&c, 3)));
    assert_eq!(invited, Err(InvalidManifest::NotAMaintainer));
    // What is not needed is not let in either.
    let direct = listing(&owner, &[&b, &c], 1);
    let answer = listing(&c, &[&owner], 2);
    let wire = serde_json::json!([
        "gripfast-manifest",
        1,
        direct,
        [between, answer],
        state(&c, 3),
        made.urls()
    ]);
    let read = Manifest::decode(wire.to_string().as_bytes());
    assert_eq!(read, Err(InvalidManifest::NotCanonical));
}

#[test]
fn events_that_do_not_belong_together_make_no_manifest() {
    let [owner, b, c] = [(); 3].map(|()| Author::new());
    let plain = || announcement(&owner, vec![], 1);
    let private = announcement(&owner, vec![tag(["private", "true"])], 1);
    let other = owner.state_at("y", &[("refs/heads/main", OID)], None, at(2));
    let mut signed_otherwise = plain();
    signed_otherwise.sig = announcement(&owner, vec![], 2).sig;
    let mut changed = plain();
    changed.content = "changed".into();
    // A newer announcement of the one between takes the right away.
    let between = vec![listing(&b, &[&c], 2), listing(&b, &[], 3)];
    for (announcement, others, state, expected) in [
        (
            plain(),
            vec![],
            Some(state(&b, 2)),
            InvalidManifest::NotAMaintainer,
        ),
        (
            listing(&owner, &[&b], 1),
            between,
            Some(state(&c, 4)),
            InvalidManifest::NotAMaintainer,
        ),
        (private, vec![], None, InvalidManifest::Private),
        (
            plain(),
            vec![],
            Some(other),
            InvalidManifest::OtherRepository,
        ),
        (signed_otherwise, vec![], None, InvalidManifest::Signature),
        (changed, vec![], None, InvalidManifest::Signature),
    ] {
        assert_eq!(Manifest::make(announcement, others, state), Err(expected));
    }
}

#[test]
fn another_form_of_the_same_json_is_refused() {
    let owner = Author::new();
    let made = Manifest::make(announcement(&owner, vec![], 1), vec![], None).unwrap();
    let text = std::str::from_utf8(made.bytes()).unwrap();
    let forms = [
        format!(" {text}"),
        format!("{text}\n"),
        text.replace("\"kind\":", "\"kind\": "),
        text.replace("\"kind\":", "\"extra\":1,\"kind\":"),
        text.replace("git.example", "git\\u002eexample"),
        text.replace("\"gripfast-manifest\",1", "\"gripfast-manifest\",1.0"),
    ];
    for form in forms {
        assert_ne!(form, text);
        let read = Manifest::decode(form.as_bytes());
        assert!(
            matches!(
                read,
                Err(InvalidManifest::NotCanonical | InvalidManifest::NotJson)
            ),
            "{form}: {read:?}"
        );
    }
    let newer = text.replace("\"gripfast-manifest\",1", "\"gripfast-manifest\",2");
    assert_eq!(
        Manifest::decode(newer.as_bytes()),
        Err(InvalidManifest::Version)
    );
    assert_eq!(
        Manifest::decode(&vec![b'['; MAX_BYTES + 1]),
        Err(InvalidManifest::TooLong)
    );
    assert_eq!(
        Manifest::decode(&vec![b'['; 100_000]),
        Err(InvalidManifest::NotJson)
    );
}

#[test]
fn a_large_manifest_is_no_record() {
    let owner = Author::new();
    let long = announcement(
        &owner,
        vec![tag(["description", &"x".repeat(MAX_RECORD_BYTES)])],
        1,
    );
    let made = Manifest::make(long, vec![], None).unwrap();
    assert!(!made.fits_a_record());
    assert_eq!(Manifest::decode(made.bytes()), Ok(made));
}

fn sample() -> Manifest {
    let [owner, b, c] = [(); 3].map(|()| Author::new());
    let strange = tag([
        "description",
        "tabs\t\"quotes\" \u{1} \u{7f} \u{2028} ü 🦀 \\",
    ]);
    let mut list = tag(["maintainers"]);
    list.push(b.hex());
    let announcement = announcement(&owner, vec![strange, list], 1);
    Manifest::make(
        announcement,
        vec![listing(&b, &[&owner, &c], 2), listing(&c, &[&b], 2)],
        Some(state(&c, 3)),
    )
    .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_changed_byte_is_refused(at in any::<prop::sample::Index>(), to in any::<u8>(), cut in any::<bool>()) {
        let made = sample();
        let mut bytes = made.bytes().to_vec();
        let at = at.index(bytes.len());
        prop_assume!(cut || bytes[at] != to);
        if cut { bytes.truncate(at) } else { bytes[at] = to }
        // A digit of a signature cannot change into another valid one, nor anything else.
        prop_assert!(Manifest::decode(&bytes).is_err());
        prop_assert_ne!(ManifestId::of(&bytes), made.id());
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(Manifest::decode(&bytes).is_err());
    }

    #[test]
    fn any_text_in_an_event_comes_back(text in "\\PC{0,40}[\u{0}-\u{1f}\u{7f}\u{2028}]{0,8}") {
        let owner = Author::new();
        let event = announcement(&owner, vec![tag(["description", &text])], 1);
        let made = Manifest::make(event, vec![], None).unwrap();
        prop_assert_eq!(Manifest::decode(made.bytes()), Ok(made));
    }
}
