//! Requests to `git-upload-pack`: their protocol version, and the head of a version 2 command.
//!
//! `ls-refs` is read whole and answered in process; of `fetch` only the command is read, the bytes
//! go on to git as they came. Bounds: [`MAX_HEAD_BYTES`] per request, of which no more is kept than
//! [`MAX_PREFIXES`] prefixes of [`MAX_PREFIX_BYTES`] together; beyond, all refs are listed, as git does.
//! Prefixes are a hint, and to look each of them up costs more than a longer list.

use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use grip_types::ObjectFormat;
use tokio::io::AsyncRead;

use crate::{
    pktline::{self, Packet},
    report,
    request_head::{self, Feed},
};

pub const MAX_HEAD_BYTES: usize = 4 << 20;
pub const MAX_PREFIXES: usize = 4_096;
pub const MAX_PREFIX_BYTES: usize = 256 << 10;

/// The version of the wire protocol that a request speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Protocol {
    #[default]
    V0,
    V1,
    V2,
}

impl Protocol {
    /// Reads the `Git-Protocol` header: the highest version we know wins, other keys are ignored.
    pub fn from_header(value: Option<&str>) -> Self {
        let versions = value.unwrap_or("").split(':').filter_map(|entry| {
            match entry.trim().strip_prefix("version=")? {
                "2" => Some(Self::V2),
                "1" => Some(Self::V1),
                _ => None,
            }
        });
        versions
            .max_by_key(|version| *version as u8)
            .unwrap_or_default()
    }

    /// What git is told in `GIT_PROTOCOL`; never the client's own text.
    pub(crate) fn environment(self) -> Option<&'static str> {
        match self {
            Self::V0 => None,
            Self::V1 => Some("version=1"),
            Self::V2 => Some("version=2"),
        }
    }
}

/// Which of the two services a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GitService {
    UploadPack,
    ReceivePack,
}

impl GitService {
    /// Reads the `service` parameter.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "git-upload-pack" => Some(Self::UploadPack),
            "git-receive-pack" => Some(Self::ReceivePack),
            _ => None,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::UploadPack => "git-upload-pack",
            Self::ReceivePack => "git-receive-pack",
        }
    }
}

/// The arguments of `ls-refs`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LsRefs {
    pub peel: bool,
    pub symrefs: bool,
    pub unborn: bool,
    /// Empty means all refs.
    pub prefixes: Vec<Vec<u8>>,
}

/// A version 2 request to `git-upload-pack`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A flush and nothing else: an empty answer is right.
    Nothing,
    LsRefs(LsRefs),
    /// The bytes read so far, from the first on: to be sent on before the rest of the body.
    Fetch(Bytes),
}

/// Why a version 2 request is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    #[error(transparent)]
    Framing(#[from] pktline::Malformed),
    #[error("the request ended too early")]
    Truncated,
    #[error("the request names no command")]
    NoCommand,
    #[error("the command {0:?} is not known here")]
    UnknownCommand(String),
    #[error("the repository uses sha1 object ids, the request another object format")]
    ObjectFormat,
    #[error("the request is larger than 4 MiB")]
    TooLong,
}

impl FetchError {
    /// The answer that shows the reason to the person.
    pub fn reply(&self) -> Bytes {
        pktline::error(&report::one_line(&self.to_string()))
    }
}

/// Why no head could be read from a stream.
pub type ReadError = request_head::ReadError<FetchError>;

/// Reads the head of a version 2 request.
pub async fn read<R>(reader: &mut R, stall: Duration) -> Result<Request, ReadError>
where
    R: AsyncRead + Unpin,
{
    let mut parser = Parser::default();
    request_head::feed(reader, stall, 8 << 10, |bytes| parser.feed(bytes)).await?;
    parser.finish().map_err(ReadError::Refused)
}

/// Reads a request from pieces of any size.
#[derive(Debug, Default)]
pub struct Parser {
    seen: BytesMut,
    /// How far `seen` is understood.
    at: usize,
    /// Bytes understood before those of `seen`.
    forgotten: usize,
    stage: Stage,
    is_ls_refs: bool,
    request: LsRefs,
    prefix_bytes: usize,
    lists_all: bool,
}

#[derive(Debug, Default, PartialEq)]
enum Stage {
    #[default]
    Capabilities,
    Arguments,
    Over(Outcome),
}

#[derive(Debug, PartialEq)]
enum Outcome {
    Nothing,
    LsRefs,
    Fetch,
    Refused(FetchError),
}

