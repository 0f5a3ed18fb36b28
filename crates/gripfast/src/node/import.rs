//! Moving in from ngit-grasp: its repositories and events are read where they lie, and nothing of
//! them is changed (§19 of its layout).
//!
//! Repositories are put where the start takes over those of other servers; events go through the
//! same checks and admission as those that clients send. So a run may be cut off anywhere and be
//! repeated: what is here already is found and left alone.

mod events;
mod layout;

use std::{
    collections::{BTreeMap, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use arc_swap::ArcSwap;
use grip_git::Repositories;
use grip_grasp::Grasp;
use grip_nostr::{Event, RepoAddr, kinds};
use grip_relay::{Relay, WritePolicy};
use grip_store::{EventStore, EventView as _, nostr_lmdb};
use grip_tasks::{Ended, TaskGroup};
use grip_types::{EventSource, Origin};
use serde::Serialize;

pub(crate) use self::layout::check_own;
use self::{events::Source, layout::View};
use super::{component_settings, components::open, database, identity::Identity, lock::DirLock};
use crate::{commands::progress::Progress, config::Settings, private_file};

/// Events that are decided together.
const BATCH: usize = 256;
/// More than anything that waits. Bounds of what waits are for strangers, and here all of an owner's
/// announcements come before the first state.
const NO_BOUND: usize = usize::MAX >> 8;
/// Longer than an import takes. A sweep would archive repositories whose announcement is still to be
/// decided.
const NEVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// How long the last writes may take.
const END_TIMEOUT: Duration = Duration::from_secs(30);

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
    pub(crate) events: Counts,
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
    let (views, mut report) = survey(from)?;
    for view in &views {
        let is_here = settings.git_data_path().join(view.place()).exists();
        report.repositories.already_here += u64::from(is_here);
    }
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
    let (views, mut report) = survey(from)?;
    let source = Source::open(from)?;
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
    let mut progress = Progress::items("repositories", views.len() as u64);
    for view in &views {
        match view.copy(&settings.git_data_path()) {
            Ok(true) => report.repositories.taken += 1,
            Ok(false) => report.repositories.already_here += 1,
            Err(error) => report.skip(format!("{}: {error:#}", view.addr)),
        }
        progress.add(1);
    }
    progress.finish();
    let target = Target::start(settings).await?;
    target.take_events(&source, &mut report).await?;
    target.compare(&views, &mut report);
    target.stop().await;
    Ok(report)
}

fn survey(from: &Directories) -> anyhow::Result<(Vec<View>, Report)> {
    let kind = layout::detect(&from.git)?;
    let mut report = Report {
        layout: kind.name(),
        ..Report::default()
    };
    let (views, strange) = kind.views(&from.git)?;
    for why in strange {
        report.skip(why);
    }
    report.repositories.found = views.len() as u64;
    Ok((views, report))
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

/// This node as far as an import needs it: nobody connects, nothing is fetched.
struct Target {
    relay: Relay,
    policy: Arc<dyn WritePolicy>,
    store: EventStore,
    repositories: Repositories,
    db: grip_db::Db,
    group: TaskGroup,
}

impl Target {
    async fn start(settings: &Settings) -> anyhow::Result<Self> {
        let group = TaskGroup::new("import");
        let (store, repositories) = open(settings, &group).await?;
        let db = database::open(settings).await?;
        let identity = Identity::open(settings)?;
        let service = settings.service();
        let policy = component_settings::policy(settings, &service, &identity);
        let limits = component_settings::relay(settings);
        let (relay, writer) = Relay::start(store.clone(), limits, &group);
        let grasp = Grasp::start(grip_grasp::Parts {
            store: store.clone(),
            writer,
            db: db.clone(),
            repositories: repositories.clone(),
            policy: Arc::new(ArcSwap::from_pointee(policy)),
            bounds: grip_grasp::Bounds {
                per_author: NO_BOUND,
                per_author_bytes: NO_BOUND,
                per_identifier: NO_BOUND,
                per_identifier_bytes: NO_BOUND,
                total: NO_BOUND,
                total_bytes: NO_BOUND,
                ..component_settings::bounds(settings)
            },
            keep: component_settings::keep(settings),
            lifecycle: component_settings::lifecycle(settings),
            sweep_every: NEVER,
            group: group.child("grasp"),
        })
        .await
        .context("cannot recover the state of the last run")?;
        Ok(Self {
            relay,
            policy: Arc::new(grasp),
            store,
            repositories,
            db,
            group,
        })
    }

    /// Has every event decided, in the order in which they depend on each other. What is refused
    /// for want of something that may still come is decided again as long as anything comes.
    async fn take_events(&self, source: &Source, report: &mut Report) -> anyhow::Result<()> {
        let (mut waiting, unreadable) = source.read()?;
        report.events.found = waiting.len() as u64;
        for _ in 0..unreadable {
            report.skip("events that cannot be read");
        }
        events::order(&mut waiting, report);
        let mut progress = Progress::items("events", waiting.len() as u64);
        let (mut held, mut announced) = (Vec::new(), HashSet::new());
        loop {
            let mut refused = Vec::new();
            let before = waiting.len();
            for batch in events::batches(waiting, BATCH) {
                let (batch, unannounced) = self.part_unannounced(batch, &announced)?;
                let why = |event| (event, events::UNANNOUNCED.to_owned());
                refused.extend(unannounced.into_iter().map(why));
                let texts = batch.iter().map(events::message).collect();
                let source = EventSource::from(Origin::Submitted);
                let admissions = self.relay.admit(&self.policy, texts, source).await;
                for (event, admission) in batch.into_iter().zip(admissions) {
                    let answer = admission.answer;
                    match answer.prefix() {
                        Some("duplicate") => report.events.already_here += 1,
                        _ if !answer.accepted => {
                            refused.push((event, answer.message));
                            continue;
                        }
                        Some("purgatory") => held.push(event.id),
                        _ => report.events.taken += 1,
                    }
                    announced.extend(events::announced(&event));
                    progress.add(1);
                }
            }
            let has_moved = refused.len() < before;
            let (again, last): (Vec<_>, Vec<_>) = refused
                .into_iter()
                .partition(|(_, why)| has_moved && events::may_come(why));
            for (event, why) in last {
                report.skip(format!("events of kind {}: {why}", event.kind.as_u16()));
                progress.add(1);
            }
            if again.is_empty() {
                break;
            }
            waiting = again.into_iter().map(|(event, _)| event).collect();
        }
        progress.finish();
        // What was held may have been released by what came after it.
        let view = self.store.read().context("cannot read the events")?;
        for id in held {
            let is_served = view.contains(&id).context("cannot read the events")?;
            let counts = &mut report.events;
            counts.taken += u64::from(is_served);
            counts.held += u64::from(!is_served);
        }
        Ok(())
    }

    /// Parts states from a batch whose announcement is neither here nor was taken. Admission waits for
    /// it a moment each, as it may be on its way from a client.
    fn part_unannounced(
        &self,
        batch: Vec<Event>,
        announced: &HashSet<String>,
    ) -> anyhow::Result<(Vec<Event>, Vec<Event>)> {
        let view = self.store.read().context("cannot read the events")?;
        let (mut kept, mut parted) = (Vec::new(), Vec::new());
        for event in batch {
            let is_announced = match events::needed_announcement(&event) {
                None => true,
                Some(name) if announced.contains(name) => true,
                Some(name) => {
                    let found = view.with_d(kinds::ANNOUNCEMENT, name);
                    !found.context("cannot read the events")?.is_empty()
                }
            };
            if is_announced {
                kept.push(event);
            } else {
                parted.push(event);
            }
        }
        Ok((kept, parted))
    }

    /// Compares the branches and tags of every repository with those of the other server (L-4).
    fn compare(&self, views: &[View], report: &mut Report) {
        for view in views {
            let expected = match view.refs() {
                Ok(refs) => refs,
                Err(error) => {
                    report.skip(format!("{}: refs cannot be read: {error:#}", view.addr));
                    continue;
                }
            };
            let found = self.refs(&view.addr);
            for (name, oid) in &expected {
                match found.get(name) {
                    Some(ours) if ours == oid => {}
                    Some(ours) => report
                        .differing_refs
                        .push(format!("{} {name}: {oid} there, {ours} here", view.addr)),
                    None => report
                        .differing_refs
                        .push(format!("{} {name}: {oid} there, nothing here", view.addr)),
                }
            }
        }
    }

    fn refs(&self, addr: &RepoAddr) -> BTreeMap<String, String> {
        let Ok(refs) = self.repositories.refs(addr) else {
            return BTreeMap::new();
        };
        let pairs = refs
            .iter()
            .map(|it| (it.name.to_string(), it.oid.to_string()));
        pairs.collect()
    }

    async fn stop(self) {
        if let Ended::Aborted { left } = self.group.shutdown(END_TIMEOUT).await {
            tracing::warn!(left, "tasks of the import were cut off");
        }
        self.relay.stop().await;
        self.db.close().await;
    }
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
