//! Rules that decide which tag claims which version, and which claim wins. Pure.
//!
//! Invariant: nothing here reads a clock, a database or the network.

use std::borrow::Cow;

use grip_go::{Found, ModulePath, NotAModule, candidates, go_mod, tag::VersionTag};

use crate::{GoMod, Trust};

/// Longest name of a tag that is kept as it is: a longer one fits into no index of the database.
const MAX_NAME_BYTES: usize = 1_000;
/// How much of a strange name is shown.
const SHOWN_CHARS: usize = 80;
/// Longest text kept as a reason.
const MAX_WHY_BYTES: usize = 500;

/// The latest timestamp that fits into four digits of a year, in milliseconds.
const LATEST_MS: i64 = 253_402_300_799_999;

/// The name under which a tag is kept: its own, or for names that no database takes a readable
/// stand-in, which is no valid name of a tag and so never that of another.
pub(crate) fn kept_name(name: &str) -> Cow<'_, str> {
    let is_plain = (1..=MAX_NAME_BYTES).contains(&name.len());
    if is_plain && !name.chars().any(char::is_control) {
        return Cow::Borrowed(name);
    }
    let start: String = name.chars().take(SHOWN_CHARS).collect();
    let start = start.escape_debug();
    Cow::Owned(format!("{start}… ({:016x})", fingerprint(name)))
}

/// A reason as it can be kept: bounded, and without what a terminal or Postgres would choke on.
pub(crate) fn kept_why(why: &str) -> String {
    let clean = why.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut kept = String::new();
    for c in clean {
        if kept.len() + c.len_utf8() > MAX_WHY_BYTES {
            kept.push('…');
            break;
        }
        kept.push(c);
    }
    kept
}

/// A date as it can be shown: a tag may claim any.
pub(crate) fn kept_time(ms: i64) -> i64 {
    ms.clamp(0, LATEST_MS)
}

/// FNV-1a: the same in every build, unlike the standard hashers.
pub(crate) fn fingerprint(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// What is known about one place of a `go.mod`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Known {
    #[default]
    Absent,
    Names(String),
    Bad(String),
}

impl Known {
    pub(crate) fn of(found: &GoMod) -> Self {
        let path = match found {
            GoMod::Absent => return Self::Absent,
            GoMod::TooLarge => Err(go_mod::Bad::TooLarge),
            GoMod::Text(text) => go_mod::module_path(text),
        };
        match path {
            Ok(path) => Self::Names(path.as_str().to_owned()),
            Err(bad) => Self::Bad(kept_why(&bad.to_string())),
        }
    }

    /// A text that says the same.
    fn text(&self) -> Option<String> {
        match self {
            Self::Absent => None,
            Self::Names(path) => Some(format!("module {path}\n")),
            Self::Bad(_) => Some(String::new()),
        }
    }
}

/// What a tag whose name says a version comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Version {
        path: String,
        version: String,
        proven: bool,
    },
    Not(String),
}

/// Decides what a tag claims, and whether its repository may.
pub(crate) fn judge(
    tag: &VersionTag,
    location: Option<&ModulePath>,
    (own, major): (&Known, &Known),
    trust: impl FnOnce(&ModulePath) -> Trust,
) -> Verdict {
    // Without a place of its own it can still hold modules that are elsewhere by name.
    let nowhere = ModulePath::parse("nowhere.invalid").expect("it is a valid path");
    let place = location.unwrap_or(&nowhere);
    let (own_text, major_text) = (own.text(), major.text());
    let found = grip_go::module_version(tag, place, read(&own_text), read(&major_text));
    let module = match found {
        Ok(module) => module,
        Err(error) => return Verdict::Not(why_not(tag, &error, own, major)),
    };
    if module.path == nowhere {
        let why = "it has no go.mod, and the place of its repository is no module path";
        return Verdict::Not(why.to_owned());
    }
    let proven = match trust(&module.path) {
        Trust::Proven => true,
        Trust::Chosen => false,
        Trust::Refused => {
            let path = &module.path;
            return Verdict::Not(format!("nothing proves that {path} is this repository"));
        }
    };
    Verdict::Version {
        path: module.path.as_str().to_owned(),
        version: module.version.as_str().to_owned(),
        proven,
    }
}

fn read(text: &Option<String>) -> Found<'_> {
    match text {
        Some(text) => Found::GoMod(text.as_bytes()),
        None => Found::None,
    }
}

/// The reason in words; that of a bad file is the one noted when it was read.
fn why_not(tag: &VersionTag, error: &NotAModule, own: &Known, major: &Known) -> String {
    if let NotAModule::GoMod { dir, .. } = error {
        let places = candidates(tag);
        let known = if places.own == *dir { own } else { major };
        if let Known::Bad(why) = known {
            return kept_why(&format!("the go.mod names no module: {why}"));
        }
    }
    kept_why(&error.to_string())
}

/// A tag that claims a version of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) path: String,
    pub(crate) version: String,
    pub(crate) org_repo_name: String,
    pub(crate) tag_name: String,
    pub(crate) commit_oid: String,
    pub(crate) created: i64,
    pub(crate) proven: i64,
    pub(crate) claimed_ns: i64,
    /// Who may see its repository.
    pub(crate) audience: i64,
}

grip_db::from_row!(Claim {
    path,
    version,
    org_repo_name,
    tag_name,
    commit_oid,
    created,
    proven,
    claimed_ns,
    audience,
});

/// Who is believed: a proof by place beats a choice of the operator, then the first wins.
pub(crate) fn winner<'a>(claims: impl IntoIterator<Item = &'a Claim>) -> Option<&'a Claim> {
    claims.into_iter().min_by(|a, b| {
        let rank = |claim: &Claim| (-claim.proven, claim.audience, claim.claimed_ns);
        let names = |claim: &'a Claim| (&claim.org_repo_name, &claim.tag_name);
        rank(a).cmp(&rank(b)).then_with(|| names(a).cmp(&names(b)))
    })
}

/// A version in the feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Live {
    pub(crate) first_seen_ns: i64,
    pub(crate) path: String,
    pub(crate) version: String,
    pub(crate) created: i64,
    pub(crate) org_repo_name: String,
    pub(crate) tag_name: String,
    pub(crate) commit_oid: String,
    pub(crate) audience: i64,
}

grip_db::from_row!(Live {
    first_seen_ns,
    path,
    version,
    created,
    org_repo_name,
    tag_name,
    commit_oid,
    audience,
});

/// What happens to a version in the feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Add,
    Move,
    /// Others may see it than before: it goes for those, and comes for these.
    Replace,
    Remove,
}

/// Compares what is in the feed with who is believed now.
pub(crate) fn step(live: Option<&Live>, best: Option<&Claim>) -> Option<Step> {
    match (live, best) {
        (None, None) => None,
        (None, Some(_)) => Some(Step::Add),
        (Some(_), None) => Some(Step::Remove),
        (Some(live), Some(best)) if live.audience != best.audience => Some(Step::Replace),
        (Some(live), Some(best)) => {
            let same = live.org_repo_name == best.org_repo_name
                && live.tag_name == best.tag_name
                && live.commit_oid == best.commit_oid
                && live.created == best.created;
            (!same).then_some(Step::Move)
        }
    }
}

#[cfg(test)]
mod tests;
