//! Many nodes in one process.

use std::collections::HashSet;

use bytes::Bytes;
use grip_testkit::{until, within};
use libp2p::futures::future::join_all;
use tokio::time::Instant;

use super::support::{Node, key, options};
use crate::{Dht as _, Peer, RecordKey};

const NODES: usize = 32;

/// Begins at the farthest of the peers we would begin at, so that closer ones must be named, and
/// asks the nearest each time; the value, and how many hops and requests it took.
async fn lookup(from: &Node, key: &RecordKey) -> Option<(Bytes, usize, usize)> {
    let farthest = from.dht.local_response(key).await.closer.pop();
    let mut open: Vec<(Peer, usize)> = farthest.into_iter().map(|peer| (peer, 1)).collect();
    let mut asked = HashSet::new();
    while !open.is_empty() {
        open.sort_by_key(|(peer, _)| std::cmp::Reverse(key.distance(&peer.id)));
        let (peer, hops) = open.pop()?;
        if !asked.insert(peer.id.clone()) {
            continue;
        }
        let Ok(response) = from.dht.request(&peer, key).await else {
            continue;
        };
        if let Some(value) = response.value {
            return Some((value, hops, asked.len()));
        }
        open.extend(response.closer.into_iter().map(|peer| (peer, hops + 1)));
    }
    None
}

/// Resident memory in KiB.
fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[tokio::test]
async fn among_many_nodes_every_record_is_found_from_every_node() {
    let (before, began) = (memory(), Instant::now());
    let mut nodes: Vec<Node> = Vec::new();
    for i in 0..NODES {
        let mut options = options(i as u8 + 1);
        options.bootstrap = nodes.iter().take(2).map(Node::place).collect();
        let node = Node::start(options).await;
        // One after the other, so that nobody asks those who know nothing yet.
        node.knows((i / 2).min(NODES / 2)).await;
        nodes.push(node);
    }
    join_all(nodes.iter().map(|node| node.knows(NODES / 2))).await;
    let (joined, joined_in) = (memory(), began.elapsed());

    let keys: Vec<RecordKey> = (0..NODES).map(|i| key(&format!("record {i}"))).collect();
    let published = join_all(nodes.iter().zip(&keys).map(|(node, key)| {
        let value = Bytes::from(format!("value of {key}"));
        node.dht.publish(key.clone(), Some(value))
    }));
    let published = within("all is published", published).await.unwrap();
    let stored: Vec<usize> = published
        .into_iter()
        .map(|p| p.unwrap().stored_at)
        .collect();
    assert!(stored.iter().all(|stored| *stored >= 15), "{stored:?}");
    let held = || async {
        let held: usize = nodes.iter().map(|node| node.dht.status().records).sum();
        (held >= stored.iter().sum::<usize>()).then_some(held)
    };
    let held = until("what was acknowledged is validated and stored", held)
        .await
        .unwrap();

    let (mut hops, mut asked, looking_up) = (Vec::new(), 0, Instant::now());
    for node in &nodes {
        for key in &keys {
            let found = within("the lookup ends", lookup(node, key)).await.unwrap();
            let (value, steps, requests) = found.expect("the record is found");
            assert_eq!(value, format!("value of {key}"));
            hops.push(steps);
            asked += requests;
        }
    }
    let most = hops.iter().max().copied().unwrap_or(0);
    assert!(
        most <= 3,
        "in a network this small a lookup is short: {most}"
    );
    let lookups = hops.len();
    let sum: usize = hops.iter().sum();
    println!(
        "{NODES} nodes: {} KiB a node joined, {} KiB at the end; {held} records held; {lookups} \
         lookups, {:.2} hops (most {most}), {:.2} requests each; joined in {joined_in:.1?}, found \
         in {:.1?}",
        joined.saturating_sub(before) / NODES,
        memory().saturating_sub(before) / NODES,
        sum as f64 / lookups as f64,
        asked as f64 / lookups as f64,
        looking_up.elapsed(),
    );
    join_all(nodes.iter().map(Node::stop)).await;
}
