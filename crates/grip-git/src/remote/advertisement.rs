//! Ref advertisements: the responses to `GET info/refs` and to `ls-refs` of version 2.
//!
//! Bounds: as many refs are read as the caller allows, with a fixed amount of bytes for each. Those
//! alone are kept that the caller wants, and those capabilities that mean something here. Refs with
//! names longer than [`MAX_NAME_BYTES`] and other than `HEAD` and `refs/…` are left out.

use std::hash::{DefaultHasher, Hash, Hasher};

use grip_types::{ObjectFormat, Oid};
use tokio::io::AsyncRead;

use crate::pktline;

use super::{
    RemoteError, Version,
    error::refusal,
    packets::{Owned, Packets},
};

/// Longest name of a ref that is kept.
const MAX_NAME_BYTES: usize = 1024;
/// Capabilities that mean something here, and the longest value of one.
const CAPABILITIES: &[&str] = &[
    "agent",
    "allow-any-sha1-in-want",
    "allow-reachable-sha1-in-want",
    "no-progress",
    "object-format",
    "ofs-delta",
    "side-band",
    "side-band-64k",
    "thin-pack",
];
const MAX_CAPABILITY_BYTES: usize = 128;
/// Bytes an answer may have whatever it lists, and for each ref: its name twice, if it is a tag.
const FREE_BYTES: u64 = 1 << 20;
const BYTES_PER_REF: u64 = 2 * (MAX_NAME_BYTES as u64 + 80);

/// One ref of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteRef {
    /// `HEAD` or a name below `refs/`, not checked further.
    pub name: String,
    pub oid: Oid,
    /// What an annotated tag finally points at, as the server says.
    pub peeled: Option<Oid>,
}

impl RemoteRef {
    /// Says whether it is a branch or a tag.
    pub fn is_head_or_tag(&self) -> bool {
        self.name.starts_with("refs/heads/") || self.name.starts_with("refs/tags/")
    }
}

/// What a server can do, and before version 2 also what it has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advertisement {
    pub version: Version,
    /// Each with its value, as in `agent=git/2.47`.
    pub capabilities: Vec<String>,
    /// Those that were wanted; none in version 2: `ls-refs` asks for them.
    pub refs: Vec<RemoteRef>,
    /// Stands for what all its refs point at, in any order.
    pub digest: u64,
}

impl Advertisement {
    pub fn has(&self, capability: &str) -> bool {
        self.value(capability).is_some()
    }

    /// The value of a capability; empty for one without.
    pub fn value(&self, capability: &str) -> Option<&str> {
        self.capabilities.iter().find_map(|found| {
            let (name, value) = found.split_once('=').unwrap_or((found, ""));
            (name == capability).then_some(value)
        })
    }

    /// What ids name objects there; SHA-1 unless the server says otherwise, `None` if unknown.
    pub fn object_format(&self) -> Option<ObjectFormat> {
        let format = self.value("object-format").unwrap_or("sha1");
        [ObjectFormat::Sha1, ObjectFormat::Sha256]
            .into_iter()
            .find(|known| known.name() == format)
    }

    /// Says whether objects that no ref points at may be asked for with hope.
    pub fn can_serve_any_oid(&self) -> bool {
        self.version == Version::V2
            || self.has("allow-reachable-sha1-in-want")
            || self.has("allow-any-sha1-in-want")
    }

    /// What all branches, and then all tags, point at; each once.
    pub fn heads_and_tags(&self) -> Vec<Oid> {
        let mut seen = std::collections::HashSet::new();
        let below = |prefix: &'static str| {
            let refs = self.refs.iter();
            refs.filter(move |r| r.name.starts_with(prefix))
        };
        let all = below("refs/heads/").chain(below("refs/tags/"));
        all.map(|r| r.oid).filter(|oid| seen.insert(*oid)).collect()
    }
}

