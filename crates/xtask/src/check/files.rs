//! Source files: each is reached from a target, and no test in them is switched off.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use cargo_metadata::Metadata;

use crate::run;

/// Above this, a file is probably two things.
const LONG: usize = 400;

/// Finds files that nobody compiles and tests that nobody runs.
pub(super) fn check(metadata: &Metadata) -> anyhow::Result<String> {
    let mut reached = BTreeSet::new();
    let mut wrong = Vec::new();
    for package in metadata.workspace_packages() {
        for target in &package.targets {
            reach(target.src_path.as_std_path(), true, &mut reached)?;
        }
    }
    let sources = sources(metadata)?;
    for path in &sources {
        if !reached.contains(path) {
            wrong.push(format!(
                "{} is named by no `mod`: nobody compiles it",
                shown(path)
            ));
        }
        for (index, line) in fs::read_to_string(path)?.lines().enumerate() {
            if line.trim_start().starts_with(concat!("#[", "ignore")) {
                wrong.push(format!("{}:{}: a test is left out", shown(path), index + 1));
            }
        }
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(format!("{} files", sources.len()))
}

/// Files with more shipped lines than is good for them.
pub(super) fn long(metadata: &Metadata) -> anyhow::Result<Vec<(String, usize)>> {
    let mut found = Vec::new();
    for path in sources(metadata)? {
        let lines = shipped_lines(&fs::read_to_string(&path)?);
        if !is_test(&path) && lines > LONG {
            found.push((shown(&path), lines));
        }
    }
    Ok(found)
}

/// Whether a file has nothing but tests.
pub(super) fn is_test(path: &Path) -> bool {
    path.components().any(|c| c.as_os_str() == "tests")
        || path.file_name().is_some_and(|name| name == "tests.rs")
}

/// Lines before the inline tests.
pub(super) fn shipped_lines(text: &str) -> usize {
    text.lines()
        .take_while(|line| *line != "#[cfg(test)]")
        .count()
}

pub(super) fn sources(metadata: &Metadata) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for package in metadata.workspace_packages() {
        let dir = package
            .manifest_path
            .parent()
            .context("a manifest lies in a directory")?;
        for part in ["src", "tests", "benches", "examples"] {
            collect(&dir.as_std_path().join(part), &mut found)?;
        }
    }
    found.sort();
    Ok(found)
}

fn collect(dir: &Path, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if !dir.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, found)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

/// Follows `mod name;` from `file` down.
fn reach(file: &Path, is_root: bool, reached: &mut BTreeSet<PathBuf>) -> anyhow::Result<()> {
    if !reached.insert(file.to_owned()) {
        return Ok(());
    }
    let text = fs::read_to_string(file).with_context(|| shown(file))?;
    let parent = file.parent().context("a file lies in a directory")?;
    let dir = if is_root {
        parent.to_owned()
    } else {
        parent.join(file.file_stem().unwrap_or_default())
    };
    for name in modules(&text) {
        for candidate in [
            dir.join(format!("{name}.rs")),
            dir.join(name).join("mod.rs"),
        ] {
            if candidate.is_file() {
                reach(&candidate, false, reached)?;
            }
        }
    }
    Ok(())
}

/// The names of `mod name;` lines.
fn modules(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let line = line.trim();
        let line = line
            .strip_prefix("pub ")
            .or_else(|| line.strip_prefix("pub(crate) "))
            .unwrap_or(line);
        let line = line.strip_prefix("pub(super) ").unwrap_or(line);
        line.strip_prefix("mod ")?
            .split_once(';')
            .map(|(name, _)| name.trim())
    })
}

pub(super) fn shown(path: &Path) -> String {
    path.strip_prefix(run::root())
        .unwrap_or(path)
        .display()
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_no_mod_names_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            path
        };
        let root = write("lib.rs", "mod a;\npub(crate) mod b; // why\nmod c { }\n");
        let a = write("a.rs", "mod deep;\n");
        let b = write("b.rs", "");
        let deep = write("a/deep.rs", "");
        let forgotten = write("forgotten.rs", "");
        let mut reached = BTreeSet::new();
        reach(&root, true, &mut reached).unwrap();
        assert_eq!(reached, BTreeSet::from([root, a, b, deep]));
        assert!(!reached.contains(&forgotten));
    }

    #[test]
    fn inline_tests_are_not_shipped() {
        assert_eq!(
            shipped_lines("fn a() {}\n\n#[cfg(test)]\nmod tests {}\n"),
            2
        );
    }
}
