//! A node with one served repository, and what the machine itself can do.

use std::{fs::File, io::Write as _, path::Path, time::Instant};

use anyhow::{Context as _, Result};
use grip_testkit::{Author, LocalProject, Node};
use nostr::prelude::{Event, Timestamp};

/// Limits off: the engine is measured, not its politeness.
pub const SETTINGS: &[(&str, &str)] = &[
    ("GRIPFAST_RELAY_EVENTS_PER_SECOND", "0"),
    ("GRIPFAST_RELAY_REQUESTS_PER_SECOND", "0"),
    ("GRIPFAST_HTTP_REQUESTS_PER_SECOND", "0"),
    ("GRIPFAST_MAX_CONNECTIONS_PER_IP", "4096"),
    ("NGIT_LOG_LEVEL", "warn"),
];

pub struct Fixture {
    pub node: Node,
    pub project: LocalProject,
}

impl Fixture {
    /// Starts `binary` and serves one repository with one commit.
    pub async fn new(binary: &Path) -> Result<Self> {
        Self::with(binary, &[]).await
    }

    /// Like [`Fixture::new`], with further settings.
    pub async fn with(binary: &Path, settings: &[(&str, &str)]) -> Result<Self> {
        let node = Node::start_with(binary, &[SETTINGS, settings].concat()).await?;
        Self::at(node).await
    }

    /// Has a running node serve such a repository.
    pub async fn at(node: Node) -> Result<Self> {
        let project = LocalProject::new("bench")?;
        project.publish(&node, 3_000).await?;
        Ok(Self { node, project })
    }

    pub fn url(&self) -> String {
        self.project.url(&self.node)
    }

    /// A state of the owner; later `version`s are later.
    pub fn state(&self, refs: &[(&str, &str)], version: u64) -> Event {
        self.project.state_at(refs, 3_000 - version)
    }

    /// Events that look like issues, about 830 bytes each.
    pub fn issues(&self, authors: &[Author], count: usize) -> Vec<Event> {
        let coordinate = self.project.coordinate();
        let body = "The tide table is off by an hour after the clocks change. ".repeat(5);
        (0..count)
            .map(|n| {
                let tags = vec![
                    grip_testkit::events::tag(["a", &coordinate]),
                    grip_testkit::events::tag(["p", &self.project.owner.hex()]),
                    grip_testkit::events::tag(["subject", &format!("issue {n}")]),
                ];
                let at = Timestamp::from_secs(Timestamp::now().as_secs() - 100_000 + n as u64);
                authors[n % authors.len()].sign_at(1621, &body, tags, at)
            })
            .collect()
    }

    /// Seconds of CPU the server has used.
    pub fn cpu_seconds(&self) -> Result<f64> {
        cpu_seconds(&format!("/proc/{}/stat", self.node.id()?))
    }
}

/// Seconds of CPU, user's and system's, as a `stat` file of `/proc` tells them.
pub fn cpu_seconds(stat: &str) -> Result<f64> {
    let stat = std::fs::read_to_string(stat)?;
    let fields = stat.rsplit_once(')').context("stat has a name")?.1;
    let ticks: Vec<f64> = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|f| f.parse().ok())
        .collect();
    Ok(ticks.iter().sum::<f64>() / 100.0)
}

/// Microseconds to check one event's id and signature on one core.
pub fn verify_micros(events: &[Event]) -> f64 {
    let sample = &events[..events.len().min(500)];
    let began = Instant::now();
    for event in sample {
        assert!(event.verify().is_ok(), "events are signed");
    }
    began.elapsed().as_secs_f64() * 1e6 / sample.len() as f64
}

/// Milliseconds for one small durable write.
pub fn sync_millis() -> Result<f64> {
    let dir = tempfile::tempdir()?;
    let mut file = File::create(dir.path().join("probe"))?;
    let mut times = Vec::new();
    for _ in 0..50 {
        let began = Instant::now();
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    Ok(crate::report::median(&mut times))
}
