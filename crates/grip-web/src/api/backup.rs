//! The state of one moment, laid out in a directory for a backup to read.
//!
//! What is captured comes in the reverse of the order in which it became durable: first the journal of
//! what waits, then served events, then refs, then objects. Whatever one of them names, the next has: a
//! node that starts on it finishes what was under way, as after a crash.
//!
//! It may take longer than a request may: the work is a task of its own, and a client that asks meanwhile is
//! told how far it is.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use grip_db::Db;
use grip_git::{KeptObjects, Repositories};
use grip_store::EventStore;
use grip_tasks::{TaskGroup, fault};
use grip_types::ErrorChain;
use http::StatusCode;
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use super::{
    json,
    types::{BackupEnded, FrozenState},
};
use crate::{
    admin::Admin,
    app::App,
    error::WebError,
    request_context::{HttpResult, RequestContext},
};

/// How long one answer waits for the end.
const PATIENCE: Duration = Duration::from_secs(5);

/// The copy of the database: a file, or a directory of rows.
const DATABASE: &str = "database";

/// A layout that has ended and was not asked for in this time is of a client that is gone.
const ABANDONED: Duration = Duration::from_secs(60);

/// The layout under way, if there is one.
#[derive(Default)]
pub(crate) struct Freezing {
    /// With the time when it was asked for last.
    current: Mutex<Option<(Layout, Instant)>>,
}

/// One layout: how far it is, and its end. Clones are of the same one.
#[derive(Clone)]
struct Layout {
    linked: Arc<AtomicU64>,
    end: watch::Receiver<Option<Result<FrozenState, Failed>>>,
}

/// Why a layout failed, told to each who waits for it.
#[derive(Clone, Debug)]
struct Failed(String);

impl Freezing {
    /// The layout under way, or a new one.
    fn join(&self, parts: impl FnOnce() -> Parts) -> Layout {
        let mut current = self.current.lock();
        // Its state is of an earlier time: a backup of today must not be made of it.
        current.take_if(|(layout, asked)| {
            layout.end.borrow().is_some() && asked.elapsed() > ABANDONED
        });
        let (layout, asked) = current.get_or_insert_with(|| (parts().start(), Instant::now()));
        *asked = Instant::now();
        layout.clone()
    }

    /// Lets the next request begin a new one.
    fn forget(&self) {
        self.current.lock().take();
    }

    fn current(&self) -> Option<Layout> {
        let current = self.current.lock();
        current.as_ref().map(|(layout, _)| layout.clone())
    }
}

impl Layout {
    /// Waits for its end; none if the node stopped before.
    async fn ended(&mut self) -> Option<Result<FrozenState, Failed>> {
        self.end.wait_for(Option::is_some).await.ok()?.clone()
    }
}

/// Lays the state of this moment out; it takes the place of an earlier one. Answers when that is done,
/// or how far it is.
pub(crate) async fn begin(cx: &RequestContext<'_>, admin: Admin) -> HttpResult {
    let app = cx.app;
    let audit = admin.begin("backup", "begin");
    let mut layout = app.freezing.join(|| Parts::of(app));
    let Ok(ended) = timeout(PATIENCE, layout.ended()).await else {
        audit.end("under way");
        let place = app.web.repositories.frozen_path();
        let copied = app.blocking("backup", move || copied_bytes(&place)).await?;
        let so_far = FrozenState {
            links: layout.linked.load(Relaxed),
            copied_bytes: copied,
            ..FrozenState::default()
        };
        return json(StatusCode::ACCEPTED, &so_far);
    };
    app.freezing.forget();
    let stopped = || Failed("the node stops".to_owned());
    let frozen = ended.unwrap_or_else(|| Err(stopped()));
    audit.end(if frozen.is_ok() { "frozen" } else { "failed" });
    let frozen = frozen.map_err(|Failed(why)| WebError::NoBackup { why })?;
    json(StatusCode::OK, &frozen)
}

/// Removes what was laid out, once that is complete.
pub(crate) async fn end(cx: &RequestContext<'_>, admin: Admin) -> HttpResult {
    let audit = admin.begin("backup", "end");
    if let Some(mut layout) = cx.app.freezing.current() {
        drop(layout.ended().await);
        cx.app.freezing.forget();
    }
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

    fn start(self) -> Layout {
        let (told, end) = watch::channel(None);
        let linked = Arc::<AtomicU64>::default();
        let layout = Layout {
            linked: Arc::clone(&linked),
            end,
        };
        let group = self.group.clone();
        group.spawn("backup", async move {
            let frozen = self.freeze(linked).await;
            if frozen.is_err() {
                // Half a state helps nobody, and the disk may be full of it.
                let repositories = self.repositories.clone();
                if let Err(error) = self.blocking(move || repositories.thaw()).await {
                    tracing::warn!(%error, "failed to clear up behind a backup");
                }
            }
            let failed = |error: io::Error| Failed(ErrorChain(&error).to_string());
            let _ = told.send(Some(frozen.map_err(failed)));
        });
        layout
    }

    async fn freeze(&self, linked: Arc<AtomicU64>) -> io::Result<FrozenState> {
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
                let frozen = repositories.freeze(&kept, &linked)?;
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
