//! The documents that are made from the table of options.

use std::fs;

use anyhow::bail;

use crate::{check, run};

/// What `gripfast config --docs` calls a document, and where it is kept.
const DOCUMENTS: &[(&str, &str)] = &[
    ("reference", "docs/configuration.md"),
    ("example", "gripfast.example.toml"),
];

fn made(name: &str) -> anyhow::Result<String> {
    let mut command = run::cargo();
    command.args([
        "run",
        "--quiet",
        "--package",
        "gripfast",
        "--",
        "config",
        "--docs",
        name,
    ]);
    run::output(&mut command)
}

/// Writes them anew.
pub(crate) fn write() -> anyhow::Result<()> {
    check::service::write(&check::metadata()?)?;
    for (name, path) in DOCUMENTS {
        fs::write(run::root().join(path), made(name)?)?;
        println!("wrote {path}");
    }
    Ok(())
}

/// Fails if what is kept is not what would be written.
pub(crate) fn check() -> anyhow::Result<String> {
    for (name, path) in DOCUMENTS {
        if fs::read_to_string(run::root().join(path)).unwrap_or_default() != made(name)? {
            bail!("{path} is out of date: run `cargo xtask docs`");
        }
    }
    Ok(format!("{} documents", DOCUMENTS.len()))
}
