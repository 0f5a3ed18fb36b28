//! The jobs of the test's workers, and an append-only log of when each was done.
//!
//! A line says who began or ended the work on which lease, by the clock that all processes of
//! this host share. A process that is killed ends nothing; the one that killed it writes that down
//! once it is dead for certain.

use std::{
    collections::BTreeMap,
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::future::BoxFuture;
use grip_queue::{Handler, Job, NewJob, Outcome, WorkerOptions};
use rustix::time::{ClockId, clock_gettime};

pub const KIND: &str = "work";
pub const LEASE: Duration = Duration::from_secs(3);

pub fn options() -> WorkerOptions {
    WorkerOptions {
        at_once: 4,
        take: 4,
        lease: LEASE,
        poll: Duration::from_secs(1),
        drain: Duration::from_secs(10),
        capabilities: None,
    }
}

/// Items that become due one after the other, faster than they are done.
pub fn items(count: usize, now_ms: i64, span: Duration) -> Vec<NewJob> {
    let span = span.as_millis() as i64;
    let due = |n: usize| now_ms + span * n as i64 / count as i64;
    let item = |n: usize| NewJob::new(KIND, n.to_string()).due_ms(due(n));
    (0..count).map(item).collect()
}

/// Most items take a moment, a few longer than a lease.
fn length(key: &str) -> Duration {
    let n: u64 = key.parse().unwrap();
    match n {
        n if n % 200 == 7 => LEASE + LEASE / 3,
        n if n % 20 == 3 => Duration::from_millis(300),
        n => Duration::from_millis(2 + n % 20),
    }
}

/// Appends to the log; each line in one write.
#[derive(Clone)]
pub struct Log {
    file: Arc<File>,
    path: PathBuf,
}

impl Log {
    pub fn open(path: &Path) -> Self {
        let file = File::options().create(true).append(true).open(path);
        Self {
            file: Arc::new(file.unwrap()),
            path: path.to_owned(),
        }
    }

    pub fn killed(&self, name: &str) {
        self.write(&format!("killed {name} - -"));
    }

    fn write(&self, text: &str) {
        let time = clock_gettime(ClockId::Monotonic);
        let micros = time.tv_sec * 1_000_000 + time.tv_nsec / 1_000;
        (&*self.file)
            .write_all(format!("{micros} {text}\n").as_bytes())
            .unwrap();
    }

    pub fn read(&self) -> String {
        std::fs::read_to_string(&self.path).unwrap()
    }
}

/// Does an item by waiting, and logs it.
pub struct Logged {
    pub name: String,
    pub log: Log,
}

struct Underway {
    log: Log,
    text: String,
}

impl Handler for Logged {
    fn run(&self, job: Job) -> BoxFuture<'_, Outcome> {
        let text = format!("{} {} {}", self.name, job.id, job.token);
        self.log.write(&format!("begin {text}"));
        let log = self.log.clone();
        let underway = Underway { log, text };
        Box::pin(async move {
            let _underway = underway;
            tokio::time::sleep(length(&job.key)).await;
            Outcome::Done
        })
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.log.write(&format!("end {}", self.text));
    }
}

/// One piece of work on one item.
struct Span {
    name: String,
    begin: i64,
    end: Option<i64>,
}

/// Checks that no item was worked on by two at a time, and says how often one was begun.
pub fn check(log: &str) -> usize {
    let mut spans = BTreeMap::<(String, String), Span>::new();
    for line in log.lines() {
        let [at, what, name, id, token] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("a line was torn: {line:?}");
        };
        let (at, name): (i64, _) = (at.parse().unwrap(), name.to_owned());
        let lease = (id.to_owned(), token.to_owned());
        match what {
            "begin" => {
                let (begin, end) = (at, None);
                let known = spans.insert(lease, Span { name, begin, end });
                assert!(known.is_none(), "one lease was used twice: {line}");
            }
            "end" => spans.get_mut(&lease).expect("it has begun").end = Some(at),
            "killed" => {
                let open = spans.values_mut().filter(|span| span.name == name);
                for span in open.filter(|span| span.end.is_none()) {
                    span.end = Some(at);
                }
            }
            other => panic!("unknown word {other}"),
        }
    }
    let begun = spans.len();
    let mut by_item = BTreeMap::<String, Vec<Span>>::new();
    for ((id, _), span) in spans {
        by_item.entry(id).or_default().push(span);
    }
    for (id, mut spans) in by_item {
        spans.sort_by_key(|span| span.begin);
        for pair in spans.windows(2) {
            let end = pair[0]
                .end
                .expect("work that did not end has nothing after it");
            let overlap = end - pair[1].begin;
            let (one, two) = (&pair[0].name, &pair[1].name);
            assert!(
                overlap <= 0,
                "{one} and {two} worked on {id} at once for {overlap} µs"
            );
        }
    }
    begun
}

#[test]
fn the_check_finds_two_at_once() {
    let apart = "1 begin a 7 1\n5 end a 7 1\n6 begin b 7 3\n9 end b 7 3\n";
    assert_eq!(check(apart), 2);
    let killed = "1 begin a 7 1\n5 killed a - -\n6 begin b 7 3\n9 end b 7 3\n";
    assert_eq!(check(killed), 2);
    for bad in [
        "1 begin a 7 1\n5 begin b 7 3\n6 end a 7 1\n9 end b 7 3\n",
        "1 begin a 7 1\n5 begin b 7 3\n6 killed a - -\n9 end b 7 3\n",
        "1 begin a 7 1\n5 begin b 7 3\n9 end b 7 3\n",
        "1 begin a 7 1\n5 end a 7 1\n6 begin b 7 1\n9 end b 7 1\n",
    ] {
        assert!(std::panic::catch_unwind(|| check(bad)).is_err(), "{bad}");
    }
}
