//! Several instances on one Redis.

use std::time::{Duration, SystemTime};

use grip_testkit::{
    assert_matches,
    github::{Behaviour, Counts, Limits},
    until, within,
};
use tokio::{net::TcpStream, task::JoinSet};

use super::support::{Backend, Pair, With, repo};
use crate::{GitHub, GitHubError, Options};

fn limited(per_token: u32) -> With {
    With {
        on: Backend::Redis,
        limits: Limits {
            per_token,
            latency: Duration::from_millis(3),
            ..Limits::default()
        },
        ..With::default()
    }
}

/// Asks as fast as it can, ten calls at once, until nothing is left; returns the successes.
async fn flat_out(github: GitHub) -> usize {
    let mut set = JoinSet::new();
    for _ in 0..10 {
        let github = github.clone();
        set.spawn(async move {
            let mut fine = 0;
            loop {
                match github.repository(&repo("acme/one")).await {
                    Ok(_) => fine += 1,
                    Err(GitHubError::Exhausted { .. }) => return fine,
                    Err(GitHubError::Throttled { .. }) => tokio::task::yield_now().await,
                    Err(error) => panic!("{error:?}"),
                }
            }
        });
    }
    set.join_all().await.into_iter().sum()
}

/// Runs a script in Redis and returns what it answers.
async fn eval(pair: &Pair, script: &str) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let port = pair.redis.as_ref().unwrap().port();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let script = script.replace('\n', " ");
    let command = format!("EVAL \"{script}\" 0\r\nQUIT\r\n");
    stream.write_all(command.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    assert!(!text.starts_with('-'), "{text}");
    text
}

