//! A node without a network, in a directory that outlives it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use futures_util::StreamExt;
use grip_db::Db;
use grip_git::{Options, Quarantine, Repositories};
use grip_grasp::{Bounds, CheckOptions, CheckRange, Grasp, Parts, Policy, PushReply, Selection};
use grip_nostr::{Event, EventId, RepoAddr};
use grip_relay::{Answer, Limits, Relay, Verdict, WritePolicy};
use grip_store::{EventStore, EventView};
use grip_tasks::{Ended, TaskGroup};
use grip_testkit::{Author, WorkTree, wire};
use grip_types::{Identifier, NetworkPrefixes, Origin, Service};
use nostr::prelude::{PublicKey, Timestamp};
use tempfile::TempDir;

pub(crate) const SERVICE: &str = "grasp.example.com";
pub(crate) const HELD: &str = "purgatory: won't be served until git data arrives";
pub(crate) const ZERO: &str = wire::ZERO;
/// How long the comparison at the end of a story takes at most, if nothing else is under way.
const AT_REST: Duration = Duration::from_secs(20);

/// A node, running or between two runs.
pub(crate) struct Node {
    dir: TempDir,
    staging: grip_git::StagingBudgets,
    min_free_bytes: u64,
    stranger_min_free_bytes: u64,
    /// Whose events are refused, over a restart too.
    banned: Mutex<BTreeSet<PublicKey>>,
    blacklist: Selection,
    service: String,
    bounds: Bounds,
    /// Nothing is left to be compared when the story ends.
    is_compared: AtomicBool,
    running: Option<Running>,
}

struct Running {
    grasp: Grasp,
    relay: Relay,
    store: EventStore,
    db: Db,
    repositories: Repositories,
    group: TaskGroup,
}

/// What a pushing client was told.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) accepted: bool,
    pub(crate) text: String,
}

impl Told {
    /// Expects success, and `part` in what is shown.
    #[track_caller]
    pub(crate) fn taken(&self, part: &str) {
        assert!(self.accepted && self.text.contains(part), "{self:?}");
    }

    /// Expects a refusal, and `part` in what is shown.
    #[track_caller]
    pub(crate) fn refused(&self, part: &str) {
        assert!(!self.accepted && self.text.contains(part), "{self:?}");
    }
}

impl Node {
    pub(crate) async fn start() -> Self {
        let mut node = Self {
            dir: TempDir::new().unwrap(),
            staging: Default::default(),
            min_free_bytes: 0,
            stranger_min_free_bytes: 0,
            banned: Default::default(),
            blacklist: Selection::default(),
            service: SERVICE.to_owned(),
            bounds: Bounds::default(),
            is_compared: AtomicBool::new(false),
            running: None,
        };
        let store = EventStore::open(&node.dir.path().join("events"), small()).unwrap();
        node.open(store).await;
        node
    }

    async fn open(&mut self, store: EventStore) {
        let root = self.dir.path();
        let group = TaskGroup::new("node");
        let db = Db::open(&root.join("node.db")).await.unwrap();
        let mut options = Options::new(root.join("git"));
        options.staging = self.staging;
        options.min_free_bytes = self.min_free_bytes;
        options.stranger_min_free_bytes = self.stranger_min_free_bytes;
        let repositories = Repositories::open(options).unwrap();
        let (relay, writer) = Relay::start(store.clone(), Limits::default(), &group);
        let mut policy = Policy::open(Service::parse(&self.service).unwrap());
        policy.event_blacklist = self.banned.lock().unwrap().clone();
        policy.repository_blacklist = self.blacklist.clone();
        let grasp = Grasp::start(Parts {
            store: store.clone(),
            writer,
            db: db.clone(),
            repositories: repositories.clone(),
            policy: Arc::new(ArcSwap::from_pointee(policy)),
            bounds: self.bounds,
            keep: grip_grasp::Keep::default(),
            lifecycle: Default::default(),
            sweep_every: Duration::from_secs(3600),
            group: group.child("grasp"),
        });
        self.running = Some(Running {
            grasp: grasp.await.unwrap(),
            relay,
            store,
            db,
            repositories,
            group,
        });
    }

