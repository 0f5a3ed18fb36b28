//! Documents made from the table of options. That they are up to date is tested beside the table
//! (`gripfast/src/config/tests.rs`).

use std::fs;

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

/// Writes them.
pub(crate) fn write() -> anyhow::Result<()> {
    check::service::write(&check::metadata()?)?;
    for (name, path) in DOCUMENTS {
        fs::write(run::root().join(path), made(name)?)?;
        println!("wrote {path}");
    }
    Ok(())
}
