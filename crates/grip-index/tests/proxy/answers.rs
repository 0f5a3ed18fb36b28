//! Responses of the proxy to each kind of request.

use grip_testkit::{Author, WorkTree};
use serde_json::json;

use crate::support::{World, module, set_refs};

#[tokio::test]
async fn info_says_version_time_and_origin() {
    let world = World::new().await;
    let path = world.path("hello");
    let work = module(&path, &[]);
    work.commit("sub/go.mod", &format!("module {path}/sub\n"))
        .unwrap();
    work.git(["tag", "--annotate", "--message=one", "sub/v1.0.0"])
        .unwrap();
    let repo = world.publish("hello", &work).await;
    let seconds = work
        .git(["log", "-1", "--format=%ct"])
        .unwrap()
        .parse()
        .unwrap();
    let time = jiff::Timestamp::from_second(seconds).unwrap().to_string();
    let expected = json!({
        "Version": "v1.0.0",
        "Time": time,
        "Origin": {
            "VCS": "git",
            "URL": format!("https://git.example/{}/hello.git", repo.npub()),
            "Subdir": "sub",
            "Hash": work.tip("HEAD").unwrap(),
            "Ref": "refs/tags/sub/v1.0.0",
        }
    });
    assert_eq!(
        world.json(&format!("{path}/sub/@v/v1.0.0.info")).await,
        expected
    );
    assert_eq!(world.json(&format!("{path}/sub/@latest")).await, expected);
}

#[tokio::test]
async fn a_branch_at_a_tagged_commit_is_that_version() {
    let world = World::new().await;
    let path = world.path("hello");
    let work = module(&path, &["v1.0.0", "v1.0.1"]);
    world.publish("hello", &work).await;
    let commit = work.tip("main").unwrap();
    for revision in ["main", "HEAD", &commit, &commit[..7], "v1.0.1"] {
        let escaped = revision.replace("HEAD", "!h!e!a!d");
        let info = world.json(&format!("{path}/@v/{escaped}.info")).await;
        assert_eq!(info["Version"], "v1.0.1", "{revision}");
    }
}

