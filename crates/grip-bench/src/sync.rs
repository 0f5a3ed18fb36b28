//! Requests of a node that fetches, counted by the remote hosts.

pub mod waiting;

use std::{future::Future, path::Path, time::Duration};

use anyhow::{Context as _, Result};
use grip_testkit::{Author, Node, Project, RemoteHost, WorkTree, remote::Behaviour};
use serde_json::json;
use tokio::time::Instant;

use crate::{events::send_all, fixture::Fixture, report::Table};

const MINUTE: Duration = Duration::from_secs(60);

/// Hosts on this machine are asked, and soon.
const SETTINGS: &[(&str, &str)] = &[
    ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true"),
    ("NGIT_SYNC_DEFAULT_DELAY_SECS", "2"),
    ("GRIPFAST_PURGATORY_MAX_PER_AUTHOR", "100000"),
];

/// Four nodes at the same time: each of them mostly waits.
pub async fn measure(binary: &Path, table: &mut Table) -> Result<()> {
    let (burst, silence, half, hanging) = tokio::try_join!(
        burst(binary),
        silence(binary),
        half_missing(binary),
        hanging(binary)
    )?;
    for row in [burst, silence, half, hanging] {
        table.row(row.path, row.value, row.floor, row.ratio, row.peer);
    }
    Ok(())
}

struct Row {
    path: &'static str,
    value: String,
    floor: &'static str,
    ratio: Option<f64>,
    peer: &'static str,
}

/// How many events of these kinds are served.
async fn served(node: &Node, kinds: &[u16]) -> Result<usize> {
    let mut relay = node.connect().await?;
    let filter = json!({"kinds": kinds, "limit": 5_000});
    Ok(relay.query(&[filter]).await?.len())
}

