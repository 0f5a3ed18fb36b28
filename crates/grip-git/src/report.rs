//! Answers to a push, in the form the client asked for.
//!
//! A refusal is sent with status 200, fails the `unpack` line and names every command: stock git,
//! libgit2 and plain report-status clients then all show the reason. The `unpack` line itself says no
//! more than that it failed: stock git would print the reason a third time.

use bytes::Bytes;
use grip_types::RefName;

use crate::{
    pktline::{self, Band},
    push_request::Capabilities,
};

/// Longest reason sent; longer ones are cut.
pub const MAX_REASON: usize = 200;

/// Says that every command was carried out; `messages` are shown to the person.
pub fn accepted<'a>(
    capabilities: &Capabilities,
    names: impl IntoIterator<Item = &'a RefName>,
    messages: &[&str],
) -> Bytes {
    let mut report = Vec::new();
    if capabilities.report_status {
        pktline::put(&mut report, b"unpack ok\n");
        for name in names {
            pktline::put_parts(&mut report, &[b"ok ", name.as_str().as_bytes(), b"\n"]);
        }
        report.extend_from_slice(pktline::FLUSH);
    }
    if !capabilities.side_band_64k {
        return report.into();
    }
    let mut out = Vec::with_capacity(report.len() + 64);
    for message in messages {
        put_message(&mut out, &one_line(message));
    }
    pktline::put_band(&mut out, Band::Payload, &report);
    out.extend_from_slice(pktline::FLUSH);
    out.into()
}

/// Says that nothing was done, and why.
pub fn refused<'a>(
    capabilities: &Capabilities,
    names: impl IntoIterator<Item = &'a [u8]>,
    reason: &str,
) -> Bytes {
    let reason = one_line(reason);
    let mut report = Vec::new();
    if capabilities.report_status {
        pktline::put(&mut report, b"unpack rejected\n");
        for name in names {
            put_ng(&mut report, name, &reason);
        }
        report.extend_from_slice(pktline::FLUSH);
    }
    if !capabilities.side_band_64k {
        return if capabilities.report_status {
            report.into()
        } else {
            pktline::error(&reason)
        };
    }
    let mut out = Vec::with_capacity(report.len() + 256);
    if capabilities.report_status {
        put_message(&mut out, &reason);
        pktline::put_band(&mut out, Band::Payload, &report);
    } else {
        pktline::put_band(&mut out, Band::Fatal, format!("{reason}\n").as_bytes());
    }
    out.extend_from_slice(pktline::FLUSH);
    out.into()
}

/// A name may be nearly as long as a packet, so the reason gives way.
fn put_ng(report: &mut Vec<u8>, name: &[u8], reason: &str) {
    let room = pktline::MAX_DATA.saturating_sub(name.len() + 5);
    let reason = &reason.as_bytes()[..reason.len().min(room)];
    pktline::put_parts(report, &[b"ng ", name, b" ", reason, b"\n"]);
}

/// What keeps a client waiting while we work: `None` where its answer has no side band.
pub fn keep_alive(capabilities: &Capabilities) -> Option<Bytes> {
    capabilities
        .side_band_64k
        .then_some(Bytes::from_static(b"0005\x01"))
}

/// A line shown to the person as `remote: …`: `None` where the answer has no side band.
pub fn progress(capabilities: &Capabilities, message: &str) -> Option<Bytes> {
    let shown = capabilities.side_band_64k && !capabilities.quiet;
    shown.then(|| {
        let mut out = Vec::new();
        put_message(&mut out, &one_line(message));
        out.into()
    })
}

fn put_message(out: &mut Vec<u8>, line: &str) {
    pktline::put_band(out, Band::Progress, format!("{line}\n").as_bytes());
}

