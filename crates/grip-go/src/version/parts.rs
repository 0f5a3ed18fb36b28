//! The parts of a semantic version and their order.

use std::cmp::Ordering;

/// A semantic version with all three numbers, cut at its marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts<'a> {
    pub(crate) major: &'a str,
    pub(crate) minor: &'a str,
    pub(crate) patch: &'a str,
    /// Without the dash; empty in a release.
    pub(crate) pre: &'a str,
    /// Without the plus; empty if there is none.
    pub(crate) build: &'a str,
}

impl<'a> Parts<'a> {
    /// Reads `v1.2.3`, perhaps with `-pre` and `+build`; nothing shorter.
    pub(crate) fn read(text: &'a str) -> Option<Self> {
        let rest = text.strip_prefix('v')?;
        let (rest, build) = match rest.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (rest, None),
        };
        let (numbers, pre) = match rest.split_once('-') {
            Some((numbers, pre)) => (numbers, Some(pre)),
            None => (rest, None),
        };
        if !build.is_none_or(|build| build.split('.').all(is_identifier)) {
            return None;
        }
        let in_pre = |one: &str| is_identifier(one) && (!is_digits(one) || is_number(one));
        if !pre.is_none_or(|pre| pre.split('.').all(in_pre)) {
            return None;
        }
        let mut numbers = numbers.split('.');
        let (major, minor, patch) = (numbers.next()?, numbers.next()?, numbers.next()?);
        let plain = numbers.next().is_none() && [major, minor, patch].into_iter().all(is_number);
        plain.then_some(Self {
            major,
            minor,
            patch,
            pre: pre.unwrap_or_default(),
            build: build.unwrap_or_default(),
        })
    }

    /// The order of semantic versions, to which the build part does not matter.
    pub(crate) fn precedence(&self, other: &Self) -> Ordering {
        compare_numbers(self.major, other.major)
            .then_with(|| compare_numbers(self.minor, other.minor))
            .then_with(|| compare_numbers(self.patch, other.patch))
            .then_with(|| match (self.pre, other.pre) {
                ("", "") => Ordering::Equal,
                ("", _) => Ordering::Greater,
                (_, "") => Ordering::Less,
                (a, b) => a
                    .split('.')
                    .map(Identifier)
                    .cmp(b.split('.').map(Identifier)),
            })
    }
}

/// One part of a pre-release between dots.
#[derive(PartialEq, Eq)]
struct Identifier<'a>(&'a str);

impl Ord for Identifier<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (is_digits(self.0), is_digits(other.0)) {
            (true, true) => compare_numbers(self.0, other.0),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => self.0.cmp(other.0),
        }
    }
}

impl PartialOrd for Identifier<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Numbers of any size, without leading zeros.
fn compare_numbers(a: &str, b: &str) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_number(text: &str) -> bool {
    is_digits(text) && (text == "0" || !text.starts_with('0'))
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}
