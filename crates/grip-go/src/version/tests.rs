use proptest::prelude::*;

use super::*;

fn version(text: &str) -> Version {
    Version::parse(text).unwrap()
}

#[test]
fn only_canonical_versions_are_versions() {
    let words = "v0.0.0 v1.2.3 v10.20.30 v1.2.3-pre v1.2.3-0 v1.2.3-rc.1.x-y v1.2.3-- v1.2.3-01a \
        v2.0.0+incompatible v2.0.0-rc.1+incompatible v99999999999999999999999.0.0 \
        v0.0.0-20191109021931-daa7c04131f5";
    for text in words.split(' ') {
        assert_eq!(version(text).as_str(), text);
    }
    let long = format!("v1.2.3-{}", "a".repeat(4096));
    let words = "v v1 v1.2 v1-pre 1.2.3 V1.2.3 v1.2.3.4 v01.2.3 v1.02.3 v1.2.03 v1.2.3- v1.2.3-a..b \
        v1.2.3-.a v1.2.3-01 v1.2.3-a.01 v1.2.3+ v1.2.3+meta v1.2.3+incompatible.1 \
        v1.2.3+incompatible+x v1.2.3-é v1.2.3-a_b v-1.2.3 v+1.2.3 master";
    for text in words
        .split(' ')
        .chain(["", "v1.2.3\n", " v1.2.3", "v1.2.3\0", &long])
    {
        assert!(Version::parse(text).is_err(), "{text:?}");
    }
    assert_eq!(
        Version::parse("v1\u{1b}[2J").unwrap_err().to_string(),
        "\"v1\\u{1b}[2J\" is no canonical version, such as v1.2.3 or v1.2.3-rc.1",
    );
}

#[test]
fn versions_stand_in_the_order_of_go() {
    // Sorted by golang.org/x/mod/semver.
    let sorted = [
        "v0.0.0-20191109021931-daa7c04131f5",
        "v0.0.0",
        "v0.9.9",
        "v1.0.0-0",
        "v1.0.0-1",
        "v1.0.0-11",
        "v1.0.0-99999999999999999999",
        "v1.0.0-100000000000000000000",
        "v1.0.0--",
        "v1.0.0-1a",
        "v1.0.0-A",
        "v1.0.0-alpha",
        "v1.0.0-alpha.1",
        "v1.0.0-alpha.beta",
        "v1.0.0-beta",
        "v1.0.0-beta.2",
        "v1.0.0-beta.11",
        "v1.0.0-rc.1",
        "v1.0.0",
        "v1.0.1-0.20191109021931-daa7c04131f5",
        "v1.0.1",
        "v1.2.0",
        "v1.10.0",
        "v2.0.0",
        "v2.0.0+incompatible",
        "v10.0.0",
        "v99999999999999999999.0.0",
        "v100000000000000000000.0.0",
    ];
    let mut versions: Vec<_> = sorted.iter().rev().map(|text| version(text)).collect();
    versions.sort();
    let texts: Vec<_> = versions.iter().map(Version::as_str).collect();
    assert_eq!(texts, sorted);
}

#[test]
fn a_version_says_what_it_is() {
    for (text, major, pre, pseudo, incompatible) in [
        ("v1.2.3", "v1", false, false, false),
        ("v12.2.3-rc.1", "v12", true, false, false),
        ("v2.0.0+incompatible", "v2", false, false, true),
        (
            "v0.0.0-20191109021931-daa7c04131f5",
            "v0",
            true,
            true,
            false,
        ),
    ] {
        let version = version(text);
        assert_eq!(version.major(), major);
        assert_eq!(version.is_prerelease(), pre, "{text}");
        assert_eq!(version.is_pseudo(), pseudo, "{text}");
        assert_eq!(version.is_incompatible(), incompatible, "{text}");
    }
    assert_eq!(version("v2.0.0+incompatible").in_tag(), "v2.0.0");
}

#[test]
fn a_version_fits_the_paths_of_its_major() {
    for (path, text, fits) in [
        ("x.y/m", "v0.1.0", true),
        ("x.y/m", "v1.1.0", true),
        ("x.y/m", "v2.0.0", false),
        ("x.y/m", "v2.0.0+incompatible", true),
        ("x.y/m/v2", "v2.0.0", true),
        ("x.y/m/v2", "v20.0.0", false),
        ("x.y/m/v2", "v1.0.0", false),
        ("gopkg.in/m.v1", "v1.0.0", true),
        ("gopkg.in/m.v1", "v0.1.0", false),
        ("gopkg.in/m.v1", "v0.0.0-20191109021931-daa7c04131f5", true),
        ("gopkg.in/m.v0", "v0.1.0", true),
        ("gopkg.in/m.v0", "v1.1.0", false),
        ("gopkg.in/m.v3-unstable", "v3.0.0", true),
    ] {
        let path = ModulePath::parse(path).unwrap();
        assert_eq!(version(text).fits(&path), fits, "{path} {text}");
    }
}

#[test]
fn capital_letters_are_escaped() {
    assert_eq!(version("v1.2.3-RC.a").escape(), "v1.2.3-!r!c.a");
    assert_eq!(
        Version::unescape("v1.2.3-!r!c.a").unwrap(),
        version("v1.2.3-RC.a")
    );
    for escaped in ["v1.2.3-RC", "v1.2.3-!", "!v1.2.3", "v1.2", "../v1.2.3", ""] {
        assert!(Version::unescape(escaped).is_err(), "{escaped}");
    }
    assert!(Version::unescape(&"!a".repeat(1 << 20)).is_err());
}

proptest! {
    #[test]
    fn no_version_is_too_strange(text in any::<String>()) {
        let _ = Version::parse(&text);
        let _ = Version::unescape(&text);
    }

    #[test]
    fn the_order_is_one(texts in prop::collection::vec("v[0-2]\\.[0-2]\\.[0-2](-[0-9a-c.-]{1,4})?(\\+incompatible)?", 3)) {
        let Ok([a, b, c]) = <[_; 3]>::try_from(
            texts.iter().filter_map(|text| Version::parse(text).ok()).collect::<Vec<_>>(),
        ) else {
            return Ok(());
        };
        prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
        prop_assert_eq!(a == b, a.cmp(&b).is_eq());
        if a <= b && b <= c {
            prop_assert!(a <= c);
        }
        prop_assert_eq!(&Version::unescape(&a.escape()).unwrap(), &a);
    }
}
