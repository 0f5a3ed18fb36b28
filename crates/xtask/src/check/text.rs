//! Rules for texts: nothing left open, no path of one machine, no dead link, no file or test named
//! that is gone, the field's words.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::bail;
use cargo_metadata::Metadata;

use super::files;
use crate::run;

/// What must not be in any text of ours, and why. Written in halves, for this file is one of them.
const FORBIDDEN: &[Rule] = &[
    Rule {
        words: &[
            concat!("TO", "DO"),
            concat!("FIX", "ME"),
            concat!("XX", "X "),
        ],
        why: "open work is an issue, not a comment",
    },
    Rule {
        words: &[concat!("/ro", "ot/"), concat!("/ho", "me/")],
        why: "a path of one machine",
    },
    Rule {
        words: &[concat!("<<<<", "<<< ")],
        why: "a merge that was not finished",
    },
];

/// Words that must not be in a line, and the reason.
struct Rule {
    words: &'static [&'static str],
    why: &'static str,
}

/// Words that the field has better ones for (docs/glossary.md), in code and templates. Most were
/// used for several things at once, which is why readers looked in the wrong file.
const DIALECT: &[Rule] = &[
    Rule {
        words: &["enum Trouble"],
        why: "a failure is an `Error` of its operation",
    },
    Rule {
        words: &["enum Standing", "struct Standing"],
        why: "how something is at present is a `Status`",
    },
    Rule {
        words: &["struct Asked"],
        why: "a request with its sender is a `RequestContext`",
    },
    Rule {
        words: &["enum Heard"],
        why: "what a client or peer sends back is a `Response`",
    },
    Rule {
        words: &["struct Shelf"],
        why: "records for others are in a `RecordStore`",
    },
    Rule {
        words: &[
            "struct Seat",
            "struct Spare",
            "struct Ticket",
            "struct Slot",
            "struct HostSlot",
            "struct Reservation",
        ],
        why: "a right that frees itself on drop is a `Permit`",
    },
    Rule {
        words: &["enum Breaker "],
        why: "the state of a circuit breaker is `grip_limits::BreakerState`",
    },
    Rule {
        words: &["struct Books"],
        why: "shared bookkeeping of a limit is a `Ledger`",
    },
    Rule {
        words: &["fn patiently"],
        why: "trying again on conflict is `retry_on_conflict`",
    },
    Rule {
        words: &["true => "],
        why: "a boolean is read with `if`, not with `match`",
    },
    Rule {
        words: &[" of late"],
        why: "say `recent`",
    },
    Rule {
        words: &[" in vain"],
        why: "say `failed`",
    },
];

/// What must not be in shipped code.
const SHIPPED: &[Rule] = &[Rule {
    words: &[concat!(":02", "x}")],
    why: "bytes are written in hex by `faster_hex`",
}];

/// First words of a module doc that tell nothing of what is in the file.
const VAGUE_OPENINGS: &[Rule] = &[Rule {
    words: &["//! What ", "//! Who ", "//! How ", "//! Whatever "],
    why: "a module doc opens with a noun phrase",
}];

/// Looks through every tracked text.
pub(super) fn check(_: &Metadata) -> anyhow::Result<String> {
    let listed = run::output(run::command("git").args(["ls-files", "-z", "--cached"]))?;
    let mut wrong = Vec::new();
    let mut count = 0;
    let (mut declared, mut named) = (BTreeSet::new(), Vec::new());
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
        for (index, line) in shipped(name, &text).enumerate() {
            let found = complaints(line, SHIPPED);
            wrong.extend(found.map(|why| format!("{name}:{}: {why}", index + 1)));
        }
        if name.ends_with(".md") {
            wrong.extend(dead_links(name, &text));
            let gone = named_sources(&text).filter(|path| !is_source(path, &listed));
            wrong.extend(gone.map(|path| format!("{name}: there is no file {path}")));
            named.extend(named_tests(&text).map(|test| (name, test.to_owned())));
        } else if name.ends_with(".rs") {
            declared.extend(
                text.split("fn ")
                    .skip(1)
                    .filter_map(identifier)
                    .map(str::to_owned),
            );
            // Settings may have names as long as those of tests.
            if name.ends_with("config/options.rs") {
                let fields = text.lines().filter_map(|line| line.trim().split_once(':'));
                declared.extend(fields.map(|(field, _)| field.to_owned()));
            }
        }
    }
    let gone = named.iter().filter(|(_, test)| !declared.contains(test));
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

