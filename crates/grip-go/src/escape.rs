//! Go's escaped form: capital letters as `!` and the small letter, so that names which differ only
//! in case stay apart on every file system.

/// Writes `!x` for each `X`. The text is ASCII without `!`.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_uppercase() {
            escaped.push('!');
        }
        escaped.push(c.to_ascii_lowercase());
    }
    escaped
}

/// Reads the escaped form, or names the character that cannot stand where it does.
pub(crate) fn unescape(escaped: &str) -> Result<String, char> {
    let mut text = String::with_capacity(escaped.len());
    let mut characters = escaped.chars();
    while let Some(c) = characters.next() {
        match c {
            '!' => match characters.next() {
                Some(letter @ 'a'..='z') => text.push(letter.to_ascii_uppercase()),
                other => return Err(other.unwrap_or('!')),
            },
            'A'..='Z' => return Err(c),
            _ if !c.is_ascii() => return Err(c),
            _ => text.push(c),
        }
    }
    Ok(text)
}
