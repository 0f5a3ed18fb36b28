//! Files that are whole or not there, also after a power cut.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::fs::OFlags;

/// Reads a file that is not a symbolic link; `None` if it is not there.
pub(crate) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let flags = OFlags::NOFOLLOW.bits() as i32;
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let mut file = match opened {
        Ok(file) => file,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut contents = Vec::new();
    file.read_to_end(&mut contents)?;
    Ok(Some(contents))
}

/// Says whether an error means that a file, or the directory it should be in, is not there.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Replaces a file as one step that survives a crash; `path` has the old or the new contents.
pub(crate) fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let temporary = temporary_beside(path);
    let written = write_synced(&temporary, contents).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written?;
    sync_parent(path)
}

/// Writes a new file and syncs it; the caller syncs its directory.
pub(crate) fn write_synced(path: &Path, contents: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(contents)?;
    sync(&file)
}

/// Waits until a file or directory is on the disk.
fn sync(file: &File) -> io::Result<()> {
    #[cfg(test)]
    SYNCS.set(SYNCS.get() + 1);
    file.sync_all()
}

#[cfg(test)]
thread_local! {
    /// How often this thread has waited for the disk.
    pub(crate) static SYNCS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// A name that git does not take for anything of its own.
fn temporary_beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.new", unique()))
}

/// A name part that no other call of this process gets; leftovers of others are cleared at open.
pub(crate) fn unique() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}-{next}", std::process::id())
}

pub(crate) fn sync_dir(path: &Path) -> io::Result<()> {
    sync(&File::open(path)?)
}

/// Syncs a directory that others may remove when it is empty.
pub(crate) fn sync_dir_if_there(path: &Path) -> io::Result<()> {
    match sync_dir(path) {
        Err(error) if !is_absent(&error) => Err(error),
        _ => Ok(()),
    }
}

pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), sync_dir)
}

/// Syncs the whole file system that `path` is on: for moves of many files at once.
pub(crate) fn sync_file_system(path: &Path) -> io::Result<()> {
    let dir = File::open(path)?;
    #[cfg(target_os = "linux")]
    rustix::fs::syncfs(&dir)?;
    #[cfg(not(target_os = "linux"))]
    rustix::fs::sync();
    dir.sync_all()
}

/// Makes a directory and its parents below `root`, each synced into its parent.
pub(crate) fn make_dirs(root: &Path, path: &Path) -> io::Result<()> {
    if is_real_dir(path)? || path == root {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        make_dirs(root, parent)?;
    }
    match DirBuilder::new().mode(0o755).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_real_dir(path)? => Ok(()),
        Err(error) => Err(error),
        Ok(()) => sync_parent(path),
    }
}

/// Says whether there is a directory; a symbolic link in its place is an error.
pub(crate) fn is_real_dir(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => Ok(true),
        Ok(metadata) if metadata.is_symlink() => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{} is a symbolic link", path.display()),
        )),
        Ok(_) => Err(io::Error::from(io::ErrorKind::NotADirectory)),
        Err(error) if is_absent(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes a file if it is there.
pub(crate) fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if !is_absent(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Removes the files of a directory whose names match.
pub(crate) fn remove_files(dir: &Path, matches: impl Fn(&str) -> bool) -> io::Result<()> {
    for (name, kind) in entries(dir)? {
        if kind.is_file() && matches(&name) {
            fs::remove_file(dir.join(name))?;
        }
    }
    Ok(())
}

/// Moves a directory into the quarantine in one step that survives a crash, to be removed there.
pub(crate) fn move_away(path: &Path, quarantine: &Path) -> io::Result<PathBuf> {
    let away = quarantine.join(unique());
    fs::rename(path, &away)?;
    sync_parent(path)?;
    Ok(away)
}

/// The entries of a directory with their names as text; none if it is not there.
///
/// Names that are not UTF-8 are left out: nothing here ever makes one.
pub(crate) fn entries(path: &Path) -> io::Result<Vec<(String, fs::FileType)>> {
    let listing = match fs::read_dir(path) {
        Ok(listing) => listing,
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut entries = Vec::new();
    for entry in listing {
        let entry = entry?;
        if let Ok(name) = entry.file_name().into_string() {
            entries.push((name, entry.file_type()?));
        }
    }
    entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    Ok(entries)
}
