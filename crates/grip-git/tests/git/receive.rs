//! Received packs.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use grip_git::{ObjectKind, ReceiveError};
use grip_types::{Oid, RepoAddr};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

use crate::support::*;

async fn refused(sandbox: &Sandbox, repo: &RepoAddr, pack: &[u8]) -> ReceiveError {
    let before = sandbox.packs(&repo.identifier);
    let result = sandbox.receive(repo, pack).await;
    let error = result.err().expect("the pack is refused");
    sandbox.assert_quarantine_is_empty();
    assert_eq!(sandbox.packs(&repo.identifier), before);
    error
}

#[tokio::test]
async fn no_pack_is_taken_while_the_disk_is_fuller_than_allowed() {
    let sandbox = Sandbox::with(|options| options.min_free_bytes = u64::MAX);
    let repo = repo(ALICE, "project");
    let refused = sandbox
        .receive(&repo, &Work::example().pack("", &["--all"]))
        .await;
    let error = refused.err().unwrap();
    assert!(matches!(error, ReceiveError::DiskFull(_)), "{error}");
    assert!(
        error.is_ours() && error.to_string().contains("full"),
        "{error}"
    );
    sandbox.assert_quarantine_is_empty();
}

#[tokio::test]
async fn objects_are_seen_in_quarantine_and_by_others_after_promotion_only() {
    let (sandbox, repo) = empty();
    let work = Work::example();
    let oids = [
        work.oid("main"),
        work.oid("v1"),
        work.oid("main^{tree}"),
        work.oid("main:a.txt"),
    ];
    let kinds = [
        ObjectKind::Commit,
        ObjectKind::Tag,
        ObjectKind::Tree,
        ObjectKind::Blob,
    ];
    let pack = work.pack("", &["--all"]);
    let quarantine = sandbox.receive(&repo, &pack).await.unwrap();
    assert_eq!(quarantine.kinds(&oids).unwrap(), kinds.map(Some));
    assert_eq!(sandbox.kinds(&repo.identifier, &oids).unwrap(), [None; 4]);
    assert!(quarantine.promote().unwrap().pack_bytes > 0);
    assert_eq!(
        sandbox.kinds(&repo.identifier, &oids).unwrap(),
        kinds.map(Some)
    );
    sandbox.assert_quarantine_is_empty();
}

#[tokio::test]
async fn a_quarantine_that_is_dropped_leaves_nothing() {
    let (sandbox, repo) = empty();
    let pack = Work::example().pack("", &["--all"]);
    let quarantine = sandbox.receive(&repo, &pack).await.unwrap();
    drop(quarantine);
    sandbox.assert_quarantine_is_empty();
    assert!(sandbox.packs(&repo.identifier).is_empty());
}

#[tokio::test]
async fn the_same_pack_twice_is_stored_once() {
    let (sandbox, repo) = empty();
    let pack = Work::example().pack("", &["--all"]);
    for _ in 0..2 {
        sandbox.promote(&repo, &pack).await;
    }
    assert_eq!(sandbox.packs(&repo.identifier).len(), 1);
}

#[tokio::test]
async fn a_thin_pack_is_completed_from_the_store() {
    let work = Work::new();
    let long: String = (0..2000).map(|n| format!("line {n}\n")).collect();
    work.commit("long.txt", &long);
    let (sandbox, repo) = Sandbox::published(&work).await;
    let tip = work.commit("long.txt", &long.replace("line 77\n", "changed\n"));
    let pack = work.pack("HEAD\n^HEAD~1\n", &["--thin"]);
    let fresh = Sandbox::new();
    let stranger = crate::support::repo(BOB, "other");
    fresh.create(&stranger).unwrap();
    let error = refused(&fresh, &stranger, &pack).await;
    assert!(matches!(error, ReceiveError::MissingBase), "{error}");
    sandbox.promote(&repo, &pack).await;
    sandbox.set(&repo, &[set("refs/heads/main", tip)]).unwrap();
    assert_fsck_is_clean(&sandbox.path(&repo));
}

