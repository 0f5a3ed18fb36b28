//! Packs of objects that lie elsewhere: those of another server, which stay as they are.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::PathBuf,
    sync::Arc,
};

use grip_types::{Identifier, Oid};

use crate::{memory::Payer, repositories::Repositories};

use super::{Packs, QuarantineDir, RepackError, pack_dir, size::StoreSize};

/// A pack in the quarantine. Dropping it removes it.
#[must_use = "dropping the pack removes it"]
pub struct ForeignPack {
    _dir: QuarantineDir,
    path: PathBuf,
}

impl ForeignPack {
    pub fn open(&self) -> io::Result<File> {
        File::open(&self.path)
    }
}

impl Repositories {
    /// Writes a pack of everything that `tips` reach among the objects of `from`, which are absolute
    /// paths of `objects` directories. Nothing of them is changed.
    ///
    /// `identifier` says whose share of the memory that takes.
    pub async fn pack_foreign(
        &self,
        identifier: &Identifier,
        from: &[PathBuf],
        tips: &[Oid],
    ) -> Result<ForeignPack, RepackError> {
        self.inner.packs.pack_foreign(identifier, from, tips).await
    }
}

impl Packs {
    async fn pack_foreign(
        self: &Arc<Self>,
        identifier: &Identifier,
        from: &[PathBuf],
        tips: &[Oid],
    ) -> Result<ForeignPack, RepackError> {
        let dir = self.quarantine_dir_apart(identifier)?;
        let mut bytes = 0;
        for objects in from {
            bytes = StoreSize::of(&pack_dir(objects))?
                .memory_to_repack()
                .max(bytes);
        }
        let memory = self.memory.acquire(Payer::Maintenance, identifier, bytes);
        let memory = memory.await?;
        let arguments = ["pack-objects", "--revs", "--quiet", "--delta-base-offset"];
        let mut command = self.git.command(arguments);
        command
            .arg(dir.pack_prefix())
            .env("GIT_DIR", self.layout.empty())
            .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", object_path(from));
        let input = tips.iter().map(|tip| format!("{tip}\n").into_bytes());
        let hash = self.run_pack_objects(command, &memory, input).await?;
        let hash = hash.ok_or_else(|| RepackError::Git("it wrote no pack".into()))?;
        let path = dir
            .pack_prefix()
            .with_file_name(format!("pack-{hash}.pack"));
        Ok(ForeignPack { _dir: dir, path })
    }
}

/// The paths as git reads them from its environment: each quoted, since a name may have a colon.
fn object_path(paths: &[PathBuf]) -> OsString {
    let quote = |path: &PathBuf| {
        let mut quoted = vec![b'"'];
        for byte in path.as_os_str().as_bytes() {
            if matches!(byte, b'"' | b'\\') {
                quoted.push(b'\\');
            }
            quoted.push(*byte);
        }
        quoted.push(b'"');
        OsString::from_vec(quoted)
    };
    let quoted: Vec<OsString> = paths.iter().map(quote).collect();
    quoted.join(OsStr::new(":"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_for_git() {
        let paths = ["/a/b:c".into(), "/d \"e\\".into()];
        assert_eq!(object_path(&paths), r#""/a/b:c":"/d \"e\\""#);
    }
}
