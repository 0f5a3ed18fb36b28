//! Logging and metrics.

use crate::config::{
    kinds::{Any, LogFilter, LogFormat},
    option::options,
};

options! {
    /// Logging and metrics.
    Logs: "Logs and metrics" {
        /// How much is logged: `error`, `warn`, `info`, `debug`, `trace`, or directives such as
        /// `info,grip_git=debug`.
        log_level: LogFilter = "info", ngit, live, common;
        /// Log lines for people (`text`) or for programs (`json`).
        log_format: LogFormat = "text";
        /// Serve `/metrics`.
        metrics_enabled: bool = "true", ngit, live;
    }
    no effect yet {
        /// How many repositories have bandwidth series of their own.
        metrics_top_n_repos: Any = "10", ngit;
        /// Connections from one address from which the metrics count it as suspicious.
        metrics_connection_per_ip_abuse_threshold: Any = "10", ngit;
    }
}
