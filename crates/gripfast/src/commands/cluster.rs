//! `gripfast cluster`: the nodes, who leads, and how far each has followed; how a node alone becomes a member.

use anyhow::{Context as _, bail};
use grip_cluster::{Cluster, Member, NodeStatus, Snapshot, State, StoredTotals};
use grip_git::CacheUse;
use serde_json::json;

use crate::{
    cli::{ClusterAction, NodeRequest},
    commands::{
        progress::size,
        table::{self, Table},
        when::Now,
    },
    config::{self, DatabasePlace, ProcessEnvironment, Settings},
    node::{self, cluster, database},
};

/// A node that was not heard of for so long is taken for gone.
const SILENT_MS: i64 = 10_000;

/// Reads the tables of the cluster, whether a node runs here or not; or changes what a data directory is.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn run(request: &NodeRequest, action: ClusterAction) -> anyhow::Result<()> {
    let settings = config::load(&request.flags, &ProcessEnvironment)?.settings;
    match action {
        ClusterAction::Status => show_status(request, &settings).await,
        ClusterAction::Adopt => adopt(request, &settings).await,
        ClusterAction::Leave => leave(request, &settings).await,
    }
}

async fn adopt(request: &NodeRequest, settings: &Settings) -> anyhow::Result<()> {
    node::narrow_umask();
    let adopted = cluster::adopt(settings).await?;
    if request.json {
        anstream::println!("{:#}", serde_json::to_value(&adopted)?);
        return Ok(());
    }
    anstream::println!(
        "{} is the first member of the cluster {:?}: repositories {}, events {}, rows of the database {}",
        settings.storage.data_dir.display(),
        settings.cluster.cluster_name,
        adopted.repositories,
        adopted.events,
        adopted.rows
    );
    anstream::println!("start it, then others with empty data directories");
    Ok(())
}

async fn leave(request: &NodeRequest, settings: &Settings) -> anyhow::Result<()> {
    cluster::leave(settings).await?;
    if request.json {
        let data_dir = settings.storage.data_dir.to_string_lossy();
        let left = json!({ "data_dir": data_dir, "node_name": settings.cluster.cluster_name });
        anstream::println!("{left:#}");
        return Ok(());
    }
    anstream::println!(
        "{} is a node of its own: start it without cluster_packs and with node_name = {:?}, and no other \
         node of the cluster any more",
        settings.storage.data_dir.display(),
        settings.cluster.cluster_name
    );
    Ok(())
}

async fn show_status(request: &NodeRequest, settings: &Settings) -> anyhow::Result<()> {
    let DatabasePlace::Server(url) = settings.database() else {
        bail!("a cluster needs a Postgres server: name it with --database-url");
    };
    let db = database::connect_beside(&url, "status").await?;
    let member = Member {
        cluster: settings.cluster.cluster_name.clone(),
        node: db.node().to_owned(),
        address: String::new(),
    };
    let tables = Cluster::at(db.clone(), member);
    let (state, nodes) = (tables.state().await, tables.nodes().await);
    let (snapshots, stored) = (tables.snapshots().await, tables.stored_totals().await);
    let now_ms = db.now_ms();
    db.close().await;
    let state = state?.with_context(|| {
        let name = &settings.cluster.cluster_name;
        format!("the database knows no cluster {name:?} (cluster_name)")
    })?;
    let mut nodes = nodes?;
    nodes.truncate(request.limit.unwrap_or(usize::MAX));
    let status = Status {
        is_led: state.is_led(),
        state,
        nodes,
        snapshot: snapshots?.into_iter().next(),
        stored: stored?.filter(|stored| stored.files > 0),
        now_ms,
    };
    if request.json {
        anstream::println!("{:#}", status.json());
    } else {
        table::print(&status.page(Now::new()));
    }
    if status.is_led {
        Ok(())
    } else {
        bail!("no node leads the cluster")
    }
}

fn stored_line(stored: &StoredTotals) -> String {
    let bytes = |bytes: i64| size(u64::try_from(bytes).unwrap_or_default());
    format!(
        "object store: {} in {} files, {} of it unneeded\n",
        bytes(stored.bytes),
        stored.files,
        bytes(stored.unneeded_bytes)
    )
}

