//! Programs that tests need beside Rust: found, or installed once.

mod fixtures;
mod relocked;

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};

use self::relocked::Relocked;
use crate::run;

/// The client lines that tests speak with. 3.0.4 does not resolve: a dependency was yanked.
pub(crate) const NGIT_VERSIONS: &[&str] = &["3.0.3", "2.6.2"];
/// The field's own suite for GRASP servers.
const AUDIT_VERSION: &str = "0.2.0";
/// The peer that operators move in from.
const NGIT_GRASP: Relocked = Relocked {
    krate: "ngit-grasp",
    version: "3.0.10",
    pins: &[("webpki-roots@1.0.11", "1.0.10")],
};
/// The S3 server whose buckets clusters of the tests keep packs in.
const S3_SERVER_VERSION: &str = "0.14.1";
/// A relay of another make, from the Python package index.
const PYTHON_RELAY_VERSION: &str = "1.14";
const NEXTEST_VERSION: &str = "0.9.143";
const DENY_VERSION: &str = "0.20.2";

/// Everything that tests need, in place.
pub(crate) struct Tools {
    /// Holds `<crate>-<version>/bin` of each counterpart: `ngit`, `grasp-audit`, `ngit-grasp` and `s3s-fs`.
    pub(crate) installed_dir: PathBuf,
    /// Holds the packages `webhooks-examples` and `fixtures` of GitHub's payloads.
    pub(crate) fixtures_dir: PathBuf,
    /// `PATH` with the tools we installed in front.
    pub(crate) path: OsString,
}

/// Finds or installs all of it.
pub(crate) fn prepare() -> anyhow::Result<Tools> {
    let cache = cache_dir()?;
    system_program("git", "git")?;
    browser()?;
    // Judges the unit; nothing is started by it.
    system_program("systemd-analyze", "systemd")?;
    // Shows which files a node touches.
    system_program("strace", "strace")?;
    // The program only: tests start servers of their own, and need none of the system's.
    system_program("redis-server", "redis-server")?;
    postgres()?;
    // The proxies whose configurations are shipped, and a certificate for them.
    for (program, version, package) in [
        ("nginx", "-v", "nginx-light"),
        ("caddy", "version", "caddy"),
        ("openssl", "version", "openssl"),
    ] {
        if !run::exists(program, version) {
            apt_install(package)?;
        }
    }
    if !run::exists("go", "version") {
        apt_install("golang-go")?;
    }
    let mut path = env::var_os("PATH").unwrap_or_default();
    if !run::exists("cargo-nextest", "--version") {
        let root = cache.join(format!("nextest-{NEXTEST_VERSION}"));
        install("cargo-nextest", NEXTEST_VERSION, &[], &root)?;
        let dirs = std::iter::once(root.join("bin")).chain(env::split_paths(&path));
        path = env::join_paths(dirs.collect::<Vec<_>>())?;
    }
    let ngit = NGIT_VERSIONS.iter().map(|version| ("ngit", *version));
    for (krate, version) in ngit.chain([("grasp-audit", AUDIT_VERSION)]) {
        let root = cache.join(format!("{krate}-{version}"));
        if !root.join("bin").join(krate).is_file() {
            system_tls()?;
        }
        install(krate, version, &[], &root)?;
    }
    let root = cache.join(format!("s3s-fs-{S3_SERVER_VERSION}"));
    install("s3s-fs", S3_SERVER_VERSION, &["binary"], &root)?;
    let root = cache.join(format!("{}-{}", NGIT_GRASP.krate, NGIT_GRASP.version));
    if !root.join("bin").join(NGIT_GRASP.krate).is_file() {
        system_tls()?;
        NGIT_GRASP.install(&root)?;
    }
    python_relay(&cache.join(format!("nostr-relay-{PYTHON_RELAY_VERSION}")))?;
    // A clock that is wrong, for one process.
    system_program("faketime", "faketime")?;
    debian_base(&cache)?;
    let fixtures_dir = fixtures::payloads(&cache)?;
    fixtures::browser_scripts(&cache)?;
    Ok(Tools {
        installed_dir: cache,
        fixtures_dir,
        path,
    })
}

/// Sees that programs can be built whose TLS is that of the system.
fn system_tls() -> anyhow::Result<()> {
    system_program("pkg-config", "pkg-config")?;
    if !run::exists("pkg-config", "openssl") {
        apt_install("libssl-dev")?;
    }
    Ok(())
}

