//! Gathers what the page of GitHub shows.

mod lines;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use grip_db::DbError;
use grip_ingest::{EventQuery, Ingest, Stats, Status};
use http::{Response, StatusCode};

use crate::{
    api::github::{Wish, pushes},
    app::{App, Asked},
    body::Body,
    error::WebError,
    metrics::unix_now_ms,
    pages::{
        self, CounterView, Frame, Notice,
        github::{Activity, GitHubPage},
    },
};

/// How much of each list is shown.
const PUSHES: usize = 12;
const SOURCES: usize = 50;
const BUDGETS: usize = 20;
const GAPS: usize = 10;
const REJECTED: usize = 10;

/// The page of what happens on GitHub. Boxed, so that no other request has to find room for it.
pub(crate) fn github<'a>(
    app: &'a Arc<App>,
    asked: &'a Asked,
) -> BoxFuture<'a, Result<Response<Body>, WebError>> {
    Box::pin(draw(app, asked))
}

async fn draw(app: &Arc<App>, asked: &Asked) -> Result<Response<Body>, WebError> {
    let frame = Frame::new(&asked.settings, app.build());
    let page = match app.watch() {
        Ok(watch) => {
            let activity = activity(app, &watch.ingest, &frame);
            let (notices, activity) = activity.await.map_err(unreadable)?;
            GitHubPage {
                frame,
                notices,
                activity: Some(activity),
            }
        }
        Err(_) => GitHubPage {
            frame,
            notices: vec![notice(
                "Nobody watches.",
                "This node does not follow what happens on GitHub.",
            )],
            activity: None,
        },
    };
    pages::draw(StatusCode::OK, &page)
}

async fn activity(
    app: &App,
    ingest: &Ingest,
    frame: &Frame,
) -> Result<(Vec<Notice>, Activity), DbError> {
    let now = unix_now_ms();
    let recent = Wish {
        query: EventQuery {
            limit: PUSHES,
            ..EventQuery::default()
        },
        ..Wish::default()
    };
    let recent = pushes(ingest, recent).await?.pushes.into_iter();
    let stats = app.sampled().watch_stats(ingest).await?;
    let status = app.sampled().watch_status(ingest).await?;
    let gaps = ingest.gaps(true, 0, GAPS).await?;
    let notices = notices(&status);
    let activity = Activity {
        counters: counters(&stats),
        pushes: recent.map(|p| lines::push(p, frame, now)).collect(),
        budgets: status
            .budgets
            .iter()
            .take(BUDGETS)
            .map(|budget| lines::budget(budget, now))
            .collect(),
        work: status.work.iter().filter_map(lines::work).collect(),
        more_gaps: unsigned(status.open_gaps).saturating_sub(gaps.len() as u64),
        gaps: gaps.into_iter().map(|gap| lines::gap(gap, now)).collect(),
        rejected: status
            .rejected
            .into_iter()
            .take(REJECTED)
            .map(|rejected| lines::rejected(rejected, now))
            .collect(),
        sources: status
            .sources
            .into_iter()
            .take(SOURCES)
            .map(|source| lines::source(source, now))
            .collect(),
    };
    Ok((notices, activity))
}

/// What an operator should know before anything else.
fn notices(status: &Status) -> Vec<Notice> {
    let mut notices = Vec::new();
    if status.open_gaps > 0 {
        notices.push(notice(
            "Something may have been missed.",
            "Where a list did not reach back to what was seen before, there is a gap below. \
             Files of archived events fill it: gripfast ingest backfill.",
        ));
    }
    notices
}

fn notice(title: &'static str, why: &str) -> Notice {
    Notice {
        title,
        why: why.to_owned(),
        missing: Vec::new(),
        until: None,
    }
}

fn counters(stats: &Stats) -> Vec<CounterView> {
    let counter = |label, value: i64| CounterView {
        label,
        value: pages::grouped(unsigned(value)),
    };
    vec![
        counter("pushes seen", stats.pushes_total),
        counter("in the last hour", stats.pushes_last_hour),
        counter("repositories", stats.repositories),
        counter("people", stats.users),
        counter("open gaps", stats.open_gaps),
        counter("kept aside", stats.rejected),
    ]
}

fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

fn unreadable(error: DbError) -> WebError {
    WebError::database("what is known of GitHub cannot be read", error)
}