/// Reads the answer to `GET info/refs?service=git-upload-pack`, and keeps the refs that are wanted.
pub async fn read_advertisement<R, W>(
    reader: R,
    max_refs: usize,
    is_wanted: W,
) -> Result<Advertisement, RemoteError>
where
    R: AsyncRead + Unpin,
    W: FnMut(&RemoteRef) -> bool,
{
    let mut lines = Lines::new(reader, max_refs, is_wanted);
    let mut advertised = Advertisement::default();
    let Some(mut line) = lines.first().await? else {
        return Ok(advertised);
    };
    match line.strip_prefix(b"version ") {
        Some(b"2") => {
            advertised.version = Version::V2;
            while let Some(line) = lines.next().await? {
                advertised.add_capability(&line);
            }
            return Ok(advertised);
        }
        Some(b"1") => {
            advertised.version = Version::V1;
            match lines.next().await? {
                Some(next) => line = next,
                None => return Ok(advertised),
            }
        }
        Some(_) => return Err(RemoteError::UnsupportedVersion),
        None => {}
    }
    advertised.read_refs(line, &mut lines).await?;
    advertised.digest = lines.digest;
    Ok(advertised)
}

/// Reads the answer to [`ls_refs_v2`], and keeps the refs that are wanted; like [`open_pack`] it finds out who does not speak version 2.
///
/// [`ls_refs_v2`]: super::ls_refs_v2
/// [`open_pack`]: super::open_pack
pub async fn read_ls_refs<R, W>(
    reader: R,
    max_refs: usize,
    is_wanted: W,
) -> Result<Vec<RemoteRef>, RemoteError>
where
    R: AsyncRead + Unpin,
    W: FnMut(&RemoteRef) -> bool,
{
    let mut lines = Lines::new(reader, max_refs, is_wanted);
    let mut refs = Vec::new();
    while let Some(line) = lines.next_or(RemoteError::UnsupportedVersion).await? {
        if line.starts_with(b"unborn ") {
            continue;
        }
        let mut parts = line.split(|byte| *byte == b' ');
        let oid = parts.next().and_then(|oid| Oid::from_hex(oid).ok());
        let name = parts.next();
        let (Some(oid), Some(name)) = (oid, name) else {
            return Err(RemoteError::Malformed);
        };
        let mut found = parts.filter_map(|part| part.strip_prefix(b"peeled:"));
        let peeled = found.next().and_then(|oid| Oid::from_hex(oid).ok());
        lines.keep(&mut refs, name, oid, peeled)?;
    }
    Ok(refs)
}

impl Advertisement {
    fn add_capability(&mut self, text: &[u8]) {
        let Ok(text) = std::str::from_utf8(text) else {
            return;
        };
        let (name, _) = text.split_once('=').unwrap_or((text, ""));
        let is_known = CAPABILITIES.contains(&name) && text.len() <= MAX_CAPABILITY_BYTES;
        if is_known && !self.has(name) {
            self.capabilities.push(text.to_owned());
        }
    }

    /// Reads lines of version 0; the first carries the capabilities.
    async fn read_refs<R, W>(
        &mut self,
        first: Vec<u8>,
        lines: &mut Lines<R, W>,
    ) -> Result<(), RemoteError>
    where
        R: AsyncRead + Unpin,
        W: FnMut(&RemoteRef) -> bool,
    {
        let mut line = match first.iter().position(|byte| *byte == 0) {
            Some(nul) => {
                for word in first[nul + 1..].split(|byte| *byte == b' ') {
                    self.add_capability(word);
                }
                first[..nul].to_vec()
            }
            None => first,
        };
        loop {
            self.add_ref(&line, lines)?;
            match lines.next().await? {
                Some(next) => line = next,
                None => return Ok(()),
            }
        }
    }

