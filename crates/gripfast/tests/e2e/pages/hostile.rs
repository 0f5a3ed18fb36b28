//! Texts that are attacks on whoever reads them, on every page that shows them.

use std::{fs, net::TcpListener, process::Stdio};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Author, LocalProject, Node, WorkTree, browser::Browser, events::tag, git};
use tokio::io::AsyncWriteExt as _;

use crate::BINARY;

/// What a page must never do: each of them would leave `owned` in the window, or a request.
const ATTACKS: &[&str] = &[
    "<script>window.owned=1</script>",
    "<img src=x onerror=\"window.owned=1\">",
    "\"><svg onload=window.owned=1>",
    "'-window.owned=1-'",
    "</title><script>window.owned=1</script>",
    "</textarea></script><script>window.owned=1</script>",
    "<a href=\"javascript:window.owned=1\">x</a> [y](javascript:window.owned=1)",
    "<iframe srcdoc=\"<script>parent.owned=1</script>\"></iframe>",
    "<style>*{background:url(http://elsewhere.test/style)}</style>",
    "![x](http://elsewhere.test/markdown.png) <img src=\"http://elsewhere.test/raw.png\">",
    "<meta http-equiv=refresh content=\"0;url=http://elsewhere.test/\">",
    "<base href=\"http://elsewhere.test/\"><form action=\"http://elsewhere.test/\"><input autofocus \
     onfocus=\"window.owned=1\">",
    "<math><mtext><table><mglyph><style><!--</style><img title=\"--&gt;&lt;img src=1 \
     onerror=window.owned=1&gt;\">",
    "\u{202e}evil\u{202c} \r\nevent: x\rdata: <script>window.owned=1</script>",
    "{{ 7*7 }} {% include \"/etc/passwd\" %} ${7*7}",
];

const SVG: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" onload=\"window.owned=1\">\
    <script>window.owned=1;parent.owned=1</script>\
    <image href=\"http://elsewhere.test/x.png\"/><foreignObject><iframe \
    xmlns=\"http://www.w3.org/1999/xhtml\" src=\"http://elsewhere.test/\"/></foreignObject></svg>";

