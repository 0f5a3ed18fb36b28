//! Copies that follow a log of changes.

use std::{
    collections::BTreeSet,
    fs, io,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use grip_git::{
    Applied, CacheCounter, CachedFrom, ChangeLog, DamagedPack, GarbageRemoval, LoggedBy,
    LoggedChange, LoggedState, PackFile, PackSource, Payer, Protocol, RepackError, Repositories,
};
use grip_types::{Oid, RepoAddr};
use parking_lot::Mutex;
use tempfile::TempDir;

use crate::support::*;

/// A log in memory, and a directory for packs.
struct Log {
    changes: Mutex<Vec<LoggedChange>>,
    packs: TempDir,
    refuses: Mutex<bool>,
    /// Files of packs that a copy asked for.
    fetched: Mutex<Vec<String>>,
}

impl Log {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            changes: Mutex::default(),
            packs: TempDir::new().unwrap(),
            refuses: Mutex::new(false),
            fetched: Mutex::default(),
        })
    }

    fn len(&self) -> usize {
        self.changes.lock().len()
    }

    /// Makes the changes from `first` on in another copy, through their written form.
    fn replay(&self, copy: &Repositories, first: usize) {
        for change in &self.changes.lock()[first..] {
            let written = serde_json::to_string(change).unwrap();
            self.make(copy, &serde_json::from_str(&written).unwrap());
        }
    }

    fn make(&self, copy: &Repositories, change: &LoggedChange) -> Applied {
        let fetch = |file: &PackFile, to: &std::path::Path| {
            fs::copy(self.packs.path().join(&file.digest), to).map(drop)
        };
        copy.apply_logged(change, &fetch).unwrap()
    }

    /// The first changes of the log, made short.
    fn compacted(&self, first: usize) -> Vec<LoggedChange> {
        let mut state = LoggedState::default();
        for change in &self.changes.lock()[..first] {
            state.apply(change.clone());
        }
        state.into_changes().collect()
    }
}

impl PackSource for Log {
    fn fetch(&self, files: Vec<(PackFile, PathBuf)>) -> io::Result<()> {
        if *self.refuses.lock() {
            return Err(io::ErrorKind::NotFound.into());
        }
        for (file, to) in files {
            self.fetched.lock().push(file.digest.clone());
            fs::copy(self.packs.path().join(&file.digest), to)?;
        }
        Ok(())
    }
}

impl ChangeLog for Log {
    fn store_pack(&self, files: Vec<PathBuf>) -> io::Result<Vec<PackFile>> {
        let stored = files.iter().map(|file| {
            let name = file.file_name().unwrap().to_str().unwrap().to_owned();
            let size_bytes = fs::copy(file, self.packs.path().join(&name))?;
            Ok(PackFile {
                extension: file.extension().unwrap().to_str().unwrap().to_owned(),
                size_bytes,
                digest: name,
                generation: 0,
            })
        });
        stored.collect()
    }

    fn append(&self, change: LoggedChange) -> io::Result<u64> {
        if *self.refuses.lock() {
            return Err(io::Error::other("another node leads"));
        }
        let mut changes = self.changes.lock();
        changes.push(change);
        Ok(changes.len() as u64)
    }

    fn applied(&self, _: u64) {}

    fn failed(&self, seq: u64) {
        panic!("change {seq} could not be made");
    }
}

fn logged() -> (Sandbox, Arc<Log>) {
    let log = Log::new();
    let by = LoggedBy::new(Arc::clone(&log) as Arc<dyn ChangeLog>);
    let source = Arc::clone(&log) as Arc<dyn PackSource>;
    let sandbox = Sandbox::with(|options| {
        options.log = by;
        options.cached_from = CachedFrom::new(source, Some(0));
    });
    (sandbox, log)
}

/// All that a copy shows: repositories with their refs, archived ones, stores.
fn shown(copy: &Repositories) -> String {
    let mut lines = Vec::new();
    for repo in copy.list().unwrap() {
        let refs = copy.refs(&repo).unwrap();
        let all: Vec<String> = refs
            .iter()
            .map(|found| format!("{} {}", found.name, found.oid))
            .collect();
        lines.push(format!("{repo} {all:?} {:?}", refs.head()));
    }
    let (archives, _) = copy.archives().unwrap();
    lines.push(format!("{archives:?} {:?}", copy.stores().unwrap()));
    lines.join("\n")
}

