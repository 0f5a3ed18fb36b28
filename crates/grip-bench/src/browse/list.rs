//! The list of very many repositories beside the home page.

use std::path::Path;

use anyhow::{Result, ensure};
use grip_testkit::{Author, Node, WorkTree, until, wire};

use super::{SETTINGS, ask};
use crate::{
    http::Connection,
    report::{Table, percentile},
};

/// The path of the nth request, among so many pages.
type Form = fn(usize, usize) -> String;

/// Repositories of one owner.
const PER_OWNER: usize = 100;

pub(super) async fn measure(binary: &Path, count: usize, table: &mut Table) -> Result<()> {
    let more = [
        ("GRIPFAST_RELAY_EVENTS_PER_SECOND", "0"),
        ("GRIPFAST_RELAY_REQUESTS_PER_SECOND", "0"),
    ];
    let node = Node::start_with(binary, &[SETTINGS, &more].concat()).await?;
    publish(&node, count).await?;
    let pages = count.div_ceil(30);
    let forms: [(&str, Form); 4] = [
        ("home page", |_, _| "/".to_owned()),
        ("page of the list", |n, pages| {
            format!("/repositories?page={}", n % pages + 1)
        }),
        ("list by name", |n, pages| {
            format!("/repositories?sort=name&page={}", n % pages + 1)
        }),
        ("search", |n, _| {
            format!("/repositories?q=harbour+{}", n % 1_000)
        }),
    ];
    let mut home = None;
    for (name, path) in forms {
        let (rate, mut millis) = ask(node.port(), 0, |n| path(n, pages)).await?;
        let p99 = percentile(&mut millis, 0.99);
        let home = *home.get_or_insert(p99);
        table.row(
            &format!("{name}, {count} repositories"),
            format!("{rate:.0}/s, p99 {p99:.1} ms"),
            &format!("home page p99 {home:.1} ms"),
            Some(p99 / home),
            "–",
        );
    }
    Ok(())
}

/// Publishes one commit under very many names.
async fn publish(node: &Node, count: usize) -> Result<()> {
    let tree = WorkTree::with_commit()?;
    let tip = tree.tip("HEAD")?;
    let mut body = wire::commands(&[(wire::ZERO, &tip, "refs/heads/main")], wire::CAPABILITIES);
    body.extend(wire::pack(&tree, &tip, None).await?);
    let mut relay = node.connect().await?;
    let mut http = Connection::open(node.port()).await?;
    let mut owner = Author::new();
    for n in 0..count {
        if n % PER_OWNER == 0 {
            owner = Author::new();
        }
        let name = format!("harbour-{n}");
        let announcement = owner.announcement(&node.authority(), &name, vec![]);
        relay.publish_ok(&announcement).await?;
        let refs = [("refs/heads/main", tip.as_str())];
        relay
            .publish_ok(&owner.state(&name, &refs, Some("refs/heads/main")))
            .await?;
        let path = format!("/{}/{name}.git/git-receive-pack", owner.npub());
        let report = http.post(&path, wire::PUSH_TYPE, "", &body).await?;
        let report = String::from_utf8_lossy(&report.body).into_owned();
        ensure!(report.contains("ok refs/heads/main"), "{name}: {report}");
    }
    until("all are listed", || async {
        let list = node.get("/repositories").await.ok()?.text();
        let total = match count {
            0..1_000 => count.to_string(),
            _ => format!("{},{:03}", count / 1_000, count % 1_000),
        };
        list.contains(&format!("{total} repositories"))
            .then_some(())
    })
    .await
}
