//! The feed of module versions over the wire.

use std::{io::Read as _, sync::Arc};

use anyhow::Result;
use flate2::read::GzDecoder;
use grip_testkit::{Response, until};
use serde_json::Value;

use crate::{forge::Forge, support::Node};

/// A node whose forge has `tides` with these tags, all of them in the feed.
async fn node(tags: &[&str]) -> Result<(Node, Arc<Forge>)> {
    let forge = Forge::new();
    forge.add("tides", tags);
    let node = Node::start_indexed(Some(Arc::clone(&forge))).await?;
    wait_for(&node, tags.len()).await?;
    Ok((node, forge))
}

async fn wait_for(node: &Node, versions: usize) -> Result<()> {
    let index = node.index.clone().expect("the node has an index");
    until("all versions are in the feed", || async {
        let status = index.status().await;
        status
            .is_ok_and(|status| status.versions == versions as i64)
            .then_some(())
    })
    .await
}

/// Brings the forge's repository to its turn and waits until the feed has moved on.
async fn look_again(node: &Node) -> Result<()> {
    let index = node.index.clone().expect("the node has an index");
    let before = index.stamp().await?;
    node.queue
        .retry("index-repo", "forge.example/acme/tides")
        .await?;
    until("the feed moves on", || async {
        let stamp = index.stamp().await;
        stamp.is_ok_and(|stamp| stamp > before).then_some(())
    })
    .await
}

fn lines(reply: &Response) -> Vec<Value> {
    let text = reply.text();
    assert!(text.is_empty() || text.ends_with('\n'), "{text:?}");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("each line is JSON"))
        .collect()
}

fn versions(reply: &Response) -> Vec<String> {
    let lines = lines(reply).into_iter();
    lines
        .map(|line| line["Version"].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[tokio::test]
async fn the_feed_is_lines_of_json_that_go_tools_read() -> Result<()> {
    let (node, _) = node(&["v1.0.0", "v1.1.0"]).await?;
    let reply = node.get("/index").await?;
    assert_eq!(reply.must_allow_any_origin().status, 200);
    assert_eq!(reply.header("content-type"), "application/x-ndjson");
    assert_eq!(reply.header("cache-control"), "no-cache");
    assert_eq!(reply.header("vary"), "accept-encoding");
    assert_eq!(reply.header("content-encoding"), "");
    let lines = lines(&reply);
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["Path"], "forge.example/acme/tides");
    assert_eq!(lines[0]["Created"], "2023-11-14T22:13:19.000000Z");
    let at = lines[0]["Timestamp"].as_str().unwrap();
    assert_eq!(at.len(), "2019-04-10T19:08:52.997264Z".len(), "{at}");
    Ok(())
}

#[tokio::test]
async fn a_follower_pages_by_since_which_is_inclusive() -> Result<()> {
    let tags: Vec<_> = (0..7).map(|n| format!("v1.{n}.0")).collect();
    let tags: Vec<_> = tags.iter().map(String::as_str).collect();
    let (node, _) = node(&tags).await?;
    let mut seen = Vec::new();
    let mut since = String::new();
    loop {
        let reply = node.get(&format!("/index?since={since}&limit=3")).await?;
        let page = lines(&reply);
        let last = page.last().unwrap()["Timestamp"].as_str().unwrap();
        let is_over = page.len() < 3 || last == since;
        seen.extend(versions(&reply));
        if is_over {
            break;
        }
        assert!(since.is_empty() || page[0]["Timestamp"] == since.as_str());
        since = last.to_owned();
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen, tags);
    // The document's order: by the tag's own date, the newest first.
    let created = versions(&node.get("/index?clock=created").await?);
    assert_eq!(created, tags);
    let below = node.get("/index?path=forge.example/acme&limit=2").await?;
    assert_eq!(lines(&below).len(), 2);
    let none = node.get("/index?path=forge.example/ac").await?;
    assert_eq!((none.status, none.body.len()), (200, 0));
    Ok(())
}

#[tokio::test]
async fn a_wrong_parameter_is_400_with_a_sentence_and_an_example() -> Result<()> {
    let (node, _) = node(&[]).await?;
    for (path, parts) in [
        ("/index?since=yesterday", ["since", "2019-04-10T19:08:52"]),
        ("/index?limit=2001", ["limit", "from 1 to 2000"]),
        ("/index?limit=0", ["limit", "from 1 to 2000"]),
        ("/index?clock=mine", ["clock", "created"]),
        (
            "/index/changes?cursor=soon",
            ["cursor", "1554923332997264001"],
        ),
    ] {
        let reply = node.get(path).await?;
        assert_eq!(reply.must_allow_any_origin().status, 400, "{path}");
        for part in parts {
            assert!(reply.text().contains(part), "{path}: {}", reply.text());
        }
    }
    let pkgsite = node.get("/index?limit=10&include=all&since=").await?;
    assert_eq!(pkgsite.status, 200);
    let post = node.ask("POST", "/index", &[], b"").await?;
    assert_eq!(post.status, 405);
    Ok(())
}

#[tokio::test]
async fn who_has_the_page_is_told_so_until_the_feed_changes() -> Result<()> {
    let (node, forge) = node(&["v1.0.0"]).await?;
    for path in ["/index", "/index/changes"] {
        let first = node.get(path).await?;
        let etag = first.header("etag").to_owned();
        assert!(etag.starts_with('"') && etag.len() > 16, "{etag}");
        let known = [("if-none-match", etag.as_str())];
        let again = node.ask("GET", path, &known, b"").await?;
        assert_eq!((again.status, again.body.len()), (304, 0));
        assert_eq!(again.header("etag"), etag);
        again.must_allow_any_origin();
        let other = node
            .ask("GET", &format!("{path}?limit=1"), &known, b"")
            .await?;
        assert_eq!(other.status, 200, "another page has another tag");
    }
    let etag = node.get("/index").await?.header("etag").to_owned();
    forge.tag("tides", "v1.1.0", Some(9));
    look_again(&node).await?;
    let known = [("if-none-match", etag.as_str())];
    let changed = node.ask("GET", "/index", &known, b"").await?;
    assert_eq!(changed.status, 200);
    assert_eq!(versions(&changed), ["v1.0.0", "v1.1.0"]);
    Ok(())
}

#[tokio::test]
async fn gzip_is_sent_to_who_asks_for_it_under_a_tag_of_its_own() -> Result<()> {
    let (node, _) = node(&["v1.0.0", "v1.1.0"]).await?;
    let plain = node.get("/index").await?;
    let accept = [("accept-encoding", "br, gzip")];
    let packed = node.ask("GET", "/index", &accept, b"").await?;
    assert_eq!(packed.header("content-encoding"), "gzip");
    assert_ne!(packed.header("etag"), plain.header("etag"));
    let mut unpacked = Vec::new();
    GzDecoder::new(&packed.body[..]).read_to_end(&mut unpacked)?;
    assert_eq!(unpacked, plain.body);
    Ok(())
}

#[tokio::test]
async fn head_is_get_without_its_body() -> Result<()> {
    let (node, _) = node(&["v1.0.0"]).await?;
    let get = node.get("/index").await?;
    let head = node.ask("HEAD", "/index", &[], b"").await?;
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("etag"), get.header("etag"));
    assert_eq!(head.header("content-length"), get.body.len().to_string());
    Ok(())
}

