//! The release: a stripped binary in an archive and in a Debian package.

use crate::run;

/// Builds the binary and packages it.
pub(crate) fn build() -> anyhow::Result<()> {
    run::succeed(&mut run::cargo_with(
        "build --profile dist --locked --package gripfast",
    ))?;
    let target = run::target_dir();
    let mut package = run::command(run::root().join("packaging/build"));
    package
        .arg(target.join("dist/gripfast"))
        .arg(target.join("packages"));
    run::succeed(&mut package)
}
