//! The follower: keeps one worker for each relay that something is wanted of.

use std::{
    collections::{BTreeMap, HashSet},
    error::Error,
    sync::Arc,
    time::Duration,
};

use grip_db::Db;
use grip_egress::Egress;
use grip_nostr::{FollowedRepositories, FollowedRepository};
use grip_relay::{Relay, WritePolicy};
use grip_store::EventStore;
use grip_tasks::TaskGroup;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, Semaphore, watch},
    time::{Instant, sleep},
};

use crate::{
    FollowTotals, Options, PrivatePeers, RelayStatus, RelayUrl,
    dial::Dialler,
    intake::Intake,
    memory::Memories,
    plan::{Class, Plan},
    refused::{Orphans, Refused},
    status::Board,
    targets::{self, Rules},
    threads,
    worker::{Shared, Worker},
};

/// Relays whose history is read at once (G02-26).
const HISTORY_TURNS: usize = 8;
/// How long changes gather before they are looked at.
const GATHER: Duration = Duration::from_millis(200);
/// A look may take this part of the time.
const REST: u32 = 20;

/// What the follower stands on; each part is open and ready.
pub struct Parts {
    pub relay: Relay,
    /// The rules for events.
    pub policy: Arc<dyn WritePolicy>,
    pub store: EventStore,
    pub followed: Arc<dyn FollowedRepositories>,
    pub db: Db,
    /// For relays that events name.
    pub egress: Egress,
    /// For those that the operator configured.
    pub bootstrap_egress: Egress,
    /// Set where this service is private itself; a public one never dials those that are (G08-18).
    pub private: Option<Arc<PrivatePeers>>,
    pub options: Options,
    /// Owns every task of the follower.
    pub group: TaskGroup,
}

/// The running follower. Cheap to clone.
#[derive(Clone)]
pub struct Follow {
    shared: Arc<Shared>,
}

impl Follow {
    /// Starts to follow. Targets come from what is here before any network answers (G02-47).
    pub fn start(parts: Parts) -> Self {
        let intake = Intake {
            relay: parts.relay,
            policy: parts.policy,
            store: parts.store,
            followed: parts.followed,
            refused: Mutex::new(Refused::new(parts.options.refused_lifetime)),
            orphans: Mutex::new(Orphans::default()),
            group: parts.group.clone(),
        };
        let shared = Arc::new(Shared {
            dialler: Dialler::new(parts.egress, parts.bootstrap_egress, parts.private.clone()),
            private: parts.private,
            options: parts.options,
            intake: Arc::new(intake),
            memories: Memories(parts.db),
            board: Board::default(),
            turns: Arc::new(Semaphore::new(HISTORY_TURNS)),
            arrived: Notify::new(),
            group: parts.group,
        });
        let looking = Arc::clone(&shared);
        shared.group.spawn("follow", async move {
            let stop = looking.group.token();
            stop.run_until_cancelled(look_for_ever(looking)).await;
        });
        Self { shared }
    }

    pub fn relays(&self) -> Vec<RelayStatus> {
        self.shared.board.relays()
    }

    pub fn totals(&self) -> FollowTotals {
        self.shared.board.totals()
    }
}

type Workers = BTreeMap<RelayUrl, watch::Sender<Arc<Plan>>>;

async fn look_for_ever(shared: Arc<Shared>) {
    let followed = Arc::clone(&shared.intake.followed);
    let mut workers = Workers::new();
    let mut known = HashSet::new();
    shared.memories.sweep().await;
    loop {
        let began = Instant::now();
        match look(&shared).await {
            Ok(plans) => {
                forget_refusals(&shared, &plans, &mut known);
                if let Some(peers) = &shared.private {
                    peers.set_plans(&plans);
                }
                assign(&shared, &mut workers, plans);
            }
            Err(error) => tracing::warn!(error = &*error, "failed to look for relays to follow"),
        }
        // A node with very many repositories does nothing else otherwise.
        sleep(began.elapsed() * REST).await;
        tokio::select! {
            () = followed.changed() => {}
            () = shared.arrived.notified() => {}
            () = sleep(shared.options.look_every) => {}
        }
        sleep(GATHER).await;
    }
}

type Plans = BTreeMap<RelayUrl, Arc<Plan>>;

async fn look(shared: &Arc<Shared>) -> Result<Plans, Box<dyn Error + Send + Sync>> {
    let looking = Arc::clone(shared);
    let look = move || {
        let (intake, options) = (&looking.intake, &looking.options);
        let repositories = intake.followed.followed()?;
        let view = intake.store.read()?;
        let threads = |repository: &FollowedRepository| {
            threads::of(&view, &repository.addr, options.max_descendants)
        };
        let may_follow = |relay: &RelayUrl| {
            options.bootstrap.contains(relay)
                || (looking.dialler.may_follow(relay)
                    && (options.allow_non_global || relay.has_public_name()))
        };
        let rules = Rules {
            bootstrap: &options.bootstrap,
            may_follow: &may_follow,
            max_relays: options.max_relays,
        };
        Ok(targets::plan(&repositories, threads, &rules))
    };
    shared.group.spawn_blocking("follow.targets", look).await?
}

/// Forgets refusals for identifiers that have come here since.
fn forget_refusals(shared: &Shared, plans: &Plans, known: &mut HashSet<Arc<str>>) {
    let classes = plans.values().flat_map(|plan| {
        let names = |class| plan.values.get(&class).into_iter().flatten().cloned();
        names(Class::States).chain(names(Class::Held))
    });
    let now: HashSet<Arc<str>> = classes.collect();
    let new: HashSet<&str> = now.difference(known).map(|it| &**it).collect();
    if !new.is_empty() {
        shared.intake.refused.lock().forget(&new);
    }
    *known = now;
}

/// Gives each worker its plan; starts and ends workers as relays come and go.
fn assign(shared: &Arc<Shared>, workers: &mut Workers, plans: Plans) {
    // A worker that ended has let go of its plans.
    workers.retain(|relay, plan| plans.contains_key(relay) && !plan.is_closed());
    for (relay, plan) in plans {
        if let Some(worker) = workers.get(&relay) {
            worker.send_if_modified(|known| {
                let is_new = *known != plan;
                if is_new {
                    *known = Arc::clone(&plan);
                }
                is_new
            });
            continue;
        }
        let (sender, receiver) = watch::channel(plan);
        let running = Worker::run(Arc::clone(shared), relay.clone(), receiver);
        shared.group.spawn("follow.relay", running);
        workers.insert(relay, sender);
    }
}