/// A life of two repositories of one identifier.
async fn story(leader: &Sandbox) -> (RepoAddr, Oid) {
    let (alice, bob) = (repo(ALICE, "project"), repo(BOB, "project"));
    let work = Work::example();
    for owner in [&alice, &bob] {
        leader.create(owner).unwrap();
        leader.publish(owner, &work).await;
    }
    leader.archive(&alice, 5).unwrap();
    leader.create(&alice).unwrap();
    leader.archive(&alice, 5).unwrap();
    assert!(leader.restore(&alice).unwrap());
    leader.remove(&bob).unwrap();
    let tip = work.commit("more.txt", "more\n");
    leader.create(&bob).unwrap();
    leader.publish(&bob, &work).await;
    let gone = repo(ALICE, "gone");
    leader.create(&gone).unwrap();
    leader.publish(&gone, &work).await;
    leader.remove(&gone).unwrap();
    assert!(leader.remove_store(&gone.identifier).unwrap());
    work.git(&["checkout", "-q", "--detach"]);
    let proposal = work.commit("proposal.txt", "of a stranger\n");
    stage(leader, &bob, &work, proposal).await;
    assert_ne!(tip, proposal);
    (bob, proposal)
}

async fn stage(leader: &Sandbox, repo: &RepoAddr, work: &Work, tip: Oid) {
    let pack = work.pack(&format!("{tip}\n^main~1\n"), &[]);
    let received = leader.receive(repo, &pack).await.unwrap();
    let (_, staged) = received.split(&[], &[tip]).await.unwrap();
    let event = format!("refs/nostr/{}", "ab".repeat(32));
    let sender = grip_git::Sender::of_network("192.0.2.7");
    staged
        .stage(repo, vec![(name(&event), tip)], sender)
        .unwrap();
    leader.set(repo, &[set(&event, tip)]).unwrap();
}

#[tokio::test]
async fn a_copy_that_makes_the_same_changes_is_the_same() {
    let (leader, log) = logged();
    let (repo, proposal) = story(&leader).await;
    let copy = Sandbox::new();
    log.replay(&copy, 0);
    assert_eq!(shown(&copy), shown(&leader));
    let found = try_git(
        &copy.path(&repo),
        &["cat-file", "-e", &proposal.to_hex()],
        b"",
    );
    assert!(found.0.is_some(), "what is staged is on the copy");
    for repo in copy.list().unwrap() {
        let checked = copy.fsck(&repo).await.unwrap();
        assert!(checked.is_clean, "{}", checked.report);
    }
}

/// A copy that was cut short makes the last few changes again, however many, and opens what it left.
#[tokio::test]
async fn changes_that_are_made_again_lead_to_the_same() {
    let (leader, log) = logged();
    story(&leader).await;
    let expected = shown(&leader);
    for again in 1..=log.len() {
        let mut copy = Sandbox::new();
        log.replay(&copy, 0);
        copy.reopen();
        log.replay(&copy, log.len() - again);
        assert_eq!(shown(&copy), expected, "the last {again} again");
    }
}

/// A copy that begins with what some changes lead to, and makes the others, is the same: wherever the log
/// is cut.
#[tokio::test]
async fn a_log_that_was_made_short_leads_to_the_same() {
    let (leader, log) = logged();
    story(&leader).await;
    let expected = shown(&leader);
    for first in 0..=log.len() {
        let mut copy = Sandbox::new();
        for change in log.compacted(first) {
            log.make(&copy, &change);
        }
        copy.reopen();
        log.replay(&copy, first);
        assert_eq!(shown(&copy), expected, "made short up to {first}");
    }
    let short = log.compacted(log.len());
    assert!(short.len() < log.len(), "{short:#?}");
    let mut again = LoggedState::default();
    short.iter().for_each(|change| again.apply(change.clone()));
    assert_eq!(again.into_changes().collect::<Vec<_>>(), short);
}

