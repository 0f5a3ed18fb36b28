//! Small answers beside a server that does nothing else, and ten times more than is taken on.

use std::{
    convert::Infallible,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;
use grip_testkit::ReservedPort;
use http_body_util::Full;
use hyper::{Response, body::Bytes, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    time::{Instant, MissedTickBehavior, interval_at},
};

use crate::{
    fixture::Fixture,
    http::Connection,
    report::{Table, median, mib, percentile},
};

/// What is asked for, and with which headers: answers that come out of memory.
const ROUTES: &[(&str, &str)] = &[
    ("/healthz", ""),
    ("/version", ""),
    ("/", "Accept: application/nostr+json\r\n"),
];
const CONNECTIONS: usize = 16;
/// Both are measured in turns, so that what else the machine does meets both.
const ROUNDS: usize = 9;
const REQUESTS: usize = 12_000;

/// What one address may ask in a second, and how much of it is asked at ease and in overload.
const TAKEN_ON: u32 = 300;
const AT_EASE: f64 = 0.5;
const OVERLOAD: f64 = 10.0;
const LASTS: Duration = Duration::from_secs(4);
/// A refusal that takes longer is no refusal at once.
const AT_ONCE_MS: f64 = 5.0;

pub async fn measure(binary: &Path, table: &mut Table) -> Result<()> {
    beside_nothing(binary, table).await?;
    overload(binary, table).await
}

/// Answers everything with 200 and two bytes, and ends with who started it.
pub async fn serve_nothing(port: u16) -> Result<()> {
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
    let group = grip_tasks::TaskGroup::new("bare");
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let answer = service_fn(|_| async {
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"ok"))))
        });
        group.spawn("connection", async move {
            // A client that leaves in the middle is none of our business.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), answer)
                .await;
        });
    }
}

/// A process of our own that does nothing but answer; it is killed when dropped.
struct Nothing {
    child: std::process::Child,
    port: ReservedPort,
}

impl Nothing {
    #[expect(
        clippy::disallowed_methods,
        reason = "the floor is a process like the node"
    )]
    async fn start() -> Result<Self> {
        let port = ReservedPort::new()?;
        let mut command = std::process::Command::new(std::env::current_exe()?);
        let child = command
            .args(["--binary", "/", "--serve-nothing"])
            .arg(port.number().to_string());
        let child = child.spawn()?;
        grip_testkit::until("it listens", || async {
            TcpStream::connect(("127.0.0.1", port.number())).await.ok()
        })
        .await?;
        Ok(Self { child, port })
    }
}

