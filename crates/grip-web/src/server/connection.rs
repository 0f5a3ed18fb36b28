//! One connection from its first byte to its last.

use std::{
    convert::Infallible, future::pending, net::SocketAddr, pin::pin, sync::Arc, time::Duration,
};

use hyper::service::service_fn;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::{net::TcpStream, sync::Notify, time::Instant};
use tokio_util::{sync::CancellationToken, task::task_tracker::TaskTrackerToken};

use super::{
    Application,
    activity::{Activity, Verdict},
    stream,
    watched::Watched,
};
use crate::{
    error::WebError,
    limits::{ConnectionPermit, Full},
    settings::Timeouts,
};

/// What is known of a connection when its requests are handled.
pub(crate) struct Connection {
    pub(crate) peer: SocketAddr,
    /// The peer is a proxy of the operator's: its clients are counted, not itself.
    pub(crate) is_proxy: bool,
    pub(crate) activity: Arc<Activity>,
    status: Status,
}

enum Status {
    Ordinary {
        _permit: ConnectionPermit,
        _mark: TaskTrackerToken,
    },
    /// Only probes are answered, and only until the first answer: others wait for the permit.
    Refused {
        full: Option<Full>,
        responded: Notify,
        until: Instant,
        _permit: ConnectionPermit,
    },
}

/// How long a connection in reserve is served at most, however it is spent.
const REFUSED_FOR: Duration = Duration::from_secs(5);

impl Connection {
    pub(super) fn ordinary(
        peer: SocketAddr,
        is_proxy: bool,
        permit: ConnectionPermit,
        mark: TaskTrackerToken,
    ) -> Self {
        let status = Status::Ordinary {
            _permit: permit,
            _mark: mark,
        };
        Self::new(peer, is_proxy, status)
    }

    pub(super) fn refused(peer: SocketAddr, full: Option<Full>, permit: ConnectionPermit) -> Self {
        let status = Status::Refused {
            full,
            responded: Notify::new(),
            until: Instant::now() + REFUSED_FOR,
            _permit: permit,
        };
        Self::new(peer, true, status)
    }

    fn new(peer: SocketAddr, is_proxy: bool, status: Status) -> Self {
        Self {
            peer,
            is_proxy,
            activity: Activity::begin(),
            status,
        }
    }

    /// Why nothing but probes is answered here, if so.
    pub(crate) fn refusal(&self) -> Option<WebError> {
        match &self.status {
            Status::Ordinary { .. } => None,
            Status::Refused { full, .. } => Some(match full {
                Some(_) => WebError::TooManyConnections,
                None => WebError::Draining,
            }),
        }
    }

    /// Notes that a response is on its way.
    pub(crate) fn responds(&self) {
        if let Status::Refused { responded, .. } = &self.status {
            responded.notify_one();
        }
    }

    /// Waits until no further request is wanted; for ever on an ordinary connection.
    async fn is_spent(&self) {
        match &self.status {
            Status::Ordinary { .. } => pending().await,
            Status::Refused { responded, .. } => responded.notified().await,
        }
    }

    fn check(&self, timeouts: &Timeouts) -> Verdict {
        match (&self.status, self.activity.check(timeouts)) {
            (Status::Refused { until, .. }, Verdict::LookAt(_)) if *until <= Instant::now() => {
                Verdict::Spent
            }
            (Status::Refused { until, .. }, Verdict::LookAt(then)) => {
                Verdict::LookAt(then.min(*until))
            }
            (_, verdict) => verdict,
        }
    }
}

/// How long after the stop a connection is still read: a request that was on its way meanwhile is
/// answered, if only with a refusal, and not cut off by a close that crossed it.
const LINGER: Duration = Duration::from_millis(200);

/// Serves HTTP/1 or HTTP/2 on `stream` until either side ends it.
///
/// An upgraded connection leaves here: its task keeps the [`Connection`] alive. After `stop`, and
/// a moment for what is on its way, the request under way is finished and no other begun. So it is
/// at once after the first answer where only probes are answered.
pub(super) async fn serve<A: Application>(
    app: Arc<A>,
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
    let mut look_at = Instant::now();
    loop {
        tokio::select! {
            ended = serving.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "connection ended early");
                }
                return;
            }
            () = connection.is_spent(), if !lingered => {
                (stopping, lingered) = (true, true);
                serving.as_mut().graceful_shutdown();
            }
            () = stop.cancelled(), if !stopping => {
                stopping = true;
                linger.as_mut().reset(Instant::now() + LINGER);
            }
            () = linger.as_mut(), if stopping && !lingered => {
                lingered = true;
                serving.as_mut().graceful_shutdown();
            }
            () = tokio::time::sleep_until(look_at) => {
                match connection.check(&app.settings().timeouts) {
                    Verdict::LookAt(then) => look_at = then,
                    verdict => {
                        tracing::debug!(?verdict, "closing connection");
                        app.cut_connection(verdict);
                        return;
                    }
                }
            }
        }
    }
}

fn builder<A: Application>(app: Arc<A>) -> auto::Builder<Owned<A>> {
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
struct Owned<A>(Arc<A>);

impl<A> Clone for Owned<A> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<A, F> hyper::rt::Executor<F> for Owned<A>
where
    A: Application,
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        let app = Arc::clone(&self.0);
        // Moved once: it is as large as the largest answer, and is wrapped several times.
        let future = Box::pin(future);
        self.0.group().spawn("http2", async move {
            let timeouts = app.settings().timeouts.clone();
            if stream::serve(future, timeouts).await.is_err() {
                tracing::debug!("resetting stream: its client takes nothing of the response");
                app.cut_stream();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;
    use crate::{limits::Limits, settings::WebLimits};

    #[tokio::test(start_paused = true)]
    async fn a_connection_of_the_reserve_is_kept_for_seconds_whatever_its_client_does() {
        let bounds = WebLimits::default();
        let permit = Limits::new(&bounds).reserve(None, &bounds).unwrap();
        let connection = Connection::refused(([203, 0, 113, 1], 1).into(), None, permit);
        let timeouts = Timeouts::default();
        let _busy = connection.activity.request();
        let Verdict::LookAt(then) = connection.check(&timeouts) else {
            panic!("it just began");
        };
        assert_eq!(then, Instant::now() + REFUSED_FOR);
        advance(REFUSED_FOR).await;
        assert_eq!(connection.check(&timeouts), Verdict::Spent);
    }
}