/// A store that is read when it is to go stays until it is not read any more.
#[tokio::test]
async fn a_store_that_is_read_is_removed_by_the_next_attempt() {
    let (leader, log) = logged();
    let gone = repo(ALICE, "gone");
    leader.create(&gone).unwrap();
    leader.publish(&gone, &Work::example()).await;
    let copy = Sandbox::new();
    log.replay(&copy, 0);
    let read = log.len();
    leader.remove(&gone).unwrap();
    assert!(leader.remove_store(&gone.identifier).unwrap());
    // A client that has not sent its request yet.
    let (_client, request) = tokio::io::duplex(64);
    let reading = copy.upload_pack(&gone, Protocol::V2, Payer::Unknown, request);
    let reading = reading.unwrap();
    let made: Vec<Applied> = log.changes.lock()[read..]
        .iter()
        .map(|change| log.make(&copy, change))
        .collect();
    assert_eq!(made.last(), Some(&Applied::StillRead));
    assert!(copy.stores().unwrap().contains(&gone.identifier));
    drop(reading);
    let again = LoggedChange::RemoveStore {
        identifier: gone.identifier.clone(),
    };
    assert_eq!(log.make(&copy, &again), Applied::Whole);
    assert!(!copy.stores().unwrap().contains(&gone.identifier));
}

#[tokio::test]
async fn what_cannot_be_logged_is_not_made() {
    let (leader, log) = logged();
    let repo = repo(ALICE, "project");
    leader.create(&repo).unwrap();
    let work = Work::example();
    leader.publish(&repo, &work).await;
    let before = shown(&leader);
    *log.refuses.lock() = true;
    let tip = work.refs()[0].1;
    leader
        .set(&repo, &[set("refs/heads/other", tip)])
        .unwrap_err();
    leader.archive(&repo, 5).unwrap_err();
    leader.remove(&repo).unwrap_err();
    leader
        .create(&crate::support::repo(BOB, "project"))
        .unwrap_err();
    assert_eq!(shown(&leader), before);
}

/// A copy that fetches packs when they are needed, and keeps so many bytes of them.
fn cached(log: &Arc<Log>, max_bytes: Option<u64>) -> Sandbox {
    let source = Arc::clone(log) as Arc<dyn PackSource>;
    Sandbox::with(|options| options.cached_from = CachedFrom::new(source, max_bytes))
}

/// Has it opened again as after a restart, with the same source.
fn reopened(copy: Sandbox, log: &Arc<Log>, max_bytes: Option<u64>) -> Sandbox {
    let source = Arc::clone(log) as Arc<dyn PackSource>;
    let repositories = open(copy.dir.path(), |options| {
        options.cached_from = CachedFrom::new(source, max_bytes);
    });
    Sandbox {
        repositories,
        dir: copy.dir,
    }
}

/// Refs are set before their objects are there; what is asked for is fetched, once, and stays.
#[tokio::test(flavor = "multi_thread")]
async fn packs_are_fetched_when_they_are_needed() {
    let (leader, log) = logged();
    let (repo, _) = story(&leader).await;
    let copy = cached(&log, None);
    log.replay(&copy, 0);
    assert_eq!(shown(&copy), shown(&leader));
    assert_eq!(log.fetched.lock().len(), 0);
    assert_eq!(copy.packs(&repo.identifier).len(), 0);
    let packed = |of: &Sandbox| fs::read_to_string(of.path(&repo).join("packed-refs")).unwrap();
    assert_eq!(packed(&copy), packed(&leader), "peeled tags included");
    // Nothing that is not here counts as absent.
    *log.refuses.lock() = true;
    let tip = leader.refs(&repo).unwrap().iter().next().unwrap().oid;
    copy.kinds(&repo.identifier, &[tip]).unwrap_err();
    let copy = reopened(copy, &log, None);
    assert!(copy.is_cold(&repo.identifier));
    *log.refuses.lock() = false;
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let kinds = copy.kinds(&repo.identifier, &[tip]).unwrap();
                assert!(kinds[0].is_some());
            });
        }
    });
    let fetched = log.fetched.lock().clone();
    let mut once = fetched.clone();
    once.sort();
    once.dedup();
    assert_eq!(fetched.len(), once.len(), "{fetched:?}");
    assert!(!copy.is_cold(&repo.identifier));
    for repo in copy.list().unwrap() {
        let checked = copy.fsck(&repo).await.unwrap();
        assert!(checked.is_clean, "{}", checked.report);
    }
    // A later pack is noted, and the rest is not fetched again.
    let before = log.len();
    let work = Work::example();
    work.commit("later.txt", "later\n");
    leader.promote(&repo, &work.pack("", &["--all"])).await;
    log.replay(&copy, before);
    assert!(copy.is_cold(&repo.identifier));
    let fetched = log.fetched.lock().len();
    copy.warm(&repo.identifier).unwrap();
    assert_eq!(
        log.fetched.lock().len(),
        fetched + 2,
        "a pack and its index"
    );
}

