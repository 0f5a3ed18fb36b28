//! Rules for texts: nothing left open, no path of one machine, no dead link, no test named that is
//! gone, the field's words.

use std::{collections::BTreeSet, fs, path::Path};

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

/// Words that the field has better ones for (docs/glossary.md), in code and templates. Most were
/// used for several things at once, which is why readers looked in the wrong file.
const DIALECT: &[(&str, &str)] = &[
    ("enum Trouble", "a failure is an `Error` of its operation"),
    ("enum Standing", "how something is at present is a `Status`"),
    (
        "struct Standing",
        "how something is at present is a `Status`",
    ),
    (
        "struct Asked",
        "a request with its sender is a `RequestContext`",
    ),
    (
        "enum Heard",
        "what a client or peer sends back is a `Response`",
    ),
    ("struct Shelf", "records for others are in a `RecordStore`"),
    (
        "struct Seat",
        "a right that frees itself on drop is a `Permit`",
    ),
    (
        "struct Spare",
        "a right that frees itself on drop is a `Permit`",
    ),
    (
        "struct Ticket",
        "a right that frees itself on drop is a `Permit`",
    ),
    (
        "struct Slot",
        "a right that frees itself on drop is a `Permit`",
    ),
    (
        "struct Books",
        "shared bookkeeping of a limit is a `Ledger`",
    ),
    (
        "fn patiently",
        "trying again on conflict is `retry_on_conflict`",
    ),
    ("true => ", "a boolean is read with `if`, not with `match`"),
    (" of late", "say `recent`"),
    (" in vain", "say `failed`"),
];

/// First words of a module doc that tell nothing of what is in the file.
const VAGUE_OPENINGS: &[(&str, &str)] = &[
    ("//! What ", "a module doc opens with a noun phrase"),
    ("//! Who ", "a module doc opens with a noun phrase"),
    ("//! How ", "a module doc opens with a noun phrase"),
    ("//! Whatever ", "a module doc opens with a noun phrase"),
];

/// Looks through every tracked text.
pub(super) fn check(_: &Metadata) -> anyhow::Result<String> {
    let listed = run::output(run::command("git").args(["ls-files", "-z", "--cached"]))?;
    let mut wrong = Vec::new();
    let mut count = 0;
    let (mut functions, mut named) = (BTreeSet::new(), Vec::new());
    for name in listed.split('\0').filter(|name| is_text(name)) {
        // A file that is listed and gone is about to be removed.
        let Ok(text) = fs::read_to_string(run::root().join(name)) else {
            continue;
        };
        count += 1;
        let is_code = name.ends_with(".rs") || name.ends_with(".html");
        // The list of these words is the one place that must have them.
        let dialect = if is_code && !name.ends_with("check/text.rs") {
            DIALECT
        } else {
            &[]
        };
        if is_code && let Some(line) = text.lines().next() {
            wrong.extend(complaints(line, VAGUE_OPENINGS).map(|why| format!("{name}:1: {why}")));
        }
        for (index, line) in text.lines().enumerate() {
            let found = complaints(line, FORBIDDEN).chain(complaints(line, dialect));
            wrong.extend(found.map(|why| format!("{name}:{}: {why}", index + 1)));
        }
        if name.ends_with(".md") {
            wrong.extend(dead_links(name, &text));
            named.extend(named_tests(&text).map(|test| (name, test.to_owned())));
        } else if name.ends_with(".rs") {
            functions.extend(text.split("fn ").skip(1).filter_map(identifier));
        }
    }
    let gone = named.iter().filter(|(_, test)| !functions.contains(test));
    wrong.extend(gone.map(|(name, test)| format!("{name}: there is no test {test}")));
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

fn complaints(line: &str, words: &'static [(&str, &str)]) -> impl Iterator<Item = String> {
    words
        .iter()
        .filter(move |(word, _)| line.contains(word))
        .map(|(word, why)| format!("`{}`: {why}", word.trim()))
}

/// The name that `text` begins with.
fn identifier(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
    Some(text[..end].to_owned())
}

/// Names of tests in a document: long, all lower case, in backticks.
fn named_tests(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2).filter(|name| {
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        name.bytes().all(is_name) && name.matches('_').count() >= 6
    })
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
        assert_eq!(
            complaints(concat!("// TO", "DO: later"), FORBIDDEN).count(),
            1
        );
        assert_eq!(complaints(concat!("see /ro", "ot/x"), FORBIDDEN).count(), 1);
        assert_eq!(complaints("a line like any other", FORBIDDEN).count(), 0);
    }

    #[test]
    fn names_of_tests_are_told_from_other_code() {
        let text = "`a_push_of_two_refs_is_atomic` keeps it; `breaker_state` is a metric";
        let found: Vec<_> = named_tests(text).collect();
        assert_eq!(found, ["a_push_of_two_refs_is_atomic"]);
        let function = identifier("a_push_of_two_refs_is_atomic() {");
        assert_eq!(function.as_deref(), Some(found[0]));
    }

    #[test]
    fn links_are_found() {
        let found: Vec<_> = links("see [a](docs/a.md#x) and [b](https://x)").collect();
        assert_eq!(found, ["docs/a.md#x", "https://x"]);
    }
}
