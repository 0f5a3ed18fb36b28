//! The release: a stripped binary in an archive and in a Debian package.

use crate::run;

/// What is released.
const RELEASE: &str = "dist";

/// Builds the binary with a profile and packages it.
pub(crate) fn build(profile: &str) -> anyhow::Result<()> {
    let mut build = run::cargo_with("build --locked --package gripfast --profile");
    run::succeed(build.arg(profile))?;
    let target = run::target_dir();
    let directory = if profile == "dev" { "debug" } else { profile };
    let mut package = run::command(run::root().join("packaging/build"));
    package
        .arg(target.join(directory).join("gripfast"))
        .arg(target.join("packages"));
    if profile != RELEASE {
        package.env("QUICK", "1");
    }
    run::succeed(&mut package)
}
