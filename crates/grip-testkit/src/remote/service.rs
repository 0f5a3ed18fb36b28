//! Takes requests, notes them, and answers as the script says.

use std::sync::Arc;

use anyhow::Result;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::{Request, Response, body::Incoming};
use tokio::time::Instant;

use super::{
    Behaviour, Seen, Shared, Status,
    backend::{self, Call, Reply},
    bodies::{self, Body},
    packs,
    record::UnderWay,
};

const RESULT: &str = "application/x-git-upload-pack-result";

pub(super) async fn respond(request: Request<Incoming>, shared: Arc<Shared>) -> Response<Body> {
    let (repository, action) = split(request.uri().path());
    let under_way = shared.record.arrived(|in_flight| Seen {
        at: Instant::now(),
        method: request.method().to_string(),
        repository: repository.to_owned(),
        action: action.to_owned(),
        headers: request.headers().clone(),
        command: None,
        wants: Vec::new(),
        in_flight,
    });
    let action = action.to_owned();
    let behaviour = shared.scripts.next(repository);
    let (parts, body) = request.into_parts();
    let Ok(body) = body.collect().await else {
        return short(400, &[], "the request broke off");
    };
    let call = Call {
        method: parts.method,
        uri: parts.uri,
        headers: parts.headers,
        body: body.to_bytes(),
    };
    let asked = PacketRequest::read(&call.body);
    let is_fetch = action == "git-upload-pack" && asked.command.as_deref() != Some("ls-refs");
    under_way.update(|seen| {
        seen.command = asked.command;
        seen.wants = asked.wants;
    });
    match answer(&shared, &call, &action, behaviour, is_fetch, under_way).await {
        Ok(response) => response,
        Err(error) => short(500, &[], &format!("{error:#}")),
    }
}

async fn answer(
    shared: &Shared,
    call: &Call,
    action: &str,
    behaviour: Behaviour,
    is_fetch: bool,
    under_way: UnderWay,
) -> Result<Response<Body>> {
    let pack = |body| with(200, &[("content-type".into(), RESULT.into())], body);
    match behaviour {
        Behaviour::HangBeforeHeaders => std::future::pending().await,
        Behaviour::Status(Status { code, headers }) => {
            return Ok(short(code, &headers, "told to say so\n"));
        }
        Behaviour::Redirect { status, to } => {
            let query = call
                .uri
                .query()
                .map(|q| format!("?{q}"))
                .unwrap_or_default();
            let to = format!("{to}/{action}{query}");
            return Ok(short(status, &[("location".into(), to)], "elsewhere\n"));
        }
        Behaviour::Page => {
            let html = [("content-type".into(), "text/html".into())];
            return Ok(short(200, &html, "<!doctype html><title>Sign in</title>"));
        }
        Behaviour::Endless if is_fetch => {
            return Ok(pack(bodies::endless(shared.speaks, under_way)));
        }
        Behaviour::Pack(bytes) if is_fetch => {
            let framed = packs::framed(&bytes, shared.speaks, true);
            return Ok(pack(bodies::whole(framed, under_way)));
        }
        Behaviour::Hold(ref gate) => gate.pass().await,
        _ => {}
    }
    let reply = backend::ask(shared.root.path(), call, shared.speaks).await?;
    Ok(sent(reply, &behaviour, under_way))
}

/// Git's own answer, sent the way `behaviour` says.
fn sent(reply: Reply, behaviour: &Behaviour, under_way: UnderWay) -> Response<Body> {
    let bytes: Bytes = reply.body;
    let body = match *behaviour {
        Behaviour::HangAfter { bytes: after } => bodies::stalled(bytes, after, under_way),
        Behaviour::CloseAfter { bytes: after } => bodies::broken(bytes, after, under_way),
        Behaviour::Trickle {
            bytes: piece,
            every,
        } => bodies::trickle(bytes, piece, every, under_way),
        _ => bodies::whole(bytes, under_way),
    };
    with(reply.status, &reply.headers, body)
}

fn short(status: u16, headers: &[(String, String)], text: &str) -> Response<Body> {
    with(status, headers, bodies::text(text.to_owned()))
}

fn with(status: u16, headers: &[(String, String)], body: Body) -> Response<Body> {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(name, value);
    }
    response.body(body).expect("tests name valid headers")
}

/// Parts a path into the repository and what git adds to it.
fn split(path: &str) -> (&str, &str) {
    let path = path.trim_start_matches('/');
    let actions = ["info/refs", "git-upload-pack", "git-receive-pack"];
    let found = actions.into_iter().find_map(|action| {
        let repository = path.strip_suffix(action)?.strip_suffix('/')?;
        Some((repository, action))
    });
    // The files of a repository, as clients without the smart protocol ask for them.
    let file = || path.split_once(".git/").map(|(_, file)| file);
    found
        .or_else(|| file().map(|file| (&path[..path.len() - file.len() - 1], file)))
        .unwrap_or((path, ""))
}

/// What the packets of a request's body ask for.
struct PacketRequest {
    command: Option<String>,
    wants: Vec<String>,
}

impl PacketRequest {
    fn read(mut body: &[u8]) -> Self {
        let mut asked = Self {
            command: None,
            wants: Vec::new(),
        };
        while let Some((length, rest)) = body.split_at_checked(4) {
            let length = std::str::from_utf8(length).ok();
            let Some(length) = length.and_then(|hex| usize::from_str_radix(hex, 16).ok()) else {
                break;
            };
            // Flush and delimiter are lengths without data.
            let Some((line, after)) = rest.split_at_checked(length.saturating_sub(4)) else {
                break;
            };
            let line = String::from_utf8_lossy(line);
            if let Some(command) = line.strip_prefix("command=") {
                asked.command = Some(command.trim().to_owned());
            }
            if let Some(want) = line.strip_prefix("want ") {
                let oid = want.split_whitespace().next().unwrap_or_default();
                asked.wants.push(oid.to_owned());
            }
            body = after;
        }
        asked
    }
}
