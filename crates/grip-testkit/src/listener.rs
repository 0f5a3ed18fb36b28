//! Listener of the hosts that tests make up.

use std::{
    convert::Infallible,
    error::Error,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use anyhow::{Context as _, Result};
use hyper::{
    Request, Response,
    body::{Body, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, task::JoinSet};

/// Listens on a port of `address` that no node on 127.0.0.1 has or gets: this machine's addresses
/// with one port are one server to a node, and it never asks itself.
pub(crate) async fn bind(address: &str) -> Result<(TcpListener, Option<std::net::TcpListener>)> {
    let address: IpAddr = address.parse().context("an IP address")?;
    loop {
        let listener = TcpListener::bind((address, 0)).await?;
        if address == IpAddr::V4(Ipv4Addr::LOCALHOST) {
            return Ok((listener, None));
        }
        let same = (Ipv4Addr::LOCALHOST, listener.local_addr()?.port());
        if let Ok(reserved) = std::net::TcpListener::bind(same) {
            return Ok((listener, Some(reserved)));
        }
    }
}

/// Answers every request with what `respond` says; ends when dropped, with all connections.
pub(crate) fn serve<S, F, B>(
    listener: TcpListener,
    shared: Arc<S>,
    respond: fn(Request<Incoming>, Arc<S>) -> F,
) -> JoinSet<()>
where
    S: Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    let accept = async move {
        let mut connections = JoinSet::new();
        loop {
            if let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&shared);
                connections.spawn(async move {
                    let service = service_fn(|request| {
                        let response = respond(request, Arc::clone(&shared));
                        async { Ok::<_, Infallible>(response.await) }
                    });
                    let io = TokioIo::new(stream);
                    // A client that goes away is no concern of the host's.
                    let _ = http1::Builder::new().serve_connection(io, service).await;
                });
            }
            while connections.try_join_next().is_some() {}
        }
    };
    let mut serving = JoinSet::new();
    serving.spawn(accept);
    serving
}