/// Makes a text fit for one line of a report: no control characters, at most [`MAX_REASON`] bytes.
pub fn one_line(text: &str) -> String {
    let mut line: String = text
        .trim()
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if line.len() > MAX_REASON {
        let mut end = MAX_REASON - '…'.len_utf8();
        while !line.is_char_boundary(end) {
            end -= 1;
        }
        line.truncate(end);
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pktline::{MAX_PACKET, Packet, decode};

    fn capabilities(text: &str) -> Capabilities {
        Capabilities::parse(text.as_bytes())
    }

    fn names(names: &[&str]) -> Vec<RefName> {
        names
            .iter()
            .map(|name| RefName::parse(name).unwrap())
            .collect()
    }

    #[test]
    fn a_refusal_in_side_bands_shows_the_reason_and_fails_every_line() {
        let reply = refused(
            &capabilities("report-status side-band-64k"),
            [&b"refs/heads/main"[..], b"refs/tags/v1"],
            "no state\nallows it",
        );
        let inner = "0014unpack rejected\n\
                     002ang refs/heads/main no state allows it\n\
                     0027ng refs/tags/v1 no state allows it\n0000";
        let expected = format!(
            "0018\x02no state allows it\n{:04x}\x01{inner}0000",
            inner.len() + 5
        );
        assert_eq!(String::from_utf8_lossy(&reply), expected);
    }

    #[test]
    fn a_plain_report_has_no_band() {
        let reply = refused(
            &capabilities("report-status delete-refs"),
            [&b"refs/heads/a"[..]],
            "no",
        );
        assert_eq!(
            &reply[..],
            b"0014unpack rejected\n0017ng refs/heads/a no\n0000"
        );
    }

    #[test]
    fn a_client_that_reads_no_report_gets_an_error() {
        assert_eq!(&refused(&capabilities(""), [], "no")[..], b"000bERR no\n");
        let reply = refused(&capabilities("side-band-64k"), [], "no");
        assert_eq!(&reply[..], b"0008\x03no\n0000");
    }

    #[test]
    fn success_is_reported_per_ref() {
        let both = names(&["refs/heads/a", "refs/tags/b"]);
        let plain = accepted(&capabilities("report-status"), &both, &["unseen"]);
        assert_eq!(
            &plain[..],
            b"000eunpack ok\n0014ok refs/heads/a\n0013ok refs/tags/b\n0000"
        );
        let banded = accepted(
            &capabilities("report-status-v2 side-band-64k"),
            &both,
            &["hello"],
        );
        assert!(banded.starts_with(b"000b\x02hello\n003e\x01000eunpack ok\n"));
        assert!(banded.ends_with(b"00000000"));
        assert_eq!(&accepted(&capabilities(""), &both, &[])[..], b"");
        assert_eq!(
            &accepted(&capabilities("side-band-64k"), &both, &[])[..],
            b"0000"
        );
    }

    #[test]
    fn keep_alives_need_a_side_band() {
        assert_eq!(
            keep_alive(&capabilities("side-band-64k")).as_deref(),
            Some(&b"0005\x01"[..])
        );
        assert_eq!(keep_alive(&capabilities("report-status")), None);
        assert_eq!(progress(&capabilities("side-band-64k quiet"), "x"), None);
    }

    #[test]
    fn a_report_of_many_refs_is_split_into_packets() {
        let many: Vec<String> = (0..20_000)
            .map(|n| format!("refs/heads/branch-{n}"))
            .collect();
        let reply = refused(
            &capabilities("report-status side-band-64k"),
            many.iter().map(|name| name.as_bytes()),
            "no",
        );
        let (mut at, mut inner) = (0, Vec::new());
        while let Some((Packet::Data(data), len)) = decode(&reply[at..]).unwrap() {
            assert!(len <= MAX_PACKET);
            if data[0] == Band::Payload as u8 {
                inner.extend_from_slice(&data[1..]);
            }
            at += len;
        }
        assert_eq!(&reply[at..], b"0000");
        let text = String::from_utf8(inner).unwrap();
        assert_eq!(text.matches("ng refs/heads/branch-").count(), 20_000);
        assert!(text.ends_with("0000"));
    }

    proptest! {
        #[test]
        fn a_reason_is_one_short_line(text in "(\\PC|\n|\r|\0){0,400}") {
            let line = one_line(&text);
            prop_assert!(line.len() <= MAX_REASON && !line.chars().any(char::is_control));
        }

        #[test]
        fn every_reply_is_framed(
            names in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..70_000), 0..3),
            reason in "\\PC{0,300}",
            banded in any::<bool>(),
        ) {
            let text = if banded { "report-status side-band-64k" } else { "report-status" };
            let reply = refused(&capabilities(text), names.iter().map(|n| &n[..]), &reason);
            let mut at = 0;
            while at < reply.len() {
                let (_, len) = decode(&reply[at..]).unwrap().unwrap();
                at += len;
            }
        }
    }
}
