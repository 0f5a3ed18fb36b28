//! Crashes at each step of a removal: a deletion, a request to vanish, a block and its end, a purge.
//!
//! What was taken out stays out, what must be kept is kept, and relay and git agree, whichever step
//! was the last; to do it again ends it.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, bail, ensure};
use grip_testkit::{Author, LocalProject, Node, git, until, until_ok};
use nostr::prelude::{Event, Timestamp};
use serde_json::{Value, json};
use sqlx::{ConnectOptions as _, Connection as _, sqlite::SqliteConnectOptions};

use super::at_once;
use crate::BINARY;

const NAME: &str = "removed";
const MAIN: &str = "refs/heads/main";

/// What the node is ordered to do, and dies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    DeleteRepository,
    DeleteState,
    Vanish,
    /// The owner's newest announcement lists another server.
    Leave,
    /// The day is over for which the repository of one who left can be read.
    EndOfGrace,
    Block,
    /// After a block.
    Unblock,
    /// Of what a deletion left.
    Purge,
}

/// What is to be seen once an order is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// All of it is served.
    Served,
    /// The announcement waits for a state, and the repository is empty.
    Emptied,
    /// The repository is read-only for a day.
    Leaving,
    /// Nothing is served, and everything is kept.
    Kept,
    /// Nothing is served, nothing kept.
    Destroyed,
}

/// The orders with the steps at which the node dies, and whether the order is durable by then: one
/// that nobody was told of may be as if it had never come.
const STEPS: &[(Order, &[(&str, bool)])] = &[
    (
        Order::DeleteRepository,
        &[
            ("delete.held_back", false),
            ("delete.events_removed", true),
            ("git.archive.moved", true),
            ("delete.settled", true),
        ],
    ),
    (
        Order::DeleteState,
        &[
            ("delete.held_back", false),
            ("delete.events_removed", true),
            ("unprove.held_again", true),
            ("git.archive.moved", true),
            ("unprove.emptied", true),
            ("unprove.event_removed", true),
            ("delete.settled", true),
        ],
    ),
    (
        Order::Vanish,
        &[
            ("vanish.stored", true),
            ("end.event_removed", true),
            ("git.repository.away", true),
            ("vanish.events_removed", true),
            ("vanish.history_forgotten", true),
            ("vanish.holding_removed", true),
            ("vanish.done", true),
        ],
    ),
    (Order::Leave, &[("withdraw.journalled", false)]),
    (
        Order::EndOfGrace,
        &[("git.archive.moved", true), ("withdraw.archived", true)],
    ),
    (
        Order::Block,
        &[
            ("ban.held_back", true),
            ("end.departure_noted", true),
            ("end.event_removed", true),
            ("git.archive.moved", true),
        ],
    ),
    (
        Order::Unblock,
        &[
            ("git.restore.borrowed", true),
            ("git.restore.moved", true),
            ("holding.event_back", true),
            ("holding.row_removed", true),
        ],
    ),
    (
        Order::Purge,
        &[
            ("purge.rows_removed", false),
            ("git.archive.away", false),
            ("git.store.away", false),
        ],
    ),
];

struct Scene {
    node: Node,
    local: LocalProject,
    issue: Event,
    /// Seconds before now that the next event is made.
    age: u64,
}

impl Scene {
    async fn start() -> Result<Self> {
        let mut node = Node::prepare(BINARY, &[("GRIPFAST_PURGATORY_SWEEP_INTERVAL", "1s")])?;
        node.launch().await?;
        let local = LocalProject::new(NAME)?;
        local.publish(&node, 500).await?;
        let issue = Author::new().issue(&local.owner, NAME, "it leaks");
        node.connect().await?.publish_ok(&issue).await?;
        Ok(Self {
            node,
            local,
            issue,
            age: 400,
        })
    }

    fn time(&mut self) -> Timestamp {
        self.age -= 1;
        Timestamp::now() - self.age
    }

    /// Has the node carry out an order; fails if the node does not answer.
    async fn order(&mut self, order: Order) -> Result<()> {
        let owner = self.local.owner.clone();
        let subject = format!("{}/{NAME}", owner.npub());
        match order {
            Order::DeleteRepository => self.delete(30617).await,
            Order::DeleteState => self.delete(30618).await,
            Order::Vanish => {
                let tags = vec![vec!["relay".to_owned(), "ALL_RELAYS".to_owned()]];
                let event = owner.sign_at(62, "", tags, self.time());
                self.publish(&event).await
            }
            Order::Leave => {
                let time = self.time();
                let event = owner.announcement_at("other.example.com", NAME, Vec::new(), time);
                // Refused or not: the owner has left.
                self.node.connect().await?.publish(&event).await.map(drop)
            }
            Order::EndOfGrace => {
                self.node.stop().await?;
                end_grace(&self.node.data_dir().join("gripfast.sqlite")).await?;
                // It may die before it is ready.
                self.node.spawn()
            }
            Order::Block => self.run(&["repos", "block", "--execute", &subject]).await,
            Order::Unblock => self.run(&["repos", "unblock", "--execute", &subject]).await,
            Order::Purge => self.run(&["holding", "purge", "--yes", &subject]).await,
        }
    }

