use proptest::prelude::*;

use super::*;

const A: &str = "1111111111111111111111111111111111111111";
const B: &str = "2222222222222222222222222222222222222222";
const ZERO: &str = "0000000000000000000000000000000000000000";

fn lines(lines: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    for line in lines {
        pktline::put(&mut out, line.as_bytes());
    }
    out.extend_from_slice(pktline::FLUSH);
    out
}

fn parse(bytes: &[u8]) -> Result<(PushRequest, Bytes), PushError> {
    let mut parser = Parser::default();
    parser.feed(bytes);
    parser.finish()
}

fn problem(bytes: &[u8]) -> Problem {
    parse(bytes).unwrap_err().problem
}

#[test]
fn commands_are_read_with_and_without_line_feeds_and_spaces() {
    let git = format!("{ZERO} {A} refs/heads/main\0 report-status-v2 side-band-64k agent=git/2.47");
    let jgit = format!("{ZERO} {A} refs/heads/main\0report-status-v2 side-band-64k agent=git/2.47");
    let libgit2 = format!("{git}\n");
    for first in [git, jgit, libgit2] {
        let delete = format!("{B} {ZERO} refs/tags/v1\n");
        let mut bytes = lines(&[&first, &delete]);
        bytes.extend_from_slice(b"PACKrest");
        let (request, rest) = parse(&bytes).unwrap();
        assert_eq!(&rest[..], b"PACKrest");
        assert_eq!(request.commands.len(), 2);
        assert_eq!(request.commands[0].old, None);
        assert_eq!(request.commands[0].new, Some(A.parse().unwrap()));
        assert_eq!(request.commands[1].old, Some(B.parse().unwrap()));
        assert_eq!(request.commands[1].new, None);
        assert_eq!(request.commands[1].name.as_str(), "refs/tags/v1");
        assert!(request.capabilities.report_status && request.capabilities.side_band_64k);
        assert_eq!(request.capabilities.agent.as_deref(), Some("git/2.47"));
        assert!(request.has_pack());
    }
}

#[test]
fn a_ref_that_the_client_does_not_see_can_be_deleted() {
    let (request, rest) = parse(&lines(&[&format!("{ZERO} {ZERO} refs/heads/x\0 ")])).unwrap();
    assert!(rest.is_empty() && !request.has_pack());
    assert_eq!(
        (request.commands[0].old, request.commands[0].new),
        (None, None)
    );
}

#[test]
fn four_bytes_of_flush_are_the_probe() {
    let (request, rest) = parse(b"0000").unwrap();
    assert!(request.commands.is_empty() && rest.is_empty() && !request.has_pack());
}

#[test]
fn shallow_lines_and_options_are_kept_apart_from_commands() {
    let mut bytes = lines(&[
        &format!("shallow {B}"),
        &format!("{A} {B} refs/heads/main\0 push-options"),
    ]);
    bytes.extend(lines(&["a=b", "c\n"]));
    bytes.extend_from_slice(b"PACK");
    let (request, rest) = parse(&bytes).unwrap();
    assert_eq!(request.shallow, [B.parse().unwrap()]);
    assert_eq!(request.options, ["a=b", "c"]);
    assert_eq!(&rest[..], b"PACK");
}

#[test]
fn each_bad_head_has_its_reason() {
    let command = format!("{A} {B} refs/heads/main\0 report-status");
    assert!(matches!(
        problem(&lines(&[&command, &command])),
        Problem::Duplicate(_)
    ));
    for name in [
        "HEAD",
        "refs/heads/../x",
        "refs/heads/a b",
        "refs/heads/\u{1}",
        "",
    ] {
        assert!(matches!(
            problem(&lines(&[&format!("{A} {B} {name}")])),
            Problem::RefName(..)
        ));
    }
    assert_eq!(
        problem(&lines(&["push-cert\0 report-status"])),
        Problem::Certificate
    );
    assert_eq!(problem(&lines(&["hello"])), Problem::Command);
    assert_eq!(problem(b"000"), Problem::Truncated);
    assert_eq!(problem(b""), Problem::Truncated);
    assert!(matches!(problem(b"GET / HTTP/1.1"), Problem::Framing(_)));
    let sha256 = "ab".repeat(32);
    assert_eq!(
        problem(&lines(&[&format!("{sha256} {sha256} refs/heads/main")])),
        Problem::ObjectFormat
    );
    assert_eq!(
        problem(&lines(&[&format!(
            "{A} {B} refs/heads/main\0 object-format=sha256"
        )])),
        Problem::ObjectFormat
    );
}

#[test]
fn a_refusal_names_every_command_also_those_after_the_bad_one() {
    let error = parse(&lines(&[
        &format!("{A} {B} refs/heads/bad..name\0 report-status"),
        &format!("{A} {B} refs/heads/main"),
    ]))
    .unwrap_err();
    let reply = String::from_utf8(error.reply().to_vec()).unwrap();
    assert!(reply.contains("ng refs/heads/bad..name ") && reply.contains("ng refs/heads/main "));
}

#[test]
fn one_command_too_many_ends_the_reading() {
    let mut bytes = Vec::new();
    for n in 0..=MAX_COMMANDS {
        pktline::put(&mut bytes, format!("{A} {B} refs/heads/b{n}").as_bytes());
    }
    assert_eq!(problem(&bytes), Problem::TooManyCommands);
}

#[test]
fn long_names_run_into_the_byte_bound() {
    let mut bytes = Vec::new();
    for n in 0..600 {
        let name = format!("refs/heads/{n}{}", "x".repeat(60_000));
        pktline::put(&mut bytes, format!("{A} {B} {name}").as_bytes());
    }
    assert_eq!(problem(&bytes), Problem::TooLong);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_stops_sending_is_given_up() {
    let (_client, mut server) = tokio::io::duplex(64);
    let result = read(&mut server, Duration::from_secs(30)).await;
    assert!(matches!(result, Err(ReadError::Stalled(_))));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn arbitrary_lines_never_panic(texts in proptest::collection::vec("\\PC{0,120}", 0..8)) {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let _ = parse(&lines(&texts));
    }

    #[test]
    fn where_the_stream_is_cut_into_pieces_does_not_matter(
        names in proptest::collection::vec("[a-z]{1,8}", 1..4),
        options in any::<bool>(),
        pack in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut texts = vec![format!("shallow {A}")];
        for (n, name) in names.iter().enumerate() {
            let caps = if options { "\0 push-options report-status" } else { "\0 report-status" };
            let caps = if n == 0 { caps } else { "" };
            texts.push(format!("{A} {B} refs/heads/{name}{caps}"));
        }
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let mut bytes = lines(&texts);
        if options {
            bytes.extend(lines(&["one"]));
        }
        bytes.extend_from_slice(&pack);
        let whole = parse(&bytes);
        for cut in 0..bytes.len() {
            let mut parser = Parser::default();
            parser.feed(&bytes[..cut]);
            parser.feed(&bytes[cut..]);
            prop_assert_eq!(parser.finish(), whole.clone());
        }
        let mut parser = Parser::default();
        for byte in &bytes {
            parser.feed(std::slice::from_ref(byte));
        }
        prop_assert_eq!(parser.finish(), whole);
    }
}
