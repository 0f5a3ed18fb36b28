//! Manifests: what a name resolves to, in bytes that prove themselves.
//!
//! A manifest is the owner's announcement, the effective state of the repository, the proof that the
//! author of the state is a maintainer, and the URLs that the announcement names.
//!
//! Invariants:
//! - A value of [`Manifest`] is proven: every id and signature in it was checked, and the state's
//!   author is a maintainer by the announcements in it.
//! - One content has one encoding. [`Manifest::decode`] takes no other bytes than those that
//!   [`Manifest::make`] gives, so a changed byte is refused or is another manifest.
//! - Nothing of a private repository is ever in one.

mod id;
mod join;
mod proof;
mod urls;

use std::{fmt, sync::Arc};

use bytes::Bytes;
use grip_nostr::{Announcement, Event, InvalidAnnouncement, InvalidState, RepoAddr, State};
use url::Url;

pub use id::{InvalidManifestId, ManifestId};
pub(crate) use urls::read as read_url;

/// Longest manifest.
pub const MAX_BYTES: usize = 4 << 20;
/// Longest manifest that is stored by others; longer ones come from their providers.
pub const MAX_RECORD_BYTES: usize = 60 << 10;
/// Most announcements of others in a manifest.
pub const MAX_VIA: usize = 16;

const FORMAT: &str = "gripfast-manifest";
const VERSION: u64 = 1;

/// A proven manifest. Cheap to clone.
#[derive(Clone)]
pub struct Manifest {
    inner: Arc<Inner>,
}

struct Inner {
    id: ManifestId,
    bytes: Bytes,
    announcement: Announcement,
    via: Vec<Announcement>,
    state: Option<State>,
    urls: Vec<Url>,
}

/// Why bytes or events are no manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidManifest {
    #[error("a manifest has at most {MAX_BYTES} bytes")]
    TooLong,
    #[error("these bytes are not the JSON of a manifest")]
    NotJson,
    #[error("this is a manifest of a version that is not known here")]
    Version,
    #[error(transparent)]
    Announcement(#[from] InvalidAnnouncement),
    #[error(transparent)]
    State(#[from] InvalidState),
    #[error("the state speaks of another repository than the announcement")]
    OtherRepository,
    #[error("the id or the signature of an event in it is wrong")]
    Signature,
    #[error("nothing in it shows that the author of the state is a maintainer")]
    NotAMaintainer,
    #[error("the repository is private")]
    Private,
    #[error("the bytes are not in the one form that a manifest has")]
    NotCanonical,
}

impl Manifest {
    /// Makes the manifest of a repository out of what is known of it.
    ///
    /// `others` are announcements of the same identifier by anybody; those that are needed to show
    /// that the author of `state` is a maintainer are taken in.
    pub fn make(
        announcement: Event,
        others: Vec<Event>,
        state: Option<Event>,
    ) -> Result<Self, InvalidManifest> {
        let announcement = Announcement::parse(announcement)?;
        let state = state.map(State::parse).transpose()?;
        let of_same = |event| {
            let parsed = Announcement::parse(event).ok()?;
            (parsed.identifier == announcement.identifier).then_some(parsed)
        };
        let others = others.into_iter().filter_map(of_same).collect();
        let made = Self::assemble(announcement, others, state)?;
        let is_signed = made.events().all(|event| event.verify().is_ok());
        is_signed.then_some(made).ok_or(InvalidManifest::Signature)
    }

    /// Reads a manifest from bytes of a stranger.
    pub fn decode(bytes: &[u8]) -> Result<Self, InvalidManifest> {
        type Wire = (String, u64, Event, Vec<Event>, Option<Event>, Vec<String>);
        if bytes.len() > MAX_BYTES {
            return Err(InvalidManifest::TooLong);
        }
        let wire: Wire = serde_json::from_slice(bytes).map_err(|_| InvalidManifest::NotJson)?;
        let (format, version, announcement, via, state, _) = wire;
        if format != FORMAT || version != VERSION {
            return Err(InvalidManifest::Version);
        }
        if via.len() > MAX_VIA {
            return Err(InvalidManifest::NotCanonical);
        }
        let made = Self::make(announcement, via, state)?;
        (made.bytes() == bytes)
            .then_some(made)
            .ok_or(InvalidManifest::NotCanonical)
    }

    /// Puts together what is signed already, with no more of `others` than the proof needs.
    fn assemble(
        announcement: Announcement,
        others: Vec<Announcement>,
        state: Option<State>,
    ) -> Result<Self, InvalidManifest> {
        if announcement.is_private() {
            return Err(InvalidManifest::Private);
        }
        let via = match &state {
            Some(state) if state.identifier != announcement.identifier => {
                return Err(InvalidManifest::OtherRepository);
            }
            Some(state) => proof::chain(&announcement, others, &state.event.pubkey)?,
            None => Vec::new(),
        };
        let urls = urls::of(&announcement);
        let bytes = encode(&announcement, &via, state.as_ref(), &urls);
        if bytes.len() > MAX_BYTES {
            return Err(InvalidManifest::TooLong);
        }
        let inner = Inner {
            id: ManifestId::of(&bytes),
            bytes,
            announcement,
            via,
            state,
            urls,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    pub fn id(&self) -> ManifestId {
        self.inner.id
    }

    /// The one encoding of it.
    pub fn bytes(&self) -> &Bytes {
        &self.inner.bytes
    }

    /// Whose repository it describes.
    pub fn name(&self) -> RepoAddr {
        self.inner.announcement.addr()
    }

    pub fn announcement(&self) -> &Announcement {
        &self.inner.announcement
    }

    /// Announcements of maintainers between the owner and the state's author, the owner's side
    /// first.
    pub fn via(&self) -> &[Announcement] {
        &self.inner.via
    }

    pub fn state(&self) -> Option<&State> {
        self.inner.state.as_ref()
    }

    /// Where the owner says it can be cloned from: valid http and https URLs, sorted, each once.
    pub fn urls(&self) -> &[Url] {
        &self.inner.urls
    }

    /// When its newest event was signed, in seconds since 1970.
    pub fn signed_at(&self) -> u64 {
        let newest = self.events().map(|event| event.created_at.as_secs()).max();
        newest.unwrap_or_default()
    }

    /// Whether others may store it, rather than having to ask for it.
    pub fn fits_a_record(&self) -> bool {
        self.bytes().len() <= MAX_RECORD_BYTES
    }

    fn events(&self) -> impl Iterator<Item = &Event> {
        let announcement = std::iter::once(&self.inner.announcement.event);
        let via = self.inner.via.iter().map(|via| &via.event);
        let state = self.inner.state.iter().map(|state| &state.event);
        announcement.chain(via).chain(state)
    }
}

impl PartialEq for Manifest {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Manifest {}

impl fmt::Debug for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Manifest({} of {})", self.id(), self.name())
    }
}

fn encode(
    announcement: &Announcement,
    via: &[Announcement],
    state: Option<&State>,
    urls: &[Url],
) -> Bytes {
    let via: Vec<&Event> = via.iter().map(|via| &via.event).collect();
    let state = state.map(|state| &state.event);
    let wire = (FORMAT, VERSION, &announcement.event, via, state, urls);
    let bytes = serde_json::to_vec(&wire).expect("because events and URLs are plain text");
    bytes.into()
}

#[cfg(test)]
mod tests;
