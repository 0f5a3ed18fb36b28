//! Collection of unreachable objects beside pushes and fetches.

use std::{
    path::PathBuf,
    time::{Duration, SystemTime},
};

use futures_util::StreamExt as _;
use grip_git::{Collected, GarbageRemoval, Payer, Protocol, RepackError};
use grip_tasks::fault;
use grip_types::{Oid, RepoAddr};

use crate::support::*;

const KEEP: Duration = Duration::from_secs(3600);

fn after(keeps: u32) -> SystemTime {
    SystemTime::now() + KEEP * keeps + Duration::from_secs(1)
}

/// Collects as the node does when nothing happens meanwhile.
async fn collect(sandbox: &Sandbox, repo: &RepoAddr, named: &[Oid], now: SystemTime) -> Collected {
    let found = sandbox.find_garbage(&repo.identifier, named, KEEP, now);
    let Some(garbage) = found.await.unwrap() else {
        return Collected::default();
    };
    match garbage.remove(named).unwrap() {
        GarbageRemoval::Removed(collected) => collected,
        GarbageRemoval::Changed(_) => panic!("nothing has changed"),
    }
}

/// A repository whose branch was moved back from a commit with `bytes` of noise to its parent: the
/// parent and what nobody needs any more.
async fn moved_back(bytes: usize) -> (Sandbox, RepoAddr, Work, Oid, Oid) {
    let work = Work::new();
    let kept = work.commit("kept", "kept\n");
    let (sandbox, repo) = Sandbox::published(&work).await;
    std::fs::write(work.dir.path().join("noise"), noise(bytes)).unwrap();
    let left = work.commit("left", "left\n");
    sandbox.publish(&repo, &work).await;
    sandbox.set(&repo, &[set("refs/heads/main", kept)]).unwrap();
    (sandbox, repo, work, kept, left)
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..bytes).map(|_| next()).collect()
}

fn stored_bytes(sandbox: &Sandbox, repo: &RepoAddr) -> u64 {
    let packs: PathBuf = sandbox.store(&repo.identifier).join("objects/pack");
    let sizes = names_in(&packs).into_iter();
    let sizes = sizes.map(|name| std::fs::metadata(packs.join(name)).unwrap().len());
    sizes.sum()
}

#[tokio::test]
async fn what_no_ref_names_goes_after_the_grace_time_and_the_rest_stays() {
    let (sandbox, repo, _work, kept, left) = moved_back(100_000).await;
    let before = stored_bytes(&sandbox, &repo);
    let done = collect(&sandbox, &repo, &[], after(1)).await;
    assert!(done.objects >= 4 && done.bytes > 100_000, "{done:?}");
    assert!(sandbox.kind(&repo, left).is_none());
    assert!(sandbox.kind(&repo, kept).is_some());
    assert!(stored_bytes(&sandbox, &repo) + 100_000 < before);
    assert_fsck_is_clean(&sandbox.path(&repo));
    sandbox.assert_quarantine_is_empty();
    let again = collect(&sandbox, &repo, &[], after(2)).await;
    assert_eq!(again, Collected::default());
}

#[tokio::test]
async fn what_a_ref_named_a_while_ago_stays_for_the_grace_time_also_after_a_restart() {
    let (mut sandbox, repo, _work, _, left) = moved_back(1_000).await;
    // Old enough for its packs, but not for the ref that went a moment ago.
    let packs = sandbox.store(&repo.identifier).join("objects/pack");
    let long_ago = SystemTime::now() - KEEP * 10;
    for name in names_in(&packs).iter().filter(|n| n.ends_with(".pack")) {
        set_modified(&packs.join(name), long_ago);
    }
    sandbox.reopen();
    let done = collect(&sandbox, &repo, &[], SystemTime::now()).await;
    assert_eq!(done, Collected::default());
    assert!(sandbox.kind(&repo, left).is_some());
    let done = collect(&sandbox, &repo, &[], after(1)).await;
    assert!(done.objects > 0 && sandbox.kind(&repo, left).is_none());
}

