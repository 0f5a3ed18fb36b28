//! Responses of the proxy to each kind of request.

use grip_testkit::Author;
use serde_json::json;

use crate::support::{Scene, module, set_refs};

const UNKNOWN_REVISION: &str = "no branch, tag or commit of that name here";

#[tokio::test]
async fn info_says_version_time_and_origin() {
    let scene = Scene::new("hello", &[]).await;
    let sub = format!("{}/sub", scene.path);
    scene.commit("sub/go.mod", &format!("module {sub}\n"));
    scene.git(["tag", "--annotate", "--message=one", "sub/v1.0.0"]);
    let repo = scene.publish().await;
    let seconds = scene.git(["log", "-1", "--format=%ct"]).parse().unwrap();
    let time = jiff::Timestamp::from_second(seconds).unwrap().to_string();
    let expected = json!({
        "Version": "v1.0.0",
        "Time": time,
        "Origin": {
            "VCS": "git",
            "URL": format!("https://git.example/{}/hello.git", repo.npub()),
            "Subdir": "sub",
            "Hash": scene.tip("HEAD"),
            "Ref": "refs/tags/sub/v1.0.0",
        }
    });
    for file in ["@v/v1.0.0.info", "@latest"] {
        assert_eq!(scene.json(&format!("{sub}/{file}")).await, expected);
    }
}

#[tokio::test]
async fn a_branch_at_a_tagged_commit_is_that_version() {
    let scene = Scene::new("hello", &["v1.0.0", "v1.0.1"]).await;
    scene.publish().await;
    let commit = scene.tip("main");
    for revision in ["main", "!h!e!a!d", &commit, &commit[..7], "v1.0.1"] {
        assert_eq!(scene.version(revision).await, "v1.0.1", "{revision}");
    }
}

#[tokio::test]
async fn a_pseudo_version_follows_the_highest_tag_before_it() {
    let tags = ["v1.0.0", "v1.9.0", "v1.10.0-rc.1", "v2.0.0", "other/v5.0.0"];
    let scene = Scene::new("hello", &tags).await;
    scene.git(["checkout", "-q", "-b", "release"]);
    scene.commit("aside.go", "package hello\n");
    scene.tag("v1.11.0");
    scene.git(["checkout", "-q", "main"]);
    let tip = scene.commit("more.go", "package hello\n");
    scene.publish().await;
    let version = scene.version("main").await;
    assert!(version.starts_with("v1.10.0-rc.1.0."), "{version}");
    assert!(version.ends_with(&tip[..12]));
    assert_eq!(scene.info("main").await["Origin"]["Ref"], "refs/heads/main");

    assert_eq!(scene.version(&version).await, version);
    let go_mod = scene.get(&format!("{version}.mod")).await;
    assert!(go_mod.starts_with(&format!("module {}\n", scene.path)));
    scene.zip(&version).await;
}

#[tokio::test]
async fn a_pseudo_version_that_does_not_fit_its_commit_is_refused() {
    let scene = Scene::new("hello", &["v1.0.0"]).await;
    scene.git(["tag", "v1.5.0", "HEAD~1"]);
    scene.git(["checkout", "-q", "--orphan", "aside"]);
    scene.commit("aside.go", "package hello\n");
    scene.tag("v1.7.0");
    scene.git(["checkout", "-q", "main"]);
    scene.commit("more.go", "package hello\n");
    scene.publish().await;
    let version = scene.version("main").await;
    let (start, revision) = version.rsplit_once('-').unwrap();
    let (_, time) = start.rsplit_once('.').unwrap();
    let at = format!("{time}-{revision}");
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
        (format!("v1.6.1-0.{at}"), "there is no tag v1.6.0"),
        (
            format!("v1.7.1-0.{at}"),
            "does not come after the tag v1.7.0",
        ),
        (format!("v2.0.0-{at}"), "cannot have the version"),
    ] {
        scene.refuses(&format!("{wrong}.info"), reason).await;
    }
    // Go takes those without a base as well.
    let plain = format!("v0.0.0-{at}");
    assert_eq!(scene.version(&plain).await, plain);
}

#[tokio::test]
async fn a_commit_of_another_owner_in_the_same_store_is_not_served() {
    let scene = Scene::new("shared", &["v1.0.0"]).await;
    scene.publish().await;
    let evil = module(&scene.path);
    let commit = evil.commit("evil.go", "package evil\n").unwrap();
    let mut theirs = scene.repo("shared");
    theirs.owner = Author::new().pubkey();
    scene.world.push(&theirs, &evil).await;

    let seconds = evil.git(["log", "-1", "--format=%ct"]).unwrap();
    let time = jiff::Timestamp::from_second(seconds.parse().unwrap()).unwrap();
    let time = time.strftime("%Y%m%d%H%M%S");
    let version = format!("v0.0.0-{time}-{}", &commit[..12]);
    scene
        .refuses(&format!("{commit}.info"), UNKNOWN_REVISION)
        .await;
    for extension in ["info", "mod", "zip"] {
        let file = format!("{version}.{extension}");
        scene.refuses(&file, UNKNOWN_REVISION).await;
    }
}

