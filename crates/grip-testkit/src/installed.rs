//! Programs of other projects, where `cargo xtask test` installs them once.

use std::{env, path::PathBuf};

use anyhow::{Context as _, Result, ensure};

/// The directory with `programs` of a crate's version, all of which must be there.
pub fn installed(krate: &str, version: &str, programs: &[&str]) -> Result<PathBuf> {
    let dir = cache_dir()?.join(format!("{krate}-{version}/bin"));
    ensure!(
        programs.iter().all(|program| dir.join(program).is_file()),
        "{krate} {version} is not in {}: run `cargo xtask test`, which installs it once",
        dir.display()
    );
    Ok(dir)
}

/// The archive of a minimal Debian of this machine's release.
pub fn debian_base() -> Result<PathBuf> {
    let archive = cache_dir()?.join("debian-base.tar");
    ensure!(
        archive.is_file(),
        "{} is not there: run `cargo xtask test`, which makes it once",
        archive.display()
    );
    Ok(archive)
}

/// A script for browsers, out of a package of npm.
pub(crate) fn browser_script(package: &str, file: &str) -> Result<String> {
    let path = cache_dir()?.join("browser").join(package).join(file);
    std::fs::read_to_string(&path).with_context(|| {
        let path = path.display();
        format!("{path} cannot be read: run `cargo xtask test`, which fetches it once")
    })
}

/// The directory that `cargo xtask test` names, and otherwise the user's cache.
fn cache_dir() -> Result<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty());
    if let Some(dir) = set("GRIPFAST_TOOLS_DIR") {
        return Ok(dir.into());
    }
    let cache = match set("XDG_CACHE_HOME") {
        Some(dir) => PathBuf::from(dir),
        None => PathBuf::from(set("HOME").context("HOME is not set")?).join(".cache"),
    };
    Ok(cache.join("gripfast"))
}