#[tokio::test]
async fn what_events_siblings_archives_and_staged_uploads_need_stays() {
    let (sandbox, alices, work, kept, left) = moved_back(1_000).await;
    let done = collect(&sandbox, &alices, &[left], after(1)).await;
    assert_eq!(done, Collected::default(), "an event names it");

    let bobs = repo(BOB, "project");
    sandbox.create(&bobs).unwrap();
    sandbox.set(&bobs, &[set("refs/heads/main", left)]).unwrap();
    let done = collect(&sandbox, &alices, &[], after(1)).await;
    assert_eq!(done, Collected::default(), "a ref of a sibling names it");
    sandbox.archive(&bobs, 7).unwrap();
    // As a crash leaves it that tried whether the archive can be written.
    let of_bob = sandbox.root().join(".archive").join(BOB);
    std::fs::write(of_bob.join(".probe"), "").unwrap();
    let done = collect(&sandbox, &alices, &[], after(2)).await;
    assert_eq!(done, Collected::default(), "an archived ref names it");
    assert_eq!(sandbox.archives().unwrap().1, 0, "a probe is no archive");

    // A proposal that builds on it.
    work.commit("proposal", "proposal\n");
    let pack = work.pack("HEAD\n^HEAD~1\n", &["--thin"]);
    let proposal = work.oid("HEAD");
    let name = name(&format!("refs/nostr/{}", "a".repeat(64)));
    let quarantine = sandbox.receive(&alices, &pack).await.unwrap();
    let tips = vec![(name.clone(), proposal)];
    quarantine
        .stage(&alices, tips, grip_git::Sender::default())
        .unwrap();
    let edit = set(name.as_str(), proposal);
    sandbox.set(&alices, &[edit]).unwrap();
    let (archives, _) = sandbox.archives().unwrap();
    sandbox.remove_archive(&archives[0]).unwrap();
    assert!(sandbox.archived().unwrap().is_empty());
    let done = collect(&sandbox, &alices, &[], after(3)).await;
    assert_eq!(done, Collected::default(), "a staged upload rests on it");
    assert_fsck_is_clean(&sandbox.path(&alices));

    sandbox.set(&alices, &[delete(name.as_str())]).unwrap();
    let done = collect(&sandbox, &alices, &[], after(4)).await;
    assert!(done.objects > 0);
    assert!(sandbox.kind(&alices, left).is_none() && sandbox.kind(&alices, kept).is_some());
    assert_fsck_is_clean(&sandbox.path(&alices));
}

#[tokio::test]
async fn nothing_goes_while_a_pack_waits_that_was_checked_against_it() {
    let (sandbox, repo, work, _, left) = moved_back(1_000).await;
    let next = work.commit("next", "next\n");
    let pack = work.pack("HEAD\n^HEAD~1\n", &["--thin"]);
    let find = || sandbox.find_garbage(&repo.identifier, &[], KEEP, after(1));
    let garbage = find().await.unwrap().expect("there is some");
    let quarantine = sandbox.receive(&repo, &pack).await.unwrap();
    assert!(matches!(garbage.remove(&[]), Err(RepackError::Busy(_))));
    let pruned = quarantine.prune_to(&[next]).await.unwrap();
    let garbage = find().await.unwrap().expect("there is some");
    assert!(matches!(garbage.remove(&[]), Err(RepackError::Busy(_))));
    pruned.quarantine.promote().unwrap();
    sandbox.set(&repo, &[set("refs/heads/main", next)]).unwrap();
    assert!(find().await.unwrap().is_none());
    assert!(sandbox.kind(&repo, left).is_some());
    assert_fsck_is_clean(&sandbox.path(&repo));
}

#[tokio::test]
async fn nothing_goes_while_a_backup_keeps_what_it_lays_out() {
    let (sandbox, repo, _work, _, left) = moved_back(1_000).await;
    let find = || sandbox.find_garbage(&repo.identifier, &[], KEEP, after(1));
    let garbage = find().await.unwrap().expect("there is some");
    let kept = sandbox.keep_objects().unwrap();
    assert!(matches!(garbage.remove(&[]), Err(RepackError::Busy(_))));
    assert!(sandbox.kind(&repo, left).is_some());
    drop(kept);
    assert!(collect(&sandbox, &repo, &[], after(1)).await.objects > 0);
}

