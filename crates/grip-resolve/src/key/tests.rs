use grip_testkit::Author;
use nostr::prelude::{Coordinate, Kind, Nip19Coordinate, RelayUrl, ToBech32};
use proptest::prelude::*;

use super::*;

const HEX: &str = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";

fn naddr(kind: u16, author: &Author, identifier: &str) -> String {
    let coordinate = Coordinate {
        kind: Kind::from(kind),
        public_key: author.pubkey(),
        identifier: identifier.to_owned(),
    };
    let relays = [RelayUrl::parse("wss://relay.example").unwrap()];
    let naddr = Nip19Coordinate::new(coordinate, relays);
    naddr.to_bech32().unwrap()
}

#[test]
fn the_three_forms_are_read_and_the_plain_ones_are_written_as_they_were_read() {
    let author = Author::new();
    let name = format!("name:{}/a ünïcode name", author.npub());
    let id = format!("b3:{HEX}");
    for text in [&name, &id] {
        assert_eq!(Key::parse(text).unwrap().to_string(), **text);
    }
    let by_naddr = Key::parse(&naddr(30617, &author, "a ünïcode name"));
    assert_eq!(by_naddr, Key::parse(&name));
    assert_eq!(by_naddr.unwrap().to_string(), name);
}

#[test]
fn a_name_is_read_in_every_usual_way() {
    let author = Author::new();
    let npub = author.npub();
    let name = Key::parse(&format!("name:{npub}/a b")).unwrap();
    for text in [
        format!("{npub}/a b"),
        format!("nostr://{npub}/a%20b"),
        format!("nostr://{npub}/relay.example/a%20b/"),
        format!("nostr://{npub}/ws%3A%2F%2F127.0.0.1%3A7334/a%20b"),
        format!("nostr://{}", naddr(30617, &author, "a b")),
    ] {
        assert_eq!(Key::parse(&text).as_ref(), Ok(&name), "{text}");
    }
    let wrong = [
        (format!("nostr://{npub}"), InvalidKey::NoSlash),
        (format!("nostr://relay.example/{npub}/x"), InvalidKey::Owner),
        (npub, InvalidKey::NoSlash),
    ];
    for (text, reason) in wrong {
        assert_eq!(Key::parse(&text), Err(reason), "{text:?}");
    }
}

#[test]
fn what_is_no_key_is_refused_with_its_reason() {
    let author = Author::new();
    let npub = author.npub();
    let cases = [
        (String::new(), InvalidKey::Form),
        ("b4:00".into(), InvalidKey::Form),
        (" b3:00".into(), InvalidKey::Form),
        ("NAME:x".into(), InvalidKey::Form),
        ("x".repeat(3_000), InvalidKey::TooLong),
        (format!("name:{npub}"), InvalidKey::NoSlash),
        (format!("name:{}/x", author.hex()), InvalidKey::Owner),
        (format!("name:{}/x", npub.to_uppercase()), InvalidKey::Owner),
        (format!("name:{npub}/"), InvalidIdentifier::Empty.into()),
        (
            format!("name:{npub}/a/b"),
            InvalidIdentifier::Forbidden.into(),
        ),
        (format!("name:{npub}/.."), InvalidIdentifier::Dots.into()),
        (format!("b3:{}", &HEX[1..]), InvalidManifestId.into()),
        (format!("b3:{HEX}0"), InvalidManifestId.into()),
        (
            format!("b3:{}", HEX.to_uppercase()),
            InvalidManifestId.into(),
        ),
        (naddr(30618, &author, "x"), InvalidKey::Kind(30618)),
        (naddr(30617, &author, ""), InvalidIdentifier::Empty.into()),
        (naddr(30617, &author, "x").to_uppercase(), InvalidKey::Form),
        (naddr(30617, &author, "x") + "q", InvalidKey::Naddr),
        ("naddr1".into(), InvalidKey::Naddr),
    ];
    for (text, reason) in cases {
        assert_eq!(Key::parse(&text), Err(reason), "{text:?}");
    }
}

#[test]
fn kinds_of_records_have_keys_apart() {
    let id = ManifestId::parse(&format!("b3:{HEX}")).unwrap();
    let author = Author::new();
    let named = |identifier: &str| {
        Key::parse(&format!("name:{}/{identifier}", author.npub()))
            .unwrap()
            .record()
    };
    let peer = PeerName::from_bytes(&[7; 38]).unwrap();
    let keys = [
        Key::Manifest(id).record(),
        RecordKey::from(*id.as_bytes()),
        named("x"),
        named("y"),
        node_record_key(&peer),
    ];
    for (i, key) in keys.iter().enumerate() {
        assert_eq!(key.as_bytes().len(), 32);
        assert!(!keys[..i].contains(key));
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in ".{0,200}") {
        let _ = Key::parse(&text);
    }

    #[test]
    fn a_text_that_is_read_is_written_as_it_was_read(
        form in 0..3_usize,
        tail in "[0-9a-zA-Z/. %ü\u{0}-]{0,80}",
        digest in any::<[u8; 32]>(),
    ) {
        let id = ManifestId::of(&digest);
        let text = match form {
            0 => format!("name:npub1{tail}"),
            1 => format!("{id}{tail}"),
            _ => format!("b3:{tail}"),
        };
        if let Ok(key) = Key::parse(&text) {
            prop_assert_eq!(key.to_string(), text);
        }
        prop_assert_eq!(Key::parse(&id.to_string()), Ok(Key::Manifest(id)));
    }

    #[test]
    fn any_identifier_comes_back(identifier in "[^/\\\\\\p{Cc}]{1,60}") {
        let owner = Author::new().npub();
        prop_assume!(Identifier::parse(&identifier).is_ok());
        let text = format!("name:{owner}/{identifier}");
        prop_assert_eq!(Key::parse(&text).unwrap().to_string(), text);
    }

    #[test]
    fn one_wrong_letter_in_an_npub_is_noticed(at in 5..63_usize, by in 1..32_usize) {
        const LETTERS: &[u8] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
        let mut npub = Author::new().npub().into_bytes();
        let was = LETTERS.iter().position(|letter| *letter == npub[at]).unwrap();
        npub[at] = LETTERS[(was + by) % 32];
        let text = format!("name:{}/x", String::from_utf8(npub).unwrap());
        prop_assert_eq!(Key::parse(&text), Err(InvalidKey::Owner));
    }
}
