//! The packages as they are built: what is in them, and that it serves.

mod chroot;

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail, ensure};
use grip_testkit::{LocalProject, Node};
use tempfile::TempDir;

use crate::{BINARY, operate::documents::links_must_lead_somewhere};

const BUILD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/build");

/// Runs a program to its end and returns what it printed.
fn run(program: &str, arguments: &[&Path], env: &[(&str, &str)]) -> Result<String> {
    Ok(run_to_end(program, arguments, env)?.0)
}

/// The same, with what it warned of.
#[expect(
    clippy::disallowed_methods,
    reason = "packages are made and read by Debian's tools"
)]
fn run_to_end(
    program: &str,
    arguments: &[&Path],
    env: &[(&str, &str)],
) -> Result<(String, String)> {
    let mut command = Command::new(program);
    let output = command.args(arguments).envs(env.iter().copied()).output();
    let output = output.with_context(|| format!("cannot run {program}"))?;
    let [printed, warned] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    if !output.status.success() {
        bail!("{program}: {warned}");
    }
    Ok((printed, warned))
}

/// Packages a binary; the paths of what was made, sorted.
fn build(binary: &Path, out: &Path) -> Result<Vec<PathBuf>> {
    let env = [("QUICK", "1"), ("SOURCE_DATE_EPOCH", "1700000000")];
    run(BUILD, &[binary, out], &env)?;
    let made = fs::read_dir(out)?.map(|entry| Ok(entry?.path()));
    let mut made = made.collect::<Result<Vec<_>>>()?;
    made.sort();
    Ok(made)
}

#[tokio::test]
async fn the_package_has_all_it_needs_and_serves_as_its_unit_says() -> Result<()> {
    let dir = TempDir::new()?;
    let made = build(Path::new(BINARY), &dir.path().join("out"))?;
    let deb = made
        .iter()
        .find(|path| path.extension().is_some_and(|it| it == "deb"));
    let deb = deb.context("a Debian package")?;
    let archive = made
        .iter()
        .find(|path| path.to_string_lossy().ends_with(".tar.gz"));
    let listed = run(
        "tar",
        &[Path::new("-tzf"), archive.as_ref().context("an archive")?],
        &[],
    )?;
    for part in [
        "/gripfast",
        "/gripfast.example.toml",
        "/man/gripfast.1",
        "/docs/install.md",
    ] {
        ensure!(
            listed.lines().any(|line| line.ends_with(part)),
            "{part}: {listed}"
        );
    }

    let archive = archive.context("an archive")?;
    let unpacked = dir.path().join("unpacked");
    fs::create_dir(&unpacked)?;
    let arguments = [Path::new("-xzf"), archive, Path::new("-C"), &unpacked];
    run("tar", &arguments, &[])?;
    let tree = fs::read_dir(&unpacked)?.next().context("a directory")??;
    links_must_lead_somewhere(&tree.path().join("README.md"), &tree.path().join("docs"))?;

    let (root, control) = (dir.path().join("root"), dir.path().join("control"));
    run("dpkg-deb", &[Path::new("--extract"), deb, &root], &[])?;
    run("dpkg-deb", &[Path::new("--control"), deb, &control], &[])?;
    for part in [
        "usr/share/man/man1/gripfast-backup.1.gz",
        "usr/share/bash-completion/completions/gripfast",
        "usr/share/zsh/vendor-completions/_gripfast",
        "usr/share/fish/vendor_completions.d/gripfast.fish",
        "usr/share/doc/gripfast/examples/compose.yaml",
        // What git starts for a clone by name: a link to the program.
        "usr/bin/git-remote-grip",
        "usr/share/doc/gripfast/copyright",
        "etc/gripfast/gripfast.toml",
    ] {
        ensure!(root.join(part).is_file(), "{part}");
    }
    let documents = root.join("usr/share/doc/gripfast");
    links_must_lead_somewhere(&documents.join("README.md"), &documents)?;
    pages_must_be_sound(&root.join("usr/share/man/man1"))?;
    for script in ["postinst", "prerm", "postrm"] {
        let path = control.join(script);
        run("sh", &[Path::new("-n"), &path], &[])?;
        ensure!(
            fs::metadata(&path)?.permissions().mode() & 0o111 != 0,
            "{script}"
        );
    }
    let described = fs::read_to_string(control.join("control"))?;
    ensure!(
        described.contains("Depends: git") && !described.contains("@VERSION@"),
        "{described}"
    );

    // As the unit starts it, with its own configuration, beneath another root.
    let unit = root.join("usr/lib/systemd/system/gripfast.service");
    must_be_sound(&unit, "/usr/bin/gripfast")?;
    let unit = fs::read_to_string(unit)?;
    let setting = |key: &str| {
        let line = unit
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.with_context(|| format!("the unit has {key}"))
    };
    ensure!(setting("User")? == "gripfast" && setting("Type")? == "notify");
    let start = setting("ExecStart")?;
    let binary = start.strip_suffix(" serve").context("it serves")?;
    let binary = root.join(binary.trim_start_matches('/'));
    let configuration = root.join("etc/gripfast");
    let env = [(
        "CONFIGURATION_DIRECTORY",
        configuration.to_str().context("a path")?,
    )];
    let node = Node::start_with(&binary, &env).await?;
    LocalProject::new("packaged")?.publish(&node, 5).await?;
    let said = node.run(&["check"]).await?;
    ensure!(said.contains("relay and git agree"), "{said}");
    Ok(())
}

