//! The rules for one element of a path, between two slashes.

use crate::unicode;

/// What a path names, and so which characters it may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Module,
    File,
}

/// What is wrong with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Flaw {
    #[error("it is empty")]
    Empty,
    #[error("it is longer than {max} bytes")]
    TooLong { max: usize },
    #[error("it is not UTF-8")]
    NotUtf8,
    #[error("it has an empty element: a slash at the start, at the end, or two in a row")]
    EmptyElement,
    #[error("an element of it is only dots")]
    OnlyDots,
    #[error("an element of it starts with a dot")]
    LeadingDot,
    #[error("an element of it ends with a dot")]
    TrailingDot,
    #[error("it starts with a dash")]
    LeadingDash,
    #[error("the character {0:?} is not allowed in it")]
    Character(char),
    #[error("an element of it is a reserved file name on Windows")]
    WindowsName,
    #[error("an element of it ends with a tilde and digits, like a short file name on Windows")]
    ShortName,
    #[error("its first element has no dot, so it is no domain")]
    NoDomain,
    #[error("the character {0:?} is not allowed in its first element, which is a domain")]
    DomainCharacter(char),
    #[error(
        "its last element is no major version that Go allows, such as /v2 (or .v1 on gopkg.in)"
    )]
    Major,
}

/// Checks every element of a path, and so that none is empty.
pub(crate) fn check_all(path: &str, kind: Kind) -> Result<(), Flaw> {
    if path.is_empty() {
        return Err(Flaw::Empty);
    }
    path.split('/').try_for_each(|element| check(element, kind))
}

fn check(element: &str, kind: Kind) -> Result<(), Flaw> {
    if element.is_empty() {
        return Err(Flaw::EmptyElement);
    }
    if element.bytes().all(|byte| byte == b'.') {
        return Err(Flaw::OnlyDots);
    }
    if kind == Kind::Module && element.starts_with('.') {
        return Err(Flaw::LeadingDot);
    }
    if element.ends_with('.') {
        return Err(Flaw::TrailingDot);
    }
    let allowed = match kind {
        Kind::Module => in_module_path,
        Kind::File => in_file_name,
    };
    if let Some(bad) = element.chars().find(|&c| !allowed(c)) {
        return Err(Flaw::Character(bad));
    }
    let stem = element.split('.').next().unwrap_or_default();
    if is_windows_name(stem) {
        return Err(Flaw::WindowsName);
    }
    if kind == Kind::Module && is_short_name(stem) {
        return Err(Flaw::ShortName);
    }
    Ok(())
}

fn in_module_path(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-._~".contains(c)
}

fn in_file_name(c: char) -> bool {
    if c.is_ascii() {
        c.is_ascii_alphanumeric() || "!#$%&()+,-.=@[]^_{}~ ".contains(c)
    } else {
        unicode::is_letter(c)
    }
}

/// CON, PRN, AUX, NUL, COM1 to COM9 and LPT1 to LPT9, in any case.
fn is_windows_name(stem: &str) -> bool {
    let is_one_of =
        |names: &[&str], text: &str| names.iter().any(|name| name.eq_ignore_ascii_case(text));
    match stem.as_bytes() {
        [_, _, _] => is_one_of(&["con", "prn", "aux", "nul"], stem),
        [_, _, _, b'1'..=b'9'] => is_one_of(&["com", "lpt"], &stem[..stem.len() - 1]),
        _ => false,
    }
}

fn is_short_name(stem: &str) -> bool {
    stem.rsplit_once('~').is_some_and(|(_, digits)| {
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}
