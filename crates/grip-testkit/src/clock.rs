//! Clocks of nodes that are wrong, by `faketime`: the clock of the day alone, or also the one that never goes
//! back, by which timers go.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// Settings under which the clock of a node is wrong by so many seconds.
pub fn clock_off_by(seconds: i64) -> Result<Vec<(String, String)>> {
    let mut settings = preloaded()?;
    settings.push(set("FAKETIME_DONT_FAKE_MONOTONIC", "1"));
    settings.push(set("FAKETIME", &offset(seconds)));
    settings.push(set("FAKETIME_NO_CACHE", "1"));
    Ok(settings)
}

/// A clock that can be set while a node runs.
#[derive(Debug)]
pub struct Clock {
    file: PathBuf,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// The clock of the day, noticed within a second.
    Day,
    /// The same, noticed at once: the file is read at each look at the time.
    PromptDay,
    /// That and the clock of timers, both so many times as fast.
    Timers(u32),
}

impl Clock {
    /// A clock that is right so far, with a file of its own in `dir`; that it was set is noticed within a
    /// second.
    pub fn new(dir: &Path) -> Result<Self> {
        Self::of(dir, Kind::Day)
    }

    /// The same; that it was set is noticed at once.
    pub fn prompt(dir: &Path) -> Result<Self> {
        Self::of(dir, Kind::PromptDay)
    }

    /// One that timers go by, too, and that goes `speed` times as fast. Timers that are due by it when it is
    /// set fire when the node does anything next.
    pub fn of_timers(dir: &Path, speed: u32) -> Result<Self> {
        Self::of(dir, Kind::Timers(speed))
    }

    fn of(dir: &Path, kind: Kind) -> Result<Self> {
        let clock = Self {
            file: dir.join("clock"),
            kind,
        };
        clock.set_off_by(0)?;
        Ok(clock)
    }

    /// Settings of the node that goes by it.
    pub fn settings(&self) -> Result<Vec<(String, String)>> {
        let mut settings = preloaded()?;
        let file = self.file.to_str().context("a plain path")?;
        settings.push(set("FAKETIME_TIMESTAMP_FILE", file));
        settings.push(match self.kind {
            Kind::Day => set("FAKETIME_CACHE_DURATION", "1"),
            Kind::PromptDay | Kind::Timers(_) => set("FAKETIME_NO_CACHE", "1"),
        });
        if !matches!(self.kind, Kind::Timers(_)) {
            settings.push(set("FAKETIME_DONT_FAKE_MONOTONIC", "1"));
        }
        Ok(settings)
    }

    /// Has it be wrong by so many seconds from now on.
    pub fn set_off_by(&self, seconds: i64) -> Result<()> {
        // By a rename: nobody reads half of it.
        let written = self.file.with_extension("written");
        let text = match self.kind {
            Kind::Day | Kind::PromptDay => offset(seconds),
            Kind::Timers(speed) => format!("{seconds:+} x{speed}"),
        };
        std::fs::write(&written, text)?;
        Ok(std::fs::rename(written, &self.file)?)
    }
}

fn preloaded() -> Result<Vec<(String, String)>> {
    let found = std::fs::read_dir("/usr/lib")?.flatten();
    let mut libraries = found.map(|dir| dir.path().join("faketime/libfaketimeMT.so.1"));
    let library = libraries.find(|library| library.is_file());
    let library = library.context("faketime is not installed: run `cargo xtask test`")?;
    Ok(vec![set("LD_PRELOAD", &library.display().to_string())])
}

fn set(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

fn offset(seconds: i64) -> String {
    format!("{seconds:+}s")
}
