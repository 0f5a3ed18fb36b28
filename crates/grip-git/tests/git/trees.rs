//! All files below a directory, as git lists them, and within bounds.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use grip_git::{FileAt, FileKind, RepoError, TreeBounds, TreeEntry, TreeError};
use grip_types::Oid;

use crate::{
    contents::{Store, is_unusable},
    support::*,
};

fn list(
    store: &Store,
    commit: Oid,
    dir: &str,
    bounds: TreeBounds,
) -> Result<Vec<TreeEntry>, TreeError> {
    let repositories = &store.sandbox.repositories;
    repositories.tree(&store.identifier, &commit, dir, bounds)
}

fn all(store: &Store, commit: Oid, dir: &str) -> Vec<TreeEntry> {
    list(store, commit, dir, TreeBounds::default()).unwrap()
}

/// The listing in the form of `git ls-tree -r -l -z`.
fn by_us(files: &[TreeEntry]) -> Vec<String> {
    let line = |file: &TreeEntry| {
        let (mode, kind, size) = match file.kind {
            FileKind::File => ("100644", "blob", file.size.to_string()),
            FileKind::Executable => ("100755", "blob", file.size.to_string()),
            FileKind::Symlink => ("120000", "blob", file.size.to_string()),
            FileKind::Submodule => ("160000", "commit", "-".to_owned()),
        };
        let path = String::from_utf8_lossy(&file.path);
        format!("{mode} {kind} {} {size} {path}", file.oid)
    };
    files.iter().map(line).collect()
}

fn by_git(work: &Work, tree: &str) -> Vec<String> {
    let listed = work.git(&["ls-tree", "-r", "-l", "-z", tree]);
    let lines = listed.split('\0').filter(|line| !line.is_empty());
    let mut lines: Vec<_> = lines
        .map(|line| {
            let (facts, path) = line.split_once('\t').unwrap();
            let facts: Vec<_> = facts.split_whitespace().collect();
            (path.to_owned(), format!("{} {path}", facts.join(" ")))
        })
        .collect();
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect()
}

fn everything() -> Work {
    let work = Work::example();
    let dir = work.dir.path();
    symlink("a.txt", dir.join("link")).unwrap();
    fs::write(dir.join("run"), "#!").unwrap();
    fs::set_permissions(dir.join("run"), fs::Permissions::from_mode(0o755)).unwrap();
    for name in [
        "dir/sub/x",
        "dir/sub/er/y",
        "dir/sub.x",
        "dir/sub-x",
        "dir/näme\n",
    ] {
        work.commit(name, name);
    }
    let submodule = format!("160000,{},dir/module", work.oid("HEAD"));
    work.git(&["update-index", "--add", "--cacheinfo", &submodule]);
    work.git(&["commit", "--quiet", "-m", "submodule"]);
    work
}

#[tokio::test]
async fn a_listing_is_that_of_git_for_all_of_a_commit_and_below_a_directory() {
    let work = everything();
    let store = Store::of(&work).await;
    let commit = work.oid("HEAD");
    assert_eq!(by_us(&all(&store, commit, "")), by_git(&work, "HEAD"));
    assert_eq!(
        by_us(&all(&store, commit, "dir")),
        by_git(&work, "HEAD:dir")
    );
    let below = all(&store, commit, "dir/sub");
    assert_eq!(by_us(&below), by_git(&work, "HEAD:dir/sub"));
    let [er_y, x] = &below[..] else {
        panic!("{below:?}")
    };
    assert_eq!((&er_y.path[..], &x.path[..]), (&b"er/y"[..], &b"x"[..]));
    assert_eq!(x.size, "dir/sub/x".len() as u64);
    let nothing = store.commit(store.tree(&[]), "1 +0000");
    assert_eq!(all(&store, nothing, ""), []);
    for no in [
        "a.txt",
        "link",
        "dir/module",
        "nowhere",
        "dir/",
        "/dir",
        "dir//sub",
        ".",
        "..",
    ] {
        let refused = list(&store, commit, no, TreeBounds::default());
        assert!(matches!(refused, Err(TreeError::NoDirectory(dir)) if dir == no));
    }
}

#[tokio::test]
async fn a_listing_ends_at_each_bound_and_not_before() {
    let work = Work::new();
    work.commit("a/b/c", "x");
    work.commit("d", "x");
    let store = Store::of(&work).await;
    // The paths are a, a/b, a/b/c and d.
    let exact = TreeBounds {
        entries: 4,
        depth: 2,
        path_bytes: 10,
        time: Duration::from_secs(60),
    };
    let list = |bounds| list(&store, work.oid("HEAD"), "", bounds);
    assert_eq!(list(exact).unwrap().len(), 2);
    let few = TreeBounds {
        entries: 3,
        ..exact
    };
    assert!(matches!(list(few), Err(TreeError::TooMany(3))));
    let flat = TreeBounds { depth: 1, ..exact };
    assert!(matches!(list(flat), Err(TreeError::TooDeep(1))));
    let short = TreeBounds {
        path_bytes: 9,
        ..exact
    };
    assert!(matches!(list(short), Err(TreeError::PathsTooLong(9))));
    let hasty = TreeBounds {
        time: Duration::ZERO,
        ..exact
    };
    assert!(matches!(
        list(hasty),
        Err(TreeError::TooSlow(Duration::ZERO))
    ));
}

/// Ten directories in each, so many levels deep, over `leaf`.
fn bomb(store: &Store, leaf: Oid, levels: usize) -> Oid {
    let names: Vec<_> = (0..10).map(|n| format!("d{n}")).collect();
    let tree = (0..levels).fold(leaf, |below, _| {
        let entries = names.iter().map(|name| ("40000", name.as_bytes(), below));
        store.tree(&entries.collect::<Vec<_>>())
    });
    store.commit(tree, "1 +0000")
}

