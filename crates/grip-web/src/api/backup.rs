//! The state of one moment, laid out in a directory for a backup to read.
//!
//! What is captured comes in the reverse of the order in which it became durable: first the journal of
//! what waits, then served events, then refs, then objects. Whatever one of them names, the next has: a
//! node that starts on it finishes what was under way, as after a crash.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering::Relaxed},
};

use grip_db::Db;
use grip_git::{FreezeProgress, KeptObjects, Repositories};
use grip_store::EventStore;
use grip_tasks::{TaskGroup, fault};
use grip_types::ErrorChain;
use http::StatusCode;

use super::{
    json,
    long_work::{Answer, LongWork, Run},
    types::{BackupEnded, FrozenState},
};
use crate::{
    admin::Admin,
    app::App,
    error::WebError,
    request_context::{HttpResult, RequestContext},
};

/// The copy of the database: a file, or a directory of rows.
const DATABASE: &str = "database";

/// The layout under way, if there is one.
pub(crate) type Freezing = LongWork<FreezeProgress, Result<FrozenState, Failed>>;

/// Why a layout failed, told to each who waits for it.
#[derive(Clone, Debug)]
pub(crate) struct Failed(String);

/// Lays the state of this moment out; it takes the place of an earlier one. Answers when that is done,
/// or how far it is.
pub(crate) async fn begin(cx: &RequestContext<'_>, admin: Admin) -> HttpResult {
    let app = cx.app;
    let audit = admin.begin("backup", "begin");
    let ended = match app.freezing.join(|| Parts::of(app).start()).await {
        Answer::Ended(ended) => ended,
        Answer::UnderWay(progress) => {
            audit.end("under way");
            return json(StatusCode::ACCEPTED, &so_far(app, &progress).await?);
        }
    };
    let stopped = || Failed("the node stops".to_owned());
    let frozen = ended.unwrap_or_else(|| Err(stopped()));
    audit.end(if frozen.is_ok() { "frozen" } else { "failed" });
    let frozen = frozen.map_err(|Failed(why)| WebError::NoBackup { why })?;
    json(StatusCode::OK, &frozen)
}

/// How far a layout is.
async fn so_far(app: &App, progress: &FreezeProgress) -> Result<FrozenState, WebError> {
    let (place, store) = (app.web.repositories.frozen_path(), app.web.store.clone());
    let database = app.web.queue.db().clone();
    let copies = move || {
        // The copies are as large as the files in use; of rows of a server, it shows as they come.
        let events = store.stats().map_or(0, |stats| stats.used_bytes);
        let copied = copied_bytes(&place);
        let total = events.saturating_add(database.file_bytes().unwrap_or_default());
        (copied, total.max(copied))
    };
    let (copied_bytes, total_bytes) = app.blocking("backup", copies).await?;
    Ok(FrozenState {
        links: progress.files.load(Relaxed),
        trees: progress.trees.load(Relaxed),
        total_trees: progress.total_trees.load(Relaxed),
        copied_bytes,
        total_bytes,
        ..FrozenState::default()
    })
}

/// Removes what was laid out, once that is complete.
pub(crate) async fn end(cx: &RequestContext<'_>, admin: Admin) -> HttpResult {
    let audit = admin.begin("backup", "end");
    cx.app.freezing.forget().await;
    let repositories = cx.app.web.repositories.clone();
    let thawed = cx
        .app
        .blocking("backup", move || repositories.thaw())
        .await?;
    audit.end(if thawed.is_ok() { "removed" } else { "failed" });
    thawed.map_err(|e| WebError::internal("what was laid out could not be removed", e))?;
    json(StatusCode::OK, &BackupEnded { removed: true })
}

/// What a layout is made of.
struct Parts {
    repositories: Repositories,
    store: EventStore,
    db: Db,
    group: TaskGroup,
}

impl Parts {
    fn of(app: &App) -> Self {
        Self {
            repositories: app.web.repositories.clone(),
            store: app.web.store.clone(),
            db: app.web.queue.db().clone(),
            group: app.group.clone(),
        }
    }

    fn start(self) -> Run<FreezeProgress, Result<FrozenState, Failed>> {
        let group = self.group.clone();
        Run::start(&group, "backup", |progress| async move {
            let frozen = self.freeze(progress).await;
            if frozen.is_err() {
                // Half a state helps nobody, and the disk may be full of it.
                let repositories = self.repositories.clone();
                if let Err(error) = self.blocking(move || repositories.thaw()).await {
                    tracing::warn!(%error, "failed to clear up behind a backup");
                }
            }
            frozen.map_err(|error| Failed(ErrorChain(&error).to_string()))
        })
    }

    async fn freeze(&self, progress: Arc<FreezeProgress>) -> io::Result<FrozenState> {
        let (repositories, store) = (self.repositories.clone(), self.store.clone());
        let (place, kept) = self
            .blocking(move || prepare(&repositories, &store))
            .await?;
        let database = place.join(DATABASE);
        let repositories = self.repositories.clone();
        let copying = self.db.copy_to(&database, || check_room(&repositories, 0));
        copying.await.map_err(io::Error::other)?;
        let (repositories, store) = (self.repositories.clone(), self.store.clone());
        let events = place.join("events");
        let copied = {
            let events = events.clone();
            self.blocking(move || {
                store.copy_to(&events).map_err(io::Error::other)?;
                fault::point("backup.events_copied");
                let frozen = repositories.freeze(&kept, &progress)?;
                Ok((frozen, copied_bytes(&place)))
            })
        };
        let (frozen, copied_bytes) = copied.await?;
        Ok(FrozenState {
            is_complete: true,
            git: shown(&frozen.git),
            events: shown(&events),
            database: Some(shown(&database)),
            links: frozen.files,
            copied_bytes,
            ..FrozenState::default()
        })
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let done = self.group.spawn_blocking("backup", work).await;
        done.map_err(io::Error::other)?
    }
}

/// Makes room for the copies, and has no object go from now on.
fn prepare(repositories: &Repositories, store: &EventStore) -> io::Result<(PathBuf, KeptObjects)> {
    repositories.thaw()?;
    let events = store.stats().map_err(io::Error::other)?.used_bytes;
    check_room(repositories, events)?;
    // Beside the links, since it may be another disk than that of the data directory.
    let place = repositories.frozen_path();
    fs::create_dir_all(&place)?;
    Ok((place, repositories.keep_objects()?))
}

/// Refuses copies that would leave less than pushes and events need.
fn check_room(repositories: &Repositories, copies: u64) -> io::Result<()> {
    let floor = repositories.options().min_free_bytes;
    if repositories.free_bytes()? < copies.saturating_add(floor) {
        return Err(io::Error::other(
            "there is no room for a copy of events and database",
        ));
    }
    Ok(())
}

/// Bytes of the database and the events that are there so far.
fn copied_bytes(place: &Path) -> u64 {
    let size = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.len());
    let copies = [place.to_owned(), place.join(DATABASE), place.join("events")];
    let files = copies
        .iter()
        .filter_map(|dir| fs::read_dir(dir).ok())
        .flatten();
    let files = files.flatten().map(|entry| entry.path());
    files
        .filter(|path| path.is_file())
        .map(|path| size(&path))
        .sum()
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