    /// Starts again with other budgets for uploads that no event names.
    pub(crate) async fn restart_with(&mut self, staging: grip_git::StagingBudgets) {
        self.staging = staging;
        self.restart().await;
    }

    /// Starts again with more free space demanded than any disk has, or none.
    pub(crate) async fn restart_full(&mut self, is_full: bool) {
        self.min_free_bytes = if is_full { u64::MAX } else { 0 };
        self.restart().await;
    }

    /// The same for those who maintain nothing that is served.
    pub(crate) async fn restart_full_for_strangers(&mut self) {
        self.stranger_min_free_bytes = u64::MAX;
        self.restart().await;
    }

    /// Restarts the node on the same directory.
    pub(crate) async fn restart(&mut self) {
        self.restart_after(|| {}).await;
    }

    /// Restarts the node; while it is down, `change` does something to its directory.
    pub(crate) async fn restart_after(&mut self, change: impl FnOnce()) {
        self.agrees().await;
        self.start_again(change).await;
    }

    /// The same, whether relay and git agree about everything or not.
    pub(crate) async fn start_again(&mut self, change: impl FnOnce()) {
        let running = self.running.take().unwrap();
        let ended = running.group.shutdown(Duration::from_secs(20)).await;
        assert_eq!(ended, Ended::Drained);
        change();
        self.reopen(running).await;
    }

    /// Ends everything that runs.
    pub(crate) async fn end(mut self) {
        let running = self.running.take().unwrap();
        let ended = running.group.shutdown(Duration::from_secs(20)).await;
        assert_eq!(ended, Ended::Drained);
        running.relay.stop().await;
        running.db.close().await;
    }

    /// Sets the name, and how much free space is demanded, for the next start.
    pub(crate) fn start_next(&mut self, service: &str, min_free_bytes: u64) {
        service.clone_into(&mut self.service);
        self.min_free_bytes = min_free_bytes;
    }

    /// Aborts whatever is under way and starts again on the same directory.
    pub(crate) async fn cut(&mut self) {
        let running = self.running.take().unwrap();
        // Either end will do: what matters is that nobody waits for it.
        let _ = running.group.shutdown(Duration::from_millis(1)).await;
        self.reopen(running).await;
    }

    /// Lets go of everything and opens it again. Threads end a moment after they are told to, and
    /// a store is not opened twice in one process.
    async fn reopen(&mut self, running: Running) {
        self.is_compared.store(false, Relaxed);
        running.relay.stop().await;
        running.db.close().await;
        drop(running);
        let events = self.dir.path().join("events");
        let store = grip_testkit::until("every thread has let go of the store", || async {
            EventStore::open(&events, small()).ok()
        });
        self.open(store.await.unwrap()).await;
    }

    fn running(&self) -> &Running {
        self.running.as_ref().unwrap()
    }

    pub(crate) fn grasp(&self) -> &Grasp {
        &self.running().grasp
    }

    /// Sends an event that concerns git, as a client of the relay does.
    pub(crate) async fn send(&self, event: &Event) -> Answer {
        let grasp = self.grasp();
        assert!(grasp.defers(event));
        grasp
            .process_deferred(event.clone(), Origin::Submitted.into())
            .await
    }

    /// Has an event come in the way of `origin`.
    pub(crate) async fn send_as(&self, event: &Event, origin: Origin) -> Answer {
        self.grasp()
            .process_deferred(event.clone(), origin.into())
            .await
    }

    /// Takes a pack into quarantine, as a fetch does.
    pub(crate) async fn receive(&self, identifier: &str, pack: Vec<u8>) -> Quarantine {
        let identifier = Identifier::parse(identifier).unwrap();
        let repositories = &self.running().repositories;
        let mut pack = std::io::Cursor::new(pack);
        repositories.receive(&identifier, &mut pack).await.unwrap()
    }