/// A repository whose every text is an attack, and the addresses of its pages. What it would load is
/// at `elsewhere`.
async fn publish(node: &Node, elsewhere: &str) -> Result<Vec<String>> {
    let at_hand = |text: &str| text.replace("elsewhere.test", elsewhere);
    let all = at_hand(&ATTACKS.join("\n\n"));
    // Names of files and refs cannot hold everything.
    let name = "\"><img src=x onerror=window.owned=1>";
    let branch = "b<script>window.owned=1<script>";
    let tree = WorkTree::init()?;
    fs::write(tree.path().join("picture.svg"), at_hand(SVG))?;
    fs::write(tree.path().join("page.html"), format!("<html>{all}</html>"))?;
    tree.commit(name, &all)?;
    tree.commit(
        "README.md",
        &format!("# {name}\n\n{all}\n\n![p](picture.svg)\n"),
    )?;
    tree.git([
        "commit",
        "--allow-empty",
        "-qm",
        &format!("{name}\n\n{all}"),
    ])?;
    tree.git(["branch", branch])?;
    tree.git(["tag", "-a", "v<b>1", "-m", name])?;
    let local = LocalProject::with_tree("hostile", tree)?;
    let mut relay = node.connect().await?;
    let tags = vec![
        tag(["name", name]),
        tag(["description", &all]),
        tag(["t", name]),
        tag(["web", "javascript:window.owned=1"]),
    ];
    let owner = &local.owner;
    relay
        .publish_ok(&owner.announcement(&node.authority(), "hostile", tags))
        .await?;
    let names = [
        "refs/heads/main",
        &format!("refs/heads/{branch}"),
        "refs/tags/v<b>1",
    ];
    let oids = names.iter().map(|name| local.tree.tip(name));
    let oids = oids.collect::<Result<Vec<_>>>()?;
    let refs: Vec<_> = names
        .iter()
        .copied()
        .zip(oids.iter().map(String::as_str))
        .collect();
    relay.publish_ok(&local.project.state(&refs)).await?;
    local.tree.push_ok(&local.url(node), &names).await?;
    let coordinate = local.coordinate();
    let profile =
        serde_json::json!({ "name": name, "about": all, "website": "javascript:owned=1" });
    let profile = owner.sign(0, &profile.to_string(), vec![tag(["a", &coordinate])]);
    relay.publish_ok(&profile).await?;
    let about = vec![
        tag(["a", &coordinate]),
        tag(["subject", name]),
        tag(["t", name]),
    ];
    let issue = Author::new().sign(1621, &all, about);
    relay.publish_ok(&issue).await?;
    relay.publish_ok(&owner.comment(&issue, &all)).await?;
    let patch = format!("From: {name}\nSubject: {name}\n\n---\n+{all}");
    let patch = owner.sign(
        1617,
        &patch,
        vec![tag(["a", &coordinate]), tag(["t", "root"])],
    );
    relay.publish_ok(&patch).await?;
    let base = local.url(node);
    let base = base.trim_end_matches(".git");
    let file = grip_testkit::events::percent_encode(name);
    let rests = [
        String::new(),
        "/tree/main".into(),
        format!("/tree/{}", grip_testkit::events::percent_encode(branch)),
        "/blob/main/README.md".into(),
        "/blob/main/README.md?plain".into(),
        format!("/blob/main/{file}"),
        "/blob/main/picture.svg".into(),
        "/blob/main/page.html".into(),
        "/raw/main/page.html".into(),
        "/log".into(),
        "/refs".into(),
        format!("/commit/{}", local.tree.tip("main~1")?),
        format!("/commit/{}", local.tree.tip("main")?),
        format!("/blame/main/{file}"),
        "/grep/main?q=window.owned".into(),
        "/grep/main?q=%3Cscript%3Ewindow.owned%3D1%3C%2Fscript%3E".into(),
        "/issues".into(),
        format!("/topic/{}", issue.id),
        "/proposals".into(),
        format!("/topic/{}", patch.id),
    ];
    let mut pages: Vec<_> = rests.iter().map(|rest| format!("{base}{rest}")).collect();
    let root = node.http_url();
    pages.extend([
        format!("{root}/"),
        format!("{root}/repositories?q=%22%3E%3Cimg+src%3Dx+onerror%3Dwindow.owned%3D1%3E"),
        format!("{root}/{}", owner.npub()),
        format!("{root}/explain/{}", issue.id),
        format!("{root}/explain/%3Cscript%3Ewindow.owned%3D1%3C%2Fscript%3E"),
        format!("{root}/%22%3E%3Cscript%3Ewindow.owned%3D1%3C%2Fscript%3E"),
    ]);
    Ok(pages)
}

#[tokio::test]
async fn nothing_that_strangers_write_runs_loads_or_leaves_its_place() -> Result<()> {
    let node = Node::start(BINARY).await?;
    // Whoever would ask is seen here, whatever the browser says of it.
    let elsewhere = TcpListener::bind("127.0.0.1:0")?;
    elsewhere.set_nonblocking(true)?;
    let address = elsewhere.local_addr()?.to_string();
    let (pages, browser) = (publish(&node, &address).await?, Browser::start().await?);
    for url in pages {
        browser.goto(&url).await?;
        let seen = browser
            .run(
                "return {
                   owned: window.owned ?? null,
                   at: location.href,
                   loaded: performance.getEntriesByType('resource').map((e) => e.name)
                     .filter((name) => !name.startsWith(location.origin)),
                   scripts: [...document.scripts].filter((s) => !s.src.includes('/script.js')).length,
                   forms: [...document.forms].filter((f) => !f.action.startsWith(location.origin))
                     .length,
                   handlers: [...document.querySelectorAll('*')]
                     .flatMap((e) => e.getAttributeNames())
                     .filter((name) => name.startsWith('on')).length,
                   frames: document.querySelectorAll('iframe, object, embed, base').length,
                 }",
            )
            .await?;
        let at = seen["at"].as_str().unwrap_or_default();
        ensure!(at.starts_with(&node.http_url()), "{url} leads to {at}");
        for (what, value) in seen.as_object().into_iter().flatten() {
            let is_harmless = what == "at"
                || value.is_null()
                || value == 0
                || value.as_array().is_some_and(Vec::is_empty);
            ensure!(is_harmless, "{url}: {what} is {value}");
        }
        ensure!(elsewhere.accept().is_err(), "{url} loads from elsewhere");
    }
    Ok(())
}

