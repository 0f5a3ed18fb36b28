//! Wake-ups by pushes on GitHub: the fetch of git data that waits, and the index.
//!
//! Invariant: the job of a push ends after the identifiers that wait for it were woken, so after a
//! crash they are woken again. Identifiers that begin to wait a little later are woken too.

mod waiting;

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use grip_db::DbError;
use grip_tasks::{CancellationToken, TaskGroup};
use grip_types::{Identifier, Service};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep},
};
use url::Url;

use self::waiting::{RemoteRepository, WaitingIdentifiers};
use crate::{Push, PushListener};

/// Pushes in the channel at most; further senders wait.
const MAX_NOTICES: usize = 64;
/// How often waiting identifiers are compared with the pushes of the last minutes.
const COMPARE_EVERY: Duration = Duration::from_secs(1);
/// Identifiers whose URLs are read in one round; the others follow in the next.
const AT_ONCE: usize = 200;

/// The queue of identifiers that wait for git data.
pub trait SyncQueue: Send + Sync + 'static {
    /// The identifiers in the queue and the number of attempts of each.
    fn waiting(&self) -> Vec<(Identifier, u32)>;

    /// The clone URLs that may have the data.
    fn clone_urls<'a>(
        &'a self,
        identifier: &'a Identifier,
    ) -> BoxFuture<'a, Result<Vec<Url>, UrlsError>>;

    /// Makes the identifier due now; false if it no longer waits.
    fn sync_now<'a>(&'a self, identifier: &'a Identifier) -> BoxFuture<'a, bool>;
}

/// The reason why clone URLs could not be read.
pub type UrlsError = Box<dyn std::error::Error + Send + Sync>;

/// The index of the repositories that are pushed to.
pub trait RepositoryIndex: Send + Sync + 'static {
    fn pushed(&self, push: IndexedPush) -> BoxFuture<'_, Result<(), DbError>>;
}

/// A push as the index needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexedPush {
    /// With its port, unless that is the usual one.
    pub host: String,
    pub owner: String,
    pub name: String,
    pub is_private: bool,
}

/// Wakes what waits for a push.
pub struct Wake {
    /// The host of pushes that name no URL.
    host: Service,
    index: Option<Arc<dyn RepositoryIndex>>,
    /// None if fetching is disabled.
    notices: Option<mpsc::Sender<PushNotice>>,
}

struct PushNotice {
    remote: RemoteRepository,
    done: oneshot::Sender<()>,
}

impl Wake {
    pub fn new(host: &Service, index: Option<Arc<dyn RepositoryIndex>>) -> Self {
        Self {
            host: host.clone(),
            index,
            notices: None,
        }
    }

    /// Wakes waiting identifiers, too. Pushes within `delay` after the first are handled together.
    #[must_use]
    pub fn with_sync(mut self, queue: impl SyncQueue, delay: Duration, group: &TaskGroup) -> Self {
        let (sender, notices) = mpsc::channel(MAX_NOTICES);
        self.notices = Some(sender);
        let waker = Waker {
            queue,
            delay,
            waiting: WaitingIdentifiers::default(),
            has_more: false,
        };
        group.spawn("watch.wake", waker.run(notices, group.token()));
        self
    }

    /// The clone URL in the webhook, or the one that follows from the name.
    fn url(&self, push: &Push) -> Option<Url> {
        let named = push.clone_url.as_deref().map(Url::parse);
        if let Some(Ok(url)) = named {
            return Some(url);
        }
        let name = push.repository_name.as_deref()?;
        Url::parse(&format!("{}/{name}", self.host.http_url())).ok()
    }

    async fn wake_sync(&self, url: &Url) {
        let (Some(notices), Some(remote)) = (&self.notices, RemoteRepository::of(url)) else {
            return;
        };
        let (done, woken) = oneshot::channel();
        if notices.send(PushNotice { remote, done }).await.is_ok() {
            // An error means shutdown.
            let _ = woken.await;
        }
    }

    async fn wake_index(&self, url: &Url, is_private: bool) {
        let Some(index) = &self.index else {
            return;
        };
        let Some(push) = indexed_push(url, is_private) else {
            return;
        };
        if let Err(error) = index.pushed(push).await {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, %url, "failed to bring indexing forward");
        }
    }
}

