//! Pages in a real browser.

use anyhow::{Result, ensure};
use grip_testkit::{LocalProject, Node, browser, events::tag, http::must_contain};

use crate::BINARY;

#[tokio::test]
async fn g01_33_pages_are_shown_by_a_browser_without_a_complaint() -> Result<()> {
    let node = Node::start(BINARY).await?;
    let local = LocalProject::new("shown")?;
    local.publish(&node, 10).await?;
    // Its words are an attack on whoever shows them.
    let hostile = "<script>document.title='owned'</script><img src=x onerror=alert(1)>";
    let tags = vec![tag(["description", hostile])];
    let announcement = local.owner.announcement(&node.authority(), "shown", tags);
    node.connect().await?.publish_ok(&announcement).await?;
    let home = browser::open(&format!("{}/", node.http_url())).await?;
    must_contain(&home.dom, &["Push your first repository", "shown"]);
    let repository = browser::open(&local.url(&node)).await?;
    let shown = ["git clone", "nostr://", "gitworkshop.dev", "main", "served"];
    must_contain(&repository.dom, &shown);
    ensure!(
        !repository.dom.contains("<title>owned"),
        "a script of an event ran"
    );
    ensure!(
        !repository.dom.contains("<img src=\"x\""),
        "markup of an event is markup here"
    );
    let base = local.url(&node);
    let base = base.trim_end_matches(".git");
    let commit = format!("{base}/commit/{}", local.tip);
    let mut pages = vec![home, repository];
    for (url, part) in [
        (format!("{base}/tree/main"), "class=\"files\""),
        (format!("{base}/log"), "aria-label=\"Commits\""),
        (commit, "class=\"ins\""),
        (format!("{base}/refs"), "Compare"),
        (format!("{base}/issues"), "Open (0)"),
        (format!("{}/repositories?q=sho", node.http_url()), "shown"),
        (format!("{}/status", node.http_url()), "ready"),
    ] {
        let page = browser::open(&url).await?;
        must_contain(&page.dom, &[part]);
        pages.push(page);
    }
    let lost = browser::open(&format!("{}/no/such/page", node.http_url())).await?;
    ensure!(lost.dom.contains("<h1"), "a page that helps: {}", lost.dom);
    // A missing page is itself one complaint of the browser; styles refused by the policy, loads
    // from elsewhere and script errors would be others.
    pages.push(lost);
    for page in &pages {
        let complaints = page.complaints.iter();
        let unexpected: Vec<_> = complaints.filter(|line| !line.contains("404")).collect();
        ensure!(unexpected.is_empty(), "complaints: {unexpected:?}");
    }
    Ok(())
}