/// Refs of a record that does not say what tags lead to are set once the objects are there.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_says_too_little_has_its_objects_fetched() {
    let (leader, log) = logged();
    let (repo, _) = story(&leader).await;
    for change in log.changes.lock().iter_mut() {
        if let LoggedChange::Refs { refs, .. } = change {
            refs.iter_mut().for_each(|set| set.peeled = None);
        }
    }
    let copy = cached(&log, None);
    log.replay(&copy, 0);
    let packed = |of: &Sandbox| fs::read_to_string(of.path(&repo).join("packed-refs")).unwrap();
    assert_eq!(packed(&copy), packed(&leader));
    assert!(!log.fetched.lock().is_empty());
}

/// Evicted are the stores that were not used for the longest time, and none that somebody reads.
#[tokio::test(flavor = "multi_thread")]
async fn packs_that_were_not_used_for_long_are_evicted_and_come_back() {
    let (leader, log) = logged();
    let repos = ["one", "two", "three"].map(|name| repo(ALICE, name));
    for repo in &repos {
        let work = Work::example();
        work.commit("own.txt", &repo.identifier.to_string());
        leader.create(repo).unwrap();
        leader.publish(repo, &work).await;
    }
    let bytes = leader.object_bytes(&repos[0].identifier);
    let max_bytes = Some(2 * bytes + bytes / 2);
    let copy = cached(&log, max_bytes);
    log.replay(&copy, 0);
    for repo in &repos {
        copy.warm(&repo.identifier).unwrap();
    }
    // The first of them is being read, the last was used last.
    let reading = copy.upload_pack(&repos[0], Protocol::V2, Payer::Unknown, tokio::io::empty());
    let reading = reading.unwrap();
    copy.warm(&repos[2].identifier).unwrap();
    let evicted = copy.evict().unwrap();
    assert_eq!((evicted.stores, copy.evict().unwrap().stores), (1, 0));
    let cold = repos.each_ref().map(|repo| copy.is_cold(&repo.identifier));
    assert_eq!(cold, [false, true, false]);
    assert_eq!(copy.packs(&repos[1].identifier).len(), 0);
    drop(reading);
    // What a restart finds is as it was left, and a store of an evicted pack is not taken for empty.
    let copy = reopened(copy, &log, max_bytes);
    assert!(copy.is_cold(&repos[1].identifier));
    let checked = copy.fsck(&repos[1]).await.unwrap();
    assert!(checked.is_clean, "{}", checked.report);
    assert_eq!(copy.evict().unwrap().stores, 1);
    let unbounded = reopened(copy, &log, None);
    assert_eq!(unbounded.evict().unwrap().stores, 0);
    for repo in &repos {
        assert!(unbounded.fsck(repo).await.unwrap().is_clean);
    }
}