impl Drop for Nothing {
    fn drop(&mut self) {
        // One that has ended by itself is as dead as we want it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn beside_nothing(binary: &Path, table: &mut Table) -> Result<()> {
    let nothing = Nothing::start().await?;
    let fixture = Fixture::new(binary).await?;
    let node = &fixture.node;
    let resolve = resolve_path(&fixture);
    let routes = ROUTES.iter().copied();
    for (path, headers) in routes.chain([(resolve.as_str(), "")]) {
        let (mut bare, mut ours, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let (floor, rate) = (
                rate(nothing.port.number(), "/", "").await?,
                rate(node.port(), path, headers).await?,
            );
            bare.push(floor);
            ours.push(rate);
            ratios.push(rate / floor);
        }
        table.row(
            &format!("{}, {CONNECTIONS} connections", shown(path)),
            format!("{:.0}/s", median(&mut ours)),
            &format!("a bare 200 {:.0}/s", median(&mut bare)),
            Some(median(&mut ratios)),
            "–",
        );
    }
    Ok(())
}

/// A name that is served here; the first answer fills the cache for the rest.
fn resolve_path(fixture: &Fixture) -> String {
    format!("/resolve/name:{}/bench", fixture.project.owner.npub())
}

fn shown(path: &str) -> &str {
    if path.starts_with("/resolve/") {
        "/resolve/<name>, from the cache"
    } else {
        path
    }
}

async fn rate(port: u16, path: &str, headers: &str) -> Result<f64> {
    let client = || async {
        let mut connection = Connection::open(port).await?;
        for _ in 0..REQUESTS / CONNECTIONS {
            connection.get(path, headers).await?;
        }
        anyhow::Ok(())
    };
    client().await?;
    let began = Instant::now();
    try_join_all((0..CONNECTIONS).map(|_| client())).await?;
    Ok(REQUESTS as f64 / began.elapsed().as_secs_f64())
}

/// At ease, admitted, refused, the floor, and /healthz twice.
const PHASES: usize = 6;

/// Milliseconds of the answers, by what they were.
#[derive(Default)]
struct Times {
    admitted: Vec<f64>,
    refused: Vec<f64>,
}

impl Times {
    /// How many took longer than what is at once.
    fn late(&self) -> usize {
        let all = self.admitted.iter().chain(&self.refused);
        all.filter(|took| **took > AT_ONCE_MS).count()
    }
}

/// Asks `per_second` times a second, whether or not earlier answers have come; times count from
/// when a request was due.
async fn ask(port: u16, path: &str, per_second: f64, lasts: Duration) -> Result<Times> {
    let each = Duration::from_secs_f64(CONNECTIONS as f64 / per_second);
    let client = |number: usize| async move {
        let mut connection = Connection::open(port).await?;
        let mut times = Times::default();
        let began = Instant::now();
        let first = began + each.mul_f64(number as f64 / CONNECTIONS as f64);
        let mut due = interval_at(first, each);
        due.set_missed_tick_behavior(MissedTickBehavior::Burst);
        while began.elapsed() < lasts {
            let at = due.tick().await;
            let status = connection.status(path).await?;
            let took = at.elapsed().as_secs_f64() * 1000.0;
            match status {
                200 => times.admitted.push(took),
                429 => times.refused.push(took),
                other => anyhow::bail!("{path}: {other}"),
            }
        }
        Ok(times)
    };
    let all = try_join_all((0..CONNECTIONS).map(client)).await?;
    Ok(all.into_iter().fold(Times::default(), |mut sum, part| {
        sum.admitted.extend(part.admitted);
        sum.refused.extend(part.refused);
        sum
    }))
}

async fn overload(binary: &Path, table: &mut Table) -> Result<()> {
    let taken_on = TAKEN_ON.to_string();
    let env = [
        ("GRIPFAST_HTTP_REQUESTS_PER_SECOND", taken_on.as_str()),
        // Loopback is where proxies are by default, and those are not counted.
        ("GRIPFAST_TRUSTED_PROXY_CIDRS", "192.0.2.0/24"),
    ];
    let fixture = Fixture::with(binary, &env).await?;
    let node = &fixture.node;
    let (port, path) = (node.port(), resolve_path(&fixture));
    let path = path.as_str();
    let at_ease = f64::from(TAKEN_ON) * AT_EASE;
    let offered = f64::from(TAKEN_ON) * OVERLOAD;
    let nothing = Nothing::start().await?;
    let mut before = 0;
    let mut times: [Vec<f64>; PHASES] = Default::default();
    let (mut admitted, mut refused, mut late, mut late_floor) = (0, 0, 0, 0);
    for round in 0..ROUNDS {
        // What was asked in overload is forgotten first: a second of nothing is a second's worth.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (calm, calm_health) = tokio::try_join!(
            ask(port, path, at_ease, LASTS),
            ask(port, "/healthz", 50.0, LASTS)
        )?;
        ensure!(calm.refused.is_empty(), "nothing is refused at ease");
        // What may be asked in one go is spent first.
        ask(port, path, f64::from(TAKEN_ON) * 40.0, LASTS / 4).await?;
        if round == 0 {
            before = node.anonymous_rss_bytes()?;
        }
        let (hot, hot_health) = tokio::try_join!(
            ask(port, path, offered, LASTS),
            ask(port, "/healthz", 50.0, LASTS)
        )?;
        // What this machine and this client add to any answer at that rate.
        let floor = ask(nothing.port.number(), "/", offered, LASTS).await?;
        admitted += hot.admitted.len();
        refused += hot.refused.len();
        late += hot.late();
        late_floor += floor.late();
        let phases = [
            calm.admitted,
            hot.admitted,
            hot.refused,
            floor.admitted,
            calm_health.admitted,
            hot_health.admitted,
        ];
        for (times, mut phase) in times.iter_mut().zip(phases) {
            ensure!(!phase.is_empty(), "a phase without an answer");
            times.push(percentile(&mut phase, 0.99));
        }
    }
    let after = node.anonymous_rss_bytes()?;
    let [
        calm_p99,
        hot_p99,
        refused_p99,
        floor_p99,
        calm_health,
        hot_health,
    ] = times.map(|mut times| median(&mut times));
    let name = format!("{offered:.0}/s asked, {TAKEN_ON}/s taken on");
    let ms = |value: f64| format!("{value:.2} ms");
    table.row(
        &format!("{name}: p99 of {admitted} admitted"),
        ms(hot_p99),
        &format!("at ease {}", ms(calm_p99)),
        Some(hot_p99 / calm_p99),
        "–",
    );
    table.row(
        &format!("{name}: p99 of {refused} refused"),
        ms(refused_p99),
        &format!("a bare 200 at that rate {}", ms(floor_p99)),
        Some(refused_p99 / floor_p99),
        "–",
    );
    let part = |late: usize| format!("{:.2} %", late as f64 / (admitted + refused) as f64 * 100.0);
    table.row(
        &format!("{name}: later than {AT_ONCE_MS} ms"),
        part(late),
        &format!("a bare 200 at that rate {}", part(late_floor)),
        None,
        "–",
    );
    table.row(
        &format!("{name}: p99 of /healthz"),
        ms(hot_health),
        &format!("at ease {}", ms(calm_health)),
        Some(hot_health / calm_health),
        "–",
    );
    table.row(
        &format!("{name}: memory"),
        mib(after),
        &format!("before {}", mib(before)),
        Some(after as f64 / before as f64),
        "–",
    );
    node.get("/healthz").await.context("the node is alive")?;
    Ok(())
}
