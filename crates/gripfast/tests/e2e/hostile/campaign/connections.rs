//! Connections that are held, and frames that are half there or too long.

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use anyhow::Result;
use grip_testkit::{RelayClient, http::Connection};
use tokio::time::sleep;

use super::{Arena, Attack};

pub(super) const ATTACKS: &[Attack] = &[
    Attack::new("connections without a request", |arena, from| {
        Box::pin(idle(arena, from, b""))
    }),
    Attack::new("headers that never end", |arena, from| {
        Box::pin(idle(arena, from, b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "))
    }),
    Attack::new("websockets without a word", |arena, from| {
        Box::pin(silent_websockets(arena, from))
    }),
    Attack::new("frames that are half there", |arena, from| {
        Box::pin(half_frames(arena, from))
    }),
    Attack::new("frames that are too long", |arena, from| {
        Box::pin(long_frames(arena, from))
    }),
];

/// How long what was opened is held before it is opened again.
const HELD: Duration = Duration::from_secs(5);

async fn idle(arena: Arc<Arena>, from: Ipv4Addr, begun: &[u8]) -> Result<()> {
    let mut held: Vec<Connection> = Vec::new();
    for _ in 0..arena.share(400) {
        let mut connection = arena.connection(from).await?;
        connection.send(begun).await?;
        held.push(connection);
        arena.act().await;
    }
    sleep(HELD).await;
    Ok(())
}

async fn silent_websockets(arena: Arc<Arena>, from: Ipv4Addr) -> Result<()> {
    let mut held: Vec<RelayClient> = Vec::new();
    for _ in 0..arena.share(300) {
        held.push(arena.relay(from).await?);
        arena.act().await;
    }
    sleep(HELD).await;
    Ok(())
}

/// A websocket, spoken by hand.
async fn websocket(arena: &Arena, from: Ipv4Addr) -> Result<Connection> {
    let mut connection = arena.connection(from).await?;
    let headers = [
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    connection.ask("GET", "/", &headers, b"").await?;
    Ok(connection)
}

/// The head of a masked text frame of so many bytes.
fn frame_head(length: u64) -> Vec<u8> {
    [&[0x81, 0xff][..], &length.to_be_bytes(), &[0; 4]].concat()
}

/// Sends most of a frame that is just short enough, and never the rest.
async fn half_frames(arena: Arc<Arena>, from: Ipv4Addr) -> Result<()> {
    let part = vec![b'x'; 1_500_000];
    let mut held = Vec::new();
    for _ in 0..arena.share(100) {
        let mut connection = websocket(&arena, from).await?;
        connection.send(&frame_head(2_000_000)).await?;
        connection.send(&part).await?;
        held.push(connection);
        arena.act().await;
    }
    sleep(HELD).await;
    Ok(())
}

async fn long_frames(arena: Arc<Arena>, from: Ipv4Addr) -> Result<()> {
    let part = vec![b'x'; 3_000_000];
    let mut connection = websocket(&arena, from).await?;
    connection.send(&frame_head(1 << 30)).await?;
    connection.send(&part).await
}
