//! Members of a network in one process, each with repositories of its own.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use grip_dht::{
    Dht as _, LocalRecords, Peer, RecordKey, RecordValidator, Verdict,
    kademlia::{self, Kademlia},
};
use grip_nostr::{RepoAddr, Timestamp};
use grip_resolve::{
    Changed, Identity, Key, LocalError, LocalManifests, Manifest, NoHealth, NodeKey, Options,
    Parts, Repositories, Resolver,
};
use grip_tasks::{Ended, TaskGroup};
use grip_testkit::{Author, events::Tags, until};
use parking_lot::Mutex;
use tokio::sync::Notify;
use url::Url;

/// Repositories in memory.
#[derive(Default)]
pub struct Repos {
    served: Mutex<BTreeMap<RepoAddr, Manifest>>,
    changed: Mutex<BTreeSet<RepoAddr>>,
    wake: Notify,
}

impl Repos {
    pub fn serve(&self, manifest: &Manifest) {
        let name = manifest.name();
        self.served.lock().insert(name.clone(), manifest.clone());
        self.tell(name);
    }

    pub fn remove(&self, name: &RepoAddr) {
        self.served.lock().remove(name);
        self.tell(name.clone());
    }

    fn tell(&self, name: RepoAddr) {
        self.changed.lock().insert(name);
        self.wake.notify_one();
    }
}

impl Repositories for Repos {
    fn manifest<'a>(
        &'a self,
        name: &'a RepoAddr,
    ) -> BoxFuture<'a, Result<Option<Manifest>, LocalError>> {
        let found = self.served.lock().get(name).cloned();
        Box::pin(std::future::ready(Ok(found)))
    }

    fn page<'a>(
        &'a self,
        after: Option<&'a RepoAddr>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<RepoAddr>, LocalError>> {
        let served = self.served.lock();
        let names = served.keys();
        let later = names.filter(|name| after.is_none_or(|after| *name > after));
        let page = later.take(limit).cloned().collect();
        Box::pin(std::future::ready(Ok(page)))
    }

    fn changed(&self) -> BoxFuture<'_, Changed> {
        Box::pin(async {
            loop {
                let woken = self.wake.notified();
                let names = std::mem::take(&mut *self.changed.lock());
                if !names.is_empty() {
                    return Changed::These(names.into_iter().collect());
                }
                woken.await;
            }
        })
    }
}

/// A manifest of `author`'s repository with a state signed at `age`.
pub fn manifest(author: &Author, name: &str, age: u64, more: Tags) -> Manifest {
    let at = |seconds| Timestamp::from_secs(1_700_000_000 + seconds);
    let oid = "1111111111111111111111111111111111111111";
    let announcement = author.announcement_at("git.example", name, more, at(age));
    let state = author.state_at(name, &[("refs/heads/main", oid)], None, at(age));
    Manifest::make(announcement, vec![], Some(state)).expect("its owner signed it")
}

/// Times that a busy machine with unoptimised code keeps.
pub fn patient() -> Options {
    Options {
        request_timeout: Duration::from_secs(10),
        deadline: Duration::from_secs(15),
        ..Options::default()
    }
}

fn options(seed: u8, first: Option<&dyn Place>) -> kademlia::Options {
    let mut options = kademlia::Options::new([seed; 32]);
    options.listen = vec!["/ip4/127.0.0.1/tcp/0".to_owned()];
    options.lan_only = true;
    options.bootstrap = first.map(Place::place).into_iter().collect();
    options.connect_timeout = Duration::from_secs(30);
    options
}

/// Somebody whom others can begin with.
pub trait Place {
    fn dht(&self) -> &Kademlia;

    fn peer(&self) -> Peer {
        let status = self.dht().status();
        Peer {
            id: status.peer,
            addresses: status.listening,
        }
    }

    fn place(&self) -> String {
        let peer = self.peer();
        format!("{}/p2p/{}", peer.addresses[0], peer.id)
    }
}

/// Waits until `member` knows so many others.
pub async fn knows(member: &dyn Place, others: usize) {
    let known = || async { (member.dht().status().known_peers >= others).then_some(()) };
    let knows = until("the member knows the others", known).await;
    knows.unwrap_or_else(|error| panic!("{error}: {:?}", member.dht().status()));
}

/// An honest member.
pub struct Member {
    pub resolver: Resolver,
    pub repos: Arc<Repos>,
    pub dht: Arc<Kademlia>,
    pub url: Url,
    pub group: TaskGroup,
}

impl Place for Member {
    fn dht(&self) -> &Kademlia {
        &self.dht
    }
}