/// Makes an archive of a minimal Debian with what the package depends on, unless it is there. Its
/// release and mirror are those of this machine.
fn debian_base(cache: &Path) -> anyhow::Result<()> {
    let archive = cache.join("debian-base.tar");
    if archive.is_file() {
        return Ok(());
    }
    if !run::exists("debootstrap", "--version") {
        apt_install("debootstrap")?;
    }
    eprintln!("making {} (once)", archive.display());
    let release = fs::read_to_string("/etc/os-release")?;
    let suite = release
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .context("/etc/os-release names no release of Debian")?;
    let mirror = mirror_of(suite).context("no mirror of Debian is configured for apt")?;
    fs::create_dir_all(cache)?;
    let dir = tempfile::Builder::new()
        .prefix("debian-")
        .tempdir_in(cache)?;
    let root = dir.path().join("root");
    let mut bootstrap = run::command("debootstrap");
    bootstrap
        .args(["--variant=minbase", "--include=git,adduser,ca-certificates"])
        .arg(suite)
        .arg(&root)
        .arg(mirror);
    run::succeed(&mut bootstrap)?;
    let half = dir.path().join("half.tar");
    let mut pack = run::command("tar");
    pack.arg("--create")
        .arg("--exclude=./var/cache/apt/archives/*.deb")
        .arg("--file")
        .arg(&half)
        .arg("--directory")
        .arg(&root)
        .arg(".");
    run::succeed(&mut pack)?;
    Ok(fs::rename(half, archive)?)
}

/// The mirror that apt uses for a release.
fn mirror_of(suite: &str) -> Option<String> {
    let files = fs::read_dir("/etc/apt/sources.list.d")
        .into_iter()
        .flatten();
    let files = files.flatten().map(|entry| entry.path());
    let files = files.chain([PathBuf::from("/etc/apt/sources.list")]);
    let texts = files.filter_map(|file| fs::read_to_string(file).ok());
    texts.into_iter().find_map(|text| mirror_in(&text, suite))
}

/// The same in one file, in either of its two forms.
fn mirror_in(text: &str, suite: &str) -> Option<String> {
    for stanza in text.split("\n\n") {
        let field = |name: &str| stanza.lines().find_map(|line| line.strip_prefix(name));
        let suites = field("Suites:").unwrap_or_default();
        if suites.split_whitespace().any(|it| it == suite) {
            let uris = field("URIs:").unwrap_or_default();
            return uris.split_whitespace().next().map(str::to_owned);
        }
    }
    let words = |line: &str| {
        let words = line.split_whitespace().map(str::to_owned);
        words
            .filter(|word| !word.starts_with('[') && !word.ends_with(']'))
            .collect::<Vec<_>>()
    };
    let mut lines = text.lines().map(words);
    lines.find_map(|words| match &words[..] {
        [kind, uri, of, ..] if kind == "deb" && of == suite => Some(uri.clone()),
        _ => None,
    })
}

/// Finds or installs the browser and what drives it.
pub(crate) fn browser() -> anyhow::Result<()> {
    system_program("chromium", "chromium")?;
    system_program("chromedriver", "chromium-driver")
}

/// Finds or installs cargo-deny; says where.
pub(crate) fn cargo_deny() -> anyhow::Result<PathBuf> {
    let root = cache_dir()?.join(format!("cargo-deny-{DENY_VERSION}"));
    install("cargo-deny", DENY_VERSION, &[], &root)?;
    Ok(root.join("bin/cargo-deny"))
}

/// `$XDG_CACHE_HOME/gripfast`, or the same below the home directory.
fn cache_dir() -> anyhow::Result<PathBuf> {
    let cache = match env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty()) {
        Some(dir) => PathBuf::from(dir),
        None => PathBuf::from(env::var_os("HOME").context("HOME is not set")?).join(".cache"),
    };
    Ok(cache.join("gripfast"))
}

/// Installs the program of a crate's name below `root`, unless it is there. A debug build is enough for
/// tests and takes a third of the time.
fn install(krate: &str, version: &str, features: &[&str], root: &Path) -> anyhow::Result<()> {
    if root.join("bin").join(krate).is_file() {
        return Ok(());
    }
    let place = root.display();
    eprintln!("installing {krate} {version} into {place} (once)");
    let words = format!("install {krate} --version {version} --locked --debug --root");
    let mut command = run::cargo_with(&words);
    command
        .arg(root)
        .args(features.iter().flat_map(|feature| ["--features", *feature]))
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        // Elsewhere, so that our toolchain file and target directory do not concern it.
        .current_dir(env::temp_dir());
    run::succeed(&mut command)
        .with_context(|| format!("{krate} {version} is needed by the tests and cannot be had"))
}

