//! Fetching from git itself, as it sits behind an HTTP server.

use grip_git::{
    Caps, Payer, Pruned, Quarantine, ReceiveError, pktline,
    remote::{
        Advertisement, RemoteError, RemoteRef, Version, fetch_v0, fetch_v2, ls_refs_v2, open_pack,
        read_advertisement, read_ls_refs,
    },
};
use grip_types::{ObjectFormat, Oid, RepoAddr};
use std::{path::Path, time::Duration};
use tempfile::TempDir;
use tokio::io::AsyncReadExt;

use crate::support::*;

pub const CAPS: Caps = Caps {
    payer: Payer::Fetch,
    max_pack_bytes: 64 << 20,
    stall: Duration::from_secs(30),
    progress: None,
    disk_user: grip_git::DiskUser::Maintainer,
};

/// The body of git's answer to a POST, whether or not it ended well.
pub fn upload_pack(server: &Path, version: Version, body: &[u8]) -> Vec<u8> {
    let arguments = ["upload-pack", "--stateless-rpc", "."];
    run_git(server, &arguments, body, protocol(version)).stdout
}

fn protocol(version: Version) -> &'static [(&'static str, &'static str)] {
    match version {
        Version::V0 => &[],
        Version::V1 => &[("GIT_PROTOCOL", "version=1")],
        Version::V2 => &[("GIT_PROTOCOL", "version=2")],
    }
}

/// What `git http-backend` answers to `GET info/refs`.
fn info_refs(server: &Path, version: Version) -> Vec<u8> {
    let arguments = ["upload-pack", "--stateless-rpc", "--advertise-refs", "."];
    let mut answer = Vec::new();
    if version != Version::V2 {
        pktline::put(&mut answer, b"# service=git-upload-pack\n");
        answer.extend_from_slice(pktline::FLUSH);
    }
    answer.extend(run_git(server, &arguments, b"", protocol(version)).stdout);
    answer
}

async fn advertised(server: &Path, version: Version) -> Advertisement {
    let answer = info_refs(server, version);
    read_advertisement(&answer[..], 100, |_| true)
        .await
        .unwrap()
}

/// The body of a fetch in any version.
async fn request(server: &Path, version: Version, wants: &[Oid], haves: &[Oid]) -> Vec<u8> {
    match version {
        Version::V2 => fetch_v2(wants, haves),
        _ => fetch_v0(&advertised(server, version).await, wants, haves),
    }
    .to_vec()
}

struct Client {
    sandbox: Sandbox,
    repo: RepoAddr,
}

impl Client {
    fn new() -> Self {
        let (sandbox, repo) = empty();
        Self { sandbox, repo }
    }

    async fn ask(
        &self,
        server: &Path,
        version: Version,
        wants: &[Oid],
        haves: &[Oid],
    ) -> Result<Quarantine, ReceiveError> {
        let body = request(server, version, wants, haves).await;
        let answer = upload_pack(server, version, &body);
        let pack = open_pack(&answer[..], version).await.unwrap();
        let repositories = &self.sandbox.repositories;
        let identifier = &self.repo.identifier;
        repositories.receive_within(identifier, pack, CAPS).await
    }

    /// Fetches, keeps only what was asked for, and makes it part of the store.
    async fn fetch(
        &self,
        server: &Path,
        version: Version,
        wants: &[Oid],
        haves: &[Oid],
    ) -> Vec<Oid> {
        let quarantine = self.ask(server, version, wants, haves).await.unwrap();
        let Pruned {
            quarantine,
            arrived,
        } = quarantine.prune_to(wants).await.unwrap();
        quarantine.promote().unwrap();
        self.sandbox.assert_quarantine_is_empty();
        arrived
    }

    fn has(&self, oid: Oid) -> bool {
        self.sandbox.kind(&self.repo, oid).is_some()
    }

    fn assert_is_sound(&self) {
        assert_fsck_is_clean(&self.sandbox.store(&self.repo.identifier));
    }
}

/// A commit that no ref reaches.
fn unreachable_commit(work: &Work) -> Oid {
    work.git(&["checkout", "--quiet", "--detach"]);
    let lost = work.commit("lost.txt", "lost\n");
    work.git(&["checkout", "--quiet", "main"]);
    lost
}

