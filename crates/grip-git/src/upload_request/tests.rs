use proptest::prelude::*;

use super::*;

/// `-` stands for the delimiter.
fn body(lines: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    for line in lines {
        match *line {
            "-" => out.extend_from_slice(pktline::DELIM),
            line => pktline::put(&mut out, line.as_bytes()),
        }
    }
    out.extend_from_slice(pktline::FLUSH);
    out
}

fn parse(bytes: &[u8]) -> Result<Request, FetchError> {
    let mut parser = Parser::default();
    parser.feed(bytes);
    parser.finish()
}

#[test]
fn the_highest_known_version_of_the_header_wins() {
    for (header, expected) in [
        (None, Protocol::V0),
        (Some(""), Protocol::V0),
        (Some("version=1"), Protocol::V1),
        (Some("version=2"), Protocol::V2),
        (Some("version=2:version=1"), Protocol::V2),
        (Some("key=value:version=1:version=7"), Protocol::V1),
        (Some("version=2; rm -rf"), Protocol::V0),
    ] {
        assert_eq!(Protocol::from_header(header), expected, "{header:?}");
    }
}

#[test]
fn ls_refs_is_read_whole() {
    let request = body(&[
        "command=ls-refs\n",
        "agent=git/2.47\n",
        "object-format=sha1",
        "-",
        "peel\n",
        "symrefs",
        "unborn",
        "ref-prefix refs/heads/\n",
        "ref-prefix HEAD",
    ]);
    let Ok(Request::LsRefs(ls_refs)) = parse(&request) else {
        panic!("not ls-refs");
    };
    assert!(ls_refs.peel && ls_refs.symrefs && ls_refs.unborn);
    assert_eq!(
        ls_refs.prefixes,
        [b"refs/heads/".to_vec(), b"HEAD".to_vec()]
    );
    assert_eq!(
        parse(&body(&["command=ls-refs"])),
        Ok(Request::LsRefs(LsRefs::default()))
    );
}

#[test]
fn fetch_hands_back_every_byte_read() {
    let request = body(&["command=fetch", "agent=x", "-", "want 1234", "done"]);
    assert_eq!(parse(&request), Ok(Request::Fetch(request.clone().into())));
}

#[test]
fn bad_requests_have_a_reason() {
    assert_eq!(parse(b"0000"), Ok(Request::Nothing));
    assert_eq!(parse(b""), Err(FetchError::Truncated));
    assert_eq!(parse(b"00"), Err(FetchError::Truncated));
    assert_eq!(parse(&body(&["agent=x"])), Err(FetchError::NoCommand));
    assert_eq!(parse(&body(&["agent=x", "-"])), Err(FetchError::NoCommand));
    assert_eq!(
        parse(&body(&["command=bundle-uri"])),
        Err(FetchError::UnknownCommand("bundle-uri".into()))
    );
    assert_eq!(
        parse(&body(&["command=ls-refs", "object-format=sha256", "-"])),
        Err(FetchError::ObjectFormat)
    );
    assert!(matches!(parse(b"POST"), Err(FetchError::Framing(_))));
    let reply = parse(&body(&["command=x"])).unwrap_err().reply();
    assert!(reply[4..].starts_with(b"ERR the command"));
}

#[test]
fn too_many_prefixes_list_everything() {
    let mut lines = vec!["command=ls-refs", "-"];
    lines.extend(std::iter::repeat_n(
        "ref-prefix refs/heads/x",
        MAX_PREFIXES + 1,
    ));
    let Ok(Request::LsRefs(ls_refs)) = parse(&body(&lines)) else {
        panic!("not ls-refs");
    };
    assert!(ls_refs.prefixes.is_empty());
}

#[test]
fn prefixes_of_many_bytes_list_everything_and_are_not_kept() {
    let line = format!("ref-prefix {}", "x".repeat(60_000));
    let mut lines = vec!["command=ls-refs", "-"];
    lines.extend(std::iter::repeat_n(line.as_str(), 60));
    let bytes = body(&lines);
    let (mut parser, mut fed) = (Parser::default(), Feed::More);
    for piece in bytes.chunks(8 << 10) {
        fed = parser.feed(piece);
        assert!(parser.seen.len() <= 128 << 10, "{}", parser.seen.len());
        assert!(parser.request.prefixes.len() <= 5);
    }
    assert_eq!(fed, Feed::Complete);
    let Ok(Request::LsRefs(ls_refs)) = parser.finish() else {
        panic!("not ls-refs");
    };
    assert!(ls_refs.prefixes.is_empty());
}

#[test]
fn an_endless_request_runs_into_the_bound() {
    let line = format!("ref-prefix {}", "x".repeat(60_000));
    let mut lines = vec!["command=ls-refs", "-"];
    lines.extend(std::iter::repeat_n(line.as_str(), 300));
    assert_eq!(parse(&body(&lines)), Err(FetchError::TooLong));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn arbitrary_lines_never_panic(lines in proptest::collection::vec("(-|command=|ls-refs|fetch|ref-prefix |\\PC){0,5}", 0..8)) {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let _ = parse(&body(&lines));
    }

    #[test]
    fn where_an_ls_refs_request_is_cut_does_not_matter(prefixes in proptest::collection::vec("[a-z/]{0,10}", 0..5)) {
        let prefixes: Vec<String> = prefixes.iter().map(|p| format!("ref-prefix {p}")).collect();
        let mut lines = vec!["command=ls-refs", "agent=x", "-", "peel"];
        lines.extend(prefixes.iter().map(String::as_str));
        let bytes = body(&lines);
        let whole = parse(&bytes);
        for cut in 0..bytes.len() {
            let mut parser = Parser::default();
            parser.feed(&bytes[..cut]);
            parser.feed(&bytes[cut..]);
            prop_assert_eq!(parser.finish(), whole.clone());
        }
    }
}
