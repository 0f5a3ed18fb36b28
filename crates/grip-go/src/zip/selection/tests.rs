use proptest::prelude::*;

use super::*;
use crate::{ModulePath, Version, implied_go_mod, zip::MAX_NAMES};

fn module(path: &str, version: &str, dir: &str) -> Module {
    Module {
        path: ModulePath::parse(path).unwrap(),
        version: Version::parse(version).unwrap(),
        dir: dir.into(),
        has_go_mod: true,
    }
}

fn file(path: &str) -> Entry<'_> {
    bytes(path.as_bytes())
}

fn bytes(path: &[u8]) -> Entry<'_> {
    Entry {
        path,
        kind: Kind::File,
        size: 1,
    }
}

fn symlink(path: &str) -> Entry<'_> {
    let kind = Kind::Symlink;
    Entry { kind, ..file(path) }
}

fn sized(path: &str, size: u64) -> Entry<'_> {
    Entry { size, ..file(path) }
}

fn in_root(listing: &[Entry<'_>]) -> Result<Selection, ZipError> {
    Selection::check(&module("x.y/m", "v1.0.0", ""), b"", listing)
}

fn paths(selection: &Selection) -> Vec<&str> {
    selection.files().iter().map(|file| &*file.path).collect()
}

#[test]
fn files_keep_their_order_and_their_place_in_the_listing() {
    let listing = [file("go.mod"), symlink("link"), file("a/b.go"), file("z")];
    let selection = in_root(&listing).unwrap();
    assert_eq!(paths(&selection), ["go.mod", "a/b.go", "z"]);
    let places: Vec<_> = selection.files().iter().map(|file| file.entry).collect();
    assert_eq!(places, [0, 2, 3]);
    assert_eq!(selection.total_bytes(), 3);
    assert_eq!(selection.prefix(), "x.y/m@v1.0.0/");
}

#[test]
fn what_is_no_part_of_the_module_is_left_out() {
    let listing = [
        file(".gitattributes"),
        file(".hg_archival.txt"),
        file("a.go"),
        file("nested/go.mod"),
        file("nested/x.go"),
        file("nested/deeper/y.go"),
        file("nestedx/y.go"),
        file("shouting/GO.MOD"),
        file("shouting/x.go"),
        file("other/.hg_archival.txt"),
        symlink("linked/go.mod"),
        file("linked/x.go"),
        Entry {
            kind: Kind::Other,
            ..file("submodule")
        },
        file("vendor/modules.txt"),
        file("vendor/x.y/z/z.go"),
        bytes(b"vendor/x.y/\xff/z.go"),
        file("nested/con/x.go"),
    ];
    assert_eq!(
        paths(&in_root(&listing).unwrap()),
        [
            ".gitattributes",
            "a.go",
            "nestedx/y.go",
            "other/.hg_archival.txt",
            "linked/x.go",
            "vendor/modules.txt",
        ],
    );
}

/// golang.org/x/mod/zip before and after its change for Go 1.24.
#[test]
fn vendored_packages_are_left_out_as_the_language_of_the_module_asks() {
    for (path, old, new) in [
        ("vendor/modules.txt", false, true),
        ("vendor/x.go", false, false),
        ("vendor/x/x.go", true, true),
        ("sub/vendor/x/x.go", true, true),
        ("sub/vendor/x.go", true, false),
        ("sub/vendor/modules.txt", true, false),
        ("a/vendor/x.go", true, false),
        ("longerdir/vendor/x.go", true, false),
        ("vendored/x/x.go", false, false),
        ("x/vendor", false, false),
        ("myvendor/x/x.go", false, false),
    ] {
        for (language, expected) in [
            ("1.19", old),
            ("1.23.4", old),
            ("1.24", new),
            ("1.25rc1", new),
        ] {
            let go_mod = format!(
                "{}\ngo {language}\n",
                implied_go_mod(&ModulePath::parse("x.y/m").unwrap())
            );
            let selection = Selection::check(
                &module("x.y/m", "v1.0.0", ""),
                go_mod.as_bytes(),
                &[file(path)],
            );
            let left_out = selection.unwrap().files().is_empty();
            assert_eq!(left_out, expected, "{path} with go {language}");
        }
    }
}

#[test]
fn a_nested_module_has_its_own_files_and_the_license_of_the_root() {
    let nested = module("x.y/m/sub", "v1.0.0", "sub");
    let names = |listing: &[Entry<'_>]| {
        let selection = Selection::check(&nested, b"", listing).unwrap();
        let seen: Vec<_> = selection
            .files()
            .iter()
            .map(|file| (file.path.clone(), file.entry))
            .collect();
        seen
    };
    let of = |path: &str, entry| (path.to_owned(), entry);
    assert_eq!(
        names(&[
            file("LICENSE"),
            file("go.mod"),
            file("sub/a.go"),
            file("sub/go.mod"),
            file("sub/inner/go.mod"),
            file("sub/inner/x.go"),
            file("subx/a.go"),
        ]),
        [of("a.go", 2), of("go.mod", 3), of("LICENSE", 0)],
    );
    assert_eq!(
        names(&[file("LICENSE"), file("sub/LICENSE")]),
        [of("LICENSE", 1)]
    );
    // Go takes the target of a link at the root for the text, and a link in the module for a file.
    assert_eq!(names(&[symlink("LICENSE")]), [of("LICENSE", 0)]);
    assert_eq!(names(&[file("LICENSE"), symlink("sub/LICENSE")]), []);
    assert_eq!(names(&[file("LICENSE.txt"), file("sub/a")]), [of("a", 1)]);
    let clash = [file("LICENSE"), file("sub/License")];
    assert!(matches!(
        Selection::check(&nested, b"", &clash),
        Err(ZipError::Collision { .. })
    ));
}

#[test]
fn names_that_are_the_same_on_some_system_are_refused() {
    let collision = |path: &str| ZipError::Collision {
        path: shown(path.as_bytes()),
    };
    let path = shown(b"a");
    for (listing, expected) in [
        (vec![file("a.go"), file("A.go")], collision("A.go")),
        (vec![file("dir/a"), file("Dir/b")], collision("Dir/b")),
        (vec![file("dir"), file("DIR/b")], collision("DIR/b")),
        (vec![file("K"), file("\u{212A}")], collision("\u{212A}")),
        (vec![file("straße"), file("STRAẞE")], collision("STRAẞE")),
        (vec![file("Σ"), file("ς")], collision("ς")),
        (vec![file("a"), symlink("A")], collision("A")),
        (
            vec![file("a"), file("a")],
            ZipError::Twice { path: path.clone() },
        ),
        (
            vec![file("a/b"), file("a")],
            ZipError::FileAndDirectory { path },
        ),
        (
            vec![file("a"), file("a/b")],
            ZipError::FileAndDirectory {
                path: shown(b"a/b"),
            },
        ),
    ] {
        assert_eq!(in_root(&listing).err(), Some(expected));
    }
    assert!(in_root(&[file("a/b"), file("a/c"), file("b/a"), file("İ"), file("i")]).is_ok());
}

#[test]
fn paths_that_some_system_cannot_have_are_refused() {
    for path in [
        "a b/ä文.go",
        "!#$%&()+,-.=@[]^_{}~ ",
        ".github/x",
        "a..b",
        "x~1",
        "console",
    ] {
        assert!(in_root(&[file(path)]).is_ok(), "{path}");
    }
    let long = "a".repeat(MAX_PATH_BYTES + 1);
    for (path, flaw) in [
        (&b"a\\b"[..], Flaw::Character('\\')),
        (b"a:b", Flaw::Character(':')),
        (b"a\"b", Flaw::Character('"')),
        (b"a'b", Flaw::Character('\'')),
        (b"a*", Flaw::Character('*')),
        (b"a?", Flaw::Character('?')),
        (b"a;b", Flaw::Character(';')),
        (b"a\0b", Flaw::Character('\0')),
        (b"a\nb", Flaw::Character('\n')),
        (b"a\x1b[2J", Flaw::Character('\u{1b}')),
        (b"a\x7f", Flaw::Character('\u{7f}')),
        ("a\u{301}".as_bytes(), Flaw::Character('\u{301}')),
        ("😀".as_bytes(), Flaw::Character('😀')),
        ("a\u{202e}b".as_bytes(), Flaw::Character('\u{202e}')),
        (b"a\xff", Flaw::NotUtf8),
        (b"dir/...", Flaw::OnlyDots),
        (b"dir./a", Flaw::TrailingDot),
        (b"a.", Flaw::TrailingDot),
        (b"dir/nul.txt", Flaw::WindowsName),
        (b"AUX", Flaw::WindowsName),
        (long.as_bytes(), Flaw::TooLong { max: 4096 }),
    ] {
        let error = in_root(&[bytes(path)]).unwrap_err();
        assert!(
            matches!(error, ZipError::Path { flaw: seen, .. } if seen == flaw),
            "{error}"
        );
    }
    for path in ["/a", "a//b", "a/", "", ".", "..", "../a", "a/../b", "a/./b"] {
        let error = in_root(&[file(path)]).unwrap_err();
        assert!(matches!(error, ZipError::NotClean { .. }), "{path} {error}");
    }
    assert_eq!(
        in_root(&[file("Go.mod")]).unwrap_err().to_string(),
        "\"Go.mod\" is not written as go.mod, in small letters",
    );
}

#[test]
fn a_module_above_the_limits_is_refused() {
    let most = [sized("a", MAX_BYTES - 1), sized("b", 1)];
    assert_eq!(in_root(&most).unwrap().total_bytes(), MAX_BYTES);
    let above = [sized("a", MAX_BYTES), sized("b", 1)];
    assert_eq!(in_root(&above).err(), Some(ZipError::TooLarge));
    let absurd = [sized("a", 5), sized("b", u64::MAX)];
    assert_eq!(in_root(&absurd).err(), Some(ZipError::TooLarge));
    for name in ["go.mod", "LICENSE"] {
        assert!(in_root(&[sized(name, 16 << 20)]).is_ok());
        assert_eq!(
            in_root(&[sized(name, (16 << 20) + 1)])
                .unwrap_err()
                .to_string(),
            format!("\"{name}\" is larger than 16 MiB"),
        );
    }
    assert!(in_root(&[sized("sub/LICENSE", 17 << 20)]).is_ok());
    // What is left out does not count.
    assert!(in_root(&[sized("vendor/a/b", u64::MAX), file("a")]).is_ok());
}

#[test]
fn a_version_that_is_not_the_paths_has_no_zip() {
    let wrong = module("x.y/m", "v2.0.0", "");
    assert_eq!(
        Selection::check(&wrong, b"", &[]).unwrap_err().to_string(),
        "x.y/m cannot have the version v2.0.0",
    );
    let right = module("x.y/m", "v2.0.0+incompatible", "");
    let selection = Selection::check(&right, b"", &[file("a")]).unwrap();
    assert_eq!(selection.prefix(), "x.y/m@v2.0.0+incompatible/");
}

/// Work that grows with the depth of every path would not end before the test is ended.
#[test]
fn very_deep_paths_take_linear_time() {
    let trunk = "a/".repeat(2000);
    let deep: Vec<_> = (0..500).map(|n| format!("{trunk}{n}")).collect();
    let nested: Vec<_> = (500..1_000).map(|n| format!("{trunk}{n}/go.mod")).collect();
    let listing: Vec<_> = nested.iter().chain(&deep).map(|path| file(path)).collect();
    assert_eq!(in_root(&listing).unwrap().files().len(), 500);
}

#[test]
fn there_is_an_end_to_the_names() {
    let wide: Vec<_> = (0..=MAX_NAMES).map(|n| n.to_string()).collect();
    let listing: Vec<_> = wide.iter().map(|path| file(path)).collect();
    assert_eq!(in_root(&listing).err(), Some(ZipError::TooManyNames));
}

#[test]
fn names_alone_can_be_too_large() {
    let mut check = Check {
        language: None,
        nested: Directories::default(),
        names: Names::default(),
        selection: in_root(&[]).unwrap(),
        archive_bytes: MAX_BYTES - 130,
    };
    assert_eq!(check.count("a", 0), Ok(()));
    assert_eq!(check.count("b", 0), Err(ZipError::TooLarge));
}

proptest! {
    #[test]
    fn no_listing_is_too_strange(
        paths in prop::collection::vec(
            prop_oneof![
                prop::collection::vec(any::<u8>(), 0..12),
                "(a|A|\\.|\\.\\.|go\\.mod|vendor|LICENSE|nul|é|/|/|/){0,8}".prop_map(String::into_bytes),
            ],
            0..8,
        ),
        dir in "(a|a/a|)",
    ) {
        let listing: Vec<_> = paths.iter().map(|path| bytes(path)).collect();
        if let Ok(selection) = Selection::check(&module("x.y/m", "v1.0.0", &dir), b"", &listing) {
            for file in selection.files() {
                let listed = listing[file.entry].path;
                prop_assert!(listed.ends_with(file.path.as_bytes()));
                prop_assert!(!file.path.split('/').any(|element| matches!(element, "" | "." | "..")));
            }
        }
    }
}
