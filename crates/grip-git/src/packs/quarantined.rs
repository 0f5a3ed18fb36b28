//! Packs on their way into a store: written by git in the quarantine, then moved by renames.

use std::{
    fs::{self, File, FileTimes},
    io,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::SystemTime,
};

use grip_tasks::{Permit, fault};
use grip_types::{Identifier, Oid};

use crate::{bare, disk, objects::Objects};

use super::{Packs, pack_dir};

/// Hash in the name that git gives to a pack without objects.
const EMPTY_PACK: &str = "029d08823bd8a8eab510ad6ac75c823cfd3ed31e";

/// Extensions of the files that make up a pack; with the last of them it is there.
pub(crate) const PACK_FILES: [&str; 2] = ["pack", "idx"];

/// Empty directories kept for the next packs; to make and remove two of them costs a small push
/// more than all its syncs.
const MAX_SPARES: usize = 8;

/// What a promotion brought into the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promoted {
    /// Size of the pack; 0 if there was none, or if the store had it already.
    pub pack_bytes: u64,
}

/// A directory of the quarantine that git writes one pack into.
///
/// Dropping it removes it with all that is in it, or keeps it for the next pack if it is empty.
pub(crate) struct QuarantineDir {
    path: PathBuf,
    packs: Arc<Packs>,
    identifier: Identifier,
    /// It rests on nothing that is here.
    is_apart: bool,
    /// The pack is checked against what the store has, so the store must stay.
    _in_use: Permit<Identifier>,
    /// And so must the objects in it, unless the pack holds nothing new.
    _receiving: Option<Permit<Identifier>>,
}

/// A checked and durable pack that is not yet part of a store.
pub(crate) struct QuarantinedPack {
    dir: QuarantineDir,
    name: String,
    pub(crate) objects: Objects,
}

impl Packs {
    /// A place for a new pack of an identifier; its store is there and `in_use`.
    pub(crate) fn quarantine_dir(
        self: &Arc<Self>,
        identifier: &Identifier,
        in_use: Permit<Identifier>,
        receiving: Option<Permit<Identifier>>,
    ) -> io::Result<QuarantineDir> {
        let spare = self.spares.lock().pop();
        let path = match spare {
            Some(path) => path,
            None => {
                let path = self.layout.quarantines().join(disk::unique());
                fs::create_dir(&path)?;
                fs::create_dir(pack_dir(&path))?;
                path
            }
        };
        Ok(QuarantineDir {
            path,
            packs: Arc::clone(self),
            identifier: identifier.clone(),
            is_apart: false,
            _in_use: in_use,
            _receiving: receiving,
        })
    }

    /// A place for a pack that has to be complete in itself.
    pub(crate) fn quarantine_dir_apart(
        self: &Arc<Self>,
        identifier: &Identifier,
    ) -> io::Result<QuarantineDir> {
        let empty = self.layout.empty();
        if !disk::is_real_dir(&empty)? {
            disk::make_dirs(&self.layout.root, &self.layout.contributors())?;
            match bare::create(&self.layout.quarantines(), &empty, None) {
                Err(error) if !disk::is_real_dir(&empty)? => return Err(error),
                // Another one has just made it.
                _ => {}
            }
        }
        let mut dir = self.quarantine_dir(identifier, self.borrow(identifier), None)?;
        dir.is_apart = true;
        Ok(dir)
    }

    /// Says whether a pack of this name is in the store.
    pub(crate) fn has(&self, identifier: &Identifier, name: &str) -> bool {
        let index = pack_dir(&self.objects(identifier)).join(format!("{name}.idx"));
        index.exists()
    }

