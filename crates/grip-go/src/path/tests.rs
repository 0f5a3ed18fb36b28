use proptest::prelude::*;

use super::*;

#[test]
fn paths_that_go_takes_are_paths() {
    let words = "example.com x.y x.y/z x.y/z.w github.com/Azure/azure-sdk-for-go \
        example.com/a_b/c-d/e~f/g.h example.com/v2 example.com/m/v2 example.com/m/v10 \
        example.com/m/v example.com/m/version2 example.com/m/x2 example.com/m/v2/v3 \
        example.com/m/v1/v2 example.com/-m example.com/m~x example.com/m~1x example.com/console \
        example.com/com0 1.2/3 gopkg.in/yaml.v2 gopkg.in/check.v1 gopkg.in/x.v0 \
        gopkg.in/user/pkg.v3 gopkg.in/macaroon-bakery.v2-unstable gopkg.in m.in/x.v2";
    for path in words.split(' ') {
        assert_eq!(ModulePath::parse(path).unwrap().as_str(), path);
    }
}

#[test]
fn paths_that_go_refuses_are_none_and_the_reason_is_said() {
    let long = format!("example.com/{}", "a".repeat(ModulePath::MAX_BYTES));
    let deep = format!("example.com{}", "/a".repeat(2048));
    let is_refused = |path: &str, flaw: Flaw| {
        assert_eq!(ModulePath::parse(path).unwrap_err().flaw, flaw, "{path:?}");
    };
    for (paths, flaw) in [
        ("/ /x.y/z x.y/z/ x.y//z", Flaw::EmptyElement),
        ("x x/y.z", Flaw::NoDomain),
        (". x.y/.. x.y/../z x.y/...", Flaw::OnlyDots),
        (".x.y/z x.y/.git", Flaw::LeadingDot),
        ("x.y/z. x.y./z", Flaw::TrailingDot),
        (
            "x.y/con x.y/NuL.txt x.y/Com1 x.y/lpt9.a.b aux.com/x",
            Flaw::WindowsName,
        ),
        ("x.y/short~1 x.y/short~12.go", Flaw::ShortName),
        (
            "x.y/m/v1 x.y/m/v0 x.y/m/v02 x.y/m/v2.1 x.y/v1 gopkg.in/yaml gopkg.in/yaml/v2 gopkg.in/yaml.v gopkg.in/yaml.v02 gopkg.in/yaml.v0-unstable gopkg.in/yaml.v2/sub",
            Flaw::Major,
        ),
    ] {
        paths.split(' ').for_each(|path| is_refused(path, flaw));
    }
    for (path, flaw) in [
        ("", Flaw::Empty),
        ("-x.y/z", Flaw::LeadingDash),
        ("X.y/z", Flaw::DomainCharacter('X')),
        ("x_y.z/a", Flaw::DomainCharacter('_')),
        ("x~.y", Flaw::DomainCharacter('~')),
        ("x.y/a b", Flaw::Character(' ')),
        ("x.y/a+b", Flaw::Character('+')),
        ("x.y/a@v1.0.0", Flaw::Character('@')),
        ("x.y/a\\b", Flaw::Character('\\')),
        ("x.y/a\0", Flaw::Character('\0')),
        ("x.y/a\n", Flaw::Character('\n')),
        ("x.y/!a", Flaw::Character('!')),
        ("x.y/%61", Flaw::Character('%')),
        ("x.y/ä", Flaw::Character('ä')),
        ("http://x.y", Flaw::Character(':')),
        (&long, Flaw::TooLong { max: 1024 }),
        (&deep, Flaw::TooLong { max: 1024 }),
    ] {
        is_refused(path, flaw);
    }
    assert_eq!(
        ModulePath::parse("x.y/\u{7}a").unwrap_err().to_string(),
        "\"x.y/\\u{7}a\" is no module path: the character '\\u{7}' is not allowed in it",
    );
}

#[test]
fn the_major_version_is_cut_off_as_go_does() {
    for (path, prefix, major) in [
        ("example.com/m", "example.com/m", ""),
        ("example.com/m/v2", "example.com/m", "/v2"),
        ("example.com/m/v20", "example.com/m", "/v20"),
        ("example.com/v3", "example.com", "/v3"),
        ("example.com/m/v2/v3", "example.com/m/v2", "/v3"),
        ("example.com/m/v", "example.com/m/v", ""),
        ("example.com/m.v2", "example.com/m.v2", ""),
        ("gopkg.in/yaml.v2", "gopkg.in/yaml", ".v2"),
        ("gopkg.in/yaml.v0", "gopkg.in/yaml", ".v0"),
        ("gopkg.in/a/b.v11", "gopkg.in/a/b", ".v11"),
        ("gopkg.in/b.v2-unstable", "gopkg.in/b", ".v2-unstable"),
    ] {
        let parsed = ModulePath::parse(path).unwrap();
        assert_eq!(parsed.prefix_and_major(), (prefix, major), "{path}");
    }
}

#[test]
fn capital_letters_are_escaped() {
    for (path, escaped) in [
        (
            "github.com/Azure/azure-SDK",
            "github.com/!azure/azure-!s!d!k",
        ),
        ("example.com/m", "example.com/m"),
    ] {
        let parsed = ModulePath::parse(path).unwrap();
        assert_eq!(parsed.escape(), escaped);
        assert_eq!(ModulePath::unescape(escaped).unwrap(), parsed);
    }
    let words = "github.com/Azure github.com/azure! github.com/!Azure github.com/!!azure github.com/!1 \
        github.com/é github.com/!é !github.com/x nodot/x github.com/../!x";
    for escaped in words.split(' ').chain([""]) {
        assert!(ModulePath::unescape(escaped).is_err(), "{escaped}");
    }
    assert!(ModulePath::unescape(&"!a".repeat(1 << 20)).is_err());
}

#[test]
fn a_path_is_within_another_by_whole_elements() {
    let path = |path| ModulePath::parse(path).unwrap();
    for (inner, outer, within) in [
        ("x.y/a", "x.y/a", true),
        ("x.y/a/b", "x.y/a", true),
        ("x.y/ab", "x.y/a", false),
        ("x.y/a", "x.y/a/b", false),
    ] {
        assert_eq!(path(inner).is_within(&path(outer)), within);
    }
}

proptest! {
    #[test]
    fn no_path_is_too_strange(path in any::<String>()) {
        let _ = ModulePath::parse(&path);
        let _ = ModulePath::unescape(&path);
    }

    #[test]
    fn whatever_is_a_path_can_be_escaped_and_has_two_parts(
        path in "(gopkg\\.in|x\\.y|Ab|[a-z.~-]{1,5})(/[a-zA-Z0-9.~_-]{1,6}){0,3}((/|\\.)v[0-9.]{1,3})?(-unstable)?",
    ) {
        if let Ok(parsed) = ModulePath::parse(&path) {
            prop_assert_eq!(&ModulePath::unescape(&parsed.escape()).unwrap(), &parsed);
            let (prefix, major) = parsed.prefix_and_major();
            prop_assert_eq!(format!("{prefix}{major}"), path);
        }
    }
}
