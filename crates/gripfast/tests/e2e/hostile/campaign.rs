//! Honest people beside every kind of attacker.
//!
//! The same honest work is done twice on a node of its own: alone, then beside one attack from other
//! addresses of this machine. Nobody honest may be refused, and what the attack leaves on the disk and
//! in memory stays within its budget; after the grace time the disk is as it was, but for what is stored
//! for good. How much slower the honest are is printed beside how much slower the same work was meanwhile
//! on a second node, which nobody attacks: attackers, clients and nodes share the processors of one
//! machine.
//!
//! The short form runs with the other tests from one address and judges no times. `cargo xtask campaign
//! hostile` makes more rounds, from 1 and from 50 addresses, prints one line for each attack, and fails
//! where the honest are more than twice as slow as the machine explains.

mod arena;
mod connections;
mod events;
mod fetches;
mod figures;
mod honest;
mod pushes;
mod queries;
mod relays;
mod remotes;
mod web;

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use futures_util::future::{BoxFuture, try_join};
use grip_testkit::{Node, while_advancing};

use self::{
    arena::{Arena, Elsewhere},
    figures::{Figures, disk_bytes},
    honest::{Crowd, Honest, Outcomes},
};
use crate::{BINARY, hostile::scene::NO_PROXY};

const MIB: u64 = 1 << 20;

/// Bytes that may be on the disk after an attack, beyond those of the honest.
#[derive(Clone, Copy)]
struct DiskBudget {
    /// What the bounds leave to one address.
    per_address: u64,
    /// What they leave to all together, where there is such a bound.
    node: Option<u64>,
}

impl DiskBudget {
    /// The same however many addresses there are.
    const fn of_node(bytes: u64) -> Self {
        Self {
            per_address: bytes,
            node: Some(bytes),
        }
    }

    const fn of_address(bytes: u64) -> Self {
        Self {
            per_address: bytes,
            node: None,
        }
    }

    fn of(self, addresses: usize) -> u64 {
        let all = self.per_address * addresses as u64;
        self.node.map_or(all, |node| all.min(node))
    }
}

/// What one kind of attacker does, and what it may cost.
struct Attack {
    name: &'static str,
    /// Settings of the node, so that its budgets can be reached in a short time.
    settings: &'static [(&'static str, &'static str)],
    disk_budget: DiskBudget,
    /// Bytes of it that may be there after the grace time: what is stored for good, and pages that the
    /// databases keep for what comes next.
    lasting: DiskBudget,
    /// Size of the victim's repository, in MiB.
    repository_mib: u64,
    /// Events that are stored before it begins.
    stored_events: usize,
    /// What the attackers run elsewhere, which their events name.
    elsewhere: Elsewhere,
    /// One attacker from one address. It goes on until it is stopped; if it ends, it is begun again.
    run: fn(Arc<Arena>, Ipv4Addr) -> BoxFuture<'static, Result<()>>,
}

impl Attack {
    const fn new(
        name: &'static str,
        run: fn(Arc<Arena>, Ipv4Addr) -> BoxFuture<'static, Result<()>>,
    ) -> Self {
        Self {
            name,
            settings: &[],
            disk_budget: DiskBudget::of_node(4 * MIB),
            lasting: DiskBudget::of_node(4 * MIB),
            repository_mib: 0,
            stored_events: 0,
            elsewhere: Elsewhere::Nothing,
            run,
        }
    }
}

/// Resident memory that the node may take beyond what the honest alone make it take, and that all its
/// git processes may take together.
const NODE_BUDGET: u64 = 256 * MIB;
const GIT_BUDGET: u64 = 768 * MIB;

/// Everything that waits for something, or that nothing needs, goes after a time that can be waited for.
const GRACE: &[(&str, &str)] = &[
    ("GRIPFAST_PURGATORY_LIFETIME", "20s"),
    ("GRIPFAST_ORPHAN_REF_LIFETIME", "20s"),
    ("GRIPFAST_KEEP_UNREACHABLE", "20s"),
    ("GRIPFAST_PURGATORY_SWEEP_INTERVAL", "5s"),
];
/// How long nothing may go before it counts as there for good: several grace times and sweeps.
const MAX_GRACE: Duration = Duration::from_secs(60);

/// How much is done: a little, or what `cargo xtask campaign hostile` asks for.
struct Scale {
    rounds: usize,
    clients: u8,
    addresses: &'static [usize],
    /// Times of a few rounds say nothing.
    judges_times: bool,
}

