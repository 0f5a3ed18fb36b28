//! Repositories that ngit-grasp removed: thin ones in tar archives, whose objects are in their family.

use std::{
    collections::{BTreeSet, HashSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail, ensure};
use grip_git::Archived;
use grip_grasp::TakenBack;
use grip_nostr::RepoAddr;
use grip_types::Identifier;

use super::{
    Report,
    layout::{self, HALF, Layout},
    tarball,
    target::Target,
};
use crate::commands::progress::Progress;

const VANISHED: &str = "archives: their owners have asked to vanish";

/// One of them.
#[derive(Clone, Debug)]
pub(super) struct Archive {
    archived: Archived,
    path: PathBuf,
    /// Objects that it shares with others of its name.
    family: Option<PathBuf>,
}

/// Every archive, in the order of owners and names; and why others are left out.
pub(super) fn list(layout: Layout, git: &Path) -> anyhow::Result<(Vec<Archive>, Vec<String>)> {
    let (mut archives, mut strange) = (Vec::new(), Vec::new());
    let root = git.join(".archive");
    if !root.is_dir() {
        return Ok((archives, strange));
    }
    for owner in layout::directories(&root)? {
        let Some(key) = RepoAddr::parse_npub(&owner) else {
            strange.push(format!(".archive/{owner}: is no owner"));
            continue;
        };
        let mut entries: Vec<String> = Vec::new();
        for entry in fs::read_dir(root.join(&owner))? {
            entries.extend(entry?.file_name().into_string());
        }
        entries.sort();
        for name in entries {
            let Some((identifier, stamp)) = parts(&name) else {
                strange.push(format!(
                    ".archive/{owner}/{name}: is no archived repository"
                ));
                continue;
            };
            let family = layout.family(git, &format!("{identifier}.git"));
            archives.push(Archive {
                path: root.join(&owner).join(&name),
                archived: Archived {
                    repo: RepoAddr::new(key, identifier),
                    stamp,
                },
                family,
            });
        }
    }
    Ok((archives, strange))
}

/// Identifier and time in the name of an archive: `<identifier>-<unix seconds>.tar.gz`.
fn parts(name: &str) -> Option<(Identifier, u64)> {
    let (identifier, stamp) = name.strip_suffix(".tar.gz")?.rsplit_once('-')?;
    let identifier = Identifier::parse(identifier).ok()?;
    Some((identifier, stamp.parse().ok()?))
}

impl Archive {
    /// Its path below the directory of archives.
    fn name(&self) -> String {
        let file = self.path.file_name().unwrap_or_default().to_string_lossy();
        format!("{}/{file}", self.archived.repo.npub())
    }

    /// Makes a repository of it at `to`, with the objects of its family.
    fn lay_out(&self, to: &Path) -> anyhow::Result<()> {
        let identifier = &self.archived.repo.identifier;
        tarball::unpack(&self.path, &format!("{identifier}.git"), to)?;
        if layout::is_sha256(to) {
            bail!("SHA-256 repositories are not served");
        }
        if let Some(family) = &self.family {
            let has_own = to.join("objects/pack").is_dir();
            ensure!(
                family.is_dir() || has_own,
                "the objects of its name are gone"
            );
            layout::take_objects(&family.join("objects"), &to.join("objects"))?;
        }
        layout::complete(to)
    }
}

impl Target {
    /// Takes the archived repositories over (L-9), with the time of their removal; those in `vanished`
    /// are left out.
    pub(super) async fn take_archives(
        &self,
        archives: Vec<Archive>,
        vanished: &HashSet<String>,
        report: &mut Report,
    ) -> anyhow::Result<()> {
        let listed = self.repositories.archives();
        let (known, _) = listed.context("cannot read the archive")?;
        let known: BTreeSet<Archived> = known.into_iter().collect();
        let half = self.repositories.options().root.join(HALF);
        let mut progress = Progress::items("archived repositories", archives.len() as u64);
        for archive in archives {
            let name = archive.name();
            if known.contains(&archive.archived) {
                report.archives.already_here += 1;
            } else if vanished.contains(&name) {
                report.skip(VANISHED);
            } else {
                match self.take_archive(archive, &half).await {
                    Ok(TakenBack::Stored) => report.archives.taken += 1,
                    Ok(TakenBack::Duplicate) => report.archives.already_here += 1,
                    Ok(TakenBack::TooOld) => report.skip("archives: removed too long ago"),
                    Ok(TakenBack::Vanished) => report.skip(VANISHED),
                    Err(error) => report.skip(format!(".archive/{name}: {error:#}")),
                }
            }
            progress.add(1);
        }
        progress.finish();
        layout::clear(&half)
    }

    async fn take_archive(&self, archive: Archive, half: &Path) -> anyhow::Result<TakenBack> {
        // Two levels below the root, as a repository lies: what it borrows from is named by that.
        let place = half.join("archived");
        let (from, half, source) = (place.clone(), half.to_owned(), archive.clone());
        let laid_out = self.group.spawn_blocking("import.archive", move || {
            layout::clear(&half)?;
            source.lay_out(&from)
        });
        laid_out.await.context("the import was interrupted")??;
        Ok(self.grasp.take_archive(archive.archived, place).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_archives_are_parted_at_their_last_dash() {
        let read = |name| parts(name).map(|(id, stamp)| (id.to_string(), stamp));
        assert_eq!(read("a-b-17.tar.gz"), Some(("a-b".to_owned(), 17)));
        for name in [
            "a-17.tar",
            "a.tar.gz",
            "a-b.tar.gz",
            "-17.tar.gz",
            "a-17.tar.gz.tmp",
        ] {
            assert_eq!(read(name), None, "{name}");
        }
    }
}
