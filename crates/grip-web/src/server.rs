//! The accept loop and its graceful shutdown.

mod activity;
mod connection;
mod stream;
mod watched;

use std::{
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use grip_tasks::TaskGroup;
use http::{Request, Response};
use hyper::body::Incoming;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(crate) use self::{activity::Verdict, connection::Connection, stream::Handed};
use crate::{
    Readiness, Web,
    app::App,
    body::Body,
    client::is_trusted,
    limits::{Full, Limits},
    settings::WebSettings,
};

/// How long to wait after the system could not give us a connection (out of descriptors, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

const KEEPALIVE: Duration = Duration::from_secs(60);

/// Serves HTTP on `listener` until `group` is told to stop, and then until the last request and
/// the last WebSocket is done.
///
/// While it drains, probes are answered on new connections, everything else with 503. Spawn it in
/// `group`, whose shutdown cuts what takes too long.
pub async fn serve(listener: TcpListener, web: Web, group: &TaskGroup) {
    serve_to_the_end(listener, web, group, group).await;
}

/// Like [`serve`], but probes are answered until `last` is told to stop as well, so that a node
/// can be watched for as long as its other parts take to end. Spawn it in `last`.
pub async fn serve_to_the_end(
    listener: TcpListener,
    web: Web,
    group: &TaskGroup,
    last: &TaskGroup,
) {
    accept(listener, App::new(web, group.clone()), group, last).await;
}

/// Takes connections for `app` until `group` is told to stop, and answers probes until `last` is.
pub(crate) async fn accept<A: Application>(
    listener: TcpListener,
    app: Arc<A>,
    group: &TaskGroup,
    last: &TaskGroup,
) {
    let server = Server {
        app,
        group: group.clone(),
        last: last.clone(),
        at_work: TaskTracker::new(),
        drained: CancellationToken::new(),
    };
    let stop = group.token();
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        server.take(accepted).await;
    }
    server.app.readiness().drain();
    server.at_work.close();
    let end = last.token();
    let drained = async {
        server.at_work.wait().await;
        end.cancelled().await;
    };
    tokio::pin!(drained);
    loop {
        tokio::select! {
            () = &mut drained => break,
            accepted = listener.accept() => server.take(accepted).await,
        }
    }
    server.drained.cancel();
}

/// What stands behind the connections: it answers their requests.
pub(crate) trait Application: Send + Sync + 'static {
    fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
        connection: Arc<Connection>,
    ) -> impl Future<Output = Response<Body>> + Send;

    fn settings(&self) -> Arc<WebSettings>;

    fn limits(&self) -> &Limits;

    fn readiness(&self) -> &Readiness;

    /// Owns the tasks of HTTP/2 streams.
    fn group(&self) -> &TaskGroup;

    /// Whether intake has stopped.
    fn is_draining(&self) -> bool {
        self.group().token().is_cancelled() || self.readiness().is_draining()
    }

    /// A connection found all permits taken, or the node on its way down.
    fn refused_connection(&self, _full: Option<Full>) {}

    fn cut_connection(&self, _verdict: Verdict) {}

    fn cut_stream(&self) {}
}

struct Server<A> {
    app: Arc<A>,
    group: TaskGroup,
    /// Owns the connections in reserve.
    last: TaskGroup,
    /// Every connection that may do work, WebSockets included.
    at_work: TaskTracker,
    /// Probes are answered until this is cancelled, longer than anything else.
    drained: CancellationToken,
}

impl<A: Application> Server<A> {
    async fn take(&self, accepted: io::Result<(TcpStream, SocketAddr)>) {
        match accepted {
            Ok((stream, peer)) => self.open(stream, peer),
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::error!(%error, "failed to accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }

    fn open(&self, stream: TcpStream, peer: SocketAddr) {
        tune(&stream);
        let settings = self.app.settings();
        let ip = peer.ip().to_canonical();
        let counted = (!is_trusted(ip, &settings.trusted_proxies)).then_some(ip);
        let permit = self.app.limits().connection(counted, &settings.limits);
        let connection = match permit {
            Ok(permit) if !self.app.is_draining() => {
                let mark = self.at_work.token();
                Connection::ordinary(peer, counted.is_none(), permit, mark)
            }
            Ok(_) => return self.open_in_reserve(stream, peer, counted, None),
            Err(full) => return self.open_in_reserve(stream, peer, counted, Some(full)),
        };
        let stop = self.group.token();
        let serving = self.serving(stream, connection, stop);
        self.group.spawn("connection", serving);
    }

    /// Answers what must always be answered, and tells everyone else why not.
    fn open_in_reserve(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        counted: Option<IpAddr>,
        full: Option<Full>,
    ) {
        self.app.refused_connection(full);
        let bounds = &self.app.settings().limits;
        let Some(permit) = self.app.limits().reserve(counted, bounds) else {
            return;
        };
        let connection = Connection::refused(peer, full, permit);
        let serving = self.serving(stream, connection, self.drained.clone());
        self.last.spawn("reserve", serving);
    }

    /// The work of one connection. Boxed: wrapping moves a future, and its size would count
    /// three times.
    fn serving(
        &self,
        stream: TcpStream,
        connection: Connection,
        stop: CancellationToken,
    ) -> Pin<Box<impl Future<Output = ()> + Send + use<A>>> {
        let app = Arc::clone(&self.app);
        Box::pin(connection::serve(app, stream, Arc::new(connection), stop))
    }
}

/// Small answers leave at once (without this a query waits 40 ms for an acknowledgement), and a
/// peer that vanished is noticed.
fn tune(stream: &TcpStream) {
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE)
        .with_interval(KEEPALIVE / 4);
    let socket = SockRef::from(stream);
    let tuned = stream
        .set_nodelay(true)
        .and_then(|()| socket.set_tcp_keepalive(&keepalive));
    if let Err(error) = tuned {
        tracing::debug!(%error, "failed to set socket options");
    }
}

/// Whether the error is of a client that left before it was accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}
