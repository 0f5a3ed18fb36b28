//! A relay of the attacker that the node follows, because announcements name it.

use std::{net::Ipv4Addr, sync::Arc};

use anyhow::{Context as _, Result};
use grip_testkit::{Author, events::tag};

use super::{Arena, Attack, DiskBudget, Elsewhere, MIB};

/// `relay_synced_burst_bytes`, and the pages of the store that they lie in.
const SYNCED: DiskBudget = DiskBudget::of_node(24 * MIB);

pub(super) const ATTACKS: &[Attack] = &[Attack {
    settings: &[
        ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true"),
        ("NGIT_SYNC_BASE_BACKOFF_SECS", "1"),
        ("NGIT_SYNC_MAX_BACKOFF_SECS", "1"),
        ("GRIPFAST_SYNC_DOMAIN_RATE_LIMIT", "6000"),
        ("GRIPFAST_RELAY_SYNCED_BURST_BYTES", "8388608"),
        ("GRIPFAST_RELAY_SYNCED_BYTES_PER_HOUR", "1024"),
    ],
    disk_budget: SYNCED,
    // They are about something served, and stay.
    lasting: SYNCED,
    elsewhere: Elsewhere::Relay,
    ..Attack::new("a followed relay with endless issues", |arena, from| {
        Box::pin(name_relay(arena, from))
    })
}];

/// Announces repositories that are followed on the attacker's relay.
async fn name_relay(arena: Arc<Arena>, from: Ipv4Addr) -> Result<()> {
    let hostile = arena.hostile_relay.as_ref().context("a relay")?.url();
    let mut relay = arena.relay(from).await?;
    for _ in 0..20 {
        let (stranger, name) = (Author::new(), format!("bait-{}", rand::random::<u32>()));
        let own = format!("ws://{}", arena.authority);
        let tags = vec![
            tag(["d", &name]),
            tag(["clone", &stranger.clone_url(&arena.authority, &name)]),
            tag(["relays", &own, &hostile]),
        ];
        let announcement = stranger.sign(30617, "", tags);
        arena.publish(&mut relay, &announcement).await?;
    }
    Ok(())
}
