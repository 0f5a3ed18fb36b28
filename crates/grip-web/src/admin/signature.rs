//! Requests from elsewhere, signed with the operator's own key (NIP-98).
//!
//! Invariant: one signature opens one URL with one method and one body, within a minute, once.
//! What was used is kept in memory only, so a signature from before the start opens nothing.

use std::collections::VecDeque;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use grip_nostr::Event;
use http::{HeaderMap, header};
use nostr::prelude::{EventId, PublicKey, ToBech32 as _};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use super::Admin;

/// The kind of events that open something.
pub(crate) const KIND: u16 = 27_235;
/// How far the moment of signing may be from now, in seconds.
pub(crate) const WINDOW: u64 = 60;
/// Longest text of an event.
const MAX_TEXT: usize = 8 << 10;
/// Signatures remembered at once; more orders within two minutes are refused.
const MAX_USED: usize = 1_024;

/// Reasons for which a signature is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum InvalidSignature {
    #[error("this node has no owner (owner_npub), so nobody can sign orders")]
    NoOwner,
    #[error("it must be the base64 of an event")]
    Form,
    #[error("the event must be of kind 27235, with one tag each of u and method")]
    Kind,
    #[error("the event is not signed by the owner of this node")]
    NotTheOwner,
    #[error("the tag u must be the URL of this very request, as the node itself is called")]
    Url,
    #[error("the tag method must be the method of this request")]
    Method,
    #[error("it was signed more than 60 seconds from now")]
    Time,
    #[error("it was signed before this node started: sign it again")]
    BeforeStart,
    #[error("the id or the signature of the event is wrong")]
    Signature,
    #[error("the tag payload must be the SHA-256 of the body, in hex")]
    Payload,
    #[error("it was used before: sign each request")]
    Used,
    #[error("too many orders came within two minutes")]
    TooMany,
}

/// The request that a signature has to be for.
pub(crate) struct SignedRequest<'a> {
    pub(crate) url: &'a str,
    pub(crate) method: &'a str,
    pub(crate) owner: Option<PublicKey>,
    /// In seconds since 1970.
    pub(crate) now: u64,
}

/// A valid signature of a request whose body has not been read yet.
pub(crate) struct VerifiedSignature {
    event: Event,
    payload: Option<String>,
}

/// Signatures that were used, until they are too old to be used again.
pub(crate) struct UsedSignatures {
    /// In seconds since 1970; nothing is known of what was used before.
    started: u64,
    ids: Mutex<VecDeque<(EventId, u64)>>,
}

/// The event of an `Authorization: Nostr …`, if there is one.
pub(crate) fn authorization(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, event) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("nostr").then_some(event.trim())
}

/// Checks all that can be checked before the body has come.
pub(crate) fn verify(
    encoded: &str,
    request: &SignedRequest<'_>,
) -> Result<VerifiedSignature, InvalidSignature> {
    let owner = request.owner.ok_or(InvalidSignature::NoOwner)?;
    let event = decode(encoded).ok_or(InvalidSignature::Form)?;
    let [url, method, payload] = ["u", "method", "payload"].map(|name| values(&event, name));
    let ([url], [method], [] | [_]) = (&url[..], &method[..], &payload[..]) else {
        return Err(InvalidSignature::Kind);
    };
    if event.kind.as_u16() != KIND {
        return Err(InvalidSignature::Kind);
    }
    if event.pubkey != owner {
        return Err(InvalidSignature::NotTheOwner);
    }
    if *url != request.url {
        return Err(InvalidSignature::Url);
    }
    if *method != request.method {
        return Err(InvalidSignature::Method);
    }
    must_be_near(event.created_at.as_secs(), request.now)?;
    event.verify().map_err(|_| InvalidSignature::Signature)?;
    let payload = payload.first().map(|text| (*text).to_owned());
    Ok(VerifiedSignature { event, payload })
}

