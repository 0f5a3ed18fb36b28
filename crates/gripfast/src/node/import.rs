//! Moving in from ngit-grasp: its repositories and events are read where they lie, and nothing of
//! them is changed (§19 of its layout).
//!
//! Repositories are put where the start takes over those of other servers; events go through the
//! same checks and admission as those that clients send, and tips of contributors through those of
//! pushes. What was removed or replaced is kept unseen, as it was. So a run may be cut off anywhere and
//! be repeated: what is here already is found and left alone.

mod archives;
mod contributors;
mod events;
mod layout;
mod lifecycle;
mod tarball;
mod target;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, ensure};
use grip_store::nostr_lmdb;
use serde::Serialize;

pub(crate) use self::layout::check_own;
use self::{archives::Archive, events::Source, layout::View, lifecycle::Lifecycle, target::Target};
use super::lock::DirLock;
use crate::{commands::progress::Progress, config::Settings, private_file};

/// Where the other server kept things.
#[derive(Debug)]
pub(crate) struct Directories {
    pub(crate) git: PathBuf,
    /// A directory with its event store, or a file with an event a line.
    pub(crate) relay: PathBuf,
    /// The file with its key, where that is to be taken over.
    pub(crate) key: Option<PathBuf>,
}

/// What was found, and what became of it.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) layout: &'static str,
    pub(crate) repositories: Counts,
    /// Tips of pull requests in contributor repositories.
    pub(crate) contributions: Counts,
    /// Removed repositories.
    pub(crate) archives: Counts,
    pub(crate) events: Counts,
    /// Versions of announcements and states that others replaced.
    pub(crate) history: Counts,
    /// Removed events.
    pub(crate) holding: Counts,
    /// Requests to delete and to vanish that go on where they were.
    pub(crate) request_times: u64,
    /// Branches and tags that are not what the other server had, with the reason.
    pub(crate) differing_refs: Vec<String>,
    /// Things that were left out, by their reason.
    pub(crate) skipped: BTreeMap<String, u64>,
    pub(crate) key_taken: bool,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct Counts {
    pub(crate) found: u64,
    pub(crate) taken: u64,
    pub(crate) already_here: u64,
    /// Events that wait for git data.
    pub(crate) held: u64,
}

impl Report {
    fn skip(&mut self, why: impl Into<String>) {
        *self.skipped.entry(why.into()).or_default() += 1;
    }
}

/// Says what an import would find; writes nothing.
pub(crate) fn look(from: &Directories, settings: &Settings) -> anyhow::Result<Report> {
    let (found, mut report) = survey(from)?;
    for view in &found.views {
        let is_here = settings.git_data_path().join(view.place()).exists();
        report.repositories.already_here += u64::from(is_here);
    }
    for view in &found.contributors {
        report.contributions.found += view.refs()?.len() as u64;
    }
    Lifecycle::read(&from.relay)?.count(&mut report);
    let source = Source::open(from)?;
    let (events, unreadable) = source.read()?;
    report.events.found = events.len() as u64;
    for event in &events {
        if event.verify().is_err() {
            report.skip("events with a wrong id or signature");
        }
    }
    for _ in 0..unreadable {
        report.skip("events that cannot be read");
    }
    Ok(report)
}

/// Takes everything over.
pub(crate) async fn run(from: &Directories, settings: &Settings) -> anyhow::Result<Report> {
    check_own(&settings.git_data_path())?;
    let (found, mut report) = survey(from)?;
    let source = Source::open(from)?;
    let lifecycle = Lifecycle::read(&from.relay)?;
    let _lock = DirLock::take(&[
        &settings.storage.data_dir,
        &settings.git_data_path(),
        &settings.relay_data_path(),
    ])?;
    crate::backup::check_finished(&settings.storage.data_dir)?;
    if let Some(file) = &from.key {
        take_key(file, settings)?;
        report.key_taken = true;
    }
    let mut progress = Progress::items("repositories", found.views.len() as u64);
    for view in &found.views {
        match view.copy(&settings.git_data_path()) {
            Ok(true) => report.repositories.taken += 1,
            Ok(false) => report.repositories.already_here += 1,
            Err(error) => report.skip(format!("{}: {error:#}", view.addr)),
        }
        progress.add(1);
    }
    progress.finish();
    let target = Target::start(settings).await?;
    target
        .take_contributions(&found.contributors, &mut report)
        .await;
    target.take_events(&source, &mut report).await?;
    // What is served decides what of the rest is kept.
    let vanished = lifecycle.vanished_archives();
    target.take_lifecycle(lifecycle, &mut report).await?;
    target
        .take_archives(found.archives, &vanished, &mut report)
        .await?;
    target.compare(&found.views, &mut report);
    if target.grasp.serves_contributors() {
        target.compare(&found.contributors, &mut report);
    }
    target.stop().await;
    Ok(report)
}

/// What a directory of repositories holds.
struct Found {
    views: Vec<View>,
    contributors: Vec<View>,
    archives: Vec<Archive>,
}

fn survey(from: &Directories) -> anyhow::Result<(Found, Report)> {
    let kind = layout::detect(&from.git)?;
    let mut report = Report {
        layout: kind.name(),
        ..Report::default()
    };
    let (views, no_views) = kind.views(&from.git)?;
    let (contributors, no_contributors) = kind.contributors(&from.git)?;
    let (archives, no_archives) = archives::list(kind, &from.git)?;
    for why in [no_views, no_contributors, no_archives].concat() {
        report.skip(why);
    }
    report.repositories.found = views.len() as u64;
    report.archives.found = archives.len() as u64;
    let found = Found {
        views,
        contributors,
        archives,
    };
    Ok((found, report))
}

/// Keeps the identity of the other service (L-11).
fn take_key(file: &Path, settings: &Settings) -> anyhow::Result<()> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {shown}"))?;
    let keys = nostr::prelude::Keys::parse(text.trim()).ok();
    let keys = keys.with_context(|| format!("{shown} holds no private key"))?;
    let place = settings.storage.data_dir.join(super::identity::KEY_FILE);
    let secret = keys.secret_key().to_secret_hex();
    private_file::put(&place, &secret).with_context(|| format!("cannot keep {}", place.display()))
}

/// Fails where the other server still runs.
fn check_stopped(relay: &Path) -> anyhow::Result<()> {
    let unused = nostr_lmdb::check_unused(relay);
    ensure!(
        unused.is_ok(),
        "{} is in use: stop ngit-grasp first",
        relay.display()
    );
    Ok(())
}
