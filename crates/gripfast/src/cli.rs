//! The command line: commands, their arguments, and the options of the node as flags.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches as _, Subcommand, value_parser};
use clap_complete::Shell;

use crate::{
    config::{
        Flags, Opt, Shape,
        options::{self, GROUPS},
    },
    failure,
};

/// What the command line asks for.
#[derive(Debug)]
pub(crate) struct Invocation {
    pub(crate) command: Command,
    pub(crate) node: NodeRequest,
}

/// Which node to ask, and in which form to show its answer.
#[derive(Debug)]
pub(crate) struct NodeRequest {
    pub(crate) flags: Flags,
    pub(crate) url: Option<String>,
    pub(crate) json: bool,
    /// How many entries of a list are wanted.
    pub(crate) limit: Option<usize>,
}

impl NodeRequest {
    /// The parameter of the API for the length of a list; `usual` where nobody says.
    pub(crate) fn limit(&self, usual: usize) -> String {
        self.limit.unwrap_or(usual).to_string()
    }
}

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
        /// An event id (hex or note1/nevent1) or a repository
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
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
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
        /// The id of an event, hex or note1…
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

/// Reads the command line.
pub(crate) fn parse(
    arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<Invocation, clap::Error> {
    let matches = command().try_get_matches_from(with_helper_name(arguments))?;
    // `sync status` and its like have their arguments one level further down.
    let sub = matches.subcommand().map_or(&matches, |(_, sub)| sub);
    let last = sub.subcommand().map_or(sub, |(_, last)| last);
    let url = last.try_get_one::<String>("url").ok().flatten();
    let json = last.try_get_one::<bool>("json").ok().flatten();
    let limit = last.try_get_one::<usize>("limit").ok().flatten();
    let node = NodeRequest {
        flags: flags(&[&matches, sub, last]),
        url: url.cloned(),
        json: json.copied().unwrap_or_default(),
        limit: limit.copied(),
    };
    let command = match matches.subcommand() {
        Some(_) => Command::from_arg_matches(&matches)?,
        None => Command::Serve,
    };
    Ok(Invocation { command, node })
}

/// The arguments, where git has started the remote helper by its name: `git-remote-grip NAME URL`.
fn with_helper_name(
    arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
    let name = arguments.first().map(Path::new).and_then(Path::file_stem);
    if name.is_some_and(|name| name == "git-remote-grip") {
        arguments.insert(1, "remote-helper".into());
    }
    arguments
}

/// Prints help and version as asked, and mistakes with the exit code of a usage error.
pub(crate) fn show(error: &clap::Error) -> ExitCode {
    // Without an output there is nothing to report to.
    let _ = error.print();
    if error.use_stderr() {
        ExitCode::from(failure::USAGE)
    } else {
        ExitCode::SUCCESS
    }
}

/// Collects the options given before and after the command; the later place wins.
fn flags(places: &[&ArgMatches]) -> Flags {
    let mut flags = Flags::default();
    for matches in places {
        for option in options::all() {
            if let Ok(Some(text)) = matches.try_get_one::<String>(option.key) {
                flags.values.insert(option.key, text.clone());
            }
        }
        if let Ok(Some(path)) = matches.try_get_one::<PathBuf>("config") {
            flags.config_file = Some(path.clone());
        }
    }
    flags
}

/// The whole command line, for parsing, completions and manual pages.
pub(crate) fn command() -> clap::Command {
    let root = clap::Command::new("gripfast")
        .about("A self-hosted git node that never shows a claim it cannot prove")
        .long_about(LONG_ABOUT)
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_subcommand(true);
    let root =
        Command::augment_subcommands(with_options(root, |_| false)).subcommand_required(false);
    let root = root
        .arg_required_else_help(false)
        .mut_subcommands(|c| match c.get_name() {
            "serve" => with_options(c, |option| option.common).after_help(SERVE_HELP),
            "config" => with_options(c, |_| true).arg(url()).arg(json("Print JSON")),
            "version" => c.arg(json("Print JSON")),
            "completions" | "credential" | "man" | "remote-helper" => c,
            "import-ngit-grasp" => with_options(c, |_| true).arg(json("Print the report as JSON")),
            "healthcheck" => c.arg(url()).arg(json("Print JSON")).arg(config_file()),
            "explain" | "pins" | "resolve" | "status" => asking(c),
            "pin" | "unpin" => asking(c).arg(plain_option("data_dir")),
            "selftest" => c
                .arg(
                    url().help(
                        "A running node to try, as clients reach it [default: a temporary one]",
                    ),
                )
                .arg(json("Print the report as JSON"))
                .arg(config_file())
                .args(["data_dir", "git_program"].map(plain_option)),
            "check" | "compact" => asking(c).arg(plain_option("data_dir")),
            "backup" => asking(c)
                .mut_arg("json", |json| json.help("Print JSON"))
                .args(PLACES.map(plain_option)),
            "restore" => c
                .arg(json("Print JSON"))
                .arg(config_file())
                .args(PLACES.map(plain_option)),
            _ => {
                let of = c.get_name().to_owned();
                group(c).mut_subcommands(move |leaf| below(&of, leaf))
            }
        });
    let help = root_help(&root);
    root.override_help(help)
}

/// A command below another one.
fn below(parent: &str, leaf: clap::Command) -> clap::Command {
    match (parent, leaf.get_name()) {
        // It needs no running node: it writes into the node's database.
        (_, "backfill") => asking(leaf)
            .mut_arg("url", |url| url.hide(true))
            .args(["data_dir", "database_url"].map(plain_option)),
        (_, "now" | "retry" | "drop" | "reextract" | "retention" | "verify")
        | ("repos" | "events" | "holding", _) => asking(leaf).arg(plain_option("data_dir")),
        ("sync", "status") | (_, "ls" | "gaps" | "repo" | "sumdb") => asking(leaf).arg(limit()),
        _ => asking(leaf),
    }
}

/// The places that a backup is made of.
const PLACES: [&str; 5] = [
    "data_dir",
    "git_data_path",
    "relay_data_path",
    "database_url",
    "git_program",
];

const LONG_ABOUT: &str = "\
A self-hosted git node that never shows a claim it cannot prove.

`gripfast` alone serves on http://127.0.0.1:7334 and keeps its data in ./data.";

const CREDENTIAL_HELP: &str = "\
Set up once for each private service; then plain git works:

  git config --global credential.https://git.example.com.useHttpPath true
  git config --global credential.https://git.example.com.helper \\
    '!gripfast credential --key-file ~/.config/nostr/key'
  git clone https://git.example.com/npub1…/tides.git

The key never leaves this machine: git gets a signature that opens one repository for a minute.

With --bunker-file instead of --key-file the key stays with a remote signer (NIP-46): the file holds the \
bunker:// URI that it shows, and the first use pairs with it.";

const SERVE_HELP: &str = "\
These are the options that most people need; `gripfast config --help` lists all. Each can also be \
set as GRIPFAST_<NAME> in the environment or a .env file, or as <name> in gripfast.toml.";

/// The commands by what they are for, as `gripfast --help` shows them.
const COMMAND_GROUPS: &[(&str, &[&str])] = &[
    (
        "Run a node",
        &["serve", "config", "selftest", "healthcheck"],
    ),
    (
        "See how it is",
        &[
            "status",
            "explain",
            "resolve",
            "sync",
            "purgatory",
            "queue",
            "index",
            "ingest",
        ],
    ),
    (
        "Decide what is on it",
        &[
            "repos",
            "events",
            "holding",
            "archive",
            "pin",
            "unpin",
            "pins",
            "credential",
        ],
    ),
    (
        "Look after it",
        &["check", "backup", "restore", "compact", "import-ngit-grasp"],
    ),
    ("Besides", &["completions", "man", "version"]),
];

const EXAMPLES: &str =
    "  gripfast                               serve on http://127.0.0.1:7334, data in ./data
  gripfast --domain grasp.example.com    serve under a name, behind a proxy that speaks TLS
  gripfast status                        how is the node of this machine?
  gripfast explain npub1…/tides          why is a repository served, held or refused?
  gripfast backup /mnt/backup            copy everything while it runs
";

/// The help of the program: every command with a line, by groups, and examples.
fn root_help(root: &clap::Command) -> String {
    let mut out = String::from(
        "A self-hosted git node that never shows a claim it cannot prove\n\n\
         Usage: gripfast [COMMAND] [OPTIONS]\n",
    );
    let commands: Vec<_> = root
        .get_subcommands()
        .filter(|c| !c.is_hide_set())
        .collect();
    let width = commands
        .iter()
        .map(|c| c.get_name().len())
        .max()
        .unwrap_or(0);
    let is_grouped = |name: &str| {
        COMMAND_GROUPS
            .iter()
            .any(|(_, names)| names.contains(&name))
    };
    let mut put = |title: &str, listed: &[&&clap::Command]| {
        if listed.is_empty() {
            return;
        }
        out.push_str(&format!("\n{title}:\n"));
        for command in listed {
            let about = command
                .get_about()
                .map(ToString::to_string)
                .unwrap_or_default();
            out.push_str(&format!("  {:width$}  {about}\n", command.get_name()));
        }
    };
    for (title, names) in COMMAND_GROUPS {
        let find = |name: &&str| commands.iter().find(|c| c.get_name() == *name);
        put(title, &names.iter().filter_map(find).collect::<Vec<_>>());
    }
    let others = commands.iter().filter(|c| !is_grouped(c.get_name()));
    put("More", &others.collect::<Vec<_>>());
    out.push_str(&format!(
        "\nExamples:\n{EXAMPLES}\n\
         `gripfast <command> --help` says more. The {} options of the node: `gripfast config --help`.\n",
        options::all().count()
    ));
    out
}

/// Adds every option; those that are not `shown` are taken and not listed in the help.
fn with_options(command: clap::Command, shown: impl Fn(&Opt) -> bool) -> clap::Command {
    let headed = GROUPS.iter().flat_map(|group| {
        let options = group.options.iter();
        options.map(|option| {
            argument(option)
                .help_heading(group.title)
                .hide(!shown(option))
        })
    });
    command.args(headed).arg(config_file())
}

/// A command that has others below it and does nothing alone.
fn group(command: clap::Command) -> clap::Command {
    command
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
}

/// The arguments of a command that asks a running node.
fn asking(command: clap::Command) -> clap::Command {
    let json = json("Print the node's answer as it is");
    command.arg(url()).arg(json).arg(config_file())
}

fn url() -> Arg {
    let help = "The node to ask [default: the one configured here]";
    Arg::new("url").long("url").value_name("URL").help(help)
}

fn json(help: &'static str) -> Arg {
    Arg::new("json")
        .long("json")
        .action(ArgAction::SetTrue)
        .help(help)
}

fn limit() -> Arg {
    Arg::new("limit")
        .long("limit")
        .value_name("NUMBER")
        .value_parser(value_parser!(usize))
        .help("How many entries of each list are shown, up to 1000")
}

fn config_file() -> Arg {
    Arg::new("config")
        .long("config")
        .value_name("PATH")
        .value_parser(value_parser!(PathBuf))
        .help("Configuration file [default: gripfast.toml, where there is one]")
}

/// An option of the node among the arguments of another command.
fn plain_option(key: &str) -> Arg {
    let option = options::find(key).expect("it is an option");
    argument(option)
}

fn argument(option: &'static Opt) -> Arg {
    let help = option.help();
    let (first, _) = help.split_once(". ").unwrap_or((help, ""));
    let idle = match option.meaningless {
        Some(_) => " (no meaning here)",
        None if option.has_effect => "",
        None => " (no effect yet)",
    };
    let note = match option.default.or(option.derived) {
        Some(text) => format!("{idle} [default: {}]", text.replace('`', "")),
        None => idle.to_owned(),
    };
    let is_bool = option.shape == Shape::Bool;
    let argument = Arg::new(option.key)
        .long(option.flag())
        .value_name(option.placeholder)
        .help(format!("{}{note}", first.trim_end_matches('.')))
        .long_help(format!("{help}{note}"))
        .allow_hyphen_values(true)
        .require_equals(is_bool);
    if is_bool {
        // `--archive-all` alone means yes, as it does for ngit-grasp.
        argument.num_args(0..=1).default_missing_value("true")
    } else {
        argument
    }
}
