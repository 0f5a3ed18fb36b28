//! Cache of fetched modules: files in one directory, bounded by their bytes.
//!
//! **What goes first.** A module is *new* until a second network asks for it, and *shared* from then
//! on; a client that is known (a reader of restricted repositories, the operator) makes it shared at
//! once. When the cache is full, the new module that was used longest ago goes. Shared ones have
//! three quarters of it, and only shared ones push each other back among the new. So what two
//! networks use is never displaced by what one of them asks for, however much that is.
//!
//! Invariant: a file is there under its name only whole, and durable.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

use grip_types::ClientNetwork;
use lru::LruCache;
use parking_lot::Mutex;

use super::module_file::{Draft, FetchedModule, Finished};

/// The least that a file counts for, so that the number of files has a bound too.
const MIN_WEIGHT: u64 = 4 << 10;
const DRAFT: &str = "draft";

/// The cache. All of it blocks.
pub(super) struct Cache {
    dir: PathBuf,
    max_bytes: u64,
    /// Keeps drafts apart.
    drafts: AtomicU64,
    files: Mutex<Files>,
}

struct Files {
    new: Segment,
    shared: Segment,
}

struct Segment {
    extension: &'static str,
    files: LruCache<String, CachedFile>,
    bytes: u64,
}

struct CachedFile {
    bytes: u64,
    /// Who asked first; unknown after a restart.
    network: Option<ClientNetwork>,
}

/// Who uses a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::proxy) enum User {
    Known,
    Network(ClientNetwork),
    /// A page, or the node itself: that is no use.
    Nobody,
}

