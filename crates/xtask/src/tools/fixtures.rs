//! Payloads that GitHub's own libraries are tested with, from the npm registry.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};

use crate::run;

/// A package that is fetched, never built or run.
struct Package {
    name: &'static str,
    version: &'static str,
    /// The registry's `integrity` of the archive, in hexadecimal.
    sha512: &'static str,
}

const PACKAGES: &[Package] = &[
    Package {
        name: "webhooks-examples",
        version: "7.6.1",
        sha512: "0dee94dd707a3b70ed09aedb2a008ccd31dd7a8a6aa99e92362bcc6099caeb98\
                 9eaca2f5027348034b644580914bb970193efdd9df8fb3559b7c796ca3a3329d",
    },
    Package {
        name: "fixtures",
        version: "23.1.2",
        sha512: "9e21be4957df67fc73a234f7084e8cec396a5fb1fd690ef903a5f18ede0de3b0\
                 a4aacb0a5e94b2da4ebe4e3e67b5c239b965b60fd3ceccac702439817d1fac27",
    },
];

/// In a package's directory: the archive that it came from.
const MARK: &str = ".sha512";

/// Sees that all packages are in the cache; returns the directory that holds one of each name.
pub(super) fn fetch(cache: &Path) -> anyhow::Result<PathBuf> {
    let dir = cache.join("octokit");
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    for package in PACKAGES {
        if is_there(package, &dir) {
            continue;
        }
        let archive = dir.join(format!("{}.tgz", package.name));
        package.download(&archive).with_context(|| {
            let Package { name, version, .. } = package;
            format!("@octokit/{name} {version} is needed by the tests and cannot be had")
        })?;
        unpack(package, &archive, &dir)?;
    }
    Ok(dir)
}

fn is_there(package: &Package, dir: &Path) -> bool {
    let mark = fs::read_to_string(dir.join(package.name).join(MARK));
    mark.is_ok_and(|mark| mark == package.sha512)
}

impl Package {
    fn url(&self) -> String {
        let Self { name, version, .. } = self;
        format!("https://registry.npmjs.org/@octokit/{name}/-/{name}-{version}.tgz")
    }

    fn download(&self, to: &Path) -> anyhow::Result<()> {
        super::system_program("curl", "curl")?;
        eprintln!("fetching @octokit/{} {} (once)", self.name, self.version);
        let mut curl = run::command("curl");
        curl.args(["--fail", "--silent", "--show-error", "--location"])
            .args(["--proto", "=https", "--max-time", "120", "--retry", "3"])
            .arg("--output")
            .arg(to)
            .arg(self.url());
        run::succeed(&mut curl)
    }
}

/// Puts a checked archive's content in the place of what was there.
fn unpack(package: &Package, archive: &Path, dir: &Path) -> anyhow::Result<()> {
    let printed = run::output(run::command("sha512sum").arg(archive))?;
    let found = printed.split_whitespace().next().unwrap_or_default();
    if found != package.sha512 {
        bail!(
            "{} has the SHA-512 {found}, not that of the registry",
            archive.display()
        );
    }
    // Beside its place, so that what is in place is whole.
    let new = dir.join(format!("{}.new", package.name));
    let place = dir.join(package.name);
    for old in [&new, &place] {
        if old.exists() {
            fs::remove_dir_all(old).with_context(|| format!("cannot remove {}", old.display()))?;
        }
    }
    fs::create_dir_all(&new)?;
    let mut tar = run::command("tar");
    tar.arg("--extract")
        .arg("--gzip")
        .arg("--file")
        .arg(archive);
    tar.arg("--strip-components=1").arg("--directory").arg(&new);
    run::succeed(&mut tar)?;
    fs::write(new.join(MARK), package.sha512)?;
    fs::rename(&new, &place).with_context(|| format!("cannot make {}", place.display()))?;
    fs::remove_file(archive).with_context(|| format!("cannot remove {}", archive.display()))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn archive(dir: &Path) -> PathBuf {
        let content = dir.join("package");
        fs::create_dir_all(&content).unwrap();
        fs::write(content.join("index.json"), "[]").unwrap();
        let archive = dir.join("some.tgz");
        let mut tar = run::command("tar");
        tar.arg("--create")
            .arg("--gzip")
            .arg("--file")
            .arg(&archive);
        tar.arg("--directory").arg(dir).arg("package");
        run::succeed(&mut tar).unwrap();
        archive
    }

    #[test]
    fn an_archive_is_unpacked_only_if_it_is_the_one_that_was_meant() {
        let dir = TempDir::new().unwrap();
        let archive = archive(dir.path());
        let printed = run::output(run::command("sha512sum").arg(&archive)).unwrap();
        let sha512: String = printed.chars().take(128).collect();
        let mut package = Package {
            name: "some",
            version: "1.0.0",
            sha512: PACKAGES[0].sha512,
        };
        let error = unpack(&package, &archive, dir.path()).unwrap_err();
        assert!(error.to_string().contains(&sha512), "{error}");
        assert!(!dir.path().join("some").exists());

        package.sha512 = sha512.leak();
        fs::create_dir_all(dir.path().join("some/old")).unwrap();
        unpack(&package, &archive, dir.path()).unwrap();
        let read = fs::read_to_string(dir.path().join("some/index.json")).unwrap();
        assert_eq!(read, "[]");
        assert!(is_there(&package, dir.path()));
        assert!(!dir.path().join("some/old").exists());
        package.sha512 = PACKAGES[0].sha512;
        assert!(!is_there(&package, dir.path()), "another version is wanted");
    }
}
