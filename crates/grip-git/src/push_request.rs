//! Requests to `git-receive-pack`: commands, capabilities and options, read before the pack.
//!
//! The parser is incremental and bounded: [`MAX_COMMANDS`] commands, [`MAX_HEAD_BYTES`] bytes,
//! [`MAX_OPTIONS`] options. Beyond a bound the push is refused.

use std::{collections::HashSet, time::Duration};

use bytes::{Buf, Bytes, BytesMut};
use grip_types::{InvalidRefName, ObjectFormat, Oid, RefEdit, RefName};
use tokio::io::AsyncRead;

use crate::{
    pktline::{self, Packet},
    report, request_head,
};

mod capabilities;

pub use crate::request_head::Feed;
pub use capabilities::Capabilities;

pub const MAX_COMMANDS: usize = 100_000;
pub const MAX_HEAD_BYTES: usize = 32 << 20;
pub const MAX_OPTIONS: usize = 1000;

/// All that a client sends before its pack.
///
/// Without commands it is the probe that git sends before a large push: an empty answer is right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PushRequest {
    pub commands: Vec<RefEdit>,
    pub capabilities: Capabilities,
    pub options: Vec<String>,
    pub shallow: Vec<Oid>,
}

impl PushRequest {
    /// Says whether a pack follows; a push that only deletes has none.
    pub fn has_pack(&self) -> bool {
        self.commands.iter().any(|command| command.new.is_some())
    }

    /// The answer that all was done; `messages` are shown to the person.
    pub fn accepted(&self, messages: &[&str]) -> Bytes {
        let names = self.commands.iter().map(|command| &command.name);
        report::accepted(&self.capabilities, names, messages)
    }

    /// The answer that nothing was done, and why.
    pub fn refused(&self, reason: &str) -> Bytes {
        let names = self.commands.iter();
        let names = names.map(|command| command.name.as_str().as_bytes());
        report::refused(&self.capabilities, names, reason)
    }
}

/// What is wrong with the head of a push.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    #[error(transparent)]
    Framing(#[from] pktline::Malformed),
    #[error("the push ended before its commands did")]
    Truncated,
    #[error("a push command is not `<old> <new> <ref>`")]
    Command,
    #[error("{1}: {0:?}")]
    RefName(String, InvalidRefName),
    #[error("{0} is named twice in one push")]
    Duplicate(RefName),
    #[error("signed pushes (push certificates) are not supported here")]
    Certificate,
    #[error("this repository uses sha1 object ids, the push another object format")]
    ObjectFormat,
    #[error("more than 100000 ref updates in one push")]
    TooManyCommands,
    #[error("the commands of the push are larger than 32 MiB")]
    TooLong,
    #[error("more than 1000 push options")]
    TooManyOptions,
}

/// A push refused for its head, with all that its refusal needs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct PushError {
    pub problem: Problem,
    pub capabilities: Capabilities,
    /// Every ref named so far, as the client wrote it.
    pub names: Vec<Bytes>,
}

impl PushError {
    /// The answer that shows the reason to the person who pushed.
    pub fn reply(&self) -> Bytes {
        report::refused(
            &self.capabilities,
            self.names.iter().map(|name| &name[..]),
            &self.problem.to_string(),
        )
    }
}

/// Why no head could be read from a stream.
pub type ReadError = request_head::ReadError<Box<PushError>>;

/// Reads the head of a push; the bytes returned beside it are the first of the pack.
pub async fn read<R>(reader: &mut R, stall: Duration) -> Result<(PushRequest, Bytes), ReadError>
where
    R: AsyncRead + Unpin,
{
    let mut parser = Parser::default();
    request_head::feed(reader, stall, 16 << 10, |bytes| parser.feed(bytes)).await?;
    parser.finish().map_err(|e| ReadError::Refused(e.into()))
}

/// Reads a head from pieces of any size.
#[derive(Debug, Default)]
pub struct Parser {
    /// Bytes not yet taken: part of a packet, and after the head the start of the pack.
    pending: BytesMut,
    taken: usize,
    section: Section,
    commands: Vec<RawCommand>,
    capabilities: Capabilities,
    options: Vec<String>,
    shallow: Vec<Oid>,
    problem: Option<Problem>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Section {
    #[default]
    Commands,
    Options,
    Over,
}

#[derive(Debug)]
struct RawCommand {
    old: Oid,
    new: Oid,
    name: Bytes,
}

impl Parser {
    pub fn feed(&mut self, input: &[u8]) -> Feed {
        self.pending.extend_from_slice(input);
        while self.section != Section::Over {
            match pktline::decode(&self.pending) {
                Ok(None) => return Feed::More,
                Ok(Some((packet, len))) => {
                    // The lines are short: a copy ends the borrow of what is being consumed.
                    let line = match packet {
                        Packet::Data(data) => Some(Bytes::copy_from_slice(data)),
                        _ => None,
                    };
                    let is_flush = packet == Packet::Flush;
                    self.pending.advance(len);
                    self.taken += len;
                    self.packet(line, is_flush);
                }
                Err(malformed) => self.stop(malformed.into()),
            }
        }
        Feed::Complete
    }

