//! Events under a victim's name, events that cost work, and events without a use.

use std::{net::Ipv4Addr, sync::Arc};

use anyhow::Result;
use grip_testkit::{Author, events::tag};
use nostr::prelude::{EventId, Timestamp};
use serde_json::json;

use super::{Arena, Attack, DiskBudget, MIB};
use crate::hostile::scene::MAIN;

pub(super) const ATTACKS: &[Attack] = &[
    Attack::new("states under the victim's name", |arena, from| {
        Box::pin(states(arena, from))
    }),
    Attack::new("announcements of the victim's name", |arena, from| {
        Box::pin(announcements(arena, from))
    }),
    Attack::new("pull requests without their data", |arena, from| {
        Box::pin(pull_requests(arena, from))
    }),
    Attack {
        // `relay_related_burst_bytes`, and the pages of the store that they lie in.
        disk_budget: DiskBudget::of_address(64 * MIB),
        lasting: DiskBudget::of_address(64 * MIB),
        ..Attack::new("events full of tags", |arena, from| {
            Box::pin(full_of_tags(arena, from))
        })
    },
    Attack {
        // `relay_unrelated_burst_bytes`, and an index entry for each id they name.
        disk_budget: DiskBudget::of_address(8 * MIB),
        lasting: DiskBudget::of_address(8 * MIB),
        ..Attack::new("deletions of what nobody has", |arena, from| {
            Box::pin(deletions(arena, from))
        })
    },
    Attack {
        disk_budget: DiskBudget::of_address(8 * MIB),
        lasting: DiskBudget::of_address(8 * MIB),
        ..Attack::new("deletions of hundreds of repositories", |arena, from| {
            Box::pin(deletions_of_repositories(arena, from))
        })
    },
    Attack::new(
        "pull requests to hundreds of repositories",
        |arena, from| Box::pin(broad_pull_requests(arena, from)),
    ),
    Attack::new("events with forged signatures", |arena, from| {
        Box::pin(forgeries(arena, from))
    }),
];

async fn states(arena: Arc<Arena>, from: Ipv4Addr) -> Result<()> {
    let mut relay = arena.relay(from).await?;
    let stranger = Author::new();
    let announcement = stranger.announcement(&arena.authority, &arena.identifier, vec![]);
    arena.publish(&mut relay, &announcement).await?;
    let at = Timestamp::now().as_secs() - 5_000;
    for n in 0..99 {
        let (tip, at) = (Arena::random_oid(), Timestamp::from_secs(at + n));
        let state = stranger.state_at(&arena.identifier, &[(MAIN, &tip)], None, at);
        arena.publish(&mut relay, &state).await?;
    }
    Ok(())
}

async fn announcements(arena: Arc<Arena>, from: Ipv4Addr) -> Result<()> {
    let mut relay = arena.relay(from).await?;
    for _ in 0..200 {
        let announcement = Author::new().announcement(&arena.authority, &arena.identifier, vec![]);
        arena.publish(&mut relay, &announcement).await?;
    }
    Ok(())
}

async fn pull_requests(arena: Arc<Arena>, from: Ipv4Addr) -> Result<()> {
    let mut relay = arena.relay(from).await?;
    let stranger = Author::new();
    for _ in 0..200 {
        let tip = Arena::random_oid();
        let (owner, name) = (&arena.owner, &arena.identifier);
        let event = stranger.pull_request(owner, name, &tip, "https://nowhere.invalid/x.git");
        arena.publish(&mut relay, &event).await?;
    }
    Ok(())
}

/// As many references as are allowed, none of which is known.
async fn full_of_tags(arena: Arc<Arena>, from: Ipv4Addr) -> Result<()> {
    let mut relay = arena.relay(from).await?;
    let stranger = Author::new();
    for _ in 0..200 {
        let references = (0..450).map(|_| tag(["e", &Arena::random_id()]));
        let tags = [tag(["a", &arena.coordinate()])].into_iter();
        let event = stranger.sign(1621, "", tags.chain(references).collect());
        arena.publish(&mut relay, &event).await?;
    }
    Ok(())
}

async fn deletions(arena: Arc<Arena>, from: Ipv4Addr) -> Result<()> {
    let mut relay = arena.relay(from).await?;
    for _ in 0..200 {
        let ids: Result<Vec<EventId>, _> = (0..100)
            .map(|_| EventId::from_hex(&Arena::random_id()))
            .collect();
        let deletion = Author::new().delete_events(&ids?);
        arena.publish(&mut relay, &deletion).await?;
    }
    Ok(())
}

/// Coordinates of the victim's repository and of many that a stranger says to have.
fn coordinates(arena: &Arena, stranger: &Author) -> impl Iterator<Item = Vec<String>> {
    let own = (0..300).map(|n| stranger.coordinate(&format!("bait-{n}")));
    [arena.coordinate()]
        .into_iter()
        .chain(own)
        .map(|it| tag(["a", &it]))
}

async fn deletions_of_repositories(arena: Arc<Arena>, from: Ipv4Addr) -> Result<()> {
    let mut relay = arena.relay(from).await?;
    for _ in 0..200 {
        let stranger = Author::new();
        let deletion = stranger.sign(5, "", coordinates(&arena, &stranger).collect());
        arena.publish(&mut relay, &deletion).await?;
    }
    Ok(())
}

async fn broad_pull_requests(arena: Arc<Arena>, from: Ipv4Addr) -> Result<()> {
    let mut relay = arena.relay(from).await?;
    for _ in 0..200 {
        let stranger = Author::new();
        let data = [
            tag(["c", &Arena::random_oid()]),
            tag(["clone", "https://nowhere.invalid/x.git"]),
        ];
        let tags = coordinates(&arena, &stranger).chain(data).collect();
        let event = stranger.sign(1618, "", tags);
        arena.publish(&mut relay, &event).await?;
    }
    Ok(())
}

async fn forgeries(arena: Arc<Arena>, from: Ipv4Addr) -> Result<()> {
    let mut relay = arena.relay(from).await?;
    let issue = Author::new().issue(&arena.owner, &arena.identifier, "forged");
    let mut forged = json!(issue);
    forged["sig"] = json!("ab".repeat(64));
    for _ in 0..50 {
        // Several at once: each costs a verification.
        for _ in 0..20 {
            relay.send(json!(["EVENT", forged])).await?;
        }
        for _ in 0..20 {
            relay.answer(&issue.id).await?;
        }
        arena.act().await;
    }
    Ok(())
}