#[tokio::test]
async fn a_proposal_of_a_stranger_is_no_part_of_the_module() {
    let scene = Scene::new("hello", &["v1.0.0"]).await;
    scene.git(["checkout", "-q", "-b", "theirs"]);
    let commit = scene.commit("evil.go", "package evil\n");
    let proposal = format!("refs/nostr/{}", "ab".repeat(32));
    scene.git(["update-ref", &proposal, &commit]);
    scene.git(["checkout", "-q", "main"]);
    scene.git(["branch", "-D", "theirs"]);
    scene.publish().await;
    scene
        .refuses(&format!("{commit}.info"), UNKNOWN_REVISION)
        .await;
}

#[tokio::test]
async fn what_is_not_served_has_no_modules() {
    let scene = Scene::new("hello", &["v1.0.0"]).await;
    let repo = scene.publish().await;
    assert_eq!(scene.get("list").await, "v1.0.0\n");
    scene.served.remove(&repo);
    for file in [
        "list",
        "v1.0.0.info",
        "v1.0.0.mod",
        "v1.0.0.zip",
        "main.info",
    ] {
        scene.refuses(file, "there is no such module here").await;
    }
    scene.refusal(&format!("{}/@latest", scene.path)).await;
}

#[tokio::test]
async fn a_tag_that_is_gone_is_not_served_even_before_the_index_knows() {
    let scene = Scene::new("hello", &["v1.0.0", "v1.1.0"]).await;
    scene.publish().await;
    scene.git(["tag", "--delete", "v1.1.0"]);
    scene.push().await;
    assert_eq!(scene.get("list").await, "v1.0.0\n");
    assert_eq!(scene.latest().await, "v1.0.0");
    scene.refuses("v1.1.0.zip", "").await;
}

#[tokio::test]
async fn latest_prefers_releases_and_versions_with_go_mod() {
    let scene = Scene::empty("mixed").await;
    scene.commit("a.go", "package a\n");
    scene.tag("v1.0.0");
    scene.tag("v2.0.0");
    scene.publish().await;
    assert_eq!(scene.latest().await, "v2.0.0+incompatible");
    scene.commit("go.mod", &format!("module {}\n", scene.path));
    scene.tag("v1.1.0");
    scene.tag("v1.2.0-beta");
    scene.publish().await;
    assert_eq!(scene.latest().await, "v1.1.0");
    let listed = "v1.0.0\nv1.1.0\nv1.2.0-beta\nv2.0.0+incompatible\n";
    assert_eq!(scene.get("list").await, listed);
}

#[tokio::test]
async fn a_directory_that_is_no_module_has_no_list() {
    let scene = Scene::new("hello", &["v1.0.0"]).await;
    scene.commit("sub/a.go", "package sub\n");
    scene.publish().await;
    for below in ["sub", "sub/deeper", "nothing", "v2"] {
        let path = format!("{}/{below}", scene.path);
        let said = scene.refusal(&format!("{path}/@v/list")).await;
        assert!(said.starts_with("not found: "), "{said}");
        scene.refusal(&format!("{path}/@latest")).await;
    }
    let owner = format!("git.example/{}", scene.owner.npub());
    scene.refusal(&format!("{owner}/@v/list")).await;
    scene.refusal("git.example/@v/list").await;
}

#[tokio::test]
async fn a_commit_after_versions_without_go_mod_is_incompatible_too() {
    let scene = Scene::empty("old").await;
    scene.commit("old.go", "package old\n");
    scene.tag("v4.1.0");
    let tip = scene.commit("more.go", "package old\n");
    scene.publish().await;
    let version = scene.version("main").await;
    assert!(version.starts_with("v4.1.1-0."), "{version}");
    let end = format!("-{}+incompatible", &tip[..12]);
    assert!(version.ends_with(&end), "{version}");
    assert_eq!(scene.version(&version).await, version);
    let go_mod = scene.get(&format!("{version}.mod")).await;
    assert_eq!(go_mod, format!("module {}\n", scene.path));
}

#[tokio::test]
async fn a_commit_that_no_branch_leads_to_any_more_is_not_served_any_more() {
    let scene = Scene::new("hello", &["v1.0.0"]).await;
    scene.commit("more.go", "package hello\n");
    scene.publish().await;
    let version = scene.version("main").await;
    scene.zip(&version).await;
    scene.git(["reset", "-q", "--hard", "HEAD~1"]);
    scene.push().await;
    scene
        .refuses(&format!("{version}.zip"), UNKNOWN_REVISION)
        .await;
}

#[tokio::test]
async fn all_versions_are_listed_in_their_order_however_many() {
    let scene = Scene::new("many", &[]).await;
    let tags = (0..4_500).map(|n| format!("refs/tags/v1.0.{n}"));
    set_refs(scene.work(), tags, &scene.tip("HEAD"));
    scene.publish().await;
    let expected: String = (0..4_500).map(|n| format!("v1.0.{n}\n")).collect();
    assert_eq!(scene.get("list").await, expected);
    assert_eq!(scene.latest().await, "v1.0.4499");
}