#[tokio::test]
async fn version_two_serves_exactly_the_objects_asked_for() {
    let (work, client) = (Work::example(), Client::new());
    let lost = unreachable_commit(&work);
    let wants = [work.oid("main~1"), lost, work.oid("v1-again")];
    let arrived = client
        .fetch(work.dir.path(), Version::V2, &wants[..1], &[])
        .await;
    assert_eq!(arrived, wants[..1]);
    assert!(!client.has(work.oid("main")) && !client.has(lost));
    let haves = [work.oid("main~1")];
    let arrived = client
        .fetch(work.dir.path(), Version::V2, &wants[1..], &haves)
        .await;
    assert_eq!(arrived, wants[1..]);
    assert!(client.has(lost) && client.has(work.oid("v1")));
    client.assert_is_sound();
}

#[tokio::test]
async fn a_single_tree_or_blob_can_be_asked_for() {
    let (work, client) = (Work::example(), Client::new());
    let wants = [work.oid("main^{tree}"), work.oid("main:a.txt")];
    for want in wants {
        assert_eq!(
            client
                .fetch(work.dir.path(), Version::V2, &[want], &[])
                .await,
            [want]
        );
    }
    assert!(client.has(work.oid("main:dir/c.txt")) && !client.has(work.oid("main")));
}

#[tokio::test]
async fn what_is_here_makes_a_thin_pack_that_is_completed() {
    for version in [Version::V0, Version::V1, Version::V2] {
        let (work, client) = (Work::new(), Client::new());
        let long: String = (0..3000).map(|n| format!("line {n}\n")).collect();
        let old = work.commit("long.txt", &long);
        client.fetch(work.dir.path(), version, &[old], &[]).await;
        client
            .sandbox
            .set(&client.repo, &[set("refs/heads/main", old)])
            .unwrap();
        let new = work.commit("long.txt", &long.replace("line 77\n", "changed\n"));
        let repositories = &client.sandbox.repositories;
        let haves = repositories
            .known_tips(&client.repo.identifier, 256)
            .unwrap();
        assert_eq!(haves, [old]);
        // Whoever does not have the old file cannot read the new one.
        let thin = Client::new()
            .ask(work.dir.path(), version, &[new], &haves)
            .await;
        assert!(matches!(thin.err(), Some(ReceiveError::MissingBase)));
        let arrived = client.fetch(work.dir.path(), version, &[new], &haves).await;
        assert_eq!(arrived, [new]);
        client
            .sandbox
            .set(&client.repo, &[set("refs/heads/main", new)])
            .unwrap();
        client.assert_is_sound();
        assert_fsck_is_clean(&client.sandbox.path(&client.repo));
    }
}

#[tokio::test]
async fn an_object_the_server_lacks_is_named() {
    let work = Work::example();
    let missing: Oid = "ab".repeat(20).parse().unwrap();
    for version in [Version::V0, Version::V1, Version::V2] {
        let wants = [work.oid("main"), missing];
        let body = request(work.dir.path(), version, &wants, &[]).await;
        let answer = upload_pack(work.dir.path(), version, &body);
        let error = open_pack(&answer[..], version).await.err().unwrap();
        assert!(
            matches!(error, RemoteError::NotOurRef(oid) if oid == missing),
            "{error}"
        );
    }
}

#[tokio::test]
async fn version_zero_refuses_what_no_ref_reaches() {
    let work = Work::example();
    let lost = unreachable_commit(&work);
    let body = request(work.dir.path(), Version::V0, &[lost], &[]).await;
    let answer = upload_pack(work.dir.path(), Version::V0, &body);
    let error = open_pack(&answer[..], Version::V0).await.err().unwrap();
    assert!(
        matches!(error, RemoteError::NotOurRef(oid) if oid == lost),
        "{error}"
    );
    assert!(
        !advertised(work.dir.path(), Version::V0)
            .await
            .can_serve_any_oid()
    );
    work.git(&["config", "uploadpack.allowAnySHA1InWant", "true"]);
    assert!(
        advertised(work.dir.path(), Version::V0)
            .await
            .can_serve_any_oid()
    );
    let arrived = Client::new()
        .fetch(work.dir.path(), Version::V0, &[lost], &[])
        .await;
    assert_eq!(arrived, [lost]);
}

