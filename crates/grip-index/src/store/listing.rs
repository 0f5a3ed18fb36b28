//! Listing of a source's repositories, page by page.

use grip_db::{Connection, DbError};
use grip_queue::{NewJob, Queue, State};

use super::{Store, publish::Ending, sql::sql};
use crate::{Audience, Listed};

/// Repositories in one statement.
const AT_ONCE: i64 = 1_000;

/// Progress of the listing of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListingProgress {
    /// How often all was listed before.
    pub(crate) listings: i64,
    pub(crate) next: Option<String>,
    /// Repositories found so far in the listing under way.
    pub(crate) found: i64,
}

/// Makes the job for a repository.
pub(crate) type MakeJob = Box<dyn Fn(&str) -> NewJob + Send + Sync>;

impl Store {
    /// Adds a source; `job` is asked for now if it is new or has failed for good, because the
    /// operator may have removed the cause before this start, and otherwise within its period, which changes nothing
    /// unless it is missing.
    pub(crate) async fn add_source(
        &self,
        queue: Queue,
        source: &str,
        job: NewJob,
    ) -> Result<(), DbError> {
        let (source, now) = (source.to_owned(), self.now_ms());
        let found = queue.find(&job.kind, &job.key).await?;
        let is_dead = found.is_some_and(|found| found.state == State::Dead);
        self.db
            .write(move |mut db| {
                Box::pin(async move {
                    let named = [source.into()];
                    let is_new = db.execute(&sql::ADD_SOURCE, &named).await? == 1;
                    // What was hidden when it left comes back with its listing.
                    let left: Option<(Option<i64>,)> =
                        db.fetch_optional(&sql::HAS_LEFT, &named).await?;
                    let has_left = left.is_some_and(|(at,)| at.is_some());
                    let period = job.period.unwrap_or_default().as_millis();
                    let later = now.saturating_add(i64::try_from(period).unwrap_or(i64::MAX));
                    let job = if is_new || is_dead || has_left {
                        job.revive()
                    } else {
                        job.due_ms(later)
                    };
                    queue.enqueue_in(&mut db, vec![job]).await?;
                    Ok(())
                })
            })
            .await
    }

    /// Begins a listing, or goes on with the one that was interrupted.
    pub(crate) async fn begin_listing(&self, source: &str) -> Result<ListingProgress, DbError> {
        type Row = (i64, Option<String>, i64);
        let named = [source.into(), self.now_ms().into()];
        let begun: Option<Row> = self
            .db
            .write_one(move |mut db| {
                Box::pin(async move { db.fetch_optional(&sql::BEGIN_LISTING, &named).await })
            })
            .await?;
        let (listings, next, found) = begun.unwrap_or_default();
        Ok(ListingProgress {
            listings,
            next,
            found,
        })
    }

    /// Keeps a page: repositories that are new here get a job, and so do those that have lost
    /// theirs or have another audience; the others keep it as it is. Says how many got one.
    pub(crate) async fn page_listed(
        &self,
        queue: Queue,
        source: &str,
        progress: &ListingProgress,
        listed: Vec<Listed>,
        make: MakeJob,
    ) -> Result<usize, DbError> {
        let repos: Vec<String> = listed.iter().map(|repo| repo.name.clone()).collect();
        let of = |audience: Audience| -> Vec<String> {
            let of = listed.iter().filter(|repo| repo.audience == audience);
            of.map(|repo| repo.name.clone()).collect()
        };
        let audiences = [Audience::Anybody, Audience::Readers].map(|it| (it, of(it)));
        let (source, listing) = (source.to_owned(), progress.listings + 1);
        let (next, count) = (progress.next.clone(), repos.len() as i64);
        self.db
            .write(move |mut db| {
                Box::pin(async move {
                    let named = [repos.clone().into()];
                    let mut new: Vec<(String,)> = db.fetch_all(&sql::ADD_REPOS, &named).await?;
                    let members = [repos.clone().into(), source.clone().into(), listing.into()];
                    // Another source may judge a known one otherwise.
                    new.extend(db.fetch_all(&sql::ADD_MEMBERS, &members).await?);
                    db.execute(&sql::SEE_MEMBERS, &members).await?;
                    for (audience, repos) in audiences {
                        if !repos.is_empty() {
                            let values = [repos.into(), audience.number().into()];
                            new.extend(db.fetch_all(&sql::SET_AUDIENCES, &values).await?);
                        }
                    }
                    let mut new: Vec<String> = new.into_iter().map(|(repo,)| repo).collect();
                    if let Some(first) = repos.first() {
                        let kind = make(first).kind;
                        new.extend(queue.missing_in(&mut db, &kind, repos).await?);
                    }
                    new.sort_unstable();
                    new.dedup();
                    let jobs: Vec<_> = new.iter().map(|repo| make(repo).revive()).collect();
                    if !jobs.is_empty() {
                        queue.enqueue_in(&mut db, jobs).await?;
                    }
                    let page = [source.into(), next.into(), count.into()];
                    db.execute(&sql::PAGE_LISTED, &page).await?;
                    Ok(new.len())
                })
            })
            .await
    }

