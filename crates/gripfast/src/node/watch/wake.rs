//! Pushes on other hosts wake the search for data that waits, and the index.
//!
//! Invariant: a push that was told of is not done with before those who wait for it were woken, so
//! after a crash it is told again. Who begins to wait a little later is woken too.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use grip_grasp::{Grasp, SyncContext as _};
use grip_index::Index;
use grip_ingest::{Push, Pushes};
use grip_tasks::{CancellationToken, TaskGroup};
use grip_types::{Identifier, Service};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep},
};
use url::Url;

use super::clones::{Clones, Place};

/// Pushes that wait to be looked at; who brings more waits.
const ASKED: usize = 64;
/// How often those who wait are compared with the pushes of the last minutes.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Identifiers that are looked at in one go; the others come with the next.
const AT_ONCE: usize = 200;

/// Tells the node of pushes.
pub(super) struct Wake {
    /// Where pushes that name no URL happen.
    host: Service,
    index: Option<Arc<Index>>,
    /// None where nothing is fetched.
    search: Option<mpsc::Sender<Asked>>,
}

struct Asked {
    place: Place,
    done: oneshot::Sender<()>,
}

impl Wake {
    pub(super) fn new(host: &Service, index: Option<Arc<Index>>) -> Self {
        Self {
            host: host.clone(),
            index,
            search: None,
        }
    }

    /// Has data looked for, too, after `delay`, in which others may come.
    pub(super) fn searching(mut self, grasp: &Grasp, delay: Duration, group: &TaskGroup) -> Self {
        let (sender, asked) = mpsc::channel(ASKED);
        self.search = Some(sender);
        let waker = Waker {
            grasp: grasp.clone(),
            delay,
            clones: Clones::default(),
            has_more: false,
        };
        group.spawn("watch.wake", waker.run(asked, group.token()));
        self
    }

    /// Where it is cloned from, as the webhook says or as the host has it.
    fn url(&self, push: &Push) -> Option<Url> {
        let said = push.clone_url.as_deref().map(Url::parse);
        if let Some(Ok(url)) = said {
            return Some(url);
        }
        let name = push.repository_name.as_deref()?;
        Url::parse(&format!("{}/{name}", self.host.http_url())).ok()
    }

    async fn wake_search(&self, url: &Url) {
        let (Some(search), Some(place)) = (&self.search, Place::of(url)) else {
            return;
        };
        let (done, woken) = oneshot::channel();
        if search.send(Asked { place, done }).await.is_ok() {
            // An error says that the node stops.
            let _ = woken.await;
        }
    }

    async fn wake_index(&self, url: &Url, is_private: bool) {
        let Some(index) = &self.index else {
            return;
        };
        let Some((host, owner, name)) = parts(url) else {
            return;
        };
        let woken = match is_private {
            true => index.private_push(&host, &owner, &name).await,
            false => index.source_push(&host, &owner, &name).await,
        };
        if let Err(error) = woken {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, %url, "a repository is indexed at its usual time only");
        }
    }
}

impl Pushes for Wake {
    fn pushed<'a>(&'a self, push: &'a Push) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let Some(url) = self.url(push) else {
                return;
            };
            self.wake_index(&url, push.is_private).await;
            self.wake_search(&url).await;
        })
    }
}

/// Host, owner and name of a repository.
fn parts(url: &Url) -> Option<(String, String, String)> {
    let host = url.host_str()?;
    let host = match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    let (owner, name) = url.path().trim_matches('/').split_once('/')?;
    let name = name.strip_suffix(".git").unwrap_or(name);
    Some((host, owner.to_owned(), name.to_owned()))
}

/// Knows who waits for data, and where it may be.
struct Waker {
    grasp: Grasp,
    delay: Duration,
    clones: Clones,
    /// Some were left for the next look.
    has_more: bool,
}

impl Waker {
    async fn run(mut self, mut asked: mpsc::Receiver<Asked>, stop: CancellationToken) {
        let working = async {
            loop {
                let is_watching = self.clones.forget_old(Instant::now());
                let pushes = tokio::select! {
                    first = asked.recv() => match first {
                        Some(first) => self.gather(first, &mut asked).await,
                        None => return,
                    },
                    () = sleep(LOOK_EVERY), if is_watching || self.has_more => Vec::new(),
                };
                self.round(pushes).await;
            }
        };
        stop.run_until_cancelled(working).await;
    }

    /// Waits a little for others that come together with the first.
    async fn gather(&self, first: Asked, asked: &mut mpsc::Receiver<Asked>) -> Vec<Asked> {
        sleep(self.delay).await;
        let mut all = vec![first];
        while let Ok(next) = asked.try_recv() {
            all.push(next);
        }
        all
    }

    async fn round(&mut self, pushes: Vec<Asked>) {
        let mut woken = self.look().await;
        let now = Instant::now();
        for push in &pushes {
            woken.extend(self.clones.pushed(&push.place, now));
        }
        woken.sort_unstable();
        woken.dedup();
        for identifier in &woken {
            if self.grasp.sync_now(identifier).await {
                tracing::info!(%identifier, "a push elsewhere names it: its data is looked for");
            }
        }
        for push in pushes {
            // Who asked may be gone.
            let _ = push.done.send(());
        }
    }

    /// Looks at those who wait since the last look; says for whom there was a push already.
    async fn look(&mut self) -> Vec<Identifier> {
        let queue = self.grasp.sync_queue(usize::MAX).into_iter();
        let queue: Vec<_> = queue.map(|(it, facts)| (it, facts.attempt_count)).collect();
        let mut others = self.clones.compare(&queue);
        self.has_more = others.len() > AT_ONCE;
        others.truncate(AT_ONCE);
        let mut awaited = Vec::new();
        for (identifier, attempts) in others {
            let needs = match self.grasp.needs(&identifier).await {
                Ok(needs) => needs,
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::debug!(error, %identifier, "cannot tell where its data may be");
                    continue;
                }
            };
            let urls: Vec<Url> = needs.into_iter().flat_map(|need| need.urls).collect();
            if self.clones.set(&identifier, &urls, attempts) {
                awaited.push(identifier);
            }
        }
        awaited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_has_a_host_an_owner_and_a_name() {
        let read = |text: &str| parts(&Url::parse(text).unwrap());
        let tides = |host: &str| Some((host.into(), "acme".into(), "tides".into()));
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
