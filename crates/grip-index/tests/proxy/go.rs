//! Modules as the go command downloads them.

use crate::support::{Go, Scene, World};

#[tokio::test]
async fn go_gets_a_module_and_builds_with_it() {
    let scene = Scene::new("hello", &["v1.0.0", "v1.1.0", "v1.2.0-rc.1"]).await;
    scene.publish().await;
    let (go, path) = (scene.go().await, &scene.path);

    go.does(&["get", path]).await;
    assert!(go.requires(&format!("require {path} v1.1.0")));
    let main = "func main() { println(hello.Greeting) }";
    let main = format!("package main\n\nimport \"{path}\"\n\n{main}\n");
    go.write("main.go", &main);
    go.does(&["build", "./..."]).await;

    let listed = go.does(&["list", "-m", "-versions", path]).await;
    assert_eq!(listed.trim(), format!("{path} v1.0.0 v1.1.0 v1.2.0-rc.1"));
    let latest = go.does(&["list", "-m", &format!("{path}@latest")]).await;
    assert_eq!(latest.trim(), format!("{path} v1.1.0"));
}

#[tokio::test]
async fn go_verifies_what_it_downloaded_and_a_second_download_is_the_same() {
    let scene = Scene::new("Hello_World", &["v1.0.0-RC1"]).await;
    scene.publish().await;
    let (proxy, module) = (scene.serve().await, format!("{}@v1.0.0-RC1", scene.path));
    let mut sums = Vec::new();
    for _ in 0..2 {
        let go = Go::new(&proxy);
        let said = go.does(&["mod", "download", "-json", &module]).await;
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!(said["Error"], serde_json::Value::Null);
        sums.push((said["Sum"].clone(), said["GoModSum"].clone()));
    }
    assert_eq!(sums[0], sums[1]);
    assert!(sums[0].0.as_str().unwrap().starts_with("h1:"));
}

#[tokio::test]
async fn nested_modules_and_major_versions_are_modules_of_their_own() {
    let scene = Scene::new("many", &["v1.0.0"]).await;
    let path = &scene.path;
    scene.commit("LICENSE", "take it\n");
    scene.commit("sub/go.mod", &format!("module {path}/sub\n"));
    scene.commit("sub/sub.go", "package sub\n");
    scene.tag("sub/v0.3.0");
    scene.commit("v2/go.mod", &format!("module {path}/v2\n"));
    scene.commit("v2/two.go", "package many\n");
    scene.tag("v2.0.1");
    scene.commit("sub/go.mod", &format!("module {path}/sub/v3\n"));
    scene.tag("sub/v3.1.0");
    scene.tag("v1.5.0");
    scene.publish().await;
    let go = scene.go().await;
    let modules = ["", "/sub", "/v2", "/sub/v3"].map(|below| format!("{path}{below}"));
    for module in &modules {
        go.does(&["get", module]).await;
    }
    for (module, version) in modules.iter().zip(["v1.5.0", "v0.3.0", "v2.0.1", "v3.1.0"]) {
        assert!(go.requires(&format!("{module} {version}")), "{module}");
    }
    assert!(go.has(&format!("{path}/v2@v2.0.1/two.go")));
    assert!(go.has(&format!("{path}/sub/v3@v3.1.0/sub.go")));
    // Nested modules are left out.
    assert!(!go.has(&format!("{path}@v1.5.0/sub")));
    let license = go.cached(&format!("{path}/sub@v0.3.0/LICENSE"));
    assert_eq!(license, "take it\n");
}

#[tokio::test]
async fn versions_without_go_mod_are_incompatible_ones() {
    let scene = Scene::empty("old").await;
    scene.commit("old.go", "package old\n");
    scene.tag("v1.0.0");
    scene.commit("old.go", "package old\n\nconst Two = 2\n");
    scene.tag("v3.0.0");
    scene.publish().await;
    let (go, path) = (scene.go().await, &scene.path);
    go.does(&["get", path]).await;
    assert!(go.requires(&format!("{path} v3.0.0+incompatible")));
    let go_mod = go.cached(&format!("cache/download/{path}/@v/v3.0.0+incompatible.mod"));
    assert_eq!(go_mod, format!("module {path}\n"));
}

