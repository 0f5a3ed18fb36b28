//! The settings of sync.

use std::time::Duration;

use super::Resolver;
use crate::config::{
    parse,
    settings::{Sync, Wanted},
};

impl Resolver<'_> {
    pub(super) fn sync(&self) -> Sync {
        let host_limits = self.optional("sync_host_limits", parse::host_limits);
        Sync {
            enabled: self.get("sync_enabled", parse::boolean),
            concurrent: self.count("sync_domain_concurrent"),
            per_minute: self.count("sync_domain_rate_limit"),
            host_limits: host_limits.unwrap_or_default(),
            submitted_delay: Duration::from_secs(self.count("sync_default_delay_secs")),
            synced_delay: Duration::from_millis(self.count("sync_immediate_delay_ms")),
            loop_interval: Duration::from_millis(self.count("sync_loop_interval_ms")),
            tasks: self.count("sync_max_tasks"),
            pack_bytes: self.get("sync_max_pack_bytes", parse::bytes),
            min_free_bytes: self.get("sync_min_free_bytes", parse::bytes),
            connect: self.get("sync_connect_timeout", parse::duration),
            idle: self.get("sync_idle_timeout", parse::duration),
            total: self.get("sync_total_timeout", parse::duration),
            schemes: self.get("sync_schemes", parse::schemes),
            allow_non_global: self.get("sync_allow_non_global_targets", parse::boolean),
            wanted: Wanted {
                max: self.count("wanted_max"),
                lifetime: self.get("wanted_lifetime", parse::duration),
                interval: self.get("wanted_interval", parse::duration),
            },
            redis_url: self.optional("redis_url", parse::redis_url),
            redis_fallback_percent: self.count("redis_fallback_percent"),
        }
    }
}