/// A clone or a push that finds all packs on the disk is a hit; one that waits for them is a miss. What the
/// node does of its own accord counts as neither, and a restart goes on where the counter is kept.
#[tokio::test(flavor = "multi_thread")]
async fn requests_count_as_hits_or_misses_of_the_cache() {
    let (leader, log) = logged();
    let (repo, _) = story(&leader).await;
    let used = |of: &Sandbox| (of.cache_use().hits, of.cache_use().misses);
    let counter = CacheCounter::default();
    let source = Arc::clone(&log) as Arc<dyn PackSource>;
    let cached_from = CachedFrom::new(source, Some(0)).counted_by(&counter);
    let copy = Sandbox::with(|options| options.cached_from = cached_from.clone());
    log.replay(&copy, 0);
    let clone = |of: &Sandbox| {
        let cloning = of.upload_pack(&repo, Protocol::V2, Payer::Unknown, tokio::io::empty());
        drop(cloning.unwrap());
    };
    assert_eq!(copy.cache_use().hit_rate(), None);
    clone(&copy);
    assert_eq!(used(&copy), (0, 1));
    clone(&copy);
    assert_eq!(used(&copy), (1, 1));
    assert_eq!(copy.cache_use().hit_rate(), Some(0.5));
    assert_eq!(copy.evict().unwrap().stores, 1);
    copy.warm(&repo.identifier).unwrap();
    assert_eq!(used(&copy), (1, 1), "nobody asked for it");
    let copy = Sandbox {
        repositories: open(copy.dir.path(), |options| options.cached_from = cached_from),
        dir: copy.dir,
    };
    let pack = Work::example().pack("", &["--all"]);
    drop(copy.receive(&repo, &pack).await.unwrap());
    assert_eq!(used(&copy), (2, 1));
    // A node alone has no cache.
    let (alone, repo) = Sandbox::published(&Work::example()).await;
    let cloning = alone.upload_pack(&repo, Protocol::V2, Payer::Unknown, tokio::io::empty());
    drop(cloning.unwrap());
    assert_eq!(used(&alone), (0, 0));
}

/// A repository of more pushes than packs are to lie in a store.
async fn pushed_often(leader: &Sandbox) -> (RepoAddr, Work) {
    let repo = repo(ALICE, "project");
    leader.create(&repo).unwrap();
    let work = Work::example();
    for round in 0..30 {
        work.commit("round.txt", &format!("{round}\n"));
        leader.publish(&repo, &work).await;
    }
    (repo, work)
}

/// Repacked packs have other names than those of the log: what is evicted is fetched as it was stored.
#[tokio::test(flavor = "multi_thread")]
async fn a_repacked_store_comes_back_whole() {
    let (leader, log) = logged();
    let (repo, work) = pushed_often(&leader).await;
    let copy = cached(&log, Some(0));
    log.replay(&copy, 0);
    copy.warm(&repo.identifier).unwrap();
    let before = copy.packs(&repo.identifier).len();
    copy.repack(&repo.identifier).await.unwrap();
    assert!(copy.packs(&repo.identifier).len() < before);
    assert_eq!(copy.evict().unwrap().stores, 1);
    assert_eq!(copy.packs(&repo.identifier).len(), 0);
    assert!(copy.fsck(&repo).await.unwrap().is_clean);
    // The leader's own packs can be fetched again as well.
    assert_eq!(leader.evict().unwrap().stores, 1);
    assert_eq!(leader.packs(&repo.identifier).len(), 0);
    assert!(leader.fsck(&repo).await.unwrap().is_clean);
    work.commit("round.txt", "after\n");
    leader.publish(&repo, &work).await;
    assert!(leader.fsck(&repo).await.unwrap().is_clean);
}

/// The packs that a log names in the end.
fn listed(log: &Log) -> Vec<String> {
    let packs = log.compacted(log.len()).into_iter();
    let packs = packs.filter_map(|change| match change {
        LoggedChange::Pack { pack, .. } => Some(pack.name),
        _ => None,
    });
    packs.collect()
}

/// A store of many pushes is stored again as few packs: who joins fetches these, and who has all objects
/// keeps them as they are.
#[tokio::test(flavor = "multi_thread")]
async fn a_repacked_store_is_fetched_as_few_packs() {
    let (leader, log) = logged();
    let (repo, _) = pushed_often(&leader).await;
    let warm = cached(&log, None);
    log.replay(&warm, 0);
    warm.warm(&repo.identifier).unwrap();
    let before = log.len();
    leader.repack(&repo.identifier).await.unwrap();
    assert!(log.len() > before, "the other copies are told");
    let fetched = log.fetched.lock().len();
    assert!(listed(&log).len() < 10, "{:?}", listed(&log));
    log.replay(&warm, before);
    assert!(!warm.is_cold(&repo.identifier) && warm.outdated().is_empty());
    assert_eq!(log.fetched.lock().len(), fetched);
    assert!(warm.fsck(&repo).await.unwrap().is_clean);
    let new = cached(&log, None);
    log.replay(&new, 0);
    new.warm(&repo.identifier).unwrap();
    assert_eq!(new.packs(&repo.identifier).len(), listed(&log).len());
    assert!(new.fsck(&repo).await.unwrap().is_clean);
    // What was evicted comes back from the new packs; nothing is said twice.
    assert_eq!(leader.evict().unwrap().stores, 1);
    assert!(leader.fsck(&repo).await.unwrap().is_clean);
    let before = log.len();
    leader.repack(&repo.identifier).await.unwrap();
    assert_eq!(log.len(), before);
}

