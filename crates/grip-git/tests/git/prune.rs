//! Received packs pruned to what was asked for.

use grip_git::{Quarantine, ReceiveError};
use grip_types::{Oid, RepoAddr};

use crate::support::*;

async fn receive(sandbox: &Sandbox, repo: &RepoAddr, pack: &[u8]) -> Quarantine {
    let received = sandbox.receive(repo, pack).await;
    received.unwrap()
}

fn objects(work: &Work, revision: &str) -> Vec<Oid> {
    let listed = work.git(&["rev-list", "--objects", "--no-object-names", revision]);
    listed.lines().map(|line| line.parse().unwrap()).collect()
}

/// Every object in the store.
fn stored(sandbox: &Sandbox, repo: &RepoAddr) -> Vec<Oid> {
    let arguments = [
        "cat-file",
        "--batch-all-objects",
        "--batch-check=%(objectname)",
    ];
    let listed = git(&sandbox.store(&repo.identifier), &arguments);
    listed.lines().map(|line| line.parse().unwrap()).collect()
}

fn sorted(mut oids: Vec<Oid>) -> Vec<Oid> {
    oids.sort();
    oids.dedup();
    oids
}

/// A commit on top of `main` that is too large to be read in process.
fn large_commit(work: &Work) -> Oid {
    let (tree, parent) = (work.oid("main^{tree}"), work.oid("main"));
    let by = "A <a@b.example> 1700000000 +0000";
    let message = "word ".repeat(1 << 20);
    let text = format!("tree {tree}\nparent {parent}\nauthor {by}\ncommitter {by}\n\n{message}\n");
    work.write_object("commit", text.as_bytes())
}

#[tokio::test]
async fn what_is_too_large_to_be_read_here_is_walked_by_git() {
    let (sandbox, repo) = empty();
    let work = Work::example();
    let loose = work.write_object("blob", b"nobody asked for this");
    let tip = large_commit(&work);
    let needed = objects(&work, &tip.to_hex());
    let mut all = needed.clone();
    all.push(loose);
    let quarantine = receive(&sandbox, &repo, &work.pack_of(&all)).await;
    let kept = quarantine.prune_to(&[tip]).await.unwrap();
    assert_eq!(kept.arrived, [tip]);
    kept.quarantine.promote().unwrap();
    assert_eq!(stored(&sandbox, &repo), sorted(needed));
}

#[tokio::test]
async fn what_the_store_has_without_a_ref_is_not_stored_twice() {
    let (sandbox, repo) = empty();
    let work = Work::example();
    let pack = work.pack("dev\n", &[]);
    sandbox.promote(&repo, &pack).await;
    let quarantine = receive(&sandbox, &repo, &pack).await;
    let kept = quarantine.prune_to(&[work.oid("dev")]).await.unwrap();
    assert_eq!(kept.arrived, [work.oid("dev")]);
    assert!(kept.quarantine.is_empty());
}

#[tokio::test]
async fn only_what_is_wanted_and_all_it_needs_is_kept() {
    let work = Work::example();
    let loose = work.write_object("blob", b"nobody asked for this");
    let mut all = objects(&work, "--all");
    all.push(loose);
    let pack = work.pack_of(&all);
    for wanted in [
        "dev",
        "main",
        "v1",
        "v1-again",
        "main^{tree}",
        "main:dir",
        "main:a.txt",
    ] {
        let (sandbox, repo) = empty();
        let oid = work.oid(wanted);
        let quarantine = receive(&sandbox, &repo, &pack).await;
        let kept = quarantine.prune_to(&[oid, oid]).await.unwrap();
        assert_eq!(kept.arrived, [oid]);
        assert_eq!(kept.quarantine.kinds(&[loose]).unwrap(), [None]);
        assert!(
            stored(&sandbox, &repo).is_empty(),
            "nothing before promotion"
        );
        kept.quarantine.promote().unwrap();
        sandbox.assert_quarantine_is_empty();
        assert_eq!(
            stored(&sandbox, &repo),
            sorted(objects(&work, &oid.to_hex())),
            "{wanted}"
        );
        assert_fsck_is_clean(&sandbox.store(&repo.identifier));
        if wanted == "main" {
            sandbox.set(&repo, &[set("refs/heads/main", oid)]).unwrap();
            assert_fsck_is_clean(&sandbox.path(&repo));
        }
    }
}

