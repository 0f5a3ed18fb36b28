//! Module versions in git tag names.

use crate::{
    Version,
    path::element::{self, Kind},
};

/// A tag that names a version: `v1.2.3` of the repository's root, `sub/dir/v1.2.3` of the module
/// in that directory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VersionTag {
    /// The directory in the repository, without slashes around it; empty for the root.
    pub dir: String,
    pub version: Version,
}

/// Ours: longer than any module path that the directory could be part of.
const MAX_BYTES: usize = crate::ModulePath::MAX_BYTES + Version::MAX_BYTES;

/// Reads the name of a tag, without `refs/tags/`.
///
/// None for all that Go does not list: versions that are not canonical (`v1`, `v1.2`, `1.2.3`,
/// `v01.2.3`, with build metadata), pseudo-versions, and directories that no module path can name.
pub fn read(tag: &str) -> Option<VersionTag> {
    if tag.len() > MAX_BYTES {
        return None;
    }
    let (dir, version) = match tag.rsplit_once('/') {
        None => ("", tag),
        Some((dir, version)) => {
            element::check_all(dir, Kind::Module).ok()?;
            (dir, version)
        }
    };
    let version = Version::parse(version).ok()?;
    if version.is_incompatible() || version.is_pseudo() {
        return None;
    }
    let dir = dir.to_owned();
    Some(VersionTag { dir, version })
}

impl VersionTag {
    /// The name of the tag.
    pub fn name(&self) -> String {
        match self.dir.as_str() {
            "" => self.version.to_string(),
            dir => format!("{dir}/{}", self.version),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seen(tag: &str) -> Option<(String, String)> {
        read(tag).map(|tag| (tag.dir, tag.version.to_string()))
    }

    #[test]
    fn a_tag_names_a_version_of_the_root_or_of_a_directory() {
        for (tag, dir, version) in [
            ("v1.2.3", "", "v1.2.3"),
            ("v0.0.0", "", "v0.0.0"),
            ("v2.0.0-rc.1", "", "v2.0.0-rc.1"),
            ("sub/v1.2.3", "sub", "v1.2.3"),
            ("sub/dir/v1.2.3-beta", "sub/dir", "v1.2.3-beta"),
            ("Sub_Dir~x/v3.0.1", "Sub_Dir~x", "v3.0.1"),
            ("sub/v2/v2.1.0", "sub/v2", "v2.1.0"),
            ("v1.0.0/v1.0.0", "v1.0.0", "v1.0.0"),
        ] {
            assert_eq!(seen(tag), Some((dir.into(), version.into())), "{tag}");
            assert_eq!(read(tag).unwrap().name(), tag);
        }
    }

    #[test]
    fn tags_that_go_does_not_list_say_nothing() {
        let words = "v v1 v1.2 1.2.3 V1.2.3 v01.2.3 v1.02.3 v1.2.3.4 v1.2.3-01 v1.2.3- v1.2.3+ \
            v1.2.3+meta v2.0.0+incompatible v0.0.0-20191109021931-daa7c04131f5 \
            v1.2.4-0.20191109021931-daa7c04131f5 release-1.2.3 /v1.2.3 //v1.2.3 sub//v1.2.3 sub/ \
            ../v1.2.3 sub/../v1.2.3 ./v1.2.3 .github/v1.2.3 <b>/v1.2.3 nul/v1.2.3 ünicode/v1.2.3 \
            short~1/v1.2.3";
        for tag in words.split(' ').chain([
            "",
            "v1.2.3 ",
            "v1.2.3\n",
            "v1.2.3\0",
            "sub\\dir/v1.2.3",
            "sub dir/v1.2.3",
        ]) {
            assert_eq!(seen(tag), None, "{tag:?}");
        }
    }

    #[test]
    fn a_tag_of_4_kilobytes_says_nothing() {
        assert_eq!(seen(&format!("{}/v1.2.3", "a".repeat(4096))), None);
        assert_eq!(seen(&format!("v1.2.3-{}", "a".repeat(4096))), None);
        assert_eq!(seen(&format!("{}v1.2.3", "a/".repeat(2048))), None);
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_was_written(tag in "([a-z.~/-]{0,8}/)?v[0-9.+a-z-]{0,12}") {
            if let Some(seen) = read(&tag) {
                prop_assert_eq!(seen.name(), tag);
            }
        }

        #[test]
        fn no_name_is_too_strange(tag in any::<String>()) {
            let _ = read(&tag);
        }
    }
}
