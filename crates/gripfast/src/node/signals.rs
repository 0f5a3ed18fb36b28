//! Signals of the operating system, and the action that each asks for.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals we act upon; installed once, before anything needs an orderly end.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

/// The action that a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignalAction {
    Stop { signal: &'static str },
    Reload,
}

impl Signals {
    pub(crate) fn install() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one. Cancel safe: a signal that came meanwhile is seen next time.
    pub(crate) async fn next(&mut self) -> SignalAction {
        tokio::select! {
            _ = self.terminate.recv() => SignalAction::Stop { signal: "SIGTERM" },
            _ = self.interrupt.recv() => SignalAction::Stop { signal: "SIGINT" },
            _ = self.hangup.recv() => SignalAction::Reload,
        }
    }

    /// Waits for one that asks to stop; while we start or stop, nothing else counts.
    pub(crate) async fn stop(&mut self) -> &'static str {
        loop {
            if let SignalAction::Stop { signal } = self.next().await {
                return signal;
            }
        }
    }
}