/// Files of the largest directory, directories below each other, bytes of the longest line.
const ENTRIES: usize = 100_000;
const DEPTH: usize = 800;
const LINE: usize = 40 << 20;

/// A repository with a huge directory, a deep one and a file of one endless line.
async fn publish_large(node: &Node) -> Result<LocalProject> {
    let tree = WorkTree::init()?;
    fs::write(tree.path().join("line.rs"), "a".repeat(LINE))?;
    fs::write(tree.path().join("line.md"), "*a".repeat(20_000))?;
    fs::write(tree.path().join("deep.md"), "> ".repeat(20_000))?;
    tree.git(["add", "-A"])?;
    tree.git(["commit", "-qm", "large"])?;
    let small = tree
        .commit("small", "x")
        .and_then(|_| tree.tip("HEAD:small"))?;
    let mut text = String::new();
    for n in 0..ENTRIES {
        text += &format!("100644 {small}\tmany/f{n:06}\n");
    }
    text += &format!("100644 {small}\t{}x\n", "d/".repeat(DEPTH));
    let words = ["update-index", "--add", "--index-info"];
    let mut index = tokio::process::Command::from(git::command(tree.path(), words))
        .stdin(Stdio::piped())
        .spawn()?;
    let mut stdin = index.stdin.take().context("a pipe was asked for")?;
    stdin.write_all(text.as_bytes()).await?;
    drop(stdin);
    ensure!(index.wait().await?.success(), "git takes the names");
    tree.git(["commit", "-qm", "many"])?;
    let local = LocalProject::with_tree("large", tree)?;
    local.publish(node, 10).await?;
    Ok(local)
}

#[tokio::test]
async fn what_is_too_large_or_too_deep_is_told_so_and_git_goes_on() -> Result<()> {
    let node = Node::start(BINARY).await?;
    let local = publish_large(&node).await?;
    let base = local.path();
    let base = base.trim_end_matches(".git");
    let before = node.anonymous_rss_bytes()?;
    let html = [("accept", "text/html")];
    let deep = "d/".repeat(DEPTH);
    for (rest, statuses) in [
        ("/tree/main/many".to_owned(), &[200][..]),
        (format!("/tree/main/{deep}"), &[200]),
        (format!("/blob/main/{deep}x"), &[200]),
        ("/blob/main/line.rs".into(), &[200]),
        ("/raw/main/line.rs".into(), &[422]),
        (format!("/commit/{}", local.tip), &[200]),
        ("/commit/main~1".into(), &[404]),
        // What git itself would take too long for is refused with a page.
        ("/blame/main/line.rs".into(), &[200, 422, 503]),
        ("/grep/main?q=aaaa".into(), &[200, 422, 503]),
        // On a slow machine the time of a page is over before they are rendered.
        ("/blob/main/line.md".into(), &[200, 504]),
        ("/blob/main/deep.md".into(), &[200, 504]),
    ] {
        let path = format!("{base}{rest}");
        let page = node.ask("GET", &path, &html, b"").await?;
        let shown: String = rest.chars().take(40).collect();
        ensure!(statuses.contains(&page.status), "{shown}: {}", page.status);
        ensure!(
            page.body.len() < 4 << 20,
            "{shown}: {} bytes",
            page.body.len()
        );
        ensure!(page.contains("</html>"), "{shown} is a page");
    }
    let grown = node.anonymous_rss_bytes()?.saturating_sub(before);
    ensure!(grown < 256 << 20, "{grown} bytes more in memory");
    WorkTree::clone(&local.url(&node), &["--depth=1", "--no-checkout"]).await?;
    Ok(())
}
