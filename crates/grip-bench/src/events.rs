//! Events accepted: connections times events in flight.

use std::{collections::HashMap, path::Path, time::Instant};

use anyhow::{Context as _, Result, bail};
use futures_util::{SinkExt as _, StreamExt as _};
use grip_testkit::{Author, Node};
use nostr::prelude::Event;
use tokio_tungstenite::tungstenite::Message;

use crate::{
    fixture::{self, Fixture},
    report::{Table, median},
};

pub async fn measure(binary: &Path, table: &mut Table) -> Result<()> {
    let fixture = Fixture::new(binary).await?;
    let authors: Vec<Author> = (0..50).map(|_| Author::new()).collect();
    let events = fixture.issues(&authors, 62_000);
    let verify = fixture::verify_micros(&events);
    let sync = fixture::sync_millis()?;
    let rounds = [
        (
            "1 connection, one at a time",
            1,
            1,
            2_000,
            "957/s, OK p50 1.0 ms",
        ),
        ("1 connection, 32 in flight", 1, 32, 15_000, "712/s"),
        ("8 connections, 32 in flight", 8, 32, 20_000, "–"),
        (
            "64 connections, 32 in flight",
            64,
            32,
            25_000,
            "2,155/s, 0.41 s CPU per 1k",
        ),
    ];
    let mut rest = events.as_slice();
    for (name, connections, window, count, peer) in rounds {
        let (batch, later) = rest.split_at(count);
        rest = later;
        let cpu = fixture.cpu_seconds()?;
        let began = Instant::now();
        let mut latencies = send_all(&fixture.node, batch, connections, window).await?;
        let seconds = began.elapsed().as_secs_f64();
        let cpu_per_1k = (fixture.cpu_seconds()? - cpu) / count as f64 * 1_000.0;
        let rate = count as f64 / seconds;
        let p50 = median(&mut latencies);
        let value = format!("{rate:.0}/s, OK p50 {p50:.2} ms, {cpu_per_1k:.3} s CPU per 1k");
        let (floor, ratio) = if window == 1 {
            (format!("fdatasync {sync:.2} ms"), p50 / sync)
        } else {
            let floor = 1e6 / verify;
            (
                format!("verify {verify:.0} µs = {floor:.0}/s/core"),
                rate / floor,
            )
        };
        table.row(&format!("events: {name}"), value, &floor, Some(ratio), peer);
    }
    let anonymous = crate::report::mib(fixture.node.anonymous_rss_bytes()?);
    table.row(
        "server memory after 62k events, anonymous",
        anonymous,
        "–",
        None,
        "430 MB RSS",
    );
    Ok(())
}

/// Sends `events` over so many connections with at most `window` unanswered on each; returns each
/// answer's delay in ms.
pub async fn send_all(
    node: &Node,
    events: &[Event],
    connections: usize,
    window: usize,
) -> Result<Vec<f64>> {
    let share = events.len().div_ceil(connections);
    let sending = events.chunks(share).map(|share| send(node, share, window));
    let latencies: Vec<Vec<f64>> = futures_util::future::try_join_all(sending).await?;
    Ok(latencies.concat())
}

async fn send(node: &Node, events: &[Event], window: usize) -> Result<Vec<f64>> {
    let (mut socket, _) =
        tokio_tungstenite::connect_async_with_config(node.relay_url(), None, true).await?;
    let frames: Vec<String> = events
        .iter()
        .map(|event| serde_json::to_string(event).map(|json| format!(r#"["EVENT",{json}]"#)))
        .collect::<Result<_, _>>()?;
    let mut sent_at = HashMap::new();
    let mut latencies = Vec::with_capacity(events.len());
    let mut queue = events.iter().zip(frames);
    loop {
        while sent_at.len() < window {
            let Some((event, frame)) = queue.next() else {
                break;
            };
            sent_at.insert(event.id.to_hex(), Instant::now());
            socket.feed(Message::text(frame)).await?;
        }
        socket.flush().await?;
        if sent_at.is_empty() {
            return Ok(latencies);
        }
        let Message::Text(text) = socket.next().await.context("closed")?? else {
            continue;
        };
        let Some(rest) = text.strip_prefix(r#"["OK",""#) else {
            continue;
        };
        let (id, verdict) = rest.split_at(64);
        if !verdict.starts_with("\",true") {
            bail!("refused: {text}");
        }
        let sent = sent_at.remove(id).context("an answer to nothing")?;
        latencies.push(sent.elapsed().as_secs_f64() * 1e3);
    }
}
