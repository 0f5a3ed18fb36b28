//! `cargo xtask check`: rules that the compiler does not know.

mod files;
mod layers;
mod seams;
pub(crate) mod service;
pub(crate) mod subjects;
mod text;

use anyhow::bail;
use cargo_metadata::{Metadata, MetadataCommand};

use crate::run;

/// A rule: what it looks at when it holds, or what breaks it.
type Check = fn(&Metadata) -> anyhow::Result<String>;

/// The crates of the workspace.
pub(crate) fn metadata() -> anyhow::Result<Metadata> {
    let manifest = run::root().join("Cargo.toml");
    let mut command = MetadataCommand::new();
    Ok(command.manifest_path(manifest).no_deps().exec()?)
}

/// Runs every check, so that one look shows all that is wrong.
pub(crate) fn run() -> anyhow::Result<()> {
    let metadata = metadata()?;
    let checks: [(&str, Check); 6] = [
        ("arrows between crates only point down", layers::check),
        (
            "every source file is compiled and no test is left out",
            files::check,
        ),
        ("texts name no machine and leave nothing open", text::check),
        ("every task and every bound is in its table", service::check),
        ("every write path is in its table", seams::check),
        ("every file is listed with its subject", subjects::check),
    ];
    let mut failed = 0;
    for (rule, check) in checks {
        match check(&metadata) {
            Ok(what) => println!("ok    {rule} ({what})"),
            Err(error) => {
                failed += 1;
                println!("FAIL  {rule}");
                for line in error.to_string().lines() {
                    println!("      {line}");
                }
            }
        }
    }
    for (path, lines) in files::long(&metadata)? {
        println!("note  {path} has {lines} shipped lines: is it two things?");
    }
    if failed > 0 {
        bail!("{failed} of {} checks failed", checks.len());
    }
    Ok(())
}
