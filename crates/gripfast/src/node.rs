//! The running node: components started in order, supervised, reloaded, and stopped in order.

mod amnesia;
mod base;
pub(crate) mod cluster;
mod component_settings;
mod components;
pub(crate) mod database;
mod descriptors;
mod disk;
mod egress;
mod external_addresses;
mod follow;
mod github;
mod identity;
pub(crate) mod import;
mod index;
mod lock;
mod object_store;
mod peers;
mod reload;
mod resolve;
mod service_identity;
mod signals;
mod sync;
mod systemd;
mod watch;

use std::{convert::Infallible, sync::Arc, time::Duration};

pub(crate) use self::lock::{DirLock, LockError, is_data_dir};
use anyhow::{Context as _, bail};
use grip_relay::Relay;
use rustix::{fs::Mode, process::umask};

use self::{
    amnesia::Amnesia,
    components::Components,
    signals::{SignalAction, Signals},
    systemd::ServiceManager,
};
use crate::{
    backup,
    config::{Flags, Loaded, ProcessEnvironment},
    logging::{self, LogLevel},
    running::{Record, RunningNode},
};

/// How long threads that block may hold the exit up, once every task has ended.
const BLOCKING_SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(500);

/// Events, refs and keys are nobody's business on this machine, whatever the umask was.
pub(crate) fn narrow_umask() {
    let before = umask(Mode::empty());
    umask(before | Mode::RWXO | Mode::WGRP);
}

/// Serves until a signal stops it, or until a component fails.
pub(crate) fn run(flags: Flags, loaded: Loaded) -> anyhow::Result<()> {
    narrow_umask();
    let log = logging::start(&loaded.settings)?;
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    descriptors::raise(loaded.settings.limits.max_connections);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("gripfast")
        .build()
        .context("cannot start threads")?;
    let mut amnesia = None;
    let outcome = runtime.block_on(serve(flags, loaded, log, &mut amnesia));
    runtime.shutdown_timeout(BLOCKING_SHUTDOWN_TIMEOUT);
    // Last, when no thread can write any more.
    drop(amnesia);
    outcome
}

async fn serve(
    flags: Flags,
    mut loaded: Loaded,
    log: LogLevel,
    amnesia: &mut Option<Amnesia>,
) -> anyhow::Result<()> {
    let mut signals = Signals::install().context("cannot listen to signals")?;
    let service_manager = ServiceManager::from_env();
    if loaded.settings.storage.amnesia {
        let parent = std::env::temp_dir();
        *amnesia = Some(Amnesia::begin(&parent, &mut loaded.settings)?);
    }
    let settings = &loaded.settings;
    import::check_own(&settings.git_data_path())?;
    let _lock = DirLock::take(&[
        &settings.storage.data_dir,
        &settings.git_data_path(),
        &settings.relay_data_path(),
    ])?;
    backup::check_finished(&settings.storage.data_dir)?;
    let leadership = if settings.cluster.cluster_packs.is_some() {
        match cluster::follow(&loaded, &mut signals, &service_manager).await? {
            Some(leadership) => Some(Arc::new(leadership)),
            None => return Ok(()),
        }
    } else {
        cluster::refuse_copy(settings)?;
        None
    };
    let started = tokio::select! {
        started = Components::start(&loaded, leadership.clone()) => started.map(Some),
        signal = signals.stop() => {
            tracing::info!(signal, "stopped before it was ready; the next start continues the recovery");
            Ok(None)
        }
    };
    let components = match started {
        Ok(Some(components)) => components,
        ended => {
            // Another node need not wait until the lease runs out.
            cluster::end(leadership.as_deref()).await;
            return ended.map(drop);
        }
    };
    let url = components.url();
    let _record = if amnesia.is_some() {
        None
    } else {
        let node = RunningNode::this(components.local_url(), &settings.storage.data_dir)?;
        Some(Record::write(&node, &ProcessEnvironment))
    };
    service_manager.ready(&format!("serving {url}"));
    anstream::println!("{}", components.welcome());
    Node {
        flags,
        loaded,
        log,
        service_manager,
        components,
    }
    .supervise(&mut signals)
    .await
}

/// Tells the service manager again and again that the node lives: that its writer answers. One that is
/// stuck keeps it silent, and is ended.
async fn report(service_manager: &ServiceManager, relay: &Relay) -> Infallible {
    loop {
        service_manager.report_due().await;
        if relay.probe().await.is_ok() {
            service_manager.alive();
        }
    }
}

struct Node {
    flags: Flags,
    loaded: Loaded,
    log: LogLevel,
    service_manager: ServiceManager,
    components: Components,
}

impl Node {
    async fn supervise(mut self, signals: &mut Signals) -> anyhow::Result<()> {
        let relay = self.components.relay();
        let failure = loop {
            tokio::select! {
                action = signals.next() => match action {
                    SignalAction::Reload => self.reload(),
                    SignalAction::Stop { signal } => {
                        tracing::info!(signal, "stopping, accepting no new work");
                        break None;
                    }
                },
                never = report(&self.service_manager, &relay) => match never {},
                reason = self.components.failed() => {
                    tracing::error!(%reason, "component failed, stopping the node");
                    break Some(reason);
                }
            }
        };
        self.service_manager.stopping("finishing work in progress");
        let grace = self.loaded.settings.timeouts.drain_deadline;
        tokio::select! {
            () = self.components.stop(grace) => {}
            signal = signals.stop() => {
                tracing::warn!(signal, "aborted by a second signal");
                bail!("aborted by a second {signal}");
            }
        }
        match failure {
            Some(reason) => bail!("stopped because a component failed: {reason}"),
            None => Ok(()),
        }
    }

    fn reload(&mut self) {
        self.service_manager.status("reloading the configuration");
        if let Err(error) = self.try_reload() {
            for line in format!("{error:#}").lines() {
                tracing::error!("{line}");
            }
            tracing::error!("the configuration was not reloaded: everything stays as it was");
        }
        self.service_manager
            .status(&format!("serving {}", self.components.url()));
    }

    fn try_reload(&mut self) -> anyhow::Result<()> {
        let reloaded = reload::read(&self.loaded, &self.flags, &ProcessEnvironment)?;
        self.components.apply(&reloaded.loaded)?;
        self.log.set(&reloaded.loaded.settings.logs.log_level)?;
        for warning in &reloaded.loaded.warnings {
            tracing::warn!("{warning}");
        }
        if !reloaded.need_restart.is_empty() {
            let keys = reloaded.need_restart.join(", ");
            tracing::warn!(keys, "changed settings that need a restart to take effect");
        }
        let keys = reloaded.changed.join(", ");
        tracing::info!(keys, "configuration reloaded");
        self.loaded = reloaded.loaded;
        Ok(())
    }
}
