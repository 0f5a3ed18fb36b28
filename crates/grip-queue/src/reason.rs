//! Failure reasons, cleaned before they are stored.

/// Characters kept of a reason.
pub(crate) const REASON_CHARS: usize = 1_000;

/// A reason as it is kept: one line, no control characters, no more than [`REASON_CHARS`].
pub(crate) fn cleaned(text: &str) -> String {
    let shown = |c: char| if is_hidden(c) { ' ' } else { c };
    let mut kept: String = text.trim().chars().take(REASON_CHARS).map(shown).collect();
    if text.trim().chars().nth(REASON_CHARS).is_some() {
        kept.pop();
        kept.push('…');
    }
    kept
}

/// Control characters, and those that turn the direction of a line around.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_keeps_no_control_characters() {
        assert_eq!(cleaned("a\0b\nc\u{1b}[31m\u{202e}d"), "a b c [31m d");
    }

    #[test]
    fn a_long_reason_is_cut_at_a_character_and_says_so() {
        let kept = cleaned(&"é".repeat(5_000));
        assert_eq!(kept.chars().count(), REASON_CHARS);
        assert!(kept.ends_with("é…"), "{kept}");
        let whole = "x".repeat(REASON_CHARS);
        assert_eq!(cleaned(&whole), whole);
    }
}
