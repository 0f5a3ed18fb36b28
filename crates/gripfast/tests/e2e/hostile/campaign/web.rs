//! Floods of pages, of webhooks and of names to be resolved.

use std::{net::Ipv4Addr, sync::Arc};

use anyhow::Result;
use grip_testkit::Author;

use super::{Arena, Attack};

pub(super) const ATTACKS: &[Attack] = &[
    Attack::new("pages and JSON without end", |arena, from| {
        Box::pin(pages(arena, from))
    }),
    Attack {
        settings: &[("GRIPFAST_GITHUB_WEBHOOK_SECRET", "a secret of the test")],
        ..Attack::new("webhooks with false signatures", |arena, from| {
            Box::pin(webhooks(arena, from))
        })
    },
    Attack {
        settings: &[
            ("GRIPFAST_DHT_ENABLED", "true"),
            ("GRIPFAST_DHT_LISTEN", "/ip4/127.0.0.1/tcp/0"),
            ("GRIPFAST_DHT_LAN_ONLY", "true"),
        ],
        ..Attack::new("names that nobody has, to be resolved", |arena, from| {
            Box::pin(resolutions(arena, from))
        })
    },
];

async fn pages(arena: Arc<Arena>, from: Ipv4Addr) -> Result<()> {
    let mut connection = arena.connection(from).await?;
    let paths = [
        "/".to_owned(),
        arena.path.clone(),
        "/purgatory".to_owned(),
        "/sync".to_owned(),
        "/index".to_owned(),
        "/api/v1/purgatory".to_owned(),
        format!("/api/v1/explain/{}", Arena::random_id()),
    ];
    for path in paths.iter().cycle().take(100) {
        connection.get(path).await?;
        arena.act().await;
    }
    Ok(())
}

async fn webhooks(arena: Arc<Arena>, from: Ipv4Addr) -> Result<()> {
    let mut connection = arena.connection(from).await?;
    let body = vec![b'x'; 256 << 10];
    let signature = format!("sha256={}", "ab".repeat(32));
    let headers = [
        ("content-type", "application/json"),
        ("x-github-event", "push"),
        ("x-github-delivery", "d"),
        ("x-hub-signature-256", signature.as_str()),
    ];
    for _ in 0..100 {
        connection
            .ask("POST", "/webhooks/github", &headers, &body)
            .await?;
        arena.act().await;
    }
    Ok(())
}

async fn resolutions(arena: Arc<Arena>, from: Ipv4Addr) -> Result<()> {
    let mut connection = arena.connection(from).await?;
    let nobody = Author::new().npub();
    for n in 0..100 {
        let path = if n % 2 == 0 {
            format!("/resolve/name:{nobody}/{}", rand::random::<u32>())
        } else {
            format!("/providers/b3:{}", Arena::random_id())
        };
        connection.get(&path).await?;
        arena.act().await;
    }
    Ok(())
}