impl Member {
    pub async fn start(seed: u8, first: Option<&dyn Place>, settings: Options) -> Self {
        let group = TaskGroup::new("member");
        let repos = Arc::new(Repos::default());
        let local_manifests = LocalManifests::new(repos.clone());
        let entering = kademlia::start(
            options(seed, first),
            local_manifests.clone(),
            local_manifests.clone(),
            &group,
        );
        let dht = Arc::new(entering.await.expect("the member starts"));
        let url: Url = format!("http://10.0.0.{seed}/").parse().expect("a URL");
        let resolver = Resolver::start(Parts {
            dht: Some(dht.clone()),
            local_manifests,
            health: Arc::new(NoHealth),
            options: Arc::new(ArcSwap::from_pointee(settings)),
            identity: Some(Identity {
                key: NodeKey::from_seed(&[seed; 32]),
                urls: vec![url.clone()],
            }),
            group: group.clone(),
        });
        Self {
            resolver,
            repos,
            dht,
            url,
            group,
        }
    }

    /// So many members that all know each other.
    pub async fn net(n: u8, settings: &Options) -> Vec<Self> {
        let mut members: Vec<Self> = Vec::new();
        for seed in 1..=n {
            let first = members.first().map(|first| first as &dyn Place);
            members.push(Self::start(seed, first, settings.clone()).await);
        }
        for member in &members {
            knows(member, usize::from(n) - 1).await;
        }
        members
    }

    /// Serves `manifest` and waits until it is published.
    pub async fn serve(&self, manifest: &Manifest) {
        let before = self.resolver.counters().published_total;
        self.repos.serve(manifest);
        let told = || async { (self.resolver.counters().published_total > before).then_some(()) };
        until("the network is told", told)
            .await
            .expect("it is told");
    }

    /// Waits until this member holds `key` for the network.
    pub async fn holds(&self, key: &Key, by: &dyn Place) {
        let (peer, record) = (self.peer(), key.record());
        let held = || async { by.dht().request(&peer, &record).await.ok()?.value };
        until("the record is held", held).await.expect("it is held");
    }

    /// Ends, and leaves nothing behind.
    pub async fn stop(&self) {
        let ended = self.group.shutdown(Duration::from_secs(10)).await;
        assert_eq!(ended, Ended::Drained);
        let running = self.group.status().into_iter().map(|task| task.running);
        assert_eq!(running.sum::<usize>(), 0);
    }
}

/// What a dishonest member says to those who ask it.
pub enum Says {
    /// Nothing, for ever.
    Nothing,
    /// This, whatever the request.
    Always(Bytes),
    /// What is given under each key.
    These(BTreeMap<RecordKey, Bytes>),
}

/// A dishonest member: believes everything and says what it likes.
pub struct Stranger {
    pub dht: Kademlia,
    pub source: Arc<Voice>,
    _group: TaskGroup,
}

pub struct Voice {
    pub says: Mutex<Arc<Says>>,
    /// Requests that came, and those that ended without an answer.
    pub asked: AtomicUsize,
    pub left: AtomicUsize,
}

impl Place for Stranger {
    fn dht(&self) -> &Kademlia {
        &self.dht
    }
}

impl Stranger {
    pub async fn start(seed: u8, first: &dyn Place, says: Says) -> Self {
        let group = TaskGroup::new("stranger");
        let source = Arc::new(Voice {
            says: Mutex::new(Arc::new(says)),
            asked: AtomicUsize::new(0),
            left: AtomicUsize::new(0),
        });
        let entering = kademlia::start(
            options(seed, Some(first)),
            source.clone(),
            Arc::new(Careless),
            &group,
        );
        let dht = entering.await.expect("the stranger starts");
        Self {
            dht,
            source,
            _group: group,
        }
    }
}

struct Leaving<'a>(&'a AtomicUsize);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

impl LocalRecords for Voice {
    fn value<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, Option<Bytes>> {
        let says = Arc::clone(&self.says.lock());
        Box::pin(async move {
            self.asked.fetch_add(1, Relaxed);
            match says.as_ref() {
                Says::Nothing => {
                    // Dropped only when the stream of the request is closed at our side.
                    let _leaving = Leaving(&self.left);
                    std::future::pending().await
                }
                Says::Always(value) => Some(value.clone()),
                Says::These(values) => values.get(key).cloned(),
            }
        })
    }
}

struct Careless;

impl RecordValidator for Careless {
    fn validate(&self, _: &RecordKey, offered: &[u8], _: Option<&[u8]>) -> Verdict {
        Verdict::Keep(Bytes::copy_from_slice(offered))
    }
}
