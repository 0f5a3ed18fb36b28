//! Files from the npm registry: payloads that GitHub's own libraries are tested with, and scripts
//! that tests run in a browser.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};

use crate::run;

/// A package that is fetched, never built or run.
struct Package {
    /// With its scope, as it is installed.
    name: &'static str,
    version: &'static str,
    /// The registry's `integrity` of the archive, in hexadecimal.
    sha512: &'static str,
}

const PAYLOADS: &[Package] = &[
    Package {
        name: "@octokit/webhooks-examples",
        version: "7.6.1",
        sha512: "0dee94dd707a3b70ed09aedb2a008ccd31dd7a8a6aa99e92362bcc6099caeb98\
                 9eaca2f5027348034b644580914bb970193efdd9df8fb3559b7c796ca3a3329d",
    },
    Package {
        name: "@octokit/fixtures",
        version: "23.1.2",
        sha512: "9e21be4957df67fc73a234f7084e8cec396a5fb1fd690ef903a5f18ede0de3b0\
                 a4aacb0a5e94b2da4ebe4e3e67b5c239b965b60fd3ceccac702439817d1fac27",
    },
];

const BROWSER_SCRIPTS: &[Package] = &[
    // Finds what keeps people from reading a page.
    Package {
        name: "axe-core",
        version: "4.14.0",
        sha512: "f564d9c448ec67b6f5dd31fc24f99b576cfc0876e5f34ff6866dd73c41b82603\
                 5d40b2bcd480515e64b11df3003a44aa41e4714ffd1dc0d0f3d863a6df3ce971",
    },
    // A git client that runs in a page, and the file system it wants.
    Package {
        name: "isomorphic-git",
        version: "1.44.11",
        sha512: "63506884c254d76ae7904330a6206496043e650a3d3ed41e9dc08a433ff3b338\
                 a294bf7e4e7d418a9e39709e7573307c69badfffda072c319013ee0894e5716c",
    },
    Package {
        name: "@isomorphic-git/lightning-fs",
        version: "4.10.3",
        sha512: "03a537c83d6fdbd5da011698c156e7a91a342f64adf8e7d79ff08a3f0b4d948a\
                 cbf2c198b053324250e76d9ec96207f654716a4750897963a36728142a742ec4",
    },
    // What it takes from node, as browsers have it.
    Package {
        name: "buffer",
        version: "6.0.3",
        sha512: "153882a4dc6dc226591c465b71b4c87198c44552029fdcaafe90c591397de7f0\
                 31cc3d6768172d37b60eebcae233f80b48363bb1dacc6f2f21a1f00362ebaa38",
    },
    Package {
        name: "base64-js",
        version: "1.5.1",
        sha512: "00aa5a6251e7f2de1255b3870b2f9be7e28a82f478bebb03f2f6efadb890269b\
                 3b7ca0d3923903af2ea38b4ad42630b49336cd78f2f0cf1abc8b2a68e35a9e58",
    },
    Package {
        name: "ieee754",
        version: "1.2.1",
        sha512: "75ccaa843bd7d42e3a95765c56a0a92be16d31141574830debf0dfe63b36ce8b\
                 94b2a1bb23ab05c62b480beeca60adbd29d5ce2c776ef732f8b059e85509ea68",
    },
];

/// In a package's directory: the archive that it came from.
const MARK: &str = ".sha512";

/// Sees that all payloads are in the cache; returns the directory that holds one of each name.
pub(super) fn payloads(cache: &Path) -> anyhow::Result<PathBuf> {
    fetch(PAYLOADS, cache.join("octokit"))
}

/// The same for scripts that run in a browser.
pub(super) fn browser_scripts(cache: &Path) -> anyhow::Result<PathBuf> {
    fetch(BROWSER_SCRIPTS, cache.join("browser"))
}

fn fetch(packages: &[Package], dir: PathBuf) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    for package in packages {
        if is_there(package, &dir) {
            continue;
        }
        let archive = dir.join(format!("{}.tgz", package.file_name()));
        package.download(&archive).with_context(|| {
            let Package { name, version, .. } = package;
            format!("{name} {version} is needed by the tests and cannot be had")
        })?;
        unpack(package, &archive, &dir)?;
    }
    Ok(dir)
}

fn is_there(package: &Package, dir: &Path) -> bool {
    let mark = fs::read_to_string(dir.join(package.file_name()).join(MARK));
    mark.is_ok_and(|mark| mark == package.sha512)
}

impl Package {
    /// Without its scope: what its archive and its directory are called.
    fn file_name(&self) -> &'static str {
        self.name.rsplit('/').next().unwrap_or_default()
    }

    fn url(&self) -> String {
        let (Self { name, version, .. }, file) = (self, self.file_name());
        format!("https://registry.npmjs.org/{name}/-/{file}-{version}.tgz")
    }

    fn download(&self, to: &Path) -> anyhow::Result<()> {
        super::system_program("curl", "curl")?;
        eprintln!("fetching {} {} (once)", self.name, self.version);
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
    let place = dir.join(package.file_name());
    let new = place.with_extension("new");
    for old in [&new, &place] {
        if old.exists() {
            fs::remove_dir_all(old).with_context(|| format!("cannot remove {}", old.display()))?;
        }
    }
    fs::create_dir_all(&new)?;
    let mut tar = run::command("tar");
    tar.args(["--extract", "--gzip", "--file"]).arg(archive);
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
            name: "@scope/some",
            version: "1.0.0",
            sha512: PAYLOADS[0].sha512,
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
        package.sha512 = PAYLOADS[0].sha512;
        assert!(!is_there(&package, dir.path()), "another version is wanted");
    }
}
