//! Fetches that are not read, that make the server think, or that come without end.

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use anyhow::Result;
use grip_testkit::{http::Connection, wire};
use tokio::time::sleep;

use super::{Arena, Attack};

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        repository_mib: 8,
        ..Attack::new("fetches that are not read", |arena, from| {
            Box::pin(unread(arena, from))
        })
    },
    Attack::new("fetches with 20,000 haves", |arena, from| {
        Box::pin(haves(arena, from))
    }),
    Attack::new("listings of refs without end", |arena, from| {
        Box::pin(listings(arena, from))
    }),
];

fn fetch(arena: &Arena, haves: usize) -> Vec<u8> {
    let haves = (0..haves).map(|_| Arena::random_oid());
    wire::fetch_request(&arena.path, &arena.tip, haves)
}

/// Asks for a whole repository and reads none of it.
async fn unread(arena: Arc<Arena>, from: Ipv4Addr) -> Result<()> {
    let body = fetch(&arena, 0);
    let mut held: Vec<Connection> = Vec::new();
    for _ in 0..arena.share(96) {
        let mut connection = arena.connection(from).await?;
        connection.send(&body).await?;
        held.push(connection);
        arena.act().await;
    }
    sleep(Duration::from_secs(5)).await;
    Ok(())
}

async fn haves(arena: Arc<Arena>, from: Ipv4Addr) -> Result<()> {
    let body = fetch(&arena, 20_000);
    let mut connection = arena.connection(from).await?;
    connection.send(&body).await?;
    connection.response().await.map(drop)
}

async fn listings(arena: Arc<Arena>, from: Ipv4Addr) -> Result<()> {
    let path = format!("{}/info/refs?service=git-upload-pack", arena.path);
    let mut connection = arena.connection(from).await?;
    for _ in 0..100 {
        connection.get(&path).await?;
        arena.act().await;
    }
    Ok(())
}
