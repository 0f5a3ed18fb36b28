//! Parts of pages that keep up with the node, by server-sent events.
//!
//! A part is rendered once for all who look at it, once a second and only while somebody does; what
//! differs from the last is sent. Who takes it slowly misses what was in between, never the latest.
//! Pages are complete without it.
//!
//! Invariant: a stream ends when the node stops, when its reader is struck off the members of a private
//! service, and after [`LASTS`] in any case; browsers come back.

use std::{convert::Infallible, io, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{HeaderName, StatusCode, header};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, timeout_at},
};

use crate::{
    app::App,
    body::Body,
    error::WebError,
    limits::Class,
    pages::{self, Frame},
    private,
    request_context::{HttpResult, RequestContext},
    respond::{self, WithHeader as _},
};

/// How often a part is rendered while somebody looks at it.
const EVERY: Duration = Duration::from_secs(1);
/// Without a change a comment is sent, so that a client that left is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// How long one stream lasts.
const LASTS: Duration = Duration::from_secs(600);

/// A part of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Home,
    Purgatory,
    Sync,
}

const PARTS: [Part; 3] = [Part::Home, Part::Purgatory, Part::Sync];

impl Part {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "home" => Self::Home,
            "purgatory" => Self::Purgatory,
            "sync" => Self::Sync,
            _ => return None,
        })
    }

    async fn html(self, app: &App) -> Result<String, WebError> {
        let frame = Frame::new(&app.settings(), &app.web.build);
        match self {
            Self::Home => pages::home::live(app, frame).await,
            Self::Purgatory => pages::purgatory::live(app, frame).await,
            Self::Sync => pages::sync::live(app, frame),
        }
    }
}

/// What streams follow.
pub(crate) struct LiveParts([Feed; PARTS.len()]);

struct Feed {
    latest: watch::Receiver<Bytes>,
    joined: Arc<Notify>,
}

/// The other end of all feeds: once it is dropped, every stream ends.
pub(crate) struct Renderers([(watch::Sender<Bytes>, Arc<Notify>); PARTS.len()]);

impl LiveParts {
    pub(crate) fn new() -> (Self, Renderers) {
        let made = PARTS.map(|_| (watch::channel(Bytes::new()), Arc::new(Notify::new())));
        let feeds = made.each_ref().map(|((_, latest), joined)| Feed {
            latest: latest.clone(),
            joined: Arc::clone(joined),
        });
        let renderers = made.map(|((sender, _), joined)| (sender, joined));
        (Self(feeds), Renderers(renderers))
    }

    /// The latest of a part, and all that come.
    fn follow(&self, part: Part) -> watch::Receiver<Bytes> {
        let feed = &self.0[part as usize];
        let mut latest = feed.latest.clone();
        latest.mark_changed();
        feed.joined.notify_one();
        latest
    }
}

impl Renderers {
    /// Renders parts for those who look at them, until the node stops.
    pub(crate) fn start(self, app: &Arc<App>) {
        for (part, (sender, joined)) in PARTS.into_iter().zip(self.0) {
            let (stop, of) = (app.group.token(), Arc::clone(app));
            app.group.spawn("live", async move {
                let rendering = keep_rendering(&of, part, &sender, &joined);
                stop.run_until_cancelled(rendering).await;
            });
        }
    }
}

async fn keep_rendering(
    app: &App,
    part: Part,
    sender: &watch::Sender<Bytes>,
    joined: &Notify,
) -> Infallible {
    loop {
        joined.notified().await;
        // One receiver is that of the node itself.
        while sender.receiver_count() > 1 {
            match part.html(app).await {
                Ok(html) => {
                    let message = message(&html);
                    sender.send_if_modified(|last| {
                        let is_new = *last != message;
                        *last = message;
                        is_new
                    });
                }
                Err(error) => error.log(),
            }
            sleep(EVERY).await;
        }
        // The next viewer must not see an old part.
        sender.send_replace(Bytes::new());
    }
}

/// A text as an event of the stream. A carriage return ends a line there, too.
fn message(html: &str) -> Bytes {
    let lines = html.split(['\n', '\r']).filter(|line| !line.is_empty());
    let lines = lines.map(|line| format!("data: {line}\n"));
    Bytes::from(lines.chain(["\n".to_owned()]).collect::<String>())
}

/// The stream of one part.
pub(crate) fn events(cx: &RequestContext<'_>) -> HttpResult {
    let part = Part::named(cx.params()[0]).ok_or(WebError::NoSuchPage)?;
    let permit = cx.permit(Class::Live)?;
    let follower = Follower {
        latest: cx.app.live.follow(part),
        until: Instant::now() + LASTS,
        has_begun: false,
    };
    let events = stream::unfold(follower, |mut follower| async {
        let next = follower.next().await?;
        Some((Ok::<_, io::Error>(next), follower))
    });
    let events = events.take_until(Box::pin(private::revoked(cx)));
    let mut response = respond::typed(StatusCode::OK, "text/event-stream", Body::stream(events))
        .with(header::CACHE_CONTROL, "no-store")
        .with(HeaderName::from_static("x-accel-buffering"), "no");
    response.body_mut().hold(permit);
    Ok(response)
}

struct Follower {
    latest: watch::Receiver<Bytes>,
    until: Instant,
    has_begun: bool,
}

impl Follower {
    /// What is sent next; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        if !std::mem::replace(&mut self.has_begun, true) {
            // How long a browser waits before it comes back.
            return Some(Bytes::from_static(b"retry: 5000\n\n"));
        }
        loop {
            let quiet = (Instant::now() + KEEP_ALIVE).min(self.until);
            match timeout_at(quiet, self.latest.changed()).await {
                Ok(Ok(())) => {
                    let latest = self.latest.borrow_and_update().clone();
                    if !latest.is_empty() {
                        return Some(latest);
                    }
                }
                // The node stops.
                Ok(Err(_)) => return None,
                Err(_) if Instant::now() >= self.until => return None,
                Err(_) => return Some(Bytes::from_static(b":\n\n")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follower(latest: watch::Receiver<Bytes>) -> Follower {
        Follower {
            latest,
            until: Instant::now() + LASTS,
            has_begun: true,
        }
    }

    #[test]
    fn lines_of_a_part_stay_one_message() {
        assert_eq!(message("<p>\na</p>\n"), "data: <p>\ndata: a</p>\n\n");
        // A line of somebody's text cannot begin a field of its own.
        assert_eq!(message("x\rid: 1\r\n"), "data: x\ndata: id: 1\n\n");
    }

    #[tokio::test(start_paused = true)]
    async fn who_comes_late_gets_the_latest_and_who_waits_a_sign_of_life() {
        let (parts, Renderers([(sender, _), ..])) = LiveParts::new();
        sender.send_replace(message("old"));
        sender.send_replace(message("new"));
        let mut follower = follower(parts.follow(Part::Home));
        assert_eq!(follower.next().await.unwrap(), "data: new\n\n");
        assert_eq!(follower.next().await.unwrap(), ":\n\n");
        drop(sender);
        assert_eq!(follower.next().await, None, "the node stops");
    }

    #[tokio::test(start_paused = true)]
    async fn no_stream_lasts_for_ever() {
        let (parts, _renderers) = LiveParts::new();
        let mut follower = follower(parts.follow(Part::Sync));
        let mut signs = 0;
        while follower.next().await.is_some() {
            signs += 1;
        }
        assert_eq!(signs, LASTS.as_secs() / KEEP_ALIVE.as_secs() - 1);
    }
}