impl VerifiedSignature {
    /// Opens what was signed, once, if it was signed for this body. The body may have taken its
    /// time, so `clock` is read once more.
    pub(crate) fn open(
        self,
        body: &[u8],
        used: &UsedSignatures,
        clock: impl FnOnce() -> u64,
    ) -> Result<Admin, InvalidSignature> {
        let digest = faster_hex::hex_string(&Sha256::digest(body));
        match self.payload {
            None if body.is_empty() => {}
            Some(payload) if payload == digest => {}
            _ => return Err(InvalidSignature::Payload),
        }
        used.take(self.event.id, self.event.created_at.as_secs(), clock)?;
        let npub = self.event.pubkey.to_bech32();
        let Ok(npub) = npub;
        Ok(Admin {
            who: npub.clone(),
            actor: npub,
        })
    }
}

impl UsedSignatures {
    /// Nothing was used yet by a node that started at `started`.
    pub(crate) fn since(started: u64) -> Self {
        Self {
            started,
            ids: Mutex::default(),
        }
    }

    /// Records a use. The clock is read under the lock, so that every id that is not too old is
    /// found by the next use.
    fn take(
        &self,
        id: EventId,
        signed: u64,
        clock: impl FnOnce() -> u64,
    ) -> Result<(), InvalidSignature> {
        let mut used = self.ids.lock();
        let now = clock();
        must_be_near(signed, now)?;
        if signed < self.started {
            return Err(InvalidSignature::BeforeStart);
        }
        used.retain(|(_, signed)| signed.saturating_add(WINDOW) >= now);
        if used.iter().any(|(other, _)| *other == id) {
            return Err(InvalidSignature::Used);
        }
        if used.len() >= MAX_USED {
            return Err(InvalidSignature::TooMany);
        }
        used.push_back((id, signed));
        Ok(())
    }
}

fn must_be_near(signed: u64, now: u64) -> Result<(), InvalidSignature> {
    if signed.abs_diff(now) <= WINDOW {
        Ok(())
    } else {
        Err(InvalidSignature::Time)
    }
}

/// Reads an event in base64.
pub(crate) fn decode(text: &str) -> Option<Event> {
    if text.len() > MAX_TEXT {
        return None;
    }
    let json = STANDARD.decode(text).ok()?;
    serde_json::from_slice(&json).ok()
}

/// The first values of all tags of a name.
pub(crate) fn values<'a>(event: &'a Event, name: &str) -> Vec<&'a str> {
    let tags = event.tags.iter().map(|tag| tag.as_slice());
    let named = tags.filter(|tag| tag.first().is_some_and(|first| first == name));
    named
        .map(|tag| tag.get(1).map_or("", String::as_str))
        .collect()
}

#[cfg(test)]
mod tests {
    use grip_testkit::Author;
    use nostr::prelude::Timestamp;

    use super::*;

    const URL: &str = "https://git.example/admin/pin";
    const NOW: u64 = 1_700_000_000;
    const BODY: &[u8] = b"{}";
    const DIGEST: &str = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";

    fn tags(pairs: &[(&str, &str)]) -> Vec<Vec<String>> {
        let tag = |(name, value): &(&str, &str)| vec![(*name).to_owned(), (*value).to_owned()];
        pairs.iter().map(tag).collect()
    }

    fn header(author: &Author, kind: u16, pairs: &[(&str, &str)], at: u64) -> String {
        let event = author.sign_at(kind, "", tags(pairs), Timestamp::from_secs(at));
        STANDARD.encode(serde_json::to_vec(&event).unwrap())
    }

    fn check(owner: &Author, shown: &str) -> Result<VerifiedSignature, InvalidSignature> {
        let request = SignedRequest {
            url: URL,
            method: "POST",
            owner: Some(owner.pubkey()),
            now: NOW,
        };
        verify(shown, &request)
    }

    const GOOD: [(&str, &str); 3] = [("u", URL), ("method", "POST"), ("payload", DIGEST)];

    #[test]
    fn a_signature_of_the_owner_opens_its_request_once() {
        let (owner, used) = (Author::new(), UsedSignatures::since(0));
        for at in [NOW - 60, NOW, NOW + 60] {
            let shown = header(&owner, KIND, &GOOD, at);
            let open = || check(&owner, &shown).unwrap().open(BODY, &used, || NOW);
            assert_eq!(open().unwrap().actor(), owner.npub());
            assert_eq!(open().unwrap_err(), InvalidSignature::Used);
        }
        let other = header(&owner, KIND, &GOOD, NOW - 1);
        let opened = check(&owner, &other).unwrap().open(b"{ }", &used, || NOW);
        assert_eq!(opened.unwrap_err(), InvalidSignature::Payload);
        let bare = header(&owner, KIND, &GOOD[..2], NOW);
        let opened = check(&owner, &bare).unwrap().open(BODY, &used, || NOW);
        assert_eq!(opened.unwrap_err(), InvalidSignature::Payload);
        assert!(
            check(&owner, &bare)
                .unwrap()
                .open(b"", &used, || NOW)
                .is_ok()
        );
    }