/// Looks twice a second until `is_so`, for at most `limit`; the seconds it took.
async fn wait<F>(limit: Duration, what: &str, mut is_so: impl FnMut() -> F) -> Result<f64>
where
    F: Future<Output = Result<bool>>,
{
    let began = Instant::now();
    let looking = async {
        while !is_so().await? {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        anyhow::Ok(began.elapsed().as_secs_f64())
    };
    let done = tokio::time::timeout(limit, looking).await;
    done.with_context(|| format!("timed out waiting for {what}"))?
}

/// A state and a pull request for each of 100 identifiers on one host, with the limits as they are.
async fn burst(binary: &Path) -> Result<Row> {
    const IDENTIFIERS: usize = 100;
    let fixture = Fixture::with(binary, SETTINGS).await?;
    let node = &fixture.node;
    let host = RemoteHost::start("127.0.0.2").await?;
    let tree = WorkTree::with_commit()?;
    let mut projects = Vec::new();
    for n in 0..IDENTIFIERS {
        // Pull requests are taken for repositories that are served.
        let project = Project::new(&format!("burst-{n}"));
        let url = host.clone_url(&format!("{n}.git"));
        let first = project.state_at(&[("refs/heads/main", &tree.tip("HEAD")?)], 100);
        send_all(
            node,
            &[
                project.announcement(&[node], std::slice::from_ref(&url)),
                first,
            ],
            1,
            1,
        )
        .await?;
        tree.push_ok(&project.url(node), &["main"]).await?;
        projects.push((project, url));
    }
    let fix = tree.commit("fix", "better")?;
    let main = tree.commit("more", "1")?;
    host.host(&tree, "all.git")?;
    let contributor = Author::new();
    let mut events = Vec::new();
    for (n, (project, url)) in projects.iter().enumerate() {
        host.alias("all.git", &format!("{n}.git"))?;
        events.push(project.state_at(&[("refs/heads/main", &main)], 0));
        events.push(contributor.pull_request(&project.owner, &project.identifier, &fix, url));
    }
    send_all(node, &events, 1, 32).await?;
    let new = events
        .iter()
        .map(|event| event.id.to_hex())
        .collect::<Vec<_>>();
    let seconds = wait(5 * MINUTE, "all events are served", || async {
        let mut relay = node.connect().await?;
        Ok(relay.query(&[json!({"ids": new})]).await?.len() == new.len())
    })
    .await?;
    let each = host.count() as f64 / IDENTIFIERS as f64;
    Ok(Row {
        path: "sync: 200 events over 100 identifiers, one host",
        value: format!(
            "{} requests ({each:.2} per identifier), {} in 60 s, {} at once; all served in {seconds:.0} s",
            host.count(),
            host.max_in_window(MINUTE),
            host.max_in_flight(),
        ),
        floor: "1 request per identifier",
        ratio: Some(each),
        peer: "300 requests, 180 in 60 s, 7 at once",
    })
}

/// When a host that asked for 30 s of patience hears from us again.
async fn silence(binary: &Path) -> Result<Row> {
    const ASKED: u64 = 30;
    let fixture = Fixture::with(binary, SETTINGS).await?;
    let node = &fixture.node;
    let tree = WorkTree::with_commit()?;
    let tip = tree.tip("HEAD")?;
    let mut hosts = Vec::new();
    let mut events = Vec::new();
    for (address, status) in [("127.0.0.2", 429), ("127.0.0.3", 503)] {
        let host = RemoteHost::start(address).await?;
        let url = host.host(&tree, "x.git")?;
        let steps = [Behaviour::retry_after(status, ASKED), Behaviour::Serve];
        host.script("x.git", steps);
        let project = Project::new(&format!("silence-{status}"));
        events.push(project.announcement(&[node], std::slice::from_ref(&url)));
        events.push(project.state(&[("refs/heads/main", &tip)]));
        hosts.push(host);
    }
    send_all(node, &events, 1, 1).await?;
    wait(3 * MINUTE, "both are served", || async {
        Ok(served(node, &[30618]).await? == 3)
    })
    .await?;
    let silences = hosts.iter().map(|host| {
        let requests = host.requests();
        let [first, second] = requests.as_slice() else {
            return format!("{} requests", requests.len());
        };
        format!("{:.1} s", (second.at - first.at).as_secs_f64())
    });
    let silences: Vec<_> = silences.collect();
    Ok(Row {
        path: "sync: silence after 429; after 503, with Retry-After: 30",
        value: silences.join("; "),
        floor: "30 s",
        ratio: None,
        peer: "retried at 0, 20, 60 s",
    })
}

/// Requests of a minute for a state half of whose tips the host lacks.
async fn half_missing(binary: &Path) -> Result<Row> {
    let fixture = Fixture::with(binary, SETTINGS).await?;
    let host = RemoteHost::start("127.0.0.2").await?;
    let tree = WorkTree::with_commit()?;
    let tip = tree.tip("HEAD")?;
    let url = host.host(&tree, "x.git")?;
    tree.git(["checkout", "-q", "-b", "later"])?;
    let later = tree.commit("later", "not there")?;
    let project = Project::new("half");
    let refs = [
        ("refs/heads/main", tip.as_str()),
        ("refs/heads/later", &later),
    ];
    let events = [
        project.announcement(&[&fixture.node], std::slice::from_ref(&url)),
        project.state(&refs),
    ];
    send_all(&fixture.node, &events, 1, 1).await?;
    wait(MINUTE, "the first request", || async {
        Ok(host.count() > 0)
    })
    .await?;
    let first = host.requests()[0].at;
    tokio::time::sleep_until(first + MINUTE).await;
    let times = host.requests().into_iter().map(|seen| {
        let after = (seen.at - first).as_secs_f64();
        format!("{after:.0}")
    });
    let times: Vec<_> = times.collect();
    Ok(Row {
        path: "sync: half the tips missing, requests in a minute",
        value: format!("{} (at {} s)", times.len(), times.join(", ")),
        floor: "one an attempt: 0, 20, 60 s",
        ratio: None,
        peer: "21",
    })
}

/// When the others on a host are served of which five repositories hang.
async fn hanging(binary: &Path) -> Result<Row> {
    const HANGING: usize = 5;
    const OTHERS: usize = 15;
    let fixture = Fixture::with(binary, SETTINGS).await?;
    let node = &fixture.node;
    let host = RemoteHost::start("127.0.0.2").await?;
    let tree = WorkTree::with_commit()?;
    let tip = tree.tip("HEAD")?;
    host.host(&tree, "all.git")?;
    let mut events = Vec::new();
    for n in 0..HANGING + OTHERS {
        let name = format!("{n}.git");
        let url = host.alias("all.git", &name)?;
        if n < HANGING {
            host.behave_at(&name, Behaviour::HangAfter { bytes: 0 });
        }
        let project = Project::new(&format!("hanging-{n}"));
        events.push(project.announcement(&[node], std::slice::from_ref(&url)));
        events.push(project.state(&[("refs/heads/main", &tip)]));
    }
    send_all(node, &events, 1, 1).await?;
    let seconds = wait(4 * MINUTE, "the others are served", || async {
        Ok(served(node, &[30618]).await? == OTHERS + 1)
    })
    .await?;
    Ok(Row {
        path: "sync: five hanging fetches, the host's 15 other repositories are served after",
        value: format!("{seconds:.0} s"),
        floor: "idle time-out 30 s",
        ratio: Some(seconds / 30.0),
        peer: "never",
    })
}
