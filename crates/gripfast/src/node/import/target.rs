//! This node as far as an import needs it: nobody connects, nothing is fetched.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use arc_swap::ArcSwap;
use grip_git::Repositories;
use grip_grasp::Grasp;
use grip_nostr::{Event, RepoAddr, kinds};
use grip_relay::{Relay, WritePolicy};
use grip_store::{EventStore, EventView as _};
use grip_tasks::{Ended, TaskGroup};
use grip_types::{EventSource, Origin};

use super::{
    super::{cluster, component_settings, components::open, database, identity::Identity},
    Report,
    events::{self, Source},
    layout::View,
};
use crate::{
    commands::progress::Progress,
    config::{MAX_EVENT_BYTES, Settings},
};

/// Events that are decided together.
pub(super) const BATCH: usize = 256;
/// More than anything that waits. Bounds of what waits are for strangers, and here all of an owner's
/// announcements come before the first state.
const NO_BOUND: usize = usize::MAX >> 8;
/// Longer than an import takes. A sweep would archive repositories whose announcement is still to be
/// decided.
const NEVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// How long the last writes may take.
const END_TIMEOUT: Duration = Duration::from_secs(30);

/// Its parts.
pub(super) struct Target {
    relay: Relay,
    pub(super) grasp: Grasp,
    policy: Arc<dyn WritePolicy>,
    store: EventStore,
    pub(super) repositories: Repositories,
    db: grip_db::Db,
    pub(super) group: TaskGroup,
}

impl Target {
    pub(super) async fn start(settings: &Settings) -> anyhow::Result<Self> {
        let settings = &without_quotas(settings);
        cluster::refuse_copy(settings)?;
        let group = TaskGroup::new("import");
        let (store, repositories) = open(settings, &group, None, None).await?;
        let db = database::open(settings, None).await?;
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
            policy: Arc::new(grasp.clone()),
            grasp,
            store,
            repositories,
            db,
            group,
        })
    }

    /// Has every event decided, in the order in which they depend on each other. What is refused
    /// for want of something that may still come is decided again as long as anything comes.
    pub(super) async fn take_events(
        &self,
        source: &Source,
        report: &mut Report,
    ) -> anyhow::Result<()> {
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
    pub(super) fn compare(&self, views: &[View], report: &mut Report) {
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

    pub(super) fn refs(&self, addr: &RepoAddr) -> BTreeMap<String, String> {
        let Ok(refs) = self.repositories.refs(addr) else {
            return BTreeMap::new();
        };
        let pairs = refs
            .iter()
            .map(|it| (it.name.to_string(), it.oid.to_string()));
        pairs.collect()
    }

    pub(super) async fn stop(self) {
        if let Ended::Aborted { left } = self.group.shutdown(END_TIMEOUT).await {
            tracing::warn!(left, "tasks of the import were cut off");
        }
        self.relay.stop().await;
        self.db.close().await;
    }
}

/// Quotas are for strangers, and here all that is taken is the operator's own. What the other server has
/// taken may be as large as that can be told to take.
fn without_quotas(settings: &Settings) -> Settings {
    let mut settings = settings.clone();
    let limits = &mut settings.limits;
    limits.relay_max_event_size_bytes = MAX_EVENT_BYTES;
    let chosen = limits.relay_max_message_bytes.take();
    let needed = settings.message_bytes();
    settings.limits.relay_max_message_bytes = chosen.map(|chosen| chosen.max(needed));
    let quotas = &mut settings.contributors;
    quotas.prs_max_bytes_per_key = u64::MAX;
    quotas.prs_max_refs_per_key = u64::MAX;
    quotas.prs_max_bytes_per_target = u64::MAX;
    quotas.prs_max_refs_per_target = u64::MAX;
    settings.deletion.deletion_request_max_bytes_per_key = 0;
    settings
}
