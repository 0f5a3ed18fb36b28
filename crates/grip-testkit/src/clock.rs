//! Clocks of nodes that are wrong, by `faketime`: the clock of the day alone, not the one that never goes
//! back.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// Settings under which the clock of a node is wrong by so many seconds.
pub fn clock_off_by(seconds: i64) -> Result<Vec<(String, String)>> {
    let mut settings = preloaded()?;
    settings.push(set("FAKETIME", &offset(seconds)));
    settings.push(set("FAKETIME_NO_CACHE", "1"));
    Ok(settings)
}

/// A clock that can be set while a node runs; it is noticed within a second.
#[derive(Debug)]
pub struct Clock {
    file: PathBuf,
}

impl Clock {
    /// A clock that is right so far, with a file of its own in `dir`.
    pub fn new(dir: &Path) -> Result<Self> {
        let clock = Self {
            file: dir.join("clock"),
        };
        clock.set_off_by(0)?;
        Ok(clock)
    }

    /// Settings of the node that goes by it.
    pub fn settings(&self) -> Result<Vec<(String, String)>> {
        let mut settings = preloaded()?;
        let file = self.file.to_str().context("a plain path")?;
        settings.push(set("FAKETIME_TIMESTAMP_FILE", file));
        settings.push(set("FAKETIME_CACHE_DURATION", "1"));
        Ok(settings)
    }

    /// Has it be wrong by so many seconds from now on.
    pub fn set_off_by(&self, seconds: i64) -> Result<()> {
        // By a rename: nobody reads half of it.
        let written = self.file.with_extension("written");
        std::fs::write(&written, offset(seconds))?;
        Ok(std::fs::rename(written, &self.file)?)
    }
}

fn preloaded() -> Result<Vec<(String, String)>> {
    let found = std::fs::read_dir("/usr/lib")?.flatten();
    let mut libraries = found.map(|dir| dir.path().join("faketime/libfaketimeMT.so.1"));
    let library = libraries.find(|library| library.is_file());
    let library = library.context("faketime is not installed: run `cargo xtask test`")?;
    Ok(vec![
        set("LD_PRELOAD", &library.display().to_string()),
        set("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
    ])
}

fn set(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

fn offset(seconds: i64) -> String {
    format!("{seconds:+}s")
}
