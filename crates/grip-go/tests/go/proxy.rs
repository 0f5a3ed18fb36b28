//! The go tool fetches from a proxy whose every file this crate made.

use std::{fs, path::Path};

use grip_go::{
    Module, ModulePath, Version, implied_go_mod, sum,
    zip::{Entry, Kind, Selection},
};
use tempfile::TempDir;

use crate::{
    repository::{Release, Repository},
    tool::{Go, succeeded},
};

/// Lays a version out as `GOPROXY=file://…` wants it.
fn publish(proxy: &Path, module: &Module, go_mod: &[u8], zip: &[u8]) {
    let directory = proxy.join(module.path.escape()).join("@v");
    fs::create_dir_all(&directory).unwrap();
    let list = directory.join("list");
    let mut versions = fs::read_to_string(&list).unwrap_or_default();
    versions.push_str(&format!("{}\n", module.version));
    fs::write(&list, versions).unwrap();
    let file = |extension: &str| directory.join(format!("{}.{extension}", module.version.escape()));
    let info = format!(
        "{{\"Version\":\"{}\",\"Time\":\"2025-05-27T00:00:00Z\"}}",
        module.version
    );
    fs::write(file("info"), info).unwrap();
    fs::write(file("mod"), go_mod).unwrap();
    fs::write(file("zip"), zip).unwrap();
}

fn releases() -> Vec<Release> {
    let repository = Repository::new();
    let here = ModulePath::parse("git.example/Group/lib").unwrap();
    let source =
        |name: &str| format!("package {name}\n\nfunc Name() string {{ return \"{name}\" }}\n");
    let long = format!(
        "package old\n\nconst Text = `{}`\n",
        "many words ".repeat(20_000)
    );
    let mod_of = |path: &str| format!("module git.example/Group/lib{path}\n\ngo 1.19\n");
    repository.tag(
        "v1.2.0",
        &[
            ("LICENSE", "do what you like\n"),
            ("go.mod", &mod_of("")),
            ("lib.go", &source("lib")),
            ("empty.txt", ""),
            ("Inner/inner.go", &source("inner")),
            ("sub/go.mod", &mod_of("/sub")),
            ("sub/sub.go", &source("sub")),
            ("v3/go.mod", &mod_of("/v3")),
            ("v3/three.go", &source("three")),
        ],
    );
    for tag in ["sub/v0.3.0-RC.1", "v3.1.4"] {
        repository.tag(
            tag,
            &[
                ("LICENSE", "do what you like\n"),
                ("go.mod", &mod_of("")),
                ("sub/go.mod", &mod_of("/sub")),
                ("sub/sub.go", &source("sub")),
                ("v3/go.mod", &mod_of("/v3")),
                ("v3/three.go", &source("three")),
            ],
        );
    }
    let old = Repository::new();
    old.tag("v2.5.0", &[("old.go", &source("old")), ("text.go", &long)]);
    let old_place = ModulePath::parse("git.example/old").unwrap();
    let mut releases: Vec<_> = ["v1.2.0", "sub/v0.3.0-RC.1", "v3.1.4"]
        .iter()
        .map(|tag| repository.release(&here, tag).unwrap())
        .collect();
    releases.push(old.release(&old_place, "v2.5.0").unwrap());
    releases
}

const PROGRAM: &str = r#"package main

import (
	lib "git.example/Group/lib"
	"git.example/Group/lib/Inner"
	"git.example/Group/lib/sub"
	three "git.example/Group/lib/v3"
	"git.example/old"
)

func main() {
	println(lib.Name(), inner.Name(), sub.Name(), three.Name(), old.Name(), len(old.Text))
}
"#;

#[test]
fn go_gets_checks_and_builds_what_we_zip() {
    let proxy = TempDir::new().unwrap();
    let releases = releases();
    let names: Vec<_> = releases.iter().map(Release::name).collect();
    assert_eq!(
        names,
        [
            "git.example/Group/lib@v1.2.0",
            "git.example/Group/lib/sub@v0.3.0-RC.1",
            "git.example/Group/lib/v3@v3.1.4",
            "git.example/old@v2.5.0+incompatible",
        ],
    );
    for release in &releases {
        publish(proxy.path(), &release.module, &release.go_mod, &release.zip);
    }
    let go = Go::with_proxy(proxy.path());
    for (release, said) in releases.iter().zip(go.download(&names)) {
        assert_eq!(said["Sum"], *release.sum, "{said:#}");
        assert_eq!(said["GoModSum"], *release.go_mod_sum(), "{said:#}");
    }

    let main = go.main_module("program");
    fs::write(main.join("main.go"), PROGRAM).unwrap();
    let mut get = vec!["get"];
    get.extend(names.iter().map(String::as_str));
    succeeded(&go.run(&main, &get));
    succeeded(&go.run(&main, &["build", "-o", "program", "."]));
    succeeded(&go.run(&main, &["mod", "verify"]));
    let listed = succeeded(&go.run(&main, &["list", "-m", "-versions", "git.example/old"]));
    assert_eq!(listed.trim(), "git.example/old v2.5.0+incompatible");
    #[expect(clippy::disallowed_methods, reason = "the test runs what go built")]
    let output = std::process::Command::new(main.join("program"))
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "lib inner sub three old 220000\n"
    );
}

/// More than 65 535 files need the larger form of a zip's end.
#[test]
fn go_reads_a_zip_of_very_many_files() {
    let proxy = TempDir::new().unwrap();
    let module = Module {
        path: ModulePath::parse("git.example/many").unwrap(),
        version: Version::parse("v1.0.0").unwrap(),
        dir: String::new(),
        has_go_mod: false,
    };
    let paths: Vec<_> = (0..66_000).map(|n| format!("{}/{n}", n % 100)).collect();
    let listing: Vec<_> = paths
        .iter()
        .map(|path| Entry {
            path: path.as_bytes(),
            kind: Kind::File,
            size: 0,
        })
        .collect();
    let selection = Selection::check(&module, b"", &listing).unwrap();
    let mut zip = Vec::new();
    selection.write_to(&mut zip, |_| Ok(&b""[..])).unwrap();
    let go_mod = implied_go_mod(&module.path);
    publish(proxy.path(), &module, go_mod.as_bytes(), &zip);

    let said = Go::with_proxy(proxy.path()).download(&["git.example/many@v1.0.0".into()]);
    let names = paths
        .iter()
        .map(|path| format!("{}{path}", selection.prefix()));
    let sum = sum::of_files(names.map(|name| (name, &b""[..])));
    assert_eq!(said[0]["Sum"], *sum, "{:#}", said[0]);
}
