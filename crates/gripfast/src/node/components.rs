//! The components of a node: started from the bottom up, stopped from the top down.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use arc_swap::ArcSwap;
use grip_cluster::PackStore;
use grip_db::Db;
use grip_git::{LoggedBy, Repositories};
use grip_grasp::Grasp;
use grip_queue::Queue;
use grip_relay::Relay;
use grip_store::EventStore;
use grip_tasks::{Ended, JoinHandle, Live, TaskGroup, fault};
use grip_types::Service;
use grip_web::{AdminToken, Build, Readiness, Web, WebSettings};
use tokio::{net::TcpSocket, time::Instant};

use super::{
    base::Base,
    cluster::{self, Leadership},
    component_settings, database, disk, egress,
    github::Gateways,
    identity::Identity,
    index, object_store, peers, resolve, service_identity, sync, watch,
};
use crate::{
    admin_token,
    commands::version,
    config::{Loaded, Settings, local_url, service_at},
};

/// Connections that may wait to be accepted; beyond it the kernel makes clients try again.
pub(super) const BACKLOG: u32 = 4096;

/// How long the last steps may take once the drain deadline has passed: they only write what was
/// acknowledged.
const FINAL_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Everything that runs.
pub(crate) struct Components {
    /// Where this node leads a cluster.
    leadership: Option<Arc<Leadership>>,
    service: Service,
    identity: Identity,
    address: SocketAddr,
    grasp: Grasp,
    web: Arc<ArcSwap<WebSettings>>,
    config: Arc<ArcSwap<serde_json::Value>>,
    resolve: Arc<Live<grip_resolve::Options>>,
    /// Connections and what they asked for: told to stop first.
    front: TaskGroup,
    /// What finishes the promises of the front.
    back: TaskGroup,
    /// Answers probes until everything else has ended.
    edge: TaskGroup,
    relay: Relay,
    db: Db,
    serving: JoinHandle<()>,
}

impl Components {
    /// Opens everything, recovers, and begins to listen; nothing answers before all is there.
    pub(crate) async fn start(
        loaded: &Loaded,
        leadership: Option<Arc<Leadership>>,
    ) -> anyhow::Result<Self> {
        let settings = &loaded.settings;
        // Bound first, so that a taken port is found out before anything is touched, but not yet
        // listening: a port that accepts and does not answer would fool every probe.
        let (socket, address) = bind(settings.reach.bind_address)?;
        let service = match settings.reach.domain {
            None => service_at(address, settings.service().base()),
            Some(_) => settings.service(),
        };
        let root = TaskGroup::new("gripfast");
        let (front, back, last) = (root.child("front"), root.child("back"), root.child("edge"));
        let packs = leadership.as_deref().map(Leadership::packs);
        let (store, repositories) = open(settings, &back, leadership.as_deref(), packs).await?;
        if packs.is_some() {
            cluster::keep_packs(settings, &repositories, &back);
        }
        let fence = leadership.as_deref().map(Leadership::fence);
        let db = database::open(settings, fence).await?;
        let readiness = Readiness::ready();
        database::watch(&db, &readiness, &back);
        disk::watch(&repositories, &readiness, &back);
        if let Some(packs) = packs {
            object_store::watch(packs, &readiness, &back);
        }
        let queue = Queue::new(db.clone());
        let reclaimed = queue.reclaim().await;
        reclaimed.context("cannot reclaim the jobs of the last run")?;
        let admin = admin_token::make(&settings.storage.data_dir).with_context(|| {
            format!(
                "cannot keep a token in {}",
                settings.storage.data_dir.display()
            )
        })?;
        let identity = Identity::open(settings)?;
        let policy = Arc::new(ArcSwap::from_pointee(component_settings::policy(
            settings, &service, &identity,
        )));
        let web = Arc::new(ArcSwap::from_pointee(component_settings::web(
            settings, &service, &identity,
        )));
        let config = Arc::new(ArcSwap::from_pointee(loaded.to_json()));
        let log = leadership.as_deref().map(Leadership::commit_log);
        let (relay, writer) = Relay::start_logged(
            store.clone(),
            component_settings::relay(settings),
            &front,
            log,
        );
        let grasp = Grasp::start(grip_grasp::Parts {
            store: store.clone(),
            writer,
            db: db.clone(),
            repositories: repositories.clone(),
            policy,
            bounds: component_settings::bounds(settings),
            keep: component_settings::keep(settings),
            lifecycle: component_settings::lifecycle(settings),
            sweep_every: settings.timeouts.purgatory_sweep_interval,
            group: back.clone(),
        })
        .await
        .context("cannot recover the state of the last run")?;
        let throttle = egress::throttle(settings, &back).await?;
        let base = Base {
            settings,
            service: &service,
            address,
            identity: &identity,
            db: &db,
            queue: &queue,
            repositories: &repositories,
            grasp: &grasp,
            throttle: &throttle,
            front: &front,
            back: &back,
        };
        let resolving = resolve::start(&base).await?;
        let (sync, follow) = sync::start(&base, &resolving.resolver, &relay, &store)?;
        if let Some(dht) = resolving.dht {
            peers::start(dht, follow, &settings.storage.data_dir, &back);
        }
        identity.start(&front);
        service_identity::start(&base, &relay, &store)?;
        let gateways = Gateways::open(&base)?;
        let indexed = index::start(&base, &gateways).await?;
        let watched = watch::start(&base, indexed.index.as_ref(), &gateways).await?;
        let listener = socket
            .listen(BACKLOG)
            .with_context(|| format!("cannot listen on {address}"))?;
        let edge = Web {
            leads: leadership.as_deref().map(Leadership::leads),
            grasp: grasp.clone(),
            relay: relay.clone(),
            store: store.clone(),
            repositories,
            settings: Arc::clone(&web),
            readiness,
            sync,
            queue,
            index: indexed.index,
            proxy: indexed.proxy,
            watch: watched,
            resolve: Some(grip_web::Resolve {
                resolver: resolving.resolver,
                admin: resolving.admin,
            }),
            admin: AdminToken::new(admin),
            config: Arc::clone(&config),
            build: BUILD,
        };
        let (group, end) = (front.clone(), last.clone());
        let serving = last.spawn("http", async move {
            grip_web::serve_to_the_end(listener, edge, &group, &end).await;
        });
        if let Some(leadership) = &leadership {
            leadership.begin(settings).await?;
        }
        tracing::info!(%address, url = service.http_url(), "ready");
        Ok(Self {
            leadership,
            service,
            identity,
            address,
            grasp,
            web,
            config,
            resolve: resolving.options,
            front,
            back,
            edge: last,
            relay,
            db,
            serving,
        })
    }

