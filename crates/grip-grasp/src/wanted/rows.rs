//! The rows of the queue.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use grip_db::{Connection, Db, DbError, WritePermit};
use grip_purgatory::{Change, Millis};
use grip_queue::{Filter, JobFacts, NewJob, Queue, State};
use grip_types::Identifier;
use parking_lot::Mutex;

use crate::commit::Journal;

/// Rows read at a time.
const PAGE: usize = 1_000;

/// One row for each identifier of which an event is wanted.
pub(crate) struct Rows {
    queue: Queue,
    kind: String,
    interval: Duration,
    /// When each is due, as far as we know; for those who ask. Bounded by what is wanted.
    due: Mutex<HashMap<Identifier, Millis>>,
    /// A change could not be written.
    in_doubt: AtomicBool,
}

impl Rows {
    pub(crate) fn new(db: &Db, interval: Duration) -> Self {
        Self {
            queue: Queue::new(db.clone()),
            // What is on this node's disk is this node's business.
            kind: match db.node() {
                "" => "wanted".to_owned(),
                node => format!("wanted@{node}"),
            },
            interval,
            due: Mutex::default(),
            in_doubt: AtomicBool::new(false),
        }
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    pub(crate) fn kind(&self) -> &str {
        &self.kind
    }

    /// When the data of an identifier is looked for next.
    pub(crate) fn next(&self, identifier: &Identifier, now: Millis) -> Millis {
        let due = self.due.lock().get(identifier).copied();
        due.unwrap_or(now + self.interval)
    }

    /// When a search that begins at `began_ms` is made again.
    pub(crate) fn again(&self, identifier: &Identifier, began_ms: i64) -> i64 {
        let next = Millis::new(began_ms) + self.interval;
        if let Some(due) = self.due.lock().get_mut(identifier) {
            *due = next;
        }
        next.get()
    }

    /// Notes that the rows may lack something.
    pub(crate) fn doubt(&self) {
        self.in_doubt.store(true, Ordering::Relaxed);
    }

    pub(crate) fn take_doubt(&self) -> bool {
        self.in_doubt.swap(false, Ordering::Relaxed)
    }

    /// Queues changes of the journal and the rows that come and go with them, all or none; the
    /// future waits until they are on the disk.
    pub(crate) fn write(
        self: &Arc<Self>,
        permit: WritePermit,
        journal: &Journal,
        changes: Vec<Change>,
    ) -> impl Future<Output = Result<(), DbError>> + Send + use<> {
        let (begun, ended) = self.note(&changes);
        let changes_rows = !begun.is_empty() || !ended.is_empty();
        let (rows, journal) = (Arc::clone(self), journal.clone());
        let (queue, kind) = (self.queue.clone(), self.kind.clone());
        let written = permit.write(|mut db| {
            Box::pin(async move {
                journal.write(&mut db, changes).await?;
                change(&mut db, &queue, &kind, begun, ended).await
            })
        });
        async move {
            let written = written.await;
            if written.is_err() && changes_rows {
                rows.doubt();
            }
            written
        }
    }

    /// The rows that come and go with `changes`; keeps in mind when each is due. What is said
    /// last of an identifier counts.
    fn note(&self, changes: &[Change]) -> (Vec<NewJob>, Vec<String>) {
        let mut wanted = BTreeMap::new();
        for change in changes {
            match change {
                Change::Want(identifier) => wanted.insert(identifier, true),
                Change::Unwant(identifier) => wanted.insert(identifier, false),
                Change::Put(_) | Change::Remove { .. } => None,
            };
        }
        let (mut begun, mut ended) = (Vec::new(), Vec::new());
        if wanted.is_empty() {
            return (begun, ended);
        }
        let at = Millis::new(self.queue.db().now_ms()) + self.interval;
        let mut due = self.due.lock();
        for (identifier, is_wanted) in wanted {
            if is_wanted {
                begun.push(self.job(identifier, at));
                due.insert(identifier.clone(), at);
            } else {
                ended.push(identifier.as_str().to_owned());
                due.remove(identifier);
            }
        }
        (begun, ended)
    }

    fn job(&self, identifier: &Identifier, at: Millis) -> NewJob {
        let job = NewJob::new(&self.kind, identifier.as_str());
        job.due_ms(at.get()).every(self.interval).revive()
    }

    /// Brings the rows in step with what is wanted: missing ones come, stray ones go.
    pub(crate) async fn begin(&self, wanted: BTreeSet<Identifier>) -> Result<(), DbError> {
        let known = self.complete(wanted.clone()).await?;
        let is_wanted = |job: &JobFacts| {
            let identifier = Identifier::parse(&job.key);
            identifier.is_ok_and(|identifier| wanted.contains(&identifier))
        };
        let stray = known.into_iter().filter(|job| !is_wanted(job));
        let stray: Vec<String> = stray.map(|job| job.key).collect();
        if stray.is_empty() {
            return Ok(());
        }
        let (queue, kind) = (self.queue.clone(), self.kind.clone());
        let removed = self
            .queue
            .db()
            .write(|mut db| Box::pin(async move { queue.remove_in(&mut db, &kind, stray).await }));
        removed.await.map(drop)
    }

    /// Writes the rows that are missing and returns those that there were. A row too many does
    /// no harm: its handler removes it.
    pub(crate) async fn complete(
        &self,
        wanted: BTreeSet<Identifier>,
    ) -> Result<Vec<JobFacts>, DbError> {
        let known = self.list().await?;
        let sound = known.iter().filter(|job| self.is_sound(job));
        let sound: HashMap<&str, Option<i64>> =
            sound.map(|job| (job.key.as_str(), job.due_ms)).collect();
        let now = Millis::new(self.queue.db().now_ms());
        let (mut due, mut missing) = (HashMap::new(), Vec::new());
        for identifier in wanted {
            let at = sound.get(identifier.as_str()).copied().flatten();
            let at = at.map(Millis::new).unwrap_or_else(|| {
                // Spread, or a thousand of them would be looked for at once.
                let at = now + self.interval.mul_f64(share(&identifier));
                missing.push(self.job(&identifier, at));
                at
            });
            due.insert(identifier, at);
        }
        *self.due.lock() = due;
        if !missing.is_empty() {
            self.queue.enqueue(missing).await?;
        }
        Ok(known)
    }

    fn is_sound(&self, job: &JobFacts) -> bool {
        let period = i64::try_from(self.interval.as_millis()).unwrap_or(i64::MAX);
        job.state != State::Dead && job.period_ms == Some(period)
    }

    async fn list(&self) -> Result<Vec<JobFacts>, DbError> {
        let mut found = Vec::new();
        loop {
            let filter = Filter {
                kind: Some(self.kind.clone()),
                after: found.last().map(|job: &JobFacts| job.id),
                ..Filter::default()
            };
            let page = self.queue.list(&filter, PAGE).await?;
            let is_last = page.len() < PAGE;
            found.extend(page);
            if is_last {
                return Ok(found);
            }
        }
    }
}

async fn change(
    db: &mut Connection<'_>,
    queue: &Queue,
    kind: &str,
    begun: Vec<NewJob>,
    ended: Vec<String>,
) -> Result<(), DbError> {
    if !begun.is_empty() {
        queue.enqueue_in(db, begun).await?;
    }
    if !ended.is_empty() {
        queue.remove_in(db, kind, ended).await?;
    }
    Ok(())
}

/// A number from 0 to 1 that belongs to the identifier.
fn share(identifier: &Identifier) -> f64 {
    let mut hasher = DefaultHasher::new();
    identifier.hash(&mut hasher);
    f64::from(hasher.finish() as u32) / f64::from(u32::MAX)
}
