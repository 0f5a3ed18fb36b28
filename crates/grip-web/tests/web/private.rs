//! A private service (GRASP-08): members get in, strangers learn nothing.

use std::{collections::BTreeSet, sync::Arc};

use anyhow::{Context as _, Result, ensure};
use grip_nostr::PublicKey;
use grip_relay::{Access, Members};
use grip_testkit::{Author, Response, WorkTree, events::tag, http::request};
use grip_web::Private;
use serde_json::json;
use tokio::sync::watch;

use crate::support::Node;

/// A name that must not come out.
const NAME: &str = "xyzzy-tides";

struct Service {
    node: Node,
    member: Author,
    stranger: Author,
    members: watch::Sender<Arc<BTreeSet<PublicKey>>>,
}

impl Service {
    /// A node that hosts a repository, an issue and a held state, and is private from then on.
    async fn start() -> Result<Self> {
        let node = Node::start_indexed(None).await?;
        let (member, stranger) = (Author::new(), Author::new());
        let tree = WorkTree::with_commit()?;
        node.host(&member, NAME, &tree).await?;
        let issue = member.issue(&member, NAME, NAME);
        node.relay().await?.publish_ok(&issue).await?;
        node.wait_for_data(&member, "xyzzy-held").await?;
        let keys = BTreeSet::from([member.pubkey()]);
        let service = Self {
            members: watch::Sender::new(Arc::new(keys)),
            node,
            member,
            stranger,
        };
        let access = Access {
            service: grip_types::Service::parse(&service.node.authority())?,
            members: Members::new(&service.members),
        };
        service.node.change(|settings| {
            settings.node.grasps = vec![1, 8];
            settings.private = Some(Private {
                origin: format!("http://{}", service.node.addr),
                access,
            });
        });
        Ok(service)
    }

    fn root(&self, name: &str) -> String {
        self.member.clone_url(&self.node.authority(), name)
    }

    fn path(&self, name: &str, below: &str) -> String {
        format!("/{}/{name}.git{below}", self.member.npub())
    }

    async fn get_as(&self, author: &Author, path: &str, url: &str) -> Result<Response> {
        let authorization = author.authorization(url);
        let headers = [("authorization", authorization.as_str())];
        self.node.ask("GET", path, &headers, b"").await
    }
}

/// A response without what differs between any two.
fn comparable(response: &Response) -> String {
    let mut headers = response.headers.clone();
    headers.remove("date");
    format!("{} {headers:?} {:?}", response.status, response.text())
}

/// Every row of the table of routes: methods and path.
fn rows() -> Result<Vec<(String, String)>> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/routes.md");
    let text = std::fs::read_to_string(file)?;
    let row = |line: &str| {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let (methods, path) = (cells.next()?, cells.next()?);
        let path = path.strip_prefix('`')?.strip_suffix('`')?;
        Some((methods.to_owned(), path.to_owned()))
    };
    let rows: Vec<_> = text.lines().filter_map(row).collect();
    ensure!(rows.len() > 50, "the table has {} rows", rows.len());
    Ok(rows)
}

/// G08-3, G08-10: over all routes of the table, those that are there and those that are not.
#[tokio::test]
async fn a_stranger_who_walks_all_routes_learns_nothing() -> Result<()> {
    let service = Service::start().await?;
    let npub = service.member.npub();
    let refusal = service.node.get("/nowhere").await?;
    ensure!(
        refusal.status == 401 && refusal.body.is_empty(),
        "{refusal:?}"
    );
    let expected = comparable(&refusal);
    let (mut walked, mut refused) = (0, 0);
    for (methods, pattern) in rows()? {
        for name in [NAME, "xyzzy-held", "nothing-of-the-kind"] {
            let path = pattern
                .replace("<npub>", &npub)
                .replace("<identifier>", name)
                .replace("<path…>", "main")
                .replace("<subject…>", &format!("{npub}/{name}"))
                .replace("<key…>", &format!("name:{npub}/{name}"))
                .replace(['<', '>', '…'], "");
            for method in methods.split(", ") {
                for (accept, authorization) in [
                    ("*/*", None),
                    ("text/html", None),
                    (
                        "application/json",
                        Some(service.stranger.authorization(&service.root(name))),
                    ),
                    (
                        "*/*",
                        Some("Bearer 00000000000000000000000000000000".to_owned()),
                    ),
                ] {
                    let mut headers = vec![("accept", accept)];
                    headers.extend(authorization.as_deref().map(|it| ("authorization", it)));
                    let answer = service.node.ask(method, &path, &headers, b"").await?;
                    let shown = format!("{method} {path}: {answer:?}");
                    walked += 1;
                    ensure!(!answer.contains("xyzzy"), "{shown}");
                    let is_public = PUBLIC.contains(&pattern.as_str());
                    if is_public {
                        continue;
                    }
                    refused += 1;
                    ensure!(
                        comparable(&answer) == expected || method == "HEAD",
                        "{shown}"
                    );
                    ensure!(answer.status == 401, "{shown}");
                }
            }
        }
    }
    println!("{walked} requests, {refused} refused with the same bytes");
    Ok(())
}