impl Cache {
    /// Opens the directory, removes what a crash has left, and keeps no more than `max_bytes`.
    pub(super) fn open(dir: PathBuf, max_bytes: u64) -> io::Result<Self> {
        fs::create_dir_all(&dir)?;
        let mut files = Files {
            new: Segment::new("new"),
            shared: Segment::new("shared"),
        };
        let mut found = Vec::new();
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            let (path, facts) = (entry.path(), entry.metadata()?);
            match files.place(&path) {
                Some((key, is_shared)) if facts.is_file() => {
                    let used = facts.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                    found.push((used, key, facts.len(), is_shared));
                }
                None if path.extension().is_some_and(|it| it == DRAFT) => fs::remove_file(path)?,
                _ => {}
            }
        }
        found.sort();
        for (_, key, length, is_shared) in found {
            let file = CachedFile {
                bytes: length.max(MIN_WEIGHT),
                network: None,
            };
            let segment = if is_shared {
                &mut files.shared
            } else {
                &mut files.new
            };
            segment.put(key, file);
        }
        let cache = Self {
            dir,
            max_bytes,
            drafts: AtomicU64::new(0),
            files: Mutex::new(files),
        };
        cache.shrink(&mut cache.files.lock())?;
        Ok(cache)
    }

    /// The module of this key, which counts as used by `user`. A damaged one is removed.
    pub(super) fn get(&self, key: &str, user: User) -> io::Result<Option<Arc<FetchedModule>>> {
        let opened = {
            let mut files = self.files.lock();
            let Some(extension) = self.use_file(&mut files, key, user)? else {
                return Ok(None);
            };
            // Another use may rename it as soon as the lock is free, which an open file survives.
            File::open(self.path(key, extension))
        };
        match opened.and_then(FetchedModule::read) {
            Ok(module) => {
                module.touch();
                Ok(Some(Arc::new(module)))
            }
            Err(error) if is_lost(&error) => self.remove_lost(key),
            Err(error) => Err(error),
        }
    }

    /// Removes a module that cannot be read, unless a whole one has taken its place since.
    fn remove_lost(&self, key: &str) -> io::Result<Option<Arc<FetchedModule>>> {
        let mut files = self.files.lock();
        let Some(extension) = files.extension_of(key) else {
            return Ok(None);
        };
        let path = self.path(key, extension);
        match FetchedModule::open(&path) {
            Ok(module) => Ok(Some(Arc::new(module))),
            Err(error) if is_lost(&error) => {
                self.remove_from(&mut files, key)?;
                tracing::warn!(path = %path.display(), %error, "removed a cached module");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// A file to write a module into.
    pub(super) fn draft(&self) -> io::Result<Draft> {
        let number = self.drafts.fetch_add(1, Ordering::Relaxed);
        Draft::create(self.dir.join(format!("{number}.{DRAFT}")))
    }

    /// Keeps a module, in place of what had this key before.
    pub(super) fn put(
        &self,
        key: &str,
        finished: Finished,
        user: User,
    ) -> io::Result<Arc<FetchedModule>> {
        let module = finished.open()?;
        self.take_in(key, finished, user)?;
        // A crash before this costs another fetch at most.
        File::open(&self.dir)?.sync_all()?;
        Ok(Arc::new(module))
    }

    fn take_in(&self, key: &str, finished: Finished, user: User) -> io::Result<()> {
        let mut files = self.files.lock();
        self.remove_from(&mut files, key)?;
        let file = CachedFile {
            bytes: finished.bytes.max(MIN_WEIGHT),
            network: match user {
                User::Known | User::Nobody => None,
                User::Network(network) => Some(network),
            },
        };
        let segment = match user {
            User::Known => &mut files.shared,
            User::Network(_) | User::Nobody => &mut files.new,
        };
        finished.keep_as(&self.path(key, segment.extension))?;
        segment.put(key.to_owned(), file);
        self.shrink(&mut files)
    }

    pub(super) fn remove(&self, key: &str) -> io::Result<()> {
        self.remove_from(&mut self.files.lock(), key)
    }

    /// Bytes and number of all files.
    pub(super) fn usage(&self) -> (u64, usize) {
        let files = self.files.lock();
        let number = files.new.files.len() + files.shared.files.len();
        (files.new.bytes + files.shared.bytes, number)
    }

    /// Notes a use, and says under which extension the file is now.
    fn use_file(
        &self,
        files: &mut Files,
        key: &str,
        user: User,
    ) -> io::Result<Option<&'static str>> {
        if user == User::Nobody {
            return Ok(files.extension_of(key));
        }
        if files.shared.files.get(key).is_some() {
            return Ok(Some(files.shared.extension));
        }
        let Some(file) = files.new.files.get_mut(key) else {
            return Ok(None);
        };
        let is_second = match (user, file.network) {
            (User::Known, _) => true,
            (User::Nobody, _) => false,
            (User::Network(network), Some(first)) => network != first,
            (User::Network(network), None) => {
                file.network = Some(network);
                false
            }
        };
        if !is_second {
            return Ok(Some(files.new.extension));
        }
        let moved = self.move_file(key, &mut files.new, &mut files.shared);
        if let Err(error) = moved.and_then(|()| self.shrink(files)) {
            // It can be read all the same.
            tracing::warn!(%error, "failed to move a cached module");
        }
        // With a cache this small it may be among the new again.
        Ok(files.extension_of(key))
    }

    fn move_file(&self, key: &str, from: &mut Segment, to: &mut Segment) -> io::Result<()> {
        let (old, new) = (self.path(key, from.extension), self.path(key, to.extension));
        let renamed = fs::rename(old, new);
        match renamed {
            // Removed by hand: there is nothing left to count.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                from.take(key);
            }
            // It is there still, and counts.
            Err(error) => return Err(error),
            Ok(()) => {
                if let Some(file) = from.take(key) {
                    to.put(key.to_owned(), file);
                }
            }
        }
        Ok(())
    }

    /// Keeps both bounds.
    fn shrink(&self, files: &mut Files) -> io::Result<()> {
        while files.shared.bytes > self.max_bytes / 4 * 3
            && let Some(oldest) = files.shared.oldest()
        {
            self.move_file(&oldest, &mut files.shared, &mut files.new)?;
        }
        while files.new.bytes + files.shared.bytes > self.max_bytes
            && let Some(oldest) = files.new.oldest()
        {
            self.remove_from(files, &oldest)?;
        }
        Ok(())
    }

    fn remove_from(&self, files: &mut Files, key: &str) -> io::Result<()> {
        for segment in [&mut files.new, &mut files.shared] {
            if !segment.files.contains(key) {
                continue;
            }
            match fs::remove_file(self.path(key, segment.extension)) {
                // It is there still, and counts.
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => segment.take(key),
            };
        }
        Ok(())
    }

    fn path(&self, key: &str, extension: &str) -> PathBuf {
        self.dir.join(format!("{key}.{extension}"))
    }
}

impl Files {
    fn extension_of(&self, key: &str) -> Option<&'static str> {
        let segments = [&self.shared, &self.new].into_iter();
        let mut found = segments.filter(|segment| segment.files.contains(key));
        found.next().map(|segment| segment.extension)
    }

    /// The key of a file by its name, and whether it is among the shared.
    fn place(&self, path: &Path) -> Option<(String, bool)> {
        let extension = path.extension()?;
        let key = path.file_stem()?.to_str()?.to_owned();
        let is_shared = extension == self.shared.extension;
        (is_shared || extension == self.new.extension).then_some((key, is_shared))
    }
}

impl Segment {
    fn new(extension: &'static str) -> Self {
        Self {
            extension,
            files: LruCache::unbounded(),
            bytes: 0,
        }
    }

    fn put(&mut self, key: String, file: CachedFile) {
        self.bytes += file.bytes;
        self.files.put(key, file);
    }

    fn take(&mut self, key: &str) -> Option<CachedFile> {
        let file = self.files.pop(key)?;
        self.bytes -= file.bytes;
        Some(file)
    }

    fn oldest(&self) -> Option<String> {
        self.files.peek_lru().map(|(key, _)| key.clone())
    }
}

/// Whether the file is damaged or gone; other errors say nothing of it.
fn is_lost(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
    )
}

#[cfg(test)]
mod tests;