#[tokio::test]
async fn directories_that_stand_for_more_files_than_there_is_room_for_end_at_the_bound() {
    let store = Store::of(&Work::example()).await;
    let file = store.write("blob", b"x");
    let leaf = store.tree(&[("100644", b"f", file)]);
    let bounds = TreeBounds::default();
    let loaded = bomb(&store, leaf, 20);
    let empty = bomb(&store, store.tree(&[]), 20);
    git(&store.path, &["repack", "-a", "-d", "-k", "-q"]);
    let began = Instant::now();
    let refused = list(&store, loaded, "", bounds);
    assert!(matches!(refused, Err(TreeError::TooMany(100_000))));
    let refused = list(&store, empty, "", bounds);
    assert!(
        matches!(refused, Err(TreeError::TooMany(100_000))),
        "without a file"
    );
    assert!(began.elapsed() < Duration::from_secs(10));
    let nested = |name: &[u8]| {
        let top = (0..130).fold(leaf, |below, _| store.tree(&[("40000", name, below)]));
        store.commit(top, "1 +0000")
    };
    let refused = list(&store, nested(b"n"), "", bounds);
    assert!(matches!(refused, Err(TreeError::TooDeep(128))));
    let refused = list(&store, nested(&[b'n'; 4000]), "", bounds);
    assert!(matches!(refused, Err(TreeError::PathsTooLong(_))));
}

#[tokio::test]
async fn directories_that_git_would_not_write_are_unusable() {
    let store = Store::of(&Work::example()).await;
    let file = store.write("blob", b"x");
    let leaf = store.tree(&[("100644", b"f", file)]);
    let hostile = [
        store.tree(&[("100644", b"a", file), ("100644", b"..", file)]),
        store.tree(&[("40000", b".", leaf)]),
        store.tree(&[("100644", b"", file)]),
        store.tree(&[("100644", b"a/b", file)]),
        store.write("tree", b"100644 cut\0short"),
        store.write("tree", b"no mode"),
        store.write("tree", &vec![b'1'; 33 << 20]),
    ];
    for tree in hostile {
        let commit = store.commit(tree, "1 +0000");
        let repositories = &store.sandbox.repositories;
        let file = repositories.file(&store.identifier, &commit, "b", 9);
        assert!(is_unusable(file, tree));
        match list(&store, commit, "", TreeBounds::default()) {
            Err(TreeError::Repo(error)) => assert!(is_unusable::<()>(Err(error), tree)),
            other => panic!("{other:?}"),
        }
    }
    // A directory where a file should be, and the reverse.
    for (mode, oid) in [("100644", leaf), ("40000", file)] {
        let commit = store.commit(store.tree(&[(mode, b"x", oid)]), "1 +0000");
        match list(&store, commit, "", TreeBounds::default()) {
            Err(TreeError::Repo(error)) => assert!(is_unusable::<()>(Err(error), oid)),
            other => panic!("{other:?}"),
        }
    }
    let nowhere: Oid = "1234567890123456789012345678901234567890".parse().unwrap();
    let gap = store.commit(store.tree(&[("100644", b"x", nowhere)]), "1 +0000");
    match list(&store, gap, "", TreeBounds::default()) {
        Err(TreeError::Repo(RepoError::Missing { oid, .. })) => assert_eq!(oid, nowhere),
        other => panic!("{other:?}"),
    }
}

/// Brings one commit more than `old` into the store, in a pack of its own.
async fn push_one(store: &Store, work: &Work, old: Oid) {
    let new = work.commit("next", &old.to_hex());
    let pack = work.pack(&format!("{new}\n^{old}\n"), &[]);
    let received = store
        .sandbox
        .repositories
        .receive(&store.identifier, &pack[..]);
    received.await.unwrap().promote().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_read_while_packs_are_rolled_up() {
    let work = everything();
    let store = Store::of(&work).await;
    let repositories = store.sandbox.clone();
    let (commit, tag) = (work.oid("HEAD"), work.oid("v1-again"));
    let expected = by_git(&work, "HEAD");
    let over = AtomicBool::new(false);
    let read = || {
        let mut rounds = 0;
        while !over.load(Ordering::Relaxed) {
            assert_eq!(by_us(&all(&store, commit, "")), expected);
            let file = repositories.file(&store.identifier, &commit, "a.txt", 9);
            assert_eq!(file.unwrap(), FileAt::Bytes(b"one\n".to_vec()));
            let found = repositories.tagged(&store.identifier, &tag).unwrap();
            assert!(found.is_some());
            let found = repositories.expand(&store.identifier, &commit.to_hex()[..12]);
            assert_eq!(found.unwrap(), Some(commit));
            rounds += 1;
        }
        rounds
    };
    let runtime = tokio::runtime::Handle::current();
    let rounds = tokio::task::block_in_place(|| {
        std::thread::scope(|scope| {
            let readers = [scope.spawn(read), scope.spawn(read)];
            for _ in 0..10 {
                runtime.block_on(push_one(&store, &work, work.oid("HEAD")));
                // All in one pack: every other one goes.
                git(&store.path, &["repack", "-a", "-d", "-q", "-k"]);
            }
            over.store(true, Ordering::Relaxed);
            readers.map(|reader| reader.join().unwrap())
        })
    });
    assert!(rounds.iter().all(|rounds| *rounds > 0), "{rounds:?}");
    assert_eq!(store.sandbox.packs(&store.identifier).len(), 1);
}