/// G08-10: nor by methods that nobody has, spellings of paths or headers that change how one is read.
#[tokio::test]
async fn no_odd_request_tells_a_stranger_more() -> Result<()> {
    let service = Service::start().await?;
    let npub = service.member.npub();
    let expected = comparable(&service.node.get("/nowhere").await?);
    let upper = npub.to_uppercase();
    let encoded = npub.replacen('n', "%6E", 1);
    let methods = "GET POST PUT PATCH DELETE TRACE PROPFIND REPORT MERGE X";
    let upgrade: &[_] = &[
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    let headers: [&[(&str, &str)]; 8] = [
        &[],
        upgrade,
        &[("host", "localhost"), ("x-forwarded-host", "localhost")],
        &[("x-forwarded-for", "127.0.0.1"), ("x-real-ip", "127.0.0.1")],
        &[("if-none-match", "*"), ("range", "bytes=0-1")],
        &[("accept", "text/event-stream"), ("last-event-id", "1")],
        &[("x-http-method-override", "OPTIONS"), ("te", "trailers")],
        &[("authorization", "Basic eDo="), ("cookie", "session=1")],
    ];
    let mut refused = 0;
    for name in [NAME, "xyzzy-held", "nothing-of-the-kind"] {
        let first = name.replacen(|_: char| true, &format!("%{:02X}", name.as_bytes()[0]), 1);
        for path in [
            format!("/{npub}/{name}"),
            format!("//{npub}//{name}.git//"),
            format!("/{npub}/{first}.git/info/refs?service=git-upload-pack"),
            format!("/{upper}/{name}.git/info/refs?service=git-upload-pack"),
            format!("/{encoded}/{name}.git/info/refs?service=git-upload-pack"),
            format!("/{npub}/{name}.git%2Finfo%2Frefs?service=git-upload-pack"),
            format!("/{npub}/{name}.git/info/refs?service=git-receive-pack&a=%00"),
            format!("/{npub}/{name}.git;x=y/HEAD"),
            format!("/{npub}/{name}.git/../{name}.git/log.atom"),
            format!("/style.css/../{npub}/{name}.git"),
            format!("/healthz/{npub}/{name}.git"),
            format!("/live/repository?of={npub}/{name}"),
            format!("/live/{npub}%2F{name}"),
            format!("/prs/{npub}/{name}.git/info/refs?service=git-upload-pack"),
            format!("/go/{npub}/{name}/@v/list"),
            format!("/api/v1/openapi.json?{name}"),
            format!("/{npub}/{}.git", name.repeat(300)),
        ] {
            let by_method = methods.split(' ').map(|method| (method, headers[0]));
            let by_headers = headers.into_iter().map(|headers| ("GET", headers));
            for (method, headers) in by_method.chain(by_headers) {
                let answer = service.node.ask(method, &path, headers, b"").await?;
                let shown = format!("{method} {path} {headers:?}: {answer:?}");
                ensure!(comparable(&answer) == expected, "{shown}");
                refused += 1;
            }
        }
    }
    println!("{refused} refused with the same bytes");
    Ok(())
}

const PUBLIC: [&str; 9] = [
    "/",
    "/healthz",
    "/readyz",
    "/.well-known/nostr.json",
    "/style.css",
    "/script.js",
    "/icon.svg",
    "/icon.png",
    "/favicon.ico",
];

/// G08-3, G08-1
#[tokio::test]
async fn what_is_public_tells_how_to_get_in_and_nothing_of_what_is_there() -> Result<()> {
    let service = Service::start().await?;
    let page = service
        .node
        .ask("GET", "/", &[("accept", "text/html")], b"")
        .await?;
    page.must_be(200, &["A private service"]);
    ensure!(!page.contains("xyzzy") && !page.contains("events served"));
    let accept = [("accept", "application/nostr+json")];
    let about = service.node.ask("GET", "/", &accept, b"").await?.json()?;
    ensure!(
        about["supported_grasps"] == json!(["GRASP-01", "GRASP-08"]),
        "{about}"
    );
    let nips = about["supported_nips"].as_array().context("a list")?;
    ensure!(
        nips.contains(&json!(42)) && nips.contains(&json!(98)),
        "{about}"
    );
    ensure!(about["limitation"]["auth_required"] == true, "{about}");
    let options = service.node.ask("OPTIONS", "/x/y", &[], b"").await?;
    ensure!(options.status == 204);
    let refusal = service.node.get("/sync").await?;
    let offered = refusal.header("www-authenticate");
    ensure!(offered.contains("realm="), "{refusal:?}");
    ensure!(refusal.header("access-control-expose-headers") == "WWW-Authenticate");
    ensure!(refusal.header("access-control-allow-origin") == "*");
    Ok(())
}

/// G08-7, G08-9, G08-11
#[tokio::test]
async fn a_member_reads_git_pages_and_the_api_with_a_proof() -> Result<()> {
    let service = Service::start().await?;
    let (root, member) = (service.root(NAME), &service.member);
    let refs = service.path(NAME, "/info/refs?service=git-upload-pack");
    service
        .get_as(member, &refs, &root)
        .await?
        .must_be(200, &["refs/heads/main"]);
    let page = service.path(NAME, "/tree/main/");
    let page = service.get_as(member, &page, &root).await?;
    page.must_be(200, &[NAME]);
    ensure!(
        page.header("cache-control") == "private, no-store",
        "{page:?}"
    );
    let url = format!("http://{}/api/v1/purgatory", service.node.addr);
    let held = service.get_as(member, "/api/v1/purgatory", &url).await?;
    held.must_be(200, &["xyzzy-held"]);
    // Unknown is unknown to a member.
    let missing = service.path("missing", "/info/refs?service=git-upload-pack");
    let answer = service
        .get_as(member, &missing, &service.root("missing"))
        .await?;
    answer.must_be(404, &[]);
    // The operator's tools work on the machine itself.
    service
        .node
        .order("GET", "/api/v1/purgatory", &[])
        .await?
        .must_be(200, &[]);
    service
        .node
        .order("GET", "/metrics", &[])
        .await?
        .must_be(200, &[]);
    Ok(())
}

/// G08-10, G08-21: of another repository, host or key, or struck off.
#[tokio::test]
async fn a_proof_of_a_foreign_key_or_for_another_repository_is_refused() -> Result<()> {
    let service = Service::start().await?;
    let refs = service.path(NAME, "/info/refs?service=git-upload-pack");
    let root = service.root(NAME);
    let (member, stranger) = (&service.member, &service.stranger);
    for (author, url) in [
        (stranger, root.clone()),
        (member, service.root("other")),
        (member, format!("{root}/")),
        (member, root.replace("127.0.0.1", "localhost")),
        (member, root.replace("http://", "https://")),
    ] {
        let answer = service.get_as(author, &refs, &url).await?;
        ensure!(
            answer.status == 401 && answer.body.is_empty(),
            "{url}: {answer:?}"
        );
    }
    service
        .get_as(member, &refs, &root)
        .await?
        .must_be(200, &[]);
    service.members.send_replace(Arc::default());
    let answer = service.get_as(member, &refs, &root).await?;
    ensure!(answer.status == 401, "{answer:?}");
    Ok(())
}

/// G08-21: parts of pages that keep up with the node, too.
#[tokio::test]
async fn a_stream_ends_when_its_reader_is_struck_off() -> Result<()> {
    let service = Service::start().await?;
    let (path, other) = ("/live/purgatory", Author::new());
    let url = format!("http://{}{path}", service.node.addr);
    let keys = [&service.member, &other].map(Author::pubkey);
    service.members.send_replace(Arc::new(keys.into()));
    let mut streams = Vec::new();
    for author in [&service.member, &other] {
        let mut stream = service.node.open().await?;
        let proof = author.authorization(&url);
        let headers = [("authorization", proof.as_str())];
        stream.send(&request("GET", path, &headers, b"")).await?;
        stream.until_text("xyzzy-held").await?;
        streams.push(stream);
    }
    service.members.send_replace(Arc::new([keys[1]].into()));
    let rest = streams[0].until_text("0\r\n\r\n").await?;
    // Who is a member as before reads on.
    let mut relay = service.node.relay().await?;
    let url = format!("ws://{}", service.node.addr);
    ensure!(relay.log_in(&other, &url).await?.accepted);
    let authority = service.node.authority();
    relay
        .publish_ok(&other.announcement(&authority, "xyzzy-later", vec![]))
        .await?;
    streams[1].until_text("xyzzy-later").await?;
    ensure!(!rest.contains("xyzzy-later"), "{rest}");
    Ok(())
}

/// G08-10: decided before the body is read, so an upload of any length is refused at once.
#[tokio::test]
async fn a_push_without_a_proof_is_refused_before_its_body_comes() -> Result<()> {
    let service = Service::start().await?;
    let mut connection = service.node.open().await?;
    let path = service.path(NAME, "/git-receive-pack");
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000000\r\n\
         content-type: application/x-git-receive-pack-request\r\n\r\n"
    );
    connection.send(head.as_bytes()).await?;
    ensure!(connection.response().await?.status == 401);
    Ok(())
}

