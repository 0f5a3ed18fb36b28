use proptest::prelude::*;

use super::*;

const COMMIT: &str = "daa7c04131f5c63d5d1f0a1b3c3d2e1f0a9b8c7d";
/// 2019-11-09 02:19:31 UTC.
const TIME: i64 = 1_573_265_971;

fn made(path: &str, base: Option<&str>) -> Result<String, NoPseudoVersion> {
    let path = ModulePath::parse(path).unwrap();
    let base = base.map(|base| Version::parse(base).unwrap());
    version(&path, base.as_ref(), TIME, COMMIT).map(|made| made.to_string())
}

/// Made by golang.org/x/mod/module.
#[test]
fn a_pseudo_version_follows_the_version_before_it() {
    for (path, base, before, after) in [
        ("x.y/m", None, "v0.0.0-", ""),
        ("x.y/m/v2", None, "v2.0.0-", ""),
        ("gopkg.in/m.v3", None, "v3.0.0-", ""),
        ("x.y/m", Some("v1.2.3"), "v1.2.4-0.", ""),
        ("x.y/m", Some("v1.2.99"), "v1.2.100-0.", ""),
        (
            "x.y/m",
            Some("v1.2.18446744073709551615"),
            "v1.2.18446744073709551616-0.",
            "",
        ),
        ("x.y/m", Some("v1.2.3-pre"), "v1.2.3-pre.0.", ""),
        (
            "x.y/m",
            Some("v2.0.0+incompatible"),
            "v2.0.1-0.",
            "+incompatible",
        ),
        (
            "x.y/m",
            Some("v2.0.0-rc.1+incompatible"),
            "v2.0.0-rc.1.0.",
            "+incompatible",
        ),
    ] {
        let expected = &*format!("{before}20191109021931-daa7c04131f5{after}");
        assert_eq!(made(path, base).unwrap(), expected);
        let made = Version::parse(expected).unwrap();
        let parts = parts(&made).unwrap();
        assert_eq!(parts.timestamp, "20191109021931");
        assert_eq!(parts.revision, &COMMIT[..12]);
        assert_eq!(parts.unix_seconds(), Some(TIME));
        let found = parts.base().unwrap();
        assert_eq!(found.as_ref().map(Version::as_str), base);
        if let Some(base) = found {
            assert!(base < made);
        }
    }
}

#[test]
fn what_cannot_be_a_pseudo_version_is_refused() {
    let path = ModulePath::parse("x.y/m").unwrap();
    for commit in [
        "",
        "daa7c04131f",
        "DAA7C04131F5",
        "daa7c04131fg",
        "daa7c04131fé",
    ] {
        assert_eq!(
            version(&path, None, 0, commit),
            Err(NoPseudoVersion::Commit)
        );
    }
    for time in [
        i64::MIN,
        i64::MAX,
        253_402_300_800,
        -62_200_000_000 - (1 << 40),
    ] {
        assert_eq!(
            version(&path, None, time, COMMIT),
            Err(NoPseudoVersion::Time(time))
        );
    }
    assert!(version(&path, None, 253_402_207_200, COMMIT).is_ok());
    assert!(
        made("x.y/m/v2", Some("v1.0.0"))
            .unwrap_err()
            .to_string()
            .contains("v1.0.0")
    );
    let long = format!("v1.0.0-{}", "a".repeat(240));
    assert_eq!(made("x.y/m", Some(&long)), Err(NoPseudoVersion::TooLong));
}

#[test]
fn other_versions_are_no_pseudo_versions() {
    let words = "v1.2.3 v1.2.3-pre v1.2.3-20191109021931-daa7c04131f5 v1.0.1-20191109021931-daa7c04131f5 \
        v1.2.3-0.2019110902193-daa7c04131f5 v1.2.3-0.201911090219311-daa7c04131f5 \
        v1.2.3-1.20191109021931-daa7c04131f5 v1.2.3-pre0.20191109021931-daa7c04131f5 \
        v1.2.3-0.20191109021931- v1.2.3-0.20191109021931-daa7.04131f5 v1.2.3-0.20191109021931";
    for text in words.split(' ') {
        assert!(!Version::parse(text).unwrap().is_pseudo(), "{text}");
    }
}

#[test]
fn a_pseudo_version_that_nobody_can_have_made_has_no_base() {
    for (text, expected) in [
        (
            "v1.0.0-0.20191109021931-daa7c04131f5",
            NoBase::NegativePatch,
        ),
        (
            "v2.0.0-20191109021931-daa7c04131f5+incompatible",
            NoBase::Incompatible,
        ),
    ] {
        let version = Version::parse(text).unwrap();
        assert_eq!(parts(&version).unwrap().base(), Err(expected));
    }
    let version = Version::parse("v0.0.0-20191399021931-daa7c04131f5").unwrap();
    assert_eq!(parts(&version).unwrap().unix_seconds(), None);
}

proptest! {
    #[test]
    fn every_time_is_read_again(time in -62_167_219_200_i64..253_402_207_200) {
        let path = ModulePath::parse("x.y/m").unwrap();
        let made = version(&path, None, time, COMMIT).unwrap();
        prop_assert_eq!(parts(&made).unwrap().unix_seconds(), Some(time));
    }

    #[test]
    fn a_number_one_up_and_down_again_is_the_same(number in "0|[1-9][09]{0,3}|[1-9][0-9]{0,40}") {
        prop_assert_eq!(decrement(&increment(&number)), Some(number));
    }

    #[test]
    fn nothing_near_a_pseudo_version_is_too_strange(
        text in "v[0-2]\\.[0-2]\\.[0-2]-([a.-]{0,3}0\\.)?[0-9]{13,15}(-[a-z0-9.-]{0,13})?(\\+incompatible)?",
    ) {
        if let Ok(version) = Version::parse(&text) && let Some(parts) = parts(&version) {
            let _ = parts.unix_seconds();
            if let Ok(Some(base)) = parts.base() {
                prop_assert!(base < version);
            }
        }
    }
}
