//! Questions and repositories that mean no good.

use grip_testkit::WorkTree;

use crate::support::{World, module, write_object};

#[tokio::test]
async fn paths_that_lead_elsewhere_lead_nowhere() {
    let world = World::new().await;
    let path = world.path("hello");
    world.publish("hello", &module(&path, &["v1.0.0"])).await;
    let npub = world.owner.npub();
    let many = "a/".repeat(4000);
    for wrong in [
        "",
        "/",
        "@v/list",
        "/@v/list",
        "@latest",
        "sumdb/sum.golang.org/supported",
        &path,
        &format!("{path}/@v/"),
        &format!("{path}/@v/v1.0.0"),
        &format!("{path}/@v/v1.0.0.exe"),
        &format!("{path}/@v/.info"),
        &format!("{path}/@v/v1.0.0.zip.zip"),
        &format!("{path}/@v/../v1.0.0.info"),
        &format!("{path}/@v/..%2f..%2fHEAD.info"),
        &format!("{path}/@v/a/b.info"),
        &format!("{path}/@v/%00.info"),
        &format!("{path}/@v/%0d%0aX-Evil:1.info"),
        &format!("{path}/@v/{}.info", "f".repeat(4096)),
        &format!("{path}/@v/v1.0.0-{}.zip", "a".repeat(4096)),
        &format!("{path}/@v/v1.0.0-{}.mod", "1.".repeat(2048)),
        &format!("git.example/../{npub}/hello/@v/list"),
        &format!("git.example/%2e%2e/{npub}/hello/@v/list"),
        &format!("git.example/{npub}/..%2fhello/@v/list"),
        &format!("git.example/{npub}/hello/../../../etc/@v/list"),
        &format!("git.example/{npub}//hello/@v/list"),
        &format!("git.example/{npub}/hello%00/@v/list"),
        &format!("git.example/{npub}/hello\\..\\x/@v/list"),
        &format!("git.example/{}/hello/@v/list", npub.to_uppercase()),
        &format!("git.example/{npub}/!Hello/@v/list"),
        &format!("git.example/{npub}/hello!/@v/list"),
        &format!("git.example/{npub}/%e4%b8%96/@v/list"),
        &format!("git.example/{npub}/hello%/@v/list"),
        &format!("git.example/{npub}/hello%zz/@v/list"),
        &format!("git.example/{many}@v/list"),
        "git.example/npub1../hello/@v/list",
        &format!("-git.example/{npub}/hello/@v/list"),
    ] {
        let said = world.refusal(wrong).await;
        assert!(
            said.len() < 700 && !said.contains(['\n', '\r', '\0']),
            "{said:?}"
        );
    }
}

#[tokio::test]
async fn an_identifier_that_go_cannot_name_has_no_module() {
    let world = World::new().await;
    for identifier in ["naïve repo", "a+b", "con", "x."] {
        let repo = world.repo(identifier);
        world
            .push(&repo, &module(&world.path("x"), &["v1.0.0"]))
            .await;
        world.index(&repo).await;
    }
    let npub = world.owner.npub();
    for written in ["na%C3%AFve%20repo", "a+b", "con", "x."] {
        world
            .refusal(&format!("git.example/{npub}/{written}/@v/list"))
            .await;
    }
}

#[tokio::test]
async fn a_tag_of_something_else_than_a_commit_is_no_version() {
    let world = World::new().await;
    let path = world.path("hello");
    let work = module(&path, &["v1.0.0"]);
    let blob = work.tip("HEAD:hello.go").unwrap();
    let tree = work.tip("HEAD^{tree}").unwrap();
    work.git(["tag", "v1.1.0", &blob]).unwrap();
    work.git(["tag", "--annotate", "--message=x", "v1.2.0", &tree])
        .unwrap();
    world.publish("hello", &work).await;
    assert_eq!(world.text(&format!("{path}/@v/list")).await, "v1.0.0\n");
    world.refusal(&format!("{path}/@v/v1.1.0.info")).await;
    work.git(["tag", "blob", &blob]).unwrap();
    world.publish("hello", &work).await;
    let said = world.refusal(&format!("{path}/@v/blob.info")).await;
    assert!(said.contains("it leads to no commit"), "{said}");
    world
        .refusal(&format!("{path}/@v/{}.info", &blob[..12]))
        .await;
    world
        .refusal(&format!("{path}/@v/{}.info", &tree[..12]))
        .await;
}

#[tokio::test]
async fn a_go_mod_that_is_a_link_or_too_large_names_no_module() {
    let world = World::new().await;
    let path = world.path("link");
    let work = WorkTree::init().unwrap();
    work.commit("real.mod", &format!("module {path}\n"))
        .unwrap();
    std::os::unix::fs::symlink("real.mod", work.path().join("go.mod")).unwrap();
    work.commit("a.go", "package a\n").unwrap();
    work.git(["tag", "v1.0.0"]).unwrap();
    world.publish("link", &work).await;
    let said = world.refusal(&format!("{path}/@v/v1.0.0.info")).await;
    assert!(said.contains("go.mod"), "{said}");
    world.refusal(&format!("{path}/@v/main.info")).await;

    let path = world.path("large");
    let work = module(&path, &[]);
    let text = format!("module {path}\n// {}\n", "x".repeat(17 << 20));
    work.commit("go.mod", &text).unwrap();
    work.git(["tag", "v1.0.0"]).unwrap();
    world.publish("large", &work).await;
    let said = world.refusal(&format!("{path}/@v/v1.0.0.mod")).await;
    assert!(said.contains("larger than 16 MiB"), "{said}");
}

/// Directories that name each other: a few kilobytes that stand for a million files.
#[tokio::test]
async fn a_tree_bomb_is_refused_and_not_unpacked() {
    let world = World::new().await;
    let path = world.path("bomb");
    let work = module(&path, &[]);
    let blob = work.tip("HEAD:go.mod").unwrap();
    let mut below = tree(&work, "100644", &blob);
    for _ in 0..7 {
        below = tree(&work, "40000", &below);
    }
    let mut top = b"100644 go.mod\0".to_vec();
    top.extend(bytes_of(&blob));
    top.extend(b"40000 x\0");
    top.extend(bytes_of(&below));
    let top = write_object(&work, "tree", &top);
    let commit = work.git(["commit-tree", &top, "-m", "bomb"]).unwrap();
    work.git(["tag", "v1.0.0", &commit]).unwrap();
    world.publish("bomb", &work).await;
    world.text(&format!("{path}/@v/v1.0.0.mod")).await;
    let said = world.refusal(&format!("{path}/@v/v1.0.0.zip")).await;
    assert!(
        said.contains("more than 100000 files and directories"),
        "{said}"
    );
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