    /// Sends an event and expects the text of its `OK true`.
    /// Has the writer's rules judge an event that is not deferred.
    pub(crate) fn judge(&self, event: &Event) -> Verdict {
        let grasp = self.grasp();
        assert!(!grasp.defers(event));
        let view = self.running().store.read().unwrap();
        grasp.judge(event, &view, Timestamp::now()).unwrap()
    }

    pub(crate) async fn accepts(&self, event: &Event, message: &str) {
        let answer = self.send(event).await;
        assert!(answer.accepted, "{answer:?}");
        assert_eq!(answer.message, message);
    }

    pub(crate) async fn refuses(&self, event: &Event, part: &str) {
        let answer = self.send(event).await;
        assert!(
            !answer.accepted && answer.message.contains(part),
            "{answer:?}"
        );
    }

    /// Puts an event that needs no git data into the relay.
    pub(crate) fn store(&self, event: &Event) {
        let store = &self.running().store;
        let put = store.write(|view| view.put(event, Timestamp::now()));
        assert!(matches!(put.unwrap(), grip_store::Put::Stored { .. }));
    }

    /// Stores a request to vanish as if the node had been killed at that moment.
    pub(crate) fn store_vanish(&self, event: &Event) {
        let store = &self.running().store;
        let put = store.write(|view| view.put_vanish(event, Timestamp::now()));
        assert!(matches!(put.unwrap(), grip_store::Put::Stored { .. }));
    }

    /// The archived copies of an owner's repositories.
    pub(crate) fn archived(&self, author: &Author) -> usize {
        let (archived, _) = self.running().repositories.archives().unwrap();
        let of_author = archived.iter();
        of_author
            .filter(|it| it.repo.owner == author.pubkey())
            .count()
    }

    pub(crate) fn serves(&self, event: &Event) -> bool {
        self.serves_id(&event.id)
    }

    pub(crate) fn serves_id(&self, id: &EventId) -> bool {
        self.running().store.read().unwrap().contains(id).unwrap()
    }

    pub(crate) async fn holds(&self, event: &Event) -> bool {
        let explained = self.grasp().explain(&event.id.to_hex()).await.unwrap();
        explained.status == grip_grasp::Status::Held
    }

    /// The refs of a repository, `HEAD` among them if its branch exists.
    pub(crate) fn refs(&self, addr: &RepoAddr) -> BTreeMap<String, String> {
        let snapshot = self.running().repositories.refs(addr).unwrap();
        let refs = snapshot
            .iter()
            .map(|r| (r.name.to_string(), r.oid.to_string()));
        let head = snapshot
            .head_ref()
            .map(|head| ("HEAD".to_owned(), head.name.to_string()));
        refs.chain(head).collect()
    }

    pub(crate) fn has_object(&self, identifier: &str, oid: &str) -> bool {
        let identifier = Identifier::parse(identifier).unwrap();
        let oids = [oid.parse().unwrap()];
        let kinds = self
            .running()
            .repositories
            .kinds(&identifier, &oids)
            .unwrap();
        kinds[0].is_some()
    }

