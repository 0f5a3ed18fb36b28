//! Fifty addresses that ask without a pause, beside people who ask now and then.
//!
//! Each of the fifty has one request under way at any time, so that client and node together take all
//! that the machine has. The same is done to an nginx that answers 200 and nothing else: what its
//! answers take is what the machine takes. The short form runs with the other tests, and judges no times;
//! `cargo xtask campaign overload` makes more rounds, prints the table and judges it.

mod full_queue;

use std::{
    net::Ipv4Addr,
    ops::AddAssign,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;
use grip_testkit::{LocalProject, Node, ProxyServer, http::Connection};
use tokio::{
    task::{JoinSet, spawn_blocking},
    time::{MissedTickBehavior, interval_at},
};

use crate::BINARY;

const ADDRESSES: u32 = 50;
/// What one address may ask in a second, and ten times as much in one go.
const RATE: u32 = 2;
const BURST: usize = 20;
/// People who ask now and then: how many, and how long each waits between two requests.
const PEOPLE: u32 = 40;
const PAUSE: Duration = Duration::from_millis(600);
/// A refusal that takes longer is none at once.
const AT_ONCE_MS: f64 = 5.0;
/// Processors that are less busy are not saturated: then nothing was shown.
const SATURATED_PERCENT: f64 = 95.0;

/// How much is done: a little, or what the campaign asks for.
struct Scale {
    rounds: usize,
    lasts: Duration,
    is_judged: bool,
}

impl Scale {
    fn chosen() -> Self {
        let rounds = std::env::var("GRIPFAST_OVERLOAD_ROUNDS").ok();
        match rounds.and_then(|rounds| rounds.parse().ok()) {
            Some(rounds) => Self {
                rounds,
                lasts: Duration::from_secs(4),
                is_judged: true,
            },
            None => Self {
                rounds: 1,
                lasts: Duration::from_secs(1),
                is_judged: false,
            },
        }
    }
}

/// The `n`th address of a network of this machine.
fn address(network: u8, n: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(127, network, 0, 1).to_bits() + n)
}

/// Milliseconds of answers, by what they were.
#[derive(Default)]
struct Times {
    admitted: Vec<f64>,
    refused: Vec<f64>,
    /// The most that was admitted of one address.
    most_of_one: usize,
}

impl AddAssign for Times {
    fn add_assign(&mut self, other: Self) {
        self.most_of_one = self.most_of_one.max(other.admitted.len());
        self.admitted.extend(other.admitted);
        self.refused.extend(other.refused);
    }
}

/// Where everybody asks, and for what.
#[derive(Clone)]
struct Target {
    port: u16,
    path: String,
    /// Every request is for another name, which nobody answers for: what is taken on fails.
    is_sought: bool,
}

impl Target {
    fn bare(server: &ProxyServer) -> Self {
        Self {
            port: server.port(),
            path: "/".to_owned(),
            is_sought: false,
        }
    }

    /// One address that asks again as soon as it is answered.
    async fn hammer(self, from: Ipv4Addr, until: Instant) -> Result<Times> {
        let mut connection = Connection::open_from(from, self.port).await?;
        let mut times = Times::default();
        let mut path = self.path.clone();
        for n in 0.. {
            let began = Instant::now();
            if began >= until {
                break;
            }
            if self.is_sought {
                path = format!("{}-{from}-{n}", self.path);
            }
            let response = connection.get(&path).await?;
            let took = began.elapsed().as_secs_f64() * 1e3;
            match response.status {
                200 => times.admitted.push(took),
                // Nobody knows it once the one who is silent has been forgotten.
                404 | 503 | 504 if self.is_sought => times.admitted.push(took),
                429 => {
                    ensure!(!response.header("retry-after").is_empty(), "{response:?}");
                    times.refused.push(took);
                }
                other => anyhow::bail!("{other}: {}", response.text()),
            }
        }
        Ok(times)
    }

    /// Fifty of them at once.
    async fn flood(&self, lasts: Duration) -> Result<Times> {
        let until = Instant::now() + lasts;
        let mut clients = JoinSet::new();
        for n in 0..ADDRESSES {
            clients.spawn(self.clone().hammer(address(1, n), until));
        }
        let mut all = Times::default();
        while let Some(times) = clients.join_next().await {
            all += times??;
        }
        Ok(all)
    }

    /// Somebody who asks now and then; times count from when a request was due.
    async fn ask(&self, n: u32, lasts: Duration) -> Result<Vec<f64>> {
        let from = address(2, n);
        let mut connection = Connection::open_from(from, self.port).await?;
        let (mut times, began) = (Vec::new(), Instant::now());
        // One after the other.
        let mut due = interval_at((began + PAUSE * n / PEOPLE).into(), PAUSE);
        due.set_missed_tick_behavior(MissedTickBehavior::Burst);
        while began.elapsed() < lasts {
            let at = due.tick().await;
            let response = connection.get(&self.path).await?;
            ensure!(response.status == 200, "{from}: {}", response.text());
            times.push(at.elapsed().as_secs_f64() * 1e3);
        }
        Ok(times)
    }

