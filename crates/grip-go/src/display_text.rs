//! Texts from outside in our sentences.

use std::fmt;

/// Characters of a foreign text that a sentence repeats.
const MAX_CHARS: usize = 100;

/// The beginning of a foreign text, quoted, with nothing in it that a terminal or a log could obey.
#[derive(Clone, PartialEq, Eq)]
pub struct Shown(String);

/// Quotes a text of any length.
pub(crate) fn shown(text: &[u8]) -> Shown {
    let head = &text[..text.len().min(4 * MAX_CHARS)];
    let head = String::from_utf8_lossy(head);
    let short: String = head.chars().take(MAX_CHARS).collect();
    let more = if short.len() < text.len() { "…" } else { "" };
    Shown(format!("{short:?}{more}"))
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
