//! The tree of commands: which of them takes which options of the node.

use std::path::PathBuf;

use clap::{Arg, ArgAction, Subcommand as _, value_parser};

use super::{
    commands::Command,
    help::{LONG_ABOUT, SERVE_HELP, root_help},
};
use crate::config::{
    Opt, Shape,
    options::{self, GROUPS},
};

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
            "explain" | "status" | "pin" | "unpin" | "compact" => asking(c),
            "resolve" => asking(c).arg(limit().requires("providers")),
            "check" => asking(c).arg(plain_option("git_program")),
            "pins" => asking(c).arg(limit()),
            "selftest" => c
                .arg(
                    url().help(
                        "A running node to try, as clients reach it [default: a temporary one]",
                    ),
                )
                .arg(json("Print the report as JSON"))
                .arg(config_file())
                .args(["data_dir", "git_program"].map(plain_option)),
            "backup" => asking(c)
                .mut_arg("json", |json| json.help("Print JSON"))
                .arg(limit().requires("list"))
                .args(PLACES.map(plain_option)),
            "restore" => c
                .arg(json("Print JSON"))
                .arg(config_file())
                .arg(plain_option("data_dir"))
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
            .arg(plain_option("database_url")),
        ("cluster", "status") => of_cluster(leaf).arg(limit()),
        ("cluster", _) => of_cluster(leaf),
        // It has a limit of its own, which the node is asked for.
        ("repos", "ls") => asking(leaf),
        ("sync" | "index" | "ingest", "status")
        | (_, "blocks" | "causes" | "gaps" | "ls" | "repo" | "sources" | "sumdb") => {
            asking(leaf).arg(limit())
        }
        _ => asking(leaf),
    }
}

/// The places that a backup is made of, beside the data directory.
const PLACES: [&str; 4] = [
    "git_data_path",
    "relay_data_path",
    "database_url",
    "git_program",
];

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

/// The arguments of a command that reads or changes the tables of a cluster.
fn of_cluster(command: clap::Command) -> clap::Command {
    command
        .arg(json("Print JSON"))
        .arg(config_file())
        .args(["data_dir", "database_url", "cluster_name"].map(plain_option))
}

/// The arguments of a command that asks a running node, which is named by its URL or by its data directory.
fn asking(command: clap::Command) -> clap::Command {
    let json = json("Print the node's answer as it is");
    let data_dir = plain_option("data_dir");
    command
        .arg(url())
        .arg(json)
        .arg(config_file())
        .arg(data_dir)
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
        None => "",
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Commands without `--json`, each with the reason.
    const WITHOUT_JSON: &[(&str, &str)] = &[
        ("serve", "it prints logs, which log_format makes JSON"),
        ("credential", "git reads its lines"),
        ("remote-helper", "git reads its lines"),
        ("completions", "a shell reads its script"),
        ("man", "man reads its pages"),
    ];

    /// Commands that list, of which `--limit` says how much.
    const LISTS: &[&str] = &[
        "archive log",
        "backup",
        "cluster status",
        "holding ls",
        "index repo",
        "index sources",
        "index status",
        "index sumdb",
        "ingest gaps",
        "ingest status",
        "pins",
        "purgatory ls",
        "queue causes",
        "queue ls",
        "repos blocks",
        "repos ls",
        "repos size",
        "resolve",
        "sync status",
    ];

    /// Every command that does something, with the words that name it.
    fn leaves() -> Vec<(String, clap::Command)> {
        let mut leaves = Vec::new();
        for command in command().get_subcommands() {
            let name = command.get_name();
            if command.has_subcommands() {
                let below = command.get_subcommands();
                leaves.extend(
                    below.map(|leaf| (format!("{name} {}", leaf.get_name()), leaf.clone())),
                );
            } else {
                leaves.push((name.to_owned(), command.clone()));
            }
        }
        leaves
    }

    fn takes(command: &clap::Command, argument: &str) -> bool {
        command.get_arguments().any(|it| it.get_id() == argument)
    }

    #[test]
    fn every_command_takes_json_but_those_whose_output_another_program_reads() {
        let without = leaves()
            .into_iter()
            .filter(|(_, leaf)| !takes(leaf, "json"));
        let mut without: Vec<String> = without.map(|(name, _)| name).collect();
        without.sort();
        let mut expected: Vec<&str> = WITHOUT_JSON.iter().map(|(name, _)| *name).collect();
        expected.sort_unstable();
        assert_eq!(without, expected);
    }

    #[test]
    fn every_command_that_lists_takes_a_limit() {
        let with = leaves()
            .into_iter()
            .filter(|(_, leaf)| takes(leaf, "limit"));
        let mut with: Vec<String> = with.map(|(name, _)| name).collect();
        with.sort();
        assert_eq!(with, LISTS);
    }
}
