use grip_testkit::Author;
use nostr::prelude::Timestamp;

use super::*;
use crate::testing::headers;

const URL: &str = "https://git.example/npub1x/tides.git";
const NOW: u64 = 1_700_000_000;

fn event(author: &Author, kind: u16, tags: &[(&str, &str)], at: u64) -> String {
    let tags = tags.iter().map(|(n, v)| vec![(*n).into(), (*v).into()]);
    let event = author.sign_at(kind, "", tags.collect(), Timestamp::from_secs(at));
    STANDARD.encode(serde_json::to_vec(&event).unwrap())
}

fn proved(token: &str) -> Option<PublicKey> {
    let basic = format!("Basic {}", STANDARD.encode(format!("nostr:{token}")));
    let nostr = format!("Nostr {token}");
    let [nostr, basic] =
        [nostr, basic].map(|value| prove(&headers(&[("authorization", value.as_str())]), URL, NOW));
    assert_eq!(nostr, basic, "both forms count the same");
    nostr
}

const GOOD: [(&str, &str); 2] = [("u", URL), ("method", "GET")];

/// G08-7
#[test]
fn a_proof_counts_for_a_minute_either_way_and_as_often_as_it_comes() {
    let author = Author::new();
    for at in [NOW - 60, NOW, NOW + 60] {
        let token = event(&author, 27_235, &GOOD, at);
        assert_eq!(proved(&token), Some(author.pubkey()));
        assert_eq!(proved(&token), Some(author.pubkey()));
    }
}

/// G08-21
#[test]
fn a_proof_that_is_replayed_after_its_minute_is_refused() {
    assert_eq!(
        proved(&event(&Author::new(), 27_235, &GOOD, NOW - 61)),
        None
    );
}

/// G08-21
#[test]
fn a_proof_of_the_future_is_refused() {
    assert_eq!(
        proved(&event(&Author::new(), 27_235, &GOOD, NOW + 61)),
        None
    );
}

/// G08-21
#[test]
fn a_proof_for_another_method_is_refused() {
    let tags = [("u", URL), ("method", "POST")];
    assert_eq!(proved(&event(&Author::new(), 27_235, &tags, NOW)), None);
    assert_eq!(
        proved(&event(&Author::new(), 27_235, &GOOD[..1], NOW)),
        None
    );
    let twice = [GOOD[0], GOOD[1], GOOD[1]];
    assert_eq!(proved(&event(&Author::new(), 27_235, &twice, NOW)), None);
}

/// G08-21
#[test]
fn a_proof_for_another_url_is_refused() {
    for url in [
        "https://git.example/npub1x/tides.git/",
        "https://git.example/npub1x/tides.git/info/refs",
        "https://other.example/npub1x/tides.git",
        "http://git.example/npub1x/tides.git",
        "https://git.example:443/npub1x/tides.git",
        "https://git.example/npub1x/other.git",
        "",
    ] {
        let tags = [("u", url), ("method", "GET")];
        let shown = event(&Author::new(), 27_235, &tags, NOW);
        assert_eq!(proved(&shown), None, "{url}");
    }
}

/// G08-21
#[test]
fn a_proof_with_two_urls_is_refused() {
    let tags = [GOOD[0], GOOD[0], GOOD[1]];
    assert_eq!(proved(&event(&Author::new(), 27_235, &tags, NOW)), None);
    let tags = [GOOD[0], ("u", "https://other.example/x.git"), GOOD[1]];
    assert_eq!(proved(&event(&Author::new(), 27_235, &tags, NOW)), None);
}

#[test]
fn a_proof_that_is_forged_or_of_another_kind_is_refused() {
    let author = Author::new();
    assert_eq!(proved(&event(&author, 22_242, &GOOD, NOW)), None);
    let json = STANDARD.decode(event(&author, 27_235, &GOOD, NOW)).unwrap();
    let forged = String::from_utf8(json)
        .unwrap()
        .replace(&author.hex(), &Author::new().hex());
    assert_eq!(proved(&STANDARD.encode(forged)), None);
}

#[test]
fn what_is_no_proof_is_read_without_harm() {
    let two = headers(&[("authorization", "Nostr x"), ("authorization", "Nostr y")]);
    assert_eq!(prove(&two, URL, NOW), None);
    let long = format!("Nostr {}", "x".repeat(MAX_AUTHORIZATION));
    for value in [
        "",
        "Nostr",
        "Nostr ",
        "Nostr bm9ib2R5",
        "Basic",
        "Basic !!!",
        "Basic bm9ib2R5",
        "Basic /////w==",
        "Bearer x",
        &long,
    ] {
        let shown = headers(&[("authorization", value)]);
        assert_eq!(prove(&shown, URL, NOW), None, "{value}");
    }
}