#[tokio::test]
async fn wanted_objects_that_did_not_come_are_left_out() {
    let (sandbox, repo) = empty();
    let work = Work::example();
    let absent: Oid = "ab".repeat(20).parse().unwrap();
    let long: Oid = "ab".repeat(32).parse().unwrap();
    let wanted = [work.oid("main"), absent, long, work.oid("v1")];
    let quarantine = receive(&sandbox, &repo, &work.pack("main\n", &[])).await;
    let kept = quarantine.prune_to(&wanted).await.unwrap();
    assert_eq!(kept.arrived, wanted[..1]);
    let none = kept.quarantine.prune_to(&[absent]).await.unwrap();
    assert!(none.arrived.is_empty() && none.quarantine.is_empty());
    sandbox.assert_quarantine_is_empty();
    let nothing = sandbox.no_pack(&repo.identifier);
    assert!(nothing.prune_to(&wanted).await.unwrap().arrived.is_empty());
}

#[tokio::test]
async fn a_pack_with_nothing_to_drop_stays_as_it_is() {
    let work = Work::new();
    let long: String = (0..3000).map(|n| format!("line {n}\n")).collect();
    work.commit("long.txt", &long);
    let (as_sent, repo) = Sandbox::published(&work).await;
    let (kept, _) = Sandbox::published(&work).await;
    let new = work.commit("long.txt", &long.replace("line 77\n", "changed\n"));
    // The base of its delta is added to the pack, though the store has it.
    let thin = work.pack("HEAD\n^HEAD~1\n", &["--thin"]);
    let quarantine = receive(&as_sent, &repo, &thin).await;
    quarantine.promote().unwrap();
    let quarantine = receive(&kept, &repo, &thin).await;
    let left = quarantine.prune_to(&[new]).await.unwrap();
    assert_eq!(left.arrived, [new]);
    left.quarantine.promote().unwrap();
    let packs = kept.packs(&repo.identifier);
    assert_eq!(packs, as_sent.packs(&repo.identifier));
    assert_eq!(packs.len(), 2);
}

#[tokio::test]
async fn what_refs_reach_already_is_not_stored_twice() {
    let work = Work::example();
    let (sandbox, repo) = Sandbox::published(&work).await;
    let packs = sandbox.packs(&repo.identifier);
    let quarantine = receive(&sandbox, &repo, &work.pack("dev\n", &[])).await;
    let kept = quarantine.prune_to(&[work.oid("dev")]).await.unwrap();
    assert_eq!(kept.arrived, [work.oid("dev")]);
    assert!(kept.quarantine.is_empty());
    kept.quarantine.promote().unwrap();
    assert_eq!(sandbox.packs(&repo.identifier), packs);
    sandbox.assert_quarantine_is_empty();
}

#[tokio::test]
async fn new_history_on_top_of_ours_is_kept_without_the_rest() {
    let work = Work::example();
    let (sandbox, repo) = Sandbox::published(&work).await;
    let wanted = work.commit("d.txt", "four\n");
    let beyond = work.commit("e.txt", "five\n");
    let quarantine = receive(&sandbox, &repo, &work.pack("HEAD\n^HEAD~2\n", &["--thin"])).await;
    let kept = quarantine.prune_to(&[wanted]).await.unwrap();
    kept.quarantine.promote().unwrap();
    assert!(sandbox.kind(&repo, wanted).is_some() && sandbox.kind(&repo, beyond).is_none());
    sandbox
        .set(&repo, &[set("refs/heads/main", wanted)])
        .unwrap();
    assert_fsck_is_clean(&sandbox.path(&repo));
}

