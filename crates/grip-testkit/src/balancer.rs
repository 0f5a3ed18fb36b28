//! TCP balancer in front of servers: each connection goes to the next of them, byte by byte.
//!
//! It can be blocked as a cable that is cut: nothing gets through, and nobody is told.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use anyhow::{Result, ensure};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinSet,
};

/// Bytes that are passed on at once.
const PIECE: usize = 64 << 10;

/// A balancer that ends when dropped, with all connections.
#[derive(Debug)]
pub struct Balancer {
    address: SocketAddr,
    blocked: Arc<watch::Sender<bool>>,
    _serving: JoinSet<()>,
}

impl Balancer {
    /// Listens on a free loopback port for what `servers` answer in turn.
    pub async fn start(servers: Vec<SocketAddr>) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        Self::serve(listener, servers)
    }

    /// The same on a listener of the caller's.
    pub fn serve(listener: TcpListener, servers: Vec<SocketAddr>) -> Result<Self> {
        ensure!(!servers.is_empty(), "a balancer needs servers");
        let address = listener.local_addr()?;
        let blocked = Arc::new(watch::Sender::new(false));
        let passing = Arc::clone(&blocked);
        let accept = async move {
            let mut connections = JoinSet::new();
            for server in servers.iter().cycle() {
                if let Ok((client, _)) = listener.accept().await {
                    connections.spawn(pass(client, *server, Arc::clone(&passing)));
                }
                while connections.try_join_next().is_some() {}
            }
        };
        let mut serving = JoinSet::new();
        serving.spawn(accept);
        Ok(Self {
            address,
            blocked,
            _serving: serving,
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets nothing through from now on; connections stay open.
    pub fn block(&self) {
        self.blocked.send_replace(true);
    }

    /// Lets everything through again.
    pub fn unblock(&self) {
        self.blocked.send_replace(false);
    }
}

/// Passes bytes both ways until both ends have closed, or one of them broke.
async fn pass(client: TcpStream, server: SocketAddr, blocked: Arc<watch::Sender<bool>>) {
    let passed = async {
        open(&blocked).await;
        let server = TcpStream::connect(server).await?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        tokio::try_join!(
            copy(from_client, to_server, &blocked),
            copy(from_server, to_client, &blocked)
        )
    };
    // Whoever broke the connection knows why.
    let _: io::Result<((), ())> = passed.await;
}

async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    blocked: &watch::Sender<bool>,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        let read = from.read(&mut piece).await?;
        open(blocked).await;
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&piece[..read]).await?;
    }
}

/// Waits until the balancer lets something through.
async fn open(blocked: &watch::Sender<bool>) {
    // The sender outlives this.
    let _ = blocked.subscribe().wait_for(|blocked| !blocked).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{until_ok, within};

    async fn named(name: &'static [u8]) -> Result<(SocketAddr, JoinSet<()>)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = stream.write_all(name).await;
            }
        });
        Ok((address, serving))
    }

    async fn asked(balancer: &Balancer) -> Result<String> {
        let mut stream = TcpStream::connect(balancer.address()).await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok(text)
    }

    #[tokio::test]
    async fn connections_go_to_one_server_after_the_other() -> Result<()> {
        let ((a, _a), (b, _b)) = (named(b"a").await?, named(b"b").await?);
        let balancer = Balancer::start(vec![a, b]).await?;
        let mut all = String::new();
        for _ in 0..4 {
            all += &within("an answer", asked(&balancer)).await??;
        }
        assert_eq!(all, "abab");
        balancer.block();
        let mut stream = TcpStream::connect(balancer.address()).await?;
        let mut byte = [0];
        assert!(stream.try_read(&mut byte).is_err(), "nothing gets through");
        balancer.unblock();
        until_ok("it gets through", async || {
            Ok((stream.read(&mut byte).await? == 1).then_some(()))
        })
        .await
    }
}
