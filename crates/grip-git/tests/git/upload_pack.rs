//! Fetches served by `git upload-pack`.

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use grip_git::{
    Caps, FetchOutcome, GitService, MoveRecord, NamedTips, Payer, Protocol,
    pktline::{self, Packet},
    upload_request::{self, Request},
};
use grip_types::{Oid, RefEdit, RepoAddr};

use crate::support::*;

fn v2(arguments: &[String]) -> Vec<u8> {
    let mut out = Vec::new();
    pktline::put(&mut out, b"command=fetch\n");
    pktline::put(&mut out, b"object-format=sha1\n");
    out.extend_from_slice(pktline::DELIM);
    for argument in arguments {
        pktline::put(&mut out, argument.as_bytes());
    }
    out.extend_from_slice(pktline::FLUSH);
    out
}

fn lines(arguments: &[&str]) -> Vec<String> {
    arguments.iter().map(|text| format!("{text}\n")).collect()
}

async fn fetch(sandbox: &Sandbox, repo: &RepoAddr, protocol: Protocol, body: Vec<u8>) -> Vec<u8> {
    let body = std::io::Cursor::new(body);
    let stream = sandbox
        .upload_pack(repo, protocol, Payer::Unknown, body)
        .unwrap();
    let chunks: Vec<bytes::Bytes> = stream.try_collect().await.unwrap();
    chunks.concat()
}

/// The pack in the side band of an answer, and the text lines before it.
fn unpack(answer: &[u8]) -> (Vec<String>, Vec<u8>) {
    let (mut at, mut said, mut pack) = (0, Vec::new(), Vec::new());
    while at < answer.len() {
        let (packet, len) = pktline::decode(&answer[at..]).unwrap().unwrap();
        at += len;
        match packet {
            Packet::Data([1, payload @ ..]) => pack.extend_from_slice(payload),
            Packet::Data([2, ..]) => {}
            Packet::Data(line) => said.push(String::from_utf8_lossy(line).into_owned()),
            _ => {}
        }
    }
    (said, pack)
}

/// Puts a pack into a fresh repository and says which objects it brought.
fn objects_in(pack: &[u8]) -> Vec<String> {
    let dir = tempfile::TempDir::new().unwrap();
    git(dir.path(), &["init", "--quiet", "--bare"]);
    let (said, complaint) = try_git(dir.path(), &["index-pack", "--stdin"], pack);
    assert!(said.is_some(), "{complaint}");
    let format = "--batch-check=%(objecttype)";
    let listed = git(dir.path(), &["cat-file", "--batch-all-objects", format]);
    listed.lines().map(str::to_owned).collect()
}

fn count(objects: &[String], kind: &str) -> usize {
    objects.iter().filter(|found| *found == kind).count()
}

#[tokio::test]
async fn a_clone_in_version_two_brings_everything() {
    let work = Work::example();
    let (sandbox, repo) = Sandbox::published(&work).await;
    let mut arguments = lines(&["ofs-delta", "no-progress", "done"]);
    for (_, oid) in work.refs() {
        arguments.insert(0, format!("want {oid}\n"));
    }
    let (said, pack) = unpack(&fetch(&sandbox, &repo, Protocol::V2, v2(&arguments)).await);
    assert_eq!(said, ["packfile\n"]);
    let objects = objects_in(&pack);
    assert_eq!((count(&objects, "commit"), count(&objects, "tag")), (3, 2));
}

#[tokio::test]
async fn a_clone_in_versions_zero_and_one_is_read_from_the_advertisement() {
    let work = Work::example();
    let (sandbox, repo) = Sandbox::published(&work).await;
    for protocol in [Protocol::V0, Protocol::V1] {
        let refs = sandbox.refs(&repo).unwrap();
        let shown = refs.advertisement(GitService::UploadPack, protocol);
        assert!(!shown.is_empty());
        let mut body = Vec::new();
        let caps =
            "multi_ack_detailed no-done side-band-64k thin-pack ofs-delta object-format=sha1";
        pktline::put(
            &mut body,
            format!("want {} {caps}\n", work.oid("main")).as_bytes(),
        );
        body.extend_from_slice(pktline::FLUSH);
        pktline::put(&mut body, b"done\n");
        let (said, pack) = unpack(&fetch(&sandbox, &repo, protocol, body).await);
        assert_eq!(said, ["NAK\n"]);
        assert_eq!(count(&objects_in(&pack), "commit"), 3);
    }
}

