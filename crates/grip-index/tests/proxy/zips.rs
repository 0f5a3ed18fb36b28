//! Zips: what is in them, and how they are made.

use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use grip_index::proxy::{Answer, Options, ProxyError, Request, Zip};
use grip_testkit::{until, within};

use crate::support::{Go, World, module};

async fn zip(world: &World, path: &str) -> Zip {
    let request = Request::parse(path).unwrap();
    match world.proxy.answer(&request).await.unwrap() {
        Answer::Zip(zip) => zip,
        _ => panic!("{path} is no zip"),
    }
}

fn running(world: &World) -> usize {
    let status = world.group.status();
    let zips = status.iter().filter(|task| task.kind == "go-proxy-zip");
    zips.map(|task| task.running).sum()
}

async fn has_ended(world: &World) {
    let ended = || async { (running(world) == 0).then_some(()) };
    until("no zip is made any more", ended).await.unwrap();
}

#[tokio::test]
async fn equal_zips_have_equal_bytes_and_names_and_others_do_not() {
    let world = World::new().await;
    let path = world.path("hello");
    let work = module(&path, &["v1.0.0", "v1.0.1"]);
    world.publish("hello", &work).await;
    let file = |version: &str| format!("{path}/@v/{version}.zip");
    let first = world.ask(&file("v1.0.0")).await.unwrap();
    assert_eq!(first, world.ask(&file("v1.0.0")).await.unwrap());
    assert_ne!(first, world.ask(&file("v1.0.1")).await.unwrap());
    let tags = [
        zip(&world, &file("v1.0.0")).await.etag(),
        zip(&world, &file("v1.0.0")).await.etag(),
        zip(&world, &file("v1.0.1")).await.etag(),
    ];
    assert_eq!(tags[0], tags[1]);
    assert_ne!(tags[0], tags[2]);
    assert!(
        tags[0].bytes().all(|b| b.is_ascii_hexdigit()),
        "{}",
        tags[0]
    );
}

#[tokio::test]
async fn links_and_submodules_are_left_out_and_go_takes_the_rest() {
    let world = World::new().await;
    let path = world.path("hello");
    let work = module(&path, &[]);
    std::os::unix::fs::symlink("/etc/passwd", work.path().join("secret")).unwrap();
    work.commit("vendor/example.com/x/x.go", "package x\n")
        .unwrap();
    work.commit("tool.sh", "#!/bin/sh\n").unwrap();
    work.git(["update-index", "--chmod=+x", "tool.sh"]).unwrap();
    let commit = work.tip("HEAD").unwrap();
    let submodule = format!("160000,{commit},other");
    work.git(["update-index", "--add", "--cacheinfo", &submodule])
        .unwrap();
    work.git(["commit", "-q", "-m", "submodule"]).unwrap();
    work.git(["tag", "v1.0.0"]).unwrap();
    world.publish("hello", &work).await;
    let go = Go::new(&world.serve().await);
    go.run(&["mod", "download", &format!("{path}@v1.0.0")])
        .await
        .unwrap();
    for (name, is_there) in [
        ("hello.go", true),
        ("tool.sh", true),
        ("secret", false),
        ("other", false),
        ("vendor", false),
    ] {
        assert_eq!(go.has(&format!("{path}@v1.0.0/{name}")), is_there, "{name}");
    }
}

#[tokio::test]
async fn names_that_differ_only_in_case_make_no_zip() {
    let world = World::new().await;
    let path = world.path("hello");
    let work = module(&path, &[]);
    work.commit("README", "one\n").unwrap();
    work.commit("readme", "two\n").unwrap();
    work.git(["tag", "v1.0.0"]).unwrap();
    world.publish("hello", &work).await;
    let said = world.refusal(&format!("{path}/@v/v1.0.0.zip")).await;
    assert!(said.contains("differs only in case"), "{said}");
}

#[tokio::test]
async fn a_module_above_the_limit_is_refused_before_a_byte_is_sent() {
    let mut options = Options::default();
    options.max_zip_bytes = 1 << 20;
    let world = World::with(options, "").await;
    let path = world.path("hello");
    let work = module(&path, &["v1.0.0"]);
    work.commit("data", &"x".repeat(2 << 20)).unwrap();
    work.git(["tag", "v1.1.0"]).unwrap();
    world.publish("hello", &work).await;
    world.ask(&format!("{path}/@v/v1.0.0.zip")).await.unwrap();
    let said = world.refusal(&format!("{path}/@v/v1.1.0.zip")).await;
    assert!(said.contains("more than the 1048576 bytes"), "{said}");
}

