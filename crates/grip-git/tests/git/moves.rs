//! Recorded moves: hidden from clients, kept from removal.

use std::time::{Duration, SystemTime};

use grip_git::{GitService, MoveRecord, Protocol, RefChange, RepoError, upload_request::LsRefs};
use grip_types::{Oid, RefEdit};

use crate::support::*;

fn record(at: u64) -> MoveRecord {
    MoveRecord {
        at,
        source: "repair".into(),
        keep_since: 0,
        keep_max: 100,
    }
}

fn moving(name: &str, old: Oid, new: Option<Oid>) -> RefEdit {
    RefEdit {
        old: Some(old),
        new,
        ..delete(name)
    }
}

#[tokio::test]
async fn a_recorded_move_is_shown_to_no_client_and_to_git_on_this_machine() {
    let work = Work::example();
    let (mut sandbox, repo) = Sandbox::published(&work).await;
    let (main, dev) = (work.oid("main"), work.oid("dev"));
    let before = refs_by_us(&sandbox.refs(&repo).unwrap());
    let edits = [
        moving("refs/heads/main", main, Some(dev)),
        moving("refs/heads/dev", dev, None),
    ];
    sandbox
        .update_refs_recorded(&repo, &edits, None, &record(7))
        .unwrap();
    for _ in 0..2 {
        let refs = sandbox.refs(&repo).unwrap();
        assert_eq!(refs_by_us(&refs).len(), before.len() - 1);
        let moves: Vec<_> = refs.moves().map(|it| (it.change, it.tip)).collect();
        assert_eq!(moves, [(RefChange::Deleted, dev), (RefChange::Moved, main)]);
        let listed = |request: &LsRefs| {
            let pieces: Vec<_> = refs.ls_refs(request).collect();
            pieces.concat().into()
        };
        let shown = [
            refs.advertisement(GitService::UploadPack, Protocol::V0),
            refs.advertisement(GitService::UploadPack, Protocol::V1),
            refs.advertisement(GitService::ReceivePack, Protocol::V0),
            listed(&LsRefs::default()),
            listed(&LsRefs {
                prefixes: vec![b"refs/archive/".to_vec()],
                ..LsRefs::default()
            }),
        ];
        for bytes in shown {
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains("refs/archive"), "{text}");
        }
        // Read from the disk the next time.
        sandbox.reopen();
    }
    let path = sandbox.path(&repo);
    let kept = git(
        &path,
        &["for-each-ref", "--format=%(objectname)", "refs/archive"],
    );
    assert_eq!(kept, format!("{dev}\n{main}"));
    assert_fsck_is_clean(&path);
}

#[tokio::test]
async fn recorded_tips_keep_their_objects_here_and_in_the_archive() {
    let work = Work::example();
    let (sandbox, repo) = Sandbox::published(&work).await;
    let (main, dev) = (work.oid("main"), work.oid("dev"));
    let edits: Vec<RefEdit> = sandbox
        .refs(&repo)
        .unwrap()
        .iter()
        .map(|found| moving(found.name.as_str(), found.oid, None))
        .collect();
    sandbox
        .update_refs_recorded(&repo, &edits, None, &record(7))
        .unwrap();
    let later = SystemTime::now() + Duration::from_secs(3600);
    let has_both = async || {
        let found = sandbox.find_garbage(&repo.identifier, &[], Duration::ZERO, later);
        let kinds = sandbox.kinds(&repo.identifier, &[main, dev]).unwrap();
        found.await.unwrap().is_none() && kinds.iter().all(Option::is_some)
    };
    assert!(sandbox.refs(&repo).unwrap().is_empty() && has_both().await);
    // What has nothing but records is not taken for an empty repository.
    let removed = sandbox.remove_empty(&repo);
    assert!(
        matches!(removed, Err(RepoError::NotEmpty(_))),
        "{removed:?}"
    );
    sandbox.archive(&repo, 9).unwrap();
    assert!(has_both().await);
    assert!(sandbox.restore(&repo).unwrap());
    assert_eq!(sandbox.refs(&repo).unwrap().moves().count(), edits.len());
}
