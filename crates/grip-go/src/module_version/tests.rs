use proptest::prelude::*;

use super::*;
use crate::tag;

const HERE: &str = "git.example/o/r";

/// What Go makes of a tag, given the paths that the two go.mod files name.
fn decide(location: &str, tag: &str, own: Option<&str>, major: Option<&str>) -> String {
    let text = |path: Option<&str>| path.map(|path| format!("module {path}\n"));
    let (own, major) = (text(own), text(major));
    let decided = module_version(
        &tag::read(tag).unwrap(),
        &ModulePath::parse(location).unwrap(),
        own.as_deref().map(str::as_bytes).into(),
        major.as_deref().map(str::as_bytes).into(),
    );
    match decided {
        Ok(module) => {
            assert_eq!(module.has_go_mod, own.is_some() || major.is_some());
            format!("{}@{} in {:?}", module.path, module.version, module.dir)
        }
        Err(reason) => reason.to_string(),
    }
}

/// Checks rows of where the repository is unless [`HERE`], a tag, the paths that the two go.mod
/// files name, and what Go makes of it; `-` is no file.
fn check(rows: &str) {
    for row in rows.trim().lines() {
        let cells: Vec<_> = row.split(" | ").map(str::trim).collect();
        let (location, rest) = match cells.len() {
            5 => (cells[0], &cells[1..]),
            _ => (HERE, &cells[..]),
        };
        let [tag, own, major, expected] = rest else {
            panic!("{row}");
        };
        let [own, major] = [own, major].map(|path| Some(*path).filter(|path| *path != "-"));
        assert_eq!(decide(location, tag, own, major), *expected);
    }
}

#[test]
fn a_tag_says_where_to_look() {
    for (tag, own, major) in [
        ("v1.2.3", "", None),
        ("v0.2.3", "", None),
        ("v2.0.0", "", Some("v2")),
        ("v12.0.0-rc.1", "", Some("v12")),
        ("sub/v1.0.0", "sub", None),
        ("sub/dir/v3.0.0", "sub/dir", Some("sub/dir/v3")),
    ] {
        let places = candidates(&tag::read(tag).unwrap());
        assert_eq!(places.own, own);
        assert_eq!(places.major.as_deref(), major);
    }
}

/// Each line was tried with `go mod download` and a repository at that place.
#[test]
fn tags_that_go_takes_release_a_module() {
    check(
        r#"
        v1.2.3     | git.example/o/r        | -                      | git.example/o/r@v1.2.3 in ""
        v0.1.0-rc  | git.example/o/r        | -                      | git.example/o/r@v0.1.0-rc in ""
        v1.2.3     | -                      | -                      | git.example/o/r@v1.2.3 in ""
        v2.0.0     | -                      | -                      | git.example/o/r@v2.0.0+incompatible in ""
        v2.0.0-a   | -                      | -                      | git.example/o/r@v2.0.0-a+incompatible in ""
        v2.0.0     | git.example/o/r/v2     | -                      | git.example/o/r/v2@v2.0.0 in ""
        v2.0.0     | git.example/o/r        | git.example/o/r/v2     | git.example/o/r/v2@v2.0.0 in "v2"
        v2.0.0     | -                      | git.example/o/r/v2     | git.example/o/r/v2@v2.0.0 in "v2"
        sub/v1.0.0 | git.example/o/r/sub    | -                      | git.example/o/r/sub@v1.0.0 in "sub"
        sub/v2.0.0 | git.example/o/r/sub/v2 | -                      | git.example/o/r/sub/v2@v2.0.0 in "sub"
        sub/v2.0.0 | git.example/o/r/sub    | git.example/o/r/sub/v2 | git.example/o/r/sub/v2@v2.0.0 in "sub/v2"
        v2/v2.0.0  | git.example/o/r/v2/v2  | -                      | git.example/o/r/v2/v2@v2.0.0 in "v2"
        "#,
    );
}

#[test]
fn a_go_mod_may_name_another_place() {
    check(
        r#"
        v1.0.0     | go.example/zap     | -                  | go.example/zap@v1.0.0 in ""
        exp/v0.1.0 | go.example/zap/exp | -                  | go.example/zap/exp@v0.1.0 in "exp"
        v2.0.0     | -                  | go.example/zap/v2  | go.example/zap/v2@v2.0.0 in "v2"
        v2.4.0     | gopkg.in/yaml.v2   | -                  | gopkg.in/yaml.v2@v2.4.0 in ""
        v1.4.0     | gopkg.in/yaml.v1   | -                  | gopkg.in/yaml.v1@v1.4.0 in ""
        v2.4.0     | gopkg.in/yaml.v2   | git.example/o/r/v2 | gopkg.in/yaml.v2@v2.4.0 in ""
        v2.4.0     | gopkg.in/yaml.v1   | git.example/o/r/v2 | git.example/o/r/v2@v2.4.0 in "v2"
        "#,
    );
}

