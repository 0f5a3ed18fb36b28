//! Requests on their way to the leader, and its responses on their way back.

use std::{
    future::poll_fn,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Version, header};
use http_body::{Body as _, Frame, SizeHint};
use hyper::{body::Incoming, client::conn::http1, upgrade::OnUpgrade};
use hyper_util::rt::TokioIo;
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::copy_bidirectional,
    net::TcpStream,
    sync::watch,
    time::{Instant, sleep, timeout},
};

use super::{Follower, Kept};
use crate::{body::Body, client::Client, error::WebError, request_context::HttpResult};

/// How long a leader is looked for: as long as it takes until another one leads.
const FIND_TIMEOUT: Duration = Duration::from_secs(20);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// After so long a silence the leader's machine is asked whether it is there.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// How long a request may stand still: longer than a leader takes for anything without a word.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);
/// How soon a leader that does not answer is tried again.
const RETRY_DELAY: Duration = Duration::from_millis(200);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Headers that are of one connection alone (RFC 9110, 7.6.1).
const OF_CONNECTION: [HeaderName; 6] = [
    header::CONNECTION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];

impl Follower {
    /// Has the leader answer a request. Sent once: only until it is connected to, the leader is looked
    /// for again and again.
    pub(super) async fn forward<B>(
        &self,
        mut head: http::request::Parts,
        body: B,
        client: Client,
        kept: Kept,
    ) -> HttpResult
    where
        B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
    {
        let upgrade = upgraded(&head.headers).then(|| head.extensions.remove::<OnUpgrade>());
        let upgrade = upgrade.flatten();
        let (stream, leader) = self.connect().await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(unanswered)?;
        self.group.spawn("forward", async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "connection to the leader ended early");
            }
        });
        let progress = Progress::default();
        let body = Sent {
            body,
            progress: progress.clone(),
        };
        let request = for_leader(head, body, client, upgrade.is_some())?;
        let mut given_up = Box::pin(self.given_up(leader, progress.clone()));
        let mut response = tokio::select! {
            response = sender.send_request(request) => response.map_err(unanswered)?,
            why = &mut given_up => return Err(unanswered(why)),
        };
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let of_leader = hyper::upgrade::on(&mut response);
            self.join(upgrade, of_leader, leader, kept);
            return Ok(response.map(|_| Body::empty()));
        }
        for name in &OF_CONNECTION {
            response.headers_mut().remove(name);
        }
        // It lives as long as the response is read.
        Ok(response.map(|body| {
            let mut body = streamed(body, progress, given_up);
            body.hold(sender);
            body.hold(kept);
            body
        }))
    }

    /// Connects to who leads now, or soon.
    async fn connect(&self) -> Result<(TcpStream, SocketAddr), WebError> {
        let until = Instant::now() + FIND_TIMEOUT;
        loop {
            let leader = *self.replica.leader.borrow();
            if let Some(leader) = leader
                && let Some(stream) = connect_to(leader).await
            {
                return Ok((stream, leader));
            }
            if Instant::now() + RETRY_DELAY > until || self.group.token().is_cancelled() {
                return Err(WebError::NoLeader);
            }
            sleep(RETRY_DELAY).await;
        }
    }

    /// Waits until nothing is to be expected of a leader any more, and says why.
    fn given_up(
        &self,
        leader: SocketAddr,
        progress: Progress,
    ) -> impl Future<Output = io::Error> + Send + use<> {
        let replaced = replaced(self.replica.leader.clone(), leader);
        async move {
            let why = tokio::select! {
                () = replaced => "another node leads",
                () = progress.stalled() => "nothing came or went for too long",
            };
            io::Error::new(io::ErrorKind::TimedOut, why)
        }
    }

    /// Passes bytes between a client and the leader, once both have left HTTP, until another one leads.
    fn join(
        &self,
        of_client: Option<OnUpgrade>,
        of_leader: OnUpgrade,
        leader: SocketAddr,
        kept: Kept,
    ) {
        let Some(of_client) = of_client else {
            return;
        };
        let stop = self.group.token();
        let replaced = replaced(self.replica.leader.clone(), leader);
        self.group.spawn("forward", async move {
            let _kept = kept;
            let joined = async {
                let client = of_client.await.map_err(io::Error::other)?;
                let leader = of_leader.await.map_err(io::Error::other)?;
                let (mut client, mut leader) = (TokioIo::new(client), TokioIo::new(leader));
                tokio::select! {
                    joined = copy_bidirectional(&mut client, &mut leader) => joined.map(drop),
                    () = replaced => Ok(()),
                }
            };
            if let Some(Err(error)) = stop.run_until_cancelled(joined).await {
                tracing::debug!(%error, "forwarded connection ended early");
            }
        });
    }
}

/// The leader was connected to, and then did not answer: nobody knows what became of the request.
fn unanswered(error: impl std::fmt::Display) -> WebError {
    tracing::warn!(%error, "the leader did not answer a forwarded request");
    WebError::NoLeader
}

/// Waits until another node leads: one that is gone, or was paused, acknowledges nothing any more.
async fn replaced(mut known: watch::Receiver<Option<SocketAddr>>, leader: SocketAddr) {
    let other = known.wait_for(|known| known.is_some_and(|known| known != leader));
    if other.await.is_err() {
        // Nobody looks who leads: this node stops, and so do its connections.
        std::future::pending::<()>().await;
    }
}

