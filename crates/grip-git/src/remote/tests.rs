use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use grip_types::Oid;
use proptest::prelude::*;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

use super::*;
use crate::pktline::{self, Packet};

fn oid(digit: &str) -> Oid {
    digit.repeat(40).parse().unwrap()
}

/// `-` stands for the delimiter, `.` for the flush.
fn answer(lines: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    for line in lines {
        match *line {
            "-" => out.extend_from_slice(pktline::DELIM),
            "." => out.extend_from_slice(pktline::FLUSH),
            line => pktline::put(&mut out, line.as_bytes()),
        }
    }
    out
}

/// Gives out its bytes in pieces of given sizes, over and over, with pauses between them.
struct Pieces<'a> {
    bytes: &'a [u8],
    sizes: &'a [usize],
    at: usize,
}

impl AsyncRead for Pieces<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.at += 1;
        let size = self.sizes.get(self.at % self.sizes.len().max(1));
        match size.copied().unwrap_or(usize::MAX) {
            0 => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            size => {
                let len = size.min(self.bytes.len()).min(buf.remaining());
                buf.put_slice(&self.bytes[..len]);
                self.bytes = &self.bytes[len..];
                Poll::Ready(Ok(()))
            }
        }
    }
}

async fn read_pack<R>(reader: R, version: Version) -> Result<Vec<u8>, RemoteError>
where
    R: AsyncRead + Send + Unpin,
{
    let mut pack = open_pack(reader, version).await?;
    let mut out = Vec::new();
    match pack.read_to_end(&mut out).await {
        Ok(_) => Ok(out),
        Err(error) => {
            assert!(pack.read_to_end(&mut out).await.is_err(), "no second end");
            let inside = RemoteError::inside(&error).map(ToString::to_string);
            let inside = inside.expect("the error says what the server did");
            Err(match error.downcast::<RemoteError>() {
                Ok(remote) => remote,
                Err(_) => panic!("{inside}"),
            })
        }
    }
}

fn lines_of(body: &Bytes) -> Vec<String> {
    let (mut at, mut lines) = (0, Vec::new());
    while at < body.len() {
        let (packet, len) = pktline::decode(&body[at..]).unwrap().unwrap();
        at += len;
        lines.push(match packet {
            Packet::Data(line) => String::from_utf8(line.to_vec()).unwrap(),
            Packet::Flush => ".".to_owned(),
            other => format!("{other:?}"),
        });
    }
    lines
}

#[test]
fn a_fetch_of_version_two_is_one_whole_request() {
    let body = fetch_v2(
        &[oid("a"), oid("b"), oid("a")],
        &[oid("c"), oid("b"), oid("c")],
    );
    let lines = lines_of(&body);
    let (want, have) = (
        |o: Oid| format!("want {o}\n"),
        |o: Oid| format!("have {o}\n"),
    );
    assert_eq!(lines[0], "command=fetch\n");
    assert!(lines[1].starts_with("agent=gripfast/"), "{}", lines[1]);
    assert_eq!(
        lines[2..],
        [
            "object-format=sha1\n",
            "Delim",
            "thin-pack\n",
            "no-progress\n",
            "ofs-delta\n",
            &want(oid("a")),
            &want(oid("b")),
            &have(oid("c")),
            "done\n",
            "."
        ]
    );
}

#[test]
fn a_request_is_bounded_and_of_one_object_format() {
    let oids: Vec<Oid> = (0..5000)
        .map(|n| format!("{n:040x}").parse().unwrap())
        .collect();
    let lines = lines_of(&fetch_v2(&oids, &oids));
    let count = |start: &str| lines.iter().filter(|line| line.starts_with(start)).count();
    assert_eq!((count("want "), count("have ")), (MAX_WANTS, MAX_HAVES));
    let long: Oid = "ab".repeat(32).parse().unwrap();
    let lines = lines_of(&fetch_v2(&[long, oid("a")], &[oid("b"), long]));
    assert!(lines.contains(&"object-format=sha256\n".to_owned()));
    assert!(lines.contains(&format!("want {long}\n")));
    assert!(!lines.iter().any(|line| line.contains(&oid("a").to_hex())));
    assert!(!lines.iter().any(|line| line.starts_with("have ")));
}