#[tokio::test]
async fn a_pack_without_objects_is_no_pack() {
    let (sandbox, repo) = empty();
    let pack = Work::new().pack_of(&[]);
    let quarantine = sandbox.receive(&repo, &pack).await.unwrap();
    assert!(quarantine.is_empty());
    assert_eq!(quarantine.promote().unwrap().pack_bytes, 0);
    assert!(sandbox.packs(&repo.identifier).is_empty());
    let none = sandbox.no_pack(&repo.identifier);
    assert_eq!(none.kinds(&[Oid::ZERO]).unwrap(), [None]);
    none.promote().unwrap();
    sandbox.assert_quarantine_is_empty();
}

#[tokio::test]
async fn every_link_must_lead_to_an_object() {
    let (sandbox, repo) = empty();
    let work = Work::example();
    let all: Vec<Oid> = work
        .git(&["rev-list", "--objects", "--no-object-names", "main"])
        .lines()
        .map(|line| line.parse().unwrap())
        .collect();
    for missing in [
        "main~1",
        "main^{tree}",
        "main:dir",
        "main:dir/c.txt",
        "main:a.txt",
    ] {
        let missing = work.oid(missing);
        let rest: Vec<Oid> = all.iter().copied().filter(|oid| *oid != missing).collect();
        let error = refused(&sandbox, &repo, &work.pack_of(&rest)).await;
        assert!(error.to_string().contains(&missing.to_hex()), "{error}");
        assert!(matches!(error, ReceiveError::MissingObject(_)));
    }
}

#[tokio::test]
async fn a_commit_of_another_repository_need_not_be_here() {
    let (sandbox, repo) = empty();
    let work = Work::new();
    let elsewhere = "ab".repeat(20);
    let entry = format!("160000,{elsewhere},module");
    work.git(&["update-index", "--add", "--cacheinfo", &entry]);
    work.git(&["commit", "--quiet", "--message=submodule"]);
    let pack = work.pack("HEAD\n", &[]);
    sandbox.promote(&repo, &pack).await;
    sandbox
        .set(&repo, &[set("refs/heads/main", work.oid("HEAD"))])
        .unwrap();
    assert_fsck_is_clean(&sandbox.path(&repo));
}