/// Installs the relay into a virtual environment of its own, unless it is there.
fn python_relay(root: &Path) -> anyhow::Result<()> {
    if root.join("bin/nostr-relay").is_file() {
        return Ok(());
    }
    let venv = || {
        let mut command = run::command("python3");
        command.args(["-m", "venv"]).arg(root);
        run::succeed(&mut command)
    };
    // On Debian the module is a package of its own.
    venv().or_else(|_| apt_install("python3-venv").and_then(|()| venv()))?;
    let place = root.display();
    eprintln!("installing nostr-relay {PYTHON_RELAY_VERSION} into {place} (once)");
    let mut pip = run::command(root.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check"])
        .arg(format!("nostr-relay=={PYTHON_RELAY_VERSION}"));
    run::succeed(&mut pip).context("nostr-relay is needed by the tests and cannot be had")
}

/// Sees that a program of the system is there.
fn system_program(program: &str, package: &str) -> anyhow::Result<()> {
    if run::exists(program, "--version") {
        return Ok(());
    }
    apt_install(package)
}

/// Sees that the programs of Postgres are there, which on Debian are not on `PATH`.
fn postgres() -> anyhow::Result<()> {
    let is_there = run::exists("postgres", "--version") && run::exists("initdb", "--version");
    if is_there || has_postgres(Path::new("/usr/lib/postgresql")) {
        return Ok(());
    }
    can_install("postgresql")?;
    let settings = Path::new("/etc/postgresql-common/createcluster.d");
    without_cluster(settings, || apt_install("postgresql"))
}

/// Says whether one of the versions below the directory has the server's programs.
fn has_postgres(versions: &Path) -> bool {
    let mut versions = fs::read_dir(versions).into_iter().flatten().flatten();
    versions.any(|version| {
        let programs = version.path().join("bin");
        programs.join("postgres").is_file() && programs.join("initdb").is_file()
    })
}

/// Installs while a setting keeps the package from making and starting a server of the system's.
fn without_cluster(
    settings: &Path,
    install: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let setting = settings.join("gripfast-tests.conf");
    fs::create_dir_all(settings)
        .and_then(|()| fs::write(&setting, "create_main_cluster = false\n"))
        .with_context(|| format!("cannot write {}", setting.display()))?;
    let installed = install();
    fs::remove_file(&setting).with_context(|| format!("cannot remove {}", setting.display()))?;
    installed
}

fn can_install(package: &str) -> anyhow::Result<()> {
    let root = run::output(run::command("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    if !root || !run::exists("apt-get", "--version") {
        bail!("the tests need the package {package}: install it and try again");
    }
    Ok(())
}

fn apt_install(package: &str) -> anyhow::Result<()> {
    can_install(package)?;
    eprintln!("installing the package {package}");
    let apt = || {
        let mut command = run::command("apt-get");
        command
            .env("DEBIAN_FRONTEND", "noninteractive")
            // Packages do not start their services in this runlevel: tests start their own.
            .env("RUNLEVEL", "1");
        command
    };
    // The list of packages may be missing or old; if so, the first attempt fails.
    let attempt =
        || run::succeed(apt().args(["install", "-y", "--no-install-recommends", package]));
    attempt().or_else(|_| run::succeed(apt().arg("update")).and_then(|()| attempt()))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn postgres_is_there_if_one_version_has_both_programs() {
        let dir = TempDir::new().unwrap();
        let put = |file: &str| {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        };
        assert!(!has_postgres(&dir.path().join("nowhere")));
        assert!(!has_postgres(dir.path()));
        put("14/bin/initdb");
        put("15/bin/postgres");
        put("15/bin/psql");
        assert!(!has_postgres(dir.path()), "no version has both");
        put("14/bin/postgres");
        assert!(has_postgres(dir.path()));
    }

    #[test]
    fn the_mirror_is_found_in_both_forms_of_sources() {
        let stanzas = "Types: deb\nURIs: http://a.example/security\nSuites: x-security\n\n\
                       Types: deb\n# old\nURIs: http://a.example/debian\nSuites: w x x-updates\n";
        assert_eq!(
            mirror_in(stanzas, "x").as_deref(),
            Some("http://a.example/debian")
        );
        let lines = "# deb http://old/ x main\ndeb [arch=amd64] http://b.example/debian x main\n";
        assert_eq!(
            mirror_in(lines, "x").as_deref(),
            Some("http://b.example/debian")
        );
        assert_eq!(mirror_in(lines, "y"), None);
    }

    #[test]
    fn no_cluster_is_made_while_the_package_is_installed_and_later_ones_are() {
        let dir = TempDir::new().unwrap();
        let settings = dir.path().join("createcluster.d");
        let setting = settings.join("gripfast-tests.conf");
        let seen = || fs::read_to_string(&setting).ok();
        without_cluster(&settings, || {
            assert_eq!(seen().unwrap(), "create_main_cluster = false\n");
            Ok(())
        })
        .unwrap();
        assert_eq!(seen(), None);
        let failed = without_cluster(&settings, || bail!("no such package"));
        assert_eq!(failed.unwrap_err().to_string(), "no such package");
        assert_eq!(seen(), None);
    }
}
