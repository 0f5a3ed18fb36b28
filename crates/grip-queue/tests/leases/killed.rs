//! Processes killed at random moments on one real Postgres, which is killed too.

use grip_db::{Location, TestDatabase};
use grip_queue::Queue;
use grip_testkit::{PostgresServer, until};
use rand::RngExt as _;
use sqlx::{Connection as _, PgConnection};
use tempfile::TempDir;

use crate::{
    fleet::{Fleet, number, played_a_worker, span},
    work::{self, LEASE},
    work_log::{self, Note},
};

const WORKERS: usize = 8;

fn url(test: &TestDatabase) -> String {
    match test.location() {
        Location::Server(server) => server.url.clone(),
        Location::File(_) => panic!("this is about a server"),
    }
}

/// Items that are not done yet; None while the server is down.
async fn left(url: &str) -> Option<i64> {
    let mut db = PgConnection::connect(url).await.ok()?;
    let count = sqlx::query_scalar("SELECT count(*) FROM queue");
    count.fetch_one(&mut db).await.ok()
}

#[tokio::test]
async fn eight_processes_killed_at_random_do_every_item_and_never_two_at_once() {
    const THIS: &str =
        "killed::eight_processes_killed_at_random_do_every_item_and_never_two_at_once";
    if played_a_worker().await {
        return;
    }
    let items = number("GRIPFAST_QUEUE_ITEMS", 1_500);
    let kills = number("GRIPFAST_QUEUE_KILLS", 16);
    let restarts = 1 + kills / 100;

    let mut server = PostgresServer::durable().await.unwrap();
    let test = TestDatabase::postgres(&server.url()).await;
    let url = url(&test);
    drop(work_log::install_on_postgres(&url).await);
    let queue = Queue::new(test.db().clone());
    let asked = work::items(items, test.db().now_ms(), span(items, kills));
    assert_eq!(queue.enqueue(asked).await.unwrap(), items);
    let directory = TempDir::new().unwrap();
    let mut fleet = Fleet::start(THIS, WORKERS, &url, &directory.path().join("log"));

    let moments = kills + restarts;
    for moment in 0..moments {
        // Spread over the run by what is done, so that the last ones are still in the middle.
        let goal = (items - items * (moment + 1) / (moments + 2)) as i64;
        let reached = async || left(&url).await.filter(|left| *left <= goal);
        until("the work goes on", reached).await.unwrap();
        match moment % (moments / (restarts + 1)) {
            0 if moment > 0 && moment / (moments / (restarts + 1)) <= restarts => {
                server.restart().await.unwrap();
            }
            _ => fleet.replace(rand::rng().random_range(0..WORKERS)).await,
        }
    }
    until("all is done", async || {
        left(&url).await.filter(|left| *left == 0)
    })
    .await
    .unwrap();
    let log = fleet.log();
    fleet.dismiss().await;

    let mut db = PgConnection::connect(&url).await.unwrap();
    let noted: Vec<Note> = sqlx::query_as(work_log::READ)
        .fetch_all(&mut db)
        .await
        .unwrap();
    let told = work_log::check(&noted, items);
    let begun = work::check(&log.read());
    println!(
        "{items} items, {kills} kills, {restarts} restarts of Postgres: {told:?}, begun {begun} times"
    );
    assert!(told.resumed > 0, "the kills hit nothing");
    assert!(told.renewals > 0, "no lease was renewed");
    // It is claimed when its turn comes: nothing that became due later is taken before it.
    let most = LEASE.as_millis() as i64 / 3;
    assert!(told.passed_over_ms < most, "{told:?}");
}