#[tokio::test]
async fn a_branch_and_a_commit_have_pseudo_versions_that_go_takes() {
    let scene = Scene::new("moving", &["v1.4.0"]).await;
    let commit = scene.commit("more.go", "package hello\n");
    scene.commit("most.go", "package hello\n");
    scene.publish().await;
    let (go, path) = (scene.go().await, &scene.path);

    go.does(&["get", &format!("{path}@main")]).await;
    assert!(go.requires(&format!("{path} v1.4.1-0.")));
    assert!(go.requires(&scene.tip("main")[..12]));
    go.does(&["get", &format!("{path}@{}", &commit[..10])])
        .await;
    assert!(go.requires(&commit[..12]));
    go.does(&["get", &format!("{path}@v1.4.0")]).await;
    assert!(go.requires(&format!("{path} v1.4.0")));
}

#[tokio::test]
async fn a_module_without_tags_is_its_default_branch() {
    let scene = Scene::new("young", &[]).await;
    scene.publish().await;
    let (go, path) = (scene.go().await, &scene.path);
    go.does(&["get", path]).await;
    let version = go.does(&["list", "-m", "-f", "{{.Version}}", path]).await;
    assert!(version.starts_with("v0.0.0-"), "{version}");
    assert!(version.trim().ends_with(&scene.tip("main")[..12]));
}

#[tokio::test]
async fn a_package_below_a_module_is_found_in_it() {
    let scene = Scene::new("deep", &[]).await;
    scene.commit("a/b/c.go", "package b\n");
    scene.tag("v0.1.0");
    scene.publish().await;
    let (go, path) = (scene.go().await, &scene.path);
    go.does(&["get", &format!("{path}/a/b")]).await;
    assert!(go.requires(&format!("{path} v0.1.0")));
}

/// A repository of an owner to whom the operator gave a prefix, with a module below that.
async fn given(identifier: &'static str, module: &str) -> (Scene, Go) {
    let world = World::with(Default::default(), "example.com/lib").await;
    let scene = Scene::of(world, identifier, module.to_owned()).tagged(&["v1.0.0"]);
    scene.publish().await;
    let go = scene.go().await;
    (scene, go)
}

#[tokio::test]
async fn a_path_that_the_operator_gave_to_an_owner_is_served_too() {
    let (scene, go) = given("thing", "example.com/lib/thing").await;
    go.does(&["get", "example.com/lib/thing"]).await;
    go.does(&["get", "example.com/lib/thing@main"]).await;
    assert!(go.requires("example.com/lib/thing v1.0.0"));
    let elsewhere = scene.world.path("thing");
    let reason = "the module there is example.com/lib/thing";
    go.fails(&["get", &elsewhere], reason).await;
}

#[tokio::test]
async fn a_repository_that_go_cannot_name_may_hold_a_module_that_its_owner_was_given() {
    let (_scene, go) = given("naïve repo", "example.com/lib/naive").await;
    go.does(&["get", "example.com/lib/naive"]).await;
    assert!(go.requires("example.com/lib/naive v1.0.0"));
}

#[tokio::test]
async fn go_prints_why_a_version_is_not_here() {
    let scene = Scene::new("hello", &["v1.0.0"]).await;
    scene.commit("go.mod", "module example.com/somebody/else\n");
    scene.tag("v1.1.0");
    scene.publish().await;
    let (go, path) = (scene.go().await, &scene.path);
    let unlisted = format!("not found: {path}@v1.7.0: no tag v1.7.0 is listed here");
    let unproven = "nothing proves that example.com/somebody/else is this repository";
    for (module, reason) in [
        (format!("{path}@v1.7.0"), &*unlisted),
        (format!("{path}@v1.1.0"), unproven),
        (scene.world.path("nothing"), "there is no such module here"),
    ] {
        go.fails(&["get", &module], reason).await;
    }
}

#[tokio::test]
async fn go_notices_that_a_tag_was_moved_under_it() {
    let scene = Scene::new("hello", &["v1.0.0"]).await;
    let repo = scene.publish().await;
    let go = scene.go().await;
    go.does(&["get", &scene.path]).await;

    scene.commit("hello.go", "package hello\n\nconst Greeting = \"other\"\n");
    scene.git(["tag", "--force", "v1.0.0"]);
    scene.push().await;
    scene.refuses("v1.0.0.info", "moved or removed").await;
    scene.index(&repo).await;
    let info = scene.info("v1.0.0").await;
    assert_eq!(info["Origin"]["Hash"], scene.tip("v1.0.0"));

    go.does(&["clean", "-modcache"]).await;
    go.fails(&["mod", "download", &scene.path], "checksum mismatch")
        .await;
}
