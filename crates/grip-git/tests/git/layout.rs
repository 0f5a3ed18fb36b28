//! Creation, lookup and archiving of repositories.

use std::{fs, os::unix::fs::symlink};

use grip_git::RepoError;
use grip_types::RepoAddr;

use crate::support::*;

#[test]
fn a_new_repository_is_one_for_git_too() {
    let sandbox = Sandbox::new();
    let repo = repo(ALICE, "naïve repo");
    sandbox.create(&repo).unwrap();
    let path = sandbox.path(&repo);
    assert!(path.ends_with(format!("{ALICE}/na%C3%AFve%20repo.git")));
    assert_eq!(git(&path, &["rev-parse", "--is-bare-repository"]), "true");
    assert_eq!(git(&path, &["symbolic-ref", "HEAD"]), "refs/heads/main");
    assert_fsck_is_clean(&path);
    let refs = sandbox.refs(&repo).unwrap();
    assert!(refs.is_empty());
    assert_eq!(refs.head(), Some(&name("refs/heads/main")));
    assert_eq!(sandbox.list().unwrap(), std::slice::from_ref(&repo));
    sandbox.assert_quarantine_is_empty();
    sandbox.create(&repo).unwrap();
}

#[test]
fn a_half_made_repository_is_completed() {
    let sandbox = Sandbox::new();
    let repo = repo(ALICE, "x");
    let path = sandbox.path(&repo);
    fs::create_dir_all(path.join("objects")).unwrap();
    sandbox.create(&repo).unwrap();
    assert!(sandbox.refs(&repo).unwrap().is_empty());
    assert_eq!(git(&path, &["symbolic-ref", "HEAD"]), "refs/heads/main");
    assert_fsck_is_clean(&path);
}

#[test]
fn directories_not_named_by_an_npub_are_left_alone() {
    let sandbox = Sandbox::new();
    for bad in ["npub1A", "npub1alice", "nprofile1x", "x"] {
        fs::create_dir_all(sandbox.root().join(bad).join("x.git")).unwrap();
    }
    assert_eq!(sandbox.list().unwrap(), [] as [RepoAddr; 0]);
}

#[test]
fn an_unknown_repository_is_not_found() {
    let sandbox = Sandbox::new();
    let result = sandbox.refs(&repo(ALICE, "nothing"));
    assert!(matches!(result, Err(RepoError::NotFound(_))));
}

#[test]
fn symbolic_links_are_not_followed() {
    let mut sandbox = Sandbox::new();
    let outside = tempfile::TempDir::new().unwrap();
    git(outside.path(), &["init", "--quiet", "--bare", "secret.git"]);
    let secret = outside.path().join("secret.git");
    fs::create_dir(sandbox.root().join(ALICE)).unwrap();
    symlink(&secret, sandbox.root().join(ALICE).join("x.git")).unwrap();
    symlink(outside.path(), sandbox.root().join(BOB)).unwrap();
    let taken = [repo(ALICE, "x"), repo(BOB, "secret")];
    for round in 0..2 {
        for repo in &taken {
            assert!(!sandbox.exists(repo), "round {round}");
            assert!(sandbox.refs(repo).is_err());
            assert!(sandbox.create(repo).is_err());
        }
        assert_eq!(sandbox.list().unwrap(), [] as [RepoAddr; 0]);
        sandbox.reopen();
    }
    assert!(secret.join("hooks").exists() && !secret.join("packed-refs").exists());
}

#[tokio::test]
async fn a_withdrawn_repository_comes_back_as_it_was() {
    let (sandbox, repo) = Sandbox::published(&Work::example()).await;
    let before = sandbox.refs(&repo).unwrap();
    sandbox.archive(&repo, 1_700_000_000).unwrap();
    assert!(!sandbox.exists(&repo));
    assert!(sandbox.refs(&repo).is_err());
    sandbox.archive(&repo, 1_700_000_001).unwrap();
    assert!(sandbox.restore(&repo).unwrap());
    assert!(!sandbox.restore(&repo).unwrap());
    let after = sandbox.refs(&repo).unwrap();
    assert_eq!(refs_by_us(&after), refs_by_us(&before));
    assert_fsck_is_clean(&sandbox.path(&repo));
}

#[tokio::test]
async fn the_last_withdrawn_repository_of_a_name_comes_back() {
    let work = Work::example();
    let (sandbox, repo) = Sandbox::published(&work).await;
    sandbox.archive(&repo, 9).unwrap();
    sandbox.create(&repo).unwrap();
    sandbox
        .set(&repo, &[set("refs/heads/new", work.oid("HEAD"))])
        .unwrap();
    sandbox.archive(&repo, 10).unwrap();
    assert!(sandbox.restore(&repo).unwrap());
    assert_eq!(sandbox.refs(&repo).unwrap().len(), 1);
}

#[tokio::test]
async fn only_an_empty_repository_is_removed_and_its_unused_store_with_it() {
    let sandbox = Sandbox::new();
    let (alices, bobs) = (repo(ALICE, "x"), repo(BOB, "x"));
    sandbox.create(&alices).unwrap();
    sandbox.create(&bobs).unwrap();
    assert!(sandbox.remove_empty(&alices).unwrap());
    assert!(!sandbox.remove_empty(&alices).unwrap());
    assert!(sandbox.store(&bobs.identifier).exists());
    assert!(sandbox.remove_empty(&bobs).unwrap());
    assert!(!sandbox.store(&bobs.identifier).exists());
    sandbox.assert_quarantine_is_empty();

    let (sandbox, full) = Sandbox::published(&Work::example()).await;
    let refused = sandbox.remove_empty(&full);
    assert!(matches!(refused, Err(RepoError::NotEmpty(_))));
}

