//! One connection from its first byte to its last.

use std::{convert::Infallible, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use hyper::service::service_fn;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::{net::TcpStream, sync::OwnedSemaphorePermit};
use tokio_util::{sync::CancellationToken, task::task_tracker::TaskTrackerToken};

use super::{
    activity::{Activity, Verdict},
    stream,
    watched::Watched,
};
use crate::{
    admission::{Full, Place},
    app::App,
    error::WebError,
};

/// What is known of a connection when its requests are handled.
pub(crate) struct Connection {
    pub(crate) peer: SocketAddr,
    /// The peer is a proxy of the operator's: its clients are counted, not itself.
    pub(crate) is_proxy: bool,
    pub(crate) activity: Arc<Activity>,
    standing: Standing,
}

enum Standing {
    Ordinary {
        _place: Place,
        _mark: TaskTrackerToken,
    },
    /// Only probes are answered.
    Refused {
        full: Option<Full>,
        _permit: OwnedSemaphorePermit,
    },
}

impl Connection {
    pub(super) fn ordinary(
        peer: SocketAddr,
        is_proxy: bool,
        place: Place,
        mark: TaskTrackerToken,
    ) -> Self {
        let standing = Standing::Ordinary {
            _place: place,
            _mark: mark,
        };
        Self::new(peer, is_proxy, standing)
    }

    pub(super) fn refused(
        peer: SocketAddr,
        full: Option<Full>,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let standing = Standing::Refused {
            full,
            _permit: permit,
        };
        Self::new(peer, true, standing)
    }

    fn new(peer: SocketAddr, is_proxy: bool, standing: Standing) -> Self {
        Self {
            peer,
            is_proxy,
            activity: Activity::begin(),
            standing,
        }
    }

    /// Why nothing but probes is answered here, if so.
    pub(crate) fn refusal(&self) -> Option<WebError> {
        match &self.standing {
            Standing::Ordinary { .. } => None,
            Standing::Refused { full, .. } => Some(match full {
                Some(_) => WebError::TooManyConnections,
                None => WebError::Draining,
            }),
        }
    }
}

/// How long after the stop a connection is still read: a request that was on its way meanwhile is
/// answered, if only with a refusal, and not cut off by a close that crossed it.
const LINGER: Duration = Duration::from_millis(200);

/// Serves HTTP/1 or HTTP/2 on `stream` until either side ends it.
///
/// An upgraded connection leaves here: its task keeps the [`Connection`] alive. After `stop`, and
/// a moment for what is on its way, the request under way is finished and no other begun.
pub(super) async fn serve(
    app: Arc<App>,
    stream: TcpStream,
    connection: Arc<Connection>,
    stop: CancellationToken,
) {
    let io = TokioIo::new(Watched::new(stream, Arc::clone(&connection.activity)));
    let builder = builder(Arc::clone(&app));
    let service = {
        let (app, connection) = (Arc::clone(&app), Arc::clone(&connection));
        service_fn(move |request| {
            let (app, connection) = (Arc::clone(&app), Arc::clone(&connection));
            async move { Ok::<_, Infallible>(app.handle(request, connection).await) }
        })
    };
    let mut serving = pin!(builder.serve_connection_with_upgrades(io, service));
    let (mut stopping, mut lingered) = (false, false);
    let mut linger = pin!(tokio::time::sleep(LINGER));
    let mut look_at = tokio::time::Instant::now();
    loop {
        tokio::select! {
            ended = serving.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended early");
                }
                return;
            }
            () = stop.cancelled(), if !stopping => {
                stopping = true;
                linger.as_mut().reset(tokio::time::Instant::now() + LINGER);
            }
            () = linger.as_mut(), if stopping && !lingered => {
                lingered = true;
                serving.as_mut().graceful_shutdown();
            }
            () = tokio::time::sleep_until(look_at) => {
                match connection.activity.check(&app.settings().timeouts) {
                    Verdict::LookAt(then) => look_at = then,
                    verdict => {
                        tracing::debug!(?verdict, "a connection is cut");
                        app.metrics().cut_connection(verdict);
                        return;
                    }
                }
            }
        }
    }
}

fn builder(app: Arc<App>) -> auto::Builder<Owned> {
    let mut builder = auto::Builder::new(Owned(app));
    builder
        .http1()
        .timer(TokioTimer::new())
        // The watch of the connection times heads, so that a kept connection may rest longer
        // between requests than a head may take.
        .header_read_timeout(None)
        .max_buf_size(64 << 10);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(64)
        .max_header_list_size(32 << 10)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(20));
    builder
}

/// Runs the tasks of HTTP/2 streams as tasks of our group, each watched.
#[derive(Clone)]
struct Owned(Arc<App>);

impl<F> hyper::rt::Executor<F> for Owned
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        let app = Arc::clone(&self.0);
        // Moved once: it is as large as the largest answer, and is wrapped several times.
        let future = Box::pin(future);
        self.0.group().spawn("http2", async move {
            let stall = app.settings().timeouts.write_stall;
            if stream::serve(future, stall).await.is_err() {
                tracing::debug!("a stream is cut: its client takes nothing of the answer");
                app.metrics().cut_stream();
            }
        });
    }
}
