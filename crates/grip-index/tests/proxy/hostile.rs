//! Questions and repositories that mean no good.

use grip_testkit::WorkTree;

use crate::support::{Scene, World, module, write_object};

async fn is_refused(world: &World, path: &str) {
    let said = world.refusal(path).await;
    let is_plain = said.len() < 700 && !said.contains(['\n', '\r', '\0']);
    assert!(is_plain, "{said:?}");
}

#[tokio::test]
async fn paths_that_lead_elsewhere_lead_nowhere() {
    let scene = Scene::new("hello", &["v1.0.0"]).await;
    scene.publish().await;
    let owner = format!("git.example/{}", scene.owner.npub());
    let upper = format!("git.example/{}", scene.owner.npub().to_uppercase());
    let many = format!("git.example/{}@v/list", "a/".repeat(4000));
    let words = "v1.0.0 v1.0.0.exe .info v1.0.0.zip.zip ../v1.0.0.info ..%2f..%2fHEAD.info a/b.info \
        %00.info %0d%0aX-Evil:1.info";
    for file in words.split(' ').chain([
        "",
        &format!("{}.info", "f".repeat(4096)),
        &format!("v1.0.0-{}.zip", "a".repeat(4096)),
        &format!("v1.0.0-{}.mod", "1.".repeat(2048)),
    ]) {
        is_refused(&scene, &format!("{}/@v/{file}", scene.path)).await;
    }
    let words =
        "..%2fhello hello/../../../etc /hello hello%00 !Hello hello! %e4%b8%96 hello% hello%zz";
    for repo in words.split(' ').chain(["hello\\..\\x"]) {
        is_refused(&scene, &format!("{owner}/{repo}/@v/list")).await;
    }
    let npub = scene.owner.npub();
    for path in [
        "",
        "/",
        "@v/list",
        "/@v/list",
        "@latest",
        "sumdb/sum.golang.org/supported",
        &scene.path,
        &many,
        &format!("{upper}/hello/@v/list"),
        &format!("git.example/../{npub}/hello/@v/list"),
        &format!("git.example/%2e%2e/{npub}/hello/@v/list"),
        "git.example/npub1../hello/@v/list",
        &format!("-{owner}/hello/@v/list"),
    ] {
        is_refused(&scene, path).await;
    }
}

#[tokio::test]
async fn an_identifier_that_go_cannot_name_has_no_module() {
    let world = World::new().await;
    let work = module(&world.path("x"));
    work.git(["tag", "v1.0.0"]).unwrap();
    for identifier in ["naïve repo", "a+b", "con", "x."] {
        world.publish(identifier, &work).await;
    }
    let owner = format!("git.example/{}", world.owner.npub());
    for written in ["na%C3%AFve%20repo", "a+b", "con", "x."] {
        world.refusal(&format!("{owner}/{written}/@v/list")).await;
    }
}

#[tokio::test]
async fn a_tag_of_something_else_than_a_commit_is_no_version() {
    let scene = Scene::new("hello", &["v1.0.0"]).await;
    let blob = scene.tip("HEAD:hello.go");
    let tree = scene.tip("HEAD^{tree}");
    scene.git(["tag", "v1.1.0", &blob]);
    scene.git(["tag", "--annotate", "--message=x", "v1.2.0", &tree]);
    scene.publish().await;
    assert_eq!(scene.get("list").await, "v1.0.0\n");
    scene.refuses("v1.1.0.info", "").await;
    scene.git(["tag", "blob", &blob]);
    scene.publish().await;
    scene.refuses("blob.info", "it leads to no commit").await;
    for oid in [blob, tree] {
        scene.refuses(&format!("{}.info", &oid[..12]), "").await;
    }
}

#[tokio::test]
async fn a_go_mod_that_is_a_link_or_too_large_names_no_module() {
    let scene = Scene::empty("link").await;
    scene.commit("real.mod", &format!("module {}\n", scene.path));
    let link = scene.work().path().join("go.mod");
    std::os::unix::fs::symlink("real.mod", link).unwrap();
    scene.commit("a.go", "package a\n");
    scene.tag("v1.0.0");
    scene.publish().await;
    scene.refuses("v1.0.0.info", "go.mod").await;
    scene.refuses("main.info", "").await;

    let scene = Scene::new("large", &[]).await;
    let text = format!("module {}\n// {}\n", scene.path, "x".repeat(17 << 20));
    scene.commit("go.mod", &text);
    scene.tag("v1.0.0");
    scene.publish().await;
    scene.refuses("v1.0.0.mod", "larger than 16 MiB").await;
}

/// Directories that name each other: a few kilobytes that stand for a million files.
#[tokio::test]
async fn a_tree_bomb_is_refused_and_not_unpacked() {
    let scene = Scene::new("bomb", &[]).await;
    let blob = scene.tip("HEAD:go.mod");
    let mut below = tree(scene.work(), "100644", &blob);
    for _ in 0..7 {
        below = tree(scene.work(), "40000", &below);
    }
    let mut top = b"100644 go.mod\0".to_vec();
    top.extend(bytes_of(&blob));
    top.extend(b"40000 x\0");
    top.extend(bytes_of(&below));
    let top = write_object(scene.work(), "tree", &top);
    let commit = scene.git(["commit-tree", &top, "-m", "bomb"]);
    scene.git(["tag", "v1.0.0", &commit]);
    scene.publish().await;
    scene.get("v1.0.0.mod").await;
    let reason = "more than 100000 files and directories";
    scene.refuses("v1.0.0.zip", reason).await;
}

fn tree(work: &WorkTree, mode: &str, oid: &str) -> String {
    let mut contents = Vec::new();
    for n in 0..10 {
        contents.extend(format!("{mode} {n}\0").bytes());
        contents.extend(bytes_of(oid));
    }
    write_object(work, "tree", &contents)
}

fn bytes_of(oid: &str) -> Vec<u8> {
    let oid: grip_types::Oid = oid.parse().unwrap();
    oid.as_bytes().to_vec()
}
