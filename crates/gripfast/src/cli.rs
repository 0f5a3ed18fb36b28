//! The command line, made from the table of options.

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use clap::{Arg, ArgAction, ArgMatches, value_parser};
use clap_complete::Shell;

use crate::{
    config::{Flags, Kind, Opt, Status, table::OPTIONS},
    failure,
};

/// What the person asked for.
#[derive(Debug)]
pub(crate) enum Command {
    Serve(Flags),
    Config(ConfigRequest),
    Explain(ExplainRequest),
    Healthcheck(HealthcheckRequest),
    Completions(Shell),
    Version { json: bool },
}

#[derive(Debug)]
pub(crate) struct ConfigRequest {
    pub(crate) flags: Flags,
    pub(crate) json: bool,
    pub(crate) docs: Option<String>,
}

#[derive(Debug)]
pub(crate) struct ExplainRequest {
    pub(crate) flags: Flags,
    pub(crate) subject: String,
    pub(crate) url: Option<String>,
    pub(crate) json: bool,
}

#[derive(Debug)]
pub(crate) struct HealthcheckRequest {
    pub(crate) flags: Flags,
    pub(crate) url: Option<String>,
}

/// Reads the command line.
pub(crate) fn parse(
    arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<Command, clap::Error> {
    let matches = command().try_get_matches_from(arguments)?;
    let Some((name, sub)) = matches.subcommand() else {
        return Ok(Command::Serve(flags(&[&matches])));
    };
    let flags = || flags(&[&matches, sub]);
    let text = |id: &str| sub.get_one::<String>(id).cloned();
    Ok(match name {
        "config" => Command::Config(ConfigRequest {
            flags: flags(),
            json: sub.get_flag("json"),
            docs: text("docs"),
        }),
        "explain" => Command::Explain(ExplainRequest {
            flags: flags(),
            subject: text("subject").expect("clap demands it"),
            url: text("url"),
            json: sub.get_flag("json"),
        }),
        "healthcheck" => Command::Healthcheck(HealthcheckRequest {
            flags: flags(),
            url: text("url"),
        }),
        "completions" => {
            Command::Completions(*sub.get_one::<Shell>("shell").expect("clap demands it"))
        }
        "version" => Command::Version {
            json: sub.get_flag("json"),
        },
        _ => Command::Serve(flags()),
    })
}

/// Prints help and version as asked, and mistakes with the exit code of a usage error.
pub(crate) fn show(error: &clap::Error) -> ExitCode {
    // Nowhere to print to leaves nothing to say.
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
        for option in OPTIONS {
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
    let json = |help: &'static str| {
        Arg::new("json")
            .long("json")
            .action(ArgAction::SetTrue)
            .help(help)
    };
    let url = || {
        Arg::new("url")
            .long("url")
            .value_name("URL")
            .help("The node to ask [default: the one configured here]")
    };
    let subject = Arg::new("subject")
        .required(true)
        .value_name("EVENT | NPUB/IDENTIFIER")
        .help("An event id (hex or note1/nevent1) or a repository");
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
            clap::Command::new("explain")
                .about("Say why an event or repository is served, held or refused")
                .arg(subject)
                .arg(url())
                .arg(json("Print the node's answer as it is"))
                .arg(config_file()),
        )
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
