//! HTTP/1.1 over a plain socket, for clients that show every byte.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpSocket, TcpStream},
};

use crate::wait::within;

/// A response as it came, its chunks put together.
#[derive(Clone, Debug)]
pub struct Response {
    /// What was asked for, to be told where a test fails.
    asked: String,
    pub status: u16,
    /// By their names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Response {
    /// The value of a header; empty without one.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Result<Value> {
        serde_json::from_slice(&self.body).with_context(|| format!("no JSON: {}", self.text()))
    }

    /// Says whether `part` is in the body.
    pub fn contains(&self, part: &str) -> bool {
        self.text().contains(part)
    }

    /// Says whether the server closes the connection after it.
    pub fn is_last(&self) -> bool {
        self.header("connection") == "close"
    }

    /// Fails unless it lets pages of any origin read it (G01-59).
    #[track_caller]
    pub fn must_allow_any_origin(&self) -> &Self {
        assert_eq!(self.header("access-control-allow-origin"), "*", "{self:?}");
        let methods = self.header("access-control-allow-methods");
        must_contain(methods, &["GET", "POST"]);
        let headers = self.header("access-control-allow-headers");
        must_contain(
            &headers.to_ascii_lowercase(),
            &["content-type", "git-protocol"],
        );
        self
    }

    /// Fails unless it has this status and each of `parts` in its body.
    #[track_caller]
    pub fn must_be(&self, status: u16, parts: &[&str]) -> &Self {
        let text = self.text();
        assert_eq!(self.status, status, "{}: {text}", self.asked);
        must_contain(&text, parts);
        self
    }
}

/// Fails unless each of `parts` is in `text`.
#[track_caller]
pub fn must_contain(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

/// The bytes of a request, with the true length of its body.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    if !body.is_empty() || method == "POST" {
        head += &format!("content-length: {}\r\n", body.len());
    }
    [head.as_bytes(), b"\r\n", body].concat()
}

/// Connects to a port of this machine from one of its addresses.
pub(crate) async fn dial(from: Ipv4Addr, port: u16) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((from, 0)))?;
    let server = IpAddr::from(Ipv4Addr::LOCALHOST);
    let stream = socket.connect(SocketAddr::new(server, port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// One connection, which is kept for further requests.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<TcpStream>,
    asked: String,
    /// The response to come has no body, whatever its length says.
    is_head: bool,
}

impl Connection {
    pub async fn open(port: u16) -> io::Result<Self> {
        Self::open_from(Ipv4Addr::LOCALHOST, port).await
    }

    /// A connection from another address of this machine.
    pub async fn open_from(from: Ipv4Addr, port: u16) -> io::Result<Self> {
        Ok(Self {
            stream: BufReader::new(dial(from, port).await?),
            asked: String::new(),
            is_head: false,
        })
    }

    pub async fn get(&mut self, path: &str) -> Result<Response> {
        self.ask("GET", path, &[], b"").await
    }

    pub async fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Response> {
        self.send(&request(method, path, headers, body)).await?;
        self.asked = format!("{method} {path}");
        self.is_head = method == "HEAD";
        self.response().await
    }

    /// Sends bytes as they are.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.stream.get_mut().write_all(bytes).await?)
    }

    /// Waits until the first bytes of a response are here, and leaves them.
    pub async fn begun(&mut self) -> Result<()> {
        let bytes = within("a response begins", self.stream.fill_buf()).await??;
        ensure!(!bytes.is_empty(), "the connection was closed");
        Ok(())
    }

    /// The next response, whole; one that is cut is an error.
    pub async fn response(&mut self) -> Result<Response> {
        within("a response", self.read()).await?
    }

    /// All that comes until `text` has, of an answer that does not end.
    pub async fn until_text(&mut self, text: &str) -> Result<String> {
        let reading = async {
            let mut all = Vec::new();
            while !String::from_utf8_lossy(&all).contains(text) {
                let read = self.stream.read_buf(&mut all).await?;
                ensure!(read > 0, "the server closed before {text}");
            }
            Ok(String::from_utf8_lossy(&all).into_owned())
        };
        within(text, reading).await?
    }

    /// All that comes until the server closes; a reset is an end, too.
    pub async fn closed(&mut self) -> Result<Vec<u8>> {
        let mut rest = Vec::new();
        let _ = within("the server closes", self.stream.read_to_end(&mut rest)).await?;
        Ok(rest)
    }

    async fn read(&mut self) -> Result<Response> {
        let line = self.line().await?;
        let status = line.split(' ').nth(1).context("no status")?;
        let status: u16 = status.parse()?;
        let mut headers = BTreeMap::new();
        loop {
            let line = self.line().await?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').context("a header has a colon")?;
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let mut response = Response {
            asked: std::mem::take(&mut self.asked),
            status,
            headers,
            body: Vec::new(),
        };
        let has_body = !std::mem::take(&mut self.is_head) && !matches!(status, 101 | 204 | 304);
        let length = response.headers.get("content-length").filter(|_| has_body);
        if let Some(length) = length {
            let length = length.parse()?;
            self.exactly(length, &mut response.body).await?;
        } else if response.header("transfer-encoding") == "chunked" && has_body {
            self.chunks(&mut response.body).await?;
        } else if response.is_last() {
            // Whatever comes until the end, also where nothing should.
            self.stream.read_to_end(&mut response.body).await?;
        }
        Ok(response)
    }

    /// A line without its end.
    async fn line(&mut self) -> Result<String> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line).await?;
        ensure!(line.ends_with(b"\n"), "the connection was closed");
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    async fn exactly(&mut self, length: u64, body: &mut Vec<u8>) -> Result<()> {
        let read = (&mut self.stream).take(length).read_to_end(body).await?;
        ensure!(read as u64 == length, "cut after {read} of {length} bytes");
        Ok(())
    }

    async fn chunks(&mut self, body: &mut Vec<u8>) -> Result<()> {
        loop {
            let line = self.line().await?;
            let length = u64::from_str_radix(&line, 16).context("a chunk has a length")?;
            self.exactly(length, body).await?;
            self.line().await?;
            if length == 0 {
                return Ok(());
            }
        }
    }
}