#[test]
fn version_zero_is_asked_only_for_what_the_server_can_do() {
    let mut advertised = Advertisement::default();
    let plain = lines_of(&fetch_v0(&advertised, &[oid("a")], &[oid("b")]));
    let (want, have) = (
        format!("want {}\n", oid("a")),
        format!("have {}\n", oid("b")),
    );
    assert_eq!(plain, [&want, ".", &have, "done\n"]);
    for capability in [
        "side-band",
        "side-band-64k",
        "ofs-delta",
        "include-tag",
        "multi_ack",
    ] {
        advertised.capabilities.push(capability.to_owned());
    }
    advertised.capabilities.push("agent=git/1.7".to_owned());
    let lines = lines_of(&fetch_v0(&advertised, &[oid("a"), oid("b")], &[]));
    let first = format!("want {} side-band-64k ofs-delta agent=gripfast/", oid("a"));
    assert!(lines[0].starts_with(&first), "{}", lines[0]);
    assert!(!lines[0].contains("thin-pack") && !lines[0].contains("object-format"));
    assert_eq!(lines[1], format!("want {}\n", oid("b")));
    assert_eq!(lines_of(&fetch_v0(&advertised, &[], &[oid("b")])), ["."]);
}

#[tokio::test]
async fn every_section_before_the_pack_is_passed_over() {
    let head = [
        "acknowledgments\n",
        "NAK\n",
        "ready\n",
        "-",
        "shallow-info\n",
        "shallow 0123\n",
        "-",
        "wanted-refs\n",
        "x refs/heads/main\n",
        "-",
        "packfile\n",
    ];
    let mut bytes = answer(&head);
    pktline::put_band(&mut bytes, pktline::Band::Progress, b"counting");
    pktline::put_band(&mut bytes, pktline::Band::Payload, b"PACK");
    pktline::put(&mut bytes, b"\x01");
    pktline::put_band(&mut bytes, pktline::Band::Payload, &[7; 100_000]);
    bytes.extend_from_slice(b"0000and then something that is not read");
    let pack = read_pack(&bytes[..], Version::V2).await.unwrap();
    assert_eq!(pack, [&b"PACK"[..], &[7; 100_000]].concat());
}

#[tokio::test]
async fn version_zero_may_send_the_pack_bare() {
    let mut bytes = answer(&["shallow x\n", ".", "NAK\n"]);
    bytes.extend_from_slice(b"PACK and the rest");
    for version in [Version::V0, Version::V1] {
        let pack = read_pack(&bytes[..], version).await.unwrap();
        assert_eq!(pack, b"PACK and the rest");
    }
    let bytes = answer(&[
        "ACK x continue\n",
        "ACK x\n",
        "\x01PA",
        "\x02hm",
        "\x01CK",
        ".",
    ]);
    assert_eq!(read_pack(&bytes[..], Version::V0).await.unwrap(), b"PACK");
}