/// The lines of a file that are in the shipped programs.
fn shipped<'a>(name: &str, text: &'a str) -> impl Iterator<Item = &'a str> {
    let unshipped = [
        "grip-testkit/",
        "grip-bench/",
        "grip-conformance/",
        "xtask/",
    ];
    let is_shipped = name.ends_with(".rs")
        && name.contains("/src/")
        && !files::is_test(Path::new(name))
        && !unshipped.iter().any(|dir| name.contains(dir));
    let lines = files::shipped_lines(text);
    text.lines().take(if is_shipped { lines } else { 0 })
}

fn complaints(line: &str, rules: &'static [Rule]) -> impl Iterator<Item = String> {
    let words = |rule: &'static Rule| rule.words.iter().map(move |word| (word, rule.why));
    let words = rules.iter().flat_map(words);
    words
        .filter(move |(word, _)| line.contains(*word))
        .map(|(word, why)| format!("`{}`: {why}", word.trim()))
}

/// The name that `text` begins with.
pub(super) fn identifier(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
    Some(&text[..end])
}

/// Names of tests in a document: long, all lower case, in backticks.
fn named_tests(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2).filter(|name| {
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        name.bytes().all(is_name) && name.matches('_').count() >= 6
    })
}

/// Source files and their folders in a document: in backticks, such as `grip-git/src/packs.rs`,
/// `grip-web/src/pages/` and, beside one of these, `load.rs`.
fn named_sources(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2).filter(|name| {
        let is_path = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
        let is_folder = name.ends_with('/') && name.contains("/src/");
        name.bytes().all(is_path) && (name.ends_with(".rs") || is_folder)
    })
}

/// Says whether a tracked file is at this path or below it; the path may leave out its beginning.
fn is_source(path: &str, listed: &str) -> bool {
    let path = path.trim_end_matches('/');
    let mut places = listed.split('\0').flat_map(|file| {
        let starts = file.match_indices(path).map(move |(start, _)| start);
        starts.map(move |start| (&file[..start], &file[start + path.len()..]))
    });
    places.any(|(before, after)| {
        let begins = before.is_empty() || before.ends_with('/');
        begins && (after.is_empty() || after.starts_with('/'))
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
        let count = |line| complaints(line, FORBIDDEN).count();
        assert_eq!(count(concat!("// TO", "DO: later")), 1);
        assert_eq!(count(concat!("see /ro", "ot/x")), 1);
        assert_eq!(count("a line like any other"), 0);
    }

    #[test]
    fn hex_is_written_by_hand_in_tests_alone() {
        let text = concat!(
            "format!(\"{b:02",
            "x}\")\n#[cfg(test)]\nformat!(\"{b:02",
            "x}\")"
        );
        let count = |name| {
            let lines = shipped(name, text);
            lines.flat_map(|line| complaints(line, SHIPPED)).count()
        };
        assert_eq!(count("crates/a/src/b.rs"), 1);
        for name in [
            "crates/a/src/b/tests.rs",
            "crates/a/src/tests/b.rs",
            "crates/a/tests/b.rs",
            "crates/grip-testkit/src/b.rs",
        ] {
            assert_eq!(count(name), 0, "{name}");
        }
    }

    #[test]
    fn names_of_tests_are_told_from_other_code() {
        let text = "`a_push_of_two_refs_is_atomic` keeps it; `breaker_state` is a metric";
        let found: Vec<_> = named_tests(text).collect();
        assert_eq!(found, ["a_push_of_two_refs_is_atomic"]);
        let function = identifier("a_push_of_two_refs_is_atomic() {");
        assert_eq!(function, Some(found[0]));
    }

    #[test]
    fn files_that_a_document_names_have_to_be_there() {
        let text = "`a/src/b.rs`, `c.rs` or `a/src/d/`; not `a/<name>.rs`, `data/` or `a.b`";
        let named: Vec<_> = named_sources(text).collect();
        assert_eq!(named, ["a/src/b.rs", "c.rs", "a/src/d/"]);
        let listed = "crates/a/src/b.rs\0crates/a/src/xc.rs\0crates/a/src/d/e.rs\0";
        let found = named.iter().map(|path| is_source(path, listed));
        assert_eq!(found.collect::<Vec<_>>(), [true, false, true]);
    }

    #[test]
    fn links_are_found() {
        let found: Vec<_> = links("see [a](docs/a.md#x) and [b](https://x)").collect();
        assert_eq!(found, ["docs/a.md#x", "https://x"]);
    }
}