impl PushListener for Wake {
    fn pushed<'a>(&'a self, push: &'a Push) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let Some(url) = self.url(push) else {
                return;
            };
            self.wake_index(&url, push.is_private).await;
            self.wake_sync(&url).await;
        })
    }

    /// What waits for git data waits for commits, which a push brought: the index alone hears.
    fn tagged<'a>(&'a self, repository: &'a str, is_private: bool) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let url = Url::parse(&format!("{}/{repository}", self.host.http_url()));
            if let Ok(url) = url {
                self.wake_index(&url, is_private).await;
            }
        })
    }
}

fn indexed_push(url: &Url, is_private: bool) -> Option<IndexedPush> {
    let host = url.host_str()?;
    let host = match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    let (owner, name) = url.path().trim_matches('/').split_once('/')?;
    let name = name.strip_suffix(".git").unwrap_or(name);
    Some(IndexedPush {
        host,
        owner: owner.to_owned(),
        name: name.to_owned(),
        is_private,
    })
}

/// Matches pushes with the sync queue.
struct Waker<Q> {
    queue: Q,
    delay: Duration,
    waiting: WaitingIdentifiers,
    /// Some identifiers were left for the next round.
    has_more: bool,
}

impl<Q: SyncQueue> Waker<Q> {
    async fn run(mut self, mut notices: mpsc::Receiver<PushNotice>, stop: CancellationToken) {
        let working = async {
            loop {
                let has_pushes = self.waiting.forget_old(Instant::now());
                let pushes = tokio::select! {
                    first = notices.recv() => match first {
                        Some(first) => self.gather(first, &mut notices).await,
                        None => return,
                    },
                    () = sleep(COMPARE_EVERY), if has_pushes || self.has_more => Vec::new(),
                };
                self.round(pushes).await;
            }
        };
        stop.run_until_cancelled(working).await;
    }

    /// The first push and those that follow within the delay.
    async fn gather(
        &self,
        first: PushNotice,
        notices: &mut mpsc::Receiver<PushNotice>,
    ) -> Vec<PushNotice> {
        sleep(self.delay).await;
        let mut all = vec![first];
        while let Ok(next) = notices.try_recv() {
            all.push(next);
        }
        all
    }

    async fn round(&mut self, pushes: Vec<PushNotice>) {
        let mut woken = self.read_queue().await;
        let now = Instant::now();
        for push in &pushes {
            woken.extend(self.waiting.pushed(&push.remote, now));
        }
        woken.sort_unstable();
        woken.dedup();
        for identifier in &woken {
            if self.queue.sync_now(identifier).await {
                tracing::info!(%identifier, "pushed to a clone URL: fetching now");
            }
        }
        for push in pushes {
            // The job may have been cancelled.
            let _ = push.done.send(());
        }
    }

    /// Reads what began to wait since the last round; returns those with an earlier push.
    async fn read_queue(&mut self) -> Vec<Identifier> {
        let mut changed = self.waiting.compare(&self.queue.waiting());
        self.has_more = changed.len() > AT_ONCE;
        changed.truncate(AT_ONCE);
        let mut pushed = Vec::new();
        for (identifier, attempts) in changed {
            match self.queue.clone_urls(&identifier).await {
                Ok(urls) if self.waiting.set(&identifier, &urls, attempts) => {
                    pushed.push(identifier);
                }
                Ok(_) => {}
                Err(error) => {
                    let error: &dyn std::error::Error = &*error;
                    tracing::debug!(error, %identifier, "failed to read clone URLs");
                }
            }
        }
        pushed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_has_a_host_an_owner_and_a_name() {
        let read = |text: &str| indexed_push(&Url::parse(text).unwrap(), true);
        let tides = |host: &str| {
            Some(IndexedPush {
                host: host.into(),
                owner: "acme".into(),
                name: "tides".into(),
                is_private: true,
            })
        };
        assert_eq!(
            read("https://github.com/acme/tides.git"),
            tides("github.com")
        );
        assert_eq!(
            read("http://127.0.0.1:81/acme/tides"),
            tides("127.0.0.1:81")
        );
        assert_eq!(read("https://github.com/acme"), None);
    }
}