#[tokio::test]
async fn old_versions_serve_tips_and_annotated_tags() {
    for version in [Version::V0, Version::V1] {
        let (work, client) = (Work::example(), Client::new());
        let wants = [work.oid("v1-again"), work.oid("dev")];
        let arrived = client.fetch(work.dir.path(), version, &wants, &[]).await;
        assert_eq!(arrived, wants);
        assert!(client.has(work.oid("v1")) && client.has(work.oid("main~1")));
        assert!(!client.has(work.oid("main")));
        client.assert_is_sound();
    }
}

#[tokio::test]
async fn all_heads_and_tags_bring_what_is_behind_them() {
    let (work, client) = (Work::example(), Client::new());
    let advertised = advertised(work.dir.path(), Version::V0).await;
    let all = advertised.heads_and_tags();
    assert!(all.contains(&work.oid("v1-again")) && all.contains(&work.oid("main")));
    // Not a tip: it is found behind one, and the rest is dropped.
    let wanted = [work.oid("main~1^{tree}"), "ab".repeat(20).parse().unwrap()];
    let quarantine = client
        .ask(work.dir.path(), Version::V0, &all, &[])
        .await
        .unwrap();
    let kept = quarantine.prune_to(&wanted).await.unwrap();
    assert_eq!(kept.arrived, wanted[..1]);
    kept.quarantine.promote().unwrap();
    assert!(client.has(wanted[0]) && !client.has(work.oid("main")));
    client.assert_is_sound();
}

#[tokio::test]
async fn a_server_without_side_bands_sends_the_pack_bare() {
    let work = Work::example();
    let mut advertised = advertised(work.dir.path(), Version::V0).await;
    advertised
        .capabilities
        .retain(|name| !name.starts_with("side-band"));
    let body = fetch_v0(&advertised, &[work.oid("main")], &[]);
    let answer = upload_pack(work.dir.path(), Version::V0, &body);
    let mut pack = open_pack(&answer[..], Version::V0).await.unwrap();
    let mut bytes = Vec::new();
    pack.read_to_end(&mut bytes).await.unwrap();
    assert!(bytes.starts_with(b"PACK"));
    let client = Client::new();
    let repositories = &client.sandbox.repositories;
    let received = repositories.receive_within(&client.repo.identifier, &bytes[..], CAPS);
    assert!(!received.await.unwrap().is_empty());
}

/// What git lists, HEAD first.
fn listed(work: &Work) -> Vec<RemoteRef> {
    let refs = work.refs().into_iter().map(|(name, oid)| {
        let peeled = Some(work.oid(&format!("{name}^{{}}"))).filter(|peeled| *peeled != oid);
        RemoteRef { name, oid, peeled }
    });
    let head = RemoteRef {
        name: "HEAD".to_owned(),
        oid: work.oid("HEAD"),
        peeled: None,
    };
    std::iter::once(head).chain(refs).collect()
}

#[tokio::test]
async fn refs_are_listed_alike_in_every_version() {
    let work = Work::example();
    for version in [Version::V0, Version::V1] {
        let advertised = advertised(work.dir.path(), version).await;
        assert_eq!(advertised.version, version);
        assert_eq!(advertised.refs, listed(&work));
        assert_eq!(advertised.object_format(), Some(ObjectFormat::Sha1));
    }
    let capabilities = advertised(work.dir.path(), Version::V2).await;
    assert_eq!(capabilities.version, Version::V2);
    assert!(capabilities.has("agent") && capabilities.can_serve_any_oid());
    let answer = upload_pack(work.dir.path(), Version::V2, &ls_refs_v2());
    assert_eq!(
        read_ls_refs(&answer[..], 100, |_| true).await.unwrap(),
        listed(&work)
    );
}

