//! Issues, patches and pull requests as pages.

use anyhow::Result;
use grip_testkit::{Author, WorkTree, events::tag};
use serde_json::json;

use crate::support::Node;

#[tokio::test]
async fn an_issue_shows_its_status_and_what_was_said_in_order() -> Result<()> {
    let node = Node::start().await?;
    let (owner, visitor, tree) = (Author::new(), Author::new(), WorkTree::with_commit()?);
    node.host(&owner, "tides", &tree).await?;
    let mut relay = node.relay().await?;
    let coordinate = owner.coordinate("tides");
    let tags = vec![
        tag(["a", &coordinate]),
        tag(["subject", "Empty <b>list</b>"]),
    ];
    let issue = visitor.sign(1621, "It is **empty** <script>alert(1)</script>", tags);
    relay.publish_ok(&issue).await?;
    let id = issue.id.to_hex();
    let about = |kind: &str| {
        vec![
            tag(["E", &id]),
            tag(["K", "1621"]),
            tag(["e", &id]),
            tag(["k", kind]),
        ]
    };
    relay
        .publish_ok(&owner.sign(1111, "Seen here too", about("1621")))
        .await?;
    let base = format!("/{}/tides", owner.npub());
    let list = node.get(&format!("{base}/issues")).await?;
    list.must_be(200, &["Empty &#60;b&#62;list", "Open (1)"]);
    let page = node.get(&format!("{base}/topic/{id}")).await?;
    page.must_be(
        200,
        &["<strong>empty</strong>", "Seen here too", "gitworkshop.dev"],
    );
    assert!(!page.text().contains("<script>alert"));
    // A stranger's word settles nothing, the owner's does.
    let settle = |author: &Author, kind| author.sign(kind, "", vec![tag(["e", &id, "", "root"])]);
    relay.publish_ok(&settle(&Author::new(), 1632)).await?;
    node.get(&format!("{base}/issues"))
        .await?
        .must_be(200, &["Open (1)"]);
    relay.publish_ok(&settle(&owner, 1631)).await?;
    node.get(&format!("{base}/issues"))
        .await?
        .must_be(200, &["Open (0)", "All (1)"]);
    node.get(&format!("{base}/topic/{id}"))
        .await?
        .must_be(200, &["resolved"]);
    // It is no topic of another repository.
    let other = Author::new();
    node.host(&other, "tides", &tree).await?;
    let path = format!("/{}/tides/topic/{id}", other.npub());
    assert_eq!(node.get(&path).await?.status, 404);
    Ok(())
}

#[tokio::test]
async fn a_pull_request_shows_its_commits_and_changes() -> Result<()> {
    let node = Node::start().await?;
    let (owner, visitor, tree) = (Author::new(), Author::new(), WorkTree::with_commit()?);
    let url = node.host(&owner, "tides", &tree).await?;
    tree.git(["checkout", "-q", "-b", "topic"])?;
    let tip = tree.commit("spring.txt", "spring tides\n")?;
    let request = visitor.pull_request(&owner, "tides", &tip, &url);
    let id = request.id.to_hex();
    let mut relay = node.relay().await?;
    let base = format!("/{}/tides", owner.npub());
    // Held until its commit is here: nobody sees it.
    relay.publish_ok(&request).await?;
    assert_eq!(node.get(&format!("{base}/topic/{id}")).await?.status, 404);
    node.get(&format!("{base}/proposals"))
        .await?
        .must_be(200, &["Open (0)"]);
    tree.push_ok(&url, &[&format!("topic:refs/nostr/{id}")])
        .await?;
    node.get(&format!("{base}/proposals"))
        .await?
        .must_be(200, &["please pull", "Open (1)"]);
    let page = node.get(&format!("{base}/topic/{id}")).await?;
    page.must_be(
        200,
        &[
            "please pull",
            "spring.txt",
            "spring tides",
            "version 1",
            &tip[..10],
        ],
    );
    assert_eq!(node.get(&format!("{base}/commit/{tip}")).await?.status, 200);
    Ok(())
}

/// §17: `b` names the branch that a pull request is for; one that is not there is none.
#[tokio::test]
async fn a_pull_request_is_shown_against_the_branch_that_it_names() -> Result<()> {
    let node = Node::start().await?;
    let (owner, visitor, tree) = (Author::new(), Author::new(), WorkTree::with_commit()?);
    tree.git(["branch", "stable"])?;
    tree.commit("ebb.txt", "on main alone\n")?;
    let url = node.host(&owner, "tides", &tree).await?;
    let refs = ["main", "stable"].map(|name| (format!("refs/heads/{name}"), name));
    let tips = refs.map(|(full, name)| Ok((full, tree.tip(name)?)));
    let tips = tips.into_iter().collect::<Result<Vec<_>>>()?;
    let tips: Vec<_> = tips.iter().map(|(name, tip)| (&**name, &**tip)).collect();
    let mut relay = node.relay().await?;
    let later = nostr::prelude::Timestamp::now() + 5;
    let state = owner.state_at("tides", &tips, Some("refs/heads/main"), later);
    relay.publish_ok(&state).await?;
    tree.push_ok(&url, &["main", "stable"]).await?;
    tree.git(["checkout", "-q", "-b", "topic"])?;
    let tip = tree.commit("spring.txt", "spring tides\n")?;
    for (branch, against, shows_main) in [
        ("stable", "Against stable", true),
        ("main", "Against main", false),
        ("gone", "Against main", false),
    ] {
        let tags = vec![
            tag(["a", &owner.coordinate("tides")]),
            tag(["c", &tip]),
            tag(["clone", &url]),
            tag(["subject", branch]),
            tag(["b", branch]),
        ];
        let request = visitor.sign(1618, "", tags);
        let id = request.id.to_hex();
        relay.publish_ok(&request).await?;
        tree.push_ok(&url, &[&format!("topic:refs/nostr/{id}")])
            .await?;
        let page = node
            .get(&format!("/{}/tides/topic/{id}", owner.npub()))
            .await?;
        page.must_be(200, &[against, "spring.txt"]);
        assert_eq!(page.text().contains("ebb.txt"), shows_main, "{branch}");
        let found = relay.query(&[json!({ "#b": [branch] })]).await?;
        assert_eq!(found, [request], "{branch}");
    }
    Ok(())
}

#[tokio::test]
async fn an_explanation_is_a_page_in_sentences() -> Result<()> {
    let node = Node::start().await?;
    let owner = Author::new();
    let state = node.wait_for_data(&owner, "late").await?;
    let page = node.get(&format!("/explain/{state}")).await?;
    page.must_be(
        200,
        &["held", "Missing git data", "What to do", "kept until"],
    );
    assert!(
        !page.text().contains("{&#34;"),
        "no JSON in front of a person"
    );
    let page = node.get(&format!("/explain/{}/late", owner.npub())).await?;
    page.must_be(200, &["held", "Push the branches"]);
    let unknown = node.get(&format!("/explain/{}", "a".repeat(64))).await?;
    assert_eq!(unknown.status, 404);
    Ok(())
}
