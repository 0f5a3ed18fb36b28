//! The way of a data directory into its cluster: it goes on where it was, or begins with a snapshot.
//!
//! A snapshot is taken over by an empty directory. What was there before goes first, and the note that says
//! so is durable before anything is touched: the next start begins again what was cut short.

use std::{fs, io};

use anyhow::Context as _;
use grip_cluster::{Cluster, Joining, Noted, Position, Snapshot, Tip};

use crate::config::Settings;

/// Where a data directory goes on.
pub(super) enum Begin {
    /// After this record.
    Log(Tip),
    /// With a snapshot, and nothing of what was here.
    Snapshot(Snapshot),
    /// Nothing of the cluster is here, and there may be no snapshot.
    New(Option<Snapshot>),
}

/// Finds out where this data directory goes on, before anybody uses it; empties one that was away for too
/// long.
pub(super) async fn prepare(
    settings: &Settings,
    cluster: &Cluster,
    position: &Position,
) -> anyhow::Result<Begin> {
    let state = cluster.state().await?;
    let state = state.context("the database does not know the cluster any more")?;
    let snapshots = cluster.snapshots().await?;
    let trimmed = u64::try_from(state.trimmed).unwrap_or_default();
    let noted = position.read()?;
    match &noted {
        None => return Ok(Begin::New(snapshots.into_iter().next())),
        Some(Noted { tip, joining: None }) if tip.seq >= trimmed => {
            return Ok(Begin::Log(tip.clone()));
        }
        Some(Noted {
            joining: Some(joining),
            ..
        }) if joining.is_emptied => {
            let same = snapshots.iter().find(|it| it.object == joining.snapshot);
            if let Some(same) = same {
                return Ok(Begin::Snapshot(same.clone()));
            }
        }
        Some(Noted { tip, joining: None }) => tracing::warn!(
            seq = tip.seq,
            trimmed,
            "this node was away for longer than the cluster's log is kept; it begins with the newest snapshot"
        ),
        Some(_) => {}
    }
    let newest = snapshots.into_iter().next();
    let newest =
        newest.context("the log of the cluster was trimmed, and the database knows no snapshot")?;
    note(position, &newest, false)?;
    empty(settings).context("cannot remove what this node had of the cluster")?;
    note(position, &newest, true)?;
    Ok(Begin::Snapshot(newest))
}

/// Notes where an empty directory begins.
pub(super) fn begin(position: &Position, newest: Option<&Snapshot>) -> anyhow::Result<Tip> {
    let begin = Tip::default();
    match newest {
        Some(newest) => note(position, newest, true)?,
        None => position.write(&begin)?,
    }
    Ok(begin)
}

fn note(position: &Position, newest: &Snapshot, is_emptied: bool) -> anyhow::Result<()> {
    let joining = Joining {
        snapshot: newest.object.clone(),
        is_emptied,
    };
    Ok(position.begin_joining(joining)?)
}

/// Removes events and repositories, all of which are the cluster's: nothing else gets into such a directory.
fn empty(settings: &Settings) -> io::Result<()> {
    match fs::remove_dir_all(settings.relay_data_path().join("events")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    grip_git::remove_all(&settings.git_data_path())
}
