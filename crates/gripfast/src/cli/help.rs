//! Texts of the help beside those of single commands and options.

use crate::config::options;

pub(super) const LONG_ABOUT: &str = "\
A self-hosted git node that never shows a claim it cannot prove.

`gripfast` alone serves on http://127.0.0.1:7334 and keeps its data in ./data.";

pub(super) const CREDENTIAL_HELP: &str = "\
Set up once for each private service; then plain git works:

  git config --global credential.https://git.example.com.useHttpPath true
  git config --global credential.https://git.example.com.helper \\
    '!gripfast credential --key-file ~/.config/nostr/key'
  git clone https://git.example.com/npub1…/tides.git

The key never leaves this machine: git gets a signature that opens one repository for a minute.

With --bunker-file instead of --key-file the key stays with a remote signer (NIP-46): the file holds the \
bunker:// URI that it shows, and the first use pairs with it.";

pub(super) const SERVE_HELP: &str = "\
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
            "cluster",
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
";

/// The help of the program: every command with a line, by groups, and examples.
pub(super) fn root_help(root: &clap::Command) -> String {
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