#[tokio::test]
async fn changes_tell_what_was_added_moved_and_removed() -> Result<()> {
    let (node, forge) = node(&["v1.0.0", "v1.1.0"]).await?;
    let first = node.get("/index/changes").await?;
    assert_eq!(first.header("content-type"), "application/x-ndjson");
    let cursor = first.header("gripfast-cursor").to_owned();
    assert_eq!(lines(&first).last().unwrap()["Cursor"], cursor.as_str());
    let next = format!("/index/changes?cursor={cursor}");
    let nothing = node.get(&next).await?;
    assert_eq!((nothing.status, nothing.body.len()), (200, 0));
    assert_eq!(nothing.header("gripfast-cursor"), cursor);

    forge.tag("tides", "v1.0.0", None);
    forge.tag("tides", "v1.1.0", Some(77));
    look_again(&node).await?;
    let reply = node.get(&next).await?;
    let mut changes = lines(&reply);
    changes.sort_by_key(|change| change["Version"].to_string());
    let [removed, moved] = changes.as_slice() else {
        anyhow::bail!("two changes are told: {}", reply.text());
    };
    assert_eq!(removed["Op"], "removed");
    assert!(removed.get("Previous").is_none());
    assert_eq!(moved["Op"], "moved");
    assert_eq!(moved["Path"], "forge.example/acme/tides");
    assert_eq!(moved["Repository"], "forge.example/acme/tides");
    assert_eq!(moved["Tag"], "v1.1.0");
    assert_eq!(moved["Commit"], format!("{:040x}", 77));
    assert_eq!(moved["Previous"], format!("{:040x}", 2));
    let one = node.get(&format!("{next}&limit=1")).await?;
    assert_eq!(lines(&one).len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_node_without_an_index_says_so() -> Result<()> {
    let node = Node::start().await?;
    for path in [
        "/index",
        "/index/changes",
        "/api/v1/index",
        "/go/a.example/x/@v/list",
    ] {
        let reply = node.get(path).await?;
        reply.must_be(404, &["index_enabled"]);
    }
    let page = node.get("/modules").await?;
    assert!(page.text().contains("switched off"), "{}", page.text());
    let home = node.get("/").await?.text();
    assert!(!home.contains("href=\"/modules\""));
    Ok(())
}
