//! Repacks beside pushes and lookups.

use std::{
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use grip_git::{ObjectKind, Options, RepoError, Repositories};
use grip_tasks::fault;
use grip_types::{Oid, RepoAddr};

use crate::support::*;

async fn many_packs(sandbox: &Sandbox, repo: &RepoAddr, count: usize) -> Vec<Oid> {
    let work = Work::new();
    let mut tips = Vec::new();
    for n in 0..count {
        tips.push(work.commit("f", &n.to_string()));
        let since = if n == 0 { "HEAD\n" } else { "HEAD\n^HEAD~1\n" };
        let pack = work.pack(since, &["--thin"]);
        sandbox.promote(repo, &pack).await;
    }
    tips
}

#[tokio::test]
async fn many_packs_become_few_and_no_object_goes() {
    let (sandbox, repo) = empty();
    let tips = many_packs(&sandbox, &repo, 23).await;
    assert_eq!(sandbox.packs(&repo.identifier).len(), 23);
    // Only the first commit has a ref: the others must stay all the same.
    sandbox
        .set(&repo, &[set("refs/heads/main", tips[0])])
        .unwrap();
    let done = sandbox.repack(&repo.identifier).await.unwrap();
    assert_eq!(done.packs_before, 23);
    assert!(done.packs_after < 5, "{done:?}");
    let kinds = sandbox.kinds(&repo.identifier, &tips).unwrap();
    assert_eq!(kinds, vec![Some(ObjectKind::Commit); 23]);
    assert_fsck_is_clean(&sandbox.path(&repo));
    let again = sandbox.repack(&repo.identifier).await.unwrap();
    assert_eq!(again.packs_before, again.packs_after);
}

#[tokio::test]
async fn a_store_that_is_not_there_needs_nothing() {
    let sandbox = Sandbox::new();
    let done = sandbox.repack(&repo(ALICE, "none").identifier).await;
    assert_eq!(done.unwrap().packs_before, 0);
}

#[tokio::test]
async fn a_large_store_gets_a_bitmap_that_git_uses() {
    let work = Work::new();
    let mut state = 1_u64;
    let noise: Vec<u8> = (0..9 << 20)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect();
    std::fs::write(work.dir.path().join("noise"), noise).unwrap();
    for n in 0..120 {
        work.commit("f", &n.to_string());
    }
    let (sandbox, repo) = Sandbox::published(&work).await;
    let done = sandbox.repack(&repo.identifier).await.unwrap();
    assert!(done.bitmap_written);
    let path = sandbox.path(&repo);
    let counted = git(
        &path,
        &[
            "rev-list",
            "--count",
            "--objects",
            "--use-bitmap-index",
            "HEAD",
        ],
    );
    assert_eq!(
        counted,
        git(&path, &["rev-list", "--count", "--objects", "HEAD"])
    );
    assert_fsck_is_clean(&path);
    // Histories of paths are read from the graph, with the paths that each commit changed.
    assert!(done.graph_written);
    let store = sandbox.store(&repo.identifier);
    git(&store, &["commit-graph", "verify", "--no-progress"]);
    let graph = std::fs::read(store.join("objects/info/commit-graph")).unwrap();
    assert!(graph.windows(4).any(|chunk| chunk == b"BDAT"));
    // What a git that was killed left behind is in nobody's way.
    std::fs::write(store.join("objects/info/commit-graph.lock"), "").unwrap();
    std::fs::remove_file(store.join("objects/info/commit-graph")).unwrap();
    let packs = store.join("objects/pack");
    std::fs::write(packs.join("multi-pack-index.lock"), "").unwrap();
    for entry in std::fs::read_dir(&packs).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        if name.starts_with("multi-pack-index") && !name.ends_with(".lock") {
            std::fs::remove_file(&path).unwrap();
        }
    }
    let written = sandbox.repack(&repo.identifier).await.unwrap();
    assert!(written.bitmap_written && written.graph_written);
    let again = sandbox.repack(&repo.identifier).await.unwrap();
    assert!(!again.bitmap_written && !again.graph_written);
    assert_eq!(
        sandbox.kind(&repo, work.oid("HEAD")),
        Some(ObjectKind::Commit)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lookups_and_pushes_go_on_while_packs_are_rolled_up() {
    let sandbox = Sandbox::with(|options| options.max_packs = 2);
    let repo = repo(ALICE, "project");
    sandbox.create(&repo).unwrap();
    let tips = many_packs(&sandbox, &repo, 12).await;
    let (repositories, identifier) = (sandbox.clone(), repo.identifier.clone());
    let looking = tokio::task::spawn_blocking(move || {
        for _ in 0..2000 {
            let kinds = repositories.kinds(&identifier, &tips).unwrap();
            assert!(kinds.iter().all(Option::is_some));
        }
        tips
    });
    for _ in 0..5 {
        let (done, more) = tokio::join!(
            sandbox.repack(&repo.identifier),
            many_packs(&sandbox, &repo, 3),
        );
        done.unwrap();
        let kinds = sandbox.kinds(&repo.identifier, &more).unwrap();
        assert!(kinds.iter().all(Option::is_some));
    }
    looking.await.unwrap();
    assert_fsck_is_clean(&sandbox.path(&repo));
}

/// The same pack may come again while it is rolled up: two people push the same commits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pack_that_comes_again_while_it_is_rolled_up_is_there_as_a_whole() {
    let sandbox = Sandbox::with(|options| options.max_packs = 2);
    let repo = repo(ALICE, "project");
    sandbox.create(&repo).unwrap();
    let work = Work::new();
    let mut packs = Vec::new();
    for n in 0..6 {
        work.commit("f", &n.to_string());
        let since = if n == 0 { "HEAD\n" } else { "HEAD\n^HEAD~1\n" };
        packs.push(work.pack(since, &[]));
        sandbox.promote(&repo, &packs[n]).await;
    }
    let mut again = Vec::new();
    for pack in &packs {
        again.push(sandbox.receive(&repo, pack).await.unwrap());
    }
    let again = Mutex::new(Some(again));
    let (put, all_put) = mpsc::sync_channel(16);
    let is_put = Arc::new(Mutex::new(all_put));
    let waiting = Arc::clone(&is_put);
    fault::meet("git.pack.removing", move || {
        let Some(again) = again.lock().unwrap().take() else {
            return;
        };
        let put = put.clone();
        std::thread::spawn(move || {
            for quarantine in again {
                put.send(quarantine.promote()).unwrap();
            }
        });
        // Time enough to put the first, between two files of a pack, if nothing prevents it.
        let first = waiting.lock().unwrap();
        let _ = first.recv_timeout(Duration::from_millis(300));
    });
    sandbox.repack(&repo.identifier).await.unwrap();
    for _ in &packs {
        let put = is_put.lock().unwrap().recv_timeout(Duration::from_secs(60));
        put.unwrap().unwrap();
    }
    for _ in 0..3 {
        sandbox.repack(&repo.identifier).await.unwrap();
        let names = names_in(&sandbox.store(&repo.identifier).join("objects/pack"));
        for index in names.iter().filter_map(|name| name.strip_suffix(".idx")) {
            assert!(names.contains(&format!("{index}.pack")), "{names:?}");
        }
    }
    assert!(sandbox.damaged_packs(&repo.identifier).unwrap().is_empty());
    assert_fsck_is_clean(&sandbox.path(&repo));
}

#[test]
fn a_git_that_is_missing_or_none_is_named_at_the_start() {
    let dir = tempfile::TempDir::new().unwrap();
    for git in ["/nonexistent/git", "true"] {
        let mut options = Options::new(dir.path());
        options.git = git.into();
        assert!(Repositories::open(options).is_err());
    }
}

#[tokio::test]
async fn fsck_finds_what_is_broken() {
    let (sandbox, repo) = Sandbox::published(&Work::example()).await;
    assert!(sandbox.fsck(&repo).await.unwrap().is_clean);
    sandbox.lose_packs(&repo.identifier);
    let fsck = sandbox.fsck(&repo).await.unwrap();
    assert!(!fsck.is_clean && !fsck.report.is_empty());
}

/// Git that is killed, or runs out of memory, says nothing about the repository.
#[tokio::test]
async fn an_fsck_that_is_cut_short_finds_no_damage() {
    let tools = tempfile::TempDir::new().unwrap();
    let flag = tools.path().join("how");
    let text = format!(
        "case \"$*\" in *fsck*|*verify-pack*) [ -e {flag} ] && . {flag} ;; esac",
        flag = flag.display()
    );
    let program = script(tools.path(), &text);
    let sandbox = Sandbox::with(|options| options.git = program);
    let repo = repo(ALICE, "project");
    sandbox.create(&repo).unwrap();
    sandbox.publish(&repo, &Work::example()).await;
    for (how, said) in [
        (
            "echo 'fatal: Out of memory, malloc failed (tried to allocate 9 bytes)' >&2; exit 128",
            "Out of memory",
        ),
        ("kill -9 $$", "signal: 9"),
    ] {
        std::fs::write(&flag, how).unwrap();
        let unread = sandbox.fsck(&repo).await.unwrap_err();
        assert!(matches!(unread, RepoError::Unread { .. }), "{unread:?}");
        assert!(unread.to_string().contains(said), "{unread}");
        let damaged = sandbox.verify_packs(&repo.identifier).await.unwrap();
        assert!(damaged.is_empty(), "{damaged:?}");
    }
    std::fs::write(&flag, "echo 'error: packed object is corrupt' >&2; exit 1").unwrap();
    assert!(!sandbox.fsck(&repo).await.unwrap().is_clean);
    let damaged = sandbox.verify_packs(&repo.identifier).await.unwrap();
    assert_eq!(damaged.len(), 1);
    std::fs::remove_file(&flag).unwrap();
    assert!(sandbox.fsck(&repo).await.unwrap().is_clean);
}
