//! Repository identifiers: the `d` value of an announcement.

use std::{fmt, sync::Arc};

/// Longest percent-encoded form: a file name is 255 bytes and `.git` takes four.
const MAX_ENCODED_LEN: usize = 251;

/// A repository identifier that is safe to use in a URL path and, encoded, as a file name.
///
/// Any UTF-8 is allowed but path separators, control characters, and the names `.` and `..`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identifier(Arc<str>);

/// Why a text cannot identify a repository here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidIdentifier {
    #[error("the identifier (`d` tag) is empty")]
    Empty,
    #[error("the identifier is `.` or `..`")]
    Dots,
    #[error("the identifier contains a slash, a backslash or a control character")]
    Forbidden,
    #[error("the identifier is longer than 251 bytes when percent-encoded")]
    TooLong,
    #[error("the path segment is not percent-encoded UTF-8")]
    Encoding,
}

impl Identifier {
    pub fn parse(text: &str) -> Result<Self, InvalidIdentifier> {
        match text {
            "" => return Err(InvalidIdentifier::Empty),
            "." | ".." => return Err(InvalidIdentifier::Dots),
            _ => {}
        }
        if text
            .chars()
            .any(|c| c == '/' || c == '\\' || c.is_control())
        {
            return Err(InvalidIdentifier::Forbidden);
        }
        if encoded_len(text) > MAX_ENCODED_LEN {
            return Err(InvalidIdentifier::TooLong);
        }
        Ok(Self(text.into()))
    }

    /// Reads one URL path segment, decoding percent escapes exactly once.
    ///
    /// `+` stays a plus sign and `%2e` is a dot.
    pub fn from_encoded(segment: &str) -> Result<Self, InvalidIdentifier> {
        let text = percent_decode(segment).and_then(|bytes| String::from_utf8(bytes).ok());
        Self::parse(&text.ok_or(InvalidIdentifier::Encoding)?)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Percent-encodes every byte that RFC 3986 does not call unreserved.
    pub fn encoded(&self) -> String {
        percent_encode(&self.0)
    }
}

/// Percent-encodes every byte that RFC 3986 does not call unreserved.
pub fn percent_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if is_unreserved(byte) {
            out.push(byte as char);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

fn encoded_len(text: &str) -> usize {
    text.bytes()
        .map(|b| if is_unreserved(b) { 1 } else { 3 })
        .sum()
}

/// Undoes percent escapes, once; `None` where a percent sign begins no escape. `+` stays a plus.
pub fn percent_decode(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let high = char::from(bytes.next()?).to_digit(16)?;
            let low = char::from(bytes.next()?).to_digit(16)?;
            out.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            out.push(byte);
        }
    }
    Some(out)
}

text_form!(Identifier, InvalidIdentifier);

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identifier({:?})", &*self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_would_leave_the_directory_are_refused() {
        for bad in ["", ".", "..", "a/b", "a\\b", "a\0b", "a\nb", "\u{7f}"] {
            assert!(Identifier::parse(bad).is_err(), "{bad:?}");
        }
        for bad in [
            "%2e%2e", "%2E", "a%2fb", "a%2Fb", "a%5cb", "a%00", "%", "%zz", "%c3", "%4",
        ] {
            assert!(Identifier::from_encoded(bad).is_err(), "{bad:?}");
        }
        assert_eq!(
            Identifier::parse(&"é".repeat(42)),
            Err(InvalidIdentifier::TooLong)
        );
    }

    #[test]
    fn escapes_are_decoded_once_in_either_case() {
        assert_eq!(
            Identifier::from_encoded("na%C3%AFve%20repo")
                .unwrap()
                .as_str(),
            "naïve repo"
        );
        assert_eq!(
            Identifier::from_encoded("na%c3%afve%20repo")
                .unwrap()
                .as_str(),
            "naïve repo"
        );
        assert_eq!(Identifier::from_encoded("%2525").unwrap().as_str(), "%25");
        assert_eq!(Identifier::from_encoded("a+b").unwrap().as_str(), "a+b");
        assert_eq!(
            Identifier::parse("naïve repo").unwrap().encoded(),
            "na%C3%AFve%20repo"
        );
    }

    proptest! {
        #[test]
        fn encoding_round_trips_and_is_a_plain_file_name(text in "\\PC{1,60}") {
            if let Ok(identifier) = Identifier::parse(&text) {
                let encoded = identifier.encoded();
                prop_assert_eq!(Identifier::from_encoded(&encoded).unwrap(), identifier);
                prop_assert!(encoded.is_ascii() && !encoded.contains('/') && encoded.len() <= 251);
            }
        }

        #[test]
        fn any_segment_is_decoded_or_refused(segment in "[%0-9a-fA-F./+]{0,40}") {
            if let Ok(identifier) = Identifier::from_encoded(&segment) {
                prop_assert!(!identifier.as_str().contains('/'));
            }
        }
    }
}
