use proptest::prelude::*;

use super::*;

const HOUR: Duration = Duration::from_secs(3_600);

fn node(url: &str, age: Duration) -> Candidate {
    Candidate {
        url: Url::parse(url).unwrap(),
        named_by: NamedBy::Node(PeerName::from_bytes(&[1; 38]).unwrap()),
        age,
        region: None,
        health: HostHealth::default(),
    }
}

fn urls(ranked: &[Provider]) -> Vec<&str> {
    ranked
        .iter()
        .map(|provider| provider.url.as_str())
        .collect()
}

#[test]
fn a_claim_is_worth_half_after_a_half_life() {
    let candidates = vec![
        node("https://a/", 24 * HOUR),
        node("https://b/", Duration::ZERO),
    ];
    let ranked = rank(candidates, &Options::default(), None, 9);
    assert_eq!(urls(&ranked), ["https://b/", "https://a/"]);
    assert!((ranked[0].score / ranked[1].score - 2.0).abs() < 1e-9);
}

#[test]
fn what_the_owner_says_ages_no_further_than_one_half_life() {
    let owner = |age| Candidate {
        named_by: NamedBy::Owner,
        ..node("https://a/", age)
    };
    let score = |candidate| rank(vec![candidate], &Options::default(), None, 1)[0].score;
    assert_eq!(score(owner(24 * HOUR)), score(owner(9_000 * HOUR)));
    assert!(score(node("https://a/", 48 * HOUR)) < score(owner(48 * HOUR)));
}

#[test]
fn a_failing_host_comes_later_and_an_open_one_last() {
    let with = |url: &str, successes, failures, is_open| Candidate {
        health: HostHealth {
            successes,
            failures,
            is_open,
            latency: None,
        },
        ..node(url, HOUR)
    };
    let candidates = vec![
        with("https://shut/", 90, 0, true),
        with("https://bad/", 0, 3, false),
        with("https://unknown/", 0, 0, false),
        with("https://moody/", 1, 9, false),
        with("https://good/", 9, 1, false),
    ];
    let candidates = spread(candidates);
    let ranked = rank(candidates, &Options::default(), None, 9);
    // One that has answered before is better than one of which nothing is known.
    let wanted = [
        "https://good/",
        "https://moody/",
        "https://unknown/",
        "https://bad/",
        "https://shut/",
    ];
    assert_eq!(urls(&ranked), wanted);
}

#[test]
fn of_hosts_that_answer_alike_the_faster_comes_first_and_says_so() {
    let with = |url: &str, ms| Candidate {
        health: HostHealth {
            successes: 9,
            failures: 1,
            latency: Some(Duration::from_millis(ms)),
            ..HostHealth::default()
        },
        ..node(url, HOUR)
    };
    let candidates = spread(vec![with("https://far/", 900), with("https://near/", 40)]);
    let ranked = rank(candidates, &Options::default(), None, 9);
    assert_eq!(urls(&ranked), ["https://near/", "https://far/"]);
    assert_eq!(
        ranked[0].why,
        "offered by a node, answered 9 of 10 requests, responds after 40 ms, signed 1 h ago"
    );
}

/// Each named by a node of its own.
fn spread(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    for (n, candidate) in (1_u8..).zip(&mut candidates) {
        candidate.named_by = NamedBy::Node(PeerName::from_bytes(&[n; 38]).unwrap());
    }
    candidates
}

#[test]
fn what_the_owner_named_comes_before_what_nodes_say_unless_it_is_shut() {
    let owner = |url: &str, is_open| Candidate {
        named_by: NamedBy::Owner,
        health: HostHealth {
            is_open,
            ..HostHealth::default()
        },
        ..node(url, 9_000 * HOUR)
    };
    let known = Candidate {
        health: HostHealth {
            successes: 90,
            ..HostHealth::default()
        },
        ..node("https://node/", Duration::ZERO)
    };
    let candidates = vec![
        known,
        owner("https://shut/", true),
        owner("https://z/", false),
    ];
    let ranked = rank(candidates, &Options::default(), None, 9);
    assert_eq!(
        urls(&ranked),
        ["https://z/", "https://node/", "https://shut/"]
    );
}

