//! JSON from outside: lenient about what is not used, strict about what is.

use serde::{Deserialize, de::DeserializeOwned};

use crate::error::GitHubError;

/// Characters of foreign words that are kept.
const MAX_CHARS: usize = 200;

/// Reads a whole answer.
pub(crate) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, GitHubError> {
    let problem = match serde_json::from_slice(body) {
        Ok(value) => return Ok(value),
        Err(problem) => problem,
    };
    let what = if body.trim_ascii_start().starts_with(b"<") {
        "a web page instead of JSON".to_owned()
    } else if problem.is_eof() {
        "JSON that ends too early".to_owned()
    } else {
        format!(
            "JSON that does not fit ({})",
            printable(&problem.to_string())
        )
    };
    Err(GitHubError::malformed(what))
}

/// The message of a refusal as one line that is safe to print; often empty.
pub(crate) fn message(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Refusal {
        message: String,
    }
    let refusal = serde_json::from_slice::<Refusal>(body);
    refusal.map_or_else(|_| String::new(), |refusal| printable(&refusal.message))
}

/// One line of bounded length without control characters.
pub(crate) fn printable(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    let line = words.join(" ");
    let shown = line
        .chars()
        .filter(|c| c.is_ascii_graphic() || c.is_alphanumeric() || *c == ' ');
    shown.take(MAX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn what(body: &str) -> String {
        match read::<Vec<u32>>(body.as_bytes()) {
            Err(GitHubError::Malformed { what }) => what,
            other => panic!("{body}: {other:?}"),
        }
    }

    #[test]
    fn what_is_no_json_is_named_for_what_it_is() {
        assert_eq!(what(" <!doctype html>"), "a web page instead of JSON");
        assert_eq!(what("[1, 2"), "JSON that ends too early");
        assert_eq!(what(""), "JSON that ends too early");
        assert!(what("[\"\u{202e}a\\nb\"]").starts_with("JSON that does not fit"));
        assert!(what(&format!("[\"{}\"]", "x".repeat(9_000))).len() < 300);
        assert!(what(&"[".repeat(100_000)).contains("does not fit"));
    }

    #[test]
    fn messages_are_one_printable_line() {
        let body = r#"{"message":"Not\u001b[31m\n Found\u202e","documentation_url":"x"}"#;
        assert_eq!(message(body.as_bytes()), "Not [31m Found");
        assert_eq!(message(b"<html>"), "");
        assert_eq!(message(br#"{"message":7}"#), "");
    }
}
