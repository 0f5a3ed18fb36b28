//! Stored queries over eight connections.

use std::{path::Path, time::Instant};

use anyhow::{Context as _, Result};
use futures_util::{SinkExt as _, StreamExt as _};
use grip_testkit::Author;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::{
    fixture::Fixture,
    report::{Table, percentile},
};

const CONNECTIONS: usize = 8;

pub async fn measure(binary: &Path, table: &mut Table) -> Result<()> {
    let fixture = Fixture::new(binary).await?;
    let authors: Vec<Author> = (0..50).map(|_| Author::new()).collect();
    let events = fixture.issues(&authors, 20_000);
    let mut relay = fixture.node.connect().await?;
    for some in events.chunks(500) {
        for event in some {
            relay.send(json!(["EVENT", event])).await?;
        }
        for event in some {
            relay.answer(&event.id).await?;
        }
    }
    let coordinate = fixture
        .project
        .owner
        .coordinate(&fixture.project.identifier);
    let sizes = [
        ("by id", 4_000, 1, "22,977/s"),
        ("author + kind, 50", 800, 50, "1,797/s"),
        ("#a, 500", 150, 500, "221/s"),
        ("time range, 100", 600, 100, "963/s"),
    ];
    for (name, rounds, expected, peer) in sizes {
        let filter = |n: usize| -> Value {
            let event = &events[(n * 7919) % events.len()];
            match name {
                "by id" => json!({"ids": [event.id]}),
                "author + kind, 50" => {
                    json!({"authors": [event.pubkey], "kinds": [1621], "limit": 50})
                }
                "#a, 500" => json!({"#a": [coordinate], "kinds": [1621], "limit": 500}),
                _ => {
                    let until = event
                        .created_at
                        .as_secs()
                        .max(events[200].created_at.as_secs());
                    json!({"until": until, "limit": 100})
                }
            }
        };
        let cpu = fixture.cpu_seconds()?;
        let began = Instant::now();
        let asking = (0..CONNECTIONS)
            .map(|c| ask(&fixture, rounds, expected, move |n| c * 131 + n, &filter));
        futures_util::future::try_join_all(asking).await?;
        let seconds = began.elapsed().as_secs_f64();
        let total = (rounds * CONNECTIONS) as f64;
        let cpu = (fixture.cpu_seconds()? - cpu) / total * 1e6;
        let mut alone = ask(&fixture, rounds.min(200), expected, |n| n, &filter).await?;
        let p99 = percentile(&mut alone, 0.99);
        let value = format!(
            "{:.0}/s, {cpu:.0} µs CPU each, p99 alone {p99:.2} ms",
            total / seconds
        );
        table.row(
            &format!("REQ {name}, 8 connections"),
            value,
            "–",
            None,
            peer,
        );
    }
    Ok(())
}

/// Asks one after the other; returns each query's time to EOSE in ms.
async fn ask(
    fixture: &Fixture,
    rounds: usize,
    expected: usize,
    pick: impl Fn(usize) -> usize,
    filter: &impl Fn(usize) -> Value,
) -> Result<Vec<f64>> {
    let (mut socket, _) =
        tokio_tungstenite::connect_async_with_config(fixture.node.relay_url(), None, true).await?;
    let mut times = Vec::with_capacity(rounds);
    for n in 0..rounds {
        let began = Instant::now();
        socket
            .send(Message::text(
                json!(["REQ", "q", filter(pick(n))]).to_string(),
            ))
            .await?;
        let mut found = 0;
        loop {
            let Message::Text(text) = socket.next().await.context("closed")?? else {
                continue;
            };
            if text.starts_with(r#"["EOSE""#) {
                break;
            }
            found += 1;
        }
        anyhow::ensure!(found == expected, "{found} events instead of {expected}");
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    Ok(times)
}