    /// Ends the reading; before [`Feed::Complete`] the push counts as cut short.
    pub fn finish(mut self) -> Result<(PushRequest, Bytes), PushError> {
        if self.section != Section::Over {
            self.note(Problem::Truncated);
        }
        let commands = match self.problem.take() {
            Some(problem) => Err(problem),
            None => check(&self.commands, &self.capabilities),
        };
        match commands {
            Ok(commands) => {
                let request = PushRequest {
                    commands,
                    capabilities: self.capabilities,
                    options: self.options,
                    shallow: self.shallow,
                };
                Ok((request, self.pending.freeze()))
            }
            Err(problem) => Err(PushError {
                problem,
                capabilities: self.capabilities,
                names: self.commands.into_iter().map(|c| c.name).collect(),
            }),
        }
    }

    fn packet(&mut self, line: Option<Bytes>, is_flush: bool) {
        if self.taken > MAX_HEAD_BYTES {
            return self.stop(Problem::TooLong);
        }
        match (self.section, line) {
            (Section::Commands, Some(line)) => self.command_line(&line),
            (Section::Options, Some(line)) => self.option(&line),
            (Section::Commands, None) if is_flush => {
                let more = self.capabilities.push_options && !self.commands.is_empty();
                self.section = if more {
                    Section::Options
                } else {
                    Section::Over
                };
            }
            (_, None) if is_flush => self.section = Section::Over,
            _ => self.stop(pktline::Malformed.into()),
        }
    }

    fn command_line(&mut self, line: &Bytes) {
        let line = line.slice_ref(pktline::strip_lf(line));
        if let Some(oid) = line.strip_prefix(b"shallow ") {
            match Oid::from_hex(oid) {
                Ok(oid) => self.shallow.push(oid),
                Err(_) => self.note(Problem::Command),
            }
            return;
        }
        let command = match line.iter().position(|byte| *byte == 0) {
            Some(nul) => {
                if self.commands.is_empty() {
                    self.capabilities = Capabilities::parse(&line[nul + 1..]);
                }
                line.slice(..nul)
            }
            None => line,
        };
        if &command[..] == b"push-cert" {
            return self.stop(Problem::Certificate);
        }
        if self.commands.len() == MAX_COMMANDS {
            return self.stop(Problem::TooManyCommands);
        }
        match RawCommand::parse(&command) {
            Some(command) => self.commands.push(command),
            None => self.note(Problem::Command),
        }
    }

    fn option(&mut self, line: &[u8]) {
        if self.options.len() == MAX_OPTIONS {
            return self.note(Problem::TooManyOptions);
        }
        let text = String::from_utf8_lossy(pktline::strip_lf(line));
        self.options.push(text.into_owned());
    }

    /// Keeps the first problem and reads on, so that the refusal can name every ref.
    fn note(&mut self, problem: Problem) {
        self.problem.get_or_insert(problem);
    }

    fn stop(&mut self, problem: Problem) {
        self.note(problem);
        self.section = Section::Over;
    }
}

impl RawCommand {
    fn parse(line: &Bytes) -> Option<Self> {
        let mut parts = line.splitn(3, |byte| *byte == b' ');
        let old = Oid::from_hex(parts.next()?).ok()?;
        let new = Oid::from_hex(parts.next()?).ok()?;
        let name = line.slice_ref(parts.next()?);
        Some(Self { old, new, name })
    }
}

fn check(raw: &[RawCommand], capabilities: &Capabilities) -> Result<Vec<RefEdit>, Problem> {
    let format = capabilities.object_format.as_deref();
    if format.is_some_and(|format| format != ObjectFormat::Sha1.name()) {
        return Err(Problem::ObjectFormat);
    }
    let mut seen = HashSet::with_capacity(raw.len());
    let mut commands = Vec::with_capacity(raw.len());
    for command in raw {
        let command = command.check()?;
        if !seen.insert(command.name.clone()) {
            return Err(Problem::Duplicate(command.name));
        }
        commands.push(command);
    }
    Ok(commands)
}

impl RawCommand {
    fn check(&self) -> Result<RefEdit, Problem> {
        let name = String::from_utf8_lossy(&self.name);
        let name = RefName::parse(&name)
            .map_err(|invalid| Problem::RefName(name.chars().take(80).collect(), invalid))?;
        if [self.old, self.new].map(|oid| oid.format()) != [ObjectFormat::Sha1; 2] {
            return Err(Problem::ObjectFormat);
        }
        let some = |oid: Oid| (!oid.is_zero()).then_some(oid);
        Ok(RefEdit {
            name,
            old: some(self.old),
            new: some(self.new),
        })
    }
}

#[cfg(test)]
mod tests;
