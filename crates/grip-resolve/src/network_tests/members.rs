//! Members of a network in one process, each with repositories of its own.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use grip_dht::{
    Dht as _, LocalRecords, Peer, RecordKey, RecordValidator, Verdict,
    kademlia::{self, Kademlia},
};
use grip_nostr::Timestamp;
use grip_tasks::{CancellationToken, Ended, Live, TaskGroup};
use grip_testkit::{Author, events::Tags, until};
use parking_lot::Mutex;
use url::Url;

use crate::{
    HostHealth, Identity, Key, Manifest, NodeKey, Options, Parts, Resolver, testing::Repos,
};

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

fn options(seed: u8, first: Option<&dyn Bootstrap>) -> kademlia::Options {
    let mut options = kademlia::Options::new([seed; 32]);
    options.listen = vec!["/ip4/127.0.0.1/tcp/0".to_owned()];
    options.lan_only = true;
    options.bootstrap = first.map(Bootstrap::address).into_iter().collect();
    options.connect_timeout = Duration::from_secs(30);
    options
}

/// A member that others can bootstrap from.
pub trait Bootstrap {
    fn dht(&self) -> &Kademlia;

    fn peer(&self) -> Peer {
        let status = self.dht().status();
        Peer {
            id: status.peer,
            addresses: status.listening,
        }
    }

    fn address(&self) -> String {
        let peer = self.peer();
        format!("{}/p2p/{}", peer.addresses[0], peer.id)
    }
}

/// Waits until `member` knows so many others.
pub async fn knows(member: &dyn Bootstrap, others: usize) {
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

impl Bootstrap for Member {
    fn dht(&self) -> &Kademlia {
        &self.dht
    }
}

impl Member {
    pub async fn start(seed: u8, first: Option<&dyn Bootstrap>, settings: Options) -> Self {
        let group = TaskGroup::new("member");
        let repos = Arc::new(Repos::default());
        let local_manifests = repos.local_manifests();
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
            health: Arc::new(|_| HostHealth::default()),
            options: Arc::new(Live::new(settings)),
            identity: Some(Identity {
                key: NodeKey::from_seed(&[seed; 32]),
                urls: vec![url.clone()],
            }),
            draining: CancellationToken::new(),
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
            let first = members.first().map(|first| first as &dyn Bootstrap);
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
        let published =
            || async { (self.resolver.counters().published_total > before).then_some(()) };
        until("it is published", published)
            .await
            .expect("it is published");
    }

    /// Waits until this member holds `key` for the network.
    pub async fn holds(&self, key: &Key, by: &dyn Bootstrap) {
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

/// The responses of a dishonest member.
pub enum Lies {
    /// Nothing, for ever.
    Nothing,
    /// This, whatever the request.
    Always(Bytes),
    /// What is given under each key.
    These(BTreeMap<RecordKey, Bytes>),
}

/// A dishonest member: accepts every record and responds with lies.
pub struct Stranger {
    pub dht: Kademlia,
    pub records: Arc<LyingRecords>,
    _group: TaskGroup,
}

pub struct LyingRecords {
    pub lies: Mutex<Arc<Lies>>,
    /// Requests that came, and those that ended without an answer.
    pub asked: AtomicUsize,
    pub left: AtomicUsize,
}

impl Bootstrap for Stranger {
    fn dht(&self) -> &Kademlia {
        &self.dht
    }
}

impl Stranger {
    pub async fn start(seed: u8, first: &dyn Bootstrap, lies: Lies) -> Self {
        let group = TaskGroup::new("stranger");
        let records = Arc::new(LyingRecords {
            lies: Mutex::new(Arc::new(lies)),
            asked: AtomicUsize::new(0),
            left: AtomicUsize::new(0),
        });
        let entering = kademlia::start(
            options(seed, Some(first)),
            records.clone(),
            Arc::new(Careless),
            &group,
        );
        let dht = entering.await.expect("the stranger starts");
        Self {
            dht,
            records,
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

impl LocalRecords for LyingRecords {
    fn value<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, Option<Bytes>> {
        let lies = Arc::clone(&self.lies.lock());
        Box::pin(async move {
            self.asked.fetch_add(1, Relaxed);
            match lies.as_ref() {
                Lies::Nothing => {
                    // Dropped only when the stream of the request is closed at our side.
                    let _leaving = Leaving(&self.left);
                    std::future::pending().await
                }
                Lies::Always(value) => Some(value.clone()),
                Lies::These(values) => values.get(key).cloned(),
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
