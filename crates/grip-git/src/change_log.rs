//! Log of changes, which other copies of the repositories follow.
//!
//! ```text
//!  change ──store_pack──▶ ChangeLog ──▶ every other copy: Repositories::apply_logged
//!         ──append─────▶
//!  made here once it is logged
//! ```
//!
//! A change is logged under the lock of its identifier, so that the log has the changes of one
//! identifier in the order in which they are made. Where nobody follows, there is no log and no cost.

mod state;

use std::{fmt, io, path::PathBuf, sync::Arc};

use grip_types::{Identifier, Oid, RefEdit, RefName, RepoAddr};
use serde::{Deserialize, Serialize};

pub use self::state::LoggedState;
use crate::{refs::Ref, staged_uploads::StagedUpload};

/// Where changes are made durable for all copies.
pub trait ChangeLog: Send + Sync {
    /// Stores the files of a pack where every copy finds them. Blocks.
    fn store_pack(&self, files: Vec<PathBuf>) -> io::Result<Vec<PackFile>>;

    /// Logs a change and returns its number in the log; it is made here only if this succeeds. Blocks.
    fn append(&self, change: LoggedChange) -> io::Result<u64>;

    /// The change of this number is made here, too.
    fn applied(&self, seq: u64);

    /// A change that was logged could not be made here: this copy is not what the log says.
    fn failed(&self, seq: u64);
}

/// A file of a pack in the store of all copies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackFile {
    pub extension: String,
    pub size_bytes: u64,
    /// Of its content, hexadecimal.
    pub digest: String,
    /// Tells it from files of the same content that were stored earlier, and may be removed any moment.
    #[serde(default, skip_serializing_if = "is_first")]
    pub generation: u64,
}

fn is_first(generation: &u64) -> bool {
    *generation == 0
}

/// A pack in the store of all copies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredPack {
    /// The name of its files, without their extensions.
    pub name: String,
    pub files: Vec<PackFile>,
}

/// A ref as it is after a change; without an object it is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetRef {
    pub name: RefName,
    pub oid: Option<Oid>,
    /// What an annotated tag leads to, and otherwise the object itself: copies set refs before they have
    /// the objects. A copy that is not told has to fetch them first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peeled: Option<Oid>,
}

/// An upload that no event names, and its files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagedPack {
    #[serde(flatten)]
    pub(crate) upload: StagedUpload,
    pub(crate) files: Vec<PackFile>,
}

impl SetRef {
    /// A ref that is gone.
    pub(crate) fn none(name: &RefName) -> Self {
        Self {
            name: name.clone(),
            oid: None,
            peeled: None,
        }
    }

    /// What an edit sets, where `after` has the refs by name after it.
    pub(crate) fn of(edit: &RefEdit, after: &[Ref]) -> Self {
        let at = after.binary_search_by(|found| found.name.cmp(&edit.name));
        Self {
            name: edit.name.clone(),
            oid: edit.new,
            peeled: at.ok().map(|at| after[at].peeled.unwrap_or(after[at].oid)),
        }
    }
}

/// A change of what lies on disk. Each says what is from then on, so that to make the last few again, in
/// their order, leads to the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum LoggedChange {
    /// A pack in the store of an identifier.
    Pack {
        identifier: Identifier,
        #[serde(flatten)]
        pack: StoredPack,
    },
    /// Packs of an identifier, in the place of others.
    ReplacePacks {
        identifier: Identifier,
        added: Vec<StoredPack>,
        /// Names of those that are not part of the store any more.
        removed: Vec<String>,
        /// Objects that were in those that are removed are gone for good.
        #[serde(default)]
        is_collected: bool,
    },
    /// All objects of an identifier are gone.
    RemoveStore { identifier: Identifier },
    Create {
        #[serde(with = "repository_path")]
        repo: RepoAddr,
    },
    Refs {
        #[serde(with = "repository_path")]
        repo: RepoAddr,
        refs: Vec<SetRef>,
        head: Option<RefName>,
        /// Uploads that no event names, which the refs rest on.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        staged: Vec<StagedPack>,
    },
    /// Refs that could not be read were put aside.
    ClearRefs {
        #[serde(with = "repository_path")]
        repo: RepoAddr,
    },
    Archive {
        #[serde(with = "repository_path")]
        repo: RepoAddr,
        stamp: u64,
    },
    Restore {
        #[serde(with = "repository_path")]
        repo: RepoAddr,
        stamp: u64,
    },
    Remove {
        #[serde(with = "repository_path")]
        repo: RepoAddr,
    },
    RemoveArchive {
        #[serde(with = "repository_path")]
        repo: RepoAddr,
        stamp: u64,
    },
}

impl LoggedChange {
    /// The identifier whose objects or refs change.
    pub fn identifier(&self) -> &Identifier {
        match self {
            Self::Pack { identifier, .. }
            | Self::ReplacePacks { identifier, .. }
            | Self::RemoveStore { identifier } => identifier,
            Self::Create { repo }
            | Self::Refs { repo, .. }
            | Self::ClearRefs { repo }
            | Self::Archive { repo, .. }
            | Self::Restore { repo, .. }
            | Self::Remove { repo }
            | Self::RemoveArchive { repo, .. } => &repo.identifier,
        }
    }