/// Has a leader whose packs are not whole refuse to have them in the list; then it fetches what the list
/// names, and its packs take their place.
async fn is_refused_and_made_whole(leader: &Sandbox, log: &Arc<Log>, repo: &RepoAddr) {
    let identifier = &repo.identifier;
    let (before, names) = (log.len(), listed(log));
    let refused = leader.repack(identifier).await.unwrap_err();
    assert!(
        matches!(refused, RepackError::Incomplete { .. }),
        "{refused}"
    );
    assert_eq!((log.len(), listed(log)), (before, names));
    assert_eq!(leader.take_suspects(), BTreeSet::from([repo.clone()]));
    assert!(leader.is_cold(identifier), "it is fetched again");
    assert!(leader.fsck(repo).await.unwrap().is_clean);
    leader.repack(identifier).await.unwrap();
    assert!(log.len() > before, "the other copies are told");
    let new = cached(log, None);
    log.replay(&new, 0);
    assert!(new.fsck(repo).await.unwrap().is_clean);
}

/// The files of a pack on the disk of a copy.
fn pack_files(copy: &Sandbox, repo: &RepoAddr, name: &str) -> [PathBuf; 2] {
    let dir = copy.store(&repo.identifier).join("objects/pack");
    ["pack", "idx"].map(|extension| dir.join(format!("{name}.{extension}")))
}

/// A disk that lost a pack, all of it or its index, is not taken for whole.
#[tokio::test(flavor = "multi_thread")]
async fn packs_that_lack_objects_do_not_get_into_the_list() {
    for lost in [0..2, 1..2] {
        let (leader, log) = logged();
        let (repo, _) = pushed_often(&leader).await;
        // Each has all objects of those before it.
        let newest = listed(&log).pop().unwrap();
        for file in &pack_files(&leader, &repo, &newest)[lost] {
            fs::remove_file(file).unwrap();
        }
        is_refused_and_made_whole(&leader, &log, &repo).await;
    }
}

/// A pack that lost a bit before other copies had it is not given to them.
#[tokio::test(flavor = "multi_thread")]
async fn a_pack_that_lost_a_bit_does_not_get_into_the_list() {
    for file in [0, 1] {
        let (leader, log) = logged();
        let (repo, _) = pushed_often(&leader).await;
        *log.refuses.lock() = true;
        leader.repack(&repo.identifier).await.unwrap_err();
        *log.refuses.lock() = false;
        let names = listed(&log);
        let packs = leader.packs(&repo.identifier).into_iter();
        let mut packs = packs.map(|file| file.trim_end_matches(".pack").to_owned());
        let rolled = packs.find(|name| !names.contains(name)).unwrap();
        let path = &pack_files(&leader, &repo, &rolled)[file];
        let mut bytes = fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::remove_file(path).unwrap();
        fs::write(path, bytes).unwrap();
        is_refused_and_made_whole(&leader, &log, &repo).await;
    }
}

/// What a lost tip leads to is not taken for unreachable.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_collected_where_a_tip_is_lost() {
    let (leader, log) = logged();
    let (repo, _) = pushed_often(&leader).await;
    let identifier = &repo.identifier;
    let newest = listed(&log).pop().unwrap();
    for file in pack_files(&leader, &repo, &newest) {
        fs::remove_file(file).unwrap();
    }
    let before = log.len();
    let now = SystemTime::now() + KEEP * 2;
    let refused = leader.find_garbage(identifier, &[], KEEP, now).await;
    assert!(matches!(refused, Err(RepackError::Incomplete { .. })));
    assert_eq!(log.len(), before);
    assert_eq!(leader.take_suspects(), BTreeSet::from([repo.clone()]));
    assert!(leader.fsck(&repo).await.unwrap().is_clean);
    let found = leader.find_garbage(identifier, &[], KEEP, now).await;
    assert!(found.unwrap().is_none(), "all of it is needed");
}

const KEEP: Duration = Duration::from_secs(3600);

