//! gzip, for clients that accept it.

use std::io::Write as _;

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, header};

/// Says whether the client names gzip and does not refuse it in the same breath.
pub(super) fn is_wanted(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|coding| {
            let mut parts = coding.split(';').map(str::trim);
            let is_gzip = parts.next().is_some_and(|c| c.eq_ignore_ascii_case("gzip"));
            is_gzip && !parts.any(is_zero)
        })
}

/// `q=0`, with any number of zeros behind the point.
fn is_zero(parameter: &str) -> bool {
    let Some((name, value)) = parameter.split_once('=') else {
        return false;
    };
    let quality: Result<f32, _> = value.trim().parse();
    name.trim().eq_ignore_ascii_case("q") && quality == Ok(0.0)
}

/// Compresses fast rather than small: lines of JSON shrink to a tenth either way.
pub(super) fn compress(lines: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(lines.len() / 8), Compression::fast());
    let compressed = encoder.write_all(lines).and_then(|()| encoder.finish());
    compressed.expect("because memory takes all bytes").into()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;
    use http::HeaderValue;

    use super::*;

    fn wanted(value: &str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(
            header::ACCEPT_ENCODING,
            HeaderValue::from_str(value).unwrap(),
        );
        is_wanted(&headers)
    }

    #[test]
    fn gzip_is_sent_only_to_those_who_name_it() {
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
        assert!(!is_wanted(&HeaderMap::new()));
    }

    #[test]
    fn compressed_lines_are_read_again() {
        let lines = b"{\"Path\":\"a.example\"}\n".repeat(2000);
        let compressed = compress(&lines);
        assert!(compressed.len() * 10 < lines.len(), "{}", compressed.len());
        let mut plain = Vec::new();
        GzDecoder::new(&compressed[..])
            .read_to_end(&mut plain)
            .unwrap();
        assert_eq!(plain, lines);
    }
}
