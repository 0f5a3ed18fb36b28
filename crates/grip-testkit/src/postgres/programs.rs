//! The programs of Postgres, looked for where systems install them.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};

use super::account::Account;

/// Where Debian has them: usually not on `PATH`.
const VERSIONS: &str = "/usr/lib/postgresql";

/// The programs of one version.
#[derive(Debug)]
pub(super) struct Programs {
    dir: PathBuf,
}

impl Programs {
    pub(super) fn find() -> Result<Self> {
        let on_path = env::var_os("PATH").unwrap_or_default();
        let dirs = configured()
            .into_iter()
            .chain(env::split_paths(&on_path))
            .chain(newest_first(Path::new(VERSIONS)));
        let dir = dirs.filter_map(whole).next();
        let dir = dir.context("no initdb and postgres found: is postgresql installed?")?;
        Ok(Self { dir })
    }

    pub(super) fn postgres(&self) -> PathBuf {
        self.dir.join("postgres")
    }

    pub(super) fn initdb(&self) -> PathBuf {
        self.dir.join("initdb")
    }

    #[cfg(test)]
    pub(super) fn psql(&self) -> PathBuf {
        self.dir.join("psql")
    }

    /// The version as the server prints it, fit for a file name.
    pub(super) fn version(&self, account: &Account) -> Result<String> {
        let output = account.command(self.postgres()).arg("--version").output();
        let output = output.context("asking postgres for its version")?;
        if !output.status.success() {
            bail!("`postgres --version` ended with {}", output.status);
        }
        let said = String::from_utf8_lossy(&output.stdout);
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || c == '.' {
                c
            } else {
                '-'
            }
        };
        Ok(said.trim().chars().map(plain).collect())
    }
}

/// The directory itself, links followed, if it has all that we need.
fn whole(dir: PathBuf) -> Option<PathBuf> {
    let postgres = fs::canonicalize(dir.join("postgres")).ok()?;
    let dir = postgres.parent()?;
    dir.join("initdb").is_file().then(|| dir.to_owned())
}

#[expect(clippy::disallowed_methods, reason = "tests run the real server")]
fn configured() -> Option<PathBuf> {
    let output = std::process::Command::new("pg_config")
        .arg("--bindir")
        .output();
    let said = String::from_utf8(output.ok()?.stdout).ok()?;
    Some(PathBuf::from(said.trim()))
}

fn newest_first(versions: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(versions).into_iter().flatten().flatten();
    let numbered = |entry: fs::DirEntry| {
        let number: u32 = entry.file_name().to_str()?.parse().ok()?;
        Some((number, entry.path().join("bin")))
    };
    let mut found: Vec<_> = entries.filter_map(numbered).collect();
    found.sort();
    found.into_iter().rev().map(|(_, dir)| dir).collect()
}
