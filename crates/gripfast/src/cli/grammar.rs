//! The grammar of the command line, made from the table of options.

use std::path::PathBuf;

use clap::{Arg, ArgAction, value_parser};
use clap_complete::Shell;

use crate::config::{Kind, Opt, Status, table::OPTIONS};

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
    command
        .args(OPTIONS.iter().map(argument))
        .arg(config_file())
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
    clap::Command::new("sync")
        .about("See and steer how missing git data is fetched")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommand(asking("status", "Show what is fetched, when and from whom"))
        .subcommand(now)
}

fn purgatory() -> clap::Command {
    let event = || subject("EVENT", "The id of a waiting event, or how it begins");
    let retry = changing(
        "retry",
        "Look for the data of an event at once (on the node's machine)",
    );
    let drop = changing("drop", "Forget an event that waits (on the node's machine)").arg(
        Arg::new("yes")
            .long("yes")
            .action(ArgAction::SetTrue)
            .help("Do it; without this only what would be dropped is shown"),
    );
    clap::Command::new("purgatory")
        .about("See and steer what waits for its git data")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommand(asking("ls", "List what waits, why, and until when"))
        .subcommand(retry.arg(event()))
        .subcommand(drop.arg(event()))
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
    let data_dir = OPTIONS.iter().find(|o| o.key == "data_dir");
    asking(name, about).args(
        data_dir
            .map(argument)
            .map(|arg| arg.help_heading(None::<&str>)),
    )
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
    let (first, _) = option.help.split_once(". ").unwrap_or((option.help, ""));
    let argument = Arg::new(option.key)
        .long(option.flag())
        .value_name(match option.kind {
            Kind::Choice(values) => values.join("|"),
            kind => kind.placeholder().to_owned(),
        })
        .help_heading(option.group.title())
        .help(format!(
            "{}{}",
            first.trim_end_matches('.'),
            default_note(option)
        ))
        .long_help(format!("{}{}", option.help, default_note(option)))
        .hide_short_help(!option.common)
        .allow_hyphen_values(true);
    match option.kind {
        // `--archive-all` alone means yes, as it does for ngit-grasp.
        Kind::Bool => argument
            .num_args(0..=1)
            .default_missing_value("true")
            .require_equals(true),
        _ => argument,
    }
}

fn default_note(option: &Opt) -> String {
    let idle = if option.status == Status::NoEffectYet {
        " (no effect yet)"
    } else {
        ""
    };
    match option.default_text() {
        Some(text) => format!("{idle} [default: {text}]"),
        None => idle.to_owned(),
    }
}
