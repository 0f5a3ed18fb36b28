//! Ways into a private node beside HTTP: there are none.

use std::{collections::HashSet, fs};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::Node;

use super::{Person, configure, private_node};
use crate::BINARY;

/// State of a listening TCP socket in `/proc/net/tcp`, and of one for UDP in `/proc/net/udp`.
const LISTENING: &str = "0A";
const UNCONNECTED: &str = "07";

/// The local ports at which a process takes connections or datagrams, as `/proc` tells.
fn open_ports(process: u32) -> Result<Vec<(&'static str, u16)>> {
    let mut sockets = HashSet::new();
    for entry in fs::read_dir(format!("/proc/{process}/fd"))? {
        // A descriptor may be closed meanwhile.
        let Ok(target) = fs::read_link(entry?.path()) else {
            continue;
        };
        let target = target.to_string_lossy().into_owned();
        let inode = target.strip_prefix("socket:[");
        sockets.extend(inode.map(|it| it.trim_end_matches(']').to_owned()));
    }
    let mut ports = Vec::new();
    for (table, state) in [
        ("tcp", LISTENING),
        ("tcp6", LISTENING),
        ("udp", UNCONNECTED),
        ("udp6", UNCONNECTED),
    ] {
        let text = fs::read_to_string(format!("/proc/{process}/net/{table}"))?;
        for line in text.lines().skip(1) {
            let cells: Vec<&str> = line.split_whitespace().collect();
            let (local, found, inode) = (cells[1], cells[3], cells[9]);
            if found == state && sockets.contains(inode) {
                let (_, port) = local.split_once(':').context("an address")?;
                ports.push((table, u16::from_str_radix(port, 16)?));
            }
        }
    }
    Ok(ports)
}

/// G08-3: nobody can ask a private node anything over the DHT, because it is not part of it.
#[tokio::test]
async fn a_private_node_answers_at_its_http_port_alone() -> Result<()> {
    let ada = Person::new()?;
    let node = private_node(&[&ada]).await?;
    let expected = [("tcp", node.port())];
    ensure!(
        open_ports(node.id()?)? == expected,
        "{:?}",
        open_ports(node.id()?)?
    );
    // And a public one with the DHT does answer elsewhere: the test would notice.
    let dht = [
        ("GRIPFAST_DHT_ENABLED", "true"),
        ("GRIPFAST_DHT_LISTEN", "/ip4/127.0.0.1/tcp/0"),
    ];
    let public = Node::start_with(BINARY, &dht).await?;
    ensure!(open_ports(public.id()?)?.len() > 1);
    Ok(())
}

/// G08-2
#[tokio::test]
async fn a_private_node_does_not_start_with_the_dht() -> Result<()> {
    let ada = Person::new()?;
    let mut node = Node::prepare(BINARY, &[("GRIPFAST_DHT_ENABLED", "true")])?;
    configure(&node, &[&ada])?;
    node.spawn()?;
    ensure!(!node.wait().await?.success());
    ensure!(
        node.log()
            .contains("would tell other nodes what a private service has"),
        "{}",
        node.log()
    );
    Ok(())
}
