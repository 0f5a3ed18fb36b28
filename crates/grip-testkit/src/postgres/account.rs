//! System account of the server: Postgres refuses to run as root.

use std::{
    env, fs,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use tempfile::TempDir;

/// Accounts without rights of their own, the best first.
const MODEST: &[&str] = &["postgres", "nobody"];

/// The account of the server's processes and files.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    /// Another one's user and group; none where we are modest ourselves.
    other: Option<(u32, u32)>,
}

impl Account {
    /// Ours, or that of somebody modest where we are root.
    pub(super) fn pick() -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self { other: None });
        }
        let accounts = fs::read_to_string("/etc/passwd").context("reading /etc/passwd")?;
        let other = MODEST.iter().find_map(|name| ids(&accounts, name));
        let other = other.context("postgres cannot run as root, and no other user is known")?;
        Ok(Self { other: Some(other) })
    }

    /// A directory that the account owns and can get into.
    pub(super) fn temp_dir(&self) -> Result<TempDir> {
        let Some((user, group)) = self.other else {
            return TempDir::new().context("making a directory for postgres");
        };
        let places = [env::temp_dir(), PathBuf::from("/tmp")];
        let place = places.iter().find(|place| is_open_to_all(place));
        let place = place.context("postgres needs a temporary directory that is open to all")?;
        let dir = TempDir::new_in(place)?;
        std::os::unix::fs::chown(dir.path(), Some(user), Some(group))?;
        Ok(dir)
    }

    /// A command that runs as this account.
    #[expect(clippy::disallowed_methods, reason = "tests run the real server")]
    pub(super) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        if let Some((user, group)) = self.other {
            // Other groups are left behind as well: the standard library sees to it.
            command.uid(user).gid(group);
        }
        command
    }

    /// A command that ends at once when the thread that starts it does.
    pub(super) fn mortal(&self, program: &Path) -> Command {
        let mut command = self.command("setpriv");
        command.args(["--pdeathsig", "QUIT", "--"]).arg(program);
        command
    }
}

/// The user and group of an account, by a table of all.
fn ids(accounts: &str, name: &str) -> Option<(u32, u32)> {
    let fields = |line: &'_ str| -> Option<(u32, u32)> {
        let mut fields = line.split(':');
        let is_it = fields.next()? == name;
        let mut ids = fields.skip(1).map(|field| field.parse().ok());
        is_it.then_some((ids.next()??, ids.next()??))
    };
    accounts.lines().find_map(fields)
}

fn is_open_to_all(dir: &Path) -> bool {
    let passes = |dir: &Path| {
        fs::metadata(dir).is_ok_and(|metadata| metadata.permissions().mode() & 0o001 != 0)
    };
    fs::canonicalize(dir).is_ok_and(|dir| dir.ancestors().all(passes))
}
