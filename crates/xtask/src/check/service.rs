//! Inventory of tasks and bounds: every task is in its table, every channel and semaphore too, and
//! docs/service.md shows both as they are.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use anyhow::{Context as _, bail};
use cargo_metadata::Metadata;

use super::{files, layers};
use crate::run;

const DOCUMENT: &str = "docs/service.md";
const TASKS: &str = "crates/grip-web/tasks.tsv";
const BOUNDS: &str = "crates/xtask/bounds.tsv";

/// What makes something that can be full. Oneshots hold one value and are left out.
const MAKERS: &[&str] = &[
    "mpsc::channel(",
    "watch::channel(",
    "watch::Sender::new(",
    "broadcast::channel(",
    "broadcast::Sender::new(",
    "crossbeam_channel::bounded(",
    "crossbeam_channel::bounded::<",
    "sync_channel(",
    "Semaphore::new(",
];

/// What starts a task; its kind is the first text that follows.
const STARTERS: &[&str] = &["spawn(", "spawn_blocking(", "blocking(", "Periodic::start("];

/// Fails where something runs or waits that the tables do not know, or the other way round.
pub(super) fn check(metadata: &Metadata) -> anyhow::Result<String> {
    let sources = shipped(metadata)?;
    let (tasks, bounds) = (Tsv::<3>::read(TASKS)?, Tsv::<4>::read(BOUNDS)?);
    let mut wrong = compare_tasks(&sources, &tasks);
    wrong.extend(compare_bounds(&sources, &bounds));
    let text = fs::read_to_string(run::root().join(DOCUMENT)).unwrap_or_default();
    if filled(&text, &parts(&sources, &tasks, &bounds))? != text {
        wrong.push(format!("{DOCUMENT} is out of date: run `cargo xtask docs`"));
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    let (tasks, bounds) = (tasks.0.len(), bounds.0.len());
    Ok(format!("{tasks} kinds of tasks, {bounds} bounds"))
}

/// Writes the two tables into the document again.
pub(crate) fn write(metadata: &Metadata) -> anyhow::Result<()> {
    let sources = shipped(metadata)?;
    let (tasks, bounds) = (Tsv::<3>::read(TASKS)?, Tsv::<4>::read(BOUNDS)?);
    let path = run::root().join(DOCUMENT);
    let text = fs::read_to_string(&path)?;
    fs::write(path, filled(&text, &parts(&sources, &tasks, &bounds))?)?;
    println!("wrote {DOCUMENT}");
    Ok(())
}

/// Shipped code by path: without tests, and without comments.
type Sources = BTreeMap<String, String>;

fn shipped(metadata: &Metadata) -> anyhow::Result<Sources> {
    let mut found = Sources::new();
    for path in files::sources(metadata)? {
        let name = files::shown(&path);
        let parts: Vec<&str> = name.split('/').collect();
        let is_shipped = parts.get(1).is_some_and(|krate| layers::is_shipped(krate))
            && parts.get(2) == Some(&"src")
            && !parts
                .iter()
                .any(|part| part.starts_with("test") || *part == "models.rs");
        if is_shipped {
            found.insert(name, code(&fs::read_to_string(&path)?));
        }
    }
    Ok(found)
}

fn code(text: &str) -> String {
    let lines = text.lines().take_while(|line| *line != "#[cfg(test)]");
    let lines = lines.filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Lines of columns that are separated by tabs.
struct Tsv<const N: usize>(Vec<[String; N]>);

impl<const N: usize> Tsv<N> {
    fn read(path: &str) -> anyhow::Result<Self> {
        let text = fs::read_to_string(run::root().join(path)).context(path.to_owned())?;
        let rows = text.lines().map(|line| {
            let columns: Vec<String> = line.split('\t').map(str::to_owned).collect();
            <[String; N]>::try_from(columns)
                .map_err(|_| anyhow::anyhow!("{path}: {N} columns are due: {line}"))
        });
        Ok(Self(rows.collect::<anyhow::Result<_>>()?))
    }
}

fn compare_tasks(sources: &Sources, tasks: &Tsv<3>) -> Vec<String> {
    let known: BTreeSet<&str> = tasks.0.iter().map(|row| row[0].as_str()).collect();
    let started: BTreeSet<String> = sources.values().flat_map(|text| kinds(text)).collect();
    let unlisted = started.iter().filter(|kind| !known.contains(kind.as_str()));
    let mut wrong: Vec<String> = unlisted
        .map(|kind| format!("{TASKS} lacks the task {kind:?}"))
        .collect();
    for kind in known {
        let written = format!("\"{kind}\"");
        if !sources.values().any(|text| text.contains(&written)) {
            wrong.push(format!("{TASKS} lists {kind:?}, which nobody starts"));
        }
    }
    wrong
}

/// The kinds of the tasks that `text` starts.
fn kinds(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for starter in STARTERS {
        for (at, _) in text.match_indices(starter) {
            let rest = &text[at + starter.len()..];
            let before_text = rest.split('"').next().unwrap_or_default();
            // The kind is the first argument, or the second after the group.
            let is_near = match *starter {
                "Periodic::start(" => before_text.len() < 60 && !before_text.contains(')'),
                _ => before_text.trim().is_empty(),
            };
            if is_near && let Some(kind) = rest.split('"').nth(1) {
                found.push(kind.to_owned());
            }
        }
    }
    found
}

fn compare_bounds(sources: &Sources, bounds: &Tsv<4>) -> Vec<String> {
    let mut wrong = Vec::new();
    let listed: BTreeSet<(&str, &str)> = bounds.0.iter().map(|row| (&*row[0], &*row[1])).collect();
    let mut made = BTreeSet::new();
    for (path, text) in sources {
        for maker in makers(text) {
            if !listed.contains(&(path.as_str(), maker.as_str())) {
                wrong.push(format!("{BOUNDS} lacks {path}: {maker}"));
            }
            made.insert((path.clone(), maker));
        }
    }
    for (path, maker) in listed {
        if !made.contains(&(path.to_owned(), maker.to_owned())) {
            wrong.push(format!(
                "{BOUNDS} lists {path}: {maker}, which is not there"
            ));
        }
    }
    wrong
}

/// Every call that makes a channel or a bound, with its arguments, on one line.
fn makers(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for maker in MAKERS {
        for (at, _) in text.match_indices(maker) {
            let rest = &text[at..];
            let mut depth = 0;
            let end = rest.char_indices().find(|(_, c)| {
                depth += i32::from(*c == '(') - i32::from(*c == ')');
                *c == ')' && depth == 0
            });
            if let Some((end, _)) = end {
                let call = rest[..=end]
                    .split_whitespace()
                    .collect::<Vec<_>>()
                    .join(" ");
                found.push(call);
            }
        }
    }
    found
}

/// The number behind the one constant that a call names, if it names one.
fn capacity(call: &str, text: &str) -> Option<String> {
    let argument = call.split_once('(')?.1.strip_suffix(')')?;
    let name = argument.rsplit("::").next()?;
    let is_constant = !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    let line = text
        .lines()
        .find(|line| line.contains(&format!("const {name}: ")))?;
    let value = line.split_once("= ")?.1.trim_end_matches(';');
    is_constant.then(|| value.to_owned())
}

/// The two tables as they should be, by the name of their place in the document.
fn parts(sources: &Sources, tasks: &Tsv<3>, bounds: &Tsv<4>) -> [(&'static str, String); 2] {
    let mut listed = String::from("| task | weight | what it does |\n|---|---|---|\n");
    for [kind, weight, what] in &tasks.0 {
        listed += &format!("| `{kind}` | {weight} | {what} |\n");
    }
    let mut bounded =
        String::from("| where | made by | bound | when it is reached |\n|---|---|---|---|\n");
    for [path, call, bound, policy] in &bounds.0 {
        let short = path.strip_prefix("crates/").unwrap_or(path);
        let found = sources.get(path).and_then(|text| capacity(call, text));
        let bound = found.map_or_else(|| bound.clone(), |n| format!("{n}: {bound}"));
        bounded += &format!("| `{short}` | `{call}` | {bound} | {policy} |\n");
    }
    [("tasks", listed), ("bounds", bounded)]
}

/// The document with each part between its marks replaced.
fn filled(text: &str, parts: &[(&str, String)]) -> anyhow::Result<String> {
    let mut text = text.to_owned();
    for (name, part) in parts {
        let (begin, end) = (
            format!("<!-- {name}: made by `cargo xtask docs` -->\n"),
            "<!-- end -->",
        );
        let (head, rest) = text
            .split_once(&begin)
            .with_context(|| format!("{DOCUMENT} has no place for {name}"))?;
        let (_, tail) = rest
            .split_once(end)
            .with_context(|| format!("{DOCUMENT}: the place for {name} does not end"))?;
        text = format!("{head}{begin}{part}{end}{tail}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(text: &str) -> Sources {
        Sources::from([("crates/a/src/lib.rs".to_owned(), code(text))])
    }

    #[test]
    fn a_channel_that_is_not_in_the_table_and_a_row_without_a_channel_are_found() {
        let text = "let x = mpsc::channel(\n    limits.a.max(1),\n);\n// mpsc::channel(9)\n";
        let row = |call: &str| ["crates/a/src/lib.rs", call, "1", "waits"].map(str::to_owned);
        let held = Tsv(vec![row("mpsc::channel( limits.a.max(1), )")]);
        assert_eq!(compare_bounds(&sources(text), &held), Vec::<String>::new());
        let stale = Tsv(vec![row("mpsc::channel(OLD)")]);
        assert_eq!(compare_bounds(&sources(text), &stale).len(), 2);
    }

    #[test]
    fn a_task_that_is_not_in_the_inventory_is_found() {
        let text = "group.spawn(\n    \"new\",\n x);\nPeriodic::start(&core.group, \"sweep\", y);\n\
                    self.spawn(kind, z(\"no\"));\n";
        assert_eq!(kinds(text), ["new", "sweep"]);
        let known = Tsv(vec![["sweep", "background", "x"].map(str::to_owned)]);
        assert_eq!(compare_tasks(&sources(text), &known).len(), 1);
    }

    #[test]
    fn the_number_of_a_constant_is_looked_up() {
        let text = "const QUEUE: usize = 1024;\n";
        assert_eq!(
            capacity("mpsc::channel(QUEUE)", text).as_deref(),
            Some("1024")
        );
        assert_eq!(capacity("mpsc::channel(queue)", text), None);
    }

    #[test]
    fn only_what_is_between_the_marks_is_replaced() {
        let text = "a\n<!-- tasks: made by `cargo xtask docs` -->\nold\n<!-- end -->\nb\n";
        let new = filled(text, &[("tasks", "new\n".to_owned())]).unwrap();
        assert_eq!(new, text.replace("old", "new"));
        assert!(filled("", &[("tasks", String::new())]).is_err());
    }
}
