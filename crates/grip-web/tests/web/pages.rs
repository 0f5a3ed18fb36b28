//! Pages over the wire.

use anyhow::Result;
use grip_testkit::{Author, WorkTree, http::must_contain};

use crate::support::Node;

#[tokio::test]
async fn g01_33_a_repository_has_a_page_while_held_and_when_served() -> Result<()> {
    let node = Node::start().await?;
    let (owner, tree) = (Author::new(), WorkTree::with_commit()?);
    node.announce(&owner, "tide table").await?;
    let path = format!("/{}/tide%20table.git", owner.npub());
    let held = node.get(&path).await?;
    held.must_be(200, &["Not served yet"]);

    let url = node.host(&owner, "tide table", &tree).await?;
    for path in [path.clone(), format!("{path}/")] {
        let page = node.get(&path).await?;
        assert_eq!(page.status, 200);
        let html = page.text();
        assert!(!html.contains("Not served yet"), "{html}");
        let tip = tree.tip("main")?;
        must_contain(
            &html,
            &[
                url.as_str(),
                &format!("https://gitworkshop.dev/{}/tide%20table", owner.npub()),
                &format!("nostr://{}/", owner.npub()),
                &tip[..10],
                "HEAD",
            ],
        );
        assert!(
            page.header("content-security-policy")
                .contains("default-src 'none'")
        );
    }
    let home = node.get("/").await?.text();
    assert!(
        home.contains("tide table") && home.contains(&path),
        "{home}"
    );
    Ok(())
}

#[tokio::test]
async fn a_browser_that_leaves_out_the_suffix_is_sent_on_and_git_is_not() -> Result<()> {
    let node = Node::start().await?;
    let owner = Author::new();
    let path = format!("/{}/x", owner.npub());
    let html = [("accept", "text/html")];
    let reply = node.ask("GET", &path, &html, b"").await?;
    assert_eq!(reply.status, 302);
    assert_eq!(reply.header("location"), format!("{path}.git"));
    assert_eq!(node.get(&path).await?.status, 404);
    Ok(())
}

#[tokio::test]
async fn what_is_not_here_gets_a_page_that_helps() -> Result<()> {
    let node = Node::start().await?;
    let html = [("accept", "text/html")];
    let path = format!("/{}/x.git", Author::new().npub());
    let page = node.ask("GET", &path, &html, b"").await?;
    assert_eq!(page.must_allow_any_origin().status, 404);
    assert!(page.text().contains("<h1>Not found</h1>"));
    let text = node.get(&path).await?;
    assert!(text.header("content-type").starts_with("text/plain"));
    assert!(text.text().contains("No such repository"));
    Ok(())
}

#[tokio::test]
async fn the_decisions_about_a_repository_can_be_read() -> Result<()> {
    let node = Node::start().await?;
    let owner = Author::new();
    node.announce(&owner, "x").await?;
    let path = format!("/api/v1/explain/{}/x", owner.npub());
    let reply = node.get(&path).await?;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert!(reply.json()?.is_object());
    Ok(())
}