    /// The files that a copy may fetch because of this change.
    pub fn files(&self) -> impl Iterator<Item = &PackFile> {
        let (own, added, staged): (&[PackFile], &[StoredPack], &[StagedPack]) = match self {
            Self::Pack { pack, .. } => (&pack.files, &[], &[]),
            Self::ReplacePacks { added, .. } => (&[], added, &[]),
            Self::Refs { staged, .. } => (&[], &[], staged),
            _ => (&[], &[], &[]),
        };
        let added = added.iter().flat_map(|pack| &pack.files);
        let staged = staged.iter().flat_map(|pack| &pack.files);
        own.iter().chain(added).chain(staged)
    }
}

/// A repository by its path below the root.
mod repository_path {
    use grip_types::RepoAddr;
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(repo: &RepoAddr, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&repo.path())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<RepoAddr, D::Error> {
        let path = String::deserialize(from)?;
        let segments: Vec<&str> = path.split('/').collect();
        let repo = match segments[..] {
            [npub, name] => RepoAddr::from_segments(npub, name),
            ["prs", npub, name] => RepoAddr::contributor_from_segments(npub, name),
            _ => None,
        };
        repo.ok_or_else(|| de::Error::custom("no path of a repository"))
    }
}

/// The log, where there is one.
#[derive(Clone, Default)]
pub struct LoggedBy(Option<Arc<dyn ChangeLog>>);

impl fmt::Debug for LoggedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let logged = if self.is_some() { "a log" } else { "nothing" };
        f.debug_tuple("LoggedBy").field(&logged).finish()
    }
}

/// A change that is logged and about to be made.
#[must_use = "whether the change was made has to be told"]
pub(crate) struct Begun<'l>(Option<(&'l dyn ChangeLog, u64)>);

impl Begun<'_> {
    pub(crate) fn end<T, E>(self, made: &Result<T, E>) {
        match (self.0, made) {
            (Some((log, seq)), Ok(_)) => log.applied(seq),
            (Some((log, seq)), Err(_)) => log.failed(seq),
            (None, _) => {}
        }
    }
}

impl LoggedBy {
    pub fn new(log: Arc<dyn ChangeLog>) -> Self {
        Self(Some(log))
    }

    pub(crate) fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// Logs a change that is made next.
    pub(crate) fn begin(&self, change: impl FnOnce() -> LoggedChange) -> io::Result<Begun<'_>> {
        let Some(log) = &self.0 else {
            return Ok(Begun(None));
        };
        let seq = log.append(change())?;
        grip_tasks::fault::point("cluster.change_logged");
        Ok(Begun(Some((&**log, seq))))
    }

    /// Logs a change, then makes it.
    pub(crate) fn before<T>(
        &self,
        change: impl FnOnce() -> LoggedChange,
        make: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let begun = self.begin(change)?;
        let made = make();
        begun.end(&made);
        made
    }

    /// Stores a pack for all copies, if there are any.
    pub(crate) fn store_pack(
        &self,
        files: impl IntoIterator<Item = PathBuf>,
    ) -> io::Result<Vec<PackFile>> {
        match &self.0 {
            Some(log) => log.store_pack(files.into_iter().collect()),
            None => Ok(Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_back_as_they_were() {
        let npub = "npub10xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqpkge6d";
        let repo = RepoAddr::from_segments(npub, "na%C3%AFve%20name.git").expect("valid");
        let oid = Oid::parse("1f2e3d4c5b6a79880123456789abcdef01234567").expect("valid");
        let name = RefName::parse("refs/heads/main").expect("valid");
        let refs = vec![
            SetRef {
                name: name.clone(),
                oid: Some(oid),
                peeled: Some(oid),
            },
            SetRef::none(&RefName::parse("refs/tags/v1").expect("valid")),
        ];
        let file = PackFile {
            extension: "pack".to_owned(),
            size_bytes: 7,
            digest: "00".to_owned(),
            generation: 3,
        };
        let staged = StagedPack {
            upload: StagedUpload {
                pack: "pack-2".to_owned(),
                bytes: 9,
                sender: None,
                tips: vec![(name.clone(), oid)],
            },
            files: vec![file.clone()],
        };
        let changes = [
            LoggedChange::Pack {
                identifier: repo.identifier.clone(),
                pack: StoredPack {
                    name: "pack-1".to_owned(),
                    files: vec![file.clone()],
                },
            },
            LoggedChange::ReplacePacks {
                identifier: repo.identifier.clone(),
                added: vec![StoredPack {
                    name: "pack-3".to_owned(),
                    files: vec![file],
                }],
                removed: vec!["pack-1".to_owned()],
                is_collected: true,
            },
            LoggedChange::Create { repo: repo.clone() },
            LoggedChange::Refs {
                repo: repo.clone(),
                refs,
                head: Some(name),
                staged: vec![staged],
            },
            LoggedChange::Archive { repo, stamp: 5 },
        ];
        for change in changes {
            let text = serde_json::to_string(&change).unwrap();
            let read: LoggedChange = serde_json::from_str(&text).unwrap();
            assert_eq!(read, change, "{text}");
        }
    }
}
