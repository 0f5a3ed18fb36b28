//! The index of Go modules and the module proxy.

use std::{path::PathBuf, time::Duration};

use grip_index::hosted::Claim;

use crate::config::{
    kinds::{Bytes, Count, HostToken, IndexedOwner, Positive},
    option::options,
};

options! {
    /// Index of Go modules and module proxy.
    Index: "Index of Go modules" {
        /// Keep an index of the Go modules whose versions are tagged here and on GitHub hosts, and
        /// serve it at `/index`.
        index_enabled: bool = "true", common;
        /// Whose repositories on GitHub hosts are indexed: `github.com/orgs/acme`,
        /// `github.com/users/bob`, or `ghe.example.com` for all of a GitHub Enterprise.
        index_github: Vec<IndexedOwner>, example("github.com/orgs/acme,ghe.example.com");
        /// Tokens for the API of GitHub hosts; without one github.com answers 60 calls an hour. A
        /// token is for github.com, or for the host in front of it: `ghe.example.com=token`. Prefer
        /// `github_token_file` or a systemd credential.
        github_token: Vec<HostToken>,
            derived("the systemd credential `github_token`, where there is one");
        /// File that holds such tokens, separated by commas or line ends.
        github_token_file: Option<PathBuf>, example("/etc/gripfast/github.token");
        /// Whose repositories here may claim a module path that is not their place, and all paths
        /// below it: `go.example.com/tools=npub1…`.
        index_modules: Vec<Claim>,
            example("go.example.com/tools=npub10xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqpkge6d");
        /// How often the list of repositories and the tags of each are read again from other hosts.
        re_indexing_period: Duration = "1d";
        /// How long one piece of indexing is reserved for the instance that took it; another takes
        /// it over when that one is gone for so long.
        indexing_ttl: Duration = "5m";
        /// Pieces of indexing that are taken from the queue at a time, never more than there are
        /// workers free for them. 1 shares them most evenly among instances.
        number_of_items_to_take: Count<usize, 1, 1000> = "4";
        /// Repositories that are indexed at once.
        index_workers: Count<usize, 1, 256> = "4";
        /// Serve the indexed modules of this node to the go command at `/go`, as GOPROXY.
        go_proxy: bool = "true";
        /// Most bytes of files in a module that is served; the go command takes no more than 500
        /// MiB.
        go_proxy_max_zip_bytes: Bytes = "500 MiB";
        /// Most module zips that are made at once; sixteen times as many wait for their turn.
        go_proxy_max_zips: Positive = "4";
    }
}
