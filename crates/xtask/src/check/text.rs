//! Texts: nothing left open, nothing of one machine, no link into the void.

use std::{fs, path::Path};

use anyhow::bail;
use cargo_metadata::Metadata;

use crate::run;

/// What must not be in any text of ours, and why. Written in halves, for this file is one of them.
const FORBIDDEN: &[(&str, &str)] = &[
    (concat!("TO", "DO"), "open work is an issue, not a comment"),
    (concat!("FIX", "ME"), "open work is an issue, not a comment"),
    (concat!("XX", "X "), "open work is an issue, not a comment"),
    (concat!("/ro", "ot/"), "a path of one machine"),
    (concat!("/ho", "me/"), "a path of one machine"),
    (concat!("<<<<", "<<< "), "a merge that was not finished"),
];

/// Looks through every tracked text.
pub(super) fn check(_: &Metadata) -> anyhow::Result<String> {
    let listed = run::output(run::command("git").args(["ls-files", "-z", "--cached"]))?;
    let mut wrong = Vec::new();
    let mut count = 0;
    for name in listed.split('\0').filter(|name| is_text(name)) {
        // A file that is listed and gone is about to be removed.
        let Ok(text) = fs::read_to_string(run::root().join(name)) else {
            continue;
        };
        count += 1;
        for (index, line) in text.lines().enumerate() {
            wrong.extend(complaints(line).map(|why| format!("{name}:{}: {why}", index + 1)));
        }
        if name.ends_with(".md") {
            wrong.extend(dead_links(name, &text));
        }
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(format!("{count} texts"))
}

fn is_text(name: &str) -> bool {
    let kinds = [
        "rs", "md", "toml", "sql", "html", "css", "js", "yml", "yaml", "service", "conf",
    ];
    let kind = Path::new(name).extension().and_then(|e| e.to_str());
    kind.is_some_and(|kind| kinds.contains(&kind)) || matches!(name, "justfile" | ".ci/run")
}

fn complaints(line: &str) -> impl Iterator<Item = String> {
    FORBIDDEN
        .iter()
        .filter(|(word, _)| line.contains(word))
        .map(|(word, why)| format!("`{}`: {why}", word.trim()))
}

/// Relative links that lead nowhere.
fn dead_links(name: &str, text: &str) -> Vec<String> {
    let dir = run::root()
        .join(name)
        .parent()
        .map(Path::to_owned)
        .unwrap_or_default();
    links(text)
        .filter(|link| !link.contains("://") && !link.starts_with(['#', '/', '<']))
        .filter(|link| !link.starts_with("mailto:"))
        .map(|link| link.split('#').next().unwrap_or(link))
        .filter(|path| !dir.join(path).exists())
        .map(|path| format!("{name}: the link to {path} leads nowhere"))
        .collect()
}

/// The targets of `[text](target)`.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_work_and_machine_paths_are_found() {
        assert_eq!(complaints(concat!("// TO", "DO: later")).count(), 1);
        assert_eq!(complaints(concat!("see /ro", "ot/x")).count(), 1);
        assert_eq!(complaints("a line like any other").count(), 0);
    }

    #[test]
    fn links_are_found() {
        let found: Vec<_> = links("see [a](docs/a.md#x) and [b](https://x)").collect();
        assert_eq!(found, ["docs/a.md#x", "https://x"]);
    }
}
