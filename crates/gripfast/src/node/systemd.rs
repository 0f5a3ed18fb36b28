//! Status notifications to systemd (`NOTIFY_SOCKET`).

use std::{
    os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixDatagram},
    },
    path::Path,
    time::Duration,
};

/// The service manager, where one listens.
#[derive(Debug)]
pub(crate) struct ServiceManager {
    to: Option<(UnixDatagram, SocketAddr)>,
    /// How often it wants to hear that we live; never where it does not watch.
    watchdog: Option<Duration>,
}

/// Reports within the time after which the manager gives a node up.
const REPORTS: u32 = 4;

impl ServiceManager {
    /// Reads its socket from the environment.
    pub(crate) fn from_env() -> Self {
        let variable = |name| std::env::var(name).unwrap_or_default();
        // Set for one process; a child that inherits it is not meant.
        let process = variable("WATCHDOG_PID");
        let is_meant = process.is_empty() || process == std::process::id().to_string();
        let microseconds = variable("WATCHDOG_USEC").parse().ok().filter(|_| is_meant);
        Self {
            to: Self::open(&variable("NOTIFY_SOCKET")),
            watchdog: microseconds.map(|time| Duration::from_micros(time) / REPORTS),
        }
    }

    /// Waits until it is time to report that we live.
    pub(crate) async fn report_due(&self) {
        match self.watchdog {
            Some(every) => tokio::time::sleep(every).await,
            None => std::future::pending().await,
        }
    }

    /// Says that the node lives.
    pub(crate) fn alive(&self) {
        self.send("WATCHDOG=1");
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
            watchdog: None,
        };
        let mut text = [0; 64];
        service_manager.ready("serving");
        let length = manager.recv(&mut text).unwrap();
        assert_eq!(&text[..length], b"READY=1\nSTATUS=serving");
        service_manager.alive();
        let length = manager.recv(&mut text).unwrap();
        assert_eq!(&text[..length], b"WATCHDOG=1");
    }

    #[test]
    fn without_a_manager_nothing_happens() {
        ServiceManager {
            to: ServiceManager::open(""),
            watchdog: None,
        }
        .ready("serving");
    }
}
