//! The task that keeps the ledger's promises to Redis: renews leases, gives slots back, and
//! looks for Redis while it is away.
//!
//! One task does all of it, one thing after the other, so that a slot that went back is never
//! renewed.

use std::{sync::Arc, time::Duration};

use grip_tasks::CancellationToken;
use redis::aio::MultiplexedConnection;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::{
    Shared,
    job::{Jobs, Settle},
    link::Gone,
    reply::{Numbers, Reply},
};

/// First pause between two attempts to reach Redis; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How long Redis must have stayed before its next absence counts as a new one.
const STEADY: Duration = Duration::from_secs(10);

pub(super) struct Worker {
    shared: Arc<Shared>,
    jobs: Jobs,
    /// What could not be told before Redis went away.
    left: Option<Settle>,
    lease: Duration,
    stop: CancellationToken,
    pause: Duration,
    back_at: Option<Instant>,
}

impl Worker {
    pub fn new(shared: Arc<Shared>, jobs: Jobs, lease: Duration, stop: CancellationToken) -> Self {
        Self {
            shared,
            jobs,
            left: None,
            lease,
            stop,
            pause: FIRST_PAUSE,
            back_at: None,
        }
    }

    /// Makes the first attempt to reach Redis.
    pub async fn begin(mut self) -> Self {
        match self.shared.join().await {
            Ok(()) => self.back_at = Some(Instant::now()),
            Err(reason) => self.shared.link.still_away(reason),
        }
        self
    }

    /// Works until the group stops or the ledger is gone.
    pub async fn run(mut self) {
        let mut beat = interval(self.lease / 3);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let stop = self.stop.clone();
        loop {
            if self.shared.link.away().is_some() && !self.find_redis().await {
                return;
            }
            tokio::select! {
                () = stop.cancelled() => break,
                () = self.shared.link.lost() => {}
                _ = beat.tick() => self.shared.renew().await,
                job = self.jobs.recv() => match job {
                    Some(job) => self.settle(job).await,
                    None => return,
                },
            }
        }
        // Whoever gives back later than this is served by the lease.
        while let Ok(job) = self.jobs.try_recv() {
            self.settle(job).await;
        }
    }

    /// Tries until Redis is back. False if there is no use in it any more.
    async fn find_redis(&mut self) -> bool {
        self.say_away();
        if self.back_at.is_some_and(|at| at.elapsed() >= STEADY) {
            self.pause = FIRST_PAUSE;
        }
        loop {
            // Half of it is chance, so that instances do not all come at once.
            let pause = self.pause.mul_f64(0.5 + rand::random::<f64>() / 2.0);
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
            let stopped = self.stop.run_until_cancelled(sleep(pause)).await.is_none();
            if stopped || self.jobs.is_closed() {
                return false;
            }
            match self.shared.join().await {
                Ok(()) => break,
                Err(reason) => self.shared.link.still_away(reason),
            }
        }
        self.back_at = Some(Instant::now());
        tracing::info!("redis is back: limits are shared again");
        if let Some(job) = self.left.take() {
            self.settle(job).await;
        }
        true
    }

    fn say_away(&self) {
        if let Some(away) = self.shared.link.away() {
            tracing::warn!(
                reason = away.reason,
                percent = self.shared.percent,
                "redis is away: this instance goes on alone with a part of every limit"
            );
        }
    }

    async fn settle(&mut self, job: Settle) {
        if self.shared.settle(&job).await == Err(Gone) {
            self.left = Some(job);
        }
    }
}

impl Shared {
    /// Connects, tells Redis what it may have missed or lost, and puts the connection to use.
    async fn join(&self) -> Result<(), String> {
        let mut connection = self.link.connect().await?;
        self.renew_over(&mut connection, true).await?;
        self.link.use_connection(connection);
        self.books.end_fallback();
        self.bell.ring_all();
        Ok(())
    }

    async fn renew(&self) {
        let Some((mut connection, generation)) = self.link.connection() else {
            return;
        };
        // One may have been opened by somebody who saw Redis away when it was just back.
        self.books.end_fallback();
        if let Err(reason) = self.renew_over(&mut connection, false).await {
            self.link.lose(generation, reason);
        }
    }

    async fn renew_over(
        &self,
        connection: &mut MultiplexedConnection,
        all: bool,
    ) -> Result<(), String> {
        let hello = self.scripts.hello();
        self.link.run::<i64>(connection, &hello).await?;
        for renewal in self.books.renewals(all, Instant::now()) {
            let call = self.scripts.renew(&renewal, Instant::now());
            let numbers: Numbers = self.link.run(connection, &call).await?;
            self.books.told(&renewal);
            let reply = Reply::read(numbers, renewal.lane, Instant::now());
            self.books.see(&renewal.domain, reply.seen);
        }
        Ok(())
    }

    /// Gives a slot back in Redis, and tells who waits for it.
    async fn settle(&self, job: &Settle) -> Result<(), Gone> {
        let connection = self.link.connection().ok_or(Gone)?;
        let call = self.scripts.settle(job, Instant::now());
        let numbers: Numbers = self.link.call(connection, &call).await?;
        let reply = Reply::read(numbers, job.lane, Instant::now());
        self.books.see(&job.domain, reply.seen);
        self.bell.ring(&job.domain);
        Ok(())
    }
}
