//! The grammar of the command line, made from the table of options.

use std::path::PathBuf;

use clap::{Arg, ArgAction, value_parser};
use clap_complete::Shell;

use crate::config::{Opt, Shape, options, options::GROUPS};

/// The whole command line, for parsing and for completions.
pub(crate) fn command() -> clap::Command {
    let shell = Arg::new("shell")
        .required(true)
        .value_parser(value_parser!(Shell));
    let docs = Arg::new("docs")
        .long("docs")
        .hide(true)
        .value_parser(["reference", "example"]);
    with_options(clap::Command::new("gripfast"))
        .about("A self-hosted git node that never shows a claim it cannot prove")
        .long_about(LONG_ABOUT)
        .version(env!("CARGO_PKG_VERSION"))
        .args_conflicts_with_subcommands(false)
        .subcommand_required(false)
        .disable_help_subcommand(true)
        .after_help(AFTER_HELP)
        .subcommand(
            with_options(clap::Command::new("serve"))
                .about("Run the node (what `gripfast` alone does)"),
        )
        .subcommand(
            with_options(clap::Command::new("config"))
                .about("Show the effective configuration and where each value comes from")
                .arg(json("Print JSON"))
                .arg(docs),
        )
        .subcommand(
            asking(
                "explain",
                "Say why an event or repository is served, held or refused",
            )
            .arg(subject(
                "EVENT | NPUB/IDENTIFIER",
                "An event id (hex or note1/nevent1) or a repository",
            )),
        )
        .subcommand(sync())
        .subcommand(purgatory())
        .subcommand(queue())
        .subcommand(index())
        .subcommand(ingest())
        .subcommand(resolve())
        .subcommand(
            clap::Command::new("healthcheck")
                .about("Ask the running node whether it is ready; exit 0 if so")
                .arg(url())
                .arg(config_file()),
        )
        .subcommand(
            clap::Command::new("completions")
                .about("Print shell completions")
                .arg(shell),
        )
        .subcommand(
            clap::Command::new("version")
                .about("Print the version")
                .arg(json("Print JSON")),
        )
}

const LONG_ABOUT: &str = "\
A self-hosted git node that never shows a claim it cannot prove.

`gripfast` alone serves on http://127.0.0.1:7334 and keeps its data in ./data.";

const AFTER_HELP: &str = "\
Every option can also be set as GRIPFAST_<NAME> (or NGIT_<NAME>, as for ngit-grasp) in the \
environment or a .env file, or as <name> in gripfast.toml. `gripfast config` shows what counts.";

fn with_options(command: clap::Command) -> clap::Command {
    let headed = GROUPS.iter().flat_map(|group| {
        let arguments = group.options().map(argument);
        arguments.map(|argument| argument.help_heading(group.title))
    });
    command.args(headed).arg(config_file())
}

fn sync() -> clap::Command {
    let now = changing(
        "now",
        "Look for the data of a repository at once (on the node's machine)",
    )
    .arg(subject(
        "IDENTIFIER | NPUB/IDENTIFIER",
        "The repository that something waits for",
    ));
    group("sync", "See and steer how missing git data is fetched")
        .subcommand(asking("status", "Show what is fetched, when and from whom"))
        .subcommand(now)
}

fn purgatory() -> clap::Command {
    let event = || subject("EVENT", "The id of a waiting event, or how it begins");
    let retry = changing(
        "retry",
        "Look for the data of an event at once (on the node's machine)",
    );
    let drop = changing("drop", "Forget an event that waits (on the node's machine)").arg(yes());
    group("purgatory", "See and steer what waits for its git data")
        .subcommand(asking("ls", "List what waits, why, and until when"))
        .subcommand(retry.arg(event()))
        .subcommand(drop.arg(event()))
}

fn queue() -> clap::Command {
    let kind = || {
        Arg::new("kind")
            .required(true)
            .value_name("KIND")
            .help("The kind of the job, as `queue ls` shows it")
    };
    let key = || {
        Arg::new("key")
            .required(true)
            .value_name("KEY")
            .help("The key of the job")
    };
    let of_kind = Arg::new("kind")
        .long("kind")
        .value_name("KIND")
        .help("Only jobs of this kind");
    let in_state = Arg::new("state")
        .long("state")
        .value_name("STATE")
        .value_parser(["due", "waiting", "leased", "dead"])
        .help("Only jobs in this state");
    let ls = asking("ls", "List jobs: what is due, under way, waiting or dead");
    let retry = changing(
        "retry",
        "Make a job due now, also one that failed for good (on the node's machine)",
    );
    let drop = changing("drop", "Forget a job (on the node's machine)").arg(yes());
    group("queue", "See and steer work that is due later")
        .subcommand(ls.arg(of_kind).arg(in_state))
        .subcommand(retry.arg(kind()).arg(key()))
        .subcommand(drop.arg(kind()).arg(key()))
}

