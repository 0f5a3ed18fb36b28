//! The command line: commands, their arguments, and the options of the node as flags.

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

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
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the node (what `gripfast` alone does)
    Serve,
    /// Show the effective configuration and where each value comes from
    Config {
        #[arg(long, hide = true, value_parser = ["reference", "example"])]
        docs: Option<String>,
    },
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
    /// See and steer work that is due later
    #[command(subcommand)]
    Queue(QueueAction),
    /// See and steer the index of Go modules
    #[command(subcommand)]
    Index(IndexAction),
    /// See and steer what is taken in from GitHub
    #[command(subcommand)]
    Ingest(IngestAction),
    /// What was deleted or left out by a list, and is kept for a while (on the node's machine)
    #[command(subcommand)]
    Holding(HoldingAction),
    /// Give the space of removed events back to the disk (on the node's machine)
    Compact,
    /// Find a repository by its name or digest, here or in the network
    Resolve(ResolveQuery),
    /// Compare every repository with its events; exit 1 if they do not agree
    Check {
        /// Read every object too (git fsck), which takes a while
        #[arg(long)]
        full: bool,
        /// Settle what is found
        #[arg(long)]
        repair: bool,
    },
    /// Ask the running node whether it is ready; exit 0 if so
    Healthcheck,
    /// Print shell completions
    Completions { shell: Shell },
    /// Print the version
    Version,
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
}

/// Reads the command line.
pub(crate) fn parse(
    arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<Invocation, clap::Error> {
    let matches = command().try_get_matches_from(arguments)?;
    // `sync status` and its like have their arguments one level further down.
    let sub = matches.subcommand().map_or(&matches, |(_, sub)| sub);
    let last = sub.subcommand().map_or(sub, |(_, last)| last);
    let url = last.try_get_one::<String>("url").ok().flatten();
    let json = last.try_get_one::<bool>("json").ok().flatten();
    let node = NodeRequest {
        flags: flags(&[&matches, sub, last]),
        url: url.cloned(),
        json: json.copied().unwrap_or_default(),
    };
    let command = match matches.subcommand() {
        Some(_) => Command::from_arg_matches(&matches)?,
        None => Command::Serve,
    };
    Ok(Invocation { command, node })
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

/// The whole command line, for parsing and for completions.
pub(crate) fn command() -> clap::Command {
    let root = clap::Command::new("gripfast")
        .about("A self-hosted git node that never shows a claim it cannot prove")
        .long_about(LONG_ABOUT)
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_subcommand(true)
        .after_help(AFTER_HELP);
    let root = Command::augment_subcommands(with_options(root)).subcommand_required(false);
    root.arg_required_else_help(false)
        .mut_subcommands(|c| match c.get_name() {
            "serve" => with_options(c),
            "config" => with_options(c).arg(json("Print JSON")),
            "version" => c.arg(json("Print JSON")),
            "completions" => c,
            "healthcheck" => c.arg(url()).arg(config_file()),
            "explain" | "resolve" => asking(c),
            "check" | "compact" => asking(c).arg(plain_option("data_dir")),
            "holding" => {
                group(c).mut_subcommands(|leaf| asking(leaf).arg(plain_option("data_dir")))
            }
            _ => group(c).mut_subcommands(|leaf| match leaf.get_name() {
                // It needs no running node: it writes into the node's database.
                "backfill" => asking(leaf)
                    .mut_arg("url", |url| url.hide(true))
                    .args(["data_dir", "database_url"].map(plain_option)),
                "now" | "retry" | "drop" | "reextract" | "retention" => {
                    asking(leaf).arg(plain_option("data_dir"))
                }
                _ => asking(leaf),
            }),
        })
}

const LONG_ABOUT: &str = "\
A self-hosted git node that never shows a claim it cannot prove.

`gripfast` alone serves on http://127.0.0.1:7334 and keeps its data in ./data.";

const AFTER_HELP: &str = "\
Every option can also be set as GRIPFAST_<NAME> (or NGIT_<NAME>, as for ngit-grasp) in the \
environment or a .env file, or as <name> in gripfast.toml. `gripfast config` shows what counts.";

fn with_options(command: clap::Command) -> clap::Command {
    let headed = GROUPS.iter().flat_map(|group| {
        let arguments = group.options.iter().map(argument);
        arguments.map(|argument| argument.help_heading(group.title))
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
    argument(option).hide_short_help(false)
}

fn argument(option: &'static Opt) -> Arg {
    let help = option.help();
    let (first, _) = help.split_once(". ").unwrap_or((help, ""));
    let idle = if option.has_effect {
        ""
    } else {
        " (no effect yet)"
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
        .hide_short_help(!option.common)
        .allow_hyphen_values(true)
        .require_equals(is_bool);
    if is_bool {
        // `--archive-all` alone means yes, as it does for ngit-grasp.
        argument.num_args(0..=1).default_missing_value("true")
    } else {
        argument
    }
}
