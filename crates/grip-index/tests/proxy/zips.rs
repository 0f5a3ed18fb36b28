//! Zips: what is in them, and how they are made.

use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use grip_index::proxy::{Answer, Options, ProxyError, Request, Zip};
use grip_testkit::{until_true, within};

use crate::support::{Scene, World};

async fn zip(scene: &Scene, version: &str) -> Zip {
    let request = format!("{}/@v/{version}.zip", scene.path);
    let request = Request::parse(&request).unwrap();
    match scene
        .proxy
        .answer(&request, Default::default())
        .await
        .unwrap()
    {
        Answer::Zip(zip) => zip,
        _ => panic!("{version} is no zip"),
    }
}

fn running(world: &World) -> usize {
    let status = world.group.status();
    let zips = status.iter().filter(|task| task.kind == "go-proxy-zip");
    zips.map(|task| task.running).sum()
}

async fn has_ended(world: &World) {
    let ended = until_true("no zip is made any more", || running(world) == 0);
    ended.await.unwrap();
}

/// A node with a module of so many megabytes.
async fn noise(change: impl FnOnce(&mut Options), size_mib: u64) -> Scene {
    let mut options = Options::default();
    change(&mut options);
    let scene = Scene::with(options, "noise", &[]).await;
    scene.work().commit_noise(size_mib, 1).unwrap();
    scene.tag("v1.0.0");
    scene.publish().await;
    scene
}

#[tokio::test]
async fn equal_zips_have_equal_bytes_and_names_and_others_do_not() {
    let scene = Scene::new("hello", &["v1.0.0", "v1.0.1"]).await;
    scene.publish().await;
    let first = scene.zip("v1.0.0").await;
    assert_eq!(first, scene.zip("v1.0.0").await);
    assert_ne!(first, scene.zip("v1.0.1").await);
    let etag = async |version| zip(&scene, version).await.etag();
    let first = etag("v1.0.0").await;
    assert_eq!(first, etag("v1.0.0").await);
    assert_ne!(first, etag("v1.0.1").await);
    assert!(first.bytes().all(|b| b.is_ascii_hexdigit()), "{first}");
}

#[tokio::test]
async fn links_and_submodules_are_left_out_and_go_takes_the_rest() {
    let scene = Scene::new("hello", &[]).await;
    let link = scene.work().path().join("secret");
    std::os::unix::fs::symlink("/etc/passwd", link).unwrap();
    scene.commit("vendor/example.com/x/x.go", "package x\n");
    scene.commit("tool.sh", "#!/bin/sh\n");
    scene.git(["update-index", "--chmod=+x", "tool.sh"]);
    let submodule = format!("160000,{},other", scene.tip("HEAD"));
    scene.git(["update-index", "--add", "--cacheinfo", &submodule]);
    scene.git(["commit", "-q", "-m", "submodule"]);
    scene.tag("v1.0.0");
    scene.publish().await;
    let (go, module) = (scene.go().await, format!("{}@v1.0.0", scene.path));
    go.does(&["mod", "download", &module]).await;
    for (name, is_there) in [
        ("hello.go", true),
        ("tool.sh", true),
        ("secret", false),
        ("other", false),
        ("vendor", false),
    ] {
        assert_eq!(go.has(&format!("{module}/{name}")), is_there, "{name}");
    }
}

#[tokio::test]
async fn names_that_differ_only_in_case_make_no_zip() {
    let scene = Scene::new("hello", &[]).await;
    scene.commit("README", "one\n");
    scene.commit("readme", "two\n");
    scene.tag("v1.0.0");
    scene.publish().await;
    scene.refuses("v1.0.0.zip", "differs only in case").await;
}

#[tokio::test]
async fn a_module_above_the_limit_is_refused_before_a_byte_is_sent() {
    let mut options = Options::default();
    options.max_zip_bytes = 1 << 20;
    let scene = Scene::with(options, "hello", &["v1.0.0"]).await;
    scene.commit("data", &"x".repeat(2 << 20));
    scene.tag("v1.1.0");
    scene.publish().await;
    scene.zip("v1.0.0").await;
    scene
        .refuses("v1.1.0.zip", "more than the 1048576 bytes")
        .await;
}

/// The blob is 600 MB of nothing, which packs into half a megabyte.
#[tokio::test]
async fn a_file_that_says_it_has_600_megabytes_is_never_unpacked() {
    let scene = Scene::new("hello", &[]).await;
    scene.git(["config", "core.compression", "1"]);
    let file = std::fs::File::create(scene.work().path().join("void")).unwrap();
    for (bytes, tag) in [(600_000_000, "v1.0.0"), (150 << 20, "v1.1.0")] {
        file.set_len(bytes).unwrap();
        scene.git(["add", "-A"]);
        scene.git(["commit", "-q", "-m", "void"]);
        scene.tag(tag);
    }
    scene.publish().await;
    scene.refuses("v1.0.0.zip", "larger than 500 MiB").await;
    scene.refuses("v1.1.0.zip", "larger than 128 MiB").await;
}

#[tokio::test]
async fn a_client_that_goes_away_ends_the_work_and_frees_its_turn() {
    let scene = noise(|options| options.zips_at_once = 1, 8).await;
    let mut body = zip(&scene, "v1.0.0").await.open().await.unwrap();
    body.next().await.unwrap().unwrap();
    assert_eq!(running(&scene), 1, "the client reads nothing, so it waits");
    let second = zip(&scene, "v1.0.0").await;
    let waiting = second.open();
    tokio::pin!(waiting);
    let now = waiting.as_mut().now_or_never();
    assert!(now.is_none(), "one zip at a time");
    drop(body);
    let mut body = within("the turn", waiting).await.unwrap().unwrap();
    let mut bytes = 0;
    while let Some(chunk) = body.next().await {
        bytes += chunk.unwrap().len();
    }
    assert!(bytes > 8 << 20);
    has_ended(&scene).await;
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_given_up() {
    let scene = noise(|options| options.stall = Duration::from_millis(100), 4).await;
    let body = zip(&scene, "v1.0.0").await.open().await.unwrap();
    has_ended(&scene).await;
    let chunks: Vec<_> = body.collect().await;
    let last = chunks.last().unwrap();
    assert!(last.is_err(), "half a zip is not taken for a whole one");
}

#[tokio::test]
async fn a_zip_that_nobody_has_room_for_is_asked_for_again_later() {
    let scene = noise(|options| options.zips_at_once = 1, 2).await;
    let _first = zip(&scene, "v1.0.0").await.open().await.unwrap();
    let mut opening = Vec::new();
    for _ in 0..17 {
        let zip = zip(&scene, "v1.0.0").await;
        opening.push(Box::pin(zip.open()));
    }
    let mut refused = 0;
    for opening in &mut opening {
        let now = opening.as_mut().now_or_never();
        refused += usize::from(matches!(now, Some(Err(ProxyError::Busy { .. }))));
    }
    assert_eq!(refused, 1, "sixteen wait, one is refused with Retry-After");
}