impl Scale {
    fn chosen() -> Self {
        let rounds = std::env::var("GRIPFAST_HOSTILE_ROUNDS").ok();
        match rounds.and_then(|rounds| rounds.parse().ok()) {
            Some(rounds) => Self {
                rounds,
                clients: 4,
                addresses: &[1, 50],
                judges_times: true,
            },
            None => Self {
                rounds: 2,
                clients: 2,
                addresses: &[1],
                judges_times: false,
            },
        }
    }
}

/// Says whether an attack is among those that `GRIPFAST_HOSTILE_ATTACK` asks for by a part of its name.
fn is_chosen(attack: &Attack) -> bool {
    let chosen = std::env::var("GRIPFAST_HOSTILE_ATTACK");
    chosen.map_or(true, |chosen| attack.name.contains(&chosen))
}

/// Plays all attacks of a group; fails with all that went wrong.
async fn play(attacks: &[Attack]) -> Result<()> {
    let scale = Scale::chosen();
    let mut faults = Vec::new();
    figures::print_head();
    for attack in attacks.iter().filter(|attack| is_chosen(attack)) {
        for addresses in scale.addresses {
            match play_one(attack, *addresses, &scale).await {
                Ok(figures) => {
                    println!("{figures}");
                    faults.extend(figures.faults());
                    faults.extend(figures.slow().filter(|_| scale.judges_times));
                }
                Err(error) => faults.push(format!("{} from {addresses}: {error:#}", attack.name)),
            }
        }
    }
    for fault in &faults {
        println!("FAIL {fault}");
    }
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    Ok(())
}

async fn play_one(attack: &Attack, addresses: usize, scale: &Scale) -> Result<Figures> {
    let settings = [&[NO_PROXY], GRACE, attack.settings].concat();
    let node = Node::start_with(BINARY, &settings).await?;
    let beside_it = Node::start_with(BINARY, &settings).await?;
    let mib = attack.repository_mib;
    let mut honest = Crowd::new(node, 0, scale.clients, mib).await?;
    let mut others = Crowd::new(beside_it, 100, scale.clients, mib).await?;
    let victim = &honest.clients[0];
    let arena = Arena::new(&honest.node, victim, addresses, attack.elsewhere).await?;
    arena.store_events(attack.stored_events).await?;
    // The first round is for caches and connections, and does not count.
    try_join(honest.work(1), others.work(1)).await?;

    let data = honest.node.data_dir();
    let disk_before = disk_bytes(&data);
    let rounds = scale.rounds;
    let (alone, machine_alone) = try_join(honest.work(rounds), others.work(rounds)).await?;
    let disk_alone = disk_bytes(&data);
    let memory_alone = honest.node.peak_rss_bytes()?;

    let attackers = arena.attack(attack.run);
    arena.is_under_way().await;
    let (beside, machine_beside) = try_join(honest.work(rounds), others.work(rounds)).await?;
    drop(attackers);
    let memory = honest.node.peak_rss_bytes()?.saturating_sub(memory_alone);
    // What the honest added meanwhile is taken to be as much as they added alone.
    let expected = disk_alone + disk_alone.saturating_sub(disk_before);
    let disk_now = || disk_bytes(&data).saturating_sub(expected);
    let (disk, lasting_budget) = (disk_now(), attack.lasting.of(addresses));
    let returning = async || {
        let left = disk_now();
        Ok((left > lasting_budget).then_some(left))
    };
    // What is still there then is among the figures.
    let _ = while_advancing("the disk is as it was", MAX_GRACE, returning).await;
    Ok(Figures {
        attack: attack.name,
        addresses,
        acts: arena.acts(),
        git_memory: beside.git_memory,
        alone,
        beside,
        machine_alone,
        machine_beside,
        disk,
        disk_budget: attack.disk_budget.of(addresses),
        disk_lasting: disk_now(),
        lasting_budget,
        memory,
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn events_of_strangers() -> Result<()> {
    play(events::ATTACKS).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn queries_of_strangers() -> Result<()> {
    play(queries::ATTACKS).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn pushes_of_strangers() -> Result<()> {
    play(pushes::ATTACKS).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fetches_of_strangers() -> Result<()> {
    play(fetches::ATTACKS).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn connections_of_strangers() -> Result<()> {
    play(connections::ATTACKS).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn hosts_that_strangers_name() -> Result<()> {
    play(remotes::ATTACKS).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn relays_that_strangers_name() -> Result<()> {
    play(relays::ATTACKS).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn pages_webhooks_and_resolutions_of_strangers() -> Result<()> {
    play(web::ATTACKS).await
}