    /// The packs of an identifier, by name.
    pub(crate) fn pack_files(&self, identifier: &str) -> Vec<String> {
        let store = format!("git/.objects/{identifier}.git/objects/pack");
        let entries = std::fs::read_dir(self.dir.path().join(store)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut packs: Vec<String> = names.filter(|name| name.ends_with(".pack")).collect();
        packs.sort();
        packs
    }

    /// Says whether one repository can read an object, by its own refs or another's.
    pub(crate) fn can_read(&self, addr: &RepoAddr, oid: &str) -> bool {
        let mut git = grip_testkit::git::command(&self.path_of(addr), ["cat-file", "-e", oid]);
        git.output().unwrap().status.success()
    }

    /// Bytes of uploads that no event names.
    pub(crate) fn staged_bytes(&self) -> u64 {
        self.running().repositories.staged_totals().bytes
    }

    /// Says whether there is a place for the objects of an identifier.
    pub(crate) fn has_store(&self, identifier: &str) -> bool {
        let stores = self.running().repositories.stores().unwrap();
        stores.contains(&Identifier::parse(identifier).unwrap())
    }

    pub(crate) async fn fsck_is_clean(&self, addr: &RepoAddr) -> bool {
        let fsck = self.running().repositories.fsck(addr).await.unwrap();
        assert!(fsck.is_clean, "{}", fsck.report);
        fsck.is_clean
    }

    /// Pushes `old new ref` commands with a pack, as bytes.
    pub(crate) async fn push_bytes(&self, addr: &RepoAddr, body: Vec<u8>) -> Told {
        self.push_bytes_from(None, addr, body).await
    }

    /// Pushes a body that is still on its way.
    pub(crate) async fn push_stream<B>(&self, addr: &RepoAddr, body: B) -> Told
    where
        B: tokio::io::AsyncRead + Send + Unpin + 'static,
    {
        told(self.grasp().push(addr.clone(), None, body).await).await
    }

    /// The same from an address.
    pub(crate) async fn push_bytes_from(
        &self,
        client: Option<&str>,
        addr: &RepoAddr,
        body: Vec<u8>,
    ) -> Told {
        let prefixes = NetworkPrefixes::default();
        let client = client.map(|client| prefixes.network(client.parse().unwrap()));
        let body = std::io::Cursor::new(body);
        told(self.grasp().push(addr.clone(), client, body).await).await
    }

    /// Pushes commands with everything the new tips reach.
    pub(crate) async fn push(
        &self,
        addr: &RepoAddr,
        tree: &WorkTree,
        commands: &[(&str, &str, &str)],
    ) -> Told {
        let mut body = wire::commands(commands, wire::CAPABILITIES);
        let tips: Vec<&str> = commands.iter().map(|(_, new, _)| *new).collect();
        let tips: Vec<&str> = tips.into_iter().filter(|tip| *tip != ZERO).collect();
        if !tips.is_empty() {
            body.extend(wire::pack(tree, &tips.join("\n"), None).await.unwrap());
        }
        self.push_bytes(addr, body).await
    }

    pub(crate) fn db(&self) -> &Db {
        &self.running().db
    }

    /// Nothing can be journalled from now on.
    pub(crate) async fn close_journal(&self) {
        self.running().db.close().await;
    }

    /// Nothing can be written to the relay from now on.
    pub(crate) async fn stop_writer(&self) {
        self.running().relay.stop().await;
    }

    /// Puts an empty repository on disk that no event speaks of.
    pub(crate) fn put_repository(&self, addr: &RepoAddr) {
        self.running().repositories.create(addr).unwrap();
    }

    pub(crate) fn is_on_disk(&self, addr: &RepoAddr) -> bool {
        self.running().repositories.exists(addr)
    }

    /// The invariant: relay and git tell the same story.
    pub(crate) async fn agrees(&self) {
        let found = disagreements(self.grasp()).await;
        assert!(found.is_empty(), "{found:#?}");
        self.is_compared.store(true, Relaxed);
    }

    /// Has the story end with a node that cannot agree, for a reason that the story is about.
    pub(crate) fn ends_in_disagreement(&self) {
        self.is_compared.store(true, Relaxed);
    }

    /// Has other rules count.
    pub(crate) fn set_policy(&self, change: impl FnOnce(&mut Policy)) {
        let mut policy = Policy::clone(&self.grasp().policy());
        change(&mut policy);
        self.grasp().set_policy(policy);
    }

    /// Has other rules count, and waits until they do.
    pub(crate) async fn enforce(&self, change: impl FnOnce(&mut Policy)) {
        let mut policy = Policy::clone(&self.grasp().policy());
        change(&mut policy);
        *self.banned.lock().unwrap() = policy.event_blacklist.clone();
        self.grasp().enforce(policy).await;
    }

    /// Starts again with another time that events may wait.
    pub(crate) async fn restart_with_lifetime(&mut self, lifetime: Duration) {
        self.bounds.lifetime = lifetime;
        self.restart().await;
    }

    /// Starts again with room for so many entries of each class for one repository.
    pub(crate) async fn restart_with_room_for(&mut self, entries: usize) {
        self.bounds.per_identifier = entries;
        self.restart().await;
    }

    /// Starts again with another list of repositories that are not taken.
    pub(crate) async fn restart_with_blacklist(&mut self, list: &str) {
        self.blacklist = list.parse().unwrap();
        self.restart().await;
    }

    /// Starts again under another name.
    pub(crate) async fn restart_as(&mut self, service: &str) {
        self.service = service.to_owned();
        self.restart().await;
    }

    /// The directory that outlives its runs.
    pub(crate) fn data_dir(&self) -> &std::path::Path {
        self.dir.path()
    }

    /// Where the files of a repository are.
    pub(crate) fn path_of(&self, addr: &RepoAddr) -> std::path::PathBuf {
        let path = format!("git/{}/{}.git", addr.npub(), addr.identifier.encoded());
        self.dir.path().join(path)
    }

    /// How many events and refs wait.
    pub(crate) fn waiting(&self) -> usize {
        let counts = self.grasp().stats().purgatory;
        counts.announcements + counts.states + counts.prs + counts.placeholders
    }
}

/// Every story ends with relay and git in agreement.
impl Drop for Node {
    fn drop(&mut self) {
        let is_compared = self.is_compared.load(Relaxed) || std::thread::panicking();
        let Some(running) = self.running.as_ref().filter(|_| !is_compared) else {
            return;
        };
        // The runtime of the story is not to be waited for from within.
        let grasp = running.grasp.clone();
        let audit = std::thread::spawn(move || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().build().unwrap();
            let audit = async { tokio::time::timeout(AT_REST, disagreements(&grasp)).await };
            runtime.block_on(audit)
        });
        let found = audit.join().unwrap();
        let found = found.expect("a story that ends while its node works ends with `agrees`");
        assert!(found.is_empty(), "at the end of the story: {found:#?}");
    }
}

