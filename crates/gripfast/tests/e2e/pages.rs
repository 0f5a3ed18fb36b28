//! Pages in a real browser.

use anyhow::{Result, ensure};
use grip_testkit::{Author, Node, WorkTree, browser};

use crate::BINARY;

/// A node with one repository whose words are an attack on whoever shows them.
async fn node_with_a_repository() -> Result<(Node, Author)> {
    let node = Node::start(BINARY).await?;
    let (owner, tree) = (Author::new(), WorkTree::with_commit()?);
    let mut relay = node.connect().await?;
    let hostile = "<script>document.title='owned'</script><img src=x onerror=alert(1)>";
    let tags = vec![grip_testkit::events::tag(["description", hostile])];
    relay
        .publish_ok(&owner.announcement(&node.authority(), "shown", tags))
        .await?;
    let tip = tree.tip("HEAD")?;
    relay
        .publish_ok(&owner.state(
            "shown",
            &[("refs/heads/main", &tip)],
            Some("refs/heads/main"),
        ))
        .await?;
    let pushed = tree
        .push(&owner.clone_url(&node.authority(), "shown"), &["main"])
        .await?;
    ensure!(pushed.ok, "{}", pushed.stderr);
    Ok((node, owner))
}

#[tokio::test]
async fn g01_33_pages_are_shown_by_a_browser_without_a_complaint() -> Result<()> {
    let (node, owner) = node_with_a_repository().await?;
    let home = browser::open(&format!("{}/", node.http_url())).await?;
    ensure!(
        home.dom.contains("Push your first repository"),
        "{}",
        home.dom
    );
    ensure!(home.dom.contains("shown"), "the repository is listed");
    let url = owner.clone_url(&node.authority(), "shown");
    let repository = browser::open(&url).await?;
    for text in ["git clone", "nostr://", "gitworkshop.dev", "main", "served"] {
        ensure!(repository.dom.contains(text), "{text} is not on the page");
    }
    ensure!(
        !repository.dom.contains("<title>owned"),
        "a script of an event ran"
    );
    ensure!(
        !repository.dom.contains("<img src=\"x\""),
        "markup of an event is markup here"
    );
    let lost = browser::open(&format!("{}/no/such/page", node.http_url())).await?;
    ensure!(lost.dom.contains("<h1"), "a page that helps: {}", lost.dom);
    // A missing page is itself one complaint of the browser; styles refused by the policy, loads
    // from elsewhere and script errors would be others.
    let expected = |line: &String| line.contains("404");
    for page in [&home, &repository, &lost] {
        let unexpected: Vec<_> = page
            .complaints
            .iter()
            .filter(|line| !expected(line))
            .collect();
        ensure!(
            unexpected.is_empty(),
            "the browser complains: {unexpected:?}"
        );
    }
    Ok(())
}