impl Parser {
    pub fn feed(&mut self, input: &[u8]) -> Feed {
        self.seen.extend_from_slice(input);
        while !matches!(self.stage, Stage::Over(_)) {
            let seen = std::mem::take(&mut self.seen);
            let decoded = pktline::decode(&seen[self.at..]);
            let outcome = match decoded {
                Ok(None) if self.is_too_long() => Err(FetchError::TooLong),
                Ok(None) => {
                    self.seen = seen;
                    self.forget();
                    return Feed::More;
                }
                Ok(Some((packet, len))) => {
                    self.at += len;
                    self.packet(packet)
                }
                Err(malformed) => Err(malformed.into()),
            };
            self.seen = seen;
            if let Err(refused) = outcome {
                self.stage = Stage::Over(Outcome::Refused(refused));
            }
        }
        Feed::Complete
    }

    /// Ends the reading; before [`Feed::Complete`] the request counts as cut short.
    pub fn finish(self) -> Result<Request, FetchError> {
        match self.stage {
            Stage::Over(Outcome::Nothing) => Ok(Request::Nothing),
            Stage::Over(Outcome::LsRefs) => Ok(Request::LsRefs(self.request)),
            Stage::Over(Outcome::Fetch) => Ok(Request::Fetch(self.seen.freeze())),
            Stage::Over(Outcome::Refused(refused)) => Err(refused),
            Stage::Capabilities | Stage::Arguments => Err(FetchError::Truncated),
        }
    }

    fn is_too_long(&self) -> bool {
        self.forgotten + self.at > MAX_HEAD_BYTES
    }

    /// Forgets arguments that are understood: nothing of them goes on to git.
    fn forget(&mut self) {
        if self.stage == Stage::Arguments {
            self.seen.advance(self.at);
            self.forgotten += self.at;
            self.at = 0;
        }
    }

    fn packet(&mut self, packet: Packet<'_>) -> Result<(), FetchError> {
        if self.is_too_long() {
            return Err(FetchError::TooLong);
        }
        match (&self.stage, packet) {
            (Stage::Capabilities, Packet::Data(line)) => {
                self.capability(pktline::strip_lf(line))?;
            }
            (Stage::Capabilities, Packet::Delim) if self.is_ls_refs => {
                self.stage = Stage::Arguments;
            }
            (Stage::Capabilities, Packet::Flush) if self.at == 4 => {
                self.stage = Stage::Over(Outcome::Nothing);
            }
            (Stage::Capabilities, Packet::Delim | Packet::Flush) if !self.is_ls_refs => {
                return Err(FetchError::NoCommand);
            }
            (Stage::Arguments, Packet::Data(line)) => self.argument(pktline::strip_lf(line)),
            (_, Packet::Flush) => self.stage = Stage::Over(Outcome::LsRefs),
            _ => return Err(pktline::Malformed.into()),
        }
        Ok(())
    }

    fn capability(&mut self, line: &[u8]) -> Result<(), FetchError> {
        let format = line.strip_prefix(b"object-format=");
        if format.is_some_and(|format| format != ObjectFormat::Sha1.name().as_bytes()) {
            return Err(FetchError::ObjectFormat);
        }
        match line.strip_prefix(b"command=") {
            Some(b"ls-refs") => self.is_ls_refs = true,
            Some(b"fetch") => self.stage = Stage::Over(Outcome::Fetch),
            Some(other) => {
                let name = String::from_utf8_lossy(other).chars().take(40).collect();
                return Err(FetchError::UnknownCommand(name));
            }
            None => {}
        }
        Ok(())
    }

    fn argument(&mut self, line: &[u8]) {
        match line {
            b"peel" => self.request.peel = true,
            b"symrefs" => self.request.symrefs = true,
            b"unborn" => self.request.unborn = true,
            _ => {
                if let Some(prefix) = line.strip_prefix(b"ref-prefix ") {
                    self.prefix(prefix);
                }
            }
        }
    }

    fn prefix(&mut self, prefix: &[u8]) {
        let prefixes = &mut self.request.prefixes;
        self.prefix_bytes += prefix.len();
        self.lists_all |= prefixes.len() >= MAX_PREFIXES || self.prefix_bytes > MAX_PREFIX_BYTES;
        if self.lists_all {
            *prefixes = Vec::new();
        } else {
            prefixes.push(prefix.to_vec());
        }
    }
}

#[cfg(test)]
mod tests;
