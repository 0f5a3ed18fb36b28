//! The go tool fetches from a repository by itself, and must come to the same modules and sums.

use grip_go::{ModulePath, tag};

use crate::{
    repository::{File, Repository},
    tool::{Go, succeeded},
};

const URL: &str = "https://github.com/o/r";

fn here() -> ModulePath {
    ModulePath::parse("github.com/o/r").unwrap()
}

fn repository(tags: &[(&str, &[File<'_>])]) -> (Repository, Go) {
    let repository = Repository::new();
    for (tag, files) in tags {
        repository.tag(tag, files);
    }
    let go = Go::with_repository(URL, repository.path());
    (repository, go)
}

/// Go fetches every one of the tags under the name and with the sum that we found.
fn assert_same(tags: &[(&str, &[File<'_>])]) {
    let (repository, go) = repository(tags);
    let releases: Vec<_> = tags
        .iter()
        .map(|(tag, _)| repository.release(&here(), tag).unwrap())
        .collect();
    let wanted: Vec<_> = releases.iter().map(|release| release.name()).collect();
    for (release, said) in releases.iter().zip(go.download(&wanted)) {
        let name = release.tag.name();
        assert_eq!(
            said["Sum"], *release.sum,
            "{name} {:?} {said:#}",
            release.files
        );
        assert_eq!(said["GoModSum"], *release.go_mod_sum(), "{name} {said:#}");
    }
}

const ROOT: File<'_> = ("go.mod", "module github.com/o/r\n");
const A: File<'_> = ("a.go", "package r\n");

#[test]
fn tags_release_the_same_modules_with_the_same_sums() {
    assert_same(&[
        ("v0.1.0", &[ROOT, A]),
        ("v1.0.0", &[A]),
        (
            "v1.0.1-rc.1",
            &[ROOT, A, ("sub/go.mod", "module github.com/o/r/sub\n")],
        ),
        (
            "v1.0.2",
            &[("go.mod", "module \"github.com/o/r\" // caf\u{e9}\r\n"), A],
        ),
        ("v2.0.0", &[("go.mod", "module github.com/o/r/v2\n"), A]),
        (
            "v3.0.0",
            &[
                ROOT,
                A,
                ("v3/go.mod", "module github.com/o/r/v3\n"),
                ("v3/b.go", "package b\n"),
            ],
        ),
        (
            "v4.0.0",
            &[
                A,
                ("v4/go.mod", "module github.com/o/r/v4\n"),
                ("v4/b.go", "package b\n"),
            ],
        ),
        ("v5.0.0", &[A]),
        ("v6.0.0-beta", &[A]),
        (
            "sub/v1.0.0",
            &[
                ROOT,
                A,
                ("sub/go.mod", "module github.com/o/r/sub\n"),
                ("sub/a.go", "package a\n"),
            ],
        ),
        (
            "sub/v2.0.0",
            &[ROOT, ("sub/go.mod", "module github.com/o/r/sub/v2\n")],
        ),
        (
            "sub/v3.0.0",
            &[
                ROOT,
                ("sub/go.mod", "module github.com/o/r/sub\n"),
                ("sub/v3/go.mod", "module github.com/o/r/sub/v3\n"),
            ],
        ),
        (
            "v2/v2.0.0",
            &[
                ("v2/go.mod", "module github.com/o/r/v2/v2\n"),
                ("v2/a.go", "package a\n"),
            ],
        ),
        (
            "Sub/Dir/v0.1.0",
            &[("Sub/Dir/go.mod", "module github.com/o/r/Sub/Dir\n")],
        ),
    ]);
}

#[test]
fn the_same_files_are_in_the_zips() {
    let everything: &[File<'_>] = &[
        ("go.mod", "module github.com/o/r\n\ngo 1.19\n"),
        ("LICENSE", "do what you like\n"),
        (
            ".gitattributes",
            "hidden export-ignore\nid.txt export-subst\n",
        ),
        (".hg_archival.txt", "no\n"),
        ("hidden", "Go looks at no export-ignore\n"),
        ("id.txt", "$Format:%H$\n"),
        ("empty", ""),
        ("a b/!#$%&()+,-.=@[]^_{}~ .txt", "strange\n"),
        ("文/ä/ñ.go", "package n\n"),
        ("link", "->a.go"),
        ("linked/go.mod", "->../go.mod"),
        ("linked/x.go", "package linked\n"),
        ("module", "(submodule)"),
        ("nested/go.mod", "module github.com/o/r/nested\n"),
        ("nested/x.go", "package nested\n"),
        ("nested/LICENSE", "another\n"),
        ("shouting/GO.MOD", "module x\n"),
        ("shouting/x.go", "package shouting\n"),
        ("vendor/modules.txt", "# none\n"),
        ("vendor/x.y/z/z.go", "package z\n"),
        ("sub/vendor/x.go", "package vendor\n"),
        ("sub/vendor/z/z.go", "package z\n"),
        ("cmd/x/vendor/y/y.go", "package y\n"),
        ("deep/er/and/deep/er/x.txt", "x\n"),
    ];
    let mut nested = everything.to_vec();
    nested.retain(|(path, _)| *path != "nested/LICENSE");
    let mut linked = nested.clone();
    linked.retain(|(path, _)| *path != "LICENSE");
    linked.push(("LICENSE", "->nested/x.go"));
    let mut linked_inside = nested.clone();
    linked_inside.push(("nested/LICENSE", "->x.go"));
    assert_same(&[
        ("v1.0.0", everything),
        ("nested/v1.0.0", everything),
        ("nested/v1.0.1", &nested),
        ("nested/v1.0.2", &linked),
        ("nested/v1.0.3", &linked_inside),
    ]);
}

/// For each tag that we refuse, Go refuses every path under which it could be asked for.
#[test]
fn tags_that_release_nothing_release_nothing_to_go_either() {
    let tags: &[(&str, &[File<'_>])] = &[
        ("v1.1.0", &[("go.mod", "module github.com/o/r/v2\n"), A]),
        ("v2.0.0", &[ROOT, A]),
        ("v3.0.0", &[("go.mod", "module github.com/o/r/v2\n"), A]),
        (
            "v4.0.0",
            &[
                ("go.mod", "module github.com/o/r/v4\n"),
                A,
                ("v4/go.mod", "module github.com/o/r/v4\n"),
            ],
        ),
        (
            "v5.0.0",
            &[
                ("go.mod", "module github.com/o/r/v5\n"),
                A,
                ("v5/go.mod", "module github.com/o/r\n"),
            ],
        ),
        ("v6.0.0", &[A, ("v6/go.mod", "module github.com/o/r\n")]),
        ("v7.0.0", &[("go.mod", "// nothing\n"), A]),
        ("sub/v1.0.0", &[ROOT, A, ("sub/a.go", "package a\n")]),
        (
            "sub/v1.1.0",
            &[ROOT, ("sub/go.mod", "module github.com/o/r/other\n")],
        ),
        (
            "sub/v1.2.0",
            &[ROOT, ("sub/go.mod", "module github.com/o/r\n")],
        ),
        ("sub/v2.0.0", &[ROOT, ("sub/a.go", "package a\n")]),
        ("v1.2.0", &[("go.mod", "module github.com/o/r/sub\n"), A]),
        (
            "v1.3.0",
            &[
                ("go.mod", "module github.com/o/r\nmodule github.com/o/r\n"),
                A,
            ],
        ),
        ("v1.4.0", &[("go.mod", "module github.com/o/r x\n"), A]),
        (
            "v1.5.0",
            &[
                ("go.mod", "->sub/go.mod"),
                A,
                ("sub/go.mod", "module github.com/o/r\n"),
            ],
        ),
        ("v2/v2.1.0", &[("v2/go.mod", "module github.com/o/r/v2\n")]),
    ];
    let (repository, go) = repository(tags);
    repository.tag("v1.9.0", &[ROOT, A]);
    let main = go.main_module("taken");
    succeeded(&go.run(&main, &["get", "github.com/o/r@v1.9.0"]));
    for (number, (name, _)) in tags.iter().enumerate() {
        let Err(reason) = repository.release(&here(), name) else {
            panic!("{name} releases something");
        };
        assert!(!reason.to_string().is_empty());
        let main = go.main_module(&number.to_string());
        for asked in ways_to_ask(name) {
            let output = go.run(&main, &["get", &asked]);
            assert!(
                !output.status.success(),
                "go takes {asked} for {name}: {reason}"
            );
        }
    }
}

fn ways_to_ask(name: &str) -> Vec<String> {
    let tag = tag::read(name).unwrap();
    let root = match tag.dir.as_str() {
        "" => here().to_string(),
        dir => format!("{}/{dir}", here()),
    };
    let version = &tag.version;
    match version.major() {
        "v0" | "v1" => vec![format!("{root}@{version}")],
        major => vec![
            format!("{root}@{version}"),
            format!("{root}/{major}@{version}"),
        ],
    }
}

#[test]
fn a_vanity_path_has_the_files_of_its_repository() {
    // Go would ask the network for go.example; the files are the same under the place's own path.
    let (repository, go) = repository(&[("v1.0.0", &[("go.mod", "module go.example/x\n"), A])]);
    let release = repository.release(&here(), "v1.0.0").unwrap();
    assert_eq!(release.name(), "go.example/x@v1.0.0");
    let said = go.download(&["github.com/o/r@v1.0.0".into()]);
    assert_eq!(said[0]["GoModSum"], *release.go_mod_sum());
}
