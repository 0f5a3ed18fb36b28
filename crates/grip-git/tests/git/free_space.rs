//! The free space that is kept, looked at before each write and beside the long ones.

use std::{os::unix::fs::symlink, path::PathBuf};

use grip_git::{ReceiveError, RepackError};

use crate::support::*;

/// A disk on which nothing is free.
const FULL: &str = "/proc";

/// A sandbox whose disk is full from the moment on at which the path leads to a full one.
fn fillable(git: Option<PathBuf>) -> (Sandbox, PathBuf, tempfile::TempDir) {
    let place = tempfile::TempDir::new().unwrap();
    let disk = place.path().join("disk");
    let sandbox = Sandbox::with(|options| {
        options.min_free_bytes = 1;
        options.also_kept_free = vec![disk.clone()];
        if let Some(git) = git {
            options.git = git;
        }
    });
    (sandbox, disk, place)
}

fn is_storage_full(error: &RepackError) -> bool {
    matches!(error, RepackError::Io(error) if error.kind() == std::io::ErrorKind::StorageFull)
}

/// Bases that git adds to a thin pack are bytes that no client sends.
#[tokio::test]
async fn a_pack_that_git_checks_while_the_disk_fills_up_is_given_up() {
    let tools = tempfile::TempDir::new().unwrap();
    let (began, go_on) = (tools.path().join("began"), tools.path().join("full"));
    let text = format!(
        "case \"$*\" in *index-pack*) : > {}; [ -e {} ] || exec sleep 600;; esac",
        began.display(),
        go_on.display()
    );
    let (sandbox, disk, _place) = fillable(Some(script(tools.path(), &text)));
    let repo = repo(ALICE, "project");
    sandbox.create(&repo).unwrap();
    let pack = Work::example().pack("", &["--all"]);
    let fill = async {
        eventually("git has begun", || began.exists()).await;
        symlink(FULL, &disk).unwrap();
    };
    let (received, ()) = tokio::join!(sandbox.receive(&repo, &pack), fill);
    let error = received.err().unwrap();
    assert!(matches!(error, ReceiveError::DiskFull(_)), "{error}");
    sandbox.assert_quarantine_is_empty();
}

#[tokio::test]
async fn a_pack_is_not_cut_without_room_for_a_second_one() {
    let (sandbox, disk, _place) = fillable(None);
    let repo = repo(ALICE, "project");
    sandbox.create(&repo).unwrap();
    let work = Work::example();
    let received = sandbox.receive(&repo, &work.pack("", &["--all"])).await;
    let quarantine = received.unwrap();
    symlink(FULL, &disk).unwrap();
    let pruned = quarantine.prune_to(&[work.oid("dev")]).await;
    let error = pruned.err().unwrap();
    assert!(matches!(error, ReceiveError::DiskFull(_)), "{error}");
    sandbox.assert_quarantine_is_empty();
}

/// What is known to be written counts before it is there.
#[test]
fn room_is_asked_for_by_the_bytes_that_are_to_be_written() {
    let sandbox = Sandbox::with(|options| options.min_free_bytes = 1);
    let anybody = grip_git::DiskUser::Maintainer;
    assert!(sandbox.check_room(anybody, 0).is_ok());
    assert!(sandbox.check_room(anybody, 1 << 60).is_err());
}

#[tokio::test]
async fn packs_are_not_written_again_without_room_for_them() {
    let work = Work::new();
    work.commit("a", "a\n");
    let (mut sandbox, repo) = Sandbox::published(&work).await;
    for name in ["b", "c", "d", "e"] {
        work.commit(name, name);
        sandbox.publish(&repo, &work).await;
    }
    for is_full in [true, false] {
        sandbox.reopen_with(|options| {
            options.max_packs = 1;
            options.min_free_bytes = if is_full { u64::MAX } else { 0 };
        });
        let before = sandbox.packs(&repo.identifier);
        let repacked = sandbox.repack(&repo.identifier).await;
        if is_full {
            assert!(is_storage_full(&repacked.unwrap_err()));
            assert_eq!(sandbox.packs(&repo.identifier), before);
        } else {
            assert!(repacked.unwrap().packs_after < before.len());
        }
    }
}
