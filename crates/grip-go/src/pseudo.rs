//! Pseudo-versions: names for commits without a tag.
//!
//! | the last version before the commit | pseudo-version |
//! |---|---|
//! | none | `vX.0.0-yyyymmddhhmmss-abcdefabcdef` |
//! | `vX.Y.Z` | `vX.Y.(Z+1)-0.yyyymmddhhmmss-abcdefabcdef` |
//! | `vX.Y.Z-pre` | `vX.Y.Z-pre.0.yyyymmddhhmmss-abcdefabcdef` |
//!
//! So each comes after that version, and before the next one that somebody can tag.

use jiff::{Timestamp, civil, tz::Offset};

use crate::{ModulePath, Version};

/// Digits of a commit id that a pseudo-version holds.
const REVISION_CHARS: usize = 12;
const TIME_CHARS: usize = 14;

/// Why there is no pseudo-version for a commit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoPseudoVersion {
    #[error("a commit id is at least {REVISION_CHARS} lower-case hex digits")]
    Commit,
    #[error("the commit's time, {0} seconds since 1970, is in no year from 0 to 9999")]
    Time(i64),
    #[error("{base} is no version of {path}, so none can follow it there")]
    Base { base: Version, path: ModulePath },
    #[error("it would be longer than {} bytes", Version::MAX_BYTES)]
    TooLong,
}

/// Makes the pseudo-version of a commit.
///
/// `base` is the highest version tagged in the commit's history that fits the path.
pub fn version(
    path: &ModulePath,
    base: Option<&Version>,
    committed_unix_s: i64,
    commit: &str,
) -> Result<Version, NoPseudoVersion> {
    let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let revision = commit
        .get(..REVISION_CHARS)
        .filter(|_| commit.bytes().all(hex))
        .ok_or(NoPseudoVersion::Commit)?;
    let time = timestamp(committed_unix_s).ok_or(NoPseudoVersion::Time(committed_unix_s))?;
    let text = match base {
        None => format!("{}.0.0-{time}-{revision}", path.major().unwrap_or("v0")),
        Some(base) if !base.fits(path) => {
            return Err(NoPseudoVersion::Base {
                base: base.clone(),
                path: path.clone(),
            });
        }
        Some(base) => format!("{}{time}-{revision}{}", after(base), build(base)),
    };
    Version::parse(&text).map_err(|_| NoPseudoVersion::TooLong)
}

/// What a pseudo-version says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts<'a> {
    version: &'a Version,
    /// The pre-release before the time: empty, `0.` or `pre.0.`.
    lead: &'a str,
    /// The commit's time in UTC, `yyyymmddhhmmss`; perhaps no real time.
    pub timestamp: &'a str,
    /// The first digits of the commit's id, as written.
    pub revision: &'a str,
}

/// Why a pseudo-version cannot have been made from a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoBase {
    #[error("it names no version before it, and yet is +incompatible")]
    Incompatible,
    #[error("the version before it would have a negative patch number")]
    NegativePatch,
}

/// Reads a pseudo-version; none for all other versions.
pub fn parts(version: &Version) -> Option<Parts<'_>> {
    let whole = version.parts();
    let (head, revision) = whole.pre.rsplit_once('-')?;
    let (lead, timestamp) = head.split_at_checked(head.len().checked_sub(TIME_CHARS)?)?;
    let first = lead.is_empty() && whole.minor == "0" && whole.patch == "0";
    let later = lead == "0." || lead.ends_with(".0.");
    let real = (first || later)
        && timestamp.bytes().all(|byte| byte.is_ascii_digit())
        && !revision.is_empty()
        && revision.bytes().all(|byte| byte.is_ascii_alphanumeric());
    real.then_some(Parts {
        version,
        lead,
        timestamp,
        revision,
    })
}

impl Parts<'_> {
    /// The tagged version that it follows, if it names one.
    pub fn base(&self) -> Result<Option<Version>, NoBase> {
        let whole = self.version.parts();
        let text = match self.lead {
            "" if self.version.is_incompatible() => return Err(NoBase::Incompatible),
            "" => return Ok(None),
            "0." => {
                let patch = decrement(whole.patch).ok_or(NoBase::NegativePatch)?;
                format!("v{}.{}.{patch}", whole.major, whole.minor)
            }
            lead => {
                let pre = &lead[..lead.len() - ".0.".len()];
                format!("v{}.{}.{}-{pre}", whole.major, whole.minor, whole.patch)
            }
        };
        // Shorter than the whole, and made of its parts: always a version.
        Ok(Version::parse(&format!("{text}{}", build(self.version))).ok())
    }

    /// The commit's time; none if the digits are no time.
    pub fn unix_seconds(&self) -> Option<i64> {
        let number = |from: usize, to: usize| self.timestamp.get(from..to)?.parse::<i8>().ok();
        let year = self.timestamp.get(..4)?.parse::<i16>().ok()?;
        let date_time = civil::DateTime::new(
            year,
            number(4, 6)?,
            number(6, 8)?,
            number(8, 10)?,
            number(10, 12)?,
            number(12, 14)?,
            0,
        );
        let timestamp = Offset::UTC.to_timestamp(date_time.ok()?).ok()?;
        Some(timestamp.as_second())
    }
}

fn timestamp(unix_s: i64) -> Option<String> {
    let text = Timestamp::from_second(unix_s)
        .ok()?
        .strftime("%Y%m%d%H%M%S")
        .to_string();
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    (digits && text.len() == TIME_CHARS).then_some(text)
}

/// The beginning of all pseudo-versions that follow this version.
fn after(base: &Version) -> String {
    let parts = base.parts();
    if parts.pre.is_empty() {
        let patch = increment(parts.patch);
        format!("v{}.{}.{patch}-0.", parts.major, parts.minor)
    } else {
        format!("{}.0.", base.in_tag())
    }
}

fn build(version: &Version) -> &str {
    &version.as_str()[version.in_tag().len()..]
}

/// One more than a number of any size.
fn increment(number: &str) -> String {
    let kept = number.trim_end_matches('9');
    let zeros = "0".repeat(number.len() - kept.len());
    match kept.as_bytes() {
        [] => format!("1{zeros}"),
        [head @ .., last] => {
            let head = &kept[..head.len()];
            format!("{head}{}{zeros}", char::from(last + 1))
        }
    }
}

/// One less than a number of any size; none below zero.
fn decrement(number: &str) -> Option<String> {
    let kept = number.trim_end_matches('0');
    let nines = "9".repeat(number.len() - kept.len());
    match kept.as_bytes() {
        [] => None,
        [b'1'] if !nines.is_empty() => Some(nines),
        [head @ .., last] => {
            let head = &kept[..head.len()];
            Some(format!("{head}{}{nines}", char::from(last - 1)))
        }
    }
}

#[cfg(test)]
mod tests;
