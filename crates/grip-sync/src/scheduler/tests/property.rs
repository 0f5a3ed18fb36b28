//! Limits hold and every identifier is tried, in any order of events and failures.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use grip_types::Identifier;

/// One thing that happens.
#[derive(Clone, Debug)]
enum Happening {
    /// An event of this identifier comes that lists these hosts.
    Event {
        name: u8,
        hosts: Vec<u8>,
        after_ms: u16,
    },
    /// A host of this number changes its ways.
    Host {
        host: u8,
        mood: Mood,
    },
    Time {
        seconds: u8,
    },
}

#[derive(Clone, Copy, Debug)]
enum Mood {
    Fine,
    Failing,
    Slow,
    Resuming,
}

const HOSTS: u8 = 6;
const NAMES: u8 = 40;

fn happening() -> impl Strategy<Value = Happening> {
    let hosts = prop::collection::vec(0..HOSTS, 1..4);
    let moods = [Mood::Fine, Mood::Failing, Mood::Slow, Mood::Resuming];
    prop_oneof![
        5 => (0..NAMES, hosts, 0..2_000_u16)
            .prop_map(|(name, hosts, after_ms)| Happening::Event { name, hosts, after_ms }),
        1 => (0..HOSTS, prop::sample::select(moods.to_vec()))
            .prop_map(|(host, mood)| Happening::Host { host, mood }),
        2 => (0..40_u8).prop_map(|seconds| Happening::Time { seconds }),
    ]
}

fn address(host: u8, name: u8) -> String {
    format!("https://host{host}.example/{name}.git")
}

fn set_mood(world: &World, host: u8, mood: Mood) {
    for name in 0..NAMES {
        let at = address(host, name);
        match mood {
            Mood::Fine => world.state.lock().forget_acts(&url(&at)),
            Mood::Failing => world.act(&at, &[Act::Fail]),
            Mood::Slow => world.act(&at, &[Act::Slow(SECOND * 7)]),
            Mood::Resuming => world.act(&at, &[Act::Resume]),
        }
    }
}

async fn play(happenings: Vec<Happening>) -> Result<(), TestCaseError> {
    let world = World::new();
    let mut names: HashMap<Identifier, i64> = HashMap::new();
    let options = Options {
        max_tasks: 6,
        ..steady()
    };
    let mut limits = grip_limits::Options::default();
    limits.limits.in_flight = 2;
    limits.limits.per_window = 6;
    let (sync, group) = start_with(&world, options, limits);
    for (number, happening) in happenings.into_iter().enumerate() {
        match happening {
            Happening::Event {
                name,
                hosts,
                after_ms,
            } => {
                let number = number as u64;
                let urls: Vec<_> = hosts.iter().map(|host| address(*host, name)).collect();
                let urls: Vec<_> = urls.iter().map(String::as_str).collect();
                // Only one of them has it.
                world.provide(urls[urls.len() - 1], &[number]);
                let after = Duration::from_millis(after_ms.into());
                world.wait_for(&format!("x{name}"), need(&[number], &urls), after);
                names
                    .entry(identifier(&format!("x{name}")))
                    .or_insert(world.elapsed());
            }
            Happening::Host { host, mood } => set_mood(&world, host, mood),
            Happening::Time { seconds } => sleep(SECOND * seconds.into()).await,
        }
        prop_assert!(sync.status().running <= 6);
    }
    sleep(SECOND * 600).await;
    let asked: Vec<_> = world.state.lock().asked.clone();
    for name in names.keys() {
        let was_tried = asked.iter().any(|asked| asked.identifier == *name);
        prop_assert!(was_tried, "{name} was never tried");
    }
    // With all hosts well everything is released in the end.
    for host in 0..HOSTS {
        set_mood(&world, host, Mood::Fine);
    }
    // A URL that had nothing may be left alone for an hour first.
    sleep(SECOND * 6000).await;
    prop_assert!(world.is_done());
    check_limits(&world)?;
    let status = sync.status();
    prop_assert_eq!((status.running, status.in_line), (0, 0));
    let ended = group.shutdown(SECOND).await;
    prop_assert_eq!(ended, GroupEnded::Drained);
    Ok(())
}

fn check_limits(world: &World) -> Result<(), TestCaseError> {
    let state = world.state.lock();
    prop_assert!(state.most_in_flight.values().all(|most| *most <= 2));
    prop_assert!(state.most_fetches <= 6 + 4);
    let mut by_host: HashMap<String, Vec<i64>> = HashMap::new();
    for asked in &state.asked {
        let host = asked.url.host_str().unwrap_or_default().to_owned();
        by_host.entry(host).or_default().push(asked.at);
    }
    for times in by_host.values() {
        for window in times.windows(7) {
            prop_assert!(window[6] - window[0] >= 60_000, "{window:?}");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn limits_hold_and_every_identifier_is_tried_in_the_end(
        happenings in prop::collection::vec(happening(), 1..60)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(play(happenings))?;
    }
}