#[tokio::test]
async fn an_empty_repository_has_no_refs_in_any_version() {
    let work = Work::new();
    for version in [Version::V0, Version::V1, Version::V2] {
        let advertised = advertised(work.dir.path(), version).await;
        assert_eq!(advertised.version, version);
        assert!(advertised.refs.is_empty() && advertised.has("agent"));
        assert!(advertised.heads_and_tags().is_empty());
    }
    let answer = upload_pack(work.dir.path(), Version::V2, &ls_refs_v2());
    assert!(
        read_ls_refs(&answer[..], 100, |_| true)
            .await
            .unwrap()
            .is_empty()
    );
    let wanted: Oid = "ab".repeat(20).parse().unwrap();
    let answer = upload_pack(work.dir.path(), Version::V2, &fetch_v2(&[wanted], &[]));
    let error = open_pack(&answer[..], Version::V2).await.err().unwrap();
    assert!(
        matches!(error, RemoteError::NotOurRef(oid) if oid == wanted),
        "{error}"
    );
}

#[tokio::test]
async fn a_shallow_repository_is_taken_only_where_the_rest_is_here() {
    let work = Work::example();
    let shallow = TempDir::new().unwrap();
    let source = format!("file://{}", work.dir.path().display());
    let arguments = ["clone", "--quiet", "--bare", "--depth=1", &source, "."];
    git(shallow.path(), &arguments);
    let tip = work.oid("main");
    for version in [Version::V0, Version::V1, Version::V2] {
        let client = Client::new();
        let refused = client.ask(shallow.path(), version, &[tip], &[]).await;
        let Some(ReceiveError::MissingObject(missing)) = refused.err() else {
            panic!("an incomplete pack was taken");
        };
        assert_eq!(missing, work.oid("main~1").to_hex());
        client.sandbox.assert_quarantine_is_empty();
        assert!(client.sandbox.packs(&client.repo.identifier).is_empty());
        client
            .fetch(work.dir.path(), version, &[work.oid("main~1")], &[])
            .await;
        assert_eq!(
            client.fetch(shallow.path(), version, &[tip], &[]).await,
            [tip]
        );
        client.assert_is_sound();
    }
}

#[tokio::test]
async fn a_server_of_version_zero_is_told_apart_from_a_broken_one() {
    let work = Work::example();
    let body = fetch_v2(&[work.oid("main")], &[]);
    for version in [Version::V0, Version::V1] {
        let answer = upload_pack(work.dir.path(), version, &body);
        let error = open_pack(&answer[..], Version::V2).await.err().unwrap();
        assert!(matches!(error, RemoteError::UnsupportedVersion), "{error}");
        let answer = upload_pack(work.dir.path(), version, &ls_refs_v2());
        let error = read_ls_refs(&answer[..], 100, |_| true).await.unwrap_err();
        assert!(matches!(error, RemoteError::UnsupportedVersion), "{error}");
    }
    // Its object is lost: it understands, starts, and gives up.
    let tree = work.oid("main^{tree}").to_hex();
    let lost = work
        .dir
        .path()
        .join(".git/objects")
        .join(&tree[..2])
        .join(&tree[2..]);
    std::fs::remove_file(lost).unwrap();
    let answer = upload_pack(work.dir.path(), Version::V2, &body);
    let mut pack = open_pack(&answer[..], Version::V2).await.unwrap();
    let error = pack.read_to_end(&mut Vec::new()).await.unwrap_err();
    let said = RemoteError::inside(&error).unwrap().to_string();
    assert!(said.contains("corruption on the remote side"), "{said}");
}

#[tokio::test]
async fn a_repository_of_long_ids_is_understood_but_not_taken() {
    let dir = TempDir::new().unwrap();
    let server = dir.path();
    git(
        server,
        &[
            "init",
            "--quiet",
            "--object-format=sha256",
            "--initial-branch=main",
        ],
    );
    git(
        server,
        &["commit", "--quiet", "--allow-empty", "--message=one"],
    );
    let tip: Oid = git(server, &["rev-parse", "HEAD"]).parse().unwrap();
    for version in [Version::V0, Version::V2] {
        let advertised = advertised(server, version).await;
        assert_eq!(advertised.object_format(), Some(ObjectFormat::Sha256));
        let client = Client::new();
        assert!(client.ask(server, version, &[tip], &[]).await.is_err());
        client.sandbox.assert_quarantine_is_empty();
    }
}