    /// The packs of a store, each with its files; an error if it has objects beside them.
    pub(crate) fn packs_of(
        &self,
        identifier: &Identifier,
    ) -> io::Result<Vec<(String, Vec<PathBuf>)>> {
        let objects = self.objects(identifier);
        let is_loose = |(name, _): &(String, fs::FileType)| name != "info" && name != "pack";
        if disk::entries(&objects)?.iter().any(is_loose) {
            let text = format!("{} has objects outside of packs", objects.display());
            return Err(io::Error::other(text));
        }
        let dir = pack_dir(&objects);
        let named = |(name, _): (String, fs::FileType)| {
            let name = name.strip_suffix(".idx")?;
            let files = PACK_FILES.map(|extension| dir.join(format!("{name}.{extension}")));
            Some((name.to_owned(), files.to_vec()))
        };
        Ok(disk::entries(&dir)?.into_iter().filter_map(named).collect())
    }

    /// Makes the durable files of a pack in the directory `from` part of a store; durable on return. The
    /// caller holds the lock.
    pub(crate) fn add(&self, identifier: &Identifier, name: &str, from: &Path) -> io::Result<()> {
        self.ensure(identifier)?;
        let to = pack_dir(&self.objects(identifier));
        for extension in PACK_FILES {
            let file = format!("{name}.{extension}");
            fs::rename(from.join(&file), to.join(&file))?;
        }
        disk::sync_dir(&to)?;
        self.changed(identifier);
        Ok(())
    }

    /// Makes a pack part of its store; durable on return. The caller holds the lock.
    ///
    /// Putting the same pack twice is harmless. A crash halfway leaves a pack without an index,
    /// which nobody sees and the next start removes.
    pub(crate) fn put(&self, pack: &QuarantinedPack) -> io::Result<Promoted> {
        let identifier = &pack.dir.identifier;
        self.ensure(identifier)?;
        let (from, to) = (
            pack_dir(&pack.dir.path),
            pack_dir(&self.objects(identifier)),
        );
        let file = |extension: &str| format!("{}.{extension}", pack.name);
        let mut promoted = Promoted::default();
        if !to.join(file("idx")).exists() {
            promoted.pack_bytes = fs::metadata(from.join(file("pack")))?.len();
            pack.move_to(&to)?;
        }
        self.changed(identifier);
        fault::point("git.promote.done");
        Ok(promoted)
    }
}

impl QuarantineDir {
    /// Makes git write into this directory only, and see the store, unless it is apart, and `also`
    /// beside it.
    pub(crate) fn confine(&self, command: &mut Command, also: Option<&QuarantinedPack>) {
        let layout = &self.packs.layout;
        let base = if self.is_apart {
            layout.empty()
        } else {
            layout.store(&self.identifier)
        };
        let mut alternates = base.join("objects").into_os_string();
        if let Some(also) = also {
            alternates.push(":");
            alternates.push(&also.dir.path);
        }
        command
            .env("GIT_DIR", base)
            .env("GIT_OBJECT_DIRECTORY", &self.path)
            .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", alternates);
    }

    /// Notes a commit whose parents count as none, for git to be told by [`Self::shallow`].
    pub(crate) fn write_shallow(&self, commit: &Oid) -> io::Result<()> {
        fs::write(self.shallow(), format!("{commit}\n"))
    }

    pub(crate) fn shallow(&self) -> PathBuf {
        self.path.join("shallow")
    }

    /// What `git pack-objects` is told to begin the names of its files with.
    pub(crate) fn pack_prefix(&self) -> PathBuf {
        pack_dir(&self.path).join("pack")
    }

    /// Makes the pack that git has written durable; `None` if there are no objects in it.
    pub(crate) fn seal(self, hash: &Oid) -> io::Result<Option<QuarantinedPack>> {
        if hash.to_hex() == EMPTY_PACK {
            return Ok(None);
        }
        let name = format!("pack-{hash}");
        let file = |extension: &str| pack_dir(&self.path).join(format!("{name}.{extension}"));
        let (pack, index) = (File::open(file("pack"))?, File::open(file("idx"))?);
        // At the same time: file systems commit the two together.
        std::thread::scope(|scope| {
            let index = scope.spawn(move || index.sync_all());
            pack.sync_all()?;
            index.join().expect("syncing does not panic")
        })?;
        let objects = Objects::open(self.path.clone())?;
        Ok(Some(QuarantinedPack {
            dir: self,
            name,
            objects,
        }))
    }