/// G08-4, G08-12: the relay asks for a proof, and only members announce.
#[tokio::test]
async fn the_relay_lets_members_in_and_strangers_not() -> Result<()> {
    let service = Service::start().await?;
    let url = format!("ws://{}", service.node.addr);
    let mut relay = service.node.relay().await?;
    let answer = relay.log_in(&service.stranger, &url).await?;
    ensure!(!answer.accepted && answer.message.starts_with("restricted:"));
    let mut relay = service.node.relay().await?;
    ensure!(relay.log_in(&service.member, &url).await?.accepted);
    let found = relay.query(&[json!({"kinds": [30617]})]).await?;
    ensure!(found.len() == 1, "{found:?}");
    let note = service
        .member
        .sign(1, "", vec![tag(["a", &service.member.coordinate(NAME)])]);
    relay.publish_ok(&note).await?;
    Ok(())
}

/// G08-4: every verb, about what is there and what is not.
#[tokio::test]
async fn the_relay_answers_a_stranger_the_same_whatever_is_there() -> Result<()> {
    let service = Service::start().await?;
    let stranger = &service.stranger;
    let about = |name: &str| {
        let coordinate = service.member.coordinate(name);
        let issue = stranger.issue(&service.member, name, "hello");
        vec![
            json!(["REQ", "s", { "#a": [coordinate] }]),
            json!(["COUNT", "s", { "#a": [coordinate] }]),
            json!(["NEG-OPEN", "s", { "#a": [coordinate] }, "6100"]),
            json!(["NEG-MSG", "s", "6100"]),
            json!(["CLOSE", "s"]),
            json!(["EVENT", issue]),
            json!([
                "EVENT",
                service.member.announcement("git.example", name, vec![])
            ]),
            json!(["AUTH", issue]),
        ]
    };
    let mut answers = Vec::new();
    for name in [NAME, "xyzzy-held", "nothing-of-the-kind"] {
        let mut relay = service.node.relay().await?;
        let mut said = Vec::new();
        for message in about(name) {
            let is_silent = message[0] == "CLOSE";
            relay.send(message).await?;
            if is_silent {
                continue;
            }
            let mut answer = relay.expect("an answer", |it| it[0] != "AUTH").await?;
            ensure!(!answer.to_string().contains("xyzzy"), "{answer}");
            if answer[0] == "OK" {
                // The id of what was sent.
                answer[1].take();
            }
            said.push(answer);
        }
        answers.push(said);
    }
    ensure!(
        answers[0] == answers[1] && answers[1] == answers[2],
        "{answers:#?}"
    );
    Ok(())
}

