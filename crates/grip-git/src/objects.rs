//! Objects read in process, through gix.

use std::{io, path::PathBuf, sync::Arc};

use gix_object::{Find, TagRefIter};
use grip_types::{ObjectFormat, Oid};

mod browse;
mod commits;
mod files;
mod links;
mod trees;

pub use browse::{
    Change, Changes, CommitDetails, DirectoryEntry, EntryKind, Listing, PathEntry, Person, Version,
};
pub use commits::{CommitFacts, TagFacts};
pub use files::FileAt;
pub(crate) use files::ReadError;
pub(crate) use trees::Cut;
pub use trees::{FileKind, TreeBounds, TreeEntry, TreeError};

/// Most memory that gix may take to put one object together; twice its size if it is a delta.
///
/// The size of an object says nothing about those it is a delta of.
const MAX_WORK_BYTES: usize = 256 << 20;
/// Largest tag object read to find what it points at.
const MAX_TAG_BYTES: u64 = 4 << 20;
/// Tags of tags that are followed.
const MAX_TAG_DEPTH: usize = 16;

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    Commit,
    Tree,
    Blob,
    Tag,
}

impl From<gix_object::Kind> for ObjectKind {
    fn from(kind: gix_object::Kind) -> Self {
        match kind {
            gix_object::Kind::Commit => Self::Commit,
            gix_object::Kind::Tree => Self::Tree,
            gix_object::Kind::Blob => Self::Blob,
            gix_object::Kind::Tag => Self::Tag,
        }
    }
}

/// An object directory as it was when opened: packs that came later are not seen.
#[derive(Clone)]
pub(crate) struct Objects {
    store: Arc<gix_odb::Store>,
}

impl Objects {
    pub(crate) fn open(objects: PathBuf) -> io::Result<Self> {
        let options = gix_odb::store::init::Options {
            alloc_limit_bytes: Some(MAX_WORK_BYTES),
            ..Default::default()
        };
        let handle = gix_odb::at_opts(objects, gix_hash::Kind::Sha1, None, options)?;
        Ok(Self {
            store: handle.store(),
        })
    }

    /// A reader whose misses cost no look at the directory: misses are what a stranger asks for.
    pub(crate) fn reader(&self) -> Reader {
        let mut reader = self.patient_reader();
        reader.handle.refresh_never();
        reader
    }

    /// A reader that looks at the directory again before it says that an object is not there, and
    /// so also finds those whose pack was rolled up a moment ago.
    pub(crate) fn patient_reader(&self) -> Reader {
        Reader {
            handle: gix_odb::Cache::from(self.store.to_handle_arc()),
        }
    }
}

/// Reads objects of one [`Objects`] on one thread.
pub(crate) struct Reader {
    handle: gix_odb::HandleArc,
}

/// What is wrong with a tag that should be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeelError {
    #[error("object {0} is missing")]
    Missing(Oid),
    #[error("tag {0} cannot be read")]
    Unreadable(Oid),
    #[error("tag {0} is larger than 4 MiB")]
    TooLarge(Oid),
    #[error("tag {0} is a tag of a tag more than 16 times over")]
    TooDeep(Oid),
}

impl Reader {
    /// The kind and size of an object; `None` if it is not here or cannot be read.
    pub(crate) fn header(&self, oid: &Oid) -> Option<(ObjectKind, u64)> {
        let id = gix_id(oid)?;
        match gix_odb::Header::try_header(&self.handle, &id) {
            Ok(header) => header.map(|header| (header.kind().into(), header.size())),
            Err(error) => {
                tracing::warn!(%oid, %error, "object cannot be read");
                None
            }
        }
    }

    pub(crate) fn kind(&self, oid: &Oid) -> Option<ObjectKind> {
        self.header(oid).map(|(kind, _)| kind)
    }

    /// What an annotated tag finally points at; `None` for an object that is no tag.
    pub(crate) fn peel(&self, oid: &Oid) -> Result<Option<Oid>, PeelError> {
        let mut at = *oid;
        for depth in 0..=MAX_TAG_DEPTH {
            match self.header(&at).ok_or(PeelError::Missing(at))? {
                (ObjectKind::Tag, size) if size > MAX_TAG_BYTES => {
                    return Err(PeelError::TooLarge(at));
                }
                (ObjectKind::Tag, _) => at = self.tag_target(&at)?,
                _ => return Ok((depth > 0).then_some(at)),
            }
        }
        Err(PeelError::TooDeep(*oid))
    }

    fn tag_target(&self, oid: &Oid) -> Result<Oid, PeelError> {
        let unreadable = || PeelError::Unreadable(*oid);
        let id = gix_id(oid).ok_or_else(unreadable)?;
        let mut buffer = Vec::new();
        let found = self.handle.try_find(&id, &mut buffer);
        let data = found.ok().flatten().ok_or_else(unreadable)?;
        let target = TagRefIter::from_bytes(data.data, gix_hash::Kind::Sha1)
            .target_id()
            .map_err(|_| unreadable())?;
        Oid::from_bytes(target.as_bytes()).map_err(|_| unreadable())
    }
}

/// The id as gix knows it; `None` for one of another format than ours.
pub(crate) fn gix_id(oid: &Oid) -> Option<gix_hash::ObjectId> {
    (oid.format() == ObjectFormat::Sha1)
        .then(|| gix_hash::ObjectId::try_from(oid.as_bytes()).ok())
        .flatten()
}