/// A repository whose branch was moved back, on the leader and in the log: what is left, what nobody needs,
/// and how many changes there were before it was collected.
async fn collected(leader: &Sandbox, log: &Log) -> (RepoAddr, Work, Oid, Oid, usize) {
    let repo = repo(ALICE, "project");
    leader.create(&repo).unwrap();
    let work = Work::new();
    let kept = work.commit("kept", "kept\n");
    // In one pack with what stays, so that this is written again.
    let left = work.commit("left", &"left\n".repeat(1_000));
    leader.publish(&repo, &work).await;
    leader.set(&repo, &[set("refs/heads/main", kept)]).unwrap();
    let before = log.len();
    let now = SystemTime::now() + KEEP * 2;
    let found = leader.find_garbage(&repo.identifier, &[], KEEP, now).await;
    let garbage = found.unwrap().expect("there is some");
    assert!(matches!(
        garbage.remove(&[]),
        Ok(GarbageRemoval::Removed(_))
    ));
    (repo, work, kept, left, before)
}

/// What the leader collected leaves every copy, but for what somebody reads, which goes later; a copy that
/// is about to lead has nothing of it, fetched or not.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_collected_leaves_every_copy() {
    for max_bytes in [None, Some(1 << 30)] {
        let (leader, log) = logged();
        let copy = cached(&log, max_bytes);
        let (repo, _work, kept, left, before) = collected(&leader, &log).await;
        let identifier = &repo.identifier;
        assert!(leader.kind(&repo, left).is_none() && leader.kind(&repo, kept).is_some());
        for change in &log.changes.lock()[..before] {
            log.make(&copy, change);
        }
        assert!(copy.kind(&repo, left).is_some());
        // A client that has not sent its request yet.
        let (_client, request) = tokio::io::duplex(64);
        let reading = copy.upload_pack(&repo, Protocol::V2, Payer::Unknown, request);
        let reading = reading.unwrap();
        log.replay(&copy, before);
        assert_eq!(copy.outdated(), std::slice::from_ref(identifier));
        assert!(!copy.refresh(identifier).unwrap(), "it is read");
        assert!(!copy.leave_outdated().unwrap(), "it is read");
        assert!(copy.kind(&repo, left).is_some());
        let copy = {
            drop(reading);
            reopened(copy, &log, max_bytes)
        };
        assert_eq!(
            copy.outdated(),
            std::slice::from_ref(identifier),
            "after a restart"
        );
        assert!(copy.refresh(identifier).unwrap());
        assert!(copy.outdated().is_empty());
        assert!(copy.kind(&repo, left).is_none() && copy.kind(&repo, kept).is_some());
        assert!(copy.fsck(&repo).await.unwrap().is_clean);
        // The same without fetching anything.
        let next = cached(&log, max_bytes);
        for change in &log.changes.lock()[..before] {
            log.make(&next, change);
        }
        next.warm(identifier).unwrap();
        log.replay(&next, before);
        *log.refuses.lock() = true;
        assert!(next.leave_outdated().unwrap());
        *log.refuses.lock() = false;
        assert!(next.kind(&repo, left).is_none() && next.kind(&repo, kept).is_some());
        assert!(next.fsck(&repo).await.unwrap().is_clean);
    }
}

/// A copy that is cut short around a collection makes the last few changes again, however many.
#[tokio::test(flavor = "multi_thread")]
async fn a_collection_that_is_made_again_leads_to_the_same() {
    let (leader, log) = logged();
    let (repo, work, kept, left, _) = collected(&leader, &log).await;
    work.git(&["reset", "-q", "--hard", &kept.to_string()]);
    work.commit("next", "next\n");
    leader.publish(&repo, &work).await;
    let expected = shown(&leader);
    for again in 1..=log.len() {
        let copy = cached(&log, None);
        log.replay(&copy, 0);
        copy.warm(&repo.identifier).unwrap();
        let copy = reopened(copy, &log, None);
        log.replay(&copy, log.len() - again);
        assert!(copy.refresh(&repo.identifier).unwrap());
        assert_eq!(shown(&copy), expected, "the last {again} again");
        assert!(copy.kind(&repo, left).is_none() && copy.kind(&repo, kept).is_some());
        assert!(copy.fsck(&repo).await.unwrap().is_clean);
    }
    for first in 0..=log.len() {
        let copy = Sandbox::new();
        for change in log.compacted(first) {
            log.make(&copy, &change);
        }
        log.replay(&copy, first);
        assert_eq!(shown(&copy), expected, "made short up to {first}");
        assert!(copy.kind(&repo, left).is_none() && copy.kind(&repo, kept).is_some());
    }
}

