//! Tells a release build which commit it is made from.
//!
//! Debug builds do not ask, so that a commit does not rebuild them. Packagers whose sources have
//! no `.git` set `GRIPFAST_COMMIT` themselves.

use std::{env, fs, path::Path};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=GRIPFAST_COMMIT");
    if env::var("PROFILE").as_deref() != Ok("release") || env::var_os("GRIPFAST_COMMIT").is_some() {
        return;
    }
    if let Some(commit) = commit(Path::new("../../.git")) {
        println!("cargo:rustc-env=GRIPFAST_COMMIT={commit}");
    }
}

/// Reads `HEAD` and the branch it names, loose or packed.
fn commit(git: &Path) -> Option<String> {
    let read = |name: &str| {
        let path = git.join(name);
        println!("cargo:rerun-if-changed={}", path.display());
        fs::read_to_string(path).ok()
    };
    let head = read("HEAD")?;
    let Some(branch) = head.trim().strip_prefix("ref: ") else {
        return Some(head.trim().to_owned());
    };
    read(branch).map(|oid| oid.trim().to_owned()).or_else(|| {
        let packed = read("packed-refs")?;
        let line = packed
            .lines()
            .find(|line| line.split(' ').nth(1) == Some(branch))?;
        line.split(' ').next().map(str::to_owned)
    })
}
