//! The Grafana board and the alert rules ask for nothing that a node does not tell.

use std::{cell::RefCell, collections::BTreeSet};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{FakeGitHub, LocalProject, WorkTree, until};
use serde_json::Value;

use crate::watch::scene::{deliver, push, watching};

const BOARD: &str = include_str!("../../../../../packaging/grafana/gripfast.json");
const RULES: &str = include_str!("../../../../../packaging/prometheus/gripfast.rules.yml");

/// Words of PromQL that look like series.
const WORDS: &[&str] = &["and", "or", "unless"];

/// What Prometheus makes by itself.
const ITS_OWN: &str = "up";

/// A query: the series it names, and the labels it groups by.
#[derive(Debug, Default, PartialEq)]
struct Query {
    series: BTreeSet<String>,
    labels: BTreeSet<String>,
}

fn read(text: &str) -> Query {
    let mut query = Query::default();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        rest = match first {
            '{' => after(rest, '}'),
            '[' => after(rest, ']'),
            '"' => after(&rest[1..], '"'),
            '0'..='9' => rest.trim_start_matches(is_name),
            _ if is_name(first) => {
                let (name, next) = rest.split_at(rest.find(|c| !is_name(c)).unwrap_or(rest.len()));
                let next = next.trim_start();
                if name == "by" {
                    let (labels, next) = next[1..].split_once(')').expect("a list of labels");
                    query
                        .labels
                        .extend(labels.split(',').map(|it| it.trim().into()));
                    next
                } else {
                    let is_function = next.starts_with('(') || next.starts_with("by (");
                    if !is_function && !WORDS.contains(&name) {
                        query.series.insert(name.to_owned());
                    }
                    next
                }
            }
            _ => &rest[first.len_utf8()..],
        };
    }
    query
}

fn after(text: &str, end: char) -> &str {
    text.split_once(end).map_or("", |(_, rest)| rest)
}

#[test]
fn series_and_labels_are_read_out_of_a_query() {
    let query = read(
        "histogram_quantile(0.99, sum by (le, op) (rate(a_bucket{x=\"y, z\"}[5m]))) > 2 and b_1",
    );
    assert_eq!(query.series, ["a_bucket", "b_1"].map(str::to_owned).into());
    assert_eq!(query.labels, ["le", "op"].map(str::to_owned).into());
}

/// All queries of the board and of the rules.
fn queries() -> Result<Vec<Query>> {
    fn collect(value: &Value, queries: &mut Vec<Query>) {
        match value {
            Value::Object(fields) => {
                queries.extend(fields.get("expr").and_then(Value::as_str).map(read));
                fields.values().for_each(|field| collect(field, queries));
            }
            Value::Array(values) => values.iter().for_each(|value| collect(value, queries)),
            _ => {}
        }
    }
    let mut queries = Vec::new();
    collect(&serde_json::from_str(BOARD)?, &mut queries);
    let rules = RULES
        .lines()
        .filter_map(|line| line.trim().strip_prefix("expr: "));
    let (shown, alerts) = (queries.len(), rules.clone().count());
    ensure!(shown > 40 && alerts == RULES.matches("- alert: ").count());
    queries.extend(rules.map(read));
    Ok(queries)
}

/// What a query asks for and the metrics do not have.
fn lacking(query: &Query, metrics: &str) -> Option<String> {
    let samples: Vec<&str> = metrics
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    let is_of = |line: &str, name: &str| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
    };
    for name in query.series.iter().filter(|name| *name != ITS_OWN) {
        let mut of_it = samples.iter().filter(|line| is_of(line, name)).peekable();
        if of_it.peek().is_none() {
            return Some(name.clone());
        }
        let labels = query.labels.iter().filter(|label| *label != "instance");
        let sample = of_it.next().copied().unwrap_or_default();
        for label in labels {
            let marks = [format!("{{{label}=\""), format!(",{label}=\"")];
            if !marks.iter().any(|mark| sample.contains(mark)) {
                return Some(format!("{name} by {label}: {sample}"));
            }
        }
    }
    None
}

#[tokio::test]
async fn every_series_of_the_board_and_of_the_rules_exists() -> Result<()> {
    let queries = queries()?;
    let github = FakeGitHub::enterprise("127.0.0.95", false).await?;
    github.add_user("mona");
    push(&github, "mona", "acme/tides")?;
    let dht = [
        ("GRIPFAST_DHT_ENABLED", "true"),
        ("GRIPFAST_DHT_LAN_ONLY", "true"),
        ("GRIPFAST_DHT_LISTEN", "/ip4/127.0.0.1/tcp/0"),
    ];
    let mut node = watching(&github, &dht)?;
    node.launch().await?;
    // A push, a clone and a webhook that is refused: what is counted by outcome has one now.
    let local = LocalProject::new("x")?;
    local.publish(&node, 0).await?;
    WorkTree::clone(&local.url(&node), &[]).await?;
    deliver(&node, "d-1", "push", "{}", None).await?;

    let left = RefCell::new(None);
    let complete = || async {
        let metrics = node.get("/metrics").await.ok()?.text();
        let lacking = queries.iter().find_map(|query| lacking(query, &metrics));
        let is_complete = lacking.is_none();
        left.replace(lacking);
        is_complete.then_some(())
    };
    let told = until("every series is there", complete).await;
    told.with_context(|| format!("lacking: {left:?}\nlog:\n{}", node.log()))
}
