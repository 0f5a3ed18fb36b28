//! Events as clients send them: parsed strictly, then checked before any policy is asked.

mod check;
mod parse;

pub(crate) use check::{Checked, check, unreadable};

/// Says whether `text` is written as an event id: 64 hex digits in lower case.
pub(crate) fn is_id(text: &str) -> bool {
    let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == 64 && text.bytes().all(digit)
}
