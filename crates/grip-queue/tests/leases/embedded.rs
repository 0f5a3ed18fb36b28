//! The same in one process on SQLite: workers are cut off in the middle instead of killed.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use grip_db::{Connection, DbError, Statement, TestDatabase};
use grip_queue::{Queue, Worker};
use grip_tasks::TaskGroup;
use grip_testkit::until;
use rand::RngExt as _;
use tempfile::TempDir;

use crate::{
    fleet::{number, span},
    work::{self, KIND, Log, Logged, options},
    work_log::{self, Note},
};

const WORKERS: usize = 8;

static LEFT: Statement = Statement::new("LEFT", "SELECT count(*) FROM queue");

fn count_left(mut db: Connection<'_>) -> BoxFuture<'_, Result<i64, DbError>> {
    Box::pin(async move { Ok(db.fetch_one::<(i64,)>(&LEFT, &[]).await?.0) })
}

struct Member {
    group: TaskGroup,
    _worker: Worker,
}

impl Member {
    fn start(test: &TestDatabase, name: usize, log: &Log) -> Self {
        let group = TaskGroup::new("member");
        let handler = Logged {
            name: name.to_string(),
            log: log.clone(),
        };
        let queue = Queue::new(test.db().clone());
        let worker = Worker::start(queue, KIND, Arc::new(handler), options(), &group);
        Self {
            group,
            _worker: worker,
        }
    }

    /// Ends it without a chance to give anything back.
    async fn cut_off(self) {
        let _ = self.group.shutdown(Duration::ZERO).await;
    }
}

#[tokio::test]
async fn eight_workers_cut_off_at_random_do_every_item_and_never_two_at_once() {
    let items = number("GRIPFAST_QUEUE_ITEMS", 1_500);
    let kills = number("GRIPFAST_QUEUE_KILLS", 16);
    let test = TestDatabase::sqlite().await;
    let mut db = work_log::install_on_sqlite(&test.path()).await;
    let queue = Queue::new(test.db().clone());
    let asked = work::items(items, test.db().now_ms(), span(items, kills));
    assert_eq!(queue.enqueue(asked).await.unwrap(), items);
    let directory = TempDir::new().unwrap();
    let log = Log::open(&directory.path().join("log"));
    let mut members: Vec<Member> = (0..WORKERS)
        .map(|n| Member::start(&test, n, &log))
        .collect();

    let left = async || test.db().read(count_left).await.ok();
    for kill in 0..kills {
        let goal = items - items * (kill + 1) / (kills + 2);
        let reached = async || left().await.filter(|left| *left <= goal as i64);
        until("the work goes on", reached).await.unwrap();
        let next = Member::start(&test, WORKERS + kill, &log);
        let index = rand::rng().random_range(0..WORKERS);
        std::mem::replace(&mut members[index], next).cut_off().await;
    }
    until("all is done", async || {
        left().await.filter(|left| *left == 0)
    })
    .await
    .unwrap();
    for member in members {
        let _ = member.group.shutdown(Duration::from_secs(10)).await;
    }

    let noted: Vec<Note> = sqlx::query_as(work_log::READ)
        .fetch_all(&mut db)
        .await
        .unwrap();
    let told = work_log::check(&noted, items);
    let begun = work::check(&log.read());
    println!("{items} items, {kills} workers cut off: {told:?}, begun {begun} times");
    assert!(told.resumed > 0 && told.renewals > 0, "{told:?}");
}