/// A copy whose disk has no room for packs says so, and has nothing half.
#[tokio::test(flavor = "multi_thread")]
async fn packs_are_not_fetched_onto_a_full_disk() {
    let (leader, log) = logged();
    let (repo, _) = story(&leader).await;
    let source = Arc::clone(&log) as Arc<dyn PackSource>;
    let copy = Sandbox::with(|options| {
        options.cached_from = CachedFrom::new(source, None);
        options.min_free_bytes = 1 << 60;
    });
    for change in &*log.changes.lock() {
        log.make(&copy, change);
    }
    let error = copy.warm(&repo.identifier).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("no room"), "{cause}");
    assert!(log.fetched.lock().is_empty() && copy.is_cold(&repo.identifier));
}

/// A store that got new packs before it could go has nothing of before in its list: those files may be gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_comes_again_before_it_went_fetches_nothing_of_before() {
    let (leader, log) = logged();
    let repo = repo(ALICE, "project");
    leader.create(&repo).unwrap();
    leader.publish(&repo, &Work::example()).await;
    let copy = cached(&log, Some(0));
    log.replay(&copy, 0);
    copy.warm(&repo.identifier).unwrap();
    let before = log.len();
    leader.remove(&repo).unwrap();
    assert!(leader.remove_store(&repo.identifier).unwrap());
    // A client that has not sent its request yet.
    let (_client, request) = tokio::io::duplex(64);
    let reading = copy.upload_pack(&repo, Protocol::V2, Payer::Unknown, request);
    let reading = reading.unwrap();
    log.replay(&copy, before);
    assert_eq!(copy.outdated(), std::slice::from_ref(&repo.identifier));
    for file in fs::read_dir(log.packs.path()).unwrap() {
        fs::remove_file(file.unwrap().path()).unwrap();
    }
    let before = log.len();
    let work = Work::new();
    work.commit("new.txt", "new\n");
    leader.create(&repo).unwrap();
    leader.publish(&repo, &work).await;
    log.replay(&copy, before);
    drop(reading);
    assert_eq!(copy.evict().unwrap().stores, 1);
    copy.warm(&repo.identifier).unwrap();
    assert_eq!(copy.packs(&repo.identifier).len(), 1);
    assert!(copy.fsck(&repo).await.unwrap().is_clean);
}

/// What is set aside is noted as missing before it goes: a crash in between has it fetched again.
#[tokio::test(flavor = "multi_thread")]
async fn packs_are_missing_before_they_are_set_aside() {
    let (leader, log) = logged();
    let (repo, _) = story(&leader).await;
    let copy = cached(&log, None);
    log.replay(&copy, 0);
    copy.warm(&repo.identifier).unwrap();
    let packs = copy.packs(&repo.identifier);
    let damaged = packs.iter().map(|file| DamagedPack {
        name: file.trim_end_matches(".pack").to_owned(),
        reason: "it is cut short".to_owned(),
    });
    let damaged: Vec<DamagedPack> = damaged.collect();
    // A file where the directory should be: nothing can be moved.
    let aside = copy.root().join(".damaged");
    fs::write(&aside, "").unwrap();
    copy.set_aside(&repo.identifier, &damaged).unwrap_err();
    fs::remove_file(&aside).unwrap();
    assert_eq!(copy.packs(&repo.identifier), packs);
    assert!(copy.is_cold(&repo.identifier));
    // As after a crash once they were moved.
    let dir = copy.store(&repo.identifier).join("objects/pack");
    for file in fs::read_dir(&dir).unwrap() {
        fs::remove_file(file.unwrap().path()).unwrap();
    }
    // The start may read it, and fetches it for that.
    let copy = reopened(copy, &log, None);
    copy.warm(&repo.identifier).unwrap();
    assert_eq!(copy.packs(&repo.identifier), packs);
    assert!(copy.fsck(&repo).await.unwrap().is_clean);
}
