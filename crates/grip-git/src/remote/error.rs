//! Errors of a remote server, in terms the caller can act on.

use std::io;

use grip_types::Oid;

use crate::report;

/// Why an answer brought nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// One wanted object is missing there, or not for us; git names the first it comes upon.
    #[error("the server does not have object {0}")]
    NotOurRef(Oid),
    #[error("the server refused: {0}")]
    Refused(String),
    /// A web page, the listing of a server that only hands out files, or nothing.
    #[error("the answer is not of the git protocol")]
    NotSmart,
    /// The server is sound but did not understand: an older version may do.
    #[error("the server does not speak this version of the git protocol")]
    UnsupportedVersion,
    #[error("the answer breaks the rules of the git protocol")]
    Malformed,
    #[error("the server has more refs than are read")]
    TooManyRefs,
    /// Bounds were reached before anything that was asked for had come.
    #[error("the server talks on without sending what was asked for")]
    Endless,
    #[error("the answer ended too early")]
    Truncated,
    #[error("the connection broke while the answer was read")]
    Io(#[source] io::Error),
}

impl RemoteError {
    /// The error inside one that [`Pack`] gave as a stream.
    ///
    /// [`Pack`]: super::Pack
    pub fn inside(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

impl From<RemoteError> for io::Error {
    fn from(error: RemoteError) -> Self {
        match error {
            RemoteError::Io(source) => source,
            RemoteError::Truncated => Self::new(io::ErrorKind::UnexpectedEof, error),
            other => Self::new(io::ErrorKind::InvalidData, other),
        }
    }
}

/// Signs of a server that took the lines of version 2 for those of an older one.
const NOT_UNDERSTOOD: &[&str] = &[
    "command=fetch",
    "command=ls-refs",
    "expected to get object ID",
    "expected to get sha",
    "expected to get oid",
    "expected want",
];

/// Reads what a server says before it gives up.
pub(super) fn refusal(text: &[u8]) -> RemoteError {
    let text = String::from_utf8_lossy(text);
    if let Some(oid) = missing_object(&text) {
        return RemoteError::NotOurRef(oid);
    }
    if NOT_UNDERSTOOD.iter().any(|sign| text.contains(sign)) {
        return RemoteError::UnsupportedVersion;
    }
    RemoteError::Refused(report::one_line(&text))
}

/// The object that git (`not our ref <id>`) or jgit (`want <id> not valid`) misses.
fn missing_object(text: &str) -> Option<Oid> {
    let named_after = |start: &str| {
        let (_, rest) = text.split_once(start)?;
        let id = rest.split(|c: char| !c.is_ascii_hexdigit()).next()?;
        let oid = Oid::from_hex(id.to_ascii_lowercase().as_bytes()).ok()?;
        Some((oid, &rest[id.len()..]))
    };
    let by_jgit = || named_after("want ").filter(|(_, rest)| rest.starts_with(" not valid"));
    let named = named_after("not our ref ").or_else(by_jgit);
    named.map(|(oid, _)| oid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_object_is_read_from_every_spelling() {
        let id = "0123456789abcdef0123456789abcdef01234567";
        for text in [
            format!("upload-pack: not our ref {id}"),
            format!("upload-pack: not our ref {id}\n"),
            format!("git upload-pack: not our ref {id}"),
            format!("fatal: remote error: upload-pack: not our ref {id}."),
            format!("upload-pack: not our ref {}", id.to_uppercase()),
            format!("want {id} not valid"),
        ] {
            match refusal(text.as_bytes()) {
                RemoteError::NotOurRef(oid) => assert_eq!(oid.to_hex(), id),
                other => panic!("{text}: {other}"),
            }
        }
        let long = "ab".repeat(32);
        let refused = refusal(format!("upload-pack: not our ref {long}").as_bytes());
        assert!(matches!(refused, RemoteError::NotOurRef(oid) if oid.to_hex() == long));
    }

    #[test]
    fn other_words_are_kept_as_one_short_line() {
        for text in [
            "upload-pack: not our ref xyz",
            "upload-pack: not our ref ",
            "want more",
            "Repository not found.\n\x1b[31m",
            &"x".repeat(65_000),
        ] {
            match refusal(text.as_bytes()) {
                RemoteError::Refused(said) => {
                    assert!(
                        said.len() < 1000 && !said.contains(['\n', '\x1b']),
                        "{said}"
                    );
                }
                other => panic!("{text}: {other}"),
            }
        }
    }

    #[test]
    fn a_server_that_did_not_understand_is_told_apart() {
        let text =
            b"git upload-pack: protocol error, expected to get object ID, not 'command=fetch'";
        assert!(matches!(refusal(text), RemoteError::UnsupportedVersion));
    }
}