    /// Forgets the progress of a listing, so that the next one begins at its start.
    pub(crate) async fn forget_page(&self, source: &str) -> Result<(), DbError> {
        let named = [source.into()];
        self.db.execute(&sql::FORGET_PAGE, &named).await.map(drop)
    }

    /// Ends a complete listing. Repositories that were not in it have their turn now, also those
    /// that had failed for good, which finds out whether they are gone; those that were missing from the one before, too, are no longer
    /// this source's.
    pub(crate) async fn end_listing(
        &self,
        source: &str,
        progress: &ListingProgress,
        make: MakeJob,
        ending: Ending,
    ) -> Result<usize, DbError> {
        let (source, listing, now) = (source.to_owned(), progress.listings + 1, self.now_ms());
        self.db
            .write(move |mut db| {
                Box::pin(async move {
                    let missed = ask_missed(&mut db, &source, listing, &make, &ending).await?;
                    let dropped = [source.clone().into(), (listing - 1).into()];
                    db.execute(&sql::DROP_MISSED, &dropped).await?;
                    let ended = [source.into(), now.into()];
                    db.execute(&sql::END_LISTING, &ended).await?;
                    ending.end(&mut db).await?;
                    Ok(missed)
                })
            })
            .await
    }

    /// Adds repositories that were named apart from a listing, and asks for their turns. Who may see
    /// those that are new is `at_first`, until their turn tells.
    pub(crate) async fn name_repos(
        &self,
        queue: Queue,
        source: &str,
        repos: Vec<String>,
        jobs: Vec<NewJob>,
        at_first: Audience,
    ) -> Result<(), DbError> {
        let source = source.to_owned();
        self.db
            .write(move |mut db| {
                Box::pin(async move {
                    let named = [repos.clone().into()];
                    let new: Vec<(String,)> = db.fetch_all(&sql::ADD_REPOS, &named).await?;
                    if at_first != Audience::Anybody && !new.is_empty() {
                        let new: Vec<String> = new.into_iter().map(|(repo,)| repo).collect();
                        let values = [new.into(), at_first.number().into()];
                        let _: Vec<(String,)> = db.fetch_all(&sql::SET_AUDIENCES, &values).await?;
                    }
                    let members = [repos.into(), source.into()];
                    db.execute(&sql::NAME_MEMBERS, &members).await?;
                    queue.enqueue_in(&mut db, jobs).await?;
                    Ok(())
                })
            })
            .await
    }
}

async fn ask_missed(
    db: &mut Connection<'_>,
    source: &str,
    listing: i64,
    make: &MakeJob,
    ending: &Ending,
) -> Result<usize, DbError> {
    let (mut after, mut total) = (String::new(), 0);
    loop {
        let asked = [
            source.into(),
            after.clone().into(),
            listing.into(),
            AT_ONCE.into(),
        ];
        let missed: Vec<(String,)> = db.fetch_all(&sql::MISSED, &asked).await?;
        let Some((last,)) = missed.last() else {
            return Ok(total);
        };
        after.clone_from(last);
        total += missed.len();
        let jobs = missed.iter().map(|(repo,)| make(repo).revive()).collect();
        ending.queue.enqueue_in(db, jobs).await?;
    }
}
