//! The objects of one identifier, taken out of a backup as one pack.

use std::{fs, path::Path};

use anyhow::{Context as _, bail};
use grip_git::{ForeignPack, Options, Repositories};
use grip_types::Identifier;
use tempfile::TempDir;

use super::{Directory, FileEntry, KEYS, Snapshot, Target, blocks::Digest, restore::write};
use crate::commands::progress::Progress;

/// A pack of what a backup has of one identifier; removed on drop.
pub(crate) struct BackupPack {
    pub(crate) pack: ForeignPack,
    _place: TempDir,
}

impl Snapshot {
    /// Whether it is of the node of a data directory: some key of it is here, and is the same. Where none
    /// can be compared, that is for what it holds to prove.
    pub(crate) fn is_of(&self, data_dir: &Path) -> bool {
        let same = |key: &&str| {
            let here = Digest::of(&fs::read(data_dir.join(key)).ok()?);
            Some(*self.blocks_of(key)? == [here])
        };
        KEYS.iter().find_map(same).unwrap_or(true)
    }

    /// The files of an identifier: its store, and the repositories of its owners, whose refs say what of
    /// it is whole.
    fn files_of(&self, identifier: &Identifier) -> impl Iterator<Item = &FileEntry> {
        let directory = format!("{}.git", identifier.encoded());
        self.files.iter().filter(move |file| {
            let mut parts = file.path.splitn(4, '/');
            let [git, owner, name] = [(); 3].map(|()| parts.next().unwrap_or_default());
            git == "git" && name == directory && (owner == ".objects" || owner.starts_with("npub1"))
        })
    }

    /// Bytes of packs that it has of an identifier.
    pub(crate) fn pack_bytes_of(&self, identifier: &Identifier) -> u64 {
        let packs = self
            .files_of(identifier)
            .filter(|file| file.path.starts_with("git/.objects/") && file.path.ends_with(".pack"));
        packs.map(|file| file.size).sum()
    }

    /// Makes one pack of all that the refs of an identifier lead to, every block checked; none if it has
    /// no objects of it.
    pub(crate) async fn pack_of(
        &self,
        directory: &Directory,
        identifier: &Identifier,
        git_program: &Path,
    ) -> anyhow::Result<Option<BackupPack>> {
        if self.pack_bytes_of(identifier) == 0 {
            return Ok(None);
        }
        let place = tempfile::Builder::new().prefix("gripfast-").tempdir();
        let place = place.context("there is no place for temporary files (TMPDIR)")?;
        let target = Target::below(&place.path().join("data"), git_program);
        let bytes = self.files_of(identifier).map(|file| file.size).sum();
        let mut progress = Progress::bytes(format!("read {identifier}"), bytes);
        for file in self.files_of(identifier) {
            write(directory, file, &target.path(&file.path), &mut progress)?;
        }
        progress.finish();
        let options = Options {
            git: git_program.to_owned(),
            ..Options::new(&target.git)
        };
        let repositories = Repositories::open(options)?;
        let mut tips = Vec::new();
        for repo in repositories.list()? {
            let refs = repositories.refs(&repo)?;
            let oids: Vec<_> = refs.iter().map(|found| found.oid).collect();
            let kinds = repositories.kinds(identifier, &oids)?;
            let here = oids.into_iter().zip(kinds);
            tips.extend(here.filter_map(|(oid, kind)| kind.map(|_| oid)));
        }
        if tips.is_empty() {
            bail!("no ref of it leads to an object that is there");
        }
        let directory = format!(".objects/{}.git/objects", identifier.encoded());
        let from = [target.git.join(directory)];
        let pack = repositories.pack_foreign(identifier, &from, &tips).await?;
        Ok(Some(BackupPack {
            pack,
            _place: place,
        }))
    }
}
