//! Commits, tags and files, compared with git.

use std::{
    collections::HashMap,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
};

use grip_git::{CommitFacts, FileAt, RepoError};
use grip_types::{Identifier, Oid, RepoAddr};

use crate::support::*;

/// A store that objects can be written into past all checks.
pub struct Store {
    pub sandbox: Sandbox,
    pub identifier: Identifier,
    pub path: PathBuf,
}

impl Store {
    /// As a repository with all of `work` in packs.
    pub async fn of(work: &Work) -> Self {
        let (sandbox, RepoAddr { identifier, .. }) = Sandbox::published(work).await;
        let path = sandbox.store(&identifier);
        Self {
            sandbox,
            identifier,
            path,
        }
    }

    pub fn write(&self, kind: &str, contents: &[u8]) -> Oid {
        let arguments = ["hash-object", "-w", "-t", kind, "--literally", "--stdin"];
        let (said, complaint) = try_git(&self.path, &arguments, contents);
        let said = said.unwrap_or_else(|| panic!("{complaint}"));
        String::from_utf8(said).unwrap().trim().parse().unwrap()
    }

    /// A commit of a directory, with a date as it is given.
    pub fn commit(&self, tree: Oid, date: &str) -> Oid {
        let who = "A <a@example.com>";
        let text = format!("tree {tree}\nauthor {who} 1 +0000\ncommitter {who} {date}\n\nx\n");
        self.write("commit", text.as_bytes())
    }

    pub fn tree(&self, entries: &[(&str, &[u8], Oid)]) -> Oid {
        let mut tree = Vec::new();
        for (mode, name, oid) in entries {
            tree.extend([mode.as_bytes(), b" ", name, b"\0", oid.as_bytes()].concat());
        }
        self.write("tree", &tree)
    }

    pub fn tag(&self, of: Oid, kind: &str, tagger: &str) -> Oid {
        let text = format!("object {of}\ntype {kind}\ntag t\n{tagger}\nx\n");
        self.write("tag", text.as_bytes())
    }

    fn facts(&self, oid: Oid) -> Option<CommitFacts> {
        self.sandbox.commit(&self.identifier, &oid).unwrap()
    }

    /// The commit and the time of a tag.
    fn tagged(&self, oid: Oid) -> Option<(Oid, i64)> {
        let found = self.sandbox.tagged(&self.identifier, &oid);
        found.unwrap().map(|tag| (tag.commit, tag.created_at_ms))
    }

    fn file(&self, commit: Oid, path: &str, max_bytes: u64) -> Result<FileAt, RepoError> {
        let repositories = &self.sandbox.repositories;
        repositories.file(&self.identifier, &commit, path, max_bytes)
    }

    fn expand(&self, prefix: &str) -> Option<Oid> {
        let repositories = &self.sandbox.repositories;
        repositories.expand(&self.identifier, prefix).unwrap()
    }
}

pub fn is_unusable<T: std::fmt::Debug>(result: Result<T, RepoError>, of: Oid) -> bool {
    matches!(&result, Err(RepoError::Unusable { oid, .. }) if *oid == of)
        || panic!("{of}: {result:?}")
}

fn is_missing<T: std::fmt::Debug>(result: Result<T, RepoError>, which: Oid) -> bool {
    matches!(&result, Err(RepoError::Missing { oid, .. }) if *oid == which)
        || panic!("{which}: {result:?}")
}

/// Runs git at a time of its own.
fn git_at(work: &Work, seconds: u32, arguments: &[&str]) {
    let date = format!("@{seconds} +0200");
    let output = run_git(
        work.dir.path(),
        arguments,
        b"",
        &[("GIT_COMMITTER_DATE", &date)],
    );
    assert!(output.status.success(), "{output:?}");
}

#[tokio::test]
async fn a_commit_says_what_git_says_of_it() {
    let work = Work::example();
    work.git(&["checkout", "--quiet", "-b", "side", "dev"]);
    work.commit("side.txt", "side\n");
    git_at(
        &work,
        1_700_000_000,
        &["merge", "--quiet", "--no-edit", "main"],
    );
    let store = Store::of(&work).await;
    let facts = store.facts(work.oid("HEAD")).unwrap();
    assert_eq!(facts.oid, work.oid("HEAD"));
    assert_eq!(facts.tree, work.oid("HEAD^{tree}"));
    assert_eq!(facts.committed_at_ms, 1_700_000_000_000);
    assert_eq!(facts.parents, [work.oid("HEAD^1"), work.oid("HEAD^2")]);
    let root = store.facts(work.oid("dev")).unwrap();
    assert_eq!(root.parents, []);
    for tag in ["light", "v1", "v1-again"] {
        let commit = work.oid(&format!("{tag}^{{commit}}"));
        assert_eq!(store.facts(work.oid(tag)).unwrap().oid, commit, "{tag}");
    }
}

