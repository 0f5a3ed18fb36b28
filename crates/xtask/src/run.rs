//! Starting programs.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, bail};

/// A command in the root of the workspace.
#[expect(
    clippy::disallowed_methods,
    reason = "this program's work is to run others"
)]
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// The cargo that runs us, without what it tells us about this package: build scripts such as ring's ask for
/// it, and all that rests on them would be built again after each change between `cargo` and `cargo xtask`.
pub(crate) fn cargo() -> Command {
    let mut cargo = command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_about_this_package) {
            cargo.env_remove(name);
        }
    }
    cargo
}

fn is_about_this_package(variable: &str) -> bool {
    [
        "CARGO_PKG_",
        "CARGO_MANIFEST_",
        "CARGO_BIN_",
        "CARGO_CRATE_",
    ]
    .iter()
    .any(|prefix| variable.starts_with(prefix))
}

/// The cargo that runs us, with these words as arguments.
pub(crate) fn cargo_with(words: &str) -> Command {
    let mut command = cargo();
    command.args(words.split(' '));
    command
}

/// Runs to the end; failure is an error that names the command.
pub(crate) fn succeed(command: &mut Command) -> anyhow::Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot start `{}`", shown(command)))?;
    if !status.success() {
        bail!("`{}` ended with {status}", shown(command));
    }
    Ok(())
}

/// Runs to the end and returns what was printed.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start `{}`", shown(command)))?;
    if !output.status.success() {
        bail!("`{}` ended with {}", shown(command), output.status);
    }
    String::from_utf8(output.stdout).context("it printed something that is no text")
}

/// The command as a person would type it.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program())
        .file_name()
        .unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    let words: Vec<_> = words.map(OsStr::to_string_lossy).collect();
    words.join(" ")
}

/// Says whether the program can be started at all.
pub(crate) fn exists(program: &str, argument: &str) -> bool {
    command(program)
        .arg(argument)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The directory of the workspace.
pub(crate) fn root() -> PathBuf {
    let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let root = above
        .nth(2)
        .expect("the crate lies two levels below the root");
    root.to_owned()
}

/// Where cargo builds.
pub(crate) fn target_dir() -> PathBuf {
    let chosen = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    chosen.unwrap_or_else(|| root().join("target"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cargo_says_about_this_package_is_not_handed_on_and_settings_are() {
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
        let cargo = cargo();
        let removed = |name: &str| cargo.get_envs().any(|env| env == (OsStr::new(name), None));
        assert!(removed("CARGO_MANIFEST_DIR") && removed("CARGO_PKG_NAME"));
        for kept in [
            "CARGO",
            "CARGO_HOME",
            "CARGO_TARGET_DIR",
            "CARGO_INCREMENTAL",
        ] {
            assert!(!removed(kept), "{kept}");
        }
    }
}