    async fn delete(&mut self, kind: u16) -> Result<()> {
        let owner = self.local.owner.clone();
        let address = format!("{kind}:{}:{NAME}", owner.hex());
        let tags = vec![vec!["a".to_owned(), address]];
        let event = owner.sign_at(5, "", tags, self.time());
        self.publish(&event).await
    }

    async fn publish(&self, event: &Event) -> Result<()> {
        let mut relay = self.node.connect().await?;
        relay.publish_ok(event).await.map(drop)
    }

    async fn run(&self, arguments: &[&str]) -> Result<()> {
        self.node.run(arguments).await.map(drop)
    }

    /// Says in which of the ways it can be seen everything is, if it is one of them at all.
    async fn outcome(&self) -> Result<Outcome> {
        let owner = self.local.owner.hex();
        let mut relay = self.node.connect().await?;
        let filter = json!({"authors": [owner], "kinds": [30617, 30618]});
        let served = relay.query(&[filter]).await?;
        let serves = |kind: u16| served.iter().any(|event| event.kind.as_u16() == kind);
        let issue = relay.serves(&self.issue.id).await?;
        let refs = git::ls_remote(&self.local.url(&self.node)).await.ok();
        let tip = (MAIN.to_owned(), self.local.tip.clone());
        let has_main = refs.as_ref().is_some_and(|refs| refs.contains(&tip));
        let seen = (
            serves(30617),
            serves(30618),
            issue,
            refs.is_some(),
            has_main,
        );
        Ok(match seen {
            (true, true, true, true, true) => Outcome::Served,
            (false, false, _, true, false) => Outcome::Emptied,
            (_, _, _, true, true) => Outcome::Leaving,
            (false, _, _, false, false) if self.is_kept().await? => Outcome::Kept,
            (false, _, _, false, false) => Outcome::Destroyed,
            seen => bail!("announcement, state, issue, repository, main: {seen:?}"),
        })
    }

    /// Says whether anything is kept. Refs are the last to go: events alone would come back to
    /// nothing.
    async fn is_kept(&self) -> Result<bool> {
        let held: Value =
            serde_json::from_str(&self.node.run(&["holding", "ls", "--json"]).await?)?;
        let path = format!("{}/{NAME}", self.local.owner.npub());
        let held = held["held"].as_array().context("a list")?.iter();
        let held = held.filter(|it| it["repository"] == path.as_str());
        let (mut events, mut archives) = (0, 0);
        for it in held {
            events += it["events"].as_u64().unwrap_or_default();
            archives += it["archives"].as_u64().unwrap_or_default();
        }
        ensure!(events == 0 || archives > 0, "{events} events, no archive");
        Ok(archives > 0)
    }

    async fn agrees(&self) -> Result<()> {
        self.node.run(&["check", "--full"]).await.map(drop)
    }
}

fn expected(order: Order) -> Outcome {
    match order {
        Order::DeleteRepository | Order::Block | Order::EndOfGrace => Outcome::Kept,
        Order::DeleteState => Outcome::Emptied,
        Order::Vanish | Order::Purge => Outcome::Destroyed,
        // Who leaves is served until the day is over, read-only.
        Order::Leave | Order::Unblock => Outcome::Served,
    }
}