    pub(crate) fn url(&self) -> String {
        self.service.http_url()
    }

    /// Where it answers on its machine.
    pub(crate) fn local_url(&self) -> String {
        local_url(self.address, self.service.base())
    }

    /// The line that greets the operator.
    pub(crate) fn welcome(&self) -> String {
        let url = self.url();
        format!(
            "gripfast is ready at {url} — push a repository here with: ngit init --grasp-server {url}"
        )
    }

    /// What every event passes through.
    pub(crate) fn relay(&self) -> Relay {
        self.relay.clone()
    }

    /// Waits until a component ends that should not, and returns the reason.
    pub(crate) async fn failed(&mut self) -> String {
        tokio::select! {
            ended = &mut self.serving => match ended {
                Ok(()) => "the HTTP server ended by itself".to_owned(),
                Err(error) => format!("the HTTP server: {error}"),
            },
            reason = self.relay.failed() => format!("the relay: {reason}"),
            reason = cluster::lost(self.leadership.as_deref()) => format!("the cluster: {reason}"),
            () = self.db.name_taken() => {
                let node = self.db.node();
                format!("another gripfast has taken the name {node:?} in the database (node_name)")
            }
        }
    }

    /// Swaps in settings that may change while we run.
    pub(crate) fn apply(&self, loaded: &Loaded) -> anyhow::Result<()> {
        let settings = &loaded.settings;
        self.config.store(Arc::new(loaded.to_json()));
        let (service, identity) = (&self.service, &self.identity);
        identity.configure(settings);
        let policy = component_settings::policy(settings, service, identity);
        let web = component_settings::web(settings, service, identity);
        self.web.store(Arc::new(web));
        self.grasp.set_policy(policy);
        self.resolve.set(resolve::options(settings));
        Ok(())
    }

