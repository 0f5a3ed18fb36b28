//! Honest people beside every kind of attacker.
//!
//! The same honest work is done twice on a node of its own: alone, then beside one attack from other
//! addresses of this machine. Nobody honest may be refused, and what the attack leaves on the disk and
//! in memory stays within its budget. How much slower the honest are is printed beside how much slower
//! the same work was meanwhile on a second node, which nobody attacks: attackers, clients and nodes
//! share the processors of one machine.
//!
//! The short form runs with the other tests from one address; `cargo xtask campaign hostile` makes more
//! rounds, from 1 and from 50 addresses, and prints one line for each attack.

mod arena;
mod connections;
mod events;
mod fetches;
mod figures;
mod honest;
mod pushes;
mod queries;
mod remotes;
mod web;

use std::{net::Ipv4Addr, sync::Arc};

use anyhow::{Result, ensure};
use futures_util::future::{BoxFuture, try_join};
use grip_testkit::{Node, remote::Behaviour};

use self::{
    arena::Arena,
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
    /// Size of the victim's repository, in MiB.
    repository_mib: u64,
    /// Events that are stored before it begins.
    stored_events: usize,
    /// How the hosts behave that the attacker's events name.
    hosts: Option<fn() -> Behaviour>,
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
            repository_mib: 0,
            stored_events: 0,
            hosts: None,
            run,
        }
    }
}

/// Resident memory that the node may take beyond what the honest alone make it take, and that all its
/// git processes may take together.
const NODE_BUDGET: u64 = 256 * MIB;
const GIT_BUDGET: u64 = 768 * MIB;

/// How much is done: a little, or what `cargo xtask campaign hostile` asks for.
struct Scale {
    rounds: usize,
    clients: u8,
    addresses: &'static [usize],
}

impl Scale {
    fn chosen() -> Self {
        let rounds = std::env::var("GRIPFAST_HOSTILE_ROUNDS").ok();
        match rounds.and_then(|rounds| rounds.parse().ok()) {
            Some(rounds) => Self {
                rounds,
                clients: 4,
                addresses: &[1, 50],
            },
            None => Self {
                rounds: 2,
                clients: 2,
                addresses: &[1],
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
    let (mut faults, mut slow) = (Vec::new(), Vec::new());
    figures::print_head();
    for attack in attacks.iter().filter(|attack| is_chosen(attack)) {
        for addresses in scale.addresses {
            let figures = play_one(attack, *addresses, &scale).await?;
            println!("{figures}");
            faults.extend(figures.faults());
            slow.extend(figures.slow());
        }
    }
    println!("slower than twice and than the machine: {slow:#?}");
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    Ok(())
}

async fn play_one(attack: &Attack, addresses: usize, scale: &Scale) -> Result<Figures> {
    let settings = [&[NO_PROXY], attack.settings].concat();
    let node = Node::start_with(BINARY, &settings).await?;
    let beside_it = Node::start_with(BINARY, &settings).await?;
    let mib = attack.repository_mib;
    let mut honest = Crowd::new(node, 0, scale.clients, mib).await?;
    let mut others = Crowd::new(beside_it, 100, scale.clients, mib).await?;
    let victim = &honest.clients[0];
    let arena = Arena::new(&honest.node, victim, addresses, attack.hosts).await?;
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
    let disk = disk_bytes(&data).saturating_sub(disk_alone);
    Ok(Figures {
        attack: attack.name,
        addresses,
        acts: arena.acts(),
        git_memory: beside.git_memory,
        alone,
        beside,
        machine_alone,
        machine_beside,
        disk: disk.saturating_sub(disk_alone.saturating_sub(disk_before)),
        disk_budget: attack.disk_budget.of(addresses),
        memory: honest.node.peak_rss_bytes()?.saturating_sub(memory_alone),
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
async fn pages_webhooks_and_resolutions_of_strangers() -> Result<()> {
    play(web::ATTACKS).await
}