    /// Takes a durable pack of another directory in, which keeps it.
    pub(crate) fn link(self, from: &Path, pack: &str) -> io::Result<QuarantinedPack> {
        for extension in PACK_FILES {
            let file = format!("{pack}.{extension}");
            fs::hard_link(from.join(&file), pack_dir(&self.path).join(&file))?;
        }
        let objects = Objects::open(self.path.clone())?;
        Ok(QuarantinedPack {
            dir: self,
            name: pack.to_owned(),
            objects,
        })
    }

    /// Says whether there is nothing in it but the directory for packs.
    fn is_empty(&self) -> io::Result<bool> {
        let packs = pack_dir(&self.path);
        for entry in fs::read_dir(&self.path)? {
            if entry?.path() != packs {
                return Ok(false);
            }
        }
        Ok(fs::read_dir(packs)?.next().is_none())
    }

    fn keep_as_spare(&self) -> bool {
        let mut spares = self.packs.spares.lock();
        let has_room = spares.len() < MAX_SPARES;
        if has_room {
            spares.push(self.path.clone());
        }
        has_room
    }
}

impl Drop for QuarantineDir {
    fn drop(&mut self) {
        if matches!(self.is_empty(), Ok(true)) && self.keep_as_spare() {
            return;
        }
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "failed to remove quarantine");
        }
    }
}

impl QuarantinedPack {
    /// The name of its files, without an extension.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its files as they lie in the quarantine, the index last.
    pub(crate) fn files(&self) -> impl Iterator<Item = PathBuf> {
        let file = |extension| pack_dir(&self.dir.path).join(format!("{}.{extension}", self.name));
        PACK_FILES.map(file).into_iter()
    }

    /// Bytes of the pack and its index.
    pub(crate) fn bytes(&self) -> io::Result<u64> {
        let len = |extension| {
            let file = format!("{}.{extension}", self.name);
            Ok::<_, io::Error>(fs::metadata(pack_dir(&self.dir.path).join(file))?.len())
        };
        Ok(len("pack")? + len("idx")?)
    }

    /// Moves the pack into another directory of packs; durable on return.
    pub(crate) fn move_to(&self, to: &Path) -> io::Result<()> {
        let reverse_index = format!("{}.rev", self.name);
        let moved = fs::rename(
            pack_dir(&self.dir.path).join(&reverse_index),
            to.join(&reverse_index),
        );
        if let Err(error) = moved
            && !disk::is_absent(&error)
        {
            return Err(error);
        }
        // The index goes last, since with it the pack is there.
        for extension in PACK_FILES {
            let file = format!("{}.{extension}", self.name);
            fs::rename(pack_dir(&self.dir.path).join(&file), to.join(&file))?;
            if extension == "pack" {
                fault::point("git.promote.half");
            }
        }
        disk::sync_dir(to)
    }

    /// Has the grace time of its objects count from `newest`.
    pub(crate) fn set_modified(&self, newest: Option<SystemTime>) -> io::Result<()> {
        let Some(newest) = newest else {
            return Ok(());
        };
        let path = pack_dir(&self.dir.path).join(format!("{}.pack", self.name));
        // Read-only, as git made it: its owner may set its time all the same.
        let pack = File::open(path)?;
        pack.set_times(FileTimes::new().set_modified(newest))
    }

    pub(crate) fn index(&self) -> PathBuf {
        pack_dir(&self.dir.path).join(format!("{}.idx", self.name))
    }

    /// Has a pack that was complete in itself count beside the store, which is there.
    pub(crate) fn rest_on_store(&mut self) {
        self.dir.is_apart = false;
    }

    /// See [`QuarantineDir::confine`]: git may read this pack and the store.
    pub(crate) fn confine(&self, command: &mut Command) {
        self.dir.confine(command, None);
    }
}
