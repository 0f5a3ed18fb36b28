//! Instances in processes of their own, so that `kill -9` is what it says.
//!
//! Each test starts itself again as another process, which plays an instance until it is killed.

use std::{process::Stdio, time::Duration};

use grip_limits::{Lane, Limits, Reason, RedisOptions, Throttle, Verdict};
use grip_tasks::TaskGroup;
use grip_testkit::{RedisServer, until, within};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::{Instant, sleep, sleep_until},
};

use crate::support::{
    Arrival, Arrivals, assert_within, host, instance, limits, options, reason, redis_options,
    take_all, unix_micros, used_percent,
};

/// Tells a process that it is an instance, and where Redis is.
const URL: &str = "GRIP_TEST_REDIS_URL";
const LEASE: Duration = Duration::from_secs(1);

fn redis(url: String) -> RedisOptions {
    RedisOptions {
        lease: LEASE,
        ..redis_options(url)
    }
}

/// Another process; killed when dropped.
struct Instance {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Instance {
    /// Starts `test` of this binary as an instance.
    #[expect(clippy::disallowed_methods, reason = "the test is its own instance")]
    fn start(test: &str, url: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(URL, url)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let said = child.stdout.take().expect("it was piped");
        let said = BufReader::new(said).lines();
        Self { child, said }
    }

    async fn line(&mut self) -> Option<String> {
        within("a word", self.said.next_line())
            .await
            .unwrap()
            .unwrap()
    }

    /// Waits for a line that begins with `word`; returns the rest of it.
    async fn hears(&mut self, word: &str) -> String {
        loop {
            let line = self.line().await.expect("the instance goes on talking");
            if let Some((_, rest)) = line.split_once(word) {
                return rest.to_owned();
            }
        }
    }

    /// `kill -9`
    async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }
}

#[tokio::test]
async fn the_slots_of_a_killed_instance_are_free_after_the_lease() {
    const THIS: &str = "killed::the_slots_of_a_killed_instance_are_free_after_the_lease";
    let slots = options(limits(3, 1_000));
    if let Ok(url) = std::env::var(URL) {
        let throttle = instance(redis(url), slots).await;
        let (held, _) = take_all(&throttle, Lane::Git).await;
        println!("holding {}", held.len());
        return std::future::pending().await;
    }

    let server = RedisServer::start().await.unwrap();
    let mut other = Instance::start(THIS, &server.url());
    assert_eq!(other.hears("holding ").await, "3");
    let ours = instance(redis(server.url()), slots).await;
    // It renews what it holds: nothing is free for as long as it lives.
    let began = Instant::now();
    until("three leases have passed", || async {
        assert_eq!(reason(&ours, Lane::Git).await, Reason::InFlight);
        (began.elapsed() > LEASE * 3).then_some(())
    })
    .await
    .unwrap();

    other.kill().await;
    let killed = Instant::now();
    let taken = until("all slots are free", || async {
        let (taken, _) = take_all(&ours, Lane::Git).await;
        (taken.len() == 3).then_some(taken)
    });
    assert_eq!(taken.await.unwrap().len(), 3);
    let took = killed.elapsed();
    println!("free after {took:?}, lease {LEASE:?}");
    assert!(took < LEASE + Duration::from_millis(500), "{took:?}");
}

#[tokio::test]
async fn a_kill_in_the_middle_lets_no_window_hold_too_much() {
    const THIS: &str = "killed::a_kill_in_the_middle_lets_no_window_hold_too_much";
    let limits = Limits {
        in_flight: 4,
        per_window: 30,
        window: Duration::from_secs(1),
    };
    if let Ok(url) = std::env::var(URL) {
        let throttle = instance(redis(url), options(limits)).await;
        return talk_forever(&throttle).await;
    }

    let server = RedisServer::start().await.unwrap();
    let mut others = [(); 3].map(|()| Instance::start(THIS, &server.url()));
    let seen = Arrivals::default();
    for other in &mut others {
        seen.hear(&other.hears("start ").await);
    }
    let listeners = TaskGroup::new("listeners");
    let [mut first, second, third] = others;
    for mut other in [second, third] {
        let seen = seen.clone();
        listeners.spawn("listener", async move {
            loop {
                seen.hear(&other.hears("start ").await);
            }
        });
    }
    while seen.sorted().len() < 60 {
        seen.hear(&first.hears("start ").await);
    }
    first.kill().await;
    while let Some(line) = first.line().await {
        if let Some((_, rest)) = line.split_once("start ") {
            seen.hear(rest);
        }
    }
    let killed = unix_micros();
    until("the others go on for three windows", || async {
        let latest = seen.sorted().last().map_or(0, |arrival| arrival.at);
        (latest > killed + 3_000_000).then_some(())
    })
    .await
    .unwrap();
    let _ = listeners.shutdown(Duration::ZERO).await;

    let seen = seen.sorted();
    assert_within(limits, &seen);
    let after = seen.partition_point(|arrival| arrival.at <= killed);
    let used = used_percent(limits, &seen[after..]);
    println!("{} starts in all, {used} % used after the kill", seen.len());
    assert!(used >= 90, "only {used} % was used after the kill");
}

/// Asks as often as it may and says when.
async fn talk_forever(throttle: &Throttle) {
    loop {
        let asked_at = unix_micros();
        match throttle.acquire(&host(), Lane::Git).await {
            Ok(permit) => {
                let at = unix_micros();
                println!("start {at} {}", at - asked_at);
                sleep(Duration::from_millis(5)).await;
                permit.finish(Verdict::Success, None);
            }
            Err(refused) => sleep_until(refused.retry_at).await,
        }
    }
}

impl Arrivals {
    fn hear(&self, line: &str) {
        let (at, took) = line.split_once(' ').expect("two numbers");
        let [at, took] = [at, took].map(|number| number.parse().unwrap());
        self.0.lock().unwrap().push(Arrival { at, took });
    }
}
