//! Removal of unused object stores.

use std::{collections::BTreeSet, fs, os::unix::fs::symlink};

use grip_git::{Payer, Protocol, Quarantine};
use grip_types::RepoAddr;

use crate::support::*;

async fn receive(sandbox: &Sandbox, repo: &RepoAddr, work: &Work) -> Quarantine {
    let pack = work.pack("", &["--all"]);
    sandbox.receive(repo, &pack).await.unwrap()
}

/// Objects that no repository is for.
async fn stray(work: &Work) -> (Sandbox, RepoAddr) {
    let sandbox = Sandbox::new();
    let repo = repo(ALICE, "stray");
    receive(&sandbox, &repo, work).await.promote().unwrap();
    (sandbox, repo)
}

#[tokio::test]
async fn a_store_of_nobody_goes_with_its_objects_and_comes_back_with_the_next_pack() {
    let work = Work::example();
    let (sandbox, repo) = stray(&work).await;
    let (store, tip) = (sandbox.store(&repo.identifier), work.oid("HEAD"));
    assert!(sandbox.kind(&repo, tip).is_some());
    assert_eq!(
        sandbox.stores().unwrap(),
        BTreeSet::from([repo.identifier.clone()])
    );
    assert!(sandbox.remove_store(&repo.identifier).unwrap());
    assert!(!store.exists() && sandbox.kind(&repo, tip).is_none());
    assert!(sandbox.stores().unwrap().is_empty());
    sandbox.assert_quarantine_is_empty();
    assert!(!sandbox.remove_store(&repo.identifier).unwrap());

    receive(&sandbox, &repo, &work).await.promote().unwrap();
    assert!(sandbox.kind(&repo, tip).is_some());
    sandbox.create(&repo).unwrap();
    sandbox.set(&repo, &[set("refs/heads/main", tip)]).unwrap();
    assert_fsck_is_clean(&sandbox.path(&repo));
}

#[tokio::test]
async fn a_store_stays_for_any_repository_here_or_in_the_archive() {
    let work = Work::example();
    let (sandbox, alices) = stray(&work).await;
    let identifier = &alices.identifier;
    let remove = || sandbox.remove_store(identifier).unwrap();
    let bobs = repo(BOB, "stray");
    sandbox.create(&bobs).unwrap();
    assert!(!remove(), "bob has a repository");
    let edit = set("refs/heads/main", work.oid("HEAD"));
    sandbox.set(&bobs, &[edit]).unwrap();
    sandbox.archive(&bobs, 7).unwrap();
    assert!(!remove(), "bob's repository may come back");
    assert!(sandbox.archived().unwrap().contains(identifier));
    assert!(sandbox.restore(&bobs).unwrap());
    assert_fsck_is_clean(&sandbox.path(&bobs));
    assert!(sandbox.archived().unwrap().is_empty());
}

#[tokio::test]
async fn a_store_stays_for_what_only_bears_the_name_of_a_repository() {
    let (sandbox, repo) = stray(&Work::example()).await;
    let path = sandbox.path(&repo);
    fs::create_dir(path.parent().unwrap()).unwrap();
    symlink(sandbox.dir.path(), &path).unwrap();
    assert!(!sandbox.remove_store(&repo.identifier).unwrap());
    fs::remove_file(&path).unwrap();
    assert!(sandbox.remove_store(&repo.identifier).unwrap());
}

#[tokio::test]
async fn a_store_stays_while_a_pack_that_was_checked_against_it_waits() {
    let work = Work::example();
    let (sandbox, repo) = stray(&work).await;
    let remove = || sandbox.remove_store(&repo.identifier).unwrap();
    let old = work.oid("HEAD");
    work.git(&["commit", "--quiet", "--allow-empty", "-m", "next"]);
    let new = work.oid("HEAD");
    let pack = work.pack(&format!("{new}\n^{old}\n"), &[]);
    let received = sandbox.receive(&repo, &pack);
    let kept = received.await.unwrap().prune_to(&[new]).await.unwrap();
    assert!(!remove(), "the new commit links to the old one");
    kept.quarantine.promote().unwrap();
    let kinds = sandbox.kinds(&repo.identifier, &[old, new]);
    assert!(kinds.unwrap().iter().all(Option::is_some));

    let waiting = receive(&sandbox, &repo, &work).await;
    assert!(!remove());
    drop(waiting);
    assert!(remove(), "nothing is under way any more");
}

#[tokio::test]
async fn a_store_stays_while_an_answer_is_made_from_it() {
    let (sandbox, repo) = Sandbox::published(&Work::example()).await;
    let repositories = &sandbox.repositories;
    let answer = repositories.upload_pack(&repo, Protocol::V2, Payer::Unknown, &b""[..]);
    fs::remove_dir_all(sandbox.path(&repo)).unwrap();
    assert!(!repositories.remove_store(&repo.identifier).unwrap());
    drop(answer.unwrap());
    assert!(repositories.remove_store(&repo.identifier).unwrap());
}

#[tokio::test]
async fn the_store_of_an_emptied_repository_stays_while_a_pack_for_it_waits() {
    let work = Work::example();
    let (sandbox, repo) = empty();
    let waiting = receive(&sandbox, &repo, &work).await;
    assert!(sandbox.remove_empty(&repo).unwrap());
    assert!(sandbox.store(&repo.identifier).exists());
    waiting.promote().unwrap();
    assert!(sandbox.kind(&repo, work.oid("HEAD")).is_some());
}

#[test]
fn directories_that_are_no_store_of_ours_are_not_listed() {
    let sandbox = Sandbox::new();
    for name in ["x", "a b.git", "%zz.git"] {
        fs::create_dir(sandbox.root().join(".objects").join(name)).unwrap();
    }
    assert!(sandbox.stores().unwrap().is_empty());
}

#[test]
fn the_room_left_is_known() {
    let sandbox = Sandbox::new();
    let free = sandbox.free_bytes().unwrap();
    assert!(free > 0 && free < u64::MAX);
}