#[tokio::test]
async fn a_browser_may_ask_for_one_commit_without_blobs_and_for_single_objects() {
    let work = Work::example();
    let (sandbox, repo) = Sandbox::published(&work).await;
    let mut body = Vec::new();
    let want = format!("want {} side-band-64k shallow filter\n", work.oid("main"));
    pktline::put(&mut body, want.as_bytes());
    pktline::put(&mut body, b"deepen 1\n");
    pktline::put(&mut body, b"filter blob:none\n");
    body.extend_from_slice(pktline::FLUSH);
    pktline::put(&mut body, b"done\n");
    let (said, pack) = unpack(&fetch(&sandbox, &repo, Protocol::V0, body).await);
    assert_eq!(said[0], format!("shallow {}", work.oid("main")));
    let objects = objects_in(&pack);
    assert_eq!((count(&objects, "commit"), count(&objects, "blob")), (1, 0));
    let blob = work.oid("main:a.txt");
    for (protocol, body) in [
        (Protocol::V2, v2(&lines(&[&format!("want {blob}"), "done"]))),
        (Protocol::V0, {
            let mut body = Vec::new();
            pktline::put(&mut body, format!("want {blob} side-band-64k\n").as_bytes());
            body.extend_from_slice(pktline::FLUSH);
            pktline::put(&mut body, b"done\n");
            body
        }),
    ] {
        let (_, pack) = unpack(&fetch(&sandbox, &repo, protocol, body).await);
        assert_eq!(objects_in(&pack), ["blob"]);
    }
}

#[tokio::test]
async fn an_object_that_is_not_here_is_an_error_that_clients_show() {
    let (sandbox, repo) = Sandbox::published(&Work::example()).await;
    let want = format!("want {}", "ab".repeat(20));
    let answer = fetch(&sandbox, &repo, Protocol::V2, v2(&lines(&[&want, "done"]))).await;
    let (said, pack) = unpack(&answer);
    assert!(
        said[0].starts_with("ERR ") && said[0].contains("not our ref"),
        "{said:?}"
    );
    assert!(pack.is_empty());
    let answer = fetch(&sandbox, &repo, Protocol::V2, b"nonsense".to_vec()).await;
    assert!(unpack(&answer).0[0].starts_with("ERR "));
}

/// The refusal is in the answer, and who sends the answer has to hear of it.
#[tokio::test]
async fn a_fetch_that_git_ends_with_an_error_is_known_as_failed() {
    let work = Work::example();
    let (sandbox, repo) = Sandbox::published(&work).await;
    let has_failed = async |want: String| {
        let body = std::io::Cursor::new(v2(&lines(&[&want, "done"])));
        let outcome = FetchOutcome::default();
        let (payer, noted) = (Payer::Unknown, outcome.clone());
        let answer =
            sandbox.upload_pack_or_make_room(&repo, Protocol::V2, payer, body, None, noted);
        let chunks: Vec<bytes::Bytes> = answer.unwrap().try_collect().await.unwrap();
        assert!(!chunks.concat().is_empty());
        outcome.has_failed()
    };
    let tip = format!("want {}", work.oid("main"));
    assert!(!has_failed(tip.clone()).await);
    assert!(has_failed(format!("want {}", "ab".repeat(20))).await);
    let packs = sandbox.store(&repo.identifier).join("objects/pack");
    for name in names_in(&packs) {
        std::fs::remove_file(packs.join(name)).unwrap();
    }
    assert!(has_failed(tip).await);
}

