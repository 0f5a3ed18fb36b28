//! The follower: keeps one worker for each relay that something is wanted of.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap, HashSet},
    error::Error,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use grip_db::Db;
use grip_egress::Egress;
use grip_nostr::{FollowedRepositories, FollowedRepository, PublicKey, RepoAddr};
use grip_relay::{Relay, WritePolicy};
use grip_store::{EventStore, EventView as _};
use grip_tasks::TaskGroup;
use nostr::prelude::Keys;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep},
};
use url::Url;

use crate::{
    FollowTotals, Options, PrivatePeers, RelayStatus, RelayUrl, RemoteRefs, ReplicaReport,
    ReplicationTotals,
    dial::Dialler,
    intake::Intake,
    memory::Memories,
    participant_relays::{self, Participants, RelayList},
    plan::Plan,
    refused_events::{self, Kept},
    refused_ids::Refused,
    relay_permits::RelayPermits,
    replication::{Replication, probe_for_ever},
    status::Board,
    targets::{self, Rules, Threads},
    threads,
    worker::{Shared, Worker, now_ms, unix},
};

/// Relays whose history is read at once (G02-26).
const HISTORY_TURNS: usize = 8;
/// How long changes gather before they are looked at.
const GATHER: Duration = Duration::from_millis(200);
/// After so many times without a write, targets are looked over all the same.
const MAX_REST: u32 = 30;
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
    /// Which relays are private services, as they are found; a public service never dials them (G08-18).
    pub private: Arc<PrivatePeers>,
    pub options: Options,
    /// The key of this service, by which relays that ask know it (G02-30).
    pub keys: Keys,
    /// Reads the refs of clone URLs, to see which servers have the effective state.
    pub remote_refs: Arc<dyn RemoteRefs>,
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
        let replication = Arc::new(Replication::new(parts.db.clone()));
        let intake = Intake {
            relay: parts.relay,
            policy: parts.policy,
            store: parts.store,
            followed: parts.followed,
            refused: Mutex::new(Refused::new(parts.options.refused_lifetime)),
            orphans: Mutex::new(Kept::new(refused_events::ORPHANS)),
            hot: Mutex::new(Kept::new(refused_events::hot(
                parts.options.refused_kept_whole,
            ))),
            replication: Arc::clone(&replication),
            group: parts.group.clone(),
        };
        let shared = Arc::new(Shared {
            dialler: Dialler::new(
                parts.egress,
                parts.bootstrap_egress,
                Arc::clone(&parts.private),
                parts.options.max_message_bytes,
            ),
            private: parts.private,
            options: parts.options,
            intake: Arc::new(intake),
            memories: Memories(parts.db),
            board: Board::default(),
            replication,
            remote_refs: parts.remote_refs,
            keys: parts.keys,
            turns: RelayPermits::new(HISTORY_TURNS),
            arrived: Notify::new(),
            group: parts.group,
        });
        let looking = Arc::clone(&shared);
        shared.group.spawn("follow", async move {
            let stop = looking.group.token();
            stop.run_until_cancelled(look_for_ever(looking)).await;
        });
        let probing = Arc::clone(&shared);
        shared.group.spawn("follow.replicas", async move {
            let stop = probing.group.token();
            stop.run_until_cancelled(probe_for_ever(Arc::clone(&probing)))
                .await;
            probing.replication.save().await;
        });
        Self { shared }
    }

    /// Which listed servers have the effective state of a repository.
    pub fn replicas(&self, addr: &RepoAddr) -> Vec<ReplicaReport> {
        self.shared.replication.report(addr, &self.relays())
    }

    /// The same of all repositories, in numbers.
    pub fn replication(&self) -> ReplicationTotals {
        self.shared.replication.totals(&self.relays(), now_ms())
    }

    pub fn relays(&self) -> Vec<RelayStatus> {
        self.shared.board.relays()
    }

    /// Peers of the DHT that followed relays name, as they name them.
    pub fn dht_peers(&self) -> Vec<String> {
        self.shared.dialler.named_peers.all()
    }

    pub fn totals(&self) -> FollowTotals {
        self.shared.board.totals()
    }
}

type Workers = BTreeMap<RelayUrl, watch::Sender<Arc<Plan>>>;

