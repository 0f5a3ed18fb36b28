//! Fetching of missing git data from other servers, and its limits.

use std::time::Duration;

use crate::config::{
    kinds::{
        Any, Bytes, HostLimit, List, Millis, Percent, Positive, RedisUrl, Schemes, Seconds, Small,
    },
    option::options,
};

options! {
    /// Fetching of missing git data.
    Sync: "Sync with other servers" {
        /// Fetch git data that events wait for from the other servers that announcements and pull
        /// requests name.
        sync_enabled: bool = "true", common;
        /// Requests in flight to one host.
        sync_domain_concurrent: Small = "5", ngit;
        /// Requests to one host in any minute, redirects included.
        sync_domain_rate_limit: Small = "30", ngit;
        /// Limits for single hosts in place of the two above: `host=concurrent/per-minute`, such as
        /// `github.com=10/60`.
        sync_host_limits: Vec<HostLimit>, example("github.com=10/60");
        /// How long the data of a submitted event is awaited before it is looked for elsewhere: its
        /// author is about to push.
        sync_default_delay_secs: Seconds<0, 86_400_000> = "180", ngit;
        /// The same for an event that came from another relay.
        sync_immediate_delay_ms: Millis<0, 86_400_000> = "500", ngit;
        /// Longest sleep near a due attempt, should the clock be set; no attempt waits for it.
        sync_loop_interval_ms: Millis<1, 60_000> = "1000", ngit;
        /// Most repositories whose data is fetched at once, over all hosts.
        sync_max_tasks: Positive = "64";
        /// Largest pack that is fetched.
        sync_max_pack_bytes: Bytes = "2 GiB";
        /// Nothing is fetched while less than this is free on the disk of the git directory.
        sync_min_free_bytes: Bytes = "256 MiB";
        /// How long a host may take to accept a connection.
        sync_connect_timeout: Duration = "10s";
        /// How long a host may send nothing, before its answer and in the middle of it.
        sync_idle_timeout: Duration = "30s";
        /// How long one fetch may take in all.
        sync_total_timeout: Duration = "15m";
        /// Kinds of clone URLs that are fetched from: `https` alone, or `http` as well.
        sync_schemes: Schemes = "https,http";
        /// Let sync reach private, loopback and other addresses that are not public. Anybody can
        /// announce a clone URL, so this lets strangers make the node ask hosts of your network.
        sync_allow_non_global_targets: bool = "false", ngit;
        /// Most states and pull requests whose data is still looked for after they expired; the
        /// oldest leaves for a new one.
        wanted_max: Any = "10000";
        /// How long their data is looked for.
        wanted_lifetime: Duration = "30days";
        /// Longest pause between two tries; GRASP-02 says an hour.
        wanted_interval: Duration = "1h";
        /// Redis through which several instances keep the limits of each host together, such as
        /// `redis://127.0.0.1/` or `rediss://user:password@host/`. Without one each instance counts
        /// for itself.
        redis_url: Option<RedisUrl>, example("redis://127.0.0.1/");
        /// Share of each host's limits that this instance uses while Redis is away. With n
        /// instances, 100/n keeps their sum within the limits.
        redis_fallback_percent: Percent = "25";
    }
    no effect yet {
        /// First relay to learn announcements from.
        sync_bootstrap_relay_url: Option<String>, ngit;
        /// First pause after a relay failed.
        sync_base_backoff_secs: Positive = "5", ngit;
        /// Longest pause after a relay failed.
        sync_max_backoff_secs: Positive = "3600", ngit;
        /// How often lost relays are looked at.
        sync_disconnect_check_interval_secs: Positive = "60", ngit;
        /// Learn history by REQ, not by NIP-77.
        sync_disable_negentropy: bool = "false", ngit;
        /// Keep events of users' own relays (GRASP-03).
        sync_plus_enabled: bool = "false", ngit;
        /// Relays to ask where a user has none.
        sync_plus_fallback_relays: List, ngit;
        /// Relays that know the relay lists of users.
        user_index_relays: List, ngit;
        /// How long a refused announcement is kept whole, to be judged again.
        rejected_hot_cache_duration_secs: Any = "120", ngit;
        /// How long a refused announcement is remembered, so as not to fetch it again.
        rejected_cold_index_expiry_secs: Any = "604800", ngit;
        /// How long a broken relay is left alone.
        naughty_list_expiration_hours: Any = "12", ngit;
    }
}
