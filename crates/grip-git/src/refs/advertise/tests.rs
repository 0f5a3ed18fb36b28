use grip_types::RefName;

use super::*;
use crate::upload_request::{GitService, Protocol};

fn oid(digit: char) -> Oid {
    digit.to_string().repeat(40).parse().unwrap()
}

fn snapshot(refs: &[(&str, char, Option<char>)]) -> RefSnapshot {
    let refs = refs.iter().map(|(name, at, peeled)| Ref {
        name: RefName::parse(name).unwrap(),
        oid: oid(*at),
        peeled: peeled.map(oid),
    });
    RefSnapshot::new(
        refs.collect(),
        Some(RefName::parse("refs/heads/main").unwrap()),
    )
}

fn example() -> RefSnapshot {
    snapshot(&[
        ("refs/heads/dev", '1', None),
        ("refs/heads/main", '2', None),
        ("refs/tags/v1", '3', Some('2')),
    ])
}

/// The lines of a framed answer; `|` stands for a flush.
fn lines(bytes: &[u8]) -> Vec<String> {
    let (mut at, mut lines) = (0, Vec::new());
    while at < bytes.len() {
        let (packet, len) = pktline::decode(&bytes[at..]).unwrap().unwrap();
        lines.push(match packet {
            pktline::Packet::Data(data) => String::from_utf8(data.to_vec()).unwrap(),
            _ => "|".to_owned(),
        });
        at += len;
    }
    lines
}

#[test]
fn upload_pack_shows_head_first_and_peels_tags() {
    let shown = lines(&example().advertisement(GitService::UploadPack, Protocol::V0));
    assert_eq!(shown[0], "# service=git-upload-pack\n");
    assert_eq!(shown[1], "|");
    let (first, capabilities) = shown[2].split_once('\0').unwrap();
    assert_eq!(first, format!("{} HEAD", oid('2')));
    assert!(capabilities.contains(" symref=HEAD:refs/heads/main ") && capabilities.ends_with('\n'));
    for needed in [
        "multi_ack_detailed",
        "side-band-64k",
        "shallow",
        "object-format=sha1",
        "filter",
        "allow-tip-sha1-in-want",
        "allow-reachable-sha1-in-want",
    ] {
        assert!(
            capabilities.split_whitespace().any(|word| word == needed),
            "{needed}"
        );
    }
    assert_eq!(shown[3], format!("{} refs/heads/dev\n", oid('1')));
    assert_eq!(shown[5], format!("{} refs/tags/v1\n", oid('3')));
    assert_eq!(shown[6], format!("{} refs/tags/v1^{{}}\n", oid('2')));
    assert_eq!(shown[7..], ["|"]);
}

#[test]
fn version_one_says_so_after_the_header() {
    let shown = lines(&example().advertisement(GitService::UploadPack, Protocol::V1));
    assert_eq!(shown[1..3], ["|", "version 1\n"]);
}

#[test]
fn receive_pack_shows_neither_head_nor_peeled_tags_in_any_version() {
    for protocol in [Protocol::V0, Protocol::V1, Protocol::V2] {
        let shown = lines(&example().advertisement(GitService::ReceivePack, protocol));
        assert_eq!(shown[0], "# service=git-receive-pack\n");
        assert_eq!(shown.len(), 6);
        assert!(shown[2].starts_with(&format!("{} refs/heads/dev\0", oid('1'))));
        assert!(
            !shown
                .iter()
                .any(|line| line.contains("HEAD") || line.contains("^{}"))
        );
    }
}

#[test]
fn an_empty_repository_shows_its_capabilities() {
    for service in [GitService::UploadPack, GitService::ReceivePack] {
        let shown = lines(&snapshot(&[]).advertisement(service, Protocol::V0));
        let start = format!("{} capabilities^{{}}\0", Oid::ZERO);
        assert!(shown[2].starts_with(&start) && !shown[2].contains("symref"));
        assert_eq!(shown.len(), 4);
    }
}

#[test]
fn version_two_shows_capabilities_only() {
    let shown = lines(&example().advertisement(GitService::UploadPack, Protocol::V2));
    assert_eq!(shown[0], "version 2\n");
    assert!(shown.contains(&"ls-refs=unborn\n".to_owned()));
    assert!(shown.contains(&"fetch=shallow wait-for-done filter\n".to_owned()));
    assert_eq!(shown.last().unwrap(), "|");
}

/// The lines of a listing, whatever the pieces are.
fn listed(refs: RefSnapshot, request: &LsRefs) -> Vec<String> {
    let pieces: Vec<Bytes> = Arc::new(refs).ls_refs(request).collect();
    lines(&pieces.concat())
}

#[test]
fn a_long_listing_is_made_in_pieces() {
    let name = |n: usize| RefName::parse(&format!("refs/nostr/{n:064}")).unwrap();
    let refs = (0..20_000).map(|n| Ref {
        name: name(n),
        oid: oid('1'),
        peeled: None,
    });
    let refs = Arc::new(RefSnapshot::new(refs.collect(), None));
    let pieces: Vec<Bytes> = refs.ls_refs(&LsRefs::default()).collect();
    assert!(pieces.iter().all(|piece| piece.len() <= 2 * PIECE));
    assert_eq!(lines(&pieces.concat()).len(), 20_001);
    let few = LsRefs {
        prefixes: vec![format!("refs/nostr/{:060}", 1).into_bytes()],
        ..LsRefs::default()
    };
    let pieces: Vec<Bytes> = refs.ls_refs(&few).collect();
    assert_eq!(lines(&pieces.concat()).len(), 10_001);
}

#[test]
fn ls_refs_gives_what_is_asked_for_once() {
    let all = LsRefs {
        peel: true,
        symrefs: true,
        ..LsRefs::default()
    };
    assert_eq!(
        listed(example(), &all),
        [
            format!("{} HEAD symref-target:refs/heads/main\n", oid('2')),
            format!("{} refs/heads/dev\n", oid('1')),
            format!("{} refs/heads/main\n", oid('2')),
            format!("{} refs/tags/v1 peeled:{}\n", oid('3'), oid('2')),
            "|".to_owned(),
        ]
    );
    let some = LsRefs {
        prefixes: [
            "refs/heads/m",
            "refs/heads/main",
            "refs/heads/m",
            "refs/tags/",
            "x",
        ]
        .map(|prefix| prefix.as_bytes().to_vec())
        .to_vec(),
        ..LsRefs::default()
    };
    assert_eq!(
        listed(example(), &some),
        [
            format!("{} refs/heads/main\n", oid('2')),
            format!("{} refs/tags/v1\n", oid('3')),
            "|".to_owned(),
        ]
    );
}

#[test]
fn an_unborn_head_is_shown_to_those_who_ask() {
    let request = LsRefs {
        symrefs: true,
        unborn: true,
        ..LsRefs::default()
    };
    assert_eq!(
        listed(snapshot(&[]), &request),
        ["unborn HEAD symref-target:refs/heads/main\n", "|"]
    );
    assert_eq!(listed(snapshot(&[]), &LsRefs::default()), ["|"]);
}