/// `98.3% of 1200`, or a dash where nobody asked for anything.
fn hits_cell(cache: CacheUse) -> String {
    let rate = cache.hit_rate();
    rate.map_or_else(
        || "–".to_owned(),
        |rate| format!("{:.1}% of {}", rate * 100.0, cache.hits + cache.misses),
    )
}

struct Status {
    state: State,
    nodes: Vec<NodeStatus>,
    /// The newest.
    snapshot: Option<Snapshot>,
    /// As the leader found it, if it has looked.
    stored: Option<StoredTotals>,
    is_led: bool,
    now_ms: i64,
}

impl Status {
    fn role(&self, node: &NodeStatus) -> &'static str {
        let is_silent = self.now_ms - node.seen_at > SILENT_MS;
        if self.is_led && node.node == self.state.leader {
            "leader"
        } else if is_silent {
            "silent"
        } else {
            "follower"
        }
    }

    /// Records that a node has not applied yet.
    fn lag(&self, node: &NodeStatus) -> i64 {
        (self.state.seq - node.seq).max(0)
    }

    fn json(&self) -> serde_json::Value {
        let nodes = self.nodes.iter().map(|node| {
            json!({
                "node": node.node,
                "address": node.address,
                "role": self.role(node),
                "records_behind": self.lag(node),
                "cache_hits": node.cache_hits,
                "cache_misses": node.cache_misses,
                "cache_hit_rate": node.cache_use().hit_rate(),
                "seen_at_ms": node.seen_at,
            })
        });
        json!({
            "leader": self.is_led.then_some(&self.state.leader),
            "epoch": self.state.epoch,
            "records": self.state.seq,
            "trimmed": self.state.trimmed,
            "snapshot": self.snapshot.as_ref().map(|snapshot| snapshot.seq),
            "object_store": self.stored.map(|stored| json!({
                "files": stored.files,
                "bytes": stored.bytes,
                "unneeded_bytes": stored.unneeded_bytes,
            })),
            "nodes": nodes.collect::<Vec<_>>(),
        })
    }

    fn page(&self, now: Now) -> String {
        let head = [
            "node",
            "role",
            "address",
            "behind",
            "cache hits",
            "last seen",
        ];
        let mut table = Table::new(head, 0);
        for node in &self.nodes {
            let (role, lag) = (self.role(node), self.lag(node));
            let seen = now.millis(node.seen_at);
            let hits = hits_cell(node.cache_use());
            table.row([&node.node, &role, &node.address, &lag, &hits, &seen]);
        }
        let State { epoch, seq, .. } = self.state;
        let snapshot = self.snapshot.as_ref().map_or_else(String::new, |snapshot| {
            format!(", snapshot at {}", snapshot.seq)
        });
        let stored = self.stored.as_ref().map_or_else(String::new, stored_line);
        format!(
            "epoch {epoch}, {seq} records{snapshot}\n{stored}\n{}",
            table.render()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, seq: i64, (cache_hits, cache_misses): (i64, i64)) -> NodeStatus {
        NodeStatus {
            node: name.to_owned(),
            address: "10.0.0.1:7334".to_owned(),
            seq,
            seen_at: 1_000_000,
            cache_hits,
            cache_misses,
        }
    }

    #[test]
    fn a_cluster_is_shown_with_lag_and_hit_rate_of_every_node() {
        let status = Status {
            state: State {
                epoch: 3,
                leader: "a".to_owned(),
                address: "10.0.0.1:7334".to_owned(),
                left_ms: 1,
                seq: 40,
                digest: String::new(),
                trimmed: 0,
            },
            nodes: vec![node("a", 40, (1_180, 20)), node("b", 38, (0, 0))],
            snapshot: None,
            stored: None,
            is_led: true,
            now_ms: 1_001_000,
        };
        let page = status.page(Now::at(1_001));
        let mut rows = page.lines().skip_while(|line| !line.contains("cache hits"));
        rows.next();
        let row = |name, role, behind, hits| {
            let cells = [name, role, "10.0.0.1:7334", behind, hits, "1s", "ago"];
            cells.join(" ")
        };
        let expected = [
            row("a", "leader", "0", "98.3% of 1200"),
            row("b", "follower", "2", "–"),
        ];
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(rows.map(words).collect::<Vec<_>>(), expected);
        let json = status.json();
        assert_eq!(json["nodes"][0]["cache_hit_rate"], 1_180.0 / 1_200.0);
        assert!(json["nodes"][1]["cache_hit_rate"].is_null());
    }
}
