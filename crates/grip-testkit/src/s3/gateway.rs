//! Gateway in front of an S3 server: puts its conditional writes in order, and misbehaves when told to.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Result;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use hyper::{
    Method, Request, Response, StatusCode, body::Incoming, client::conn::http1,
    header::IF_NONE_MATCH,
};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::{net::TcpStream, task::JoinSet};

use crate::{listener, remote::Gate};

type Body = UnsyncBoxBody<Bytes, hyper::Error>;

/// What happens to requests on their way, but for those of the check at the start of a node.
#[derive(Clone, Debug)]
pub enum S3Fault {
    /// Every request is answered with 503; the server gets none.
    Unavailable,
    /// Every write is made and answered with 500 all the same.
    AnswerLost,
    /// Of so many requests one is answered with 503, and the next write after it with 500 though it was
    /// made.
    Flaky { one_in: usize },
    /// Every request waits until the gate is open.
    Held(Gate),
    /// Every request is passed on so much later.
    Slow(Duration),
}

/// A gateway that ends when dropped.
#[derive(Debug)]
pub(super) struct Gateway {
    address: SocketAddr,
    shared: Arc<Shared>,
    _serving: JoinSet<()>,
}

#[derive(Debug)]
struct Shared {
    server_port: u16,
    fault: Mutex<Option<S3Fault>>,
    requests: Mutex<Vec<(Method, String)>>,
    /// Held by a conditional write until the server has answered it.
    writing: tokio::sync::Mutex<()>,
    /// Connections to the server.
    connections: Mutex<JoinSet<()>>,
}

/// What becomes of one request.
enum Fate {
    Passed,
    Refused,
    AnswerLost,
}

impl Gateway {
    /// Listens; passes requests on to a port of this machine.
    pub(super) async fn start(server_port: u16) -> Result<Self> {
        let (listener, _) = listener::bind("127.0.0.1").await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            server_port,
            fault: Mutex::default(),
            requests: Mutex::default(),
            writing: tokio::sync::Mutex::default(),
            connections: Mutex::default(),
        });
        Ok(Self {
            address,
            _serving: listener::serve(listener, Arc::clone(&shared), respond),
            shared,
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn fault(&self, fault: Option<S3Fault>) {
        *self.shared.fault.lock() = fault;
    }

    pub(super) fn requests(&self, method: &str) -> Vec<String> {
        let requests = self.shared.requests.lock();
        let of_method = requests.iter().filter(|(asked, _)| *asked == method);
        of_method.map(|(_, path)| path.clone()).collect()
    }
}

async fn respond(request: Request<Incoming>, shared: Arc<Shared>) -> Response<Body> {
    let is_write = request.method() != Method::GET && request.method() != Method::HEAD;
    let number = {
        let mut requests = shared.requests.lock();
        let path = request.uri().path().to_owned();
        requests.push((request.method().clone(), path));
        requests.len()
    };
    // A node that could not check its store would not start.
    let is_removal = request.uri().query() == Some("delete");
    let is_check = is_removal || request.uri().path().contains("/check/");
    let fate = if is_check {
        Fate::Passed
    } else {
        shared.fate(number, is_write).await
    };
    match fate {
        Fate::Passed => shared.pass(request).await,
        Fate::Refused => says(StatusCode::SERVICE_UNAVAILABLE),
        Fate::AnswerLost => {
            shared.pass(request).await;
            says(StatusCode::INTERNAL_SERVER_ERROR)
        }
    }
}

impl Shared {
    async fn fate(&self, number: usize, is_write: bool) -> Fate {
        let fault = self.fault.lock().clone();
        match fault {
            None => Fate::Passed,
            Some(S3Fault::Unavailable) => Fate::Refused,
            Some(S3Fault::AnswerLost) if is_write => Fate::AnswerLost,
            Some(S3Fault::AnswerLost) => Fate::Passed,
            Some(S3Fault::Flaky { one_in }) => match number % one_in {
                0 => Fate::Refused,
                1 if is_write => Fate::AnswerLost,
                _ => Fate::Passed,
            },
            Some(S3Fault::Held(gate)) => {
                gate.pass().await;
                Fate::Passed
            }
            Some(S3Fault::Slow(delay)) => {
                tokio::time::sleep(delay).await;
                Fate::Passed
            }
        }
    }

    /// The server's own answer.
    async fn pass(&self, request: Request<Incoming>) -> Response<Body> {
        let is_conditional = request.headers().contains_key(IF_NONE_MATCH);
        let _turn = if is_conditional {
            Some(self.writing.lock().await)
        } else {
            None
        };
        match self.ask(request).await {
            Ok(response) => response.map(BodyExt::boxed_unsync),
            Err(_) => says(StatusCode::BAD_GATEWAY),
        }
    }

    async fn ask(&self, request: Request<Incoming>) -> Result<Response<Incoming>> {
        let stream = TcpStream::connect(("127.0.0.1", self.server_port)).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        {
            let mut connections = self.connections.lock();
            while connections.try_join_next().is_some() {}
            connections.spawn(async move {
                // Whoever asked sees that the answer broke off.
                let _ = connection.await;
            });
        }
        Ok(sender.send_request(request).await?)
    }
}

/// An error as S3 says it.
fn says(status: StatusCode) -> Response<Body> {
    let text = "<Error><Code>InternalError</Code><Message>told to say so</Message></Error>";
    let body = Full::from(text).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = status;
    response
}
