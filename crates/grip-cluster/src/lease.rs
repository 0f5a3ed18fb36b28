//! The lease of the leader.
//!
//! It only says who may try: what keeps a former leader from changing anything is the epoch, which every
//! record and every transaction of a leader is written in. Its end is told by the clock of the database
//! alone; a leader counts its own time from before it asked, and stops a part of the lease earlier.

use std::{convert::Infallible, sync::Arc, time::Duration};

use grip_db::{DbError, Fence};
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use crate::{
    cluster::{Cluster, ClusterError, as_counted, sql},
    moment::Moment,
};

/// How often a lease is renewed while it lasts.
const RENEWALS: u32 = 4;
/// The part of a lease that a leader does not use: clocks run differently, and an answer takes its time.
const MARGIN: u32 = 10;
/// How soon a renewal that failed is tried again.
const RETRY_DELAY: Duration = Duration::from_millis(100);
/// How often it is looked whether the lease has run out: timers stand still while the machine sleeps.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The right to lead a cluster, for as long as it is renewed.
#[derive(Clone)]
pub struct Lease {
    cluster: Cluster,
    epoch: i64,
    generation: i64,
    lasts: Duration,
    term: Arc<Term>,
}

/// For how long nobody else leads.
struct Term {
    /// When the last renewal was asked for.
    renewed: Mutex<Moment>,
    /// As it was when it was last looked at.
    holds: watch::Sender<bool>,
}

impl Cluster {
    /// Takes the lead if nobody has it, or if this node had it before; sessions of who had it are ended.
    pub async fn acquire(&self, lasts: Duration) -> Result<Option<Lease>, ClusterError> {
        let state = self.known_state().await?;
        let member = self.member();
        let began = Moment::now();
        let is_former = state.leader == member.node;
        if state.is_led() && !is_former {
            return Ok(None);
        }
        if !state.leader.is_empty() && !is_former {
            let of_leader = [member.cluster.as_str().into(), state.leader.into()];
            let ended: (i64,) = self.db().fetch_one(&sql::EVICT, &of_leader).await?;
            tracing::info!(
                sessions = ended.0,
                "ended the sessions of the former leader"
            );
        }
        let values = [
            member.cluster.as_str().into(),
            member.node.as_str().into(),
            member.address.as_str().into(),
            as_millis(lasts).into(),
        ];
        let acquired = self.db().write(move |mut db| {
            Box::pin(async move { db.fetch_optional(&sql::ACQUIRE, &values).await })
        });
        let acquired: Option<(i64, i64)> = acquired.await?;
        Ok(acquired.map(|(epoch, generation)| Lease {
            cluster: self.clone(),
            epoch,
            generation,
            lasts,
            term: Arc::new(Term {
                renewed: Mutex::new(began),
                holds: watch::Sender::new(true),
            }),
        }))
    }
}

impl Lease {
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub fn epoch(&self) -> i64 {
        self.epoch
    }

    /// The first generation in which this leader stores files.
    pub(crate) fn generation(&self) -> u64 {
        as_counted(self.generation)
    }

    /// What the transactions of this leader hold.
    pub fn fence(&self) -> Fence {
        Fence {
            cluster: self.cluster.member().cluster.clone(),
            epoch: self.epoch,
        }
    }

    /// Says whether nobody else can lead at this moment.
    pub fn holds(&self) -> bool {
        !self.left().is_zero()
    }

    fn left(&self) -> Duration {
        left(self.lasts, self.term.renewed.lock().elapsed())
    }

    /// Waits until somebody else may lead; at once if that is so.
    pub async fn runs_out(&self) {
        if !self.holds() {
            return;
        }
        let mut holds = self.term.holds.subscribe();
        // The sender is ours.
        let _ = holds.wait_for(|holds| !holds).await;
    }

    /// Renews the lease again and again, until another node leads; says so.
    ///
    /// A lease that ran out because this node or the database was slow is renewed all the same, as long
    /// as nobody else has begun an epoch. Those who wait for its end are told meanwhile.
    pub async fn keep(&self) -> String {
        tokio::select! {
            lost = self.renew_on() => lost,
            never = self.watch() => match never {},
        }
    }

    async fn renew_on(&self) -> String {
        loop {
            let sent = Moment::now();
            match timeout(self.lasts, self.renew()).await {
                Ok(Ok(true)) => {
                    *self.term.renewed.lock() = sent;
                    sleep(self.lasts / RENEWALS).await;
                }
                Ok(Ok(false)) => return "another node leads the cluster now".to_owned(),
                Ok(Err(error)) => {
                    tracing::warn!(%error, "failed to renew the lease of the leader");
                    sleep(RETRY_DELAY).await;
                }
                Err(_) => tracing::warn!("the database does not answer; the lease is not renewed"),
            }
        }
    }

    /// Tells whether the lease holds, whenever that changes.
    async fn watch(&self) -> Infallible {
        loop {
            let left = self.left();
            let holds = !left.is_zero();
            let has_changed = self.term.holds.send_if_modified(|known| {
                let has_changed = *known != holds;
                *known = holds;
                has_changed
            });
            if has_changed && !holds {
                tracing::warn!(
                    "the lease of the leader has run out; nothing is served until it is renewed"
                );
            }
            let pause = if holds { left } else { LOOK_EVERY };
            sleep(pause.min(LOOK_EVERY)).await;
        }
    }

    /// Gives the lead up, for another node to take it at once.
    pub async fn release(&self) -> Result<(), ClusterError> {
        let values = [self.name(), self.epoch.into()];
        self.cluster.db().execute(&sql::RELEASE, &values).await?;
        Ok(())
    }

    async fn renew(&self) -> Result<bool, DbError> {
        let values = [self.name(), self.epoch.into(), as_millis(self.lasts).into()];
        let renewed = self.cluster.db().execute(&sql::RENEW, &values).await?;
        Ok(renewed == 1)
    }

    fn name(&self) -> grip_db::Value {
        self.cluster.member().cluster.as_str().into()
    }
}

/// What is left of a lease that was renewed some time ago.
fn left(lasts: Duration, since_renewal: Duration) -> Duration {
    (lasts - lasts / MARGIN).saturating_sub(since_renewal)
}

fn as_millis(lasts: Duration) -> i64 {
    i64::try_from(lasts.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_stops_before_its_lease_ends() {
        let lasts = Duration::from_secs(10);
        assert_eq!(left(lasts, Duration::ZERO), Duration::from_secs(9));
        assert!(left(lasts, Duration::from_secs(9)).is_zero());
        assert!(left(lasts, Duration::from_secs(60)).is_zero());
    }
}