async fn dies_at(order: Order, point: &str, is_durable: bool) -> Result<()> {
    let mut scene = Scene::start().await?;
    match order {
        Order::Unblock => scene.order(Order::Block).await?,
        Order::Purge => scene.order(Order::DeleteRepository).await?,
        Order::EndOfGrace => scene.order(Order::Leave).await?,
        _ => {}
    }
    let before = scene.outcome().await?;
    scene.node.stop().await?;
    scene.node.set_env("GRIPFAST_FAULT", point);
    scene.node.launch().await?;
    // Its failure is the death as the client sees it.
    let answered = scene.order(order).await;
    if let Err(error) = scene.node.died().await {
        return Err(error).with_context(|| format!("answered: {answered:?}"));
    }
    scene.node.remove_env("GRIPFAST_FAULT");
    scene.node.launch().await?;
    let after = expected(order);
    let allowed = |outcome: Outcome| outcome == after || !is_durable && outcome == before;
    until_ok("what the crash left undone is done", async || {
        let outcome = scene.outcome().await?;
        ensure!(allowed(outcome), "{outcome:?}");
        scene.agrees().await?;
        Ok(Some(()))
    })
    .await?;
    // To do it again ends it, and so it stays.
    if scene.outcome().await? != after {
        scene.order(order).await?;
    }
    scene.node.crash_and_restart().await?;
    until_ok("the order is carried out", async || {
        let outcome = scene.outcome().await?;
        ensure!(outcome == after, "{outcome:?}");
        Ok(Some(()))
    })
    .await?;
    scene.agrees().await?;
    returns(&mut scene, after).await
}

/// Who comes back finds what was kept, and nothing that was destroyed.
async fn returns(scene: &mut Scene, from: Outcome) -> Result<()> {
    let objects = scene
        .node
        .data_dir()
        .join("git/.objects")
        .join(format!("{NAME}.git"));
    match from {
        Outcome::Served => return Ok(()),
        Outcome::Destroyed => {
            until("the objects are gone", || async {
                (!objects.exists()).then_some(())
            })
            .await?;
            let owner = scene.local.owner.npub();
            let archive = scene.node.data_dir().join("git/.archive").join(owner);
            ensure!(is_empty(&archive)?, "something is left in the archive");
        }
        _ => {}
    }
    if scene
        .node
        .run(&["repos", "blocks", "--json"])
        .await?
        .contains(NAME)
    {
        scene.order(Order::Unblock).await?;
    } else {
        let local = &scene.local;
        let mut relay = scene.node.connect().await?;
        relay
            .publish_ok(&local.announcement_at(&[&scene.node], &[], 20))
            .await?;
        relay.publish_ok(&local.state(10)).await?;
        local.push(&scene.node).await?;
        if from == Outcome::Destroyed {
            // Others' events about it may be sent again.
            relay.publish_ok(&scene.issue).await?;
        }
    }
    until_ok("it is served again", async || {
        let outcome = scene.outcome().await?;
        ensure!(outcome == Outcome::Served, "{outcome:?}");
        Ok(Some(()))
    })
    .await?;
    scene.agrees().await
}

/// Has the time of repositories whose owner left be over.
async fn end_grace(database: &Path) -> Result<()> {
    let options = SqliteConnectOptions::new().filename(database);
    let mut connection = options.connect().await?;
    let moved = "UPDATE purgatory SET expires_at = 0 WHERE class = 'withdrawal'";
    let moved = sqlx::query(moved).execute(&mut connection).await?;
    connection.close().await?;
    ensure!(moved.rows_affected() == 1, "one repository is on its way");
    Ok(())
}

/// Says whether no repository is below a directory.
fn is_empty(path: &Path) -> Result<bool> {
    if !path.exists() {
        return Ok(true);
    }
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        if path.is_dir() && fs::read_dir(&path)?.next().is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn all_steps_of(orders: &[Order]) -> Result<()> {
    let steps = STEPS.iter().filter(|(order, _)| orders.contains(order));
    let steps = steps.flat_map(|(order, points)| points.iter().map(move |it| (*order, it)));
    let deaths = steps.map(|(order, (point, is_durable))| async move {
        let died = dies_at(order, point, *is_durable).await;
        died.with_context(|| format!("{order:?}, fault point {point}"))
    });
    at_once(deaths).await
}

#[tokio::test(flavor = "multi_thread")]
async fn g01_111_every_step_of_a_deletion_is_finished_after_a_crash_in_it() -> Result<()> {
    all_steps_of(&[Order::DeleteRepository, Order::DeleteState]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn g01_118_every_step_of_a_request_to_vanish_is_finished_after_a_crash_in_it() -> Result<()> {
    all_steps_of(&[Order::Vanish, Order::Leave]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn g01_15a_6_every_step_of_the_end_of_a_withdrawal_is_finished_after_a_crash_in_it()
-> Result<()> {
    all_steps_of(&[Order::EndOfGrace]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn g01_123_every_step_of_a_block_and_its_end_is_finished_after_a_crash_in_it() -> Result<()> {
    all_steps_of(&[Order::Block, Order::Unblock]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn g01_125_every_step_of_a_purge_is_finished_after_a_crash_in_it() -> Result<()> {
    all_steps_of(&[Order::Purge]).await
}
