//! `jsonb` of rows that are older than its tables, in resumable steps.
//!
//! Triggers of the server keep `jsonb` beside all that is written, whichever instance writes it. What was
//! there before is left to this. A file needs none of it: its tables of JSON are views.

use grip_db::{DbError, Engine, Statement};
use grip_queue::{NewJob, Queue};

use super::{Store, long_work::Step, retry_on_conflict, sql};
use crate::{jobs, status::Progress};

/// Rows of one part.
const AT_ONCE: i64 = 200;

/// The rows whose `jsonb` is filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonFill {
    Events,
    Users,
    Repositories,
}

impl JsonFill {
    pub(crate) const ALL: [Self; 3] = [Self::Events, Self::Users, Self::Repositories];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Events => "events-json",
            Self::Users => "users-json",
            Self::Repositories => "repositories-json",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fill| fill.name() == name)
    }

    fn statement(self) -> &'static Statement {
        match self {
            Self::Events => &sql::FILL_EVENTS_JSON,
            Self::Users => &sql::FILL_USERS_JSON,
            Self::Repositories => &sql::FILL_REPOSITORIES_JSON,
        }
    }
}

impl Store {
    /// Asks for what is not filled in yet; from the first row where `is_repair`, since somebody may
    /// have taken rows away.
    pub(crate) async fn fill_json(&self, queue: &Queue, is_repair: bool) -> Result<(), DbError> {
        if self.db.engine() == Engine::Sqlite {
            return Ok(());
        }
        let (store, queue) = (self.clone(), queue.clone());
        self.db
            .write(move |mut db| {
                Box::pin(async move {
                    let mut jobs = Vec::new();
                    for fill in JsonFill::ALL {
                        let work = [fill.name().into()];
                        let found: Option<Progress> = db.fetch_optional(&sql::WORK, &work).await?;
                        let is_done = found.as_ref().is_some_and(|it| it.finished_at.is_some());
                        if is_done && !is_repair {
                            continue;
                        }
                        jobs.push(NewJob::new(jobs::FILL_JSON, fill.name()).revive());
                        if found.is_none() || is_repair {
                            store.begin_work(&mut db, fill.name()).await?;
                        }
                    }
                    if !jobs.is_empty() {
                        queue.enqueue_in(&mut db, jobs).await?;
                    }
                    Ok(())
                })
            })
            .await
    }

    /// Does the next part; says whether it was the last.
    pub(crate) async fn fill_json_step(&self, fill: JsonFill) -> Result<bool, DbError> {
        let place = self.work_cursor(fill.name()).await?;
        let now = self.now_ms();
        retry_on_conflict(|| {
            let place = place.clone();
            self.db.write(move |mut db| {
                Box::pin(async move {
                    let values = [place.as_str().into(), AT_ONCE.into()];
                    let (last, rows): (Option<String>, i64) =
                        db.fetch_one(fill.statement(), &values).await?;
                    let is_last = rows < AT_ONCE;
                    let step = Step {
                        place: last.unwrap_or(place),
                        done: usize::try_from(rows).unwrap_or(0),
                        failed: 0,
                        is_last,
                    };
                    step.note(&mut db, fill.name(), now).await?;
                    Ok(is_last)
                })
            })
        })
        .await
    }
}
