//! The reference of metrics beside what a running node exposes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    net::Ipv4Addr,
};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{
    FakeGitHub, LocalProject, Node, Project, RedisServer, RemoteHost, WorkTree, http::Connection,
    until_ok,
};

use crate::{
    BINARY,
    watch::scene::{deliver, push, watching},
};

/// What is known of one metric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Metric {
    kind: String,
    help: String,
    labels: BTreeSet<String>,
}

/// Reads the exposition format of OpenMetrics.
fn read(text: &str) -> Result<BTreeMap<String, Metric>> {
    let mut all: BTreeMap<String, Metric> = BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').context("a help")?;
            all.entry(name.to_owned()).or_default().help = help.trim_end_matches('.').to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').context("a type")?;
            all.entry(name.to_owned()).or_default().kind = kind.to_owned();
        } else if let Some((sample, rest)) = line.split_once('{') {
            let of = ["", "_total", "_bucket", "_sum", "_count"];
            let name = of.iter().find_map(|end| {
                let name = sample.strip_suffix(end)?;
                all.contains_key(name).then(|| name.to_owned())
            });
            let metric = name.and_then(|name| all.get_mut(&name));
            let metric = metric.with_context(|| format!("{sample} has no type"))?;
            let labels = rest.split_once('}').context("labels end")?.0;
            let names = labels
                .split("\",")
                .filter_map(|label| label.split_once("=\""));
            let names = names.map(|(name, _)| name.trim_matches(',').to_owned());
            metric.labels.extend(names.filter(|name| name != "le"));
        }
    }
    Ok(all)
}

/// A node with all features, which has met what is counted by outcome.
async fn seen() -> Result<(Node, FakeGitHub, RedisServer, RemoteHost)> {
    let github = FakeGitHub::enterprise("127.0.0.94", false).await?;
    github.add_user("mona");
    push(&github, "mona", "acme/tides")?;
    let redis = RedisServer::start().await?;
    let mut node = watching(
        &github,
        &[
            ("GRIPFAST_DHT_ENABLED", "true"),
            ("GRIPFAST_DHT_LAN_ONLY", "true"),
            ("GRIPFAST_DHT_LISTEN", "/ip4/127.0.0.1/tcp/0"),
            ("GRIPFAST_REDIS_URL", &redis.url()),
            ("GRIPFAST_INDEX_GITHUB", &github.place("/orgs/acme")),
            // So that other addresses of this machine are clients.
            ("GRIPFAST_TRUSTED_PROXY_CIDRS", "127.0.0.1/32"),
            ("GRIPFAST_HTTP_REQUESTS_PER_SECOND", "5"),
            ("GRIPFAST_HEADER_TIMEOUT", "1s"),
            ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true"),
            ("NGIT_SYNC_DEFAULT_DELAY_SECS", "0"),
            ("NGIT_SYNC_LOOP_INTERVAL_MS", "100"),
        ],
    )?;
    node.launch().await?;
    // A push, a clone, one refused, and a webhook without a signature.
    let local = LocalProject::new("x")?;
    local.publish(&node, 5).await?;
    WorkTree::clone(&local.url(&node), &[]).await?;
    local.tree.commit("unannounced", "no state names it")?;
    local.tree.push(&local.url(&node), &["main"]).await?;
    deliver(&node, "d-1", "push", "{}", None).await?;
    // Data that is looked for at a host, and a relay that is followed.
    let host = RemoteHost::start("127.0.0.2").await?;
    let elsewhere = Project::new("elsewhere");
    let mut relay = node.connect().await?;
    let url = host.clone_url("elsewhere.git");
    relay
        .publish_ok(&elsewhere.announcement(&[&node], &[url]))
        .await?;
    let tip = "ab".repeat(20);
    relay
        .publish(&elsewhere.state(&[("refs/heads/main", &tip)]))
        .await?;
    // A connection that sends nothing is cut, and too many requests are refused.
    let _silent = Connection::open(node.port()).await?;
    until_ok("a request is refused", async || {
        let mut client = Connection::open_from(Ipv4Addr::new(127, 0, 0, 5), node.port()).await?;
        let status = client.get("/api/v1/tasks").await?.status;
        Ok((status == 429).then_some(()))
    })
    .await?;
    Ok((node, github, redis, host))
}

