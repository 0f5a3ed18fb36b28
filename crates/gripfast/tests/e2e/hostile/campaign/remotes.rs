//! Small events that make the node fetch from hosts of the attacker.

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use anyhow::Result;
use grip_testkit::{Author, events::tag, remote::Behaviour};

use super::{Arena, Attack, DiskBudget, Elsewhere, MIB};
use crate::hostile::scene::MAIN;

/// Hosts on this machine are asked, and at once.
const EAGER: &[(&str, &str)] = &[
    ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true"),
    ("NGIT_SYNC_DEFAULT_DELAY_SECS", "0"),
    ("NGIT_SYNC_LOOP_INTERVAL_MS", "100"),
    ("GRIPFAST_SYNC_MAX_PACK_BYTES", "8 MiB"),
];

const fn attack(name: &'static str, behaviour: fn() -> Behaviour) -> Attack {
    Attack {
        settings: EAGER,
        elsewhere: Elsewhere::Hosts(behaviour),
        // What is in quarantine at the end: a pack for each of five requests to each host.
        disk_budget: DiskBudget::of_node(4 * 5 * 8 * MIB),
        ..Attack::new(name, |arena, from| {
            Box::pin(announce_elsewhere(arena, from))
        })
    }
}

pub(super) const ATTACKS: &[Attack] = &[
    attack("events that name hosts which hang", || {
        Behaviour::HangBeforeHeaders
    }),
    attack("events that name hosts which trickle", || {
        Behaviour::Trickle {
            bytes: 16,
            every: Duration::from_millis(100),
        }
    }),
    attack("events that name hosts with endless packs", || {
        Behaviour::Endless
    }),
    attack("events that name hosts which say 429", || {
        Behaviour::retry_after(429, 86_400)
    }),
];

/// Announces repositories whose data is at the attacker's hosts, and states that need it.
async fn announce_elsewhere(arena: Arc<Arena>, from: Ipv4Addr) -> Result<()> {
    let mut relay = arena.relay(from).await?;
    for n in 0..100_u32 {
        let (stranger, name) = (Author::new(), format!("bait-{}", rand::random::<u32>()));
        let own = stranger.clone_url(&arena.authority, &name);
        let mut urls = vec!["clone".to_owned(), own];
        urls.extend(arena.hosts.iter().map(|host| host.clone_url("x.git")));
        let tags = vec![
            tag(["d", &name]),
            tag(urls),
            tag(["relays", &format!("ws://{}", arena.authority)]),
        ];
        let announcement = stranger.sign(30617, &n.to_string(), tags);
        arena.publish(&mut relay, &announcement).await?;
        let state = stranger.state(&name, &[(MAIN, &arena.noise.0)], Some(MAIN));
        arena.publish(&mut relay, &state).await?;
    }
    Ok(())
}
