//! The task that serves the connection: connects, tells updates, renews leases.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use grip_tasks::{CancellationToken, TaskGroup};
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval, sleep},
};

use super::{Connected, SharedRedis};
use crate::ledger::{Member, ScriptCall};

/// First pause between two attempts to connect; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How long a connection must have lasted before its loss counts as a new outage.
const STEADY: Duration = Duration::from_secs(10);

/// Shows that this instance lives, and that Redis runs scripts and takes writes.
const HELLO: &str = "redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[1]) return {1}";

/// The one task that tells updates and renewals.
pub(crate) struct RedisTask {
    redis: SharedRedis,
    hello: redis::Script,
    /// Up to which of the callers that asked for it the pending updates were told.
    told: watch::Sender<u64>,
    stop: CancellationToken,
    pause: Duration,
    connected_at: Option<Instant>,
}

impl RedisTask {
    pub(super) fn new(
        redis: SharedRedis,
        told: watch::Sender<u64>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            redis,
            hello: redis::Script::new(HELLO),
            told,
            stop,
            pause: FIRST_PAUSE,
            connected_at: None,
        }
    }

    /// Tries to connect once, then works until the group stops or no ledger is in use.
    pub async fn start(mut self, group: &TaskGroup) {
        self.try_connect().await;
        group.spawn("redis-ledger", async move {
            self.serve().await;
            // They hold this Redis, and this Redis holds them.
            self.redis.shared.members.lock().clear();
        });
    }

    async fn serve(&mut self) {
        let shared = Arc::clone(&self.redis.shared);
        let mut beat = interval(shared.options.lease / 3);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let stop = self.stop.clone();
        loop {
            if shared.connection.outage().is_some() {
                if !self.reconnect().await {
                    return;
                }
                // Tells what was taken while the connection was being made.
                beat.reset_immediately();
            }
            tokio::select! {
                () = stop.cancelled() => break,
                () = shared.connection.lost() => {}
                () = shared.pending.notified() => self.flush().await,
                _ = beat.tick() => {
                    if let Some(connected) = self.redis.connected() {
                        // A failure ends the connection, which is seen above.
                        let _ = self.renew(&connected, false).await;
                    }
                    self.flush().await;
                    if !self.redis.retain_used() {
                        return;
                    }
                }
            }
        }
        // What is given back later than this is freed by its lease.
        self.flush().await;
    }

    /// Tries until Redis is connected. False if there is no use in it any more.
    async fn reconnect(&mut self) -> bool {
        let shared = Arc::clone(&self.redis.shared);
        // Nobody waits for a Redis that is disconnected.
        self.told
            .send_replace(shared.flushes.load(Ordering::SeqCst));
        if let Some(outage) = shared.connection.outage() {
            tracing::warn!(
                reason = outage.reason,
                percent = shared.options.fallback_percent,
                "redis is disconnected: this instance uses a part of every limit"
            );
        }
        if self.connected_at.is_some_and(|at| at.elapsed() >= STEADY) {
            self.pause = FIRST_PAUSE;
        }
        loop {
            // Half of it is random, so that instances do not all come at once.
            let pause = self.pause.mul_f64(0.5 + rand::random::<f64>() / 2.0);
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
            let stopped = self.stop.run_until_cancelled(sleep(pause)).await.is_none();
            if stopped || !self.redis.retain_used() {
                return false;
            }
            if self.try_connect().await {
                break;
            }
        }
        tracing::info!("redis is connected: limits are shared again");
        self.flush().await;
        true
    }

    /// Connects, tells Redis what it may have missed or lost, and puts the connection to use.
    async fn try_connect(&mut self) -> bool {
        match self.connect().await {
            Ok(()) => {
                self.connected_at = Some(Instant::now());
                true
            }
            Err(reason) => {
                self.redis.shared.connection.set_reason(reason);
                false
            }
        }
    }

    async fn connect(&self) -> Result<(), String> {
        let shared = &self.redis.shared;
        let connected = Connected {
            redis: self.redis.clone(),
            connection: shared.connection.open().await?,
            generation: None,
        };
        self.renew(&connected, true).await?;
        shared.connection.set(connected.connection);
        for member in self.members() {
            member.reconnected();
        }
        Ok(())
    }

    async fn renew(&self, connected: &Connected, everything: bool) -> Result<(), String> {
        let options = &self.redis.shared.options;
        let hello = ScriptCall {
            keys: vec![format!(
                "{}:instance:{}",
                options.prefix,
                self.redis.instance()
            )],
            arguments: vec![
                options.lease.as_millis().to_string(),
                std::process::id().to_string(),
            ],
        };
        connected.run(&self.hello, &hello).await?;
        for member in self.members() {
            member.renew(connected, everything).await?;
        }
        Ok(())
    }

    async fn flush(&self) {
        let flushes = self.redis.shared.flushes.load(Ordering::SeqCst);
        for member in self.members() {
            member.tell_pending().await;
        }
        self.told.send_replace(flushes);
    }

    fn members(&self) -> Vec<Arc<dyn Member>> {
        self.redis.shared.members.lock().clone()
    }
}
