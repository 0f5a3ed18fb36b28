//! Actions below the commands that are about one part of the node.

use std::path::PathBuf;

use clap::{Args, Subcommand, value_parser};

#[derive(Debug, Subcommand)]
pub(crate) enum SyncAction {
    /// Show what is fetched, when and from whom
    Status,
    /// Look for the data of a repository at once (on the node's machine)
    Now {
        /// The repository that something waits for
        #[arg(value_name = "IDENTIFIER | NPUB/IDENTIFIER")]
        subject: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterAction {
    /// Show the nodes, who leads, and how far each has followed; exit 1 if nobody leads
    Status,
    /// Make the data directory of a node that served alone the first member of a cluster; it must not run
    Adopt,
    /// Make the data directory of a member one of a node that serves alone; no node of the cluster may run
    Leave,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PurgatoryAction {
    /// List what waits, why, and until when
    Ls,
    /// Look for the data of an event at once (on the node's machine)
    Retry(WaitingEvent),
    /// Forget an event that waits (on the node's machine)
    Drop {
        #[command(flatten)]
        event: WaitingEvent,
        /// Do it; without this only what would be dropped is shown
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum HoldingAction {
    /// List what is kept, why, and until when
    Ls,
    /// Bring back what is kept of a repository, as far as the rules and its authors let it
    Restore(HeldRepository),
    /// Destroy what is kept of a repository
    Purge {
        #[command(flatten)]
        repository: HeldRepository,
        /// Do it; without this only what would be destroyed is shown
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct HeldRepository {
    /// The repository, as `gripfast holding ls` names it
    #[arg(value_name = "NPUB/IDENTIFIER")]
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct WaitingEvent {
    /// The id of a waiting event, or how it begins
    #[arg(value_name = "EVENT")]
    pub(crate) id: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ArchiveAction {
    /// List when branches and tags of a mirrored repository were moved, and the tips of before
    Log {
        /// A repository
        #[arg(value_name = "NPUB/IDENTIFIER")]
        repository: String,
        /// Most moves that are listed, newest first
        #[arg(long, default_value_t = 100, value_parser = value_parser!(u32).range(1..=1000))]
        limit: u32,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ReposAction {
    /// List hosted repositories by name
    Ls {
        /// Most that are listed
        #[arg(long, default_value_t = 100, value_parser = value_parser!(u16).range(1..=1000))]
        limit: u16,
    },
    /// Show one repository
    Show {
        #[arg(value_name = "NPUB/IDENTIFIER")]
        repository: String,
    },
    /// List hosted repositories, the largest first (on the node's machine)
    Size {
        /// Most that are listed
        #[arg(long, default_value_t = 20, value_parser = value_parser!(u16).range(1..=1000))]
        limit: u16,
    },
    /// Remove a repository from relay and git; it stays in the archive for a while (on the node's
    /// machine)
    Rm {
        #[arg(value_name = "NPUB/IDENTIFIER")]
        repository: String,
        /// Do it; without this only what would be removed is shown
        #[arg(long)]
        execute: bool,
    },
    /// Keep a repository, a name or all of an author out of relay and git (on the node's machine)
    Block {
        #[arg(value_name = "NPUB | NPUB/IDENTIFIER | IDENTIFIER")]
        subject: String,
        /// A note that is shown with the block
        #[arg(long, default_value = "")]
        reason: String,
        /// Do it; without this nothing is changed
        #[arg(long)]
        execute: bool,
    },
    /// Lift a block; what it took out of service comes back (on the node's machine)
    Unblock {
        #[arg(value_name = "NPUB | NPUB/IDENTIFIER | IDENTIFIER")]
        subject: String,
        /// Do it; without this nothing is changed
        #[arg(long)]
        execute: bool,
    },
    /// List what is blocked (on the node's machine)
    Blocks,
}

#[derive(Debug, Subcommand)]
pub(crate) enum EventsAction {
    /// Remove an event, or all of an author, from relay and git (on the node's machine)
    Rm {
        /// The id of an event: hex or how that begins, or note1…
        #[arg(
            value_name = "EVENT",
            required_unless_present = "author",
            conflicts_with = "author"
        )]
        event: Option<String>,
        /// Every event of this key
        #[arg(long, value_name = "NPUB")]
        author: Option<String>,
        /// Do it; without this only what would be removed is counted
        #[arg(long)]
        execute: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum QueueAction {
    /// List jobs: what is due, under way, waiting or dead
    Ls {
        /// Only jobs of this kind
        #[arg(long)]
        kind: Option<String>,
        /// Only jobs in this state
        #[arg(long, value_parser = ["due", "waiting", "leased", "dead"])]
        state: Option<String>,
    },
    /// Make a job due now, also one that failed for good (on the node's machine)
    Retry(JobName),
    /// List what jobs failed for, the most frequent cause first (on the node's machine)
    Causes {
        /// Only jobs of this kind
        #[arg(long)]
        kind: Option<String>,
    },
    /// Make all jobs due now that failed for good (on the node's machine)
    Revive {
        /// Only jobs of this kind
        #[arg(long)]
        kind: Option<String>,
        /// Only jobs that failed for this, as `queue causes` prints it; also those that wait for
        /// their next period because of it
        #[arg(long)]
        cause: Option<String>,
    },
    /// Forget a job (on the node's machine)
    Drop {
        #[command(flatten)]
        job: JobName,
        /// Do it; without this only what would be dropped is shown
        #[arg(long)]
        yes: bool,
    },
}

/// The name of a job.
#[derive(Debug, Args)]
pub(crate) struct JobName {
    /// The kind of the job, as `queue ls` shows it
    pub(crate) kind: String,
    /// The key of the job
    pub(crate) key: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum IndexAction {
    /// Show what is indexed, from where, and how far it is
    Status,
    /// List a source or index a repository at once (on the node's machine)
    Now {
        /// A source or repository, such as github.com/orgs/acme or github.com/acme/tides
        name: String,
    },
    /// List the sources, also those that left the settings
    Sources,
    /// Take leave of a source that left the settings (on the node's machine)
    Forget {
        /// The source, such as github.com/orgs/acme
        source: String,
        /// Hide its repositories until it comes back, instead of removing them
        #[arg(long)]
        hide: bool,
    },
    /// Show the checksum database: its key for GOSUMDB, and tags that moved away from it
    Sumdb,
    /// Verify the whole checksum database; exit 1 if anything is wrong (on the node's machine)
    Verify {
        /// Keep the verified head in this file, and prove that the log still begins with the one of
        /// the last time
        #[arg(long, value_name = "FILE")]
        since: Option<PathBuf>,
    },
    /// Say of each tag of a repository why it is in the feed or not
    Repo {
        /// A repository, such as github.com/acme/tides or npub1…/tides
        name: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum IngestAction {
    /// Show what comes from where, and when the budget ends
    Status,
    /// List holes: times of which events may be missing
    Gaps {
        /// Also those that were filled
        #[arg(long)]
        all: bool,
    },
    /// Take in old events from files, going on where it was stopped
    Backfill {
        /// Files as gharchive.org offers them: .json.gz, or .json
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Read all that is kept again by the rules of today (on the node's machine)
    Reextract,
    /// Let go of what is older than it is kept (on the node's machine)
    Retention {
        /// Do it; without this only what would go is counted
        #[arg(long)]
        yes: bool,
    },
}