#[test]
fn a_node_has_two_places_however_many_urls_it_names() {
    let many = |n: usize| node(&format!("https://h{n}.example/"), Duration::ZERO);
    let mut candidates: Vec<_> = (0..8).map(many).collect();
    let mut other = node("https://other.example/", 24 * HOUR);
    other.named_by = NamedBy::Node(PeerName::from_bytes(&[2; 38]).unwrap());
    candidates.push(other);
    let ranked = rank(candidates, &Options::default(), None, 9);
    let wanted = [
        "https://h0.example/",
        "https://h1.example/",
        "https://other.example/",
    ];
    assert_eq!(urls(&ranked), wanted);
}

#[test]
fn the_wanted_region_is_preferred_and_the_own_one_if_none_is_wanted() {
    let candidates = || {
        let there = |url, region: &str| Candidate {
            region: Some(region.to_owned()),
            ..node(url, HOUR)
        };
        vec![there("https://eu/", "eu"), there("https://us/", "us")]
    };
    let options = Options {
        region: "us".into(),
        ..Options::default()
    };
    assert_eq!(
        urls(&rank(candidates(), &options, None, 1)),
        ["https://us/"]
    );
    assert_eq!(
        urls(&rank(candidates(), &options, Some("eu"), 1)),
        ["https://eu/"]
    );
}

#[test]
fn denied_hosts_and_those_below_them_are_left_out() {
    let options = Options {
        deny: vec![Domain::parse("evil.example").unwrap()],
        ..Options::default()
    };
    let candidates = [
        "https://evil.example/",
        "https://a.evil.example:8443/",
        "https://notevil.example/",
    ];
    let candidates = candidates.map(|url| node(url, HOUR)).to_vec();
    assert_eq!(
        urls(&rank(spread(candidates), &options, None, 9)),
        ["https://notevil.example/"]
    );
}

fn any_candidate() -> impl Strategy<Value = Candidate> {
    let took_ms = prop::option::of(0..3_u64);
    let health = (0..3_u64, 0..3_u64, any::<bool>(), took_ms);
    (
        0..6_u8,
        0..4_u8,
        0..4_u64,
        prop::option::of(0..2_u8),
        health,
    )
        .prop_map(
            |(url, named, days, region, (successes, failures, is_open, took_ms))| Candidate {
                named_by: match named {
                    0 => NamedBy::Owner,
                    n => NamedBy::Node(PeerName::from_bytes(&[n; 38]).unwrap()),
                },
                region: region.map(|r| format!("r{r}")),
                health: HostHealth {
                    successes,
                    failures,
                    is_open,
                    latency: took_ms.map(Duration::from_millis),
                },
                ..node(
                    &format!("https://h{url}.example/"),
                    Duration::from_secs(days * 86_400),
                )
            },
        )
}

proptest! {
    #[test]
    fn the_order_is_total_and_depends_on_the_set_alone(
        mut candidates in prop::collection::vec(any_candidate(), 0..12),
        turn in any::<prop::sample::Index>(),
        limit in 0..8_usize,
    ) {
        let options = Options::default();
        let ranked = rank(candidates.clone(), &options, Some("r1"), limit);
        prop_assert!(ranked.len() <= limit);
        for pair in ranked.windows(2) {
            let class = |it: &Provider| (it.is_shut, it.named_by != NamedBy::Owner);
            prop_assert!(class(&pair[0]) <= class(&pair[1]));
            prop_assert!(pair[0].url != pair[1].url);
        }
        prop_assert!(ranked.iter().all(|p| p.score.is_finite() && p.score >= 0.0));
        let whole = rank(candidates.clone(), &options, Some("r1"), usize::MAX);
        prop_assert_eq!(&whole[..ranked.len()], &ranked[..]);
        if !candidates.is_empty() {
            let turn = turn.index(candidates.len());
            candidates.rotate_left(turn);
            candidates.reverse();
        }
        prop_assert_eq!(rank(candidates, &options, Some("r1"), limit), ranked);
    }
}