#[tokio::test]
async fn a_probe_that_a_crash_left_in_the_archive_does_not_stop_the_collection() {
    let (sandbox, repo, _work, _, left) = moved_back(1_000).await;
    let archive = sandbox.root().join(".archive").join(repo.npub());
    std::fs::create_dir_all(&archive).unwrap();
    std::fs::write(archive.join(".probe"), []).unwrap();
    let done = collect(&sandbox, &repo, &[], after(1)).await;
    assert!(done.objects > 0 && sandbox.kind(&repo, left).is_none());
}

/// A push that lands between the walk and the removal.
#[tokio::test]
async fn what_a_push_builds_on_that_came_during_the_collection_stays() {
    let (sandbox, repo, work, kept, left) = moved_back(1_000).await;
    let find = || sandbox.find_garbage(&repo.identifier, &[], KEEP, after(1));

    // One that has nothing to do with it only makes the collection look again.
    let garbage = find().await.unwrap().expect("there is some");
    work.git(&["checkout", "--quiet", "-b", "side", &kept.to_string()]);
    let side = work.commit("side", "side\n");
    sandbox
        .promote(&repo, &work.pack("HEAD\n^HEAD~1\n", &["--thin"]))
        .await;
    sandbox.set(&repo, &[set("refs/heads/side", side)]).unwrap();
    let GarbageRemoval::Changed(garbage) = garbage.remove(&[]).unwrap() else {
        panic!("a pack has come");
    };
    let garbage = garbage.look_again(&[]).await.unwrap().expect("still some");
    assert!(
        garbage
            .remove(&[left])
            .is_ok_and(|removal| matches!(removal, GarbageRemoval::Changed(_)))
    );
    assert!(
        sandbox.kind(&repo, left).is_some(),
        "an event names it by now"
    );

    // One that builds on it keeps it.
    let garbage = find().await.unwrap().expect("there is some");
    work.git(&["checkout", "--quiet", "main"]);
    let next = work.commit("next", "next\n");
    sandbox
        .promote(&repo, &work.pack("HEAD\n^HEAD~1\n", &["--thin"]))
        .await;
    let GarbageRemoval::Changed(garbage) = garbage.remove(&[]).unwrap() else {
        panic!("a pack has come");
    };
    assert!(garbage.look_again(&[]).await.unwrap().is_none());
    sandbox.set(&repo, &[set("refs/heads/main", next)]).unwrap();
    assert!(sandbox.kind(&repo, left).is_some());
    assert_fsck_is_clean(&sandbox.path(&repo));
}

/// What stays must link to nothing that is gone, wanted or not: presence of a commit means presence of
/// all it needs.
#[tokio::test]
async fn what_a_young_pack_links_to_stays_though_no_ref_names_it() {
    let (sandbox, repo, work, _, left) = moved_back(1_000).await;
    let next = work.commit("next", "next\n");
    let late = SystemTime::now() + KEEP * 2;
    sandbox
        .promote(&repo, &work.pack("HEAD\n^HEAD~1\n", &["--thin"]))
        .await;
    let packs = sandbox.store(&repo.identifier).join("objects/pack");
    let newest = newest_pack(&packs);
    set_modified(&packs.join(newest), late);
    let done = collect(&sandbox, &repo, &[], after(1)).await;
    assert_eq!(done, Collected::default());
    assert!(sandbox.kind(&repo, left).is_some() && sandbox.kind(&repo, next).is_some());
    let done = collect(&sandbox, &repo, &[], after(4)).await;
    assert!(done.objects > 0 && sandbox.kind(&repo, next).is_none());
    assert_fsck_is_clean(&sandbox.path(&repo));
}

fn newest_pack(packs: &std::path::Path) -> String {
    let names = names_in(packs).into_iter().filter(|n| n.ends_with(".pack"));
    let modified = |name: &String| packs.join(name).metadata().unwrap().modified().unwrap();
    names.max_by_key(modified).unwrap()
}

fn set_modified(path: &std::path::Path, time: SystemTime) {
    std::fs::File::open(path)
        .unwrap()
        .set_modified(time)
        .unwrap();
}

