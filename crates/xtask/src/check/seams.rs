//! The table of write paths in ARCHITECTURE.md: it names every method of the commit seam, and no other.

use std::{collections::BTreeSet, fs};

use anyhow::bail;
use cargo_metadata::Metadata;

use super::text::identifier;
use crate::run;

const SEAM: &str = "crates/grip-grasp/src/commit.rs";
const DOCUMENT: &str = "ARCHITECTURE.md";

pub(super) fn check(_: &Metadata) -> anyhow::Result<String> {
    let read = |name: &str| fs::read_to_string(run::root().join(name));
    let (code, document) = (read(SEAM)?, read(DOCUMENT)?);
    let (methods, named) = (methods(&code), named(&document));
    let missing = methods.difference(&named);
    let missing = missing.map(|name| format!("{DOCUMENT}: `Commit::{name}` is in no row"));
    let gone = named.difference(&methods);
    let gone = gone.map(|name| format!("{DOCUMENT}: there is no `Commit::{name}`"));
    let wrong: Vec<String> = missing.chain(gone).collect();
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(format!("{} methods", methods.len()))
}

/// The methods that the rest of the crate may call, but the constructor.
fn methods(code: &str) -> BTreeSet<&str> {
    let declared = code.lines().filter_map(|line| {
        let line = line.strip_prefix("    pub(crate) ")?;
        let line = line.strip_prefix("async ").unwrap_or(line);
        identifier(line.strip_prefix("fn ")?)
    });
    declared.filter(|name| *name != "new").collect()
}

/// The methods that the document names.
fn named(document: &str) -> BTreeSet<&str> {
    let after = document.split("`Commit::").skip(1);
    after.filter_map(identifier).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_found_in_code_and_document() {
        let code = "    pub(crate) fn new(x: X) -> Self {\n    pub(crate) async fn held(\n    fn change<T>(\n    \
                    pub(crate) fn refs(&self)";
        assert_eq!(methods(code), BTreeSet::from(["held", "refs"]));
        let document = "| a | `Commit::held`, with `Commit::permit` |\n| b | `Repositories::x` |";
        assert_eq!(named(document), BTreeSet::from(["held", "permit"]));
    }
}
