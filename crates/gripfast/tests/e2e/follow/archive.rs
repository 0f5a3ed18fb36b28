//! An archive that follows another server (GRASP-05), and what it keeps of what was there before.

use anyhow::{Result, ensure};
use grip_testkit::{Author, LocalProject, Node, WorkTree, git, http::must_contain};
use serde_json::{Value, json};

use super::scene::{all_served, node, node_with, publish, push, served};

/// An archive of everything that `upstream` has.
async fn archive_of(upstream: &Node) -> Result<Node> {
    node_with(&[
        ("NGIT_ARCHIVE_ALL", "true"),
        ("NGIT_SYNC_BOOTSTRAP_RELAY_URL", &upstream.relay_url()),
    ])
    .await
}

/// G05-1, G05-2, G05-5, G05-7, G05-8, G05-11
#[tokio::test]
async fn g05_1_2_an_archive_mirrors_what_does_not_list_it_and_loses_no_tip_by_a_rewrite()
-> Result<()> {
    let upstream = node().await?;
    let mut archive = archive_of(&upstream).await?;
    let mut project = LocalProject::new("tides")?;
    let announcement = project.announcement_at(&[&upstream], &[], 60);
    publish(&upstream, &announcement).await?;
    let state = push(&project, &upstream, 50).await?;
    all_served(&archive, &[&announcement, &state]).await?;
    let (url, first) = (project.url(&archive), project.tip.clone());
    git::until_ref(&url, "refs/heads/main", &first).await?;

    let accept = [("accept", "application/nostr+json")];
    let document: Value = archive.ask("GET", "/", &accept, b"").await?.json()?;
    let grasps = json!(["GRASP-01", "GRASP-02", "GRASP-05"]);
    ensure!(document["supported_grasps"] == grasps, "{document}");
    let curation = "Read-only sync of all repositories found on network";
    ensure!(document["curation"] == curation, "{document}");
    let refused = project.tree.push(&url, &["main:other"]).await?;
    ensure!(
        !refused.ok && refused.stderr.contains("read-only"),
        "{refused:?}"
    );

    // Upstream forgets what it said: another root, forced over the first.
    project
        .tree
        .git(["commit", "-q", "--amend", "-m", "another history"])?;
    project.tip = project.tree.tip("HEAD")?;
    let rewritten = project.state(40);
    publish(&upstream, &rewritten).await?;
    let push = ["+main:refs/heads/main"];
    let pushed = project.tree.push(&project.url(&upstream), &push).await?;
    ensure!(pushed.ok, "{pushed:?}");
    served(&archive, &rewritten).await?;
    git::until_ref(&url, "refs/heads/main", &project.tip).await?;
    archive.crash_and_restart().await?;

    let shown = git::ls_remote(&url).await?;
    let names: Vec<&str> = shown.iter().map(|(name, _)| name.as_str()).collect();
    ensure!(names == ["HEAD", "refs/heads/main"], "{names:?}");
    let reader = WorkTree::init()?;
    reader.run(["fetch", "-q", &url, &first]).await?.text()?;
    ensure!(reader.tip("FETCH_HEAD")? == first);

    let subject = format!("{}/tides", project.owner.npub());
    let log = archive.run(&["archive", "log", &subject]).await?;
    must_contain(&log, &["refs/heads/main", &first]);
    let listed = archive.run(&["archive", "log", &subject, "--json"]).await?;
    let listed: Value = serde_json::from_str(&listed)?;
    ensure!(listed["total"] == 2, "{listed}");
    let newest = &listed["moves"][0];
    ensure!(
        newest["from"] == *first && newest["to"] == *project.tip,
        "{listed}"
    );
    ensure!(newest["state"] == rewritten.id.to_hex(), "{listed}");
    ensure!(newest["author"] == project.owner.npub(), "{listed}");
    let page = archive.get(&format!("/{subject}/moves")).await?.text();
    must_contain(&page, &[&format!("/commit/{first}"), "created"]);
    let commit = archive.get(&format!("/{subject}/commit/{first}")).await?;
    ensure!(commit.status == 200, "a lost commit can be read");
    archive.run(&["check", "--full"]).await?;
    Ok(())
}

/// An upstream that takes a branch and a tag back takes them from what the archive shows, not from what it has.
#[tokio::test]
async fn g05_2_a_branch_and_a_tag_that_upstream_deleted_keep_their_tips() -> Result<()> {
    let upstream = node().await?;
    let archive = archive_of(&upstream).await?;
    let project = LocalProject::new("tides")?;
    let announcement = project.announcement_at(&[&upstream], &[], 60);
    publish(&upstream, &announcement).await?;
    let main = ("refs/heads/main", project.tip.as_str());
    let tree = &project.tree;
    tree.git(["checkout", "-q", "-b", "fix"])?;
    let fix = tree.commit("fix", "1")?;
    tree.git(["tag", "-a", "v1", "-m", "first"])?;
    let tagged = tree.tip("v1")?;
    let state = project.state_at(
        &[main, ("refs/heads/fix", &fix), ("refs/tags/v1", &tagged)],
        50,
    );
    publish(&upstream, &state).await?;
    let place = project.url(&upstream);
    tree.push_ok(&place, &["main", "fix", "v1"]).await?;
    served(&archive, &state).await?;
    let url = project.url(&archive);
    git::until_ref(&url, "refs/tags/v1", &tagged).await?;

    let deleted = project.state_at(&[main], 40);
    publish(&upstream, &deleted).await?;
    served(&archive, &deleted).await?;
    let left = git::branches_and_tags(&url).await?;
    ensure!(left == [(main.0.to_owned(), main.1.to_owned())], "{left:?}");
    let reader = WorkTree::init()?;
    for tip in [&fix, &tagged] {
        reader.run(["fetch", "-q", &url, tip]).await?.text()?;
        ensure!(reader.tip("FETCH_HEAD")? == *tip);
    }
    let subject = format!("{}/tides", project.owner.npub());
    let log = archive.run(&["archive", "log", &subject]).await?;
    must_contain(&log, &["refs/heads/fix", &fix, "refs/tags/v1", &tagged]);
    Ok(())
}

/// The text for all is shown above.
#[tokio::test]
async fn g05_11_what_is_taken_is_said_for_each_selection() -> Result<()> {
    let npub = Author::new().npub();
    let whitelisted = "whitelisted repositories and maintainers";
    for (name, value, text) in [
        (
            "NGIT_ARCHIVE_WHITELIST",
            npub.as_str(),
            format!("Read-only sync of {whitelisted}"),
        ),
        (
            "NGIT_ARCHIVE_GRASP_SERVICES",
            "git.example.com",
            "Read-only sync of repositories on selected grasp servers".to_owned(),
        ),
        (
            "NGIT_REPOSITORY_WHITELIST",
            npub.as_str(),
            format!("Accepts only {whitelisted} that list this service"),
        ),
    ] {
        let node = node_with(&[(name, value)]).await?;
        let accept = [("accept", "application/nostr+json")];
        let document: Value = node.ask("GET", "/", &accept, b"").await?.json()?;
        ensure!(document["curation"] == text.as_str(), "{name}: {document}");
    }
    Ok(())
}
