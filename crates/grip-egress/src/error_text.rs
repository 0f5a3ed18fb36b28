//! Plain text of refusals, made safe to print.

use http::{HeaderMap, header::CONTENT_TYPE};

/// Characters of a host's text that are kept.
const MAX_CHARS: usize = 300;

/// The host's text as one line that is safe to print; empty where they are not plain text.
pub(crate) fn plain(headers: &HeaderMap, body: &[u8]) -> String {
    if !is_plain(headers, body) {
        return String::new();
    }
    let text = String::from_utf8_lossy(body);
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    let line = words.join(" ");
    line.chars()
        .filter(|c| is_printable(*c))
        .take(MAX_CHARS)
        .collect()
}

fn is_plain(headers: &HeaderMap, body: &[u8]) -> bool {
    match headers.get(CONTENT_TYPE).map(|value| value.to_str()) {
        Some(Ok(value)) => value
            .split(';')
            .next()
            .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/plain")),
        Some(Err(_)) => false,
        // Without a type: anything but a page or data.
        None => std::str::from_utf8(body).is_ok_and(|text| !text.trim_start().starts_with('<')),
    }
}

/// Leaves out what is not seen but changes how the rest is shown.
fn is_printable(c: char) -> bool {
    !matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffd}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(kind: Option<&str>, body: &[u8]) -> String {
        let mut headers = HeaderMap::new();
        if let Some(kind) = kind {
            headers.insert(CONTENT_TYPE, kind.parse().unwrap());
        }
        plain(&headers, body)
    }

    #[test]
    fn words_become_one_printable_line() {
        let body = b"Repository\r\n not\x1b[31m found\0\x07\t\xff!\n";
        assert_eq!(
            text(Some("text/plain; charset=utf-8"), body),
            "Repository not [31m found !"
        );
        let sneaky = "safe\u{202e}elif\u{2066} \u{200b}end\u{feff}";
        assert_eq!(text(Some("Text/Plain"), sneaky.as_bytes()), "safeelif end");
    }

    #[test]
    fn long_words_are_cut() {
        let body = "ü".repeat(1000);
        assert_eq!(
            text(Some("text/plain"), body.as_bytes()).chars().count(),
            300
        );
    }

    #[test]
    fn pages_and_data_are_not_repeated() {
        assert_eq!(text(Some("text/html"), b"<b>no</b>"), "");
        assert_eq!(text(Some("application/octet-stream"), b"no"), "");
        assert_eq!(text(None, b" <!doctype html>"), "");
        assert_eq!(text(None, b"\xff\x00"), "");
        assert_eq!(text(None, b"gone"), "gone");
    }
}