fn index() -> clap::Command {
    let name = |help| subject("NAME", help);
    let now = changing(
        "now",
        "List a source or index a repository at once (on the node's machine)",
    );
    let repo = asking(
        "repo",
        "Say of each tag of a repository why it is in the feed or not",
    );
    group("index", "See and steer the index of Go modules")
        .subcommand(asking(
            "status",
            "Show what is indexed, from where, and how far it is",
        ))
        .subcommand(now.arg(name(
            "A source or repository, such as github.com/orgs/acme or github.com/acme/tides",
        )))
        .subcommand(repo.arg(name(
            "A repository, such as github.com/acme/tides or npub1…/tides",
        )))
}

fn ingest() -> clap::Command {
    let all = Arg::new("all")
        .long("all")
        .action(ArgAction::SetTrue)
        .help("Also those that were filled");
    let files = Arg::new("file")
        .required(true)
        .num_args(1..)
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help("Files as gharchive.org offers them: .json.gz, or .json");
    // It needs no running node: it writes into the node's database.
    let backfill = clap::Command::new("backfill")
        .about("Take in old events from files, going on where it was stopped")
        .args(["data_dir", "database_url"].map(plain_option))
        .arg(json("Print JSON, a line for each file"))
        .arg(url().hide(true))
        .arg(config_file())
        .arg(files);
    let retention = changing(
        "retention",
        "Let go of what is older than it is kept (on the node's machine)",
    );
    group("ingest", "See and steer what is taken in from GitHub")
        .subcommand(asking(
            "status",
            "Show what comes from where, and when the budget ends",
        ))
        .subcommand(asking("gaps", "List holes: times of which events may be missing").arg(all))
        .subcommand(backfill)
        .subcommand(changing(
            "reextract",
            "Read all that is kept again by the rules of today (on the node's machine)",
        ))
        .subcommand(retention.arg(yes().help("Do it; without this only what would go is counted")))
}

fn resolve() -> clap::Command {
    let fresh = Arg::new("fresh")
        .long("fresh")
        .action(ArgAction::SetTrue)
        .help("Not from the cache: ask the network anew");
    let providers = Arg::new("providers")
        .long("providers")
        .action(ArgAction::SetTrue)
        .help("Also show where it can be had, the best place first");
    asking(
        "resolve",
        "Find a repository by its name or digest, here or in the network",
    )
    .arg(fresh)
    .arg(providers)
    .arg(subject("KEY", "name:NPUB/IDENTIFIER, naddr1… or b3:DIGEST"))
}

/// A command that only has others below it.
fn group(name: &'static str, about: &'static str) -> clap::Command {
    clap::Command::new(name)
        .about(about)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
}

fn yes() -> Arg {
    Arg::new("yes")
        .long("yes")
        .action(ArgAction::SetTrue)
        .help("Do it; without this only what would be dropped is shown")
}

/// A command that asks a running node.
fn asking(name: &'static str, about: &'static str) -> clap::Command {
    clap::Command::new(name)
        .about(about)
        .arg(url())
        .arg(json("Print the node's answer as it is"))
        .arg(config_file())
}

/// One that changes something, for which it reads the token in the data directory.
fn changing(name: &'static str, about: &'static str) -> clap::Command {
    asking(name, about).arg(plain_option("data_dir"))
}

/// An option of the node among the arguments of another command.
fn plain_option(key: &str) -> Arg {
    let option = options::find(key).expect("it is an option");
    argument(option).hide_short_help(false)
}

fn subject(name: &'static str, help: &'static str) -> Arg {
    Arg::new("subject")
        .required(true)
        .value_name(name)
        .help(help)
}

fn url() -> Arg {
    Arg::new("url")
        .long("url")
        .value_name("URL")
        .help("The node to ask [default: the one configured here]")
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

fn argument(option: &'static Opt) -> Arg {
    let help = option.help();
    let (first, _) = help.split_once(". ").unwrap_or((help, ""));
    let note = default_note(option);
    let argument = Arg::new(option.key)
        .long(option.flag())
        .value_name(option.placeholder)
        .help(format!("{}{note}", first.trim_end_matches('.')))
        .long_help(format!("{help}{note}"))
        .hide_short_help(!option.common)
        .allow_hyphen_values(true);
    if option.shape == Shape::Bool {
        // `--archive-all` alone means yes, as it does for ngit-grasp.
        argument
            .num_args(0..=1)
            .default_missing_value("true")
            .require_equals(true)
    } else {
        argument
    }
}

fn default_note(option: &Opt) -> String {
    let idle = if option.has_effect {
        ""
    } else {
        " (no effect yet)"
    };
    match option.default.or(option.derived) {
        Some(text) => format!("{idle} [default: {}]", text.replace('`', "")),
        None => idle.to_owned(),
    }
}