#[tokio::test]
async fn a_tag_dates_from_when_it_was_made_and_a_light_one_from_its_commit() {
    let work = Work::new();
    work.commit("a", "a");
    git_at(&work, 1000, &["commit", "--quiet", "--amend", "--no-edit"]);
    work.git(&["tag", "light"]);
    git_at(&work, 2000, &["tag", "-a", "-m", "x", "annotated"]);
    git_at(
        &work,
        3000,
        &["tag", "-a", "-m", "x", "nested", "annotated"],
    );
    let store = Store::of(&work).await;
    let commit = work.oid("HEAD");
    assert_eq!(store.tagged(work.oid("light")), Some((commit, 1_000_000)));
    assert_eq!(
        store.tagged(work.oid("annotated")),
        Some((commit, 2_000_000))
    );
    assert_eq!(store.tagged(work.oid("nested")), Some((commit, 3_000_000)));

    let silent = store.tag(commit, "commit", "");
    assert_eq!(store.tagged(silent), Some((commit, 1_000_000)));
    let outer = store.tag(work.oid("annotated"), "tag", "");
    assert_eq!(store.tagged(outer), Some((commit, 2_000_000)));
    let odd = store.tag(
        commit,
        "commit",
        "tagger A <a> 99999999999999999999 +0000\n",
    );
    assert_eq!(store.tagged(odd), Some((commit, 253_402_300_799_999)));
    let before_the_epoch = store.commit(work.oid("HEAD^{tree}"), "-5 +0000");
    assert_eq!(store.tagged(before_the_epoch), Some((before_the_epoch, 0)));
}

#[tokio::test]
async fn a_tag_of_anything_but_a_commit_is_none_and_endless_or_broken_ones_are_unusable() {
    let work = Work::example();
    let store = Store::of(&work).await;
    let tagged = |oid| store.sandbox.tagged(&store.identifier, &oid);
    let (tree, blob) = (work.oid("HEAD^{tree}"), work.oid("HEAD:a.txt"));
    assert_eq!(store.tagged(tree), None);
    assert_eq!(store.tagged(store.tag(tree, "tree", "")), None);
    assert_eq!(store.tagged(store.tag(blob, "blob", "")), None);
    assert_eq!(store.facts(blob), None);

    let mut at = work.oid("HEAD");
    for depth in 1..=16 {
        let kind = if depth == 1 { "commit" } else { "tag" };
        at = store.tag(at, kind, &format!("tagger A <a> {depth} +0000\n"));
    }
    assert_eq!(store.tagged(at), Some((work.oid("HEAD"), 16_000)));
    let deeper = store.tag(at, "tag", "");
    assert!(is_unusable(tagged(deeper), deeper));
    let broken = store.write("tag", b"object 12\n");
    assert!(is_unusable(tagged(broken), broken));
    let broken = store.write("commit", b"tree\n");
    assert!(is_unusable(tagged(broken), broken));
    let huge = store.write("tag", &vec![b'x'; 5 << 20]);
    assert!(is_unusable(tagged(huge), huge));
}

#[tokio::test]
async fn what_is_not_here_is_told_apart_from_what_never_was() {
    let work = Work::example();
    let store = Store::of(&work).await;
    let repositories = &store.sandbox.repositories;
    let nowhere: Oid = "1234567890123456789012345678901234567890".parse().unwrap();
    assert_eq!(store.facts(nowhere), None);
    assert_eq!(store.tagged(nowhere), None);
    assert!(is_missing(store.file(nowhere, "go.mod", 10), nowhere));
    let dangling = store.tag(nowhere, "commit", "");
    let tagged = repositories.tagged(&store.identifier, &dangling);
    assert!(is_missing(tagged, nowhere));
    let gap = store.tree(&[("40000", b"dir", nowhere), ("100644", b"file", nowhere)]);
    let commit = store.commit(gap, "1 +0000");
    assert!(is_missing(store.file(commit, "dir/go.mod", 10), nowhere));
    assert!(is_missing(store.file(commit, "file", 10), nowhere));
    assert_eq!(store.file(commit, "other", 10).unwrap(), FileAt::Missing);
    let sha256: Oid = "12".repeat(32).parse().unwrap();
    assert_eq!(store.facts(sha256), None);

    let unknown = Identifier::parse("unknown").unwrap();
    let tip = work.oid("HEAD");
    assert_eq!(repositories.commit(&unknown, &tip).unwrap(), None);
    assert_eq!(repositories.tagged(&unknown, &tip).unwrap(), None);
    assert_eq!(repositories.expand(&unknown, &tip.to_hex()).unwrap(), None);
    assert!(is_missing(
        repositories.file(&unknown, &tip, "a.txt", 10),
        tip
    ));
    assert!(is_missing(repositories.blob(&unknown, &tip, 10), tip));
}

