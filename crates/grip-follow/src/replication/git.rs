//! Looks at clone URLs: one at a time, and one after the other.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use grip_nostr::{EventId, PublicKey, RepoAddr, State};
use grip_types::{Oid, RefName};
use tokio::time::{sleep, timeout};
use url::Url;

use super::replicas::Probe;
use crate::worker::{Shared, now_ms};

/// The time between two looks, at whichever servers.
const SPACING: Duration = Duration::from_secs(5);
/// How long one look may take.
const MAX_TIME: Duration = Duration::from_secs(30);
/// A state with more refs is compared by its first ones: more are not asked for in one request.
const MAX_REFS: usize = 500;
/// Longest text about a failure that is kept.
const MAX_TEXT: usize = 120;

/// Reads which refs other git servers have. `gripfast` implements it over the one way out.
pub trait RemoteRefs: Send + Sync + 'static {
    /// What the named refs point at in the repository at `url`; those it lacks are left out. What
    /// comes counts against `owner`, who lists the server.
    fn refs<'a>(
        &'a self,
        url: &'a Url,
        names: &'a BTreeSet<RefName>,
        owner: &'a PublicKey,
    ) -> RefsFuture<'a>;
}

pub type RefsFuture<'a> =
    Pin<Box<dyn Future<Output = Result<BTreeMap<RefName, Oid>, RefsError>> + Send + 'a>>;

/// Why refs could not be read.
#[derive(Debug)]
pub enum RefsError {
    /// Nobody was asked: the host, or what its owner may have us download, is at its limits. It may
    /// be asked after this time.
    PutOff(Duration),
    Failed(String),
}

impl fmt::Display for RefsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PutOff(_) => f.write_str("it is at its limits"),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for RefsError {}

/// Looks at one clone URL after the other, and saves what is known of all replicas.
pub(crate) async fn probe_for_ever(shared: Arc<Shared>) {
    loop {
        sleep(SPACING).await;
        let next = shared.replication.replicas.lock().next_clone(now_ms());
        if let Some((addr, url)) = next {
            let (state, probe) = probe(&shared, &addr, &url).await;
            let mut replicas = shared.replication.replicas.lock();
            replicas.probed(&addr, &url, state.as_ref(), probe, now_ms());
        }
        shared.replication.save().await;
    }
}

async fn probe(shared: &Arc<Shared>, addr: &RepoAddr, url: &str) -> (Option<EventId>, Probe) {
    let (followed, repo) = (Arc::clone(&shared.intake.followed), addr.clone());
    let look = move || followed.state(&repo);
    let state = shared.group.spawn_blocking("follow.look", look).await;
    // What cannot be read here says nothing of the other server.
    let (Ok(Ok(Some(state))), Ok(url)) = (state, Url::parse(url)) else {
        return (None, Probe::PutOff(0));
    };
    let id = state.event.id;
    let wanted = wanted(&state);
    let names = wanted.keys().cloned().collect();
    let asked = timeout(MAX_TIME, shared.remote_refs.refs(&url, &names, &addr.owner)).await;
    let probe = match asked {
        Ok(Ok(refs)) => Probe::Refs {
            matching: wanted
                .iter()
                .filter(|(name, oid)| refs.get(*name) == Some(*oid))
                .count(),
            all: wanted.len(),
            found: refs.len(),
        },
        Ok(Err(RefsError::PutOff(pause))) => {
            Probe::PutOff(i64::try_from(pause.as_millis()).unwrap_or(i64::MAX))
        }
        Ok(Err(RefsError::Failed(why))) => Probe::Unreachable(why.chars().take(MAX_TEXT).collect()),
        Err(_) => Probe::Unreachable("it did not answer in time".to_owned()),
    };
    (Some(id), probe)
}

fn wanted(state: &State) -> BTreeMap<RefName, Oid> {
    let refs = state.refs.iter().take(MAX_REFS);
    refs.map(|(name, oid)| (name.clone(), *oid)).collect()
}