    /// All people, in a thread of their own: what the flood's clients take is not theirs.
    async fn people(&self, lasts: Duration) -> Result<Vec<f64>> {
        let target = self.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let asking = move || {
            let all = (0..PEOPLE).map(|n| target.ask(n, lasts));
            runtime.block_on(try_join_all(all))
        };
        Ok(spawn_blocking(asking).await??.concat())
    }

    async fn round(&self, scale: &Scale) -> Result<Round> {
        let alone = self.people(scale.lasts).await?;
        // What may be asked in one go is asked first.
        self.flood(scale.lasts / 4).await?;
        let before = Processors::read()?;
        let (beside, flood) = tokio::try_join!(self.people(scale.lasts), self.flood(scale.lasts))?;
        let busy_percent = Processors::read()?.busy_percent_since(&before);
        Ok(Round {
            alone,
            beside,
            flood,
            busy_percent,
        })
    }

    /// A round of the flood alone.
    async fn flooded(&self, scale: &Scale) -> Result<Round> {
        let before = Processors::read()?;
        let flood = self.flood(scale.lasts).await?;
        let busy_percent = Processors::read()?.busy_percent_since(&before);
        Ok(Round {
            alone: Vec::new(),
            beside: Vec::new(),
            flood,
            busy_percent,
        })
    }
}

/// What was measured of one server in one round.
struct Round {
    /// Of people, without a flood and beside it.
    alone: Vec<f64>,
    beside: Vec<f64>,
    flood: Times,
    busy_percent: f64,
}

/// Times of all processors together since the machine started, in ticks.
struct Processors {
    all: u64,
    idle: u64,
}

impl Processors {
    fn read() -> Result<Self> {
        let stat = std::fs::read_to_string("/proc/stat")?;
        let line = stat.lines().next().context("no line")?;
        let times: Vec<u64> = line
            .split_whitespace()
            .skip(1)
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        // User, nice, system, idle, waiting for a disk, and others that are work.
        Ok(Self {
            all: times.iter().sum(),
            idle: times.iter().skip(3).take(2).sum(),
        })
    }

    fn busy_percent_since(&self, before: &Self) -> f64 {
        let (all, idle) = (self.all - before.all, self.idle - before.idle);
        100.0 - idle as f64 * 100.0 / all.max(1) as f64
    }
}

fn percentile(times: &[f64], percent: usize) -> f64 {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    let last = times.len().saturating_sub(1);
    times.get(last * percent / 100).copied().unwrap_or_default()
}

/// From the least to the most.
fn spread(each: &[f64]) -> f64 {
    percentile(each, 100) - percentile(each, 0)
}

/// Fails unless refusals came at once: within [`AT_ONCE_MS`] or what a bare 200 takes on this machine,
/// give or take what that differs by between rounds.
fn must_be_at_once(refused_p99: f64, floor: &Figures) -> Result<()> {
    let bound = f64::max(AT_ONCE_MS, floor.refused.1) + floor.noise;
    ensure!(
        refused_p99 <= bound,
        "refused after {refused_p99:.2} ms, more than {bound:.2} ms"
    );
    Ok(())
}

fn must_be_saturated(busy_percent: f64) -> Result<()> {
    ensure!(
        busy_percent >= SATURATED_PERCENT,
        "the processors were busy for {busy_percent:.1} % of the time"
    );
    Ok(())
}

/// The figures of one server: medians over all rounds.
struct Figures {
    alone: (f64, f64),
    beside: (f64, f64),
    admitted: (f64, f64),
    /// Refusals of the node; of a bare server, which refuses nothing, its answers.
    refused: (f64, f64),
    /// How far the slowest of a hundred of these differ between rounds.
    noise: f64,
    late_percent: f64,
    per_second: f64,
    busy_percent: f64,
}

