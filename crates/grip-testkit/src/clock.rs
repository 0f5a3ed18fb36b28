//! Clocks of nodes that are wrong, by `faketime`: the clock of the day alone, not the one that never goes
//! back.

use anyhow::{Context as _, Result};

/// Settings under which the clock of a node is wrong by so many seconds.
pub fn clock_off_by(seconds: i64) -> Result<Vec<(String, String)>> {
    let found = std::fs::read_dir("/usr/lib")?.flatten();
    let mut libraries = found.map(|dir| dir.path().join("faketime/libfaketimeMT.so.1"));
    let library = libraries.find(|library| library.is_file());
    let library = library.context("faketime is not installed: run `cargo xtask test`")?;
    let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    Ok(vec![
        set("LD_PRELOAD", &library.display().to_string()),
        set("FAKETIME", &format!("{seconds:+}s")),
        set("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        set("FAKETIME_NO_CACHE", "1"),
    ])
}