async fn connect_to(leader: SocketAddr) -> Option<TcpStream> {
    let connecting = timeout(CONNECT_TIMEOUT, TcpStream::connect(leader));
    let stream = connecting.await.ok()?.ok()?;
    tune(&stream).ok()?;
    Some(stream)
}

/// Has the system end an idle connection to a machine that is gone without a word. No timeout for bytes
/// under way is set: a leader that lets a push wait does not take them either.
fn tune(stream: &TcpStream) -> io::Result<()> {
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE)
        .with_interval(KEEPALIVE / 2);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)?;
    stream.set_nodelay(true)
}

/// Counts what passes between a client and the leader.
#[derive(Clone, Default)]
struct Progress(Arc<AtomicU64>);

impl Progress {
    fn note(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until nothing has passed for [`IDLE_TIMEOUT`], or a little longer.
    async fn stalled(self) {
        let mut before = None;
        loop {
            let now = self.0.load(Ordering::Relaxed);
            if before == Some(now) {
                return;
            }
            before = Some(now);
            sleep(IDLE_TIMEOUT).await;
        }
    }
}

/// The body of a request, counted as it leaves.
struct Sent<B> {
    body: B,
    progress: Progress,
}

impl<B: http_body::Body<Data = Bytes> + Unpin> http_body::Body for Sent<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        self.progress.note();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn upgraded(headers: &HeaderMap) -> bool {
    headers.contains_key(header::UPGRADE)
}

/// The request as the leader gets it: from us, for the client.
fn for_leader<B>(
    head: http::request::Parts,
    body: Sent<B>,
    client: Client,
    is_upgrade: bool,
) -> Result<Request<Sent<B>>, WebError> {
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let uri = path
        .parse()
        .map_err(|_| WebError::Malformed("its path cannot be read".to_owned()))?;
    let authority = head.uri.authority().map(|named| named.as_str().to_owned());
    let mut request = Request::new(body);
    *request.method_mut() = head.method;
    *request.uri_mut() = uri;
    *request.version_mut() = Version::HTTP_11;
    let mut headers = head.headers;
    let upgrade = headers.get(header::UPGRADE).cloned().filter(|_| is_upgrade);
    for name in &OF_CONNECTION {
        headers.remove(name);
    }
    if let Some(upgrade) = upgrade {
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, upgrade);
    }
    // HTTP/2 names the host in the request line.
    if !headers.contains_key(header::HOST)
        && let Some(host) = authority.and_then(|host| HeaderValue::from_str(&host).ok())
    {
        headers.insert(header::HOST, host);
    }
    headers.remove(FORWARDED_FOR);
    // The operator on this machine may be on the leader's, too; nobody else passes for him there.
    let is_local = client.exempt && client.ip.is_loopback();
    if !is_local && let Ok(ip) = HeaderValue::from_str(&client.ip.to_string()) {
        headers.insert(FORWARDED_FOR, ip);
    }
    *request.headers_mut() = headers;
    Ok(request)
}

/// The body of a response; it fails rather than end where the leader does not go on with it.
fn streamed(
    body: Incoming,
    progress: Progress,
    given_up: impl Future<Output = io::Error> + Send + Unpin + 'static,
) -> Body {
    let state = Some((body, given_up));
    let frames = stream::unfold(state, move |state| {
        let progress = progress.clone();
        async move {
            let (mut body, mut given_up) = state?;
            let next = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx));
            tokio::select! {
                frame = next => {
                    progress.note();
                    let frame = frame?.map_err(io::Error::other);
                    Some((frame, Some((body, given_up))))
                }
                why = &mut given_up => Some((Err(why), None)),
            }
        }
    });
    let data = frames.filter_map(|frame| async move {
        match frame {
            Ok(frame) => frame.into_data().ok().map(Ok),
            Err(error) => Some(Err(error)),
        }
    });
    Body::stream(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What takes long goes on as long as anything passes; what stands still ends.
    #[tokio::test(start_paused = true)]
    async fn a_request_is_given_up_once_nothing_passes() {
        let (progress, began) = (Progress::default(), Instant::now());
        let stalled = progress.clone().stalled();
        tokio::pin!(stalled);
        for _ in 0..5 {
            let pause = timeout(IDLE_TIMEOUT / 2, &mut stalled).await;
            assert!(pause.is_err(), "given up after {:?}", began.elapsed());
            progress.note();
        }
        stalled.await;
        assert!(began.elapsed() <= IDLE_TIMEOUT * 5);
    }

    #[tokio::test]
    async fn a_leader_is_given_up_once_another_one_leads() {
        let [first, second] = ["10.0.0.1:1", "10.0.0.2:1"].map(|at| at.parse().unwrap());
        let (leads, known) = watch::channel(Some(first));
        let mut waiting = polled(replaced(known, first));
        assert!(waiting.is_pending());
        leads.send_replace(None);
        assert!(waiting.is_pending(), "it may lead again");
        leads.send_replace(Some(second));
        assert!(!waiting.is_pending());
    }

    /// A future that is polled by hand.
    struct Polled<F>(Pin<Box<F>>);

    fn polled<F: Future<Output = ()>>(future: F) -> Polled<F> {
        Polled(Box::pin(future))
    }

    impl<F: Future<Output = ()>> Polled<F> {
        fn is_pending(&mut self) -> bool {
            let mut cx = Context::from_waker(std::task::Waker::noop());
            self.0.as_mut().poll(&mut cx).is_pending()
        }
    }
}
