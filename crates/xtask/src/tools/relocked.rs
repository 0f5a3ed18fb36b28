//! Crates that do not install by their own lock file: it names versions that not every copy of the
//! index has. All else in it stays as their authors tested it.

use std::{env, fs, path::Path};

use anyhow::Context as _;
use cargo_metadata::MetadataCommand;

use crate::run;

/// A program of such a crate.
pub(super) struct Relocked {
    pub(super) krate: &'static str,
    pub(super) version: &'static str,
    /// What its lock file names, and the version to use instead.
    pub(super) pins: &'static [(&'static str, &'static str)],
}

impl Relocked {
    /// Installs it below `root`.
    pub(super) fn install(&self, root: &Path) -> anyhow::Result<()> {
        let (krate, version) = (self.krate, self.version);
        eprintln!(
            "installing {krate} {version} into {} (once)",
            root.display()
        );
        let dir = tempfile::tempdir()?;
        let source = dir.path().join("source");
        self.unpack(dir.path(), &source)?;
        for (named, used) in self.pins {
            let mut update = run::cargo_with(&format!("update --quiet {named} --precise {used}"));
            run::succeed(update.current_dir(&source))?;
        }
        let mut install = run::cargo_with("install --locked --debug --path");
        install
            .arg(&source)
            .arg("--root")
            .arg(root)
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env_remove("CARGO_TARGET_DIR")
            // Elsewhere, so that our toolchain file does not concern it.
            .current_dir(env::temp_dir());
        run::succeed(&mut install)
            .with_context(|| format!("{krate} {version} is needed by the tests and cannot be had"))
    }

    /// Has cargo fetch the source, as for somebody who depends on it, and copies that.
    fn unpack(&self, dir: &Path, source: &Path) -> anyhow::Result<()> {
        let asking = dir.join("asking");
        fs::create_dir_all(asking.join("src"))?;
        fs::write(asking.join("src/lib.rs"), "")?;
        let (krate, version) = (self.krate, self.version);
        let manifest = format!(
            "[package]\nname = \"asking\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
             [dependencies]\n{krate} = \"={version}\"\n"
        );
        fs::write(asking.join("Cargo.toml"), manifest)?;
        let found = MetadataCommand::new()
            .manifest_path(asking.join("Cargo.toml"))
            .current_dir(&asking)
            .exec()
            .with_context(|| format!("{krate} {version} cannot be fetched"))?;
        let mut packages = found.packages.iter();
        let package = packages.find(|package| package.name.as_str() == krate);
        let manifest = &package.context("cargo fetched it")?.manifest_path;
        let fetched = manifest
            .parent()
            .context("a manifest lies in a directory")?;
        run::succeed(run::command("cp").arg("-r").arg(fetched).arg(source))
    }
}
