//! `git http-backend`, called the way a web server calls it.

use std::{path::Path, process::Stdio};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use hyper::{HeaderMap, Method, Uri, header};
use tokio::{io::AsyncWriteExt as _, process::Command};

use crate::git;

/// Which versions of git's protocol a host understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// Whatever this git speaks.
    V2,
    /// The oldest alone, serving nothing but what its refs point to.
    V0,
}

/// A request, read to its end.
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Call {
    fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.and_then(|v| v.to_str().ok()).unwrap_or_default()
    }
}

/// What git wants to be answered.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
}

pub(crate) async fn ask(root: &Path, call: &Call, speaks: Speaks) -> Result<Reply> {
    let mut command = Command::from(git::command(root, ["http-backend"]));
    command
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", call.uri.path())
        .env("QUERY_STRING", call.uri.query().unwrap_or_default())
        .env("REQUEST_METHOD", call.method.as_str())
        .env("CONTENT_TYPE", call.header(header::CONTENT_TYPE.as_str()))
        .env("CONTENT_LENGTH", call.body.len().to_string())
        .env(
            "HTTP_CONTENT_ENCODING",
            call.header(header::CONTENT_ENCODING.as_str()),
        )
        .env("REMOTE_ADDR", "127.0.0.1");
    if speaks == Speaks::V2 {
        command.env("GIT_PROTOCOL", call.header("git-protocol"));
    }
    let output = run(command, &call.body).await?;
    parse(&output)
}

async fn run(mut command: Command, input: &[u8]) -> Result<Vec<u8>> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let mut stdin = child.stdin.take().context("a pipe was asked for")?;
    let writing = async move {
        // Git may refuse a request before it has read all of it.
        let _ = stdin.write_all(input).await;
    };
    let ((), output) = tokio::join!(writing, child.wait_with_output());
    Ok(output?.stdout)
}

fn parse(output: &[u8]) -> Result<Reply> {
    let end = output.windows(4).position(|four| four == b"\r\n\r\n");
    let end = end.context("git http-backend sent no headers")?;
    let mut reply = Reply {
        status: 200,
        headers: Vec::new(),
        body: Bytes::copy_from_slice(&output[end + 4..]),
    };
    for line in std::str::from_utf8(&output[..end])?.lines() {
        let (name, value) = line.split_once(": ").context("a header line")?;
        if name.eq_ignore_ascii_case("status") {
            reply.status = value.get(..3).context("a status")?.parse()?;
        } else {
            reply.headers.push((name.to_owned(), value.to_owned()));
        }
    }
    Ok(reply)
}
