//! Documents made from the sources: tables of the service, subjects of files, and the options, of which
//! `gripfast/src/config/tests.rs` tests that they are up to date.

use std::fs;

use crate::{check, run};

/// What `gripfast config --docs` calls a document, and where it is kept.
const DOCUMENTS: &[(&str, &str)] = &[
    ("reference", "docs/configuration.md"),
    ("example", "gripfast.example.toml"),
];

/// Writes them.
pub(crate) fn write() -> anyhow::Result<()> {
    let metadata = check::metadata()?;
    check::service::write(&metadata)?;
    check::subjects::write(&metadata)?;
    for (name, path) in DOCUMENTS {
        let mut make = run::cargo_with("run --quiet --package gripfast -- config --docs");
        fs::write(run::root().join(path), run::output(make.arg(name))?)?;
        println!("wrote {path}");
    }
    Ok(())
}
