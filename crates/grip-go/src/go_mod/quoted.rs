//! Strings in quotes, as Go writes them.

use std::{borrow::Cow, str::Chars};

/// The text inside the quotes of a whole word; the word itself if it has none.
///
/// None if the quotes are not those of one Go string.
pub(super) fn unquote(word: &str) -> Option<Cow<'_, str>> {
    if let Some(rest) = word.strip_prefix('`') {
        let inside = rest.strip_suffix('`')?;
        return (!inside.contains('`')).then_some(Cow::Borrowed(inside));
    }
    if let Some(rest) = word.strip_prefix('"') {
        return interpret(rest).map(Cow::Owned);
    }
    (!word.contains(['"', '\'', '`'])).then_some(Cow::Borrowed(word))
}

/// Reads up to the closing quote, which must be the end.
fn interpret(text: &str) -> Option<String> {
    let mut inside = String::new();
    let mut rest = text.chars();
    loop {
        match rest.next()? {
            '"' => return rest.next().is_none().then_some(inside),
            '\\' => inside.push(escaped(&mut rest)?),
            c => inside.push(c),
        }
    }
}

/// Reads what follows a backslash. Escapes for single bytes count only where they are characters.
fn escaped(rest: &mut Chars<'_>) -> Option<char> {
    let kind = rest.next()?;
    let code = match kind {
        'a' => 0x07,
        'b' => 0x08,
        'f' => 0x0C,
        'n' => 0x0A,
        'r' => 0x0D,
        't' => 0x09,
        'v' => 0x0B,
        '\\' | '"' => u32::from(kind),
        'x' => number(rest, 0, 2, 16).filter(|&code| code < 0x80)?,
        'u' => number(rest, 0, 4, 16)?,
        'U' => number(rest, 0, 8, 16)?,
        '0'..='7' => number(rest, kind.to_digit(8)?, 2, 8).filter(|&code| code < 0x80)?,
        _ => return None,
    };
    char::from_u32(code)
}

/// Reads as many digits behind those read before.
fn number(rest: &mut Chars<'_>, before: u32, digits: usize, radix: u32) -> Option<u32> {
    (0..digits).try_fold(before, |sum, _| {
        let digit = rest.next()?.to_digit(radix)?;
        sum.checked_mul(radix)?.checked_add(digit)
    })
}
