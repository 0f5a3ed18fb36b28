//! Ports that stay with those who asked for them, also while nothing listens.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context as _, Result};
use tokio::net::TcpSocket;

/// A port on all addresses of this machine, from now until it is dropped.
///
/// A port that is only looked up may be another's by the time a server binds it, or while that server
/// is being restarted. This one is bound by a socket that never listens: the system gives it to nobody
/// who asks for any port and to no connection that leaves, and lets servers listen on it, since they all
/// set `SO_REUSEADDR`. Until one does, connections are refused.
#[derive(Debug)]
pub struct ReservedPort {
    number: u16,
    _socket: TcpSocket,
}

impl ReservedPort {
    pub fn new() -> Result<Self> {
        let socket = TcpSocket::new_v4().context("opening a socket")?;
        // Not set before it is bound, so that no reservation is given out twice.
        socket.set_reuseaddr(false)?;
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        socket.bind(any).context("no port is free")?;
        socket.set_reuseaddr(true)?;
        Ok(Self {
            number: socket.local_addr()?.port(),
            _socket: socket,
        })
    }

    pub fn number(&self) -> u16 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        io::ErrorKind,
        net::{TcpListener, TcpStream},
    };

    use super::*;

    /// With so many of some 28,000 ports reserved, dozens of those asked for would be among them if
    /// reservations did not count.
    const RESERVED: usize = 400;
    const ASKED: usize = 2_000;

    #[test]
    fn a_reserved_port_is_given_to_nobody_else() {
        let reserved: Vec<_> = (0..RESERVED)
            .map(|_| ReservedPort::new().unwrap())
            .collect();
        let numbers: BTreeSet<u16> = reserved.iter().map(ReservedPort::number).collect();
        assert_eq!(numbers.len(), RESERVED);
        for address in ["127.0.0.1:0", "127.0.0.9:0"] {
            for _ in 0..ASKED {
                let other = TcpListener::bind(address).unwrap();
                assert!(!numbers.contains(&other.local_addr().unwrap().port()));
            }
        }
    }

    #[test]
    fn a_server_listens_on_its_reserved_port_again_and_again() {
        let port = ReservedPort::new().unwrap();
        let address = (Ipv4Addr::LOCALHOST, port.number());
        for _ in 0..2 {
            let refused = TcpStream::connect(address).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
            let server = TcpListener::bind(address).unwrap();
            let client = TcpStream::connect(address).unwrap();
            let (accepted, _) = server.accept().unwrap();
            drop((accepted, client));
        }
    }
}
