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

/// What will be the same in a moment.
#[tokio::test]
async fn pages_of_permanent_errors_do_not_say_try_again() -> Result<()> {
    let node = Node::start_indexed(None).await?;
    let accept = [("accept", "text/html")];
    for (path, status) in [
        ("/index?limit=0", 400),
        ("/index?since=x", 400),
        ("/go/x/@v/list", 404),
        ("/go/x.example/y/@v/list", 404),
        ("/go/x/@v/v1.0.0.what", 404),
        ("/no/such/page", 404),
    ] {
        let page = node.ask("GET", path, &accept, b"").await?;
        assert_eq!(page.status, status, "{path}: {}", page.text());
        let shown = page.text();
        assert!(shown.contains("<h1>"), "{path}: {shown}");
        assert!(
            !shown.to_lowercase().contains("try again"),
            "{path}: {shown}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn the_home_page_counts_what_the_list_has() -> Result<()> {
    let node = Node::start().await?;
    let tree = WorkTree::with_commit()?;
    for name in ["one", "two", "three"] {
        node.host(&Author::new(), name, &tree).await?;
    }
    // Held: there is a repository on the disk for each, and nothing in it.
    node.announce(&Author::new(), "four").await?;
    node.wait_for_data(&Author::new(), "five").await?;
    let rows = |html: &str| {
        let names = ["one", "two", "three", "four", "five"];
        let is_listed = |name: &&str| html.contains(&format!("/{name}\""));
        names.into_iter().filter(is_listed).count()
    };
    // The list may be a moment old.
    until("the home page counts three", || async {
        let home = node.get("/").await.ok()?.text();
        let is_counted = home.contains("<b>3</b><small>repositories</small>");
        (is_counted && rows(&home) == 3).then_some(())
    })
    .await?;
    let list = node.get("/repositories").await?.text();
    assert_eq!(rows(&list), 3, "{list}");
    // The operator's list has those that are held as well, and says so of each.
    let listed = node.get("/api/v1/repos").await?.json()?;
    let all = listed["repositories"].as_array().expect("there is a list");
    let served = all.iter().filter(|one| one["status"] == "served");
    assert_eq!((all.len(), served.count()), (5, 3), "{listed}");
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
