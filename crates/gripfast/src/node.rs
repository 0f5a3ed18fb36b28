//! The running node: parts opened and wired in order, watched, reloaded, and ended in order.

mod amnesia;
mod database;
mod descriptors;
mod github;
mod index;
mod lock;
mod notify;
mod outbound;
mod parts;
mod reload;
mod resolve;
mod signals;
mod snapshot;
mod sync;
mod watch;

use std::time::Duration;

use anyhow::{Context as _, bail};

use self::{
    amnesia::Amnesia,
    lock::DirLock,
    notify::Notifier,
    parts::Parts,
    signals::{Asked, Signals},
};
use crate::{
    config::{Flags, Loaded, ProcessEnvironment},
    logging::{self, LogLevel},
};

/// How long threads that block may hold the exit up, once every task has ended.
const LAST_BREATH: Duration = Duration::from_millis(500);

/// Serves until told to stop, or until a part dies.
pub(crate) fn run(flags: Flags, loaded: Loaded) -> anyhow::Result<()> {
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
    let mut forgotten = None;
    let outcome = runtime.block_on(live(flags, loaded, log, &mut forgotten));
    runtime.shutdown_timeout(LAST_BREATH);
    // Last, when no thread can write any more.
    drop(forgotten);
    outcome
}

async fn live(
    flags: Flags,
    mut loaded: Loaded,
    log: LogLevel,
    forgotten: &mut Option<Amnesia>,
) -> anyhow::Result<()> {
    let mut signals = Signals::install().context("cannot listen to signals")?;
    let notifier = Notifier::from_env();
    if loaded.settings.storage.amnesia {
        let parent = std::env::temp_dir();
        *forgotten = Some(Amnesia::begin(&parent, &mut loaded.settings)?);
    }
    let settings = &loaded.settings;
    let _lock = DirLock::take(&[
        &settings.storage.data_dir,
        &settings.git_data_path(),
        &settings.relay_data_path(),
    ])?;
    let parts = tokio::select! {
        parts = Parts::start(settings) => parts?,
        signal = signals.stop() => {
            tracing::info!(signal, "stopped before it was ready; the next start goes on from here");
            return Ok(());
        }
    };
    let url = parts.url();
    notifier.ready(&format!("serving {url}"));
    anstream::println!("{}", parts.welcome());
    Node {
        flags,
        loaded,
        log,
        notifier,
        parts,
    }
    .watch(&mut signals)
    .await
}

struct Node {
    flags: Flags,
    loaded: Loaded,
    log: LogLevel,
    notifier: Notifier,
    parts: Parts,
}

impl Node {
    async fn watch(mut self, signals: &mut Signals) -> anyhow::Result<()> {
        let died = loop {
            tokio::select! {
                asked = signals.next() => match asked {
                    Asked::Reload => self.reload(),
                    Asked::Stop { signal } => {
                        tracing::info!(signal, "stopping: no new work is taken on");
                        break None;
                    }
                },
                reason = self.parts.died() => {
                    tracing::error!(%reason, "a part of the node died: the others are stopped");
                    break Some(reason);
                }
            }
        };
        self.notifier.stopping("finishing what is under way");
        let grace = self.loaded.settings.timeouts.drain_deadline;
        tokio::select! {
            () = self.parts.stop(grace) => {}
            signal = signals.stop() => {
                tracing::warn!(signal, "aborted: told to stop a second time");
                bail!("aborted by a second {signal}");
            }
        }
        match died {
            Some(reason) => bail!("stopped because a part of it died: {reason}"),
            None => Ok(()),
        }
    }

    fn reload(&mut self) {
        self.notifier.status("reading the configuration anew");
        if let Err(error) = self.try_reload() {
            for line in format!("{error:#}").lines() {
                tracing::error!("{line}");
            }
            tracing::error!("the configuration was not reloaded: everything stays as it was");
        }
        self.notifier
            .status(&format!("serving {}", self.parts.url()));
    }

    fn try_reload(&mut self) -> anyhow::Result<()> {
        let reloaded = reload::read(&self.loaded, &self.flags, &ProcessEnvironment)?;
        self.parts.apply(&reloaded.loaded.settings)?;
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
