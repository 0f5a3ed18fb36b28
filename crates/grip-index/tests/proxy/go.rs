//! Modules as the go command downloads them.

use grip_testkit::WorkTree;

use crate::support::{Go, World, module};

#[tokio::test]
async fn go_gets_a_module_and_builds_with_it() {
    let world = World::new().await;
    let path = world.path("hello");
    world
        .publish(
            "hello",
            &module(&path, &["v1.0.0", "v1.1.0", "v1.2.0-rc.1"]),
        )
        .await;
    let go = Go::new(&world.serve().await);

    go.run(&["get", &path]).await.unwrap();
    assert!(go.main_go_mod().contains(&format!("require {path} v1.1.0")));
    go.write(
        "main.go",
        &format!(
            "package main\n\nimport \"{path}\"\n\nfunc main() {{ println(hello.Greeting) }}\n"
        ),
    );
    go.run(&["build", "./..."]).await.unwrap();

    let listed = go.run(&["list", "-m", "-versions", &path]).await.unwrap();
    assert_eq!(listed.trim(), format!("{path} v1.0.0 v1.1.0 v1.2.0-rc.1"));
    let latest = go
        .run(&["list", "-m", &format!("{path}@latest")])
        .await
        .unwrap();
    assert_eq!(latest.trim(), format!("{path} v1.1.0"));
}

#[tokio::test]
async fn go_verifies_what_it_downloaded_and_a_second_download_is_the_same() {
    let world = World::new().await;
    let path = world.path("Hello_World");
    world
        .publish("Hello_World", &module(&path, &["v1.0.0-RC1"]))
        .await;
    let proxy = world.serve().await;
    let mut sums = Vec::new();
    for _ in 0..2 {
        let go = Go::new(&proxy);
        let module = format!("{path}@v1.0.0-RC1");
        let said = go
            .run(&["mod", "download", "-json", &module])
            .await
            .unwrap();
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!(said["Error"], serde_json::Value::Null);
        sums.push((said["Sum"].clone(), said["GoModSum"].clone()));
    }
    assert_eq!(sums[0], sums[1]);
    assert!(sums[0].0.as_str().unwrap().starts_with("h1:"));
}

#[tokio::test]
async fn nested_modules_and_major_versions_are_modules_of_their_own() {
    let world = World::new().await;
    let path = world.path("many");
    let work = module(&path, &["v1.0.0"]);
    work.commit("LICENSE", "take it\n").unwrap();
    work.commit("sub/go.mod", &format!("module {path}/sub\n"))
        .unwrap();
    work.commit("sub/sub.go", "package sub\n").unwrap();
    work.git(["tag", "sub/v0.3.0"]).unwrap();
    work.commit("v2/go.mod", &format!("module {path}/v2\n"))
        .unwrap();
    work.commit("v2/two.go", "package many\n").unwrap();
    work.git(["tag", "v2.0.1"]).unwrap();
    work.commit("sub/go.mod", &format!("module {path}/sub/v3\n"))
        .unwrap();
    work.git(["tag", "sub/v3.1.0"]).unwrap();
    work.git(["tag", "v1.5.0"]).unwrap();
    world.publish("many", &work).await;
    let go = Go::new(&world.serve().await);
    for module in ["", "/sub", "/v2", "/sub/v3"] {
        go.run(&["get", &format!("{path}{module}")]).await.unwrap();
    }
    let required = go.main_go_mod();
    for (module, version) in [
        ("", "v1.5.0"),
        ("/sub", "v0.3.0"),
        ("/v2", "v2.0.1"),
        ("/sub/v3", "v3.1.0"),
    ] {
        assert!(
            required.contains(&format!("{path}{module} {version}")),
            "{required}"
        );
    }
    assert!(go.has(&format!("{path}/v2@v2.0.1/two.go")));
    assert!(go.has(&format!("{path}/sub/v3@v3.1.0/sub.go")));
    assert!(
        !go.has(&format!("{path}@v1.5.0/sub")),
        "nested modules are left out"
    );
    assert_eq!(
        go.cached(&format!("{path}/sub@v0.3.0/LICENSE")),
        "take it\n"
    );
}

#[tokio::test]
async fn versions_without_go_mod_are_incompatible_ones() {
    let world = World::new().await;
    let path = world.path("old");
    let work = WorkTree::init().unwrap();
    work.commit("old.go", "package old\n").unwrap();
    work.git(["tag", "v1.0.0"]).unwrap();
    work.commit("old.go", "package old\n\nconst Two = 2\n")
        .unwrap();
    work.git(["tag", "v3.0.0"]).unwrap();
    world.publish("old", &work).await;
    let go = Go::new(&world.serve().await);
    go.run(&["get", &path]).await.unwrap();
    assert!(
        go.main_go_mod()
            .contains(&format!("{path} v3.0.0+incompatible"))
    );
    let go_mod = go.cached(&format!("cache/download/{path}/@v/v3.0.0+incompatible.mod"));
    assert_eq!(go_mod, format!("module {path}\n"));
}