#[tokio::test]
async fn broken_answers_to_a_fetch_are_told_apart() {
    use Version::{V0, V2};
    let not_ours = format!("ERR upload-pack: not our ref {}\n", oid("a"));
    let on_band = format!("\x03upload-pack: not our ref {}", oid("a"));
    let packfile = |rest: &[u8]| [&answer(&["packfile\n"]), rest].concat();
    let uris = [
        "shallow-info\n",
        "-",
        "packfile-uris\n",
        "x https://evil\n",
        "-",
    ];
    let cases = [
        ("NotOurRef", V2, answer(&[&not_ours, &not_ours])),
        ("NotOurRef", V0, answer(&[&not_ours])),
        ("NotOurRef", V2, answer(&["packfile\n", &on_band])),
        (
            "NotOurRef",
            V2,
            answer(&["packfile\n", "\x01PACK", &not_ours]),
        ),
        ("NotOurRef", V2, answer(&[&on_band])),
        ("NotOurRef", V0, answer(&[&on_band])),
        ("NotOurRef", V0, answer(&["NAK\n", &on_band])),
        ("Refused", V2, answer(&["ERR go away"])),
        ("Refused", V0, answer(&["ERR go away"])),
        ("Refused", V2, answer(&["packfile", "\x03disk on fire"])),
        ("UnsupportedVersion", V2, vec![]),
        (
            "UnsupportedVersion",
            V2,
            answer(&["NAK\n", "\x01PACK", "."]),
        ),
        ("Truncated", V0, vec![]),
        ("Truncated", V2, answer(&["packfile\n", "\x01PACK"])),
        ("Truncated", V2, answer(&["packfile\n"])),
        ("Truncated", V2, answer(&["acknowledgments\n"])),
        ("Truncated", V0, answer(&["NAK\n"])),
        ("Truncated", V0, answer(&["NAK\n", "\x01PACK"])),
        ("Truncated", V2, b"000dpackf".to_vec()),
        ("Malformed", V2, answer(&["\x01PACK", "packfile\n"])),
        ("Malformed", V0, answer(&["\x01PACK"])),
        ("Malformed", V2, answer(&["acknowledgments\n", "\x02hm"])),
        (
            "Malformed",
            V2,
            answer(&["acknowledgments\n", "NAK\n", "."]),
        ),
        ("Malformed", V2, answer(&["."])),
        ("Malformed", V2, answer(&["-"])),
        ("Malformed", V2, answer(&["packfile\n", "\x01PACK", "-"])),
        ("Malformed", V2, answer(&["packfile\n", "\x04PACK", "."])),
        ("Malformed", V2, answer(&["packfile\n", "PACK", "."])),
        ("Malformed", V2, packfile(b"PACK")),
        ("Malformed", V2, packfile(b"0003")),
        ("Malformed", V2, packfile(b"ffff")),
        ("Malformed", V2, answer(&uris)),
        (
            "NotSmart",
            V2,
            b"<!DOCTYPE html><title>Sign in</title>".to_vec(),
        ),
        ("NotSmart", V0, b"<html>".to_vec()),
        ("NotSmart", V2, b"dead link".to_vec()),
        ("NotSmart", V2, b"{\"error\":404}".to_vec()),
        ("NotSmart", V0, b"PACK".to_vec()),
    ];
    for (expected, version, bytes) in cases {
        let text = String::from_utf8_lossy(&bytes);
        let error = read_pack(&bytes[..], version).await.expect_err(&text);
        assert!(
            format!("{error:?}").starts_with(expected),
            "{text}: {error:?}"
        );
    }
}

#[tokio::test]
async fn a_server_that_talks_without_end_is_given_up() {
    let acks = answer(&["acknowledgments\n"]);
    let packfile = answer(&["packfile\n"]);
    let cases = [
        (Version::V2, acks, answer(&["NAK\n"])),
        (
            Version::V2,
            packfile.clone(),
            answer(&["\x02Counting objects"]),
        ),
        (Version::V2, packfile.clone(), answer(&["\x01"])),
        (Version::V2, packfile, answer(&[""])),
        (Version::V0, vec![], answer(&["NAK\n"])),
        (Version::V0, vec![], answer(&["."])),
        (
            Version::V0,
            answer(&["NAK\n"]),
            answer(&[&format!("\x02{}", "x".repeat(1000))]),
        ),
    ];
    for (version, head, line) in cases {
        let endless = io::Cursor::new(head).chain(Cycle { bytes: line, at: 0 });
        let error = read_pack(endless, version).await.unwrap_err();
        assert!(matches!(error, RemoteError::Endless), "{error}");
    }
}

