//! Code and history over the wire.

use std::fs;

use anyhow::Result;
use grip_testkit::{Author, WorkTree, http::must_contain};

use crate::support::Node;

/// A repository with a bit of everything, and the base of its pages.
struct Shown {
    node: Node,
    tree: WorkTree,
    base: String,
}

impl Shown {
    async fn start() -> Result<Self> {
        let tree = WorkTree::with_commit()?;
        fs::create_dir_all(tree.path().join("src"))?;
        fs::create_dir_all(tree.path().join("docs"))?;
        fs::write(tree.path().join("pixel.png"), b"\x89PNG\r\n\x1a\n\0\0")?;
        fs::write(
            tree.path().join("evil.svg"),
            "<svg xmlns=\"http://www.w3.org/2000/svg\"><script>alert(1)</script></svg>",
        )?;
        fs::write(tree.path().join("evil.html"), "<script>alert(1)</script>")?;
        fs::write(
            tree.path().join("docs/guide.md"),
            "up: [top](../README.md)\n",
        )?;
        tree.commit("src/main.rs", "fn main() {\n    let x = 1;\n}\n")?;
        tree.commit(
            "README.md",
            "# Tides\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- [x] done\n\n[guide](docs/guide.md) \
             ![pixel](pixel.png) <script>alert(1)</script>\n",
        )?;
        tree.git(["commit", "--allow-empty", "-qm", "pictures <b>and</b> docs"])?;
        tree.commit("src/main.rs", "fn main() {\n    let y = 1;\n}\n")?;
        let (node, owner) = (Node::start().await?, Author::new());
        node.host(&owner, "tides", &tree).await?;
        let base = format!("/{}/tides", owner.npub());
        Ok(Self { node, tree, base })
    }

    async fn page(&self, rest: &str, parts: &[&str]) -> Result<grip_testkit::Response> {
        let html = [("accept", "text/html")];
        let path = format!("{}{rest}", self.base);
        let page = self.node.ask("GET", &path, &html, b"").await?;
        page.must_be(200, parts);
        Ok(page)
    }
}

#[tokio::test]
async fn a_visitor_reads_files_history_and_differences() -> Result<()> {
    let shown = Shown::start().await?;
    let base = &shown.base;
    let tip = shown.tree.tip("main")?;
    let overview = shown.page("", &["Tides", "<table>", "src/"]).await?.text();
    must_contain(
        &overview,
        &[
            &format!("href=\"{base}/blob/main/docs/guide.md\""),
            &format!("src=\"{base}/raw/main/pixel.png\""),
            "type=\"checkbox\"",
            "md-tides",
        ],
    );
    assert!(!overview.contains("<script>alert"), "{overview}");
    shown
        .page("/tree/main/src", &["main.rs", "History"])
        .await?;
    let blob = shown
        .page("/blob/main/src/main.rs", &["id=\"L2\"", "h-k\">fn"])
        .await?;
    assert_eq!(blob.header("cache-control"), "no-cache");
    let up = format!("href=\"{base}/blob/main/README.md\"");
    shown.page("/blob/main/docs/guide.md", &[&up]).await?;
    shown.page("/log", &["pictures &#60;b&#62;and"]).await?;
    shown
        .page("/log/main", &["pictures &#60;b&#62;and", &tip[..10]])
        .await?;
    shown
        .page("/history/main/src/main.rs", &["src/main.rs"])
        .await?;
    let commit = format!("/commit/{tip}");
    let page = shown
        .page(&commit, &["<b>x</b>", "<b>y</b>", "class=\"ins\""])
        .await?;
    assert!(page.header("cache-control").contains("max-age=86400"));
    shown
        .page(&format!("{commit}?view=split"), &["split", "<b>y</b>"])
        .await?;
    let first = shown.tree.tip("main~3")?;
    shown
        .page(&format!("/compare/{first}...main"), &["main.rs", "files"])
        .await?;
    shown.page("/refs", &["main", "default"]).await?;
    shown
        .page("/blame/main/src/main.rs", &["id=\"L3\"", &tip[..10]])
        .await?;
    shown.page("/grep/main?q=LET+Y", &["src/main.rs:2"]).await?;
    let feed = shown
        .page("/log.atom", &["<feed", "pictures &#60;b&#62;and"])
        .await?;
    assert!(
        feed.header("content-type")
            .starts_with("application/atom+xml")
    );
    shown.page("/tags.atom", &["<feed"]).await?;
    Ok(())
}