#[test]
fn a_place_may_end_with_a_major_version() {
    check(
        r#"
        git.example/v2         | v2.1.0 | git.example/v2 | git.example/v2/v2 | git.example/v2@v2.1.0 in ""
        git.example/v2         | v2.1.0 | -              | -                 | git.example/v2 ends with a major version, so it is no module without a go.mod
        gopkg.in/yaml.v2       | v2.1.0 | -              | -                 | gopkg.in/yaml.v2@v2.1.0 in ""
        gopkg.in/yaml.v2       | v1.1.0 | -              | -                 | gopkg.in/yaml.v2 cannot have the version v1.1.0: it allows only v2
        gopkg.in/b.v2-unstable | v2.1.0 | -              | -                 | gopkg.in/b.v2-unstable has no versions, because gopkg.in makes none for paths that end in -unstable
        "#,
    );
}

#[test]
fn tags_that_go_refuses_release_nothing_and_the_reason_is_said() {
    check(
        r#"
        v2.0.0      | git.example/o/r        | -                  | go.mod names git.example/o/r, which cannot have the version v2.0.0: it allows only v0 and v1
        v1.0.0      | git.example/o/r/v2     | -                  | go.mod names git.example/o/r/v2, which cannot have the version v1.0.0: it allows only v2
        v3.0.0      | git.example/o/r/v2     | -                  | go.mod names git.example/o/r/v2, which cannot have the version v3.0.0: it allows only v2
        v2.0.0      | git.example/o/r/v2     | git.example/o/r/v2 | go.mod and v2/go.mod both name a module for v2
        v2.0.0      | git.example/o/r/v2     | git.example/o/r    | v2/go.mod names git.example/o/r, which cannot have the version v2.0.0: it allows only v0 and v1
        v2.0.0      | -                      | r                  | v2/go.mod names no module: line 1 of go.mod: "r" is no module path: its first element has no dot, so it is no domain
        sub/v1.0.0  | -                      | -                  | sub/go.mod is missing, and only the root of a repository is a module without it
        sub/v2.0.0  | -                      | -                  | sub/go.mod is missing, and only the root of a repository is a module without it
        sub/v1.0.0  | git.example/o/r/other  | -                  | sub/go.mod names git.example/o/r/other, which Go looks for in another directory
        sub/v1.0.0  | git.example/o/r        | -                  | sub/go.mod names git.example/o/r, which Go looks for in another directory
        v1.0.0      | git.example/o/r/sub    | -                  | go.mod names git.example/o/r/sub, which Go looks for in another directory
        v2/v2.0.0   | git.example/o/r/v2     | -                  | v2/go.mod names git.example/o/r/v2, which Go looks for in another directory
        sub/v1.0.0  | go.example/asub        | -                  | sub/go.mod names go.example/asub, which Go looks for in another directory
        yaml/v2.0.0 | gopkg.in/yaml.v2       | -                  | yaml/go.mod names gopkg.in/yaml.v2, which Go looks for in another directory
        v1.0.0      | gopkg.in/yaml.v2       | -                  | go.mod names gopkg.in/yaml.v2, which cannot have the version v1.0.0: it allows only v2
        v2.0.0      | gopkg.in/b.v2-unstable | -                  | gopkg.in/b.v2-unstable has no versions, because gopkg.in makes none for paths that end in -unstable
        v1.0.0      | a b                    | -                  | go.mod names no module: line 1 of go.mod is not the word module and one path
        "#,
    );
}

#[test]
fn a_broken_go_mod_beside_a_good_one_for_the_major_does_not_matter() {
    assert_eq!(
        decide(HERE, "v2.0.0", Some("???"), Some("git.example/o/r/v2")),
        "git.example/o/r/v2@v2.0.0 in \"v2\"",
    );
    let tag = tag::read("v1.0.0").unwrap();
    let here = ModulePath::parse(HERE).unwrap();
    assert_eq!(
        module_version(&tag, &here, Found::TooLarge, Found::None)
            .unwrap_err()
            .to_string(),
        "go.mod names no module: go.mod is larger than 16 MiB",
    );
}

#[test]
fn a_module_without_go_mod_gets_the_shortest() {
    let here = ModulePath::parse(HERE).unwrap();
    let text = implied_go_mod(&here);
    assert_eq!(text, "module git.example/o/r\n");
    assert_eq!(go_mod::module_path(text.as_bytes()).unwrap(), here);
}

proptest! {
    #[test]
    fn whatever_is_released_fits_its_path(
        tag in "(sub/|v2/)?v[0-3]\\.0\\.0",
        location in "(git\\.example/r|gopkg\\.in/r\\.v[0-3])",
        own in prop::option::of("(git\\.example/r|gopkg\\.in/r|go\\.example/x)(/sub)?((/|\\.)v[0-3])?"),
        major in prop::option::of("(git\\.example/r|go\\.example/x)(/sub)?(/v[2-3])?"),
    ) {
        let text = |path: Option<String>| path.map(|path| format!("module {path}"));
        let (own, major) = (text(own), text(major));
        let tag = tag::read(&tag).unwrap();
        let location = ModulePath::parse(&location).unwrap();
        let places = candidates(&tag);
        let decided = module_version(
            &tag,
            &location,
            own.as_deref().map(str::as_bytes).into(),
            major.as_deref().map(str::as_bytes).into(),
        );
        if let Ok(module) = decided {
            prop_assert!(module.version.fits(&module.path));
            prop_assert_eq!(module.version.in_tag(), tag.version.as_str());
            prop_assert!(module.dir == places.own || Some(&module.dir) == places.major.as_ref());
            prop_assert_eq!(module.has_go_mod, own.is_some() || module.dir != tag.dir);
        }
    }
}
