//! The search for missing git data and the relays that are followed, wired over the service.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use anyhow::Context as _;
use grip_follow::{Follow, RefsError, RefsFuture, RemoteRefs};
use grip_limits::Throttle;
use grip_nostr::{PublicKey, RepoAddr};
use grip_relay::Relay;
use grip_resolve::Resolver;
use grip_store::EventStore;
use grip_sync::{DownloadBudget, DownloadLimits, FetchError, GitFetch, GitOptions, Meter, Sync};
use grip_types::{ErrorChain, Identifier, Owner, RefName};
use grip_web::{
    Backend, FollowTotals, HostBudget, RelayStatus, ReplicaReport, ReplicationTotals, SyncHandle,
    SyncReport, SyncTotals, UrlAttempt,
};
use tokio::time::Instant;
use url::Url;

use super::{base::Base, follow};

/// How long no look is taken for an owner whose budget is used up: it fills within an hour.
const SPENT_PAUSE: Duration = Duration::from_secs(600);

/// Starts to look for what waits, unless that is switched off. The resolver finds further hosts that
/// may have what is missing. Also returns the relays that are followed.
pub(super) fn start(
    base: &Base<'_>,
    resolver: &Resolver,
    relay: &Relay,
    store: &EventStore,
) -> anyhow::Result<(SyncHandle, Option<Follow>)> {
    let (sync, throttle) = (&base.settings.sync, base.throttle);
    if !sync.sync_enabled {
        tracing::info!("sync is switched off: nothing is fetched from elsewhere");
        return Ok((SyncHandle::off(), None));
    }
    let egress = base.egress_for_strangers();
    let egress = egress.context("cannot set up requests to other hosts")?;
    let fetch = GitFetch::new(
        egress,
        base.repositories.clone(),
        GitOptions {
            max_pack_bytes: sync.sync_max_pack_bytes,
            min_free_bytes: sync.sync_min_free_bytes,
            stranger_min_free_bytes: base.settings.storage.stranger_min_free_bytes,
            min_rate: sync.sync_min_bytes_per_second,
            // The silence of a host is noticed below first, which knows whose it is.
            stall: sync.sync_idle_timeout.saturating_mul(2),
            ..GitOptions::default()
        },
    );
    let fetch = match base.identity.peers.preflight() {
        Some(preflight) => fetch.with_preflight(preflight),
        None => fetch,
    };
    let fetch = match base.identity.credentials() {
        Some(credentials) => fetch.with_credentials(credentials),
        None => fetch,
    };
    let listing = fetch.clone();
    let running = Sync::start(grip_sync::Parts {
        context: base.grasp.clone(),
        providers: Arc::new(resolver.clone()),
        fetch,
        throttle: throttle.clone(),
        options: grip_sync::Options {
            loop_interval: Duration::from_millis(sync.sync_loop_interval_ms),
            max_tasks: sync.sync_max_tasks,
            downloads: DownloadLimits {
                per_author: sync.sync_author_bytes_per_hour,
                total: sync.sync_bytes_per_hour,
                ..DownloadLimits::default()
            },
            ..grip_sync::Options::default()
        },
        group: base.front.child("sync"),
    });
    let remote_refs = Arc::new(Listing {
        fetch: listing,
        budget: Arc::clone(running.budget()),
    });
    let follow = follow::start(base, relay, store, remote_refs)?;
    let report = Report {
        follow: follow.clone(),
        sync: running,
        throttle: throttle.clone(),
    };
    Ok((SyncHandle::new(report), Some(follow)))
}

/// The running sync, as the edge sees it.
struct Report {
    sync: Sync,
    follow: Follow,
    throttle: Throttle,
}

impl SyncReport for Report {
    fn totals(&self) -> SyncTotals {
        let status = self.sync.status();
        SyncTotals {
            running: status.running,
            attempts_total: status.attempts_total,
            requests_total: status.requests_total,
            oids_fetched_total: status.oids_fetched_total,
            slow: status.slow,
            received_bytes_total: status.received_bytes_total,
            download_used_bytes: status.download_used_bytes,
            download_limit_bytes: status.download_limit_bytes,
            departed_hosts: self.throttle.departed_hosts(),
        }
    }

    fn tried(&self, identifier: &Identifier) -> Vec<UrlAttempt> {
        self.sync.attempts_of(identifier)
    }

    fn recent(&self, limit: usize) -> Vec<UrlAttempt> {
        self.sync.recent_attempts(limit)
    }

    fn hosts(&self) -> Vec<HostBudget> {
        let hosts = self.throttle.hosts().into_iter();
        hosts.map(HostBudget::from).collect()
    }

    fn backend(&self) -> Backend {
        self.throttle.backend().into()
    }

    fn relays(&self) -> Vec<RelayStatus> {
        self.follow.relays()
    }

    fn followed(&self) -> FollowTotals {
        self.follow.totals()
    }

    fn replicas(&self, addr: &RepoAddr) -> Vec<ReplicaReport> {
        self.follow.replicas(addr)
    }

    fn replication(&self) -> ReplicationTotals {
        self.follow.replication()
    }
}

/// Lists the refs of clone URLs by the way that git data is fetched, and from the same budget.
struct Listing {
    fetch: GitFetch,
    budget: Arc<DownloadBudget>,
}

impl RemoteRefs for Listing {
    fn refs<'a>(
        &'a self,
        url: &'a Url,
        names: &'a BTreeSet<RefName>,
        owner: &'a PublicKey,
    ) -> RefsFuture<'a> {
        Box::pin(async {
            // Only the part that is for looks counts, and what this owner has left.
            let payer = Owner {
                key: owner.to_bytes(),
                is_served: false,
            };
            let meter = Meter::of_look(payer, &self.budget);
            let meter = meter.map_err(|_| RefsError::PutOff(SPENT_PAUSE))?;
            let listed = self.fetch.list_refs(url, names, &meter).await;
            listed.map_err(|error| match error {
                FetchError::Throttled(refused) => {
                    let pause = refused.retry_at.saturating_duration_since(Instant::now());
                    RefsError::PutOff(pause)
                }
                error => RefsError::Failed(ErrorChain(&error).to_string()),
            })
        })
    }
}