async fn look_for_ever(shared: Arc<Shared>) {
    let followed = Arc::clone(&shared.intake.followed);
    let mut workers = Workers::new();
    let mut known = BTreeMap::new();
    shared.memories.sweep().await;
    shared.replication.restore().await;
    loop {
        let began = Instant::now();
        let revision = || {
            (
                shared.intake.store.revision(),
                shared.board.asked_revision(),
            )
        };
        let looked_at = revision();
        let before = workers.iter().map(|(relay, plan)| {
            let plan = Arc::clone(&plan.borrow());
            (relay.clone(), plan)
        });
        let before: Plans = before.collect();
        match look(&shared, before.clone()).await {
            Ok((plans, revisions)) => {
                judge_again(&shared, &revisions, &known).await;
                if shared.intake.has_answers() {
                    shared
                        .intake
                        .judge_answers(&appeared(&plans, &before))
                        .await;
                }
                known = revisions;
                shared.private.set_plans(&plans);
                assign(&shared, &mut workers, plans);
            }
            Err(error) => tracing::warn!(error = &*error, "failed to look for relays to follow"),
        }
        // A node with very many repositories does nothing else otherwise.
        sleep(began.elapsed() * REST).await;
        let mut may_rest = Some(MAX_REST);
        while let Some(rests) = may_rest {
            tokio::select! {
                () = followed.changed() => may_rest = None,
                () = shared.arrived.notified() => may_rest = None,
                () = sleep(shared.options.look_every) => {
                    // Where nothing was written, nothing else is found.
                    may_rest = rests.checked_sub(1).filter(|_| looked_at == revision());
                }
            }
        }
        sleep(GATHER).await;
    }
}

type Plans = BTreeMap<RelayUrl, Arc<Plan>>;
/// What stands for the maintainers of each identifier.
type Revisions = BTreeMap<Arc<str>, u64>;

async fn look(
    shared: &Arc<Shared>,
    before: Plans,
) -> Result<(Plans, Revisions), Box<dyn Error + Send + Sync>> {
    let looking = Arc::clone(shared);
    let look = move || {
        let (intake, options) = (&looking.intake, &looking.options);
        let repositories = intake.followed.followed()?;
        let view = intake.store.read()?;
        let known: RefCell<HashMap<RepoAddr, Rc<Threads>>> = RefCell::default();
        let threads = |repository: &FollowedRepository| {
            let addr = &repository.addr;
            let read = || Rc::new(threads::of(&view, addr, options.max_descendants));
            // Each is looked at once, or twice where people are followed: then none is read again.
            if options.plus.is_none() {
                return read();
            }
            let mut known = known.borrow_mut();
            Rc::clone(known.entry(addr.clone()).or_insert_with(read))
        };
        let may_follow = |relay: &RelayUrl| {
            options.is_configured(relay)
                || (looking.dialler.may_follow(relay)
                    && (options.allow_non_global || relay.has_public_name()))
        };
        let rules = Rules {
            bootstrap: &options.bootstrap,
            may_follow: &may_follow,
            is_configured: &|relay| options.is_configured(relay),
            max_relays: options.max_relays,
            hour: unix() / 3_600,
        };
        let wishes = match &options.plus {
            Some(plus) => {
                let participants = participants(&repositories, threads);
                let list_of = |author: &PublicKey| {
                    let found = view
                        .latest(&participant_relays::list_address(*author))
                        .ok()?;
                    Some(RelayList::read(&found?, may_follow))
                };
                let asked = looking.board.asked();
                participant_relays::wishes(&participants, plus, &options.bootstrap, list_of, &asked)
            }
            None => Vec::new(),
        };
        let may_ask = |url: &Url| looking.dialler.may_ask(url);
        looking.replication.update(
            &repositories,
            |repository| targets::relays(repository, &rules),
            may_ask,
            now_ms(),
        );
        let plans = targets::plan(&repositories, threads, wishes, &before, &rules);
        Ok((plans, targets::revisions(&repositories)))
    };
    shared.group.spawn_blocking("follow.targets", look).await?
}

/// Owners and maintainers of what is served, then those who said something about it (G03-5).
fn participants(
    repositories: &[FollowedRepository],
    threads: impl Fn(&FollowedRepository) -> Rc<Threads>,
) -> Participants {
    let mut participants = Participants::default();
    let served = || {
        repositories
            .iter()
            .filter(|repository| repository.is_served)
    };
    served().for_each(|repository| participants.add_members(repository));
    for repository in served() {
        // The threads of a large repository take long to read.
        if participants.has_room(&repository.addr.owner) {
            participants.add_threads(&repository.addr.owner, &threads(repository));
        }
    }
    participants
}

/// Judges again what was refused for identifiers that are new or have other maintainers.
async fn judge_again(shared: &Shared, now: &Revisions, known: &Revisions) {
    let changed = now
        .iter()
        .filter(|(identifier, revision)| known.get(*identifier) != Some(*revision));
    let changed: HashSet<&str> = changed.map(|(identifier, _)| &**identifier).collect();
    if !changed.is_empty() {
        shared.intake.judge_again(&changed).await;
    }
}

/// Events and addresses of which a relay is asked what tags them, and was not asked before.
fn appeared(plans: &Plans, before: &Plans) -> HashSet<Arc<str>> {
    let mut names = HashSet::new();
    for (relay, plan) in plans {
        let known = before.get(relay);
        names.extend(plan.new_names(known.map(|known| &**known)));
    }
    names
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
