//! The throttle: permits for requests to hosts.

use std::{fmt, net::IpAddr, sync::Arc, time::Duration};

use grip_tasks::TaskGroup;
use grip_types::Domain;
use serde::Serialize;
use tokio::{sync::watch, time::Instant};

use crate::{
    Advice, BackendStatus, HostHistory, HostStatus, Options, Permit, RedisError, RedisOptions,
    SharedRedis,
    hosts::{HostRequest, Hosts, Outcome, RECHECK},
    ledger::{self, Ledger, LocalLedger},
    networks::{NetworkRequest, Networks, Trust},
    notifier::Notifier,
};

/// Gives out the right to ask hosts. Cheap to clone; clones share one ledger.
#[derive(Clone)]
pub struct Throttle {
    ledger: Arc<dyn Ledger<Hosts>>,
    networks: Arc<LocalLedger<Networks>>,
    notifier: Arc<Notifier>,
    /// How long a queue may trust that only the notifier can change [`Reason::InFlight`]; none
    /// where every release happens in this process.
    recheck: Option<Duration>,
}

/// The kind of traffic a request belongs to.
///
/// Both kinds share one host's limits. While both use a host, each leaves one slot and a fifth of
/// the window to the other, so that neither can keep the other out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    Git,
    Api,
}

/// What a request says about the health of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Success,
    Failure,
    /// The host responded, which says nothing about its health: 401, 404, 429.
    Neutral,
}

/// A host may not be asked right now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{domain} cannot be asked now: {reason}")]
pub struct Refused {
    pub domain: Domain,
    pub reason: Reason,
    /// When asking again may help. Only an estimate for [`Reason::InFlight`], which ends when a
    /// request in flight does.
    pub retry_at: Instant,
}

/// Why a host may not be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// As many requests as it may have are in flight; for a host that is being probed, probes.
    InFlight,
    /// As many requests as may start within its window did.
    Window,
    /// It failed too often.
    BreakerOpen,
    /// It asked us to wait.
    Advised,
    /// It is unknown, and every host that is remembered has a request in flight.
    TooManyHosts,
    /// The network of its addresses was asked enough, under this name and others.
    Network,
}

impl Throttle {
    /// A throttle whose ledger is in this process's memory.
    pub fn memory(options: Options) -> Self {
        Self::new(options, None)
    }

    /// A throttle whose ledger is in Redis, shared by all instances that use it.
    ///
    /// Where Redis does not respond at once, it begins without. The group's task renews leases,
    /// gives slots back, and looks for Redis while it is disconnected.
    pub async fn redis(
        options: Options,
        redis: RedisOptions,
        group: &TaskGroup,
    ) -> Result<Self, RedisError> {
        let (redis, task) = SharedRedis::new(redis, group.token())?;
        let throttle = Self::new(options, Some(&redis));
        task.start(group).await;
        Ok(throttle)
    }

    fn new(options: Options, redis: Option<&SharedRedis>) -> Self {
        let notifier = Arc::<Notifier>::default();
        let hosts = Hosts::new(options, Arc::clone(&notifier));
        let ledger = ledger::open(hosts, redis);
        Self::over(ledger, notifier, redis.map(|_| RECHECK))
    }

    pub(crate) fn over(
        ledger: Arc<dyn Ledger<Hosts>>,
        notifier: Arc<Notifier>,
        recheck: Option<Duration>,
    ) -> Self {
        let networks = Networks::new(ledger.lock().options());
        Self {
            ledger,
            networks: Arc::new(LocalLedger::new(networks)),
            notifier,
            recheck,
        }
    }

    /// Takes the right to one request, or says why not; never waits for capacity.
    ///
    /// Cancel safe: a future that is dropped leaves no slot behind.
    pub async fn acquire(&self, domain: &Domain, lane: Lane) -> Result<Permit, Refused> {
        let request = HostRequest {
            domain: domain.clone(),
            lane,
            under: None,
        };
        Permit::take(&self.ledger, &request).await
    }