/// The same bytes again and again, for ever.
struct Cycle {
    bytes: Vec<u8>,
    at: usize,
}

impl AsyncRead for Cycle {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while buf.remaining() > 0 {
            let rest = &self.bytes[self.at..];
            let len = rest.len().min(buf.remaining());
            buf.put_slice(&rest[..len]);
            self.at = (self.at + len) % self.bytes.len();
        }
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn an_error_of_the_connection_stays_what_it_is() {
    struct Reset;
    impl AsyncRead for Reset {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
        }
    }
    let reader = io::Cursor::new(answer(&["packfile\n", "\x01PACK"])).chain(Reset);
    let mut pack = open_pack(reader, Version::V2).await.unwrap();
    let error = pack.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    let error = open_pack(Reset, Version::V2).await.err().unwrap();
    assert!(matches!(error, RemoteError::Io(_)), "{error}");
}

fn first(name: &str, capabilities: &str) -> String {
    format!("{} {name}\0{capabilities}\n", oid("a"))
}

#[tokio::test]
async fn an_advertisement_is_read_with_its_capabilities() {
    let bytes = answer(&[
        "# service=git-upload-pack\n",
        ".",
        &first(
            "HEAD",
            " side-band-64k allow-reachable-sha1-in-want object-format=sha1 agent=x/1",
        ),
        &format!("{} refs/heads/main\n", oid("a")),
        &format!("{} refs/tags/v1\n", oid("b")),
        &format!("{} refs/tags/v1^{{}}\n", oid("c")),
        &format!("{} refs/pull/1/head\n", oid("d")),
        &format!("{} refs/heads/same", oid("a")),
        &format!("{} .have\n", oid("e")),
        &format!("{} refs/{}\n", oid("e"), "x".repeat(2000)),
        &format!("shallow {}\n", oid("e")),
        ".",
    ]);
    let advertised = read_advertisement(&bytes[..], 5, |_| true).await.unwrap();
    assert_eq!(advertised.version, Version::V0);
    assert_eq!(advertised.value("agent"), Some("x/1"));
    assert!(advertised.has("side-band-64k") && !advertised.has("side-band"));
    assert!(advertised.can_serve_any_oid());
    assert_eq!(advertised.refs.len(), 5);
    assert_eq!(advertised.refs[2].peeled, Some(oid("c")));
    assert_eq!(advertised.heads_and_tags(), [oid("a"), oid("b")]);
    let error = read_advertisement(&bytes[..], 4, |_| true)
        .await
        .unwrap_err();
    assert!(matches!(error, RemoteError::TooManyRefs), "{error}");
}

#[tokio::test]
async fn broken_advertisements_are_told_apart() {
    let service = "# service=git-upload-pack\n";
    let (unknown, absent) = ("version 3\n", "ERR no such repository\n");
    let head = first("HEAD", "x");
    let dumb = format!("{}\trefs/heads/main\n", oid("0"));
    let cases: &[(Vec<u8>, &str)] = &[
        (vec![], "NotSmart"),
        (b"<html>".to_vec(), "NotSmart"),
        (dumb.replacen("0000", "00aa", 1).into_bytes(), "NotSmart"),
        (dumb.replacen("0000", "0020", 1).into_bytes(), "NotSmart"),
        (dumb.replacen("0000", "beef", 1).into_bytes(), "NotSmart"),
        (dumb.into_bytes(), "NotSmart"),
        (answer(&["."]), "NotSmart"),
        (answer(&["# service=git-receive-pack\n", "."]), "Malformed"),
        (answer(&[service, ".", unknown, "."]), "UnsupportedVersion"),
        (answer(&[service, ".", absent]), "Refused"),
        (answer(&[absent]), "Refused"),
        (answer(&[service]), "Truncated"),
        (answer(&[service, "."]), "Truncated"),
        (answer(&[service, ".", &head]), "Truncated"),
        (answer(&["version 2\n", "ls-refs\n"]), "Truncated"),
        (answer(&[service, ".", "hello\n", "."]), "Malformed"),
        (answer(&[service, ".", "what now\n", "."]), "Malformed"),
        (answer(&[service, ".", &head, "-"]), "Malformed"),
    ];
    for (bytes, expected) in cases {
        let text = String::from_utf8_lossy(bytes);
        let error = read_advertisement(&bytes[..], 10, |_| true)
            .await
            .expect_err(&text);
        assert!(
            format!("{error:?}").starts_with(expected),
            "{text}: {error:?}"
        );
    }
    let empty = answer(&[service, ".", "."]);
    let advertised = read_advertisement(&empty[..], 10, |_| true).await.unwrap();
    assert!(advertised.refs.is_empty());
}