/// Fails if a manual page is shown with a warning, or without its name; where no man-db is, if one has no title.
fn pages_must_be_sound(directory: &Path) -> Result<()> {
    let has_man = run("man", &[Path::new("--version")], &[]).is_ok();
    for page in fs::read_dir(directory)? {
        let page = page?.path();
        let name = page.file_name().context("a name")?.to_string_lossy();
        let name = name.trim_end_matches(".1.gz");
        let source = run("gzip", &[Path::new("-dc"), &page], &[])?;
        ensure!(
            source.contains(&format!("\n.TH {name} 1")),
            "{name}: {source}"
        );
        if has_man {
            let arguments = ["--warnings=w", "-l"].map(Path::new);
            let arguments = [&arguments[..], &[&page]].concat();
            let (shown, warned) = run_to_end("man", &arguments, &[("MANWIDTH", "100")])?;
            ensure!(warned.is_empty(), "{name}: {warned}");
            ensure!(
                shown.contains("NAME") && shown.contains(name),
                "{name}: {shown}"
            );
        }
    }
    Ok(())
}

#[test]
fn the_same_binary_makes_the_same_packages() -> Result<()> {
    let dir = TempDir::new()?;
    // A small one that answers as the real one does.
    let binary = dir.path().join("gripfast");
    fs::write(&binary, format!("#!/bin/sh\nexec {BINARY} \"$@\"\n"))?;
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755))?;
    let first = build(&binary, &dir.path().join("a"))?;
    let second = build(&binary, &dir.path().join("b"))?;
    ensure!(first.len() == 2 && second.len() == 2, "{first:?}");
    for (one, other) in first.iter().zip(&second) {
        ensure!(fs::read(one)? == fs::read(other)?, "{}", one.display());
    }
    Ok(())
}

/// Stripped, and refused before anything is packaged.
#[test]
fn a_binary_that_is_larger_than_promised_is_not_packaged() -> Result<()> {
    let script = fs::read_to_string(BUILD)?;
    ensure!(script.contains("${MAX_BINARY_BYTES:-50000000}"), "50 MB");
    let dir = TempDir::new()?;
    let paths = [Path::new(BINARY), dir.path()];
    let refused = run(BUILD, &paths, &[("MAX_BINARY_BYTES", "1000000")]).unwrap_err();
    let refused = refused.to_string();
    ensure!(refused.contains("more than 1000000"), "{refused}");
    let stripped = refused.split(' ').find_map(|word| word.parse::<u64>().ok());
    let whole = fs::metadata(BINARY)?.len();
    ensure!(stripped.is_some_and(|bytes| bytes < whole), "{refused}");
    ensure!(
        fs::read_dir(dir.path())?.next().is_none(),
        "nothing is made"
    );
    Ok(())
}

/// What systemd takes without a word and the node cannot do without, in both units that are shipped.
#[test]
fn the_units_bound_memory_and_leave_netlink_and_files_as_documented() -> Result<()> {
    let dir = TempDir::new()?;
    let made = build(Path::new(BINARY), dir.path())?;
    let deb = made
        .iter()
        .find(|path| path.extension().is_some_and(|it| it == "deb"));
    let root = dir.path().join("root");
    let deb = deb.context("a Debian package")?;
    run("dpkg-deb", &[Path::new("--extract"), deb, &root], &[])?;
    let source = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../packaging/gripfast.service"
    );
    let packaged = root.join("usr/lib/systemd/system/gripfast.service");
    for unit in [Path::new(source), &packaged] {
        let text = fs::read_to_string(unit)?;
        for line in [
            "MemoryMax=80%",
            "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK",
            "StateDirectory=gripfast",
            "StateDirectoryMode=0750",
            "UMask=0027",
            "ConfigurationDirectory=gripfast",
            "EnvironmentFile=-/etc/gripfast/environment",
        ] {
            let is_there = text.lines().any(|it| it == line);
            ensure!(is_there, "{} lacks {line}", unit.display());
        }
    }
    Ok(())
}

#[test]
fn the_unit_is_sound() -> Result<()> {
    let unit = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../packaging/gripfast.service"
    );
    must_be_sound(Path::new(unit), "/usr/local/bin/gripfast")
}

/// Fails unless systemd takes a unit without a warning, and finds its service closed.
fn must_be_sound(unit: &Path, program: &str) -> Result<()> {
    let dir = TempDir::new()?;
    let text = fs::read_to_string(unit)?;
    ensure!(text.contains(program), "{text}");
    // With a binary that is there; anything else that systemd warns of is an error.
    let installed = dir.path().join("gripfast.service");
    fs::write(&installed, text.replace(program, BINARY))?;
    let arguments = ["--man=no", "--recursive-errors=one", "verify"].map(Path::new);
    run(
        "systemd-analyze",
        &[&arguments[..], &[&installed]].concat(),
        &[],
    )?;
    // A score of at most 2.0, from 0 (closed) to 10 (open).
    let arguments = ["security", "--offline=true", "--threshold=20"].map(Path::new);
    let said = run("systemd-analyze", &[&arguments[..], &[unit]].concat(), &[])?;
    ensure!(said.contains("Overall exposure level"), "{said}");
    Ok(())
}