#[tokio::test]
async fn a_path_leads_to_a_file_and_to_nothing_else() {
    let work = Work::new();
    let dir = work.dir.path();
    symlink("deep/er/go.mod", dir.join("link")).unwrap();
    symlink("deep", dir.join("shortcut")).unwrap();
    fs::write(dir.join("run"), "#!").unwrap();
    fs::set_permissions(dir.join("run"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(dir.join("empty"), "").unwrap();
    work.commit("deep/er/go.mod", "module x\n");
    let head = work.oid("HEAD").to_hex();
    let submodule = format!("160000,{head},sub");
    work.git(&["update-index", "--add", "--cacheinfo", &submodule]);
    work.git(&["commit", "--quiet", "-m", "submodule"]);
    work.git(&["tag", "-a", "-m", "x", "v1"]);
    let store = Store::of(&work).await;
    let file = |path: &str| store.file(work.oid("HEAD"), path, 9).unwrap();
    let module = FileAt::Bytes(b"module x\n".to_vec());
    assert_eq!(file("deep/er/go.mod"), module);
    assert_eq!(file("run"), FileAt::Bytes(b"#!".to_vec()));
    assert_eq!(file("empty"), FileAt::Bytes(Vec::new()));
    for other in ["deep", "deep/er", "link", "shortcut", "sub"] {
        assert_eq!(file(other), FileAt::NotAFile, "{other}");
    }
    for nothing in [
        "",
        "/",
        "/run",
        "run/",
        "go.mod",
        "deep//er/go.mod",
        "deep/../run",
        "./run",
        "RUN",
        "run/x",
        "link/x",
        "shortcut/er/go.mod",
        "sub/deep",
        "deep/er/go.mod/",
        "run\0",
    ] {
        assert_eq!(file(nothing), FileAt::Missing, "{nothing:?}");
    }
    let at = |oid, max_bytes| store.file(oid, "deep/er/go.mod", max_bytes).unwrap();
    assert_eq!(at(work.oid("HEAD"), 8), FileAt::TooLarge(9));
    assert_eq!(at(work.oid("v1"), 9), module, "tags are followed");
    let tree = work.oid("HEAD^{tree}");
    assert!(is_unusable(store.file(tree, "run", 9), tree));
}

#[tokio::test]
async fn a_blob_is_read_by_its_id_and_nothing_else_is() {
    let work = Work::example();
    let store = Store::of(&work).await;
    let repositories = &store.sandbox.repositories;
    let blob = |oid, max_bytes| repositories.blob(&store.identifier, &oid, max_bytes);
    let oid = work.oid("HEAD:a.txt");
    assert_eq!(blob(oid, 4).unwrap(), FileAt::Bytes(b"one\n".to_vec()));
    assert_eq!(blob(oid, 3).unwrap(), FileAt::TooLarge(4));
    let tree = work.oid("HEAD^{tree}");
    assert!(is_unusable(blob(tree, 1 << 20), tree));
}

#[tokio::test]
async fn a_blob_that_is_too_large_is_never_inflated_nor_is_one_made_from_it() {
    const LARGE: u64 = 300 << 20;
    let store = Store::of(&Work::example()).await;
    let zeros = store.sandbox.dir.path().join("zeros");
    fs::File::create(&zeros).unwrap().set_len(LARGE).unwrap();
    let large = git(&store.path, &["hash-object", "-w", zeros.to_str().unwrap()]);
    // A pack of the large blob, and one of ten bytes as a delta of it.
    let arguments = ["pack-objects", "--compression=1", "--quiet", "--stdout"];
    let (pack, complaint) = try_git(&store.path, &arguments, format!("{large}\n").as_bytes());
    let mut pack = with_ten_bytes_of_the_first(pack.expect(&complaint));
    let trailer = sha1(&pack);
    pack.extend(trailer.as_bytes());
    let (said, complaint) = try_git(&store.path, &["index-pack", "--stdin"], &pack);
    assert!(said.is_some(), "{complaint}");
    git(&store.path, &["prune-packed"]);
    let large: Oid = large.parse().unwrap();
    let small = sha1(b"blob 10\0\0\0\0\0\0\0\0\0\0\0");
    let tree = store.tree(&[("100644", b"large", large), ("100644", b"small", small)]);
    let commit = store.commit(tree, "1 +0000");

    let before = peak_kib();
    let file = |path, max_bytes| store.file(commit, path, max_bytes).unwrap();
    assert_eq!(file("large", 1 << 20), FileAt::TooLarge(LARGE));
    assert_eq!(file("large", u64::MAX), FileAt::TooLarge(LARGE));
    assert_eq!(file("small", 9), FileAt::TooLarge(10));
    assert_eq!(
        file("small", 10),
        FileAt::TooLarge(10),
        "its base is too large"
    );
    assert!(peak_kib() < before + (100 << 10), "{before} KiB before");
}

/// Adds to a pack of one blob another: the first ten bytes of it. No trailer.
fn with_ten_bytes_of_the_first(mut pack: Vec<u8>) -> Vec<u8> {
    pack.truncate(pack.len() - 20);
    pack[11] = 2;
    let distance = pack.len() as u64 - 12;
    let base_size = [0x80, 0x80, 0x80, 0x96, 0x01];
    let delta = [&base_size[..], &[10], &[0x90, 10]].concat();
    pack.push(0x60 | delta.len() as u8);
    let mut digits = vec![(distance & 0x7f) as u8];
    let mut rest = distance >> 7;
    while rest > 0 {
        rest -= 1;
        digits.push(0x80 | (rest & 0x7f) as u8);
        rest >>= 7;
    }
    pack.extend(digits.iter().rev());
    let mut deflated = flate2::write::ZlibEncoder::new(pack, flate2::Compression::fast());
    std::io::Write::write_all(&mut deflated, &delta).unwrap();
    deflated.finish().unwrap()
}

fn sha1(bytes: &[u8]) -> Oid {
    let mut hasher = gix_hash::hasher(gix_hash::Kind::Sha1);
    hasher.update(bytes);
    Oid::from_bytes(hasher.try_finalize().unwrap().as_bytes()).unwrap()
}

#[tokio::test]
async fn an_abbreviation_stands_for_the_only_commit_that_begins_so() {
    let work = Work::example();
    let store = Store::of(&work).await;
    let tip = work.oid("HEAD");
    let hex = tip.to_hex();
    for digits in [7, 12, 39, 40] {
        assert_eq!(store.expand(&hex[..digits]), Some(tip), "{digits}");
    }
    let long = format!("{hex}0");
    for no in [
        "",
        &hex[..6],
        &long,
        &hex[..12].to_uppercase(),
        "abcdefg",
        "é123456",
        "0000000",
    ] {
        assert_eq!(store.expand(no), None, "{no}");
    }
    for other in ["HEAD^{tree}", "HEAD:a.txt", "v1"] {
        assert_eq!(store.expand(&work.oid(other).to_hex()), None, "{other}");
    }
}

#[tokio::test]
async fn an_ambiguous_abbreviation_stands_for_nothing_and_blobs_make_none_ambiguous() {
    let store = Store::of(&Work::example()).await;
    let commit = |n: usize| {
        let tree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
        format!("tree {tree}\nauthor A <a> 1 +0000\ncommitter A <a> 1 +0000\n\n{n}\n")
    };
    let blob = |n: usize| n.to_string();
    let id = |kind: &str, text: &str| sha1(format!("{kind} {}\0{text}", text.len()).as_bytes());
    let short = |oid: Oid| oid.to_hex()[..7].to_owned();
    let mut seen = HashMap::new();
    let twins = (0..).find_map(|n| {
        let twin = seen.insert(short(id("commit", &commit(n))), n)?;
        Some([twin, n])
    });
    let twins = twins
        .unwrap()
        .map(|n| store.write("commit", commit(n).as_bytes()));
    assert_eq!(short(twins[0]), short(twins[1]));
    assert_eq!(store.expand(&short(twins[0])), None);
    for twin in twins {
        assert_eq!(store.expand(&twin.to_hex()), Some(twin));
    }
    let mixed = (0..).find_map(|n| Some((*seen.get(&short(id("blob", &blob(n))))?, n)));
    let (of_commit, of_blob) = mixed.unwrap();
    let found = store.write("commit", commit(of_commit).as_bytes());
    store.write("blob", blob(of_blob).as_bytes());
    let expected = (!twins.contains(&found)).then_some(found);
    assert_eq!(store.expand(&short(found)), expected);
}
