//! Hosts that the tests play: well-behaved ones on hyper, others byte by byte.

use std::{
    convert::Infallible,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use grip_tasks::TaskGroup;
use http::{HeaderMap, Method, Response, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use url::Url;

/// One request as a host saw it.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// A listening host; it goes on until the test's runtime ends.
pub(super) struct Host {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

pub(super) const PUBLIC: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));
pub(super) const OTHER_PUBLIC: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 3));
/// Taken for public, and nobody listens there.
pub(super) const DEAD: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 4));
pub(super) const PRIVATE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// An answer of a well-behaved host.
pub(super) type Answer = Response<Full<Bytes>>;

pub(super) fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut answer = Response::builder().status(status);
    for (name, value) in headers {
        answer = answer.header(*name, *value);
    }
    answer.body(Full::from(body.to_owned())).unwrap()
}

pub(super) fn fine(body: &str) -> Answer {
    answer(200, &[], body)
}

pub(super) fn moved(to: &str) -> Answer {
    answer(302, &[("location", to)], "")
}

impl Host {
    /// A host that answers every request by `rule`.
    pub async fn on(ip: IpAddr, rule: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Self {
        Self::over(bind(ip, 0).await.unwrap(), rule)
    }

    /// A host that sends everybody to `place`.
    pub async fn moving(ip: IpAddr, place: impl ToString) -> Self {
        let moved = moved(&place.to_string());
        Self::on(ip, move |_| moved.clone()).await
    }

    /// A public host that answers every request so.
    pub async fn answering(status: u16, headers: &[(&str, &str)], body: &str) -> Self {
        let answer = answer(status, headers, body);
        Self::on(PUBLIC, move |_| answer.clone()).await
    }

    /// A host inside and one outside that share a port.
    pub async fn pair(
        inside: impl Fn(&Seen) -> Answer + Send + Sync + 'static,
        outside: impl Fn(&Seen) -> Answer + Send + Sync + 'static,
    ) -> (Self, Self) {
        loop {
            let free = bind(PRIVATE, 0).await.unwrap();
            let port = free.local_addr().unwrap().port();
            // Another test may have this port.
            if let Ok(same) = bind(PUBLIC, port).await {
                return (Self::over(free, inside), Self::over(same, outside));
            }
        }
    }

    fn over(listener: TcpListener, rule: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Self {
        let rule = Arc::new(rule);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        Self::accept(listener, seen, move |stream| {
            let (rule, log) = (Arc::clone(&rule), Arc::clone(&log));
            async move {
                let service = service_fn(move |request: http::Request<Incoming>| {
                    let (rule, log) = (Arc::clone(&rule), Arc::clone(&log));
                    async move {
                        let (parts, body) = request.into_parts();
                        let seen = Seen {
                            method: parts.method,
                            uri: parts.uri,
                            headers: parts.headers,
                            body: body.collect().await.unwrap().to_bytes(),
                        };
                        log.lock().push(seen.clone());
                        Ok::<_, Infallible>(rule(&seen))
                    }
                });
                let io = TokioIo::new(stream);
                // A client that goes away is no failure of the host.
                let _ = http1::Builder::new().serve_connection(io, service).await;
            }
        })
    }

    /// A host that reads the head of a request and then does what `script` does with the
    /// connection.
    pub async fn scripted<F>(script: impl Fn(TcpStream) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let script = Arc::new(script);
        let listener = bind(PUBLIC, 0).await.unwrap();
        Self::accept(listener, Arc::default(), move |mut stream| {
            let script = Arc::clone(&script);
            async move {
                read_head(&mut stream).await;
                script(stream).await;
            }
        })
    }

    /// A host that answers with `bytes`, whatever they mean, and closes.
    pub async fn writing(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self::scripted(move |mut stream| {
            let bytes = bytes.clone();
            async move {
                let _ = stream.write_all(&bytes).await;
                let _ = stream.shutdown().await;
            }
        })
        .await
    }

    /// A host that answers with `bytes` and is silent from then on.
    pub async fn hanging_after(bytes: &'static str) -> Self {
        Self::scripted(move |mut stream| async move {
            stream.write_all(bytes.as_bytes()).await.unwrap();
            // Ends when the client gives up.
            let _ = stream.read_to_end(&mut Vec::new()).await;
        })
        .await
    }

    fn accept<F>(
        listener: TcpListener,
        seen: Arc<Mutex<Vec<Seen>>>,
        serve: impl Fn(TcpStream) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        let group = TaskGroup::new("test-host");
        let tasks = group.clone();
        group.spawn("accept", async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                tasks.spawn("serve", serve(stream));
            }
        });
        Self {
            address,
            connections,
            seen,
        }
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// The requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().clone()
    }

    /// A URL by the host's address.
    pub fn url(&self, path: &str) -> Url {
        Url::parse(&format!("http://{}{path}", self.address)).unwrap()
    }

    /// A URL by a name, at the host's port.
    pub fn named(&self, name: &str, path: &str) -> Url {
        let port = self.address.port();
        Url::parse(&format!("http://{name}:{port}{path}")).unwrap()
    }
}

async fn bind(ip: IpAddr, port: u16) -> std::io::Result<TcpListener> {
    TcpListener::bind(SocketAddr::new(ip, port)).await
}

async fn read_head(stream: &mut TcpStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
}
