//! Documents made from the table of options. That they are up to date is tested beside the table
//! (`gripfast/src/config/tests.rs`).

use std::fs;

use crate::{check, run};

/// What `gripfast config --docs` calls a document, and where it is kept.
const DOCUMENTS: &[(&str, &str)] = &[
    ("reference", "docs/configuration.md"),
    ("example", "gripfast.example.toml"),
];

/// Writes them.
pub(crate) fn write() -> anyhow::Result<()> {
    check::service::write(&check::metadata()?)?;
    for (name, path) in DOCUMENTS {
        let mut make = run::cargo_with("run --quiet --package gripfast -- config --docs");
        fs::write(run::root().join(path), run::output(make.arg(name))?)?;
        println!("wrote {path}");
    }
    Ok(())
}
