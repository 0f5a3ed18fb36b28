//! Queries that scan, and readers that do not read.

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use grip_testkit::{Author, RelayClient, events::tag};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{Arena, Attack, DiskBudget, MIB};

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        stored_events: 1_500,
        ..Attack::new("REQs that scan", |arena, from| Box::pin(scans(arena, from)))
    },
    Attack {
        stored_events: 1_500,
        ..Attack::new("COUNTs that scan", |arena, from| {
            Box::pin(counts(arena, from))
        })
    },
    Attack {
        stored_events: 1_500,
        ..Attack::new("reconciliations of everything", |arena, from| {
            Box::pin(reconciliations(arena, from))
        })
    },
    Attack::new("filters of a thousand ids", |arena, from| {
        Box::pin(long_filters(arena, from))
    }),
    Attack {
        disk_budget: DiskBudget::of_address(64 * MIB),
        lasting: DiskBudget::of_address(64 * MIB),
        ..Attack::new("subscribers that do not read", |arena, from| {
            Box::pin(deaf_subscribers(arena, from))
        })
    },
];

/// Sends questions one after the other, and reads up to the end of each answer.
async fn ask(
    arena: &Arena,
    from: Ipv4Addr,
    question: impl Fn(usize) -> Value,
    ends: &[&str],
) -> Result<()> {
    let mut relay = arena.relay(from).await?;
    for n in 0..100 {
        relay.send(question(n)).await?;
        loop {
            let message = relay.next().await?.context("the relay closed")?;
            if ends.contains(&message[0].as_str().unwrap_or_default()) {
                break;
            }
        }
        arena.act().await;
    }
    Ok(())
}

async fn scans(arena: Arc<Arena>, from: Ipv4Addr) -> Result<()> {
    let question = |n: usize| {
        let filter = if n.is_multiple_of(2) {
            json!({"limit": 5_000})
        } else {
            json!({"kinds": [1621], "#t": ["nothing has this"], "since": 1})
        };
        json!(["REQ", "scan", filter])
    };
    ask(&arena, from, question, &["EOSE", "CLOSED", "NOTICE"]).await
}

async fn counts(arena: Arc<Arena>, from: Ipv4Addr) -> Result<()> {
    let question = |_| json!(["COUNT", "count", {}, {"kinds": [1621]}, {"since": 1}]);
    ask(&arena, from, question, &["COUNT", "CLOSED", "NOTICE"]).await
}

async fn reconciliations(arena: Arc<Arena>, from: Ipv4Addr) -> Result<()> {
    let question = |n: usize| json!(["NEG-OPEN", format!("n{}", n % 8), {}, "6100000200"]);
    ask(&arena, from, question, &["NEG-MSG", "NEG-ERR", "NOTICE"]).await
}

async fn long_filters(arena: Arc<Arena>, from: Ipv4Addr) -> Result<()> {
    let ids: Vec<String> = (0..1_000).map(|_| Arena::random_id()).collect();
    let question = |n: usize| json!(["REQ", format!("s{n}"), {"ids": ids}, {"authors": ids}]);
    ask(&arena, from, question, &["EOSE", "CLOSED", "NOTICE"]).await
}

/// Many subscriptions to what the attacker then sends much of.
async fn deaf_subscribers(arena: Arc<Arena>, from: Ipv4Addr) -> Result<()> {
    let mut deaf: Vec<RelayClient> = Vec::new();
    for _ in 0..arena.share(16) {
        let mut relay = arena.relay(from).await?;
        for n in 0..50 {
            let subscription = json!(["REQ", format!("s{n}"), {"kinds": [1621]}]);
            relay.send(subscription).await?;
        }
        deaf.push(relay);
        arena.act().await;
    }
    let mut relay = arena.relay(from).await?;
    let author = Author::new();
    let text = "x".repeat(20_000);
    for n in 0..100 {
        let tags = vec![
            tag(["a", &arena.coordinate()]),
            tag(["subject", &n.to_string()]),
        ];
        arena
            .publish(&mut relay, &author.sign(1621, &text, tags))
            .await?;
    }
    sleep(Duration::from_secs(2)).await;
    Ok(())
}
