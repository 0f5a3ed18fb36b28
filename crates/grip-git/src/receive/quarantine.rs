//! A pack that is checked but not yet part of anything.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use grip_tasks::fault;
use grip_types::{Identifier, Oid};
use parking_lot::Mutex;

use crate::{
    disk, layout,
    objects::{ObjectKind, Objects},
    repositories::{Inner, RepoError, Repositories, Using},
};

/// The name git gives to a pack without objects.
const EMPTY_PACK: &str = "pack-029d08823bd8a8eab510ad6ac75c823cfd3ed31e";

/// Most directories that are kept ready; more are removed.
const MAX_SPARES: usize = 8;

/// Empty directories of the quarantine, ready for the next pack: to make and remove two of them
/// costs a small push more than all its syncs.
#[derive(Default)]
pub(crate) struct Spares {
    ready: Mutex<Vec<PathBuf>>,
}

impl Spares {
    fn take(&self) -> Option<PathBuf> {
        self.ready.lock().pop()
    }

    /// Takes a directory back; false if there are enough.
    fn give(&self, path: &Path) -> bool {
        let mut ready = self.ready.lock();
        let has_room = ready.len() < MAX_SPARES;
        if has_room {
            ready.push(path.to_owned());
        }
        has_room
    }
}

/// A directory of the quarantine; dropping it removes it with all that is in it, or keeps it for
/// the next pack if nothing is.
pub(super) struct Incoming {
    path: PathBuf,
    inner: Arc<Inner>,
    /// It was checked against what the store has.
    _using: Using,
}

impl Incoming {
    pub(super) fn create(inner: &Arc<Inner>, using: Using) -> io::Result<Self> {
        let incoming = |path| Self {
            path,
            inner: Arc::clone(inner),
            _using: using,
        };
        if let Some(path) = inner.spares.take() {
            return Ok(incoming(path));
        }
        let path = inner.layout.quarantines().join(disk::unique());
        fs::create_dir(&path)?;
        fs::create_dir(layout::packs(&path))?;
        Ok(incoming(path))
    }

    /// Says whether there is nothing in it but the directory for packs.
    fn is_empty(&self) -> io::Result<bool> {
        let packs = layout::packs(&self.path);
        for entry in fs::read_dir(&self.path)? {
            if entry?.path() != packs {
                return Ok(false);
            }
        }
        Ok(fs::read_dir(packs)?.next().is_none())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Syncs pack and index at the same time: file systems commit the two together.
    fn sync(&self, stem: &str) -> io::Result<()> {
        let file = |extension: &str| layout::packs(&self.path).join(format!("{stem}.{extension}"));
        let (pack, index) = (File::open(file("pack"))?, File::open(file("idx"))?);
        std::thread::scope(|scope| {
            let index = scope.spawn(move || index.sync_all());
            pack.sync_all()?;
            index.join().expect("syncing does not panic")
        })
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if matches!(self.is_empty(), Ok(true)) && self.inner.spares.give(&self.path) {
            return;
        }
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "quarantine not removed");
        }
    }
}

/// A received pack, waiting to be judged. Dropping it removes it.
#[must_use = "a quarantine that is not promoted is removed"]
pub struct Quarantine {
    pub(super) repositories: Repositories,
    pub(super) identifier: Identifier,
    pub(super) pack: Option<Pack>,
}

pub(super) struct Pack {
    pub(super) incoming: Incoming,
    stem: String,
    objects: Objects,
}

/// What a promotion brought into the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promoted {
    /// Size of the pack; 0 if there was none, or if the store had it already.
    pub pack_bytes: u64,
}

impl Quarantine {
    /// Makes what git wrote durable, before anybody's turn is taken for it. Blocking.
    pub(super) fn seal(
        repositories: Repositories,
        identifier: Identifier,
        incoming: Incoming,
        stem: String,
    ) -> io::Result<Self> {
        let mut quarantine = Self::empty(repositories, &identifier);
        if stem != EMPTY_PACK {
            incoming.sync(&stem)?;
            let objects = Objects::open(incoming.path().to_owned(), 0)?;
            quarantine.pack = Some(Pack {
                incoming,
                stem,
                objects,
            });
        }
        Ok(quarantine)
    }

    pub(super) fn empty(repositories: Repositories, identifier: &Identifier) -> Self {
        Self {
            repositories,
            identifier: identifier.clone(),
            pack: None,
        }
    }

    pub fn identifier(&self) -> &Identifier {
        &self.identifier
    }

    /// Says whether there are no objects in it.
    pub fn is_empty(&self) -> bool {
        self.pack.is_none()
    }

    /// What each object is, here or in the store; `None` for those in neither. Blocking.
    pub fn kinds(&self, oids: &[Oid]) -> Result<Vec<Option<ObjectKind>>, RepoError> {
        let mut kinds = self.repositories.inner.kinds(&self.identifier, oids)?;
        if let Some(pack) = &self.pack {
            let reader = pack.objects.reader();
            for (kind, oid) in kinds.iter_mut().zip(oids) {
                *kind = kind.or_else(|| reader.kind(oid));
            }
        }
        Ok(kinds)
    }

    /// Makes the objects part of the identifier's store, for good. Blocking; durable on return.
    ///
    /// Doing it twice with the same pack is harmless. A crash halfway leaves a pack without an
    /// index, which nobody sees and the next start removes.
    pub fn promote(self) -> io::Result<Promoted> {
        let Some(pack) = &self.pack else {
            return Ok(Promoted::default());
        };
        let inner = &self.repositories.inner;
        let _turn = inner.lock(&self.identifier);
        inner.ensure_store(&self.identifier)?;
        let to = layout::packs(&inner.layout.store(&self.identifier).join("objects"));
        let promoted = pack.move_to(&to)?;
        inner.packs_changed(&self.identifier);
        fault::point("git.promote.done");
        Ok(promoted)
    }
}

impl Pack {
    pub(super) fn index(&self) -> PathBuf {
        layout::packs(self.incoming.path()).join(format!("{}.idx", self.stem))
    }

    /// The files are synced; the index goes last, since with it the pack is there.
    fn move_to(&self, to: &Path) -> io::Result<Promoted> {
        let from = layout::packs(self.incoming.path());
        let file = |extension: &str| format!("{}.{extension}", self.stem);
        if to.join(file("idx")).exists() {
            return Ok(Promoted::default());
        }
        let pack_bytes = fs::metadata(from.join(file("pack")))?.len();
        fs::rename(from.join(file("pack")), to.join(file("pack")))?;
        fault::point("git.promote.half");
        fs::rename(from.join(file("idx")), to.join(file("idx")))?;
        disk::sync_dir(to)?;
        Ok(Promoted { pack_bytes })
    }
}