/// Events are refused before any commit could fail: who watches metrics alone sees it all the same.
#[tokio::test]
async fn a_part_is_degraded_for_as_long_as_its_disk_is_full() -> Result<()> {
    const FLOOR: &str = "GRIPFAST_MIN_FREE_BYTES";
    let mut node = Node::start_with(BINARY, &[(FLOOR, "900000 GiB")]).await?;
    let shows = async |node: &Node, value: u8| {
        let wanted = format!("degraded{{part=\"disk\"}} {value}\n");
        until_ok("the disk in the metrics", async || {
            let exposed = node.get("/metrics").await?.text();
            Ok(exposed.contains(&wanted).then_some(exposed))
        })
        .await
    };
    let exposed = shows(&node, 1).await?;
    for part in ["database", "object_store", "redis", "repositories", "sync"] {
        let well = format!("degraded{{part=\"{part}\"}} 0\n");
        ensure!(exposed.contains(&well), "{well}{exposed}");
    }
    ensure!(
        exposed.contains("relay_commits_failed_total 0\n"),
        "{exposed}"
    );
    node.stop().await?;
    node.set_env(FLOOR, "1 MiB");
    node.launch().await?;
    shows(&node, 0).await?;
    Ok(())
}

fn page(metrics: &BTreeMap<String, Metric>) -> String {
    let mut out = format!(
        "# Metrics\n\nMade from what a running node with all features exposes at `/metrics` \
         (OpenMetrics): {} metrics. Samples of a counter end with `_total`, those of a histogram with \
         `_bucket`, `_sum` and `_count`. Labels come from fixed sets; of hosts the busiest are named, \
         and the rest is `other`. A board is in packaging/grafana, alerts are in \
         packaging/prometheus.\n\n\
         | metric | type | labels | meaning |\n|---|---|---|---|\n",
        metrics.len()
    );
    for (name, metric) in metrics {
        let labels: Vec<_> = metric
            .labels
            .iter()
            .map(|label| format!("`{label}`"))
            .collect();
        let (kind, help) = (&metric.kind, &metric.help);
        let _ = writeln!(
            out,
            "| `{name}` | {kind} | {} | {help} |",
            labels.join(", ")
        );
    }
    out
}

/// `UPDATE_DOCS=1` writes the reference.
#[tokio::test]
async fn the_documented_metrics_are_those_of_a_running_node() -> Result<()> {
    let (node, _github, _redis, _host) = seen().await?;
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let is_update = std::env::var_os("UPDATE_DOCS").is_some();
    let (mut text, mut before) = (String::new(), None);
    // Some are sampled beside the database, and some work is under way.
    let waited = until_ok("it exposes what is documented", async || {
        let exposed = node.get("/metrics").await?;
        ensure!(exposed.status == 200, "{}", exposed.text());
        let metrics = read(&exposed.text())?;
        text = page(&metrics);
        let is_settled = before.replace(metrics.clone()) == Some(metrics);
        let is_known = std::fs::read_to_string(file).is_ok_and(|written| written == text);
        Ok((is_known || (is_update && is_settled)).then_some(()))
    })
    .await;
    if is_update {
        std::fs::write(file, &text)?;
    }
    let written = std::fs::read_to_string(file)?;
    let missing: Vec<_> = written
        .lines()
        .filter(|line| !text.contains(*line))
        .collect();
    let new: Vec<_> = text
        .lines()
        .filter(|line| !written.contains(*line))
        .collect();
    ensure!(
        waited.is_ok(),
        "docs/metrics.md is not what a node exposes: UPDATE_DOCS=1 writes it\n\
         documented alone: {missing:#?}\nexposed alone: {new:#?}"
    );
    Ok(())
}
