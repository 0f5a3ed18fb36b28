//! Notices of a go.mod to those who use the module: deprecation and retractions.
//!
//! Go reads both from the latest version and shows them to people; neither changes what is served.

use super::{MAX_BYTES, quoted, statements::next_word};
use crate::Version;

/// The most retractions that are read of one go.mod.
const MAX_RETRACTIONS: usize = 1_000;
/// The longest text of a notice, in characters; more is cut.
const MAX_TEXT: usize = 500;

/// The notices of one go.mod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notices {
    /// Why, or what to use instead; none if the module is not deprecated.
    pub deprecated: Option<String>,
    pub retractions: Vec<Retraction>,
}

/// Versions that their author takes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retraction {
    pub from: Version,
    pub to: Version,
    /// The author's reason; empty if none is given.
    pub why: String,
}

impl Notices {
    /// Reads the notices of a go.mod; what cannot be read is none.
    pub fn read(text: &[u8]) -> Self {
        let mut notices = Self::default();
        let Some(text) = std::str::from_utf8(text)
            .ok()
            .filter(|text| text.len() <= MAX_BYTES)
        else {
            return notices;
        };
        // Comments above the line, and the verb and comments of the block under way.
        let mut above = Vec::new();
        let mut block: Option<(&str, Vec<&str>)> = None;
        for line in text.lines() {
            let (words, comment) = parts(line);
            match words.as_slice() {
                [] => match comment {
                    Some(comment) => above.push(comment),
                    None => above.clear(),
                },
                [")"] => {
                    above.clear();
                    block = None;
                }
                [verb, "("] => {
                    above.extend(comment);
                    block = Some((*verb, std::mem::take(&mut above)));
                }
                words => {
                    above.extend(comment);
                    let own = std::mem::take(&mut above);
                    match &block {
                        Some((verb, of_block)) => {
                            let comments = if own.is_empty() { of_block } else { &own };
                            notices.add(verb, words, comments);
                        }
                        None => notices.add(words[0], &words[1..], &own),
                    }
                }
            }
        }
        notices
    }

    fn add(&mut self, verb: &str, arguments: &[&str], comments: &[&str]) {
        match verb {
            "module" => self.deprecated = deprecation(comments),
            "retract" if self.retractions.len() < MAX_RETRACTIONS => {
                let range = match arguments {
                    [one] => version(one).map(|one| (one.clone(), one)),
                    ["[", from, ",", to, "]"] => version(from).zip(version(to)),
                    _ => None,
                };
                self.retractions.extend(range.map(|(from, to)| Retraction {
                    from,
                    to,
                    why: shortened(&comments.join(" ")),
                }));
            }
            _ => {}
        }
    }

    /// Why a version is taken back; none if it is not.
    pub fn retraction(&self, version: &Version) -> Option<&str> {
        let is_of =
            |retraction: &&Retraction| (&retraction.from..=&retraction.to).contains(&version);
        let found = self.retractions.iter().find(is_of);
        found.map(|retraction| retraction.why.as_str())
    }
}

/// A version, in quotes or not.
fn version(word: &str) -> Option<Version> {
    Version::parse(&quoted::unquote(word)?).ok()
}

/// The paragraph of comments that begins with `Deprecated:`.
fn deprecation(comments: &[&str]) -> Option<String> {
    let mut paragraphs = comments.split(|line| line.is_empty());
    let found = paragraphs.find_map(|paragraph| {
        let first = paragraph.first()?.strip_prefix("Deprecated:")?;
        Some([&[first][..], &paragraph[1..]].concat().join(" "))
    });
    found.map(|text| shortened(&text))
}

/// The words of a line, and its comment without the slashes.
fn parts(line: &str) -> (Vec<&str>, Option<&str>) {
    let (mut words, mut rest) = (Vec::new(), line.as_bytes());
    while let Some((word, after)) = next_word(rest) {
        words.extend(std::str::from_utf8(word));
        rest = after;
    }
    let comment = line.get(line.len() - rest.len()..).map(str::trim);
    (
        words,
        comment
            .and_then(|text| text.strip_prefix("//"))
            .map(str::trim),
    )
}

fn shortened(text: &str) -> String {
    let plain = text.trim().chars().filter(|c| !c.is_control());
    plain.take(MAX_TEXT).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_deprecation_is_the_paragraph_that_says_so() {
        for (text, expected) in [
            ("module example.com/m\n", None),
            ("// Deprecated: use b\nmodule a.example/m\n", Some("use b")),
            ("module a.example/m // Deprecated: use b\n", Some("use b")),
            (
                "// A module.\n//\n// Deprecated: use b\n// instead.\n//\n// More.\nmodule a.example/m\n",
                Some("use b instead."),
            ),
            ("// Deprecated: far away\n\nmodule a.example/m\n", None),
            ("// It is Deprecated: not\nmodule a.example/m\n", None),
        ] {
            let found = Notices::read(text.as_bytes()).deprecated;
            assert_eq!(found.as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn retractions_are_versions_and_ranges_with_their_reasons() {
        let text = "module a.example/m\n\n\
                    // Leaks.\nretract v1.0.0\n\
                    retract [v1.2.0, v1.4.0] // Broken.\n\
                    // All of them.\nretract (\n\
                    \tv2.0.0\n\t\"v2.0.1\" // Worse.\n\tno version\n)\n";
        let notices = Notices::read(text.as_bytes());
        let why = |version: &str| {
            let version = Version::parse(version).unwrap();
            notices.retraction(&version).map(str::to_owned)
        };
        for (version, expected) in [
            ("v1.0.0", Some("Leaks.")),
            ("v1.1.0", None),
            ("v1.2.0", Some("Broken.")),
            ("v1.3.9", Some("Broken.")),
            ("v1.4.1", None),
            ("v2.0.0", Some("All of them.")),
            ("v2.0.1", Some("Worse.")),
        ] {
            assert_eq!(why(version).as_deref(), expected, "{version}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "(module|retract|[\\[\\](),/\"` \n]|v1\\.0\\.0|é){0,40}") {
            let _ = Notices::read(text.as_bytes());
        }
    }
}