fn tree(entries: &[(&str, &str, Oid)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (mode, name, oid) in entries {
        out.extend_from_slice(format!("{mode} {name}\0").as_bytes());
        out.extend_from_slice(oid.as_bytes());
    }
    out
}

fn commit(tree: Oid, author: &str) -> Vec<u8> {
    format!("tree {tree}\nauthor {author}\ncommitter {author}\n\nmessage\n").into_bytes()
}

#[tokio::test]
async fn paths_that_attack_a_checkout_are_refused() {
    let (sandbox, repo) = empty();
    let work = Work::new();
    let blob = work.write_object("blob", b"x");
    for attack in [".git", ".GIT", "..", ".", "a/b", "git~1", ""] {
        let tree = work.write_object("tree", &tree(&[("100644", attack, blob)]));
        let commit = work.write_object("commit", &commit(tree, "A <a@b> 1 +0000"));
        let error = refused(&sandbox, &repo, &work.pack_of(&[blob, tree, commit])).await;
        assert!(
            matches!(error, ReceiveError::Forbidden(_)),
            "{attack}: {error}"
        );
    }
}

#[tokio::test]
async fn faults_of_old_histories_are_let_through() {
    let (sandbox, repo) = empty();
    let work = Work::new();
    let blob = work.write_object("blob", b"x");
    let inner = work.write_object("tree", &tree(&[("100644", "f", blob)]));
    let padded = work.write_object("tree", &tree(&[("040000", "d", inner)]));
    let mut objects = vec![blob, inner, padded];
    for author in [
        "A <a@b> 1 +0000",
        "A <a@b>1 +0000",
        "A<a@b> 1 +0000",
        "A <a@b> 1 +051800",
        "<a@b> 1 +0000",
        "A 1 +0000",
        "A <a@b> 01 +0000",
        "A <a@b> 99999999999999999999999 +0000",
        "A <<a@b>> 1 +0000",
    ] {
        objects.push(work.write_object("commit", &commit(padded, author)));
    }
    let pack = work.pack_of(&objects);
    let quarantine = sandbox.receive(&repo, &pack).await.unwrap();
    assert!(
        quarantine
            .kinds(&objects)
            .unwrap()
            .iter()
            .all(Option::is_some)
    );
}

#[tokio::test]
async fn a_spoilt_pack_is_refused_with_a_reason() {
    let (sandbox, repo) = empty();
    let pack = Work::example().pack("", &["--all"]);
    let error = refused(&sandbox, &repo, &pack[..pack.len() - 30]).await;
    assert!(matches!(error, ReceiveError::Truncated), "{error}");
    let error = refused(&sandbox, &repo, b"").await;
    assert!(matches!(error, ReceiveError::Truncated), "{error}");
    let error = refused(
        &sandbox,
        &repo,
        b"GIF89a and so on, for longer than a header",
    )
    .await;
    assert!(matches!(error, ReceiveError::Corrupt(_)), "{error}");
    let mut spoilt = pack.clone();
    let middle = spoilt.len() / 2;
    spoilt[middle] ^= 0xff;
    let error = refused(&sandbox, &repo, &spoilt).await;
    assert!(matches!(error, ReceiveError::Corrupt(_)), "{error}");
    let mut spoilt = pack;
    *spoilt.last_mut().unwrap() ^= 0xff;
    let error = refused(&sandbox, &repo, &spoilt).await;
    assert!(matches!(error, ReceiveError::Corrupt(_)), "{error}");
}

#[tokio::test]
async fn a_pack_over_the_limit_is_cut_off() {
    let sandbox = Sandbox::with(|options| options.max_pack_bytes = 100_000);
    let repo = repo(ALICE, "project");
    let endless = endless_pack();
    let result = sandbox
        .repositories
        .receive(&repo.identifier, endless)
        .await;
    let error = result.err().expect("the pack is refused");
    assert!(
        matches!(error, ReceiveError::TooBig { limit: 100_000 }),
        "{error}"
    );
    sandbox.assert_quarantine_is_empty();
}

/// A pack of one blob that never ends: a gigabyte, in deflate blocks that are not compressed.
fn endless_pack() -> impl AsyncRead + Send + Unpin {
    let mut head = b"PACK\0\0\0\x02\0\0\0\x01".to_vec();
    head.extend_from_slice(&[0xb0, 0x80, 0x80, 0x80, 0x40, 0x78, 0x01]);
    let block = [&[0, 0xff, 0xff, 0, 0][..], &[0; 0xffff]].concat();
    io::Cursor::new([head, block.repeat(4)].concat()).chain(tokio::io::repeat(0))
}

/// Gives its bytes, then waits for ever or breaks.
struct Client<'a> {
    bytes: &'a [u8],
    breaks: bool,
}

impl AsyncRead for Client<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let len = self.bytes.len().min(buf.remaining());
        if len > 0 {
            buf.put_slice(&self.bytes[..len]);
            self.bytes = &self.bytes[len..];
            return Poll::Ready(Ok(()));
        }
        if self.breaks {
            Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
        } else {
            Poll::Pending
        }
    }
}

#[tokio::test]
async fn a_client_that_stalls_or_goes_away_leaves_nothing() {
    let sandbox = Sandbox::with(|options| options.stall = Duration::from_millis(50));
    let repo = repo(ALICE, "project");
    let pack = Work::example().pack("", &["--all"]);
    for breaks in [false, true] {
        let client = Client {
            bytes: &pack[..pack.len() / 2],
            breaks,
        };
        let result = sandbox.repositories.receive(&repo.identifier, client).await;
        match result.err().expect("the push fails") {
            ReceiveError::Stalled(_) => assert!(!breaks),
            ReceiveError::Client(_) => assert!(breaks),
            other => panic!("{other}"),
        }
        sandbox.assert_quarantine_is_empty();
    }
}

