//! The reference page and the example file, made from the options.

use std::fmt::Write as _;

use super::{
    Opt, Shape,
    options::{self, GROUPS},
};

/// The text of `docs/configuration.md`.
pub(crate) fn markdown() -> String {
    let mut out = String::from(MARKDOWN_HEAD);
    for group in GROUPS {
        let _ = write!(out, "\n## {}\n", group.title);
        out.extend(group.options.iter().map(markdown_entry));
    }
    out.push_str(
        "\n## All environment variables\n\n| variable | option | default |\n|---|---|---|\n",
    );
    for option in options::all() {
        let (names, default) = (env_names(option), default(option));
        let _ = writeln!(out, "| {names} | `{}` | {default} |", option.key);
    }
    out
}

const MARKDOWN_HEAD: &str = "\
<!-- Made from crates/gripfast/src/config/options.rs by `cargo xtask docs`; edit that file. -->

# Configuration

gripfast needs no configuration to run on one machine. To be reached from elsewhere it needs a
`domain`.

Values come from, strongest first:

1. flags (`--bind-address 127.0.0.1:7334`),
2. the environment (`GRIPFAST_BIND_ADDRESS`, and `NGIT_BIND_ADDRESS` where ngit-grasp has the option; the first wins; the database is also found by `DATABASE_URL`),
3. a `.env` file in the working directory,
4. the file named by `--config` or `GRIPFAST_CONFIG`, or else `gripfast.toml` in the configuration
   directory of a systemd unit (`CONFIGURATION_DIRECTORY`), or else in the working directory,
5. defaults.

An empty value is the same as none. A name that starts like ours but is none is named in a
warning; a value that cannot be used ends the program with exit code 64 and a sentence that says
where it stands. `gripfast config` prints the effective configuration and where each value came
from.

`kill -HUP` (or `systemctl reload`) reads everything again. Options marked *live* change at once,
for the others the log says that they need a restart; if anything is wrong, all stays as it was.
";

fn env_names(option: &Opt) -> String {
    let names = option.env_names();
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

fn default(option: &Opt) -> String {
    match (option.default, option.derived) {
        (Some(text), _) => format!("`{text}`"),
        (None, how) => how.unwrap_or("none").to_owned(),
    }
}

fn markdown_entry(option: &Opt) -> String {
    let (key, help, kind) = (option.key, option.help(), (option.describe)());
    let (flag, names, default) = (option.flag(), env_names(option), default(option));
    let live = if option.live { " · live" } else { "" };
    let note = match option.meaningless {
        Some(why) => format!("**Accepted, means nothing here:** {why}. "),
        None => String::new(),
    };
    format!(
        "\n### `{key}`\n\n{note}{help}\n\n`--{flag}` · {names} · {kind} · default: {default}{live}\n"
    )
}

/// The text of `gripfast.example.toml`: every option, commented out, at its default.
pub(crate) fn example() -> String {
    let mut out = String::from(
        "# Example configuration of gripfast. Every line that sets something is commented out and\n\
         # shows the default, or an example where there is none. Copy it to gripfast.toml.\n\
         # Made by `cargo xtask docs`; the reference is docs/configuration.md.\n",
    );
    for group in GROUPS {
        // A secret is better not written into a file that others may read.
        let is_secret = |o: &Opt| matches!(o.shape, Shape::Secret | Shape::SecretList);
        let shown = group.options.iter();
        let shown = shown.filter(|o| o.has_effect() && !is_secret(o));
        if shown.clone().next().is_some() {
            let _ = write!(out, "\n# --- {} ---\n", group.title);
        }
        for option in shown {
            out.push('\n');
            for line in wrap(option.help(), 96) {
                let _ = writeln!(out, "# {line}");
            }
            let _ = writeln!(out, "# {} = {}", option.key, example_value(option));
        }
    }
    out
}

fn example_value(option: &Opt) -> String {
    let quoted = |text: &str| format!("\"{text}\"");
    let text = option.default.or(option.example).unwrap_or_default();
    match option.shape {
        Shape::Bool | Shape::Number => text.to_owned(),
        Shape::List => {
            let items = text.split(',').filter(|item| !item.is_empty());
            format!("[{}]", items.map(quoted).collect::<Vec<_>>().join(", "))
        }
        _ => quoted(text),
    }
}

fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= width => *line += &format!(" {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
