//! Status notifications to systemd (`NOTIFY_SOCKET`).

use std::{
    os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixDatagram},
    },
    path::Path,
};

/// The service manager, where one listens.
#[derive(Debug)]
pub(crate) struct ServiceManager {
    to: Option<(UnixDatagram, SocketAddr)>,
}

impl ServiceManager {
    /// Reads its socket from the environment.
    pub(crate) fn from_env() -> Self {
        let name = std::env::var("NOTIFY_SOCKET").unwrap_or_default();
        Self {
            to: Self::open(&name),
        }
    }

    fn open(name: &str) -> Option<(UnixDatagram, SocketAddr)> {
        let address = match name.strip_prefix('@') {
            Some(hidden) => SocketAddr::from_abstract_name(hidden),
            None if name.starts_with('/') => SocketAddr::from_pathname(Path::new(name)),
            None => return None,
        };
        Some((UnixDatagram::unbound().ok()?, address.ok()?))
    }

    pub(crate) fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    pub(crate) fn stopping(&self, status: &str) {
        self.send(&format!("STOPPING=1\nSTATUS={status}"));
    }

    pub(crate) fn status(&self, status: &str) {
        self.send(&format!("STATUS={status}"));
    }

    fn send(&self, text: &str) {
        if let Some((socket, address)) = &self.to
            && let Err(error) = socket.send_to_addr(text.as_bytes(), address)
        {
            tracing::debug!(%error, "failed to notify the service manager");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_is_notified_when_the_node_is_ready() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let service_manager = ServiceManager {
            to: ServiceManager::open(path.to_str().unwrap()),
        };
        service_manager.ready("serving");
        let mut text = [0; 64];
        let length = manager.recv(&mut text).unwrap();
        assert_eq!(&text[..length], b"READY=1\nSTATUS=serving");
    }

    #[test]
    fn without_a_manager_nothing_happens() {
        ServiceManager {
            to: ServiceManager::open(""),
        }
        .ready("serving");
    }
}
