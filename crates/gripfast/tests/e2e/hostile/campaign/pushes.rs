//! Pushes that change nothing, fill the disk, or never end.

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use anyhow::Result;
use grip_testkit::{Author, http::Connection, wire};
use tokio::time::sleep;

use super::{Arena, Attack, DiskBudget, MIB};
use crate::hostile::scene::MAIN;

pub(super) const ATTACKS: &[Attack] = &[
    Attack::new("pushes that change nothing, with a pack", |arena, from| {
        Box::pin(no_change(arena, from))
    }),
    Attack {
        settings: &[
            ("GRIPFAST_STAGED_MAX_BYTES_PER_ADDRESS", "8 MiB"),
            ("GRIPFAST_STAGED_MAX_BYTES_PER_IDENTIFIER", "16 MiB"),
        ],
        disk_budget: DiskBudget {
            per_address: 12 * MIB,
            node: Some(20 * MIB),
        },
        ..Attack::new("refs/nostr that no event names", |arena, from| {
            Box::pin(orphan_refs(arena, from))
        })
    },
    Attack {
        settings: &[
            ("NGIT_GRASP06_ENABLE", "true"),
            ("GRIPFAST_PRS_MAX_BYTES_PER_ADDRESS", "8 MiB"),
            ("GRIPFAST_PRS_MAX_BYTES_PER_TARGET", "32 MiB"),
        ],
        disk_budget: DiskBudget {
            per_address: 12 * MIB,
            node: Some(40 * MIB),
        },
        ..Attack::new(
            "contributor repositories beyond their quota",
            |arena, from| Box::pin(contributors(arena, from)),
        )
    },
    Attack::new("packs that are none", |arena, from| {
        Box::pin(bad_packs(arena, from))
    }),
    Attack::new("pushes that trickle", |arena, from| {
        Box::pin(trickle(arena, from))
    }),
];

async fn no_change(arena: Arc<Arena>, from: Ipv4Addr) -> Result<()> {
    let edit = (arena.tip.as_str(), arena.tip.as_str(), MAIN);
    arena.push(from, edit, &arena.noise.1).await.map(drop)
}

async fn orphan_refs(arena: Arc<Arena>, from: Ipv4Addr) -> Result<()> {
    let name = format!("refs/nostr/{}", Arena::random_id());
    let (tip, pack) = &arena.noise;
    arena
        .push(from, (wire::ZERO, tip, &name), pack)
        .await
        .map(drop)
}

/// A contributor repository of a key of its own for each upload.
async fn contributors(arena: Arc<Arena>, from: Ipv4Addr) -> Result<()> {
    let repository = format!("/prs/{}/{}.git", Author::new().npub(), arena.identifier);
    let name = format!("refs/nostr/{}", Arena::random_id());
    let (tip, pack) = &arena.noise;
    let edit = (wire::ZERO, tip.as_str(), name.as_str());
    let pushed = arena.push_to(&repository, from, edit, pack);
    pushed.await.map(drop)
}

async fn bad_packs(arena: Arc<Arena>, from: Ipv4Addr) -> Result<()> {
    let name = format!("refs/nostr/{}", Arena::random_id());
    let (tip, pack) = &arena.noise;
    // Well begun, then cut, with its checksum missing.
    let cut = &pack[..pack.len() / 2];
    arena
        .push(from, (wire::ZERO, tip, &name), cut)
        .await
        .map(drop)
}

/// Holds as many uploads as it gets, and sends a byte of each from time to time.
async fn trickle(arena: Arc<Arena>, from: Ipv4Addr) -> Result<()> {
    let mut uploads: Vec<Connection> = Vec::new();
    for _ in 0..arena.share(96) {
        let name = format!("refs/nostr/{}", Arena::random_id());
        let tip = Arena::random_oid();
        let mut body = wire::commands(&[(wire::ZERO, &tip, &name)], wire::CAPABILITIES);
        body.extend(b"PACK\0\0\0\x02\0\0\0\x09");
        let head = format!(
            "POST {}/git-receive-pack HTTP/1.1\r\nHost: x\r\nContent-Type: {}\r\n\
             Content-Length: {}\r\n\r\n",
            arena.path,
            wire::PUSH_TYPE,
            body.len() + 1_000_000
        );
        let mut upload = arena.connection(from).await?;
        upload.send(&[head.as_bytes(), &body].concat()).await?;
        uploads.push(upload);
        arena.act().await;
    }
    for _ in 0..20 {
        sleep(Duration::from_millis(250)).await;
        for upload in &mut uploads {
            // Those that were cut are not sent to any more.
            let _ = upload.send(b"x").await;
        }
    }
    Ok(())
}