    #[test]
    fn a_signature_that_grows_too_old_while_its_body_comes_opens_nothing() {
        let (owner, used) = (Author::new(), UsedSignatures::since(0));
        let shown = header(&owner, KIND, &GOOD, NOW - 60);
        let [first, second] = [(); 2].map(|()| check(&owner, &shown).unwrap());
        assert!(first.open(BODY, &used, || NOW).is_ok());
        let again = second.open(BODY, &used, || NOW + 1);
        assert_eq!(again.unwrap_err(), InvalidSignature::Time);
    }

    #[test]
    fn a_clock_that_is_set_back_makes_no_signature_good_again() {
        let (owner, used) = (Author::new(), UsedSignatures::since(0));
        let ahead = header(&owner, KIND, &GOOD, NOW + 60);
        let other = header(&owner, KIND, &GOOD, NOW - 30);
        let open = |shown: &str, at: u64| check(&owner, shown).unwrap().open(BODY, &used, || at);
        assert!(open(&ahead, NOW).is_ok());
        assert!(open(&other, NOW - 30).is_ok());
        assert_eq!(open(&ahead, NOW).unwrap_err(), InvalidSignature::Used);
    }

    #[test]
    fn what_was_signed_before_the_start_opens_nothing_after_it() {
        let owner = Author::new();
        let shown = header(&owner, KIND, &GOOD, NOW);
        let open = |started| {
            let used = UsedSignatures::since(started);
            check(&owner, &shown).unwrap().open(BODY, &used, || NOW)
        };
        assert_eq!(open(NOW + 1).unwrap_err(), InvalidSignature::BeforeStart);
        assert!(open(NOW).is_ok(), "the second of the start is not over");
    }

    #[test]
    fn a_signature_for_anything_else_opens_nothing() {
        let (owner, stranger) = (Author::new(), Author::new());
        let of = |pairs: &[(&str, &str)]| header(&owner, KIND, pairs, NOW);
        let elsewhere = "https://other.example/admin/pin";
        let forged = {
            let mut event = owner.sign_at(KIND, "", tags(&GOOD), Timestamp::from_secs(NOW));
            event.content = "changed".into();
            STANDARD.encode(serde_json::to_vec(&event).unwrap())
        };
        for (shown, why) in [
            (
                header(&stranger, KIND, &GOOD, NOW),
                InvalidSignature::NotTheOwner,
            ),
            (header(&owner, 1, &GOOD, NOW), InvalidSignature::Kind),
            (of(&[("u", URL)]), InvalidSignature::Kind),
            (of(&[GOOD[0], GOOD[0], GOOD[1]]), InvalidSignature::Kind),
            (of(&[("u", elsewhere), GOOD[1]]), InvalidSignature::Url),
            (of(&[GOOD[0], ("method", "GET")]), InvalidSignature::Method),
            (
                header(&owner, KIND, &GOOD, NOW - 61),
                InvalidSignature::Time,
            ),
            (
                header(&owner, KIND, &GOOD, NOW + 61),
                InvalidSignature::Time,
            ),
            (forged, InvalidSignature::Signature),
            (String::new(), InvalidSignature::Form),
            ("bm9ib2R5".into(), InvalidSignature::Form),
            ("x".repeat(MAX_TEXT + 1), InvalidSignature::Form),
        ] {
            assert_eq!(check(&owner, &shown).err(), Some(why), "{shown}");
        }
        let nobody = SignedRequest {
            url: URL,
            method: "POST",
            owner: None,
            now: NOW,
        };
        let shown = of(&GOOD);
        assert_eq!(
            verify(&shown, &nobody).err(),
            Some(InvalidSignature::NoOwner)
        );
    }
}
