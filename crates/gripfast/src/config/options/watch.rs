//! Push events of a GitHub host: lists, webhooks, retention, avatars.

use std::{path::PathBuf, time::Duration};

use crate::config::{
    kinds::{Percent, Secrets, WatchedLists},
    option::options,
};

options! {
    /// Push events of a GitHub host.
    Watch: "Watching GitHub" {
        /// Lists of events that are read again and again for pushes: `github.com/orgs/acme`,
        /// `github.com/users/bob`, `github.com/repos/acme/tides`, or `github.com/events` for all
        /// that is public. All of one host. A host alone reads no list: its webhooks tell of
        /// pushes.
        watch_github: WatchedLists, common,
            example("github.com/orgs/acme,github.com/repos/bob/tides");
        /// Secret of the webhooks that GitHub delivers to `/webhooks/github`; without one they are
        /// not taken. Several while one takes the place of another. Prefer
        /// `github_webhook_secret_file` or a systemd credential.
        github_webhook_secret: Secrets,
            derived("the systemd credential `github_webhook_secret`, where there is one");
        /// File that holds such secrets, one a line.
        github_webhook_secret_file: Option<PathBuf>, example("/etc/gripfast/webhook.secret");
        /// How often each list is read; less often where the host asks for that.
        watch_poll_interval: Duration = "60s";
        /// Ask for the person and the repository behind each push.
        watch_enrich: bool = "true";
        /// How long what is known of them counts as fresh; afterwards the next push asks again.
        watch_fresh_for: Duration = "1d";
        /// Share of the calls that the host allows which is left to new events: nothing is
        /// refreshed from it.
        watch_refresh_reserve_percent: Percent = "25";
        /// How long pushes are kept, counted from when they came; for ever where this is not set.
        watch_keep_events: Option<Duration>, example("90days");
        /// How long people and repositories are kept that no kept push names; for ever where this
        /// is not set.
        watch_keep_enriched: Option<Duration>, example("90days");
        /// How long events are kept that could not be read.
        watch_keep_rejected: Duration = "30days";
        /// How long holes in the events are remembered after they were filled.
        watch_keep_closed_gaps: Duration = "365days";
        /// How long holes are remembered that nobody has filled.
        watch_keep_open_gaps: Duration = "1825days";
        /// Keep the pictures of people who push.
        watch_avatars: bool = "true";
        /// Where they are kept: a directory, or `s3://bucket/prefix`, whose keys, region and
        /// endpoint come from the environment (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,
        /// `AWS_REGION`, `AWS_ENDPOINT_URL`).
        watch_avatars_store: Option<String>, derived("`avatars` in the data directory"),
            example("./data/avatars");
    }
}
