//! Unicode properties as Go uses them: letters, and simple case folding.

mod tables;

use tables::{FOLDS, LETTERS};

/// Whether this is a letter to Go (general category L).
pub(crate) fn is_letter(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphabetic();
    }
    // The runs alternate between first and last: an odd place is inside a run.
    let at = LETTERS.partition_point(|&bound| bound < c as u32);
    at % 2 == 1 || LETTERS.get(at) == Some(&(c as u32))
}

/// One character for all that differ from this one only in case, by Unicode's simple folding.
pub(crate) fn fold(c: char) -> char {
    if c.is_ascii() {
        return c.to_ascii_lowercase();
    }
    let code = c as i32;
    let at = FOLDS.partition_point(|&[_, last, _, _]| last < code);
    let Some(&[first, _, step, distance]) = FOLDS.get(at) else {
        return c;
    };
    if code < first || (code - first) % step != 0 {
        return c;
    }
    u32::try_from(code + distance)
        .ok()
        .and_then(char::from_u32)
        .unwrap_or(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = char> {
        '\0'..=char::MAX
    }

    /// Both figures were counted by Go 1.19's unicode package.
    #[test]
    fn the_letters_are_those_of_go() {
        let letters = || all().filter(|&c| !c.is_ascii() && is_letter(c));
        assert_eq!(letters().count(), 131_189);
        assert_eq!(letters().map(u64::from).sum::<u64>(), 13_862_355_907);
        for (c, letter) in [
            ('a', true),
            ('Z', true),
            ('0', false),
            ('_', false),
            ('ª', true),
            ('«', false),
            ('é', true),
            ('\u{301}', false),
            ('Ⅷ', false),
            ('ⓐ', false),
            ('文', true),
            ('٣', false),
            ('\u{2FA1D}', true),
            ('😀', false),
            (char::MAX, false),
        ] {
            assert_eq!(is_letter(c), letter, "{c:?}");
        }
    }

    /// The figure was counted by Go 1.19 with the folding of golang.org/x/mod/zip; the surrogates,
    /// which are no characters in Rust, fold to themselves there.
    #[test]
    fn the_folding_is_that_of_go() {
        let weight = |code: u64| code % 7 + 1;
        let surrogates: u64 = (0xD800..=0xDFFF).map(|code| code * weight(code)).sum();
        let rest: u64 = all().map(|c| u64::from(fold(c)) * weight(c.into())).sum();
        assert_eq!(rest + surrogates, 2_482_472_228_701);
        for (a, b) in [
            ('K', '\u{212A}'),
            ('s', 'ſ'),
            ('Å', 'å'),
            ('Σ', 'ς'),
            ('ß', 'ẞ'),
        ] {
            assert_eq!(fold(a), fold(b), "{a:?} {b:?}");
        }
        assert_ne!(fold('İ'), fold('i'));
    }

    #[test]
    fn folding_twice_changes_nothing_more() {
        for c in all() {
            assert_eq!(fold(fold(c)), fold(c), "{c:?}");
        }
    }
}