#[tokio::test]
async fn a_pseudo_version_follows_the_highest_tag_before_it() {
    let world = World::new().await;
    let path = world.path("hello");
    let work = module(
        &path,
        &["v1.0.0", "v1.9.0", "v1.10.0-rc.1", "v2.0.0", "other/v5.0.0"],
    );
    work.git(["checkout", "-q", "-b", "release"]).unwrap();
    work.commit("aside.go", "package hello\n").unwrap();
    work.git(["tag", "v1.11.0"]).unwrap();
    work.git(["checkout", "-q", "main"]).unwrap();
    let tip = work.commit("more.go", "package hello\n").unwrap();
    world.publish("hello", &work).await;
    let info = world.json(&format!("{path}/@v/main.info")).await;
    let version = info["Version"].as_str().unwrap().to_owned();
    assert!(version.starts_with("v1.10.0-rc.1.0."), "{version}");
    assert!(version.ends_with(&tip[..12]));
    assert_eq!(info["Origin"]["Ref"], "refs/heads/main");

    let same = world.json(&format!("{path}/@v/{version}.info")).await;
    assert_eq!(same["Version"], version);
    let go_mod = world.text(&format!("{path}/@v/{version}.mod")).await;
    assert!(go_mod.starts_with(&format!("module {path}\n")));
    world
        .ask(&format!("{path}/@v/{version}.zip"))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_pseudo_version_that_does_not_fit_its_commit_is_refused() {
    let world = World::new().await;
    let path = world.path("hello");
    let work = module(&path, &["v1.0.0"]);
    work.git(["tag", "v1.5.0", "HEAD~1"]).unwrap();
    work.git(["checkout", "-q", "--orphan", "aside"]).unwrap();
    work.commit("aside.go", "package hello\n").unwrap();
    work.git(["tag", "v1.7.0"]).unwrap();
    work.git(["checkout", "-q", "main"]).unwrap();
    work.commit("more.go", "package hello\n").unwrap();
    world.publish("hello", &work).await;
    let version = world.json(&format!("{path}/@v/main.info")).await["Version"].clone();
    let version = version.as_str().unwrap();
    let (start, revision) = version.rsplit_once('-').unwrap();
    let (_, time) = start.rsplit_once('.').unwrap();
    for (wrong, reason) in [
        (
            format!("v0.0.0-20010101000000-{revision}"),
            "at another time",
        ),
        (format!("v0.0.0-{time}-{}", &revision[..11]), "12 digits"),
        (
            format!("v0.0.0-{time}-0123456789ab"),
            "no branch, tag or commit",
        ),
        (
            format!("v1.6.1-0.{time}-{revision}"),
            "there is no tag v1.6.0",
        ),
        (
            format!("v1.7.1-0.{time}-{revision}"),
            "does not come after the tag v1.7.0",
        ),
        (
            format!("v2.0.0-{time}-{revision}"),
            "cannot have the version",
        ),
    ] {
        let said = world.refusal(&format!("{path}/@v/{wrong}.info")).await;
        assert!(said.contains(reason), "{wrong}: {said}");
    }
    let plain = format!("v0.0.0-{time}-{revision}");
    let info = world.json(&format!("{path}/@v/{plain}.info")).await;
    assert_eq!(
        info["Version"], plain,
        "go takes those without a base as well"
    );
}

#[tokio::test]
async fn a_commit_of_another_owner_in_the_same_store_is_not_served() {
    let world = World::new().await;
    let path = world.path("shared");
    let work = module(&path, &["v1.0.0"]);
    world.publish("shared", &work).await;
    let evil = module(&path, &[]);
    let commit = evil.commit("evil.go", "package evil\n").unwrap();
    let mut theirs = world.repo("shared");
    theirs.owner = Author::new().pubkey();
    world.push(&theirs, &evil).await;

    let said = world.refusal(&format!("{path}/@v/{commit}.info")).await;
    assert!(
        said.contains("no branch, tag or commit of that name here"),
        "{said}"
    );
    let seconds: i64 = evil
        .git(["log", "-1", "--format=%ct"])
        .unwrap()
        .parse()
        .unwrap();
    let time = jiff::Timestamp::from_second(seconds)
        .unwrap()
        .strftime("%Y%m%d%H%M%S");
    let version = format!("v0.0.0-{time}-{}", &commit[..12]);
    for extension in ["info", "mod", "zip"] {
        let said = world
            .refusal(&format!("{path}/@v/{version}.{extension}"))
            .await;
        assert!(
            said.contains("no branch, tag or commit of that name here"),
            "{said}"
        );
    }
}

#[tokio::test]
async fn a_proposal_of_a_stranger_is_no_part_of_the_module() {
    let world = World::new().await;
    let path = world.path("hello");
    let work = module(&path, &["v1.0.0"]);
    work.git(["checkout", "-q", "-b", "theirs"]).unwrap();
    let commit = work.commit("evil.go", "package evil\n").unwrap();
    let proposal = format!("refs/nostr/{}", "ab".repeat(32));
    work.git(["update-ref", &proposal, &commit]).unwrap();
    work.git(["checkout", "-q", "main"]).unwrap();
    work.git(["branch", "-D", "theirs"]).unwrap();
    world.publish("hello", &work).await;
    let said = world.refusal(&format!("{path}/@v/{commit}.info")).await;
    assert!(
        said.contains("no branch, tag or commit of that name here"),
        "{said}"
    );
}

#[tokio::test]
async fn what_is_not_served_has_no_modules() {
    let world = World::new().await;
    let path = world.path("hello");
    let work = module(&path, &["v1.0.0"]);
    let repo = world.publish("hello", &work).await;
    assert_eq!(world.text(&format!("{path}/@v/list")).await, "v1.0.0\n");
    world.served.remove(&repo);
    for file in [
        "list",
        "v1.0.0.info",
        "v1.0.0.mod",
        "v1.0.0.zip",
        "main.info",
    ] {
        let said = world.refusal(&format!("{path}/@v/{file}")).await;
        assert!(said.contains("there is no such module here"), "{said}");
    }
    world.refusal(&format!("{path}/@latest")).await;
}

#[tokio::test]
async fn a_tag_that_is_gone_is_not_served_even_before_the_index_knows() {
    let world = World::new().await;
    let path = world.path("hello");
    let work = module(&path, &["v1.0.0", "v1.1.0"]);
    let repo = world.publish("hello", &work).await;
    work.git(["tag", "--delete", "v1.1.0"]).unwrap();
    world.push(&repo, &work).await;
    assert_eq!(world.text(&format!("{path}/@v/list")).await, "v1.0.0\n");
    assert_eq!(
        world.json(&format!("{path}/@latest")).await["Version"],
        "v1.0.0"
    );
    world.refusal(&format!("{path}/@v/v1.1.0.zip")).await;
}

#[tokio::test]
async fn latest_prefers_releases_and_versions_with_go_mod() {
    let world = World::new().await;
    let path = world.path("mixed");
    let work = WorkTree::init().unwrap();
    work.commit("a.go", "package a\n").unwrap();
    work.git(["tag", "v1.0.0"]).unwrap();
    work.git(["tag", "v2.0.0"]).unwrap();
    let repo = world.publish("mixed", &work).await;
    let latest = async || world.json(&format!("{path}/@latest")).await["Version"].clone();
    assert_eq!(latest().await, "v2.0.0+incompatible");
    work.commit("go.mod", &format!("module {path}\n")).unwrap();
    work.git(["tag", "v1.1.0"]).unwrap();
    work.git(["tag", "v1.2.0-beta"]).unwrap();
    world.push(&repo, &work).await;
    world.index(&repo).await;
    assert_eq!(latest().await, "v1.1.0");
    let listed = world.text(&format!("{path}/@v/list")).await;
    assert_eq!(listed, "v1.0.0\nv1.1.0\nv1.2.0-beta\nv2.0.0+incompatible\n");
}

#[tokio::test]
async fn a_directory_that_is_no_module_has_no_list() {
    let world = World::new().await;
    let path = world.path("hello");
    let work = module(&path, &["v1.0.0"]);
    work.commit("sub/a.go", "package sub\n").unwrap();
    world.publish("hello", &work).await;
    for below in ["sub", "sub/deeper", "nothing", "v2"] {
        let said = world.refusal(&format!("{path}/{below}/@v/list")).await;
        assert!(said.starts_with("not found: "), "{said}");
        world.refusal(&format!("{path}/{below}/@latest")).await;
    }
    world
        .refusal(&format!("git.example/{}/@v/list", world.owner.npub()))
        .await;
    world.refusal("git.example/@v/list").await;
}

#[tokio::test]
async fn a_commit_after_versions_without_go_mod_is_incompatible_too() {
    let world = World::new().await;
    let path = world.path("old");
    let work = WorkTree::with_commit().unwrap();
    work.git(["tag", "v4.1.0"]).unwrap();
    let tip = work.commit("more.go", "package old\n").unwrap();
    world.publish("old", &work).await;
    let info = world.json(&format!("{path}/@v/main.info")).await;
    let version = info["Version"].as_str().unwrap();
    assert!(version.starts_with("v4.1.1-0."), "{version}");
    assert!(
        version.ends_with(&format!("-{}+incompatible", &tip[..12])),
        "{version}"
    );
    let again = world.json(&format!("{path}/@v/{version}.info")).await;
    assert_eq!(again["Version"], version);
    let go_mod = world.text(&format!("{path}/@v/{version}.mod")).await;
    assert_eq!(go_mod, format!("module {path}\n"));
}

#[tokio::test]
async fn a_commit_that_no_branch_leads_to_any_more_is_not_served_any_more() {
    let world = World::new().await;
    let path = world.path("hello");
    let work = module(&path, &["v1.0.0"]);
    work.commit("more.go", "package hello\n").unwrap();
    let repo = world.publish("hello", &work).await;
    let version = world.json(&format!("{path}/@v/main.info")).await["Version"].clone();
    let file = format!("{path}/@v/{}.zip", version.as_str().unwrap());
    world.ask(&file).await.unwrap();
    work.git(["reset", "-q", "--hard", "HEAD~1"]).unwrap();
    world.push(&repo, &work).await;
    let said = world.refusal(&file).await;
    assert!(
        said.contains("no branch, tag or commit of that name here"),
        "{said}"
    );
}

#[tokio::test]
async fn all_versions_are_listed_in_their_order_however_many() {
    let world = World::new().await;
    let path = world.path("many");
    let work = module(&path, &[]);
    let tags = (0..4_500).map(|n| format!("refs/tags/v1.0.{n}"));
    set_refs(&work, tags, &work.tip("HEAD").unwrap());
    world.publish("many", &work).await;
    let expected: String = (0..4_500).map(|n| format!("v1.0.{n}\n")).collect();
    assert_eq!(world.text(&format!("{path}/@v/list")).await, expected);
    let latest = world.json(&format!("{path}/@latest")).await;
    assert_eq!(latest["Version"], "v1.0.4499");
}