#[tokio::test]
async fn endless_lists_of_refs_and_capabilities_are_given_up() {
    let long = format!("refs/{}", "x".repeat(60_000));
    let service = "# service=git-upload-pack\n";
    let cases = [
        (vec!["version 2\n"], "another-capability\n".to_owned()),
        (vec![service], "metadata\n".to_owned()),
        (vec![service, "."], format!("{} {long}\n", oid("a"))),
        (vec![service, "."], format!("shallow {}\n", oid("a"))),
        (vec![service, "."], format!("{} .have\n", oid("a"))),
    ];
    for (head, line) in cases {
        let line = answer(&[&line]);
        let endless = io::Cursor::new(answer(&head)).chain(Cycle { bytes: line, at: 0 });
        let error = read_advertisement(endless, 100, |_| true)
            .await
            .unwrap_err();
        assert!(matches!(error, RemoteError::TooManyRefs), "{error}");
    }
    let line = answer(&["unborn HEAD symref-target:refs/heads/main\n"]);
    let error = read_ls_refs(Cycle { bytes: line, at: 0 }, 100, |_| true)
        .await
        .unwrap_err();
    assert!(matches!(error, RemoteError::TooManyRefs), "{error}");
}

#[tokio::test]
async fn only_refs_that_are_wanted_and_capabilities_that_mean_something_are_kept() {
    let strange = format!("x-{}", "y".repeat(20_000));
    let lines: Vec<String> = (0..1_000)
        .map(|n| format!("{} refs/heads/{n}-{}\n", oid("b"), "z".repeat(900)))
        .collect();
    let head = first(
        "HEAD",
        &format!(" {strange} agent={strange} ofs-delta ofs-delta"),
    );
    let wanted = format!("{} refs/heads/wanted\n", oid("c"));
    let mut all = vec!["# service=git-upload-pack\n", ".", &head];
    all.extend(lines.iter().map(String::as_str));
    all.extend([wanted.as_str(), "."]);
    let bytes = answer(&all);
    let is_wanted = |found: &RemoteRef| found.oid == oid("c");
    let advertised = read_advertisement(&bytes[..], 2_000, is_wanted);
    let advertised = advertised.await.unwrap();
    assert_eq!(advertised.capabilities, ["ofs-delta"]);
    let names: Vec<_> = advertised.refs.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(names, ["refs/heads/wanted"]);
    // Those that are not kept are counted, and stand for what it has.
    let error = read_advertisement(&bytes[..], 500, is_wanted).await;
    assert!(matches!(error, Err(RemoteError::TooManyRefs)));
    let digest = |of: &str| digest_of(&oid(of));
    let expected = (0..1_000).fold(digest("a").wrapping_add(digest("c")), |sum, _| {
        sum.wrapping_add(digest("b"))
    });
    assert_eq!(advertised.digest, expected);
}

