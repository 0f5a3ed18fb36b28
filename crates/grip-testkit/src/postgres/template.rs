//! An empty cluster, made once per machine: `initdb` takes longer than most tests.
//!
//! Invariant: the template is one file that appears whole under its name and never changes, so
//! any number of processes may look for it, make it and unpack it at the same time.

use std::{
    env,
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use anyhow::{Context as _, Result, bail};
use tempfile::NamedTempFile;

use super::{USER, account::Account, programs::Programs};

/// Part of the name; another number where the template is made in another way.
const MAKE: u32 = 1;
/// What we do not need makes the copy slower: nobody restores a dump into the pristine database.
const SLIM: &str = "UPDATE pg_database SET datistemplate = false WHERE datname = 'template0'
DROP DATABASE template0
";

/// `$XDG_CACHE_HOME/gripfast`, or the same below the home directory, or a temporary place.
pub(super) fn cache_dir() -> PathBuf {
    let named = |name| {
        env::var_os(name)
            .filter(|dir| !dir.is_empty())
            .map(PathBuf::from)
    };
    let cache = named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")));
    cache.unwrap_or_else(env::temp_dir).join("gripfast")
}

/// The template of this version, made now if nobody has yet. Blocking.
pub(super) fn find_or_make(
    cache: &Path,
    programs: &Programs,
    account: &Account,
) -> Result<PathBuf> {
    let name = format!("{}-{MAKE}.tar", programs.version(account)?);
    let template = cache.join(name);
    if template.is_file() {
        return Ok(template);
    }
    fs::create_dir_all(cache).with_context(|| format!("making {}", cache.display()))?;
    let workshop = account.temp_dir()?;
    let data = workshop.path().join("data");
    initdb(&data, programs, account)?;
    let mut packed = NamedTempFile::new_in(cache)?;
    let output = succeed(
        account
            .command("tar")
            .arg("-cf-")
            .arg("-C")
            .arg(&data)
            .arg("."),
    )?;
    packed.write_all(&output.stdout)?;
    // Somebody else's, put there meanwhile, is as good: the last one stays.
    packed
        .persist(&template)
        .context("keeping the empty cluster")?;
    Ok(template)
}

fn initdb(data: &Path, programs: &Programs, account: &Account) -> Result<()> {
    let mut command = account.command(programs.initdb());
    command
        .args(["--no-sync", "--no-instructions", "--auth=trust"])
        .args(["--encoding=UTF8", "--locale=C", "--wal-segsize=1"])
        .args(["--username", USER, "-D"])
        .arg(data)
        .stdin(Stdio::null());
    succeed(&mut command)?;
    let mut statements = tempfile::tempfile()?;
    statements.write_all(SLIM.as_bytes())?;
    std::io::Seek::rewind(&mut statements)?;
    let mut command = account.command(programs.postgres());
    command
        .args(["--single", "-c", "fsync=off", "-D"])
        .arg(data)
        .arg("postgres")
        .stdin(statements);
    succeed(&mut command).map(drop)
}

/// Makes `data` a cluster of its own. Blocking.
pub(super) fn unpack(template: &Path, data: &Path, account: &Account) -> Result<()> {
    // By its open file: the account need not be able to find it.
    let packed = File::open(template).context("opening the empty cluster")?;
    succeed(account.command("mkdir").arg("-m700").arg(data))?;
    let mut command = account.command("tar");
    command.arg("-xf-").arg("-C").arg(data).stdin(packed);
    succeed(&mut command).map(drop)
}

fn succeed(command: &mut Command) -> Result<Output> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.current_dir("/");
    let output = command
        .output()
        .with_context(|| format!("starting {program}"))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!("{program} ended with {}:\n{complaint}", output.status);
    }
    Ok(output)
}