/// The blob is 600 MB of nothing, which packs into half a megabyte.
#[tokio::test]
async fn a_file_that_says_it_has_600_megabytes_is_never_unpacked() {
    let world = World::new().await;
    let path = world.path("hello");
    let work = module(&path, &[]);
    work.git(["config", "core.compression", "1"]).unwrap();
    let file = std::fs::File::create(work.path().join("void")).unwrap();
    file.set_len(600_000_000).unwrap();
    work.git(["add", "-A"]).unwrap();
    work.git(["commit", "-q", "-m", "void"]).unwrap();
    work.git(["tag", "v1.0.0"]).unwrap();
    file.set_len(150 << 20).unwrap();
    work.git(["add", "-A"]).unwrap();
    work.git(["commit", "-q", "-m", "less"]).unwrap();
    work.git(["tag", "v1.1.0"]).unwrap();
    world.publish("hello", &work).await;
    let said = world.refusal(&format!("{path}/@v/v1.0.0.zip")).await;
    assert!(said.contains("larger than 500 MiB"), "{said}");
    let said = world.refusal(&format!("{path}/@v/v1.1.0.zip")).await;
    assert!(said.contains("larger than 128 MiB"), "{said}");
}

#[tokio::test]
async fn a_client_that_goes_away_ends_the_work_and_frees_its_turn() {
    let mut options = Options::default();
    options.zips_at_once = 1;
    let world = World::with(options, "").await;
    let path = world.path("noise");
    let work = module(&path, &[]);
    work.commit_noise(8, 1).unwrap();
    work.git(["tag", "v1.0.0"]).unwrap();
    world.publish("noise", &work).await;
    let file = format!("{path}/@v/v1.0.0.zip");

    let mut body = zip(&world, &file).await.open().await.unwrap();
    body.next().await.unwrap().unwrap();
    assert_eq!(running(&world), 1, "the client reads nothing, so it waits");
    let second = zip(&world, &file).await;
    let waiting = second.open();
    tokio::pin!(waiting);
    assert!(
        waiting.as_mut().now_or_never().is_none(),
        "one zip at a time"
    );
    drop(body);
    let mut body = within("the turn", waiting).await.unwrap().unwrap();
    let mut bytes = 0;
    while let Some(chunk) = body.next().await {
        bytes += chunk.unwrap().len();
    }
    assert!(bytes > 8 << 20);
    has_ended(&world).await;
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_given_up() {
    let mut options = Options::default();
    options.stall = Duration::from_millis(100);
    let world = World::with(options, "").await;
    let path = world.path("noise");
    let work = module(&path, &[]);
    work.commit_noise(4, 1).unwrap();
    work.git(["tag", "v1.0.0"]).unwrap();
    world.publish("noise", &work).await;
    let file = format!("{path}/@v/v1.0.0.zip");
    let mut body = zip(&world, &file).await.open().await.unwrap();
    has_ended(&world).await;
    let mut last = None;
    while let Some(chunk) = body.next().await {
        last = Some(chunk);
    }
    assert!(
        last.unwrap().is_err(),
        "half a zip is not taken for a whole one"
    );
}

#[tokio::test]
async fn a_zip_that_nobody_has_room_for_is_asked_for_again_later() {
    let mut options = Options::default();
    options.zips_at_once = 1;
    let world = World::with(options, "").await;
    let path = world.path("noise");
    let work = module(&path, &[]);
    work.commit_noise(2, 1).unwrap();
    work.git(["tag", "v1.0.0"]).unwrap();
    world.publish("noise", &work).await;
    let file = format!("{path}/@v/v1.0.0.zip");
    let _first = zip(&world, &file).await.open().await.unwrap();
    let mut opening = Vec::new();
    for _ in 0..17 {
        let zip = zip(&world, &file).await;
        opening.push(Box::pin(zip.open()));
    }
    let mut refused = 0;
    for opening in &mut opening {
        let now = opening.as_mut().now_or_never();
        refused += usize::from(matches!(now, Some(Err(ProxyError::Busy { .. }))));
    }
    assert_eq!(refused, 1, "sixteen wait, one is refused with Retry-After");
}
