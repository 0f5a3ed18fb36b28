//! Errors of git while it checks a pack, in words for the person who pushed.

use std::{os::unix::process::ExitStatusExt, process::ExitStatus};

use super::ReceiveError;

/// Complaints that mean that the bytes are not a sound pack.
const CORRUPT: &[&str] = &[
    "inflate",
    "pack signature mismatch",
    "pack version",
    "pack is corrupted",
    "bad object",
    "unknown object type",
    "junk at the end",
    "serious inflate inconsistency",
    "offset value overflow",
    "delta base offset is out of bound",
    "failed to apply delta",
    "delta is corrupted",
    "invalid blob object",
    "invalid object",
    "hash collision",
    "SHA1 COLLISION",
];

/// Ends a process that writes more than it may.
const SIGXFSZ: i32 = 25;

pub(super) fn from_complaint(status: ExitStatus, complaint: &str) -> ReceiveError {
    if status.signal() == Some(SIGXFSZ) || complaint.contains("File too large") {
        return ReceiveError::Bomb;
    }
    if let Some(signal) = status.signal() {
        return ReceiveError::Io(std::io::Error::other(format!(
            "git was ended by signal {signal}"
        )));
    }
    let says = |text: &str| complaint.contains(text);
    let fatal = line_with(complaint, "fatal: ").unwrap_or("no reason was given");
    if says("early EOF") || says("premature end of pack file") {
        return ReceiveError::Truncated;
    }
    if let Some(object) = fatal.strip_prefix("did not receive expected object ") {
        return ReceiveError::MissingObject(object.to_owned());
    }
    if says("unresolved delta") {
        return ReceiveError::MissingBase;
    }
    if says("fsck error in pack") || says("are reachable") || says("expected type") {
        let error = line_with(complaint, "error: ").unwrap_or(fatal);
        return ReceiveError::Forbidden(error.to_owned());
    }
    if fatal.starts_with("Out of memory") {
        return ReceiveError::Bomb;
    }
    if says("No space left") || says("Disk quota") || says("Permission denied") {
        return ReceiveError::Io(std::io::Error::other(fatal.to_owned()));
    }
    if CORRUPT.iter().any(|sign| fatal.contains(sign)) {
        return ReceiveError::Corrupt(fatal.to_owned());
    }
    ReceiveError::Refused(fatal.to_owned())
}

fn line_with<'a>(complaint: &'a str, start: &str) -> Option<&'a str> {
    complaint
        .lines()
        .find_map(|line| line.trim().strip_prefix(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(complaint: &str) -> String {
        from_complaint(ExitStatus::from_raw(128 << 8), complaint).to_string()
    }

    #[test]
    fn complaints_become_one_readable_line() {
        for (complaint, expected) in [
            ("fatal: early EOF\n", "the upload ended before"),
            (
                "fatal: did not receive expected object abc\n",
                "needs object abc",
            ),
            (
                "fatal: pack has 2 unresolved deltas\n",
                "deltas against objects",
            ),
            (
                "error: object abc: hasDotgit: contains '.git'\nfatal: fsck error in packed object\n",
                "dangerous object: object abc: hasDotgit",
            ),
            (
                "fatal: pack has bad object at offset 12: inflate returned -5\n",
                "pack is corrupt",
            ),
            (
                "fatal: something new\n",
                "did not take the pack: something new",
            ),
            (
                "fatal: Out of memory, malloc failed (tried to allocate 3019898701 bytes)\n",
                "inflates to more",
            ),
            ("", "no reason was given"),
        ] {
            assert!(
                reason(complaint).contains(expected),
                "{}",
                reason(complaint)
            );
        }
    }

    #[test]
    fn a_full_disk_is_our_fault() {
        let status = ExitStatus::from_raw(128 << 8);
        let complaint = "fatal: write error: No space left on device\n";
        assert!(from_complaint(status, complaint).is_ours());
        assert!(from_complaint(ExitStatus::from_raw(9), "").is_ours());
    }
}