#[tokio::test]
async fn fifty_thousand_haves_are_answered() {
    let work = Work::example();
    let (sandbox, repo) = Sandbox::published(&work).await;
    let mut body = Vec::new();
    let caps = "multi_ack_detailed side-band-64k";
    pktline::put(
        &mut body,
        format!("want {} {caps}\n", work.oid("main")).as_bytes(),
    );
    body.extend_from_slice(pktline::FLUSH);
    let dev = work.oid("dev");
    // Each is known here, so that git answers each at once.
    for _ in 0..50_000 {
        pktline::put(&mut body, format!("have {dev}\n").as_bytes());
    }
    pktline::put(&mut body, b"done\n");
    let answer = tokio::time::timeout(
        Duration::from_secs(60),
        fetch(&sandbox, &repo, Protocol::V0, body),
    );
    let (said, pack) = unpack(&answer.await.expect("an answer in time"));
    assert!(said.len() >= 50_000);
    assert_eq!(&pack[..4], b"PACK");
    sandbox.assert_quarantine_is_empty();
}

#[tokio::test]
async fn a_request_over_the_limit_is_refused_in_words() {
    let sandbox = Sandbox::with(|options| options.max_request_bytes = 100_000);
    let repo = repo(ALICE, "project");
    sandbox.create(&repo).unwrap();
    let answer = fetch(&sandbox, &repo, Protocol::V2, vec![b'0'; 200_000]).await;
    assert!(unpack(&answer).0[0].starts_with("ERR the request exceeds 100000 bytes"));
    sandbox.assert_quarantine_is_empty();
}

#[tokio::test]
async fn a_long_request_is_not_kept_on_a_full_disk_and_a_short_one_needs_none() {
    let work = Work::example();
    let (mut sandbox, repo) = Sandbox::published(&work).await;
    sandbox.reopen_with(|options| options.stranger_min_free_bytes = u64::MAX);
    let answer = fetch(&sandbox, &repo, Protocol::V2, vec![b'0'; 200_000]).await;
    // Clones go on below the floor of strangers; this one is of zeros, and git has nothing to say to it.
    assert!(unpack(&answer).0.is_empty());
    sandbox.reopen_with(|options| options.min_free_bytes = u64::MAX);
    let answer = fetch(&sandbox, &repo, Protocol::V2, vec![b'0'; 200_000]).await;
    assert!(unpack(&answer).0[0].starts_with("ERR the disk of this server is full"));
    let short = v2(&lines(&[&format!("want {}", work.oid("main")), "done"]));
    let answer = fetch(&sandbox, &repo, Protocol::V2, short).await;
    assert!(!unpack(&answer).1.is_empty());
    sandbox.assert_quarantine_is_empty();
}