#[tokio::test]
async fn a_lost_object_of_a_ref_does_not_hinder_the_others() {
    let work = Work::example();
    let (sandbox, repo) = Sandbox::published(&work).await;
    sandbox.lose_packs(&repo.identifier);
    let quarantine = receive(&sandbox, &repo, &work.pack("", &["--all"])).await;
    let kept = quarantine.prune_to(&[work.oid("dev")]).await.unwrap();
    assert_eq!(kept.arrived, [work.oid("dev")]);
    kept.quarantine.promote().unwrap();
    assert!(sandbox.kind(&repo, work.oid("dev")).is_some());
}

#[tokio::test]
async fn giving_up_leaves_nothing() {
    let (sandbox, repo) = empty();
    let work = Work::example();
    let quarantine = receive(&sandbox, &repo, &work.pack("", &["--all"])).await;
    let wanted = [work.oid("dev")];
    let mut keep = Box::pin(quarantine.prune_to(&wanted));
    fn is_send(_: &impl Send) {}
    is_send(&keep);
    for _ in 0..3 {
        assert!(futures_util::poll!(&mut keep).is_pending());
        tokio::task::yield_now().await;
    }
    drop(keep);
    let is_empty = || {
        let quarantine = sandbox.root().join(".quarantine");
        names_in(&quarantine).iter().all(|name| {
            let packs = quarantine.join(name).join("pack");
            std::fs::read_dir(packs).map_or(true, |mut found| found.next().is_none())
        })
    };
    eventually("the quarantine is emptied", is_empty).await;
    assert!(stored(&sandbox, &repo).is_empty());
}

#[tokio::test]
async fn a_walk_that_takes_too_long_is_ended() {
    use std::time::Duration;
    let tools = tempfile::TempDir::new().unwrap();
    // Everything but the walk is git's own.
    let text = "for a; do [ \"$a\" = rev-list ] && exec sleep 600; done";
    let slow = script(tools.path(), text);
    let sandbox = Sandbox::with(|options| {
        options.git = slow;
        options.work_limit = Duration::from_secs(3);
    });
    let repo = repo(ALICE, "project");
    let work = Work::example();
    let tip = large_commit(&work);
    let pack = work.pack(&format!("{tip}\n"), &[]);
    let quarantine = receive(&sandbox, &repo, &pack).await;
    let error = quarantine.prune_to(&[tip]).await.err().unwrap();
    assert!(matches!(error, ReceiveError::TooSlow(_)), "{error}");
    sandbox.assert_quarantine_is_empty();
}

#[tokio::test]
async fn a_restart_empties_the_quarantine() {
    let (mut sandbox, repo) = empty();
    let work = Work::example();
    let quarantine = receive(&sandbox, &repo, &work.pack("", &["--all"])).await;
    let kept = quarantine.prune_to(&[work.oid("dev")]).await.unwrap();
    // As if the process had been killed: nothing is cleared up.
    std::mem::forget(kept);
    let quarantine = sandbox.root().join(".quarantine");
    let is_there = |name: &String| !names_in(&quarantine.join(name).join("pack")).is_empty();
    assert!(names_in(&quarantine).iter().any(is_there));
    sandbox.reopen();
    assert!(names_in(&sandbox.root().join(".quarantine")).is_empty());
    assert!(stored(&sandbox, &repo).is_empty());
}

#[tokio::test]
async fn tips_of_all_owners_are_known_default_branches_first() {
    let work = Work::example();
    let (sandbox, repo) = Sandbox::published(&work).await;
    let other = crate::support::repo(BOB, "project");
    sandbox.create(&other).unwrap();
    let edits = [
        set("refs/heads/main", work.oid("main~2")),
        set("refs/tags/t", work.oid("v1")),
    ];
    sandbox.set(&other, &edits).unwrap();
    let tips = |max| sandbox.known_tips(&repo.identifier, max).unwrap();
    assert_eq!(tips(2), [work.oid("main"), work.oid("main~2")]);
    // Tags are named by what they point at, which branches name already.
    assert_eq!(
        tips(100),
        [work.oid("main"), work.oid("main~2"), work.oid("main~1")]
    );
    assert!(tips(0).is_empty());
    let nobody = crate::support::repo(ALICE, "nothing").identifier;
    assert!(sandbox.known_tips(&nobody, 9).unwrap().is_empty());
}