#[test]
fn a_prepared_repository_is_put_in_its_place_or_leaves_nothing() {
    let mut sandbox = Sandbox::new();
    let [used, late, unused] = ["used", "late", "unused"].map(|name| repo(ALICE, name));
    let prepared = sandbox.prepare(&used).unwrap().unwrap();
    assert!(!sandbox.exists(&used) && !sandbox.root().join(ALICE).exists());
    sandbox.create_prepared(prepared).unwrap();
    assert!(sandbox.refs(&used).unwrap().is_empty());
    assert_fsck_is_clean(&sandbox.path(&used));
    assert!(sandbox.prepare(&used).unwrap().is_none(), "it is there");

    let prepared = sandbox.prepare(&late).unwrap().unwrap();
    sandbox.create(&late).unwrap();
    sandbox.create_prepared(prepared).unwrap();
    drop(sandbox.prepare(&unused).unwrap());
    assert!(!sandbox.exists(&unused));
    // The next one that may block removes what was not needed; here it needs one itself.
    let prepared = sandbox.prepare(&unused).unwrap().unwrap();
    assert_eq!(names_in(&sandbox.root().join(".quarantine")).len(), 1);
    // As a crash would.
    std::mem::forget(prepared);
    sandbox.reopen();
    sandbox.assert_quarantine_is_empty();
    assert!(sandbox.exists(&used) && sandbox.exists(&late) && !sandbox.exists(&unused));
}

#[test]
fn a_repository_that_was_taken_is_gone_at_once_and_its_owner_with_it() {
    let mut sandbox = Sandbox::new();
    let [one, two] = ["one", "two"].map(|name| repo(ALICE, name));
    for repo in [&one, &two] {
        sandbox.create(repo).unwrap();
    }
    let owner = sandbox.root().join(ALICE);
    let taken = sandbox.take_empty(&one).unwrap().unwrap();
    assert!(!sandbox.exists(&one) && sandbox.take_empty(&one).unwrap().is_none());
    // Somebody announces the same again before the files are gone.
    sandbox.create(&one).unwrap();
    taken.remove().unwrap();
    sandbox.assert_quarantine_is_empty();
    assert!(sandbox.exists(&one) && sandbox.exists(&two));

    let taken = [&one, &two].map(|repo| sandbox.take_empty(repo).unwrap().unwrap());
    assert!(owner.exists());
    for taken in taken {
        taken.remove().unwrap();
    }
    assert!(!owner.exists(), "nothing is left of a stranger");
    fs::create_dir(&owner).unwrap();
    sandbox.reopen();
    assert!(!owner.exists());
}

#[tokio::test]
async fn what_a_crash_left_is_cleared_at_the_next_start() {
    let (mut sandbox, repo) = Sandbox::published(&Work::example()).await;
    let packs = sandbox.store(&repo.identifier).join("objects/pack");
    let before = names_in(&packs);
    fs::create_dir_all(sandbox.root().join(".quarantine/99-1/pack")).unwrap();
    fs::write(sandbox.root().join(".quarantine/99-2.tips"), "x").unwrap();
    fs::write(packs.join("tmp_pack_abc"), "x").unwrap();
    fs::write(packs.join(format!("pack-{}.pack", "a".repeat(40))), "x").unwrap();
    fs::write(sandbox.path(&repo).join(".packed-refs.1-1.new"), "x").unwrap();
    let refs = sandbox.refs(&repo).unwrap();
    sandbox.reopen();
    sandbox.assert_quarantine_is_empty();
    assert_eq!(names_in(&packs), before);
    assert!(!sandbox.path(&repo).join(".packed-refs.1-1.new").exists());
    let again = sandbox.refs(&repo).unwrap();
    assert_eq!(refs_by_us(&again), refs_by_us(&refs));
}

#[tokio::test]
async fn an_archived_repository_can_be_read_where_it_lies() {
    let (mut sandbox, repo) = Sandbox::published(&Work::example()).await;
    sandbox.archive(&repo, 7).unwrap();
    let path = sandbox.root().join(".archive").join(ALICE).join("7");
    let path = path.join(sandbox.path(&repo).file_name().unwrap());
    assert_fsck_is_clean(&path);
    // One of an earlier version, whose path was made for another depth.
    let alternates = path.join("objects/info/alternates");
    let deep = fs::read_to_string(&alternates).unwrap();
    fs::write(&alternates, deep.replacen("../../", "", 1)).unwrap();
    sandbox.reopen();
    assert_fsck_is_clean(&path);
    assert!(sandbox.restore(&repo).unwrap());
    assert_fsck_is_clean(&sandbox.path(&repo));
}

/// Found by the model: the second of two archived within a second stayed on disk.
#[test]
fn a_repository_archived_twice_in_a_second_is_archived_twice() {
    let (sandbox, repo) = empty();
    for _ in 0..3 {
        sandbox.create(&repo).unwrap();
        sandbox.archive(&repo, 7).unwrap();
        assert!(!sandbox.exists(&repo));
    }
    let (archived, unknown) = sandbox.archives().unwrap();
    let stamps: Vec<u64> = archived.iter().map(|it| it.stamp).collect();
    assert_eq!((stamps, unknown), (vec![7, 8, 9], 0));
}