#[tokio::test]
async fn a_branch_and_a_commit_have_pseudo_versions_that_go_takes() {
    let world = World::new().await;
    let path = world.path("moving");
    let work = module(&path, &["v1.4.0"]);
    let commit = work.commit("more.go", "package hello\n").unwrap();
    work.commit("most.go", "package hello\n").unwrap();
    world.publish("moving", &work).await;
    let go = Go::new(&world.serve().await);

    go.run(&["get", &format!("{path}@main")]).await.unwrap();
    assert!(go.main_go_mod().contains(&format!("{path} v1.4.1-0.")));
    assert!(go.main_go_mod().contains(&work.tip("main").unwrap()[..12]));
    go.run(&["get", &format!("{path}@{}", &commit[..10])])
        .await
        .unwrap();
    assert!(go.main_go_mod().contains(&commit[..12]));
    go.run(&["get", &format!("{path}@v1.4.0")]).await.unwrap();
    assert!(go.main_go_mod().contains(&format!("{path} v1.4.0")));
}

#[tokio::test]
async fn a_module_without_tags_is_its_default_branch() {
    let world = World::new().await;
    let path = world.path("young");
    let work = module(&path, &[]);
    world.publish("young", &work).await;
    let go = Go::new(&world.serve().await);
    go.run(&["get", &path]).await.unwrap();
    let version = go
        .run(&["list", "-m", "-f", "{{.Version}}", &path])
        .await
        .unwrap();
    assert!(version.starts_with("v0.0.0-"), "{version}");
    assert!(version.trim().ends_with(&work.tip("main").unwrap()[..12]));
}

#[tokio::test]
async fn a_package_below_a_module_is_found_in_it() {
    let world = World::new().await;
    let path = world.path("deep");
    let work = module(&path, &[]);
    work.commit("a/b/c.go", "package b\n").unwrap();
    work.git(["tag", "v0.1.0"]).unwrap();
    world.publish("deep", &work).await;
    let go = Go::new(&world.serve().await);
    go.run(&["get", &format!("{path}/a/b")]).await.unwrap();
    assert!(go.main_go_mod().contains(&format!("{path} v0.1.0")));
}

#[tokio::test]
async fn a_path_that_the_operator_gave_to_an_owner_is_served_too() {
    let world = World::with(Default::default(), "example.com/lib").await;
    let work = module("example.com/lib/thing", &["v1.0.0"]);
    world.publish("thing", &work).await;
    let go = Go::new(&world.serve().await);
    go.run(&["get", "example.com/lib/thing"]).await.unwrap();
    go.run(&["get", "example.com/lib/thing@main"])
        .await
        .unwrap();
    assert!(go.main_go_mod().contains("example.com/lib/thing v1.0.0"));
    let refused = go.run(&["get", &world.path("thing")]).await.unwrap_err();
    assert!(
        refused.contains("the module there is example.com/lib/thing"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_repository_that_go_cannot_name_may_hold_a_module_that_its_owner_was_given() {
    let world = World::with(Default::default(), "example.com/lib").await;
    let work = module("example.com/lib/naive", &["v1.0.0"]);
    world.publish("naïve repo", &work).await;
    let go = Go::new(&world.serve().await);
    go.run(&["get", "example.com/lib/naive"]).await.unwrap();
    assert!(go.main_go_mod().contains("example.com/lib/naive v1.0.0"));
}

#[tokio::test]
async fn go_prints_why_a_version_is_not_here() {
    let world = World::new().await;
    let path = world.path("hello");
    let work = module(&path, &["v1.0.0"]);
    work.commit("go.mod", "module example.com/somebody/else\n")
        .unwrap();
    work.git(["tag", "v1.1.0"]).unwrap();
    world.publish("hello", &work).await;
    let go = Go::new(&world.serve().await);
    let said = go
        .run(&["get", &format!("{path}@v1.7.0")])
        .await
        .unwrap_err();
    assert!(
        said.contains(&format!(
            "not found: {path}@v1.7.0: no tag v1.7.0 is listed here"
        )),
        "{said}"
    );
    let said = go
        .run(&["get", &format!("{path}@v1.1.0")])
        .await
        .unwrap_err();
    assert!(
        said.contains("nothing proves that example.com/somebody/else is this repository"),
        "{said}"
    );
    let said = go.run(&["get", &world.path("nothing")]).await.unwrap_err();
    assert!(said.contains("there is no such module here"), "{said}");
}

#[tokio::test]
async fn go_notices_that_a_tag_was_moved_under_it() {
    let world = World::new().await;
    let path = world.path("hello");
    let work = module(&path, &["v1.0.0"]);
    let repo = world.publish("hello", &work).await;
    let proxy = world.serve().await;
    let go = Go::new(&proxy);
    go.run(&["get", &path]).await.unwrap();

    work.commit("hello.go", "package hello\n\nconst Greeting = \"other\"\n")
        .unwrap();
    work.git(["tag", "--force", "v1.0.0"]).unwrap();
    world.push(&repo, &work).await;
    let said = world.refusal(&format!("{path}/@v/v1.0.0.info")).await;
    assert!(said.contains("moved or removed"), "{said}");
    world.index(&repo).await;
    let info = world.json(&format!("{path}/@v/v1.0.0.info")).await;
    assert_eq!(info["Origin"]["Hash"], work.tip("v1.0.0").unwrap());

    go.run(&["clean", "-modcache"]).await.unwrap();
    let said = go.run(&["mod", "download", &path]).await.unwrap_err();
    assert!(said.contains("checksum mismatch"), "{said}");
}