/// All that is in Redis, as text.
async fn dump(pair: &Pair) -> String {
    let script = "local out = {}
        for _, key in ipairs(redis.call('KEYS', '*github*')) do
            out[#out + 1] = key .. ' ' .. redis.call('PTTL', key)
            for _, value in ipairs(redis.call('HGETALL', key)) do out[#out + 1] = value end
        end
        return table.concat(out, string.char(10))";
    eval(pair, script).await
}

/// Lets all leases end.
async fn end_leases(pair: &Pair) {
    let script = "for _, key in ipairs(redis.call('KEYS', '*:budgets')) do
            for _, field in ipairs(redis.call('HKEYS', key)) do
                if string.find(field, '.flight.', 1, true) then
                    redis.call('HSET', key, field, 1)
                end
            end
        end
        return 'ended'";
    eval(pair, script).await;
}

#[tokio::test]
async fn instances_that_run_flat_out_spend_one_budget() {
    let mut with = limited(300);
    with.options.reserve = 0;
    let pair = with.start_with_repository().await;
    let other = pair.another().await;
    let (one, two) = tokio::join!(flat_out(pair.github.clone()), flat_out(other));
    assert_eq!(pair.host.counts(), Counts::default());
    assert_eq!(one + two, 300, "{one} and {two}");
    assert!(one > 20 && two > 20, "{one} and {two}");
    println!("{one} and {two} calls of 300");
}

#[tokio::test]
async fn what_one_instance_learns_the_others_know() {
    let pair = limited(20).start_with_repository().await;
    let spent = flat_out(pair.github.clone()).await;
    assert_eq!(spent, 18);
    let other = pair.another().await;
    let asked = other.repository(&repo("acme/one")).await;
    assert_matches!(asked, Err(GitHubError::Exhausted { .. }));
    assert_eq!(pair.host.count(), 18, "no call was needed to know");
    let budget = &other.budget()[0];
    assert_eq!((budget.limit, budget.remaining), (Some(20), Some(2)));
}

#[tokio::test]
async fn redis_holds_no_token_and_forgets_soon_after_the_window() {
    let pair = limited(20).start_with_repository().await;
    pair.ask().await.unwrap();
    let text = dump(&pair).await;
    assert!(text.contains("core.remaining"), "{text}");
    assert!(!text.contains("s3cret"), "{text}");
    let known = text.lines().find(|line| line.contains(":budgets "));
    let ttl_ms: u64 = known.unwrap().split_once(' ').unwrap().1.parse().unwrap();
    let left = pair.github.budget()[0].reset.unwrap();
    let left = left.duration_since(SystemTime::now()).unwrap().as_millis() as u64;
    assert!(ttl_ms.abs_diff(left + 10_000) < 1_500, "{ttl_ms} {left}");

    let with = With {
        on: Backend::Redis,
        limits: Limits {
            window: Duration::from_secs(2),
            ..Limits::default()
        },
        ..With::default()
    };
    let short = with.start().await;
    short.host.add("acme/one");
    short.ask().await.unwrap();
    let text = dump(&short).await;
    let known = text.lines().find(|line| line.contains(":budgets "));
    let ttl_ms: u64 = known.unwrap().split_once(' ').unwrap().1.parse().unwrap();
    assert!((58_000..=60_000).contains(&ttl_ms), "{ttl_ms}");
}

#[tokio::test]
async fn calls_that_an_instance_never_gave_back_stay_counted() {
    let mut with = limited(40);
    with.options.reserve = 0;
    let pair = with.start_with_repository().await;
    pair.host.add("acme/held");
    pair.ask().await.unwrap();
    // Ten calls of an instance that is gone: they hang, and nobody settles them.
    let other = pair.another().await;
    let gate = pair.host.hold("/repos/acme/held");
    let mut hanging = JoinSet::new();
    for _ in 0..10 {
        let other = other.clone();
        hanging.spawn(async move { other.repository(&repo("acme/held")).await.map(drop) });
    }
    let held = async || (pair.host.in_flight() == 10).then_some(());
    until("they are under way", held).await.unwrap();
    let began = pair.host.count();
    let mine = async {
        loop {
            match pair.ask().await {
                Ok(()) => {}
                Err(GitHubError::Throttled { .. }) => break,
                Err(error) => panic!("{error:?}"),
            }
        }
        pair.host.count() - began
    };
    // The host counts the ten in its answers, and until they are answered we do too.
    let mine = within("the rest is spent", mine).await.unwrap();
    assert_eq!(mine, 40 - 1 - 10 - 10);
    gate.open();
    while let Some(done) = hanging.join_next().await {
        done.unwrap().unwrap();
    }
    assert_eq!(flat_out(pair.github.clone()).await, 10);
    assert_eq!(pair.host.counts(), Counts::default());
}

#[tokio::test]
async fn a_call_whose_lease_has_ended_counts_until_a_later_answer_counts_it() {
    let mut with = limited(10);
    with.options.reserve = 0;
    let pair = with.start_with_repository().await;
    pair.ask().await.unwrap();
    let other = pair.another().await;
    let gate = pair.host.hold("/repos/acme/one");
    let mut hanging = JoinSet::new();
    hanging.spawn(async move { other.repository(&repo("acme/one")).await.map(drop) });
    let held = async || (pair.host.in_flight() == 1).then_some(());
    until("it is under way", held).await.unwrap();
    end_leases(&pair).await;

    let refused = pair.host.hold("/repos/acme/none");
    let (asked, lost) = tokio::join!(
        async { pair.github.repository(&repo("acme/none")).await },
        async {
            let held = async || (pair.host.in_flight() == 2).then_some(());
            until("another is under way", held).await.unwrap();
            let budget = pair.github.budget().remove(0);
            refused.open();
            (budget.remaining, budget.in_flight)
        }
    );
    assert_matches!(asked, Err(GitHubError::NotFound { .. }));
    assert_eq!(lost, (Some(9 - 1), 1), "one is lost, one under way");
    let budget = pair.github.budget().remove(0);
    assert_eq!(
        (budget.remaining, budget.in_flight),
        (Some(7), 0),
        "no more than were made"
    );
    gate.open();
    hanging.join_next().await.unwrap().unwrap().unwrap();
    pair.host.behave("/repos/acme/one", Behaviour::Serve);
    assert_eq!(flat_out(pair.github.clone()).await, 7);
    assert_eq!(pair.host.counts(), Counts::default());
}

#[tokio::test]
async fn a_redis_that_is_killed_in_the_middle_lets_no_budget_be_exceeded() {
    let mut pair = limited(400).start_with_repository().await;
    let other = pair.another().await;
    let mut both = JoinSet::new();
    both.spawn(flat_out(pair.github.clone()));
    both.spawn(flat_out(other));
    let some = async || (pair.host.count() > 60).then_some(());
    until("some calls were made", some).await.unwrap();
    pair.redis.as_mut().unwrap().kill();
    let at_kill = pair.host.count();
    let fine: usize = within("both have spent their part", both.join_all())
        .await
        .unwrap()
        .into_iter()
        .sum();
    assert_eq!(pair.host.counts(), Counts::default());
    let after = pair.host.count() - at_kill;
    println!("{at_kill} calls, then {after} alone, {fine} in all");
    assert!(after > 20, "each goes on with its part: {after}");
    assert!(fine < 360, "and no more than that: {fine}");
}

#[tokio::test]
async fn a_redis_that_is_back_and_empty_is_told_what_is_known() {
    let mut with = limited(60);
    with.options = Options {
        reserve: 0,
        ..Options::default()
    };
    let mut pair = with.start_with_repository().await;
    let other = pair.another().await;
    for _ in 0..10 {
        pair.ask().await.unwrap();
        other.repository(&repo("acme/one")).await.unwrap();
    }
    let redis = pair.redis.as_mut().unwrap();
    redis.kill();
    pair.ask().await.unwrap();
    let left = pair.host.remaining(Some(0));
    redis_back(&mut pair).await;
    // It knows from the first exchange on, without another call of the host.
    let calls = pair.host.count();
    let (one, two) = tokio::join!(flat_out(pair.github.clone()), flat_out(other));
    assert_eq!(pair.host.counts(), Counts::default());
    assert_eq!(one + two, usize::try_from(left).unwrap(), "{calls}");
}

#[tokio::test]
async fn calls_do_not_wait_for_a_task_that_has_ended() {
    let pair = limited(100).start_with_repository().await;
    pair.ask().await.unwrap();
    let _ = pair.group.shutdown(grip_testkit::DEADLINE).await;
    for _ in 0..3 {
        within("a call", pair.ask()).await.unwrap().unwrap();
    }
}

/// Starts Redis again and waits until the gateway uses it.
async fn redis_back(pair: &mut Pair) {
    pair.redis.as_mut().unwrap().restart().await.unwrap();
    let throttle = pair.egress.throttle();
    let connected = grip_limits::BackendStatus::Redis { connected: true };
    let used = async || (throttle.backend() == connected).then_some(());
    until("redis is used again", used).await.unwrap();
}
