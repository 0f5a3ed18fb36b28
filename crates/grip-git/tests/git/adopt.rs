//! Repositories that another server left.

use std::{fs, path::Path};

use grip_git::{Archived, RepoError};

use crate::support::*;

/// A repository as plain git keeps it: own objects, loose and packed refs.
fn foreign(path: &Path, work: &Work) {
    fs::create_dir_all(path).unwrap();
    git(
        path,
        &["init", "--quiet", "--bare", "--initial-branch=main"],
    );
    let url = path.to_str().unwrap();
    work.git(&["push", "--quiet", url, "refs/heads/dev", "refs/tags/v1"]);
    git(
        path,
        &["repack", "--quiet", "-a", "-d", "--write-bitmap-index"],
    );
    git(path, &["pack-refs", "--all"]);
    work.git(&["push", "--quiet", url, "--all"]);
    work.git(&["push", "--quiet", url, "--tags"]);
    fs::write(path.join("refs/heads/broken"), "not an id\n").unwrap();
}

#[tokio::test]
async fn objects_and_refs_of_another_server_are_taken_over() {
    let mut sandbox = Sandbox::new();
    let work = Work::example();
    let (alices, bobs) = (repo(ALICE, "naïve repo"), repo(BOB, "naïve repo"));
    let raw = |npub: &str| sandbox.root().join(npub).join("naïve repo.git");
    foreign(&raw(ALICE), &work);
    foreign(&raw(BOB), &work);
    for _ in 0..2 {
        sandbox.reopen();
        for repo in [&alices, &bobs] {
            let path = sandbox.path(repo);
            let refs = sandbox.refs(repo).unwrap();
            assert_eq!(refs_by_us(&refs), refs_by_git(work.dir.path()));
            assert_eq!(refs_by_git(&path), refs_by_git(work.dir.path()));
            assert_eq!(names_in(&path.join("refs")), [""; 0]);
            assert_eq!(names_in(&path.join("objects")), ["info", "pack"]);
            assert_eq!(names_in(&path.join("objects/pack")), [""; 0]);
            assert_fsck_is_clean(&path);
        }
        assert_eq!(sandbox.list().unwrap(), [alices.clone(), bobs.clone()]);
    }
    assert!(!sandbox.root().join(ALICE).join("naïve repo.git").exists());
}

#[tokio::test]
async fn a_takeover_that_was_cut_short_is_finished() {
    let work = Work::example();
    let plain = Sandbox::new();
    let repo = repo(ALICE, "x");
    foreign(&plain.path(&repo), &work);
    // The pack has moved, its index has not; one loose object has moved, the others have not.
    let (from, to) = (
        plain.path(&repo).join("objects"),
        plain.store(&repo.identifier).join("objects"),
    );
    fs::create_dir_all(to.join("pack")).unwrap();
    for name in names_in(&from.join("pack")) {
        if name.ends_with(".pack") {
            fs::rename(from.join("pack").join(&name), to.join("pack").join(&name)).unwrap();
        }
    }
    let fan_out = names_in(&from)
        .into_iter()
        .find(|name| name.len() == 2)
        .unwrap();
    fs::rename(from.join(&fan_out), to.join(&fan_out)).unwrap();
    let mut sandbox = plain;
    sandbox.reopen();
    let refs = sandbox.refs(&repo).unwrap();
    assert_eq!(refs_by_us(&refs), refs_by_git(work.dir.path()));
    assert_fsck_is_clean(&sandbox.path(&repo));
    sandbox.repack(&repo.identifier).await.unwrap();
    assert_fsck_is_clean(&sandbox.path(&repo));
}

#[tokio::test]
async fn a_repository_put_there_while_we_run_is_taken_over_when_used() {
    let sandbox = Sandbox::new();
    let work = Work::example();
    let repo = repo(ALICE, "late");
    foreign(&sandbox.path(&repo), &work);
    let refs = sandbox.refs(&repo).unwrap();
    assert_eq!(refs_by_us(&refs), refs_by_git(work.dir.path()));
    let tip = work.commit("more", "more");
    let pack = work.pack("HEAD\n^HEAD~1\n", &["--thin"]);
    sandbox.promote(&repo, &pack).await;
    sandbox.set(&repo, &[set("refs/heads/main", tip)]).unwrap();
    assert_fsck_is_clean(&sandbox.path(&repo));
}

