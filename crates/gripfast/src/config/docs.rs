//! The reference page and the example file, made from the table.

use std::fmt::Write as _;

use super::{Group, Kind, Opt, Reload, Status, option::Default as OptDefault, table::OPTIONS};

/// The text of `docs/configuration.md`.
pub(crate) fn markdown() -> String {
    let mut out = String::from(MARKDOWN_HEAD);
    for group in Group::ALL {
        let _ = write!(out, "\n## {}\n", group.title());
        for option in of(group) {
            out.push_str(&markdown_entry(option));
        }
    }
    out.push_str(
        "\n## All environment variables\n\n| variable | option | default |\n|---|---|---|\n",
    );
    for option in OPTIONS {
        let names: Vec<_> = option
            .env_names()
            .iter()
            .map(|n| format!("`{n}`"))
            .collect();
        let _ = writeln!(
            out,
            "| {} | `{}` | {} |",
            names.join(", "),
            option.key,
            default(option)
        );
    }
    out
}

const MARKDOWN_HEAD: &str = "\
<!-- Made from the table in crates/gripfast/src/config/table.rs by `cargo xtask docs`; edit that. -->

# Configuration

gripfast needs no configuration to run on one machine. To be reached from elsewhere it needs a
`domain`.

Values come from, strongest first:

1. flags (`--bind-address 127.0.0.1:7334`),
2. the environment (`GRIPFAST_BIND_ADDRESS`, and `NGIT_BIND_ADDRESS` where ngit-grasp has the option; the first wins; the database is also found by `DATABASE_URL`),
3. a `.env` file in the working directory,
4. `gripfast.toml` in the working directory, or the file named by `--config` or `GRIPFAST_CONFIG`,
5. defaults.

An empty value is the same as none. A name that starts like ours but is none is named in a
warning; a value that cannot be used ends the program with exit code 64 and a sentence that says
where it stands. `gripfast config` prints the effective configuration and where each value came
from.

`kill -HUP` (or `systemctl reload`) reads everything anew. Options marked *live* change at once,
for the others the log says that they need a restart; if anything is wrong, all stays as it was.
";

fn of(group: Group) -> impl Iterator<Item = &'static Opt> {
    OPTIONS.iter().filter(move |option| option.group == group)
}

fn default(option: &Opt) -> String {
    match option.default {
        OptDefault::Value(text) => format!("`{text}`"),
        OptDefault::Derived(how) => how.to_owned(),
        OptDefault::Unset => "none".to_owned(),
    }
}

fn markdown_entry(option: &Opt) -> String {
    let mut facts = vec![
        format!("`--{}`", option.flag()),
        option
            .env_names()
            .iter()
            .map(|n| format!("`{n}`"))
            .collect::<Vec<_>>()
            .join(", "),
        option.kind.describe(),
        format!("default: {}", default(option)),
    ];
    if option.reload == Reload::Live {
        facts.push("live".to_owned());
    }
    let note = match option.status {
        Status::Active => "",
        Status::NoEffectYet => "**Accepted, has no effect yet.** ",
    };
    format!(
        "\n### `{}`\n\n{note}{}\n\n{}\n",
        option.key,
        option.help,
        facts.join(" · ")
    )
}

/// The text of `gripfast.example.toml`: every option, commented out, at its default.
pub(crate) fn example() -> String {
    let mut out = String::from(
        "# Example configuration of gripfast. Every line that sets something is commented out and\n\
         # shows the default, or an example where there is none. Copy it to gripfast.toml.\n\
         # Made by `cargo xtask docs`; the reference is docs/configuration.md.\n",
    );
    for group in Group::ALL {
        let _ = write!(out, "\n# --- {} ---\n", group.title());
        for option in of(group).filter(|o| shows_example(o)) {
            let _ = writeln!(out);
            for line in wrap(option.help, 96) {
                let _ = writeln!(out, "# {line}");
            }
            let _ = writeln!(out, "# {} = {}", option.key, example_value(option));
        }
    }
    // Sections whose options all wait for their feature would be bare headings.
    for group in Group::ALL {
        if of(group).all(|o| o.status != Status::Active) {
            out = out.replace(&format!("\n# --- {} ---\n", group.title()), "");
        }
    }
    out
}

/// A secret is better not written into a file that others may read.
fn shows_example(option: &Opt) -> bool {
    option.status == Status::Active
        && !matches!(option.kind, Kind::Secret | Kind::Secrets | Kind::Tokens)
}

fn example_value(option: &Opt) -> String {
    let text = match (option.default, option.key) {
        (OptDefault::Value(text), _) => text,
        (_, "domain") => "grasp.example.com",
        (_, "git_data_path") => "./data/git",
        (_, "relay_data_path") => "./data/relay",
        (_, "relay_name") => "My grasp relay",
        (_, "relay_owner_nsec_file") => "/etc/gripfast/relay.nsec",
        (_, "relay_contact") => "mailto:operator@example.com",
        (_, "relay_icon") => "https://example.com/icon.png",
        (_, "base_path") => "/git",
        (_, "domain_aliases") => "www.grasp.example.com",
        (_, "sync_host_limits") => "github.com=10/60",
        (_, "redis_url") => "redis://127.0.0.1/",
        (_, "database_url") => "postgres://gripfast@db.example.com/gripfast",
        (_, "node_name") => "harbour-1",
        (_, "index_github") => "github.com/orgs/acme,ghe.example.com",
        (_, "github_token_file") => "/etc/gripfast/github.token",
        (_, "github_webhook_secret_file") => "/etc/gripfast/webhook.secret",
        (_, "watch_github") => "github.com/orgs/acme,github.com/repos/bob/tides",
        (_, "watch_keep_events" | "watch_keep_enriched") => "90days",
        (_, "watch_avatars_store") => "./data/avatars",
        (_, "dht_external") => "/dns4/grasp.example.com/tcp/7335",
        (_, "dht_bootstrap") => EXAMPLE_PEER,
        (_, "resolve_region") => "eu",
        (_, "resolve_deny") => "mirror.example.net",
        (_, "index_modules") => EXAMPLE_MODULES,
        (_, "trusted_proxy_cidrs") => "127.0.0.1,::1",
        (_, "owner_npub") => EXAMPLE_NPUB,
        _ => match option.kind {
            Kind::Npubs => EXAMPLE_NPUB,
            _ => "",
        },
    };
    match option.kind {
        Kind::Bool | Kind::Count { .. } => text.to_owned(),
        kind if kind.is_list() => {
            let items: Vec<_> = text
                .split(',')
                .filter(|t| !t.is_empty())
                .map(quoted)
                .collect();
            format!("[{}]", items.join(", "))
        }
        _ => quoted(text),
    }
}

const EXAMPLE_PEER: &str =
    "/dns4/node.example/tcp/7335/p2p/12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN";
const EXAMPLE_MODULES: &str =
    "go.example.com/tools=npub10xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqpkge6d";
const EXAMPLE_NPUB: &str = "npub10xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqpkge6d";

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always a line");
        if !line.is_empty() && line.len() + 1 + word.len() > width {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}
