//! Modules for the go command: statuses, types, tags. The module rules have tests of their own.

use anyhow::Result;
use grip_testkit::{Author, WorkTree, browser};

use crate::support::Node;

/// A node that hosts one module with two versions; returns its path.
pub async fn node() -> Result<(Node, String)> {
    let node = Node::start_indexed(None).await?;
    let owner = Author::new();
    let tree = WorkTree::init()?;
    let path = format!("127.0.0.1/{}/tides", owner.npub());
    tree.commit("go.mod", &format!("module {path}\n\ngo 1.21\n"))?;
    tree.commit("tides.go", "package tides\n")?;
    tree.git(["tag", "v1.0.0"])?;
    tree.commit("more.go", "package tides\n")?;
    tree.git(["tag", "v1.1.0"])?;
    let hosted = node
        .host_module(&owner, "tides", &tree, &["v1.0.0", "v1.1.0"])
        .await?;
    assert_eq!(hosted, path);
    Ok((node, path))
}

#[tokio::test]
async fn the_go_command_is_given_what_it_asks_for_in_its_types() -> Result<()> {
    let (node, module) = node().await?;
    for (file, kind, text) in [
        ("@v/list", "text/plain; charset=utf-8", "v1.0.0\nv1.1.0\n"),
        (
            "@v/v1.0.0.info",
            "application/json",
            "\"Version\":\"v1.0.0\"",
        ),
        ("@latest", "application/json", "\"Version\":\"v1.1.0\""),
        ("@v/v1.0.0.mod", "text/plain; charset=utf-8", "go 1.21"),
        ("@v/v1.1.0.zip", "application/zip", "PK"),
    ] {
        let path = format!("/go/{module}/{file}");
        let reply = node.get(&path).await?;
        assert_eq!(reply.must_allow_any_origin().status, 200, "{path}");
        assert_eq!(reply.header("content-type"), kind);
        assert!(reply.text().contains(text), "{path}: {}", reply.text());
        assert_eq!(reply.header("cache-control"), "no-cache", "a tag may move");

        let etag = reply.header("etag").to_owned();
        let known = [("if-none-match", etag.as_str())];
        let again = node.ask("GET", &path, &known, b"").await?;
        assert_eq!((again.status, again.body.len()), (304, 0), "{path}");

        let head = node.ask("HEAD", &path, &[], b"").await?;
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
        assert_eq!(head.header("etag"), etag);
    }
    Ok(())
}

#[tokio::test]
async fn people_are_led_from_a_module_to_its_repository() -> Result<()> {
    let (node, module) = node().await?;
    let html = node.get("/modules").await?.text();
    let (_, repository) = module.split_once('/').expect("a path has a slash");
    for text in [
        format!("href=\"/{repository}.git\" title=\"{module}\""),
        format!("go get {module}@v1.1.0"),
        "this node".to_owned(),
    ] {
        assert!(html.contains(&text), "{text} is not in {html}");
    }
    let page = browser::open(&format!("http://{}/modules", node.addr)).await?;
    assert_eq!(page.complaints, Vec::<String>::new());
    assert!(page.dom.contains("tides"), "{}", page.dom);
    Ok(())
}

#[tokio::test]
async fn what_is_not_here_is_404_in_words_so_that_go_asks_elsewhere() -> Result<()> {
    let (node, module) = node().await?;
    let long = "x".repeat(9 << 10);
    for path in [
        format!("{module}/@v/v9.9.9.info"),
        format!("{module}/@v/v9.9.9.zip"),
        format!("{module}/@v/v1.0.0.exe"),
        format!("{module}/@v/../../../etc/passwd"),
        format!("{module}/@v/%2e%2e%2fv1.0.0.zip"),
        "golang.org/x/net/@v/list".to_owned(),
        "sumdb/sum.golang.org/supported".to_owned(),
        "sumdb/sum.golang.org/lookup/a.example@v1.0.0".to_owned(),
        "../../etc/passwd/@v/list".to_owned(),
        "a%2F..%2Fb/@v/list".to_owned(),
        "%ff/@v/list".to_owned(),
        "%/@latest".to_owned(),
        "A.example/@latest".to_owned(),
        format!("{long}/@latest"),
        String::new(),
    ] {
        let reply = node.get(&format!("/go/{path}")).await?;
        assert_eq!(reply.must_allow_any_origin().status, 404, "{path}");
        assert_eq!(reply.header("content-type"), "text/plain; charset=utf-8");
        assert!(reply.text().starts_with("not found: "), "{}", reply.text());
        assert!(reply.body.len() < 1000, "{path}");
    }
    let latest = format!("/go/{module}/@latest");
    let post = node.ask("POST", &latest, &[], b"").await?;
    assert_eq!(post.status, 405);
    Ok(())
}

#[tokio::test]
async fn beyond_the_bound_a_zip_is_refused_at_once() -> Result<()> {
    let (node, module) = node().await?;
    node.change(|settings| settings.limits.zip = 0);
    let busy = node.get(&format!("/go/{module}/@v/v1.0.0.zip")).await?;
    assert_eq!(busy.status, 429);
    assert!(!busy.header("retry-after").is_empty());
    let list = node.get(&format!("/go/{module}/@v/list")).await?;
    assert_eq!(list.status, 200, "lists have slots of their own");
    let metrics = node.get("/metrics").await?.text();
    assert!(metrics.contains("busy_rejections_total{route=\"zip\"} 1"));
    Ok(())
}

#[tokio::test]
async fn what_an_author_takes_back_is_shown_on_the_page() -> Result<()> {
    let node = Node::start_indexed(None).await?;
    let owner = Author::new();
    let tree = WorkTree::init()?;
    let path = format!("127.0.0.1/{}/tides", owner.npub());
    tree.commit("go.mod", &format!("module {path}\n"))?;
    tree.git(["tag", "v1.0.0"])?;
    let notices = format!(
        "// Deprecated: use <waves>\nmodule {path}\n\nretract v1.0.0 // It leaks & drips.\n"
    );
    tree.commit("go.mod", &notices)?;
    tree.git(["tag", "v1.1.0"])?;
    node.host_module(&owner, "tides", &tree, &["v1.0.0", "v1.1.0"])
        .await?;
    let html = node.get("/modules").await?.text();
    assert_eq!(
        html.matches("retracted: It leaks &#38; drips.").count(),
        1,
        "{html}"
    );
    assert_eq!(
        html.matches("module deprecated: use &#60;waves&#62;")
            .count(),
        2,
        "{html}"
    );
    Ok(())
}