impl Figures {
    fn of(rounds: &[Round], lasts: Duration) -> Self {
        let each = |times: fn(&Round) -> &[f64], percent: usize| -> Vec<f64> {
            let rounds = rounds.iter();
            rounds.map(|it| percentile(times(it), percent)).collect()
        };
        let median = |times, percent| percentile(&each(times, percent), 50);
        let both = |times: fn(&Round) -> &[f64]| (median(times, 50), median(times, 99));
        let turned_away: fn(&Round) -> &[f64] = |round| {
            if round.flood.refused.is_empty() {
                &round.flood.admitted
            } else {
                &round.flood.refused
            }
        };
        let all: Vec<f64> = rounds.iter().flat_map(turned_away).copied().collect();
        let late = all.iter().filter(|took| **took > AT_ONCE_MS).count();
        let answers: usize = rounds
            .iter()
            .map(|round| round.flood.admitted.len() + round.flood.refused.len())
            .sum();
        let busy: Vec<f64> = rounds.iter().map(|round| round.busy_percent).collect();
        Self {
            busy_percent: percentile(&busy, 50),
            alone: both(|round| &round.alone),
            beside: both(|round| &round.beside),
            admitted: both(|round| &round.flood.admitted),
            refused: both(turned_away),
            noise: spread(&each(turned_away, 99)),
            late_percent: late as f64 * 100.0 / all.len().max(1) as f64,
            per_second: answers as f64 / rounds.len() as f64 / lasts.as_secs_f64(),
        }
    }

    /// How many times as long the slowest of a hundred take beside the flood.
    fn ratio(&self) -> f64 {
        self.beside.1 / self.alone.1
    }
}

fn print(ours: &Figures, floor: &Figures) {
    let both = |(p50, p99): (f64, f64)| format!("{p50:.2} ms, {p99:.2} ms");
    println!("| {ADDRESSES} addresses without a pause, p50 and p99 | gripfast | bare 200 |");
    println!("|---|---|---|");
    let row = |what: &str, ours: String, floor: String| println!("| {what} | {ours} | {floor} |");
    row(
        "people within their rate, alone",
        both(ours.alone),
        both(floor.alone),
    );
    row(
        "the same beside the flood",
        both(ours.beside),
        both(floor.beside),
    );
    row(
        "p99 beside it, times that alone",
        format!("{:.2}", ours.ratio()),
        format!("{:.2}", floor.ratio()),
    );
    row(
        "of the flood: admitted",
        both(ours.admitted),
        both(floor.admitted),
    );
    row(
        "of the flood: refused with 429 (bare: answered)",
        both(ours.refused),
        both(floor.refused),
    );
    row(
        "the same: p99 of the rounds, least to most",
        format!("{:.2} ms", ours.noise),
        format!("{:.2} ms", floor.noise),
    );
    row(
        &format!("the same: later than {AT_ONCE_MS} ms"),
        format!("{:.2} %", ours.late_percent),
        format!("{:.2} %", floor.late_percent),
    );
    row(
        "answers a second to the flood",
        format!("{:.0}", ours.per_second),
        format!("{:.0}", floor.per_second),
    );
    row(
        "processors busy meanwhile",
        format!("{:.0} %", ours.busy_percent),
        format!("{:.0} %", floor.busy_percent),
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_addresses_that_ask_without_a_pause_are_refused_at_once_and_slow_nobody() -> Result<()>
{
    let scale = Scale::chosen();
    let rate = RATE.to_string();
    let settings = [
        ("GRIPFAST_HTTP_REQUESTS_PER_SECOND", rate.as_str()),
        // Loopback is where proxies are by default, and those are not counted.
        ("GRIPFAST_TRUSTED_PROXY_CIDRS", "192.0.2.0/24"),
    ];
    let node = Node::start_with(BINARY, &settings).await?;
    let project = LocalProject::new("x")?;
    project.publish(&node, 10).await?;
    let ours = Target {
        port: node.port(),
        path: format!("/resolve/{}/x", project.owner.npub()),
        is_sought: false,
    };
    let bare = ProxyServer::bare().await?;
    let floor = Target::bare(&bare);
    // In turns, so that what else the machine does meets both.
    let (mut of_ours, mut of_floor) = (Vec::new(), Vec::new());
    for _ in 0..scale.rounds {
        of_ours.push(ours.round(&scale).await?);
        of_floor.push(floor.round(&scale).await?);
    }
    // Nobody within the rate was refused: that would have ended the round. Nobody gets more than it.
    let most = BURST + RATE as usize * (2 * scale.lasts.as_secs() as usize + 2);
    for round in &of_ours {
        ensure!(!round.flood.refused.is_empty(), "nothing was refused");
        ensure!(
            round.flood.most_of_one <= most,
            "{} admitted of one address",
            round.flood.most_of_one
        );
    }
    let (ours, floor) = (
        Figures::of(&of_ours, scale.lasts),
        Figures::of(&of_floor, scale.lasts),
    );
    print(&ours, &floor);
    if scale.is_judged {
        ensure!(
            ours.ratio() <= f64::max(2.0, floor.ratio()),
            "admitted beside the flood: {:.2} times as long as alone, a bare 200 {:.2}",
            ours.ratio(),
            floor.ratio()
        );
        must_be_saturated(ours.busy_percent)?;
        must_be_at_once(ours.refused.1, &floor)?;
    }
    Ok(())
}