#[tokio::test]
async fn a_fetch_that_began_before_the_collection_ends_well() {
    let work = Work::new();
    for n in 0..40 {
        std::fs::write(work.dir.path().join("noise"), noise(50_000 + n)).unwrap();
        work.commit("f", &n.to_string());
    }
    let (sandbox, repo) = Sandbox::published(&work).await;
    let tip = work.oid("HEAD");
    std::fs::write(work.dir.path().join("noise"), noise(3_000_000)).unwrap();
    work.commit("left", "left\n");
    sandbox.publish(&repo, &work).await;
    sandbox.set(&repo, &[set("refs/heads/main", tip)]).unwrap();
    sandbox.repack(&repo.identifier).await.unwrap();

    let want = format!("want {tip}\n");
    let mut request = format!("{:04x}{want}", want.len() + 4).into_bytes();
    request.extend(b"00000009done\n");
    let body = std::io::Cursor::new(request);
    let answer = sandbox.upload_pack(&repo, Protocol::V0, Payer::Unknown, body);
    let mut answer = answer.unwrap();
    let mut bytes = answer.next().await.unwrap().unwrap().to_vec();
    let done = collect(&sandbox, &repo, &[], after(1)).await;
    assert!(done.bytes > 3_000_000);
    while let Some(chunk) = answer.next().await {
        bytes.extend(chunk.unwrap());
    }
    let start = bytes.windows(4).position(|four| four == b"PACK").unwrap();
    let clone = Work::new();
    let arguments = ["index-pack", "--stdin", "--strict"];
    let (indexed, complaint) = try_git(clone.dir.path(), &arguments, &bytes[start..]);
    assert!(indexed.is_some(), "{complaint}");
    assert_eq!(clone.git(&["cat-file", "-t", &tip.to_string()]), "commit");
}

#[tokio::test]
async fn a_little_that_is_unreachable_is_not_worth_writing_all_again() {
    let work = Work::new();
    std::fs::write(work.dir.path().join("noise"), noise(300_000)).unwrap();
    let kept = work.commit("kept", "kept\n");
    work.commit("left", "left\n");
    let (sandbox, repo) = Sandbox::published(&work).await;
    sandbox.set(&repo, &[set("refs/heads/main", kept)]).unwrap();
    let done = collect(&sandbox, &repo, &[], after(1)).await;
    assert_eq!(done, Collected::default());
}

/// Half of a collection would leave commits whose files are gone: presence would mean nothing.
#[tokio::test]
async fn a_collection_that_a_crash_cuts_is_finished_by_the_next_start() {
    let (mut sandbox, repo, work, kept, left) = moved_back(1_000).await;
    let next = work.commit("next", "next\n");
    sandbox
        .promote(&repo, &work.pack("HEAD\n^HEAD~1\n", &["--thin"]))
        .await;
    let garbage = sandbox.find_garbage(&repo.identifier, &[], KEEP, after(1));
    let garbage = garbage.await.unwrap().expect("there is some");
    fault::meet("git.collect.removed", || panic!("as a crash would"));
    let cut = tokio::task::spawn_blocking(move || garbage.remove(&[]).map(drop)).await;
    assert!(cut.is_err());
    fault::meet("git.collect.removed", || {});
    let is_there = |oid| sandbox.kind(&repo, oid).is_some();
    assert!(is_there(left) != is_there(next), "one of two packs is gone");
    sandbox.reopen();
    let is_there = |oid| sandbox.kind(&repo, oid).is_some();
    assert!(!is_there(left) && !is_there(next) && is_there(kept));
    assert!(sandbox.damaged_packs(&repo.identifier).unwrap().is_empty());
    assert_fsck_is_clean(&sandbox.path(&repo));
    let done = collect(&sandbox, &repo, &[], after(2)).await;
    assert_eq!(done, Collected::default());
}

#[tokio::test]
async fn what_nobody_reaches_goes_while_the_disk_is_nearly_full() {
    let (mut sandbox, repo, _work, kept, left) = moved_back(100_000).await;
    sandbox.reopen_with(|options| options.min_free_bytes = u64::MAX);
    let done = collect(&sandbox, &repo, &[], after(2)).await;
    assert!(done.bytes > 90_000, "{done:?}");
    let is_there = |oid| sandbox.kind(&repo, oid).is_some();
    assert!(is_there(kept) && !is_there(left));
}