#[tokio::test]
async fn a_listing_of_version_two_is_read() {
    let (a, b, c) = (oid("a"), oid("b"), oid("c"));
    let bytes = answer(&[
        &format!("{a} HEAD symref-target:refs/heads/main\n"),
        &format!("{b} refs/tags/v1 peeled:{c}\n"),
        "unborn refs/heads/x\n",
        ".",
    ]);
    let refs = read_ls_refs(&bytes[..], 2, |_| true).await.unwrap();
    assert_eq!((refs[0].oid, refs[0].peeled), (a, None));
    assert_eq!((refs[1].oid, refs[1].peeled), (b, Some(c)));
    let error = read_ls_refs(&bytes[..], 1, |_| true).await.unwrap_err();
    assert!(matches!(error, RemoteError::TooManyRefs), "{error}");
    let error = read_ls_refs(&b""[..], 1, |_| true).await.unwrap_err();
    assert!(matches!(error, RemoteError::UnsupportedVersion), "{error}");
    let cut = &bytes[..bytes.len() - 4];
    let error = read_ls_refs(cut, 2, |_| true).await.unwrap_err();
    assert!(matches!(error, RemoteError::Truncated), "{error}");
    assert!(
        read_ls_refs(&b"0000"[..], 1, |_| true)
            .await
            .unwrap()
            .is_empty()
    );
}

fn lines() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        Just("packfile\n".to_owned()),
        Just("acknowledgments\n".to_owned()),
        Just("shallow-info\n".to_owned()),
        Just("NAK\n".to_owned()),
        Just("version 2\n".to_owned()),
        Just("# service=git-upload-pack\n".to_owned()),
        Just("-".to_owned()),
        Just(".".to_owned()),
        Just("PACK".to_owned()),
        Just(format!("{} HEAD\0a b=c\n", oid("a"))),
        Just(format!("{} refs/tags/x^{{}}\n", oid("a"))),
        "[\x01-\x04].{0,20}",
        ".{0,40}",
    ];
    let line = line.prop_map(|line| answer(&[&line]));
    let junk = proptest::collection::vec(any::<u8>(), 0..60);
    let piece = prop_oneof![4 => line, 1 => junk];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

/// All that a reader makes of the bytes, errors included, in any pieces.
async fn all_readings(bytes: &[u8], sizes: &[usize]) -> Vec<String> {
    let pieces = || Pieces {
        bytes,
        sizes,
        at: 0,
    };
    let mut readings = Vec::new();
    for version in [Version::V0, Version::V1, Version::V2] {
        readings.push(format!("{:?}", read_pack(pieces(), version).await));
    }
    readings.push(format!(
        "{:?}",
        read_advertisement(pieces(), 3, |_| true).await
    ));
    readings.push(format!("{:?}", read_ls_refs(pieces(), 3, |_| true).await));
    readings
}

proptest! {
    #[test]
    fn any_bytes_in_any_pieces_are_read_alike_and_never_panic(
        bytes in lines(),
        sizes in proptest::collection::vec(0_usize..9, 0..6),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        // A reader that only ever pauses would never end.
        let sizes = [&sizes[..], &[1]].concat();
        let whole = runtime.block_on(all_readings(&bytes, &[]));
        let pieces = runtime.block_on(all_readings(&bytes, &sizes));
        prop_assert_eq!(whole, pieces);
    }

    #[test]
    fn what_is_banded_comes_out_as_it_went_in(
        chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..3000), 0..10),
        sizes in proptest::collection::vec(0_usize..5000, 0..6),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut bytes = answer(&["packfile\n"]);
        for chunk in &chunks {
            pktline::put_band(&mut bytes, pktline::Band::Payload, chunk);
            pktline::put_band(&mut bytes, pktline::Band::Progress, b"so far so good");
        }
        bytes.extend_from_slice(pktline::FLUSH);
        let sizes = [&sizes[..], &[1]].concat();
        let pieces = Pieces { bytes: &bytes, sizes: &sizes, at: 0 };
        let pack = runtime.block_on(read_pack(pieces, Version::V2)).unwrap();
        prop_assert_eq!(pack, chunks.concat());
    }
}