#[tokio::test]
async fn a_client_that_stops_in_mid_request_is_given_up() {
    let sandbox = Sandbox::with(|options| options.stall = Duration::from_millis(50));
    let repo = repo(ALICE, "project");
    sandbox.create(&repo).unwrap();
    let (_client, body) = tokio::io::duplex(64);
    let mut stream = sandbox
        .upload_pack(&repo, Protocol::V2, Payer::Unknown, body)
        .unwrap();
    let answer = stream.next().await.unwrap().unwrap();
    assert!(answer[4..].starts_with(b"ERR the request stopped arriving"));
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn an_unknown_repository_is_said_at_once() {
    let sandbox = Sandbox::new();
    let body = std::io::Cursor::new(Vec::new());
    let result = sandbox.upload_pack(&repo(ALICE, "x"), Protocol::V2, Payer::Unknown, body);
    assert!(result.is_err());
}

/// A git whose `upload-pack` notes its process and that of a child, and then does nothing.
fn stuck_git(dir: &std::path::Path) -> std::path::PathBuf {
    let text = format!(
        "case \"$*\" in *upload-pack*) sleep 600 & echo $$ $! > {0}/pids.new; \
         mv {0}/pids.new {0}/pids; wait;; esac",
        dir.display()
    );
    script(dir, &text)
}

fn is_running(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit(") ")
        .next()
        .and_then(|rest| rest.chars().next());
    state.is_some_and(|state| state != 'Z')
}

#[tokio::test]
async fn dropping_the_answer_ends_git_and_its_children() {
    let tools = tempfile::TempDir::new().unwrap();
    let sandbox = Sandbox::with(|options| options.git = stuck_git(tools.path()));
    let repo = repo(ALICE, "project");
    sandbox.create(&repo).unwrap();
    let body = std::io::Cursor::new(b"0000".to_vec());
    let mut stream = sandbox
        .upload_pack(&repo, Protocol::V2, Payer::Unknown, body)
        .unwrap();
    let pids = tools.path().join("pids");
    tokio::select! {
        _ = stream.next() => panic!("a stuck git answers nothing"),
        () = eventually("git has started", || pids.exists()) => {}
    }
    let pids = std::fs::read_to_string(pids).unwrap();
    let pids: Vec<&str> = pids.split_whitespace().collect();
    assert!(pids.len() == 2 && pids.iter().all(|pid| is_running(pid)));
    drop(stream);
    eventually("both are gone", || !pids.iter().any(|pid| is_running(pid))).await;
}

#[tokio::test]
async fn a_git_that_says_nothing_is_ended() {
    let tools = tempfile::TempDir::new().unwrap();
    let sandbox = Sandbox::with(|options| {
        options.git = stuck_git(tools.path());
        options.upload_idle = Duration::from_millis(300);
    });
    let repo = repo(ALICE, "project");
    sandbox.create(&repo).unwrap();
    let body = std::io::Cursor::new(b"0000".to_vec());
    let mut stream = sandbox
        .upload_pack(&repo, Protocol::V2, Payer::Unknown, body)
        .unwrap();
    assert!(stream.next().await.unwrap().is_err());
}

#[tokio::test]
async fn the_head_of_a_request_and_its_rest_make_the_whole() {
    let work = Work::example();
    let (sandbox, repo) = Sandbox::published(&work).await;
    let body = v2(&lines(&[&format!("want {}", work.oid("main")), "done"]));
    let mut reader = &body[..];
    let request = upload_request::read(&mut reader, Duration::from_secs(1))
        .await
        .unwrap();
    let Request::Fetch(head) = request else {
        panic!("{request:?}");
    };
    let whole = tokio::io::AsyncReadExt::chain(
        std::io::Cursor::new(head),
        std::io::Cursor::new(reader.to_vec()),
    );
    let stream = sandbox
        .upload_pack(&repo, Protocol::V2, Payer::Unknown, whole)
        .unwrap();
    let chunks: Vec<bytes::Bytes> = stream.try_collect().await.unwrap();
    let (_, pack) = unpack(&chunks.concat());
    assert_eq!(count(&objects_in(&pack), "commit"), 3);
}

/// G01-112: what is hidden is given out by no id, also beside a ref that is shown and in one pack with
/// it, and after a restart.
#[tokio::test]
async fn a_hidden_tip_of_a_contributor_is_not_given_out_by_its_id() {
    let work = Work::example();
    let (mut sandbox, hosted) = Sandbox::published(&work).await;
    let repo = RepoAddr::contributor(hosted.owner, hosted.identifier.clone());
    let (kept, taken) = (work.oid("HEAD~1"), work.oid("HEAD"));
    let names = ["ab", "cd"].map(|byte| format!("refs/nostr/{}", byte.repeat(32)));
    let pack = work.pack(&format!("{kept}\n{taken}\n"), &[]);
    let caps = Caps {
        max_pack_bytes: 1 << 30,
        stall: Duration::from_secs(60),
        payer: Payer::Unknown,
        progress: None,
        disk_user: grip_git::DiskUser::Maintainer,
    };
    let received = sandbox.receive_apart(&repo.identifier, &pack[..], caps);
    let split = received.await.unwrap().split(&[], &[kept, taken]).await;
    let tips = vec![(name(&names[0]), kept), (name(&names[1]), taken)];
    split
        .unwrap()
        .1
        .stage(&repo, tips, grip_git::Sender::default())
        .unwrap();
    let edits = [set(&names[0], kept), set(&names[1], taken)];
    sandbox.set(&repo, &edits).unwrap();

    let ids = ["HEAD", "HEAD^{tree}", "HEAD:dir/c.txt"].map(|it| work.oid(it).to_string());
    // A partial clone asks for these, one by one, when they are needed.
    let lacking = ["HEAD~1", "HEAD~1^{tree}", "HEAD~1:b.txt", "HEAD~2"];
    for (is_hidden, id) in [(false, &ids), (true, &ids), (false, &ids)] {
        if is_hidden {
            sandbox.hide_tip(&repo, &name(&names[1]), 7).unwrap();
            sandbox.reopen();
        } else {
            sandbox.show_tip(&repo, &name(&names[1])).unwrap();
        }
        for id in id {
            for (protocol, body) in wants(id) {
                let (said, pack) = unpack(&fetch(&sandbox, &repo, protocol, body).await);
                assert_eq!(pack.is_empty(), is_hidden, "{id}: {said:?}");
                assert_eq!(said.concat().contains("not our ref"), is_hidden, "{said:?}");
            }
        }
        for id in lacking.map(|it| work.oid(it).to_string()) {
            for (protocol, body) in wants(&id) {
                let (said, pack) = unpack(&fetch(&sandbox, &repo, protocol, body).await);
                assert!(!pack.is_empty(), "what is shown is served: {id}: {said:?}");
            }
        }
    }
}

/// A request for one object, by two versions of the protocol.
fn wants(id: &str) -> [(Protocol, Vec<u8>); 2] {
    let caps = "side-band-64k ofs-delta";
    let mut v0 = Vec::new();
    pktline::put(&mut v0, format!("want {id} {caps}\n").as_bytes());
    v0.extend_from_slice(pktline::FLUSH);
    pktline::put(&mut v0, b"done\n");
    let v2 = v2(&lines(&[&format!("want {id}"), "done"]));
    [(Protocol::V0, v0), (Protocol::V2, v2)]
}

/// G01-112: what only events out of service name is given out by no id, by no sibling either; what a shown
/// ref or a recorded move leads to is, no matter which event named it.
#[tokio::test]
async fn what_only_an_event_out_of_service_names_is_given_out_by_no_id() {
    let work = Work::example();
    let (sandbox, repo) = Sandbox::published(&work).await;
    let main = work.oid("HEAD");
    let former = work.commit("dir/d.txt", "four\n");
    work.git(&["checkout", "--quiet", "--detach", "HEAD~1"]);
    let proposal = work.commit("e.txt", "five\n");
    sandbox
        .promote(&repo, &work.pack(&format!("{former}\n{proposal}\n"), &[]))
        .await;
    // The former tip of an archived branch.
    for (at, old, new) in [(7, main, former), (8, former, main)] {
        let moved = MoveRecord {
            at,
            source: "rewrite".into(),
            keep_since: 0,
            keep_max: 100,
        };
        let edit = RefEdit {
            name: name("refs/heads/main"),
            old: Some(old),
            new: Some(new),
        };
        let recorded = sandbox.update_refs_recorded(&repo, &[edit], None, &moved);
        recorded.unwrap();
    }
    let is_given = async |oid: Oid| {
        let mut given = Vec::new();
        for (protocol, body) in wants(&oid.to_string()) {
            let (said, pack) = unpack(&fetch(&sandbox, &repo, protocol, body).await);
            assert_ne!(said.concat().contains("not our ref"), !pack.is_empty());
            given.push(!pack.is_empty());
        }
        assert_eq!(given[0], given[1], "by both protocols alike");
        given[0]
    };
    let of_proposal = ["HEAD", "HEAD^{tree}", "HEAD:e.txt"].map(|it| work.oid(it));
    let of_others = [main, former, work.oid("HEAD~1^{tree}"), work.oid("v1")];
    let withheld = sandbox.withheld_tips();
    for is_kept_back in [false, true, false] {
        if is_kept_back {
            withheld.add(NamedTips {
                identifier: repo.identifier.clone(),
                event: [7; 32],
                tips: vec![proposal, former, main, "ab".repeat(32).parse().unwrap()],
            });
        } else {
            withheld.remove(&[7; 32]);
        }
        for oid in of_proposal {
            assert_eq!(is_given(oid).await, !is_kept_back, "{oid}");
        }
        for oid in of_others {
            assert!(is_given(oid).await, "{oid}");
        }
    }
    // Where it is not known what is out of service, only what is shown is given out.
    withheld.withhold_unshown();
    for oid in of_proposal {
        assert!(!is_given(oid).await, "{oid}");
    }
    assert!(is_given(main).await && is_given(former).await);
}

/// Anybody may ask for objects by their ids: a history is walked once for all who do, and again once what is
/// withheld, what is shown or what is here has changed.
#[tokio::test]
async fn a_history_is_walked_once_for_all_who_ask_by_ids() {
    let tools = tempfile::TempDir::new().unwrap();
    let walks = tools.path().join("walks");
    std::fs::create_dir(&walks).unwrap();
    // A walk may not write a byte to any file.
    let text = format!(
        "case \"$*\" in *--no-object-names*) : > {}/$$ ;; esac",
        walks.display()
    );
    let program = script(tools.path(), &text);
    let work = Work::example();
    let (sandbox, repo) = (
        Sandbox::with(|options| options.git = program),
        repo(ALICE, "project"),
    );
    sandbox.create(&repo).unwrap();
    sandbox.publish(&repo, &work).await;
    let is_given = async |oid: Oid| {
        let [_, (protocol, body)] = wants(&oid.to_string());
        let (said, pack) = unpack(&fetch(&sandbox, &repo, protocol, body).await);
        let is_refused = said.concat().contains("not our ref");
        assert_ne!(is_refused, !pack.is_empty(), "{said:?}");
        !pack.is_empty()
    };
    let walked = || {
        let begun = names_in(&walks);
        for name in &begun {
            std::fs::remove_file(walks.join(name)).unwrap();
        }
        begun.len()
    };
    let withhold = |n: u8, tip: Oid| {
        sandbox.withheld_tips().add(NamedTips {
            identifier: repo.identifier.clone(),
            event: [n; 32],
            tips: vec![tip],
        });
    };
    let shown = work.oid("HEAD:a.txt");
    let proposal = work.commit("e.txt", "five\n");
    let next = work.commit("f.txt", "six\n");
    let secret = work.oid("HEAD~1:e.txt");
    sandbox
        .promote(&repo, &work.pack(&format!("{proposal}\n"), &[]))
        .await;
    withhold(7, proposal);
    walked();

    let all = (0..8).map(|n| is_given(if n % 2 == 0 { shown } else { secret }));
    let given = futures_util::future::join_all(all).await;
    assert_eq!(given, [true, false, true, false, true, false, true, false]);
    assert_eq!(walked(), 1, "for all of them");
    assert!(is_given(shown).await && !is_given(secret).await);
    assert_eq!(walked(), 0);

    withhold(8, next);
    assert!(is_given(shown).await && !is_given(secret).await);
    assert_eq!(walked(), 1, "more is withheld");
    sandbox
        .promote(&repo, &work.pack(&format!("{next}\n"), &[]))
        .await;
    walked();
    assert!(!is_given(work.oid("HEAD:f.txt")).await, "it has come since");
    assert_eq!(walked(), 1, "more is here");
    sandbox
        .set(&repo, &[set("refs/heads/next", proposal)])
        .unwrap();
    assert!(is_given(secret).await && !is_given(work.oid("HEAD:f.txt")).await);
    assert_eq!(walked(), 1, "more is shown");
}
