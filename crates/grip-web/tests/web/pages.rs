//! Pages over the wire.

use anyhow::Result;
use grip_testkit::{Author, WorkTree, http::must_contain, until};

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
                "<option value=\"main\" selected>",
            ],
        );
        assert!(
            page.header("content-security-policy")
                .contains("default-src 'none'")
        );
    }
    // The list may be a moment old.
    until("the repository is on the home page", || async {
        let home = node.get("/").await.ok()?.text();
        let is_listed = home.contains(path.trim_end_matches(".git"));
        is_listed.then_some(())
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_repository_is_read_and_cloned_without_its_suffix() -> Result<()> {
    let node = Node::start().await?;
    let (owner, tree) = (Author::new(), WorkTree::with_commit()?);
    let url = node.host(&owner, "x", &tree).await?;
    let bare = url.trim_end_matches(".git");
    let cloned = WorkTree::clone(bare, &[]).await?;
    assert_eq!(cloned.tip("HEAD")?, tree.tip("main")?);
    let page = node.get(&format!("/{}/x", owner.npub())).await?;
    page.must_be(200, &["git clone", "Branch or tag"]);
    Ok(())
}

#[tokio::test]
async fn what_is_not_here_gets_a_page_that_helps() -> Result<()> {
    let node = Node::start().await?;
    let html = [("accept", "text/html")];
    let path = format!("/{}/x.git", Author::new().npub());
    let page = node.ask("GET", &path, &html, b"").await?;
    assert_eq!(page.must_allow_any_origin().status, 404);
    let shown = page.text();
    must_contain(&shown, &["<h1>Not found", "What to do", "kind 30617"]);
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