    /// Takes the right to one request to the addresses that the name of a host leads to, beside
    /// that to the host itself.
    pub fn acquire_networks(
        &self,
        domain: &Domain,
        addresses: Vec<IpAddr>,
    ) -> Result<Permit<Networks>, Refused> {
        let trust = {
            let hosts = self.ledger.lock();
            if hosts.options().is_configured(domain) {
                Trust::Configured
            } else if hosts.has_succeeded(domain) {
                Trust::Proven
            } else {
                Trust::Unproven
            }
        };
        let request = NetworkRequest { addresses, trust };
        Permit::take_local(&self.networks, &request).map_err(|retry_at| Refused {
            domain: domain.clone(),
            reason: Reason::Network,
            retry_at,
        })
    }

    /// Whether a request would be refused, by what this process knows. The answer can be old by
    /// the time it is used: only [`Throttle::acquire`] decides.
    pub fn is_throttled(&self, domain: &Domain, lane: Lane) -> bool {
        let mut hosts = self.ledger.lock();
        hosts.is_throttled(domain, lane, Instant::now())
    }

    /// Recent failures of a host, to try healthy hosts first.
    pub fn failures(&self, domain: &Domain) -> u32 {
        self.ledger.lock().failures(domain, Instant::now())
    }

    /// How requests to a host ended, and how soon it responds, since it was last forgotten.
    pub fn history(&self, domain: &Domain) -> HostHistory {
        self.ledger.lock().history(domain)
    }

    /// Notes how long a host took to the head of a response.
    pub fn responded(&self, domain: &Domain, took: Duration) {
        self.ledger.lock().responded(domain, took);
    }

    /// Changes when a slot or start frees, or when advice or a breaker changes. Not when a window
    /// frees by time alone.
    pub fn freed(&self) -> watch::Receiver<u64> {
        self.notifier.subscribe()
    }

    /// The hosts in memory, at most as many as the settings allow, ordered by name.
    pub fn hosts(&self) -> Vec<HostStatus> {
        self.ledger.lock().statuses(Instant::now())
    }

    /// Hosts that are not in the list any more and are still to be left alone.
    pub fn departed_hosts(&self) -> usize {
        self.ledger.lock().departed()
    }

    pub fn backend(&self) -> BackendStatus {
        let redis = self.ledger.redis();
        redis.map_or(BackendStatus::Memory, SharedRedis::backend)
    }

    /// The Redis that instances share, for other ledgers; none where this throttle uses none.
    pub fn shared(&self) -> Option<&SharedRedis> {
        self.ledger.redis()
    }

    pub(crate) fn notifier(&self) -> &Notifier {
        &self.notifier
    }

    pub(crate) fn recheck(&self) -> Option<Duration> {
        self.recheck
    }
}

impl Permit {
    pub fn domain(&self) -> &Domain {
        &self.grant().domain
    }

    pub fn lane(&self) -> Lane {
        self.grant().lane
    }

    /// Pays for one more request under the same slot, as for a redirect on the same host.
    ///
    /// A refusal leaves the permit as it was.
    pub async fn again(&mut self) -> Result<(), Refused> {
        let further = self.grant().further();
        self.take_more(&further).await
    }

    /// Gives the slot back with what the host responded.
    pub fn finish(self, verdict: Verdict, advice: Option<Advice>) {
        self.settle(Outcome::Done { verdict, advice });
    }

    /// Gives slot and start back: no request was made. After [`Permit::again`] this is about
    /// that request only.
    pub fn unused(self) {
        self.settle(Outcome::Unused);
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InFlight => "enough requests are in flight",
            Self::Window => "enough requests started recently",
            Self::BreakerOpen => "it failed too often",
            Self::Advised => "it asked us to wait",
            Self::TooManyHosts => "too many other hosts are in use",
            Self::Network => "its network was asked enough, under this name and others",
        })
    }
}

impl fmt::Debug for Throttle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Throttle")
            .field("backend", &self.backend())
            .finish_non_exhaustive()
    }
}

impl Lane {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Git => Self::Api,
            Self::Api => Self::Git,
        }
    }

    /// Place in a pair of counters.
    pub(crate) fn index(self) -> usize {
        match self {
            Self::Git => 0,
            Self::Api => 1,
        }
    }
}

#[cfg(test)]
mod tests;
