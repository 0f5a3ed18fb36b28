//! Worker processes: this test binary, started again.

use std::{path::Path, process::Stdio, sync::Arc, time::Duration};

use grip_db::{Db, Server};
use grip_queue::{Queue, Worker};
use grip_tasks::TaskGroup;
use grip_testkit::{until, within};
use tokio::{
    io::AsyncReadExt as _,
    process::{Child, Command},
};

use crate::work::{KIND, Log, Logged, options};

const URL: &str = "GRIP_TEST_QUEUE_URL";
const NAME: &str = "GRIP_TEST_QUEUE_NAME";
const LOG: &str = "GRIP_TEST_QUEUE_LOG";

/// Plays a worker if this process was started as one: works until its input ends.
pub async fn played_a_worker() -> bool {
    let variables = (std::env::var(URL), std::env::var(NAME), std::env::var(LOG));
    let (Ok(url), Ok(name), Ok(log)) = variables else {
        return false;
    };
    let server = Server::new(url, &*name);
    let connect = async || Db::connect(&server).await.ok();
    let db = until("the server answers", connect).await.unwrap();
    let (queue, group) = (Queue::new(db.clone()), TaskGroup::new("worker"));
    let log = Log::open(Path::new(&log));
    let handler = Arc::new(Logged { name, log });
    let worker = Worker::start(queue, KIND, handler, options(), &group);
    tokio::io::stdin()
        .read_to_end(&mut Vec::new())
        .await
        .unwrap();
    worker.shutdown().await;
    db.close().await;
    true
}

/// Processes that come and go.
pub struct Fleet {
    test: &'static str,
    url: String,
    log: Log,
    log_path: std::path::PathBuf,
    members: Vec<(String, Child)>,
    started: usize,
}

impl Fleet {
    pub fn start(test: &'static str, size: usize, url: &str, log_path: &Path) -> Self {
        let mut fleet = Self {
            test,
            url: url.to_owned(),
            log: Log::open(log_path),
            log_path: log_path.to_owned(),
            members: Vec::new(),
            started: 0,
        };
        for _ in 0..size {
            let member = fleet.member();
            fleet.members.push(member);
        }
        fleet
    }

    #[expect(clippy::disallowed_methods, reason = "the test is its own worker")]
    fn member(&mut self) -> (String, Child) {
        self.started += 1;
        let name = format!("worker-{}", self.started);
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", self.test, "--nocapture"])
            .env(URL, &self.url)
            .env(NAME, &name)
            .env(LOG, &self.log_path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn();
        (name, child.unwrap())
    }

    /// `kill -9`, and another one in its place.
    pub async fn replace(&mut self, index: usize) {
        let index = index % self.members.len();
        let next = self.member();
        let (name, mut child) = std::mem::replace(&mut self.members[index], next);
        // Returns when it is dead.
        child.kill().await.unwrap();
        self.log.killed(&name);
    }

    /// Lets all of them stop by themselves.
    pub async fn dismiss(mut self) {
        for (_, child) in &mut self.members {
            drop(child.stdin.take());
        }
        for (name, mut child) in self.members {
            let ended = within("a worker stops", child.wait()).await.unwrap();
            assert!(ended.unwrap().success(), "{name} did not stop cleanly");
        }
    }

    pub fn log(&self) -> Log {
        self.log.clone()
    }
}

/// The number in a variable, or else the usual one.
pub fn number(variable: &str, usual: usize) -> usize {
    let given = std::env::var(variable).ok();
    given.map_or(usual, |text| text.parse().expect("it is a number"))
}

/// How long the items take to become due: so long that there are always some, even for a fleet
/// that is busy starting again.
pub fn span(items: usize, kills: usize) -> Duration {
    Duration::from_millis(items as u64 * 3 + kills as u64 * 100)
}