#[tokio::test]
async fn a_whole_pack_is_taken_though_the_client_keeps_the_line_open() {
    let (sandbox, repo) = empty();
    let pack = Work::example().pack("", &["--all"]);
    let client = Client {
        bytes: &pack,
        breaks: false,
    };
    let quarantine = sandbox
        .repositories
        .receive(&repo.identifier, client)
        .await
        .unwrap();
    assert!(!quarantine.is_empty());
}

#[tokio::test]
async fn giving_up_on_a_push_ends_its_git() {
    let (sandbox, repo) = empty();
    let pack = Work::example().pack("", &["--all"]);
    let client = Client {
        bytes: &pack[..40],
        breaks: false,
    };
    let receive = sandbox.repositories.receive(&repo.identifier, client);
    let gave_up = tokio::time::timeout(Duration::from_millis(100), receive).await;
    assert!(gave_up.is_err());
    sandbox.assert_quarantine_is_empty();
}

#[tokio::test]
async fn pushes_of_one_identifier_may_run_side_by_side() {
    let (sandbox, repo) = empty();
    let works: Vec<Work> = (0..4).map(|_| Work::new()).collect();
    let packs: Vec<Vec<u8>> = works
        .iter()
        .enumerate()
        .map(|(n, work)| {
            work.commit("f", &n.to_string());
            work.pack("HEAD\n", &[])
        })
        .collect();
    let receives = packs.iter().map(|pack| sandbox.receive(&repo, pack));
    for quarantine in futures_util::future::join_all(receives).await {
        quarantine.unwrap().promote().unwrap();
    }
    let edits: Vec<_> = works
        .iter()
        .enumerate()
        .map(|(n, work)| set(&format!("refs/heads/b{n}"), work.oid("HEAD")))
        .collect();
    sandbox.set(&repo, &edits).unwrap();
    assert_fsck_is_clean(&sandbox.path(&repo));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_pack_that_says_it_has_more_objects_than_fit_into_memory_costs_its_share_alone() {
    let sandbox = Sandbox::with(|options| options.memory_bytes = 256 << 20);
    let repo = repo(ALICE, "project");
    let mut pack = b"PACK\0\0\0\x02\0\xff\xff\xff".to_vec();
    pack.extend_from_slice(&[0x30, 0x78, 0x9c, 0x03, 0, 0, 0, 0, 1]);
    let client = Client {
        bytes: &pack,
        breaks: false,
    };
    let received = sandbox.repositories.receive(&repo.identifier, client);
    let error = received.await.err().expect("it is refused");
    assert!(matches!(error, ReceiveError::Bomb), "{error}");
    let used = sandbox.memory_use();
    assert_eq!((used.used_bytes, used.processes), (0, 0));
}

#[tokio::test]
async fn a_pack_that_finds_no_memory_is_refused_with_the_reason() {
    let sandbox = Sandbox::with(|options| {
        options.memory_bytes = 256 << 20;
        options.stall = Duration::from_secs(600);
    });
    let pack = Work::example().pack("", &["--all"]);
    // Uploads that do not go on hold little, each for a repository of its own.
    let names: Vec<_> = (0..4).map(|n| repo(ALICE, &format!("r{n}"))).collect();
    let stuck = names.iter().map(|repo| {
        let client = Client {
            bytes: &pack[..8],
            breaks: false,
        };
        sandbox.repositories.receive(&repo.identifier, client)
    });
    let stuck = futures_util::future::join_all(stuck);
    let refused = async {
        while sandbox.memory_use().used_bytes < 256 << 20 {
            tokio::task::yield_now().await;
        }
        tokio::time::pause();
        let repo = repo(ALICE, "next");
        sandbox.receive(&repo, &pack).await
    };
    let refused = tokio::select! {
        _ = stuck => panic!("they wait for bytes"),
        refused = refused => refused,
    };
    let error = refused.err().expect("there is no memory");
    assert!(matches!(error, ReceiveError::MemoryFull(_)), "{error}");
    assert!(error.to_string().contains("256 MiB of memory"), "{error}");
    assert!(error.is_ours());
}