    fn add_ref<R, W>(&mut self, line: &[u8], lines: &mut Lines<R, W>) -> Result<(), RemoteError>
    where
        W: FnMut(&RemoteRef) -> bool,
    {
        if line.starts_with(b"shallow ") {
            return Ok(());
        }
        let space = line.iter().position(|byte| *byte == b' ');
        let (oid, name) = line.split_at(space.ok_or(RemoteError::Malformed)?);
        let (oid, name) = (Oid::from_hex(oid), &name[1..]);
        let oid = oid.map_err(|_| RemoteError::Malformed)?;
        match (name.strip_suffix(b"^{}"), self.refs.last_mut()) {
            // An empty repository names its capabilities instead of a ref.
            (Some(_), None) => Ok(()),
            (Some(tag), Some(last)) => {
                if last.name.as_bytes() == tag {
                    last.peeled = Some(oid);
                }
                Ok(())
            }
            (None, _) => lines.keep(&mut self.refs, name, oid, None),
        }
    }
}

/// The lines of an answer, up to its flush.
struct Lines<R, W> {
    packets: Packets<R>,
    max_refs: usize,
    is_wanted: W,
    /// Refs that were read, wanted or not.
    refs: usize,
    digest: u64,
}

impl<R: AsyncRead + Unpin, W> Lines<R, W> {
    fn new(reader: R, max_refs: usize, is_wanted: W) -> Self {
        Self {
            packets: Packets::new(reader),
            max_refs,
            is_wanted,
            refs: 0,
            digest: 0,
        }
    }

    /// The first line after the name of the service; version 2 need not have that.
    async fn first(&mut self) -> Result<Option<Vec<u8>>, RemoteError> {
        let first = self.next_or(RemoteError::NotSmart).await?;
        let first = first.ok_or(RemoteError::NotSmart)?;
        match first.strip_prefix(b"# service=") {
            Some(b"git-upload-pack") => {}
            Some(_) => return Err(RemoteError::Malformed),
            None => return Ok(Some(first)),
        }
        while self.next().await?.is_some() {}
        self.next().await
    }

    async fn next(&mut self) -> Result<Option<Vec<u8>>, RemoteError> {
        self.next_or(RemoteError::Truncated).await
    }

    /// The next line without its line feed; `None` for a flush, and `nothing` for an answer
    /// without a byte.
    async fn next_or(&mut self, nothing: RemoteError) -> Result<Option<Vec<u8>>, RemoteError> {
        let most = FREE_BYTES.saturating_add(BYTES_PER_REF.saturating_mul(self.max_refs as u64));
        let is_first = self.packets.taken == 0;
        let line = match self.packets.next().await? {
            Some(Owned::Data(line)) => line,
            Some(Owned::Flush) => return Ok(None),
            Some(_) => return Err(RemoteError::Malformed),
            None if is_first => return Err(nothing),
            None => return Err(RemoteError::Truncated),
        };
        if self.packets.taken > most {
            return Err(RemoteError::TooManyRefs);
        }
        match pktline::strip_lf(&line) {
            [b'E', b'R', b'R', b' ', text @ ..] | [3, text @ ..] => Err(refusal(text)),
            line => Ok(Some(line.to_vec())),
        }
    }
}

impl<R, W: FnMut(&RemoteRef) -> bool> Lines<R, W> {
    /// Adds a ref, if it is one for us.
    fn keep(
        &mut self,
        refs: &mut Vec<RemoteRef>,
        name: &[u8],
        oid: Oid,
        peeled: Option<Oid>,
    ) -> Result<(), RemoteError> {
        let is_ref = name == b"HEAD" || name.starts_with(b"refs/");
        let name = std::str::from_utf8(name).ok();
        let name = name.filter(|name| is_ref && name.len() <= MAX_NAME_BYTES);
        let Some(name) = name.filter(|_| !oid.is_zero()) else {
            return Ok(());
        };
        if self.refs >= self.max_refs {
            return Err(RemoteError::TooManyRefs);
        }
        self.refs += 1;
        self.digest = self.digest.wrapping_add(digest_of(&oid));
        let found = RemoteRef {
            name: name.to_owned(),
            oid,
            peeled,
        };
        if (self.is_wanted)(&found) {
            refs.push(found);
        }
        Ok(())
    }
}

/// The part of one object in the digest of all refs.
pub fn digest_of(oid: &Oid) -> u64 {
    let mut hasher = DefaultHasher::new();
    oid.hash(&mut hasher);
    hasher.finish()
}