/// Of every identifier, and what is on disk and belongs to nobody.
async fn disagreements(grasp: &Grasp) -> Vec<String> {
    let range = CheckRange {
        after: None,
        limit: usize::MAX,
        time: AT_REST,
    };
    let checked = grasp.check(range, CheckOptions::default()).await.unwrap();
    assert_eq!(checked.next, None);
    checked.found.iter().map(ToString::to_string).collect()
}

fn small() -> grip_store::Options {
    grip_store::Options {
        map_bytes: 64 << 20,
        ..grip_store::Options::default()
    }
}

pub(crate) async fn told(mut reply: PushReply) -> Told {
    if let Some(unread) = reply.unread.take() {
        unread.drain().await;
    }
    let mut bytes = Vec::new();
    while let Some(piece) = reply.body.next().await {
        bytes.extend_from_slice(&piece);
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Told {
        accepted: text.contains("unpack ok\n") && !text.contains("ng "),
        text,
    }
}

/// Where an author's repository is.
pub(crate) fn addr(author: &Author, identifier: &str) -> RepoAddr {
    RepoAddr::new(author.pubkey(), Identifier::parse(identifier).unwrap())
}

/// An announcement that lists the node, with further maintainers.
pub(crate) fn announce(author: &Author, identifier: &str, maintainers: &[&Author]) -> Event {
    announce_at(author, identifier, maintainers, Timestamp::now())
}

pub(crate) fn announce_at(
    author: &Author,
    identifier: &str,
    maintainers: &[&Author],
    at: Timestamp,
) -> Event {
    let mut tag = vec!["maintainers".to_owned()];
    tag.extend(maintainers.iter().map(|maintainer| maintainer.hex()));
    let more = if maintainers.is_empty() {
        vec![]
    } else {
        vec![tag]
    };
    author.announcement_at(SERVICE, identifier, more, at)
}

/// Has two owners list each other: the first, who is served, and the second, whose announcement is
/// served at once.
pub(crate) async fn join(node: &Node, owner: &Author, second: &Author) -> Event {
    let listing = announce_at(owner, "x", &[second], later(1));
    node.accepts(&listing, "").await;
    let beside = announce(second, "x", &[owner]);
    node.accepts(&beside, "").await;
    beside
}

/// An announcement on another server, which lists `maintainers`.
pub(crate) fn elsewhere(author: &Author, maintainers: &[&Author], at: Timestamp) -> Event {
    let mut tag = vec!["maintainers".to_owned()];
    tag.extend(maintainers.iter().map(|maintainer| maintainer.hex()));
    author.announcement_at("other.example.com", "x", vec![tag], at)
}

/// Seconds from now: states of one story follow each other in time.
pub(crate) fn later(seconds: u64) -> Timestamp {
    Timestamp::from_secs(Timestamp::now().as_secs() + seconds)
}

/// A node on which `author` has pushed one commit to `main`.
pub(crate) async fn with_repository(author: &Author, identifier: &str) -> (Node, WorkTree, String) {
    let node = Node::start().await;
    let (tree, tip) = add_repository(&node, author, identifier).await;
    (node, tree, tip)
}

/// A repository of `author` in which one commit is pushed to `main`.
pub(crate) async fn add_repository(
    node: &Node,
    author: &Author,
    identifier: &str,
) -> (WorkTree, String) {
    let tree = WorkTree::init().unwrap();
    // Another one for everybody: the data of nobody's state is here already.
    let tip = tree.commit("README.md", &author.hex()).unwrap();
    node.accepts(&announce(author, identifier, &[]), HELD).await;
    let state = author.state(
        identifier,
        &[("refs/heads/main", &tip)],
        Some("refs/heads/main"),
    );
    node.accepts(&state, HELD).await;
    let main = [(ZERO, tip.as_str(), "refs/heads/main")];
    let told = node.push(&addr(author, identifier), &tree, &main).await;
    told.taken("");
    (tree, tip)
}

/// An owner whose repository `x` has one commit on `main`, served.
pub(crate) struct Scene {
    pub(crate) owner: Author,
    pub(crate) node: Node,
    pub(crate) tree: WorkTree,
    pub(crate) tip: String,
    pub(crate) repo: RepoAddr,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        let owner = Author::new();
        let (node, tree, tip) = with_repository(&owner, "x").await;
        let repo = addr(&owner, "x");
        Self {
            owner,
            node,
            tree,
            tip,
            repo,
        }
    }

    /// A further commit, here and not on the node.
    pub(crate) fn commit(&self, content: &str) -> String {
        self.tree.commit("a", content).unwrap()
    }

    /// The owner's state with `main` at a commit that is not here, held.
    pub(crate) async fn hold(&self, main: &str, seconds: u64) -> Event {
        self.hold_by(&self.owner, main, seconds).await
    }

    /// The same of any author.
    pub(crate) async fn hold_by(&self, author: &Author, main: &str, seconds: u64) -> Event {
        let refs = [("refs/heads/main", main)];
        let state = author.state_at("x", &refs, None, later(seconds));
        self.node.accepts(&state, HELD).await;
        state
    }

    /// A further commit and the state that names it.
    pub(crate) async fn hold_next(&self) -> (String, Event) {
        let next = self.commit("next");
        let state = self.hold(&next, 1).await;
        (next, state)
    }

    pub(crate) async fn push(&self, commands: &[(&str, &str, &str)]) -> Told {
        self.node.push(&self.repo, &self.tree, commands).await
    }

    pub(crate) async fn push_main(&self, old: &str, new: &str) -> Told {
        self.push(&[(old, new, "refs/heads/main")]).await
    }

    /// The body of a push of `main` from the first commit to `new`.
    pub(crate) async fn body(&self, new: &str) -> Vec<u8> {
        let command = [(self.tip.as_str(), new, "refs/heads/main")];
        let mut body = wire::commands(&command, wire::CAPABILITIES);
        body.extend(wire::pack(&self.tree, new, None).await.unwrap());
        body
    }

    /// Where `main` is on the node.
    pub(crate) fn main(&self) -> String {
        self.node.refs(&self.repo)["refs/heads/main"].clone()
    }
}