/// G08-10: in pairs that are asked at the same moment, either is the quicker one as often as not.
#[tokio::test]
async fn the_time_of_a_refusal_does_not_tell_what_is_there() -> Result<()> {
    const PAIRS: usize = 300;
    let service = Service::start().await?;
    let mut connections = [service.node.open().await?, service.node.open().await?];
    let names = [NAME, "nothing-of-them"];
    let requests = names.map(|name| {
        let path = service.path(name, "/info/refs?service=git-upload-pack");
        let proof = service.stranger.authorization(&service.root(name));
        format!("GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: {proof}\r\n\r\n")
    });
    let mut slower = 0;
    for pair in 0..PAIRS {
        let mut times = [std::time::Duration::ZERO; 2];
        // Each is the first one as often as the other.
        for at in [pair % 2, 1 - pair % 2] {
            let began = tokio::time::Instant::now();
            connections[at].send(requests[at].as_bytes()).await?;
            let answer = connections[at].response().await?;
            times[at] = began.elapsed();
            ensure!(answer.status == 401, "{answer:?}");
        }
        slower += usize::from(times[0] > times[1]);
    }
    // Five standard deviations of a fair coin.
    let (low, high) = (PAIRS * 35 / 100, PAIRS * 65 / 100);
    ensure!(
        (low..high).contains(&slower),
        "what is there took longer {slower} of {PAIRS} times"
    );
    Ok(())
}