#[test]
fn formats_that_we_cannot_serve_are_left_as_they_are() {
    let mut sandbox = Sandbox::new();
    let sha256 = repo(ALICE, "sha256");
    let path = sandbox.path(&sha256);
    fs::create_dir_all(&path).unwrap();
    git(
        &path,
        &["init", "--quiet", "--bare", "--object-format=sha256"],
    );
    let config = fs::read(path.join("config")).unwrap();
    let borrowing = repo(ALICE, "borrowing");
    let path = sandbox.path(&borrowing);
    fs::create_dir_all(&path).unwrap();
    git(&path, &["init", "--quiet", "--bare"]);
    fs::write(path.join("objects/info/alternates"), "/elsewhere/objects\n").unwrap();
    sandbox.reopen();
    for repo in [&sha256, &borrowing] {
        let refused = sandbox.refs(repo);
        assert!(matches!(refused, Err(RepoError::Adopt { .. })));
    }
    assert_eq!(
        fs::read(sandbox.path(&sha256).join("config")).unwrap(),
        config
    );
}

/// L-9: an archived repository of another server lies where ours would, and comes back as ours does.
#[tokio::test]
async fn an_archived_repository_of_another_server_is_archived_here() {
    let (mut sandbox, work) = (Sandbox::new(), Work::example());
    let archived = Archived {
        repo: repo(ALICE, "x"),
        stamp: 7,
    };
    let from = sandbox.root().join(".import/archived");
    for is_new in [true, false] {
        let _ = fs::remove_dir_all(&from);
        foreign(&from, &work);
        let adopted = sandbox.adopt_archived(&archived, &from);
        assert_eq!(adopted.unwrap(), is_new);
    }
    sandbox.reopen();
    assert!(!sandbox.exists(&archived.repo));
    let (listed, unknown) = sandbox.archives().unwrap();
    assert_eq!((listed, unknown), (vec![archived.clone()], 0));
    assert!(sandbox.restore(&archived.repo).unwrap());
    let path = sandbox.path(&archived.repo);
    assert_eq!(refs_by_git(&path), refs_by_git(work.dir.path()));
    assert_fsck_is_clean(&path);
}

#[tokio::test]
async fn objects_of_another_server_are_packed_without_being_changed() {
    let (sandbox, work) = (Sandbox::new(), Work::example());
    let other = tempfile::tempdir().unwrap();
    // Names that git would part or unquote.
    let (a, b) = (other.path().join("a:b"), other.path().join("c\"d\\e"));
    foreign(&a, &work);
    fs::create_dir_all(b.join("objects/pack")).unwrap();
    let before = names_in(&a.join("objects"));
    let from = [&b, &a].map(|path| path.join("objects"));
    let name = repo(ALICE, "x").identifier;
    let refs = work.refs();
    let tip = refs.iter().find(|it| it.0 == "refs/heads/main").unwrap().1;
    let pack = sandbox.pack_foreign(&name, &from, &[tip]).await.unwrap();
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut pack.open().unwrap(), &mut bytes).unwrap();
    assert_eq!(names_in(&a.join("objects")), before);
    let target = repo(BOB, "y");
    sandbox.create(&target).unwrap();
    sandbox.promote(&target, &bytes).await;
    sandbox
        .set(&target, &[set("refs/heads/main", tip)])
        .unwrap();
    assert_fsck_is_clean(&sandbox.path(&target));
    drop(pack);
    sandbox.assert_quarantine_is_empty();
    let unknown = grip_types::Oid::from_hex(&[b'1'; 40]).unwrap();
    assert!(
        sandbox
            .pack_foreign(&name, &from, &[unknown])
            .await
            .is_err()
    );
}
