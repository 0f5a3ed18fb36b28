//! What tests need beside Rust: found, or installed once.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};

use crate::run;

/// The client lines that tests speak with. 3.0.4 does not resolve: a dependency was yanked.
pub(crate) const NGIT_VERSIONS: &[&str] = &["3.0.3", "2.6.2"];
const NEXTEST_VERSION: &str = "0.9.143";

/// Everything that tests need, in place.
pub(crate) struct Tools {
    /// Holds `ngit-<version>/bin/ngit` for each version.
    pub(crate) ngit_dir: PathBuf,
    /// `PATH` with the tools we installed in front.
    pub(crate) path: OsString,
}

/// Finds or installs all of it.
pub(crate) fn prepare() -> anyhow::Result<Tools> {
    let cache = cache_dir()?;
    system_program("git", "git")?;
    system_program("chromium", "chromium")?;
    // The program only: tests start servers of their own, and need none of the system's.
    system_program("redis-server", "redis-server")?;
    let mut path = env::var_os("PATH").unwrap_or_default();
    if !run::exists("cargo-nextest", "--version") {
        let root = cache.join(format!("nextest-{NEXTEST_VERSION}"));
        install("cargo-nextest", NEXTEST_VERSION, "cargo-nextest", &root)?;
        let dirs = std::iter::once(root.join("bin")).chain(env::split_paths(&path));
        path = env::join_paths(dirs.collect::<Vec<_>>())?;
    }
    for version in NGIT_VERSIONS {
        let root = cache.join(format!("ngit-{version}"));
        if !root.join("bin/ngit").is_file() {
            // Its TLS is that of the system.
            system_program("pkg-config", "pkg-config")?;
            if !run::exists("pkg-config", "openssl") {
                apt_install("libssl-dev")?;
            }
        }
        install("ngit", version, "ngit", &root)?;
    }
    Ok(Tools {
        ngit_dir: cache,
        path,
    })
}

/// `$XDG_CACHE_HOME/gripfast`, or the same below the home directory.
fn cache_dir() -> anyhow::Result<PathBuf> {
    let cache = match env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty()) {
        Some(dir) => PathBuf::from(dir),
        None => PathBuf::from(env::var_os("HOME").context("HOME is not set")?).join(".cache"),
    };
    Ok(cache.join("gripfast"))
}

/// Installs a crate's programs below `root`, unless they are there. A debug build is enough for
/// tests and takes a third of the time.
fn install(krate: &str, version: &str, program: &str, root: &Path) -> anyhow::Result<()> {
    if root.join("bin").join(program).is_file() {
        return Ok(());
    }
    eprintln!(
        "installing {krate} {version} into {} (once)",
        root.display()
    );
    let mut command = run::cargo();
    command
        .args([
            "install",
            krate,
            "--version",
            version,
            "--locked",
            "--debug",
            "--root",
        ])
        .arg(root)
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        // Elsewhere, so that our toolchain file and target directory do not concern it.
        .current_dir(env::temp_dir());
    run::succeed(&mut command)
        .with_context(|| format!("{krate} {version} is needed by the tests and cannot be had"))
}

/// Sees that a program of the system is there.
fn system_program(program: &str, package: &str) -> anyhow::Result<()> {
    if run::exists(program, "--version") {
        return Ok(());
    }
    apt_install(package)
}

fn apt_install(package: &str) -> anyhow::Result<()> {
    let root = run::output(run::command("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    if !root || !run::exists("apt-get", "--version") {
        bail!("the tests need the package {package}: install it and try again");
    }
    eprintln!("installing the package {package}");
    let apt = || {
        let mut command = run::command("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    // The list of packages may be missing or old; if so, the first attempt fails.
    let attempt =
        || run::succeed(apt().args(["install", "-y", "--no-install-recommends", package]));
    attempt().or_else(|_| run::succeed(apt().arg("update")).and_then(|()| attempt()))
}
