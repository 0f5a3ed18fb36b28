//! Commands with their arguments.

use std::path::PathBuf;

use clap::{Args, Subcommand, value_parser};
use clap_complete::Shell;

use super::{
    actions::{
        ArchiveAction, ClusterAction, EventsAction, HoldingAction, IndexAction, IngestAction,
        PurgatoryAction, QueueAction, ReposAction, SyncAction,
    },
    help::CREDENTIAL_HELP,
};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the node (what `gripfast` alone does)
    Serve,
    /// Show the effective configuration and where each value comes from
    Config {
        /// Show what the running node uses, instead of what would be used here
        #[arg(long)]
        service: bool,
        #[arg(long, hide = true, value_parser = ["reference", "example"])]
        docs: Option<String>,
    },
    /// Show on one screen what is served, waits and fails, and how full it is
    Status,
    /// Try everything once, on a temporary node or a running one; exit 1 if it fails
    Selftest,
    /// Copy all state of the node to a directory, while it runs
    Backup(BackupRequest),
    /// Bring the state of a backup back into an empty data directory
    Restore(RestoreRequest),
    /// Say why an event or repository is served, held or refused
    Explain {
        /// An event id (hex or how that begins, note1/nevent1) or a repository
        #[arg(value_name = "EVENT | NPUB/IDENTIFIER")]
        subject: String,
    },
    /// See and steer how missing git data is fetched
    #[command(subcommand)]
    Sync(SyncAction),
    /// See and steer what waits for its git data
    #[command(subcommand)]
    Purgatory(PurgatoryAction),
    /// See what the archive keeps
    #[command(subcommand)]
    Archive(ArchiveAction),
    /// See, remove and block repositories
    #[command(subcommand)]
    Repos(ReposAction),
    /// Remove events
    #[command(subcommand)]
    Events(EventsAction),
    /// See and steer work that is due later
    #[command(subcommand)]
    Queue(QueueAction),
    /// See and steer the index of Go modules
    #[command(subcommand)]
    Index(IndexAction),
    /// See the nodes of a cluster
    #[command(subcommand)]
    Cluster(ClusterAction),
    /// See and steer what is taken in from GitHub
    #[command(subcommand)]
    Ingest(IngestAction),
    /// See and bring back what was taken out of service (on the node's machine)
    #[command(subcommand)]
    Holding(HoldingAction),
    /// Give the space of removed events back to the disk (on the node's machine)
    Compact,
    /// Find a repository by its name or digest, here or in the network
    Resolve(ResolveQuery),
    /// Keep and provide the manifest of a repository (on the node's machine)
    Pin {
        /// NPUB/IDENTIFIER, nostr://…, naddr1… or b3:DIGEST
        key: String,
    },
    /// Let pinned manifests go (on the node's machine)
    Unpin {
        /// What was pinned: a repository with all its manifests, or one by b3:DIGEST
        key: String,
    },
    /// List pinned manifests
    Pins,
    /// Fetch for `git clone grip://NPUB/IDENTIFIER`; git starts it as `git-remote-grip`
    #[command(hide = true)]
    RemoteHelper {
        /// The remote's name, or its URL
        remote: String,
        /// The URL
        url: String,
    },
    /// Compare every repository with its events; exit 1 if they do not agree
    Check {
        /// Read every object too (git fsck), which takes a while
        #[arg(long)]
        full: bool,
        /// Settle what is found
        #[arg(long)]
        repair: bool,
        /// Take objects that are missing here from backups in this directory, the newest first; without
        /// --repair, say what they have
        #[arg(long, value_name = "DIRECTORY")]
        from_backup: Option<PathBuf>,
    },
    /// Let git into repositories of private services: a credential helper
    #[command(after_long_help = CREDENTIAL_HELP)]
    Credential {
        /// File with your private key (nsec1… or hex), which only you can read
        #[arg(long, value_name = "PATH", required_unless_present = "bunker_file")]
        key_file: Option<PathBuf>,
        /// File with the bunker:// URI of the remote signer that has your key (NIP-46)
        #[arg(long, value_name = "PATH", conflicts_with = "key_file")]
        bunker_file: Option<PathBuf>,
        /// What git wants: get, store or erase
        #[arg(value_name = "get | store | erase")]
        operation: String,
    },
    /// Move in from ngit-grasp while both are stopped; may be repeated
    #[command(name = "import-ngit-grasp")]
    ImportNgitGrasp {
        /// Say what there is, and change nothing
        #[arg(long)]
        dry_run: bool,
        /// Take over its key as well, from this file (.relay-owner.nsec)
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
        /// Its directory of repositories (NGIT_GIT_DATA_PATH)
        #[arg(value_name = "GIT_DIR")]
        git: PathBuf,
        /// Its directory of events (NGIT_RELAY_DATA_PATH), or a file with an event a line
        #[arg(value_name = "RELAY_DIR")]
        relay: PathBuf,
    },
    /// Ask the running node whether it is ready; exit 0 if so
    Healthcheck,
    /// Print shell completions
    Completions { shell: Shell },
    /// Print the manual page, or write one of each command
    Man {
        /// Write the pages of all commands into this directory
        #[arg(long, value_name = "PATH")]
        dir: Option<PathBuf>,
    },
    /// Print the version
    Version,
}

#[derive(Debug, Args)]
pub(crate) struct BackupRequest {
    /// Directory of the backups; made at the first, and each later one adds what is new
    #[arg(value_name = "DIRECTORY")]
    pub(crate) to: PathBuf,
    /// Keep so many backups and remove older ones afterwards
    #[arg(long, value_name = "NUMBER", value_parser = value_parser!(u32).range(1..))]
    pub(crate) keep: Option<u32>,
    /// Restore the new backup into a temporary directory beside it and check all of it
    #[arg(long)]
    pub(crate) verify: bool,
    /// Make none: list those that are there
    #[arg(long, conflicts_with_all = ["keep", "verify"])]
    pub(crate) list: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreRequest {
    /// Directory of the backups
    #[arg(value_name = "DIRECTORY")]
    pub(crate) from: PathBuf,
    /// Which of them, as `gripfast backup --list` names it [default: the newest]
    #[arg(long, value_name = "NAME")]
    pub(crate) backup: Option<String>,
    /// Read every object afterwards (git fsck)
    #[arg(long)]
    pub(crate) full: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ResolveQuery {
    /// NPUB/IDENTIFIER, nostr://…, naddr1… or b3:DIGEST
    pub(crate) key: String,
    /// Not from the cache: ask the network again
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Also show where it can be had, the best place first
    #[arg(long)]
    pub(crate) providers: bool,
    /// Print nothing but the best URL to clone from
    #[arg(long = "clone-url", conflicts_with = "providers")]
    pub(crate) is_url_only: bool,
}
