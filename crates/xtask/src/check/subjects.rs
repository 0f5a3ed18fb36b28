//! The subject of every source file, as its module doc opens, in docs/files.md.

use std::{collections::BTreeMap, fmt::Write as _, fs};

use anyhow::ensure;
use cargo_metadata::Metadata;

use super::files;
use crate::run;

const DOCUMENT: &str = "docs/files.md";

const HEAD: &str = "# Files and their subjects

The first sentence of each module, written by `cargo xtask docs`. What a symptom has to do with is in
[ARCHITECTURE.md](../ARCHITECTURE.md#where-to-look).
";

/// Fails where the document is not what the sources say.
pub(super) fn check(metadata: &Metadata) -> anyhow::Result<String> {
    let (count, text) = document(metadata)?;
    let kept = fs::read_to_string(run::root().join(DOCUMENT)).unwrap_or_default();
    ensure!(
        kept == text,
        "{DOCUMENT} is out of date: `cargo xtask docs`"
    );
    Ok(format!("{count} files"))
}

/// Writes the document again.
pub(crate) fn write(metadata: &Metadata) -> anyhow::Result<()> {
    fs::write(run::root().join(DOCUMENT), document(metadata)?.1)?;
    println!("wrote {DOCUMENT}");
    Ok(())
}

fn document(metadata: &Metadata) -> anyhow::Result<(usize, String)> {
    let mut crates = BTreeMap::<String, Vec<(String, String)>>::new();
    for path in files::sources(metadata)? {
        let name = files::shown(&path);
        let Some((krate, file)) = name.split_once("/src/").filter(|_| !files::is_test(&path))
        else {
            continue;
        };
        if let Some(subject) = subject(&fs::read_to_string(&path)?) {
            let list = crates.entry(krate.to_owned()).or_default();
            list.push((file.to_owned(), subject));
        }
    }
    let mut text = HEAD.to_owned();
    for (krate, list) in &crates {
        write!(text, "\n## {krate}/src\n\n")?;
        for (file, subject) in list {
            writeln!(text, "- `{file}`: {subject}")?;
        }
    }
    Ok((crates.values().map(Vec::len).sum(), text))
}

/// The first sentence of the module doc.
fn subject(text: &str) -> Option<String> {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    let paragraph: Vec<&str> = lines
        .map(str::trim)
        .take_while(|line| !line.is_empty())
        .collect();
    let paragraph = paragraph.join(" ");
    let sentence = paragraph.split(". ").next().unwrap_or_default();
    let sentence = sentence.trim_end_matches('.');
    (!sentence.is_empty()).then(|| sentence.to_owned())
}

#[cfg(test)]
mod tests {
    use super::subject;

    #[test]
    fn the_subject_is_the_first_sentence_over_all_its_lines() {
        let text = "//! Turns of\n//! identifiers. Pure.\n//!\n//! More.\n\nuse a;\n";
        assert_eq!(subject(text).unwrap(), "Turns of identifiers");
        assert_eq!(subject("use a;\n"), None);
    }
}
