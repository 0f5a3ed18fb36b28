//! Repair with what backups have of damaged repositories.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use grip_types::Identifier;
use grip_web::api_types::{DisagreementFacts, RestoredRepository};
use serde::Serialize;

use crate::{
    backup::{BackupPack, Directory, Snapshot},
    cli::NodeRequest,
    commands::{
        client::Node,
        progress::{Progress, size},
        table::Table,
    },
    config::{self, ProcessEnvironment},
};

const PATH: [&str; 4] = ["api", "v1", "check", "restore"];
/// What objects can mend.
const MENDED: [&str; 3] = ["damaged", "missing_object", "lost_tip"];

/// Backups of the node that is checked.
pub(super) struct Backups {
    directory: Directory,
    /// The newest first.
    names: Vec<String>,
    git_program: PathBuf,
}

/// What one backup has of one identifier, or what became of it.
#[derive(Debug, Serialize)]
pub(super) struct Taken {
    identifier: String,
    backup: String,
    /// Of packs: in the backup, or put back where something was.
    bytes: u64,
    /// Whether relay and git agree now; null where nothing was to be changed.
    repaired: Option<bool>,
    /// Why not.
    reason: Option<String>,
}

impl Backups {
    /// Opens a directory of backups, of which one at least is of this node.
    pub(super) fn open(
        root: &Path,
        node: &Node<'_>,
        request: &NodeRequest,
    ) -> anyhow::Result<Self> {
        let settings = config::load(&request.flags, &ProcessEnvironment)?.settings;
        let directory = Directory::open(root)?;
        let mut names = directory.names()?;
        names.reverse();
        let (mut own, mut other) = (Vec::new(), None);
        for name in names {
            let snapshot = directory.read(&name)?;
            if snapshot.is_of(node.data_dir()) {
                own.push(name);
            } else {
                other = Some(snapshot.url);
            }
        }
        match other {
            _ if !own.is_empty() => {}
            Some(url) => bail!(
                "the backups in {} are of another node ({url}), not of {}",
                root.display(),
                node.data_dir().display()
            ),
            None => bail!("there is no backup in {}", root.display()),
        }
        Ok(Self {
            directory,
            names: own,
            git_program: settings.storage.git_program,
        })
    }

    /// Goes through the backups, the newest first, until each damaged identifier is whole; with `repair`
    /// not set, says which backup would be taken.
    pub(super) fn take(
        &self,
        node: &Node<'_>,
        repair: bool,
        found: &mut [DisagreementFacts],
    ) -> anyhow::Result<Vec<Taken>> {
        let is_left = |it: &&DisagreementFacts| {
            it.repaired != Some(true) && MENDED.contains(&it.kind.as_str())
        };
        let damaged = found.iter().filter(is_left);
        let mut damaged: BTreeSet<String> = damaged.map(|it| it.identifier.clone()).collect();
        let mut taken = Vec::new();
        let total = damaged.len() as u64;
        let mut progress = Progress::items("from backup", total);
        for name in &self.names {
            if damaged.is_empty() {
                break;
            }
            let snapshot = self.directory.read(name)?;
            for text in damaged.clone() {
                let identifier =
                    Identifier::parse(&text).context("the node named no identifier")?;
                let Some(one) =
                    self.take_one(node, repair, (name.as_str(), &snapshot), &identifier)
                else {
                    continue;
                };
                if one.repaired != Some(false) {
                    damaged.remove(&text);
                    progress.set(total - damaged.len() as u64, total);
                }
                taken.push(one);
            }
        }
        progress.finish();
        let whole = |it: &Taken| (it.repaired == Some(true)).then(|| it.identifier.clone());
        let whole: BTreeSet<String> = taken.iter().filter_map(whole).collect();
        for facts in found.iter_mut() {
            if whole.contains(&facts.identifier) {
                facts.repaired = Some(true);
            }
        }
        Ok(taken)
    }

    /// None if the backup has nothing of it.
    fn take_one(
        &self,
        node: &Node<'_>,
        repair: bool,
        (name, snapshot): (&str, &Snapshot),
        identifier: &Identifier,
    ) -> Option<Taken> {
        let mut taken = Taken {
            identifier: identifier.as_str().to_owned(),
            backup: name.to_owned(),
            bytes: snapshot.pack_bytes_of(identifier),
            repaired: None,
            reason: None,
        };
        if taken.bytes == 0 {
            return None;
        }
        if !repair {
            return Some(taken);
        }
        match self.restore(node, snapshot, identifier) {
            Ok(restored) => {
                taken.bytes = restored.pack_bytes;
                taken.repaired = Some(restored.disagreements.is_empty());
                let left = restored.disagreements.into_iter().next();
                taken.reason = left.map(|left| left.text);
            }
            Err(error) => {
                taken.bytes = 0;
                taken.repaired = Some(false);
                taken.reason = Some(format!("{error:#}"));
            }
        }
        Some(taken)
    }

    fn restore(
        &self,
        node: &Node<'_>,
        snapshot: &Snapshot,
        identifier: &Identifier,
    ) -> anyhow::Result<RestoredRepository> {
        let pack = self.pack(snapshot, identifier)?;
        let pack = pack.context("the backup has nothing of it")?;
        let parameters = [("identifier", identifier.as_str())];
        let answer = node.upload(&PATH, &parameters, pack.pack.open()?)?;
        serde_json::from_str(&answer).context("the answer cannot be read")
    }

    #[tokio::main(flavor = "current_thread")]
    async fn pack(
        &self,
        snapshot: &Snapshot,
        identifier: &Identifier,
    ) -> anyhow::Result<Option<BackupPack>> {
        let pack = snapshot.pack_of(&self.directory, identifier, &self.git_program);
        pack.await.context("the backup cannot be used")
    }
}

/// What was taken, or would be, for people.
pub(super) fn render(taken: &[Taken]) -> String {
    if taken.is_empty() {
        return String::new();
    }
    let mut table = Table::new(["identifier", "backup", "size", "what"], 3);
    for it in taken {
        let what = match (it.repaired, &it.reason) {
            (None, _) => "would be put back with --repair",
            (Some(true), _) => "put back",
            (Some(false), Some(reason)) => reason,
            (Some(false), None) => "not whole yet",
        };
        table.row([&it.identifier, &it.backup, &size(it.bytes), &what]);
    }
    table.render()
}
