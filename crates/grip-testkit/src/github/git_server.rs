//! The git server of the host, which is not the API: repositories are cloned there.
//!
//! Answers are those of `git http-backend`. A repository that not everybody may see wants a token
//! as the password of `Basic`, and nothing counts against a budget.

use std::{process::Stdio, sync::Arc};

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use hyper::{HeaderMap, Response, header, http::request};
use tokio::time::Instant;

use super::{
    Behaviour, FakeGitHub, Seen, Shared,
    service::{Body, Reply, plain, sent},
};
use crate::{
    WorkTree, git,
    remote::{
        Speaks,
        backend::{self, Call},
        packs,
    },
};

const ACTIONS: [&str; 2] = [".git/git-upload-pack", ".git/info/refs"];

pub(super) fn is_for_git(path: &str) -> bool {
    ACTIONS.iter().any(|action| path.ends_with(action))
}

pub(super) async fn respond(
    shared: &Arc<Shared>,
    head: request::Parts,
    body: Bytes,
) -> Response<Body> {
    let path = head.uri.path().to_owned();
    let token = password(&head.headers).and_then(|token| shared.books().token(&token));
    let under_way = shared.record.arrived(|in_flight| Seen {
        at: Instant::now(),
        method: head.method.to_string(),
        path: path.clone(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        token,
        conditional: false,
        status: 0,
        in_flight,
    });
    let reply = answer(shared, head, body, &path, token).await;
    let reply = reply.unwrap_or_else(|error| plain(500, Vec::new(), &format!("{error:#}")));
    under_way.update(|seen| seen.status = reply.status);
    drop(under_way);
    sent(reply)
}

async fn answer(
    shared: &Shared,
    head: request::Parts,
    body: Bytes,
    path: &str,
    token: Option<usize>,
) -> Result<Reply> {
    match shared.scripts.next(path) {
        Behaviour::Hang => std::future::pending().await,
        Behaviour::Hold(gate) => gate.pass().await,
        Behaviour::Html => return Ok(plain(200, Vec::new(), "<!doctype html>")),
        Behaviour::Status {
            code,
            headers,
            body,
        }
        | Behaviour::Bare {
            code,
            headers,
            body,
        } => return Ok(plain(code, headers, &body)),
        Behaviour::Pack(pack) => {
            return Ok(Reply {
                status: 200,
                headers: Vec::new(),
                body: packs::framed(&pack, Speaks::V2, true),
                breaks_off: false,
            });
        }
        _ => {}
    }
    if let Some(refused) = refusal(shared, path, token) {
        return Ok(refused);
    }
    let call = Call {
        method: head.method,
        uri: head.uri,
        headers: head.headers,
        body,
    };
    let reply = backend::ask(shared.git_root.path(), &call, Speaks::V2).await?;
    Ok(Reply {
        status: reply.status,
        headers: reply.headers,
        body: reply.body,
        breaks_off: false,
    })
}

/// As GitHub does it: a request without a token is asked for one, and a token that may not see a
/// repository is told that there is none.
fn refusal(shared: &Shared, path: &str, token: Option<usize>) -> Option<Reply> {
    let name = path.trim_start_matches('/').split(".git/").next()?;
    let repositories = shared.repositories();
    let owner = name.split('/').next().unwrap_or_default();
    let found = repositories
        .id(name)
        .and_then(|id| repositories.repos.get(&id));
    match (found, token) {
        (Some(_), _) if repositories.denies(owner) => Some(plain(403, Vec::new(), "SSO")),
        (Some(held), None) if held.repo.is_hidden() => {
            let ask = ("www-authenticate".into(), "Basic realm=\"GitHub\"".into());
            Some(plain(401, vec![ask], "Repository not found."))
        }
        (Some(_), _) => None,
        (None, _) => Some(plain(404, Vec::new(), "Repository not found.")),
    }
}

fn password(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let decoded = STANDARD.decode(text.strip_prefix("Basic ")?).ok()?;
    let text = String::from_utf8(decoded).ok()?;
    text.split_once(':')
        .map(|(_, password)| password.to_owned())
}

pub(super) fn publish(github: &FakeGitHub, full_name: &str, tree: &WorkTree) -> Result<()> {
    let path = github.git_path(full_name);
    if !path.is_dir() {
        std::fs::create_dir_all(&path)?;
        let made = git::command(&path, ["init", "-q", "--bare", "-b", "main"]).output()?;
        ensure!(made.status.success(), "git init failed: {made:?}");
    }
    let to = path.to_str().context("paths are UTF-8")?;
    tree.git(["push", "-q", "--mirror", to])?;
    let listed = tree.git(["for-each-ref", "--format=%(refname:short)", "refs/tags"])?;
    for (gone, _) in github.tags(full_name) {
        if !listed.lines().any(|tag| tag == gone) {
            github.delete_tag(full_name, &gone);
        }
    }
    for tag in listed.lines() {
        let commit = tree.git(["rev-parse", &format!("{tag}^{{commit}}")])?;
        let commit = commit.trim();
        github.set_tag(full_name, tag, commit);
        let files = tree.git(["ls-tree", "-r", "--name-only", commit])?;
        for file in files
            .lines()
            .filter(|file| file.rsplit('/').next() == Some("go.mod"))
        {
            let text = tree.git(["show", &format!("{commit}:{file}")])?;
            github.put_file_at(full_name, commit, file, text);
        }
    }
    Ok(())
}

/// A pack of all that `tree` has, for [`Behaviour::Pack`].
pub fn pack_of(tree: &WorkTree) -> Result<Bytes> {
    let made = git::command(tree.path(), ["pack-objects", "-q", "--stdout", "--all"])
        .stdin(Stdio::null())
        .output()?;
    ensure!(made.status.success(), "git pack-objects failed: {made:?}");
    Ok(made.stdout.into())
}
