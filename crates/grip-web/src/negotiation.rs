//! Content negotiation by `Accept` and `Accept-Encoding`.

use http::{HeaderMap, HeaderName, header};

/// How much a client wants a media type, in thousandths; `None` if it does not name it.
fn quality(headers: &HeaderMap, media_type: &str) -> Option<u16> {
    quality_in(headers, header::ACCEPT, media_type)
}

/// The same for a name in any header.
///
/// Only an exact name counts: a browser's `*/*` does not ask for a NIP-11 document.
fn quality_in(headers: &HeaderMap, header: HeaderName, name: &str) -> Option<u16> {
    headers
        .get_all(header)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let named = parts.next()?.eq_ignore_ascii_case(name);
            named.then(|| parts.find_map(read_q).unwrap_or(1000))
        })
        .max()
}

/// Reads `q=0.5` as 500; what cannot be read counts as if it were not there.
fn read_q(parameter: &str) -> Option<u16> {
    let (name, value) = parameter.split_once('=')?;
    if !name.trim().eq_ignore_ascii_case("q") {
        return None;
    }
    let q: f32 = value.trim().parse().ok()?;
    (0.0..=1.0).contains(&q).then_some((q * 1000.0) as u16)
}

/// Whether the NIP-11 document is wanted (G01-23): it is named, and a page is not
/// preferred to it.
pub(crate) fn wants_relay_document(headers: &HeaderMap) -> bool {
    let document = quality(headers, "application/nostr+json").unwrap_or(0);
    document > 0 && document >= quality(headers, "text/html").unwrap_or(0)
}

/// Whether a program asks for JSON by its name.
pub(crate) fn wants_json(headers: &HeaderMap) -> bool {
    quality(headers, "application/json").is_some_and(|q| q > 0)
}

/// Whether a program asks for this very form, and not rather for JSON.
pub(crate) fn wants(headers: &HeaderMap, media_type: &str) -> bool {
    let wanted = quality(headers, media_type).unwrap_or(0);
    wanted > 0 && wanted >= quality(headers, "application/json").unwrap_or(0)
}

/// Whether the client names gzip and does not refuse it in the same breath.
pub(crate) fn wants_gzip(headers: &HeaderMap) -> bool {
    quality_in(headers, header::ACCEPT_ENCODING, "gzip").is_some_and(|q| q > 0)
}

/// Whether a person with a browser reads the answer.
pub(crate) fn wants_page(headers: &HeaderMap) -> bool {
    quality(headers, "text/html").is_some_and(|q| q > 0)
        || quality(headers, "application/xhtml+xml").is_some_and(|q| q > 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing;

    fn accept(values: &[&str]) -> HeaderMap {
        testing::header("accept", values)
    }

    #[test]
    fn g01_23_the_document_is_asked_for_alone_or_in_a_list() {
        for values in [
            &["application/nostr+json"][..],
            &["Application/Nostr+JSON"],
            &["text/html;q=0.5, application/nostr+json"],
            &["application/json", "application/nostr+json;q=0.1"],
            &["application/nostr+json;charset=utf-8;q=0.9,*/*;q=0.1"],
            &["application/nostr+json ; Q=1, text/html"],
            &["application/nostr+json;q=nonsense"],
        ] {
            assert!(wants_relay_document(&accept(values)), "{values:?}");
        }
    }

    #[test]
    fn g01_25_other_clients_get_the_page() {
        for values in [
            &[][..],
            &["*/*"],
            &["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"],
            &["application/nostr+json;q=0"],
            &["application/nostr+json;q=0.2, text/html"],
            &["application/nostr"],
            &["application/*"],
        ] {
            assert!(!wants_relay_document(&accept(values)), "{values:?}");
        }
    }

    #[test]
    fn browsers_are_known_by_html() {
        let browser = ["text/html,application/xhtml+xml;q=0.9"];
        assert!(wants_page(&accept(&browser)));
        assert!(!wants_page(&accept(&["*/*"])));
        assert!(!wants_page(&accept(&["text/html;q=0"])));
    }

    #[test]
    fn gzip_is_sent_only_to_those_who_name_it() {
        let wanted = |value: &str| wants_gzip(&testing::header("accept-encoding", &[value]));
        for value in [
            "gzip",
            "deflate, GZIP;q=0.5",
            "br;q=1.0, gzip;q=0.8, *;q=0.1",
        ] {
            assert!(wanted(value), "{value}");
        }
        for value in [
            "",
            "identity",
            "br",
            "gzip;q=0",
            "gzip; q=0.000",
            "x-gzip",
            "*",
        ] {
            assert!(!wanted(value), "{value}");
        }
        assert!(!wants_gzip(&HeaderMap::new()));
    }

    proptest! {
        #[test]
        fn any_header_is_read_without_panic(value in "[ -~]{0,80}") {
            let headers = accept(&[&value]);
            let _ = (wants_relay_document(&headers), wants_page(&headers));
        }
    }
}
