//! Crates whose own lock file names versions that not every copy of the index has. All else in it stays
//! as their authors tested it: some of what they need was yanked since, and can be had by a lock file
//! alone.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;

use crate::run;

/// A program of such a crate.
pub(super) struct Relocked {
    pub(super) krate: &'static str,
    pub(super) version: &'static str,
    /// What its lock file names, and the version to use instead.
    pub(super) pins: &'static [(&'static str, &'static str)],
}

impl Relocked {
    /// Installs it below `root`: as it is locked, else with the pins.
    pub(super) fn install(&self, root: &Path) -> anyhow::Result<()> {
        let (krate, version) = (self.krate, self.version);
        if super::install(krate, version, &[], root).is_ok() {
            return Ok(());
        }
        let place = root.display();
        eprintln!("installing {krate} {version} into {place} with another lock file");
        let dir = tempfile::tempdir()?;
        let source = dir.path().join("source");
        run::succeed(
            run::command("cp")
                .arg("-r")
                .arg(self.unpacked()?)
                .arg(&source),
        )?;
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

    /// Where cargo has unpacked the source, which it does before it reads the lock file.
    fn unpacked(&self) -> anyhow::Result<PathBuf> {
        let home = env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
        let sources = home.context("HOME is not set")?.join("registry/src");
        let name = format!("{}-{}", self.krate, self.version);
        let indexes = fs::read_dir(&sources).with_context(|| sources.display().to_string())?;
        let mut found = indexes.flatten().map(|index| index.path().join(&name));
        let found = found.find(|path| path.join("Cargo.lock").is_file());
        found.with_context(|| format!("cargo did not fetch {name}"))
    }
}
