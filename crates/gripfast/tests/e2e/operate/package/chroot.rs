//! The Debian package in a clean Debian: installed, started as its unit says, upgraded, purged.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Node, debian_base, git};
use tempfile::TempDir;

use super::{build, run};
use crate::{BINARY, upgrade};

/// A Debian of its own, below a directory.
struct Chroot {
    root: PathBuf,
    _dir: TempDir,
}

impl Chroot {
    fn unpack() -> Result<Self> {
        let dir = TempDir::new()?;
        let root = dir.path().join("root");
        fs::create_dir(&root)?;
        let (extract, to) = (Path::new("--extract"), Path::new("--directory"));
        let base = debian_base()?;
        run(
            "tar",
            &[extract, Path::new("--file"), &base, to, &root],
            &[],
        )?;
        Ok(Self { root, _dir: dir })
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Runs a program of this Debian as root.
    fn run(&self, arguments: &[&str]) -> Result<String> {
        let arguments: Vec<_> = arguments.iter().map(Path::new).collect();
        let env = [("DEBIAN_FRONTEND", "noninteractive"), ("LC_ALL", "C")];
        run(
            "chroot",
            &[&[self.root.as_path()][..], &arguments[..]].concat(),
            &env,
        )
    }

    fn install(&self, deb: &Path) -> Result<String> {
        let place = self.path("/tmp/gripfast.deb");
        fs::copy(deb, &place)?;
        let said = self.run(&["dpkg", "--install", "/tmp/gripfast.deb"]);
        fs::remove_file(place)?;
        said
    }

    /// A program that starts the service as its unit says, with the user, the environment, the
    /// directory and the command line that stand there.
    fn launcher(&self) -> Result<PathBuf> {
        let unit = fs::read_to_string(self.path("/usr/lib/systemd/system/gripfast.service"))?;
        let setting = |key: &str| {
            let lines = unit.lines();
            let mut values = lines.filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
            values.next().with_context(|| format!("the unit has {key}"))
        };
        let (user, group) = (setting("User")?, setting("Group")?);
        let (start, directory) = (setting("ExecStart")?, setting("WorkingDirectory")?);
        let (program, arguments) = start.split_once(' ').context("a command")?;
        let environment = setting("Environment")?;
        let file = setting("EnvironmentFile")?.trim_start_matches('-');
        let configuration = setting("ConfigurationDirectory")?;
        let text = format!(
            "#!/bin/sh\n[ $# -gt 0 ] || set -- {arguments}\n\
             exec chroot --userspec={user}:{group} {root} /usr/bin/env -i -C {directory} \
             PATH=/usr/bin:/bin {environment} CONFIGURATION_DIRECTORY=/etc/{configuration} \
             $(cat {root}{file}) {program} \"$@\"\n",
            root = self.root.display(),
        );
        let launcher = self._dir.path().join("launch");
        fs::write(&launcher, text)?;
        fs::set_permissions(&launcher, fs::Permissions::from_mode(0o755))?;
        Ok(launcher)
    }
}

/// The same package as an earlier version.
fn earlier(deb: &Path, dir: &Path) -> Result<PathBuf> {
    let (tree, made) = (dir.join("tree"), dir.join("earlier.deb"));
    run("dpkg-deb", &[Path::new("--raw-extract"), deb, &tree], &[])?;
    let control = tree.join("DEBIAN/control");
    let text = fs::read_to_string(&control)?;
    let version = text.lines().find(|line| line.starts_with("Version: "));
    let version = version.context("a version")?;
    fs::write(&control, text.replace(version, "Version: 0.0.1~earlier"))?;
    let arguments = ["--root-owner-group", "-Znone", "--build"].map(Path::new);
    run(
        "dpkg-deb",
        &[&arguments[..], &[tree.as_path(), made.as_path()]].concat(),
        &[],
    )?;
    Ok(made)
}

#[tokio::test]
async fn the_package_installs_serves_upgrades_and_purges_in_a_clean_debian() -> Result<()> {
    let dir = TempDir::new()?;
    let made = build(Path::new(BINARY), &dir.path().join("out"))?;
    let deb = made
        .iter()
        .find(|path| path.extension().is_some_and(|it| it == "deb"));
    let deb = deb.context("a Debian package")?;
    let debian = Chroot::unpack()?;
    debian.install(&earlier(deb, dir.path())?)?;

    // For the service alone, as it was promised.
    let ids = debian.run(&["id", "-u", "gripfast"])?;
    let user: u32 = ids.trim().parse()?;
    let state = fs::metadata(debian.path("/var/lib/gripfast"))?;
    ensure!(state.uid() == user && state.mode() & 0o777 == 0o750);
    let settings = debian.path("/etc/gripfast/gripfast.toml");
    let private = fs::metadata(&settings)?;
    ensure!(private.uid() == 0 && private.mode() & 0o777 == 0o640);

    // Data of an earlier release, and settings that the operator has written.
    let facts = upgrade::unpack(dir.path())?;
    let data = debian.path("/var/lib/gripfast");
    let all = format!("{}/.", dir.path().join("data").display());
    run("cp", &[Path::new("-a"), Path::new(&all), &data], &[])?;
    debian.run(&["chown", "-R", "gripfast:gripfast", "/var/lib/gripfast"])?;
    let own = format!("{}\n# of the operator\n", fs::read_to_string(&settings)?);
    fs::write(&settings, &own)?;
    let mut node = Node::prepare(debian.launcher()?, &[])?;
    let environment = format!(
        "NGIT_DOMAIN={}\nNGIT_BIND_ADDRESS={}\n",
        facts.authority,
        node.authority()
    );
    fs::write(debian.path("/etc/gripfast/environment"), environment)?;

    // It serves, is upgraded, and serves the same and more.
    for round in ["installed", "upgraded", "without a configuration file"] {
        node.launch().await.context(round)?;
        let url = facts.clone_url.replace(&facts.authority, &node.authority());
        ensure!(git::ls_remote(&url).await? == facts.refs, "{round}");
        let mut relay = node.connect().await?;
        for event in &facts.served {
            ensure!(relay.serves(&event.id).await?, "{round}: {}", event.kind);
        }
        let said = node.run(&["check"]).await?;
        ensure!(said.contains("relay and git agree"), "{round}: {said}");
        ensure!(node.stop().await?.success(), "{round}: {}", node.log());
        if round == "installed" {
            debian.install(deb)?;
            ensure!(
                fs::read_to_string(&settings)? == own,
                "settings were replaced"
            );
        } else if round == "upgraded" {
            // The environment alone is enough.
            fs::remove_file(&settings)?;
        }
    }
    let version = debian.run(&[
        "dpkg-query",
        "--show",
        "--showformat=${Version}",
        "gripfast",
    ])?;
    ensure!(version != "0.0.1~earlier", "{version}");

    // Purged, it leaves the repositories of other people and nothing else.
    debian.run(&["dpkg", "--purge", "gripfast"])?;
    ensure!(!debian.path("/etc/gripfast").exists());
    ensure!(!debian.path("/usr/bin/gripfast").exists());
    ensure!(debian.path("/var/lib/gripfast/git").exists());
    Ok(())
}