    /// Lets work under way finish for `grace`, cuts the rest, and says which.
    pub(crate) async fn stop(&self, grace: Duration) {
        let deadline = Instant::now() + grace;
        let front = self.front.shutdown(grace).await;
        let rest = deadline
            .duration_since(Instant::now())
            .max(FINAL_SHUTDOWN_TIMEOUT);
        let back = self.back.shutdown(rest).await;
        self.relay.stop().await;
        self.db.close().await;
        cluster::end(self.leadership.as_deref()).await;
        let edge = self.edge.shutdown(FINAL_SHUTDOWN_TIMEOUT).await;
        let root = self.edge.root();
        // A thread that blocks is no task that can be aborted, but it is not done either.
        let aborted = left(front) + left(back) + left(edge);
        let running = root.running();
        match aborted.max(running) {
            0 => {
                tracing::info!(
                    "stopped: drained, all work under way was finished, no task is left"
                );
            }
            left => tracing::warn!(
                running,
                kinds = running_kinds(&root),
                ?grace,
                "stopped: aborted, {left} left when the drain deadline passed"
            ),
        }
    }
}

const BUILD: Build = Build {
    version: version::VERSION,
    commit: version::COMMIT,
};

fn running_kinds(group: &TaskGroup) -> String {
    let running = group.status().into_iter().filter(|task| task.running > 0);
    running.map(|task| task.kind).collect::<Vec<_>>().join(", ")
}

fn left(ended: Ended) -> usize {
    match ended {
        Ended::Drained => 0,
        Ended::Aborted { left } => left,
    }
}

pub(super) fn bind(wanted: SocketAddr) -> anyhow::Result<(TcpSocket, SocketAddr)> {
    let socket = match wanted {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }
    .context("cannot open a socket")?;
    socket.set_reuseaddr(true).context("cannot open a socket")?;
    match socket.bind(wanted) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            bail!(
                "{wanted} is in use by another program; choose another address with --bind-address"
            );
        }
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
            bail!(
                "{wanted} is no address of this machine; choose another address with --bind-address"
            );
        }
        Err(error) => return Err(error).with_context(|| format!("cannot listen on {wanted}")),
    }
    let address = socket.local_addr().context("cannot tell where we listen")?;
    Ok((socket, address))
}

/// Opens what lies on disk, where it may block.
pub(super) async fn open(
    settings: &Settings,
    group: &TaskGroup,
    leadership: Option<&Leadership>,
    packs: Option<&PackStore>,
) -> anyhow::Result<(EventStore, Repositories)> {
    let settings = settings.clone();
    let log = leadership.map_or_else(LoggedBy::default, Leadership::change_log);
    let store = leadership.map(Leadership::store);
    let max_bytes = settings.cluster.cluster_cache_bytes;
    let cached_from = packs.map(|packs| packs.cached(max_bytes, group.token()));
    let cached_from = cached_from.unwrap_or_default();
    let opened = group.spawn_blocking("open", move || {
        let defaults = grip_git::Options::new(settings.git_data_path());
        let memory_bytes = settings.limits.git_memory_bytes;
        let git = grip_git::Options {
            memory_bytes: memory_bytes.unwrap_or(defaults.memory_bytes),
            git: settings.storage.git_program.clone(),
            max_pack_bytes: settings.limits.max_pack_bytes,
            stall: settings.timeouts.stall_timeout,
            min_free_bytes: settings.storage.min_free_bytes,
            stranger_min_free_bytes: settings.storage.stranger_min_free_bytes,
            also_kept_free: vec![
                settings.relay_data_path(),
                settings.storage.data_dir.clone(),
            ],
            staging: grip_git::StagingBudgets {
                per_address: settings.limits.staged_max_bytes_per_address,
                per_identifier: settings.limits.staged_max_bytes_per_identifier,
                contributors: component_settings::contributor_quotas(&settings),
            },
            log,
            cached_from,
            ..defaults
        };
        let repositories = Repositories::open(git).context("cannot open the repositories")?;
        if let Some(store) = store {
            fault::point("leader.opened");
            return anyhow::Ok((store, repositories));
        }
        // In a directory of its own: ngit-grasp keeps another LMDB in the one above.
        let path = settings.relay_data_path().join("events");
        let options = grip_store::Options {
            map_bytes: usize::try_from(settings.storage.event_map_bytes).unwrap_or(usize::MAX),
            ignores_deletions: settings.deletion.deletion_request_disrespector,
            notes_changes: settings.cluster.cluster_packs.is_some(),
            ..grip_store::Options::default()
        };
        let store = EventStore::open(&path, options)
            .with_context(|| format!("cannot open the event store {}", path.display()))?;
        anyhow::Ok((store, repositories))
    });
    opened.await.context("opening was interrupted")?
}