#[tokio::test]
async fn pages_of_a_commit_are_kept_by_browsers() -> Result<()> {
    let shown = Shown::start().await?;
    for path in ["/blob/main/src/main.rs", "/tree/main", "/log/main"] {
        let page = shown.page(path, &[]).await?;
        let tag = page.header("etag").to_owned();
        assert!(!tag.is_empty(), "{path}");
        let path = format!("{}{path}", shown.base);
        let known = [("if-none-match", &*tag), ("accept", "text/html")];
        let again = shown.node.ask("GET", &path, &known, b"").await?;
        assert_eq!(again.status, 304, "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn raw_files_cannot_act_as_pages_of_the_node() -> Result<()> {
    let shown = Shown::start().await?;
    for (file, kind) in [
        ("evil.html", "text/plain; charset=utf-8"),
        ("evil.svg", "image/svg+xml"),
        ("pixel.png", "image/png"),
        ("src/main.rs", "text/plain; charset=utf-8"),
    ] {
        let raw = shown.page(&format!("/raw/main/{file}"), &[]).await?;
        assert_eq!(raw.header("content-type"), kind, "{file}");
        assert_eq!(raw.header("x-content-type-options"), "nosniff");
        let is_download = raw.header("content-disposition") == "attachment";
        assert_eq!(is_download, file == "evil.svg", "{file}");
        let policy = raw.header("content-security-policy");
        assert!(policy.contains("sandbox") && policy.contains("default-src 'none'"));
    }
    Ok(())
}

#[tokio::test]
async fn archives_hold_the_files_of_a_commit() -> Result<()> {
    let shown = Shown::start().await?;
    let tar = shown.page("/archive/main.tar.gz", &[]).await?;
    assert!(
        tar.header("content-disposition")
            .contains("tides-main.tar.gz")
    );
    assert_eq!(tar.body[..2], [0x1f, 0x8b]);
    let zip = shown.page("/archive/main.zip", &[]).await?;
    assert_eq!(zip.body[..2], *b"PK");
    Ok(())
}

#[tokio::test]
async fn what_is_no_part_of_the_repository_is_not_shown() -> Result<()> {
    let shown = Shown::start().await?;
    // A commit of somebody else in the same store of objects.
    let (other, theirs) = (Author::new(), WorkTree::init()?);
    theirs.commit("theirs", "x")?;
    theirs.git(["branch", "-M", "main"])?;
    shown.node.host(&other, "tides", &theirs).await?;
    let tip = theirs.tip("main")?;
    let html = [("accept", "text/html")];
    for rest in [
        format!("/commit/{tip}"),
        format!("/tree/{tip}"),
        "/tree/nowhere".into(),
        "/blob/main/missing".into(),
        "/blob/main/../../etc/passwd".into(),
        "/raw/main/src".into(),
        format!("/compare/main...{tip}"),
        "/archive/main.rar".into(),
        "/tree/--upload-pack=x".into(),
    ] {
        let path = format!("{}{rest}", shown.base);
        let page = shown.node.ask("GET", &path, &html, b"").await?;
        assert_eq!(page.status, 404, "{rest}: {}", page.text());
    }
    // The other's own pages have it.
    let path = format!("/{}/tides/commit/{tip}", other.npub());
    assert_eq!(shown.node.get(&path).await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn names_with_markup_stay_text() -> Result<()> {
    let tree = WorkTree::with_commit()?;
    let evil = "\"><img src=x onerror=alert(1)>";
    tree.commit(&format!("a {evil}"), "x")?;
    tree.git(["commit", "--allow-empty", "-qm", &format!("subject {evil}")])?;
    tree.git(["branch", "b<script>alert(1)</script>"])?;
    let (node, owner) = (Node::start().await?, Author::new());
    let names = ["refs/heads/main", "refs/heads/b<script>alert(1)</script>"];
    node.push_refs(&owner, "evil", &tree, &names).await?;
    let base = format!("/{}/evil", owner.npub());
    for rest in [
        "",
        "/tree/main",
        "/log/main",
        "/refs",
        "/log.atom",
        "/tree/b%3Cscript%3Ealert(1)%3C%2Fscript%3E",
    ] {
        let page = node.get(&format!("{base}{rest}")).await?;
        assert_eq!(page.status, 200, "{rest}");
        let html = page.text();
        assert!(!html.contains("<img src=x"), "{rest}: {html}");
        assert!(!html.contains("<script>alert"), "{rest}: {html}");
    }
    Ok(())
}

#[tokio::test]
async fn a_search_finds_repositories_by_words_and_owners_have_pages() -> Result<()> {
    let node = Node::start().await?;
    let (owner, tree) = (Author::new(), WorkTree::with_commit()?);
    node.host(&owner, "moon-phases", &tree).await?;
    for (query, found) in [
        ("moon", true),
        ("PHASES+moon", true),
        ("sun", false),
        ("", true),
    ] {
        let page = node.get(&format!("/repositories?q={query}")).await?.text();
        assert_eq!(page.contains("moon-phases"), found, "{query}: {page}");
    }
    let page = node.get(&format!("/{}", owner.npub())).await?;
    page.must_be(200, &["moon-phases", &owner.npub()]);
    node.get("/status").await?.must_be(200, &["ready"]);
    let style = node.get("/style.css").await?;
    assert!(style.header("cache-control").contains("immutable"));
    Ok(())
}

#[tokio::test]
async fn a_list_is_sorted_by_name_or_owner_with_a_search_and_without() -> Result<()> {
    let node = Node::start().await?;
    let tree = WorkTree::with_commit()?;
    let [first, last] = &[Author::new(), Author::new()];
    for (owner, name) in [(first, "tide-c"), (last, "tide-a"), (first, "Tide-b")] {
        node.host(owner, name, &tree).await?;
    }
    for (query, order) in [
        ("sort=name", ["tide-a", "Tide-b", "tide-c"]),
        ("q=tide&sort=name", ["tide-a", "Tide-b", "tide-c"]),
    ] {
        let page = node.get(&format!("/repositories?{query}")).await?.text();
        let places = order.map(|name| page.find(&format!(">{name}<")));
        assert!(places.is_sorted() && places[0].is_some(), "{query}: {page}");
    }
    let page = node.get("/repositories?sort=owner").await?.text();
    let of = |name: &str| page.find(&format!(">{name}<"));
    let key_order = first.hex() < last.hex();
    assert_eq!(of("tide-c") < of("tide-a"), key_order, "{page}");
    Ok(())
}

#[tokio::test]
async fn costly_pages_are_refused_with_a_page_when_all_permits_are_taken() -> Result<()> {
    let shown = Shown::start().await?;
    shown.node.change(|settings| settings.limits.blame = 0);
    let path = format!("{}/blame/main/src/main.rs", shown.base);
    let html = [("accept", "text/html")];
    let page = shown.node.ask("GET", &path, &html, b"").await?;
    page.must_be(429, &["Busy", "blame"]);
    assert_eq!(page.header("retry-after"), "5");
    // Git is another pool.
    let clone = format!("http://{}{}", shown.node.authority(), shown.base);
    WorkTree::clone(&clone, &[]).await?;
    Ok(())
}
