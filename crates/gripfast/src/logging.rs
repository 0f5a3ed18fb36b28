//! Log lines on stderr, for people or for programs; the level can change while we run.

use std::io::IsTerminal as _;

use anyhow::Context as _;
use tracing_subscriber::{
    EnvFilter, Registry, layer::SubscriberExt as _, reload, util::SubscriberInitExt as _,
};

use crate::config::{LogFormat, Settings};

/// Changes the level of a running log.
#[derive(Clone, Debug)]
pub(crate) struct LogLevel(reload::Handle<EnvFilter, Registry>);

impl LogLevel {
    pub(crate) fn set(&self, level: &str) -> anyhow::Result<()> {
        self.0.reload(filter(level)?).context("the log is gone")
    }
}

/// Levels of targets that the setting does not name: changes by an operator are always logged. What
/// libraries say of single connections is no news to an operator: where it matters we say it
/// ourselves, in our words.
const TARGETS: [(&str, &str); 6] = [
    ("audit", "info"),
    ("libp2p", "error"),
    ("multistream_select", "error"),
    ("yamux", "error"),
    ("netlink", "error"),
    ("hickory", "error"),
];

fn filter(level: &str) -> anyhow::Result<EnvFilter> {
    let mut text = level.to_owned();
    for (target, target_level) in TARGETS.iter().filter(|(target, _)| !level.contains(target)) {
        text.push_str(&format!(",{target}={target_level}"));
    }
    Ok(EnvFilter::try_new(text)?)
}

/// Starts the log.
pub(crate) fn start(settings: &Settings) -> anyhow::Result<LogLevel> {
    let (filter, handle) = reload::Layer::new(filter(&settings.logs.log_level)?);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let registry = tracing_subscriber::registry().with(filter);
    match settings.logs.log_format {
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).try_init()?,
        LogFormat::Text => {
            let ansi = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            registry
                .with(lines.with_ansi(ansi).with_target(false))
                .try_init()?;
        }
    }
    Ok(LogLevel(handle))
}

#[cfg(test)]
mod tests {
    use grip_testkit::CapturedLog;
    use tracing::subscriber::with_default;

    use super::*;

    /// The words of all lines that are written at `level`.
    fn written(level: &str) -> String {
        let log = CapturedLog::default();
        let lines = tracing_subscriber::fmt::layer().with_writer(log.clone());
        let registry = tracing_subscriber::registry().with(filter(level).unwrap());
        with_default(registry.with(lines), || {
            tracing::info!("ours");
            tracing::info!(target: "audit", "of an operator");
            tracing::info!(target: "libp2p_swarm", "of a connection");
            tracing::warn!(target: "libp2p_kad::behaviour", "of a query");
            tracing::warn!(target: "yamux::connection", "of a stream");
            tracing::error!(target: "libp2p_tcp", "of a failure");
        });
        log.text()
    }

    #[test]
    fn libraries_say_nothing_of_single_connections_unless_they_are_named() {
        let usual = written("info");
        for line in ["ours", "of an operator", "of a failure"] {
            assert!(usual.contains(line), "{usual}");
        }
        for line in ["of a connection", "of a query", "of a stream"] {
            assert!(!usual.contains(line), "{usual}");
        }
        let named = written("info,libp2p_swarm=info");
        assert!(named.contains("of a connection"), "{named}");
        let quiet = written("error");
        assert!(
            quiet.contains("of an operator") && !quiet.contains("ours"),
            "{quiet}"
        );
    }
}
