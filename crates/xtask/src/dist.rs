//! The release: a stripped binary in an archive and in a Debian package, the same wherever it is built.

use std::{
    ffi::OsString,
    fs,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};

use crate::run;

/// What is released.
const RELEASE: &str = "dist";

/// Builds the binary with a profile and packages it.
pub(crate) fn build(profile: &str) -> anyhow::Result<()> {
    let mut build = run::cargo_with("build --locked --package gripfast --profile");
    build.arg(profile);
    let packages = run::target_dir().join("packages");
    let mut target = run::target_dir();
    let mut places = None;
    if profile == RELEASE {
        // A directory of its own: by other flags, what is measured would be built again each time.
        target.push("reproducible");
        build.arg("--target-dir").arg(&target);
        let built_at = places.insert(Places::of_this_machine()?);
        build.envs(built_at.flags());
    }
    run::succeed(&mut build)?;
    let directory = if profile == "dev" { "debug" } else { profile };
    let binary = target.join(directory).join("gripfast");
    if let Some(places) = places {
        places.must_not_be_in(&binary)?;
    }
    let mut package = run::command(run::root().join("packaging/build"));
    package.arg(binary).arg(packages);
    if profile != RELEASE {
        package.env("QUICK", "1");
    }
    run::succeed(&mut package)
}

/// Where sources lie on this machine. Messages of panics and log lines name source files: with the places
/// themselves, no two machines would build the same binary.
struct Places(Vec<Place>);

struct Place {
    path: PathBuf,
    /// What a binary calls it instead.
    name: String,
    /// What the sources in it have in common: `/src` alone is in paths of every machine.
    below: &'static str,
}

impl Place {
    fn new(path: impl Into<PathBuf>, name: impl Into<String>, below: &'static str) -> Self {
        let (path, name) = (path.into(), name.into());
        Self { path, name, below }
    }
}

impl Places {
    fn of_this_machine() -> anyhow::Result<Self> {
        let sysroot = rustc("--print=sysroot")?;
        let version = rustc("-vV")?;
        let commit = version
            .lines()
            .find_map(|line| line.strip_prefix("commit-hash: "));
        let commit = commit.context("rustc -vV names no commit")?;
        let library = Path::new(sysroot.trim()).join("lib/rustlib/src/rust");
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")));
        let home = home.context("there is no CARGO_HOME and no HOME")?;
        // Of several that fit, the last one counts: one of them may lie below another.
        Ok(Self(vec![
            Place::new(run::root(), "/gripfast", "crates/"),
            Place::new(run::target_dir(), "/gripfast/target", "reproducible/"),
            Place::new(home, "/cargo", "registry/"),
            // As in a toolchain without the sources of the library.
            Place::new(library, format!("/rustc/{commit}"), "library/"),
        ]))
    }

    /// Flags of the compilers for Rust and for C; what the environment has of them does not count.
    fn flags(&self) -> [(&'static str, OsString); 2] {
        let joined = |flag: &str, separator: &[u8]| {
            let flags = self.0.iter().map(|place| {
                let path = place.path.as_os_str().as_bytes();
                [flag.as_bytes(), path, b"=", place.name.as_bytes()].concat()
            });
            OsString::from_vec(flags.collect::<Vec<_>>().join(separator))
        };
        [
            (
                "CARGO_ENCODED_RUSTFLAGS",
                joined("--remap-path-prefix=", b"\x1f"),
            ),
            ("CFLAGS", joined("-ffile-prefix-map=", b" ")),
        ]
    }

    fn must_not_be_in(&self, binary: &Path) -> anyhow::Result<()> {
        let bytes =
            fs::read(binary).with_context(|| format!("cannot read {}", binary.display()))?;
        for Place { path, below, .. } in &self.0 {
            let sources = path.join(below);
            let sources = sources.as_os_str().as_bytes();
            if bytes.windows(sources.len()).any(|part| part == sources) {
                bail!(
                    "{} names {} of this machine, and would be another one elsewhere",
                    binary.display(),
                    path.display()
                );
            }
        }
        Ok(())
    }
}

/// What the compiler of the workspace prints.
fn rustc(argument: &str) -> anyhow::Result<String> {
    let program = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    run::output(run::command(program).arg(argument))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn a_binary_names_no_place_of_the_machine_that_built_it() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places(vec![
            Place::new(dir.path(), "/gripfast", "below/"),
            Place::new(dir.path().join("below"), "/cargo", "main.rs"),
        ]);
        let (below, source) = (dir.path().join("below"), dir.path().join("below/main.rs"));
        fs::create_dir(&below).unwrap();
        fs::write(&source, "fn main() { println!(file!()); panic!() }").unwrap();
        let build = |flags: &[&OsStr]| {
            let binary = dir.path().join("binary");
            let mut rustc = run::command("rustc");
            rustc.arg(&source).arg("-o").arg(&binary).args(flags);
            run::succeed(rustc.args(["-Cstrip=symbols", "-Copt-level=1"])).unwrap();
            places.must_not_be_in(&binary)
        };
        let refused = build(&[]).unwrap_err().to_string();
        let place = format!("names {} of", dir.path().display());
        assert!(refused.contains(&place), "{refused}");
        let [(rust, flags), (c, c_flags)] = places.flags();
        let flags: Vec<&OsStr> = flags
            .as_bytes()
            .split(|byte| *byte == 0x1f)
            .map(OsStr::from_bytes)
            .collect();
        build(&flags).unwrap();
        let named = fs::read(dir.path().join("binary")).unwrap();
        let text = String::from_utf8_lossy(&named).into_owned();
        assert!(text.contains("/cargo/main.rs"), "the place below counts");
        assert_eq!((rust, c), ("CARGO_ENCODED_RUSTFLAGS", "CFLAGS"));
        let root = dir.path().display();
        let expected =
            format!("-ffile-prefix-map={root}=/gripfast -ffile-prefix-map={root}/below=/cargo");
        assert_eq!(c_flags, *expected);
    }

    #[test]
    fn root_cargo_and_the_library_of_the_toolchain_are_renamed() {
        let Places(places) = Places::of_this_machine().unwrap();
        let named: Vec<&str> = places.iter().map(|place| place.name.as_str()).collect();
        assert_eq!(named[..3], ["/gripfast", "/gripfast/target", "/cargo"]);
        assert!(named[3].starts_with("/rustc/") && named.len() == 4);
        assert_eq!(places[0].path, run::root());
        assert!(places[3].path.ends_with("lib/rustlib/src/rust"));
    }
}
