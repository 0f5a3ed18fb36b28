//! A keep-alive HTTP/1.1 client that tells a refusal from a connection that was cut.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context as _, Result};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpSocket, TcpStream},
};

/// The address most tests speak from, and another one of this machine.
pub const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;
pub const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Settings under which loopback counts as strangers: by default it is where proxies are.
pub const NO_PROXY: (&str, &str) = ("GRIPFAST_TRUSTED_PROXY_CIDRS", "192.0.2.0/24");

pub struct Client {
    stream: BufReader<TcpStream>,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Names in small letters.
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
    }

    /// Whether the server said that it closes the connection.
    pub fn is_last(&self) -> bool {
        self.header("connection") == Some("close")
    }
}

impl Client {
    pub async fn open(port: u16) -> std::io::Result<Self> {
        Self::open_from(HERE, port).await
    }

    pub async fn open_from(from: Ipv4Addr, port: u16) -> std::io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((from, 0)))?;
        let stream = socket.connect(SocketAddr::from((HERE, port))).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    pub async fn get(&mut self, path: &str) -> Result<Answer> {
        self.ask(path, "").await
    }

    /// A GET with further headers, each with its line end.
    pub async fn ask(&mut self, path: &str, headers: &str) -> Result<Answer> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n");
        self.send(request.as_bytes()).await?;
        grip_testkit::within("an answer", self.answer()).await?
    }

    pub async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.stream.get_mut().write_all(bytes).await?)
    }

    pub async fn answer(&mut self) -> Result<Answer> {
        let mut line = String::new();
        self.stream.read_line(&mut line).await?;
        let status = line.split(' ').nth(1).context("closed without an answer")?;
        let status = status.parse()?;
        let mut head = String::new();
        loop {
            line.clear();
            self.stream.read_line(&mut line).await?;
            if line.trim_end().is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').context("no header")?;
            head += &format!("{}:{value}", name.to_ascii_lowercase());
        }
        let mut answer = Answer {
            status,
            head,
            body: String::new(),
        };
        let body = match answer.header("content-length") {
            Some(length) => self.exactly(length.parse()?).await?,
            None => self.chunks().await?,
        };
        answer.body = String::from_utf8_lossy(&body).into_owned();
        Ok(answer)
    }

    async fn exactly(&mut self, length: usize) -> Result<Vec<u8>> {
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await?;
        Ok(body)
    }

    async fn chunks(&mut self) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).await?;
            let length = usize::from_str_radix(line.trim_end(), 16)?;
            body.extend(self.exactly(length).await?);
            self.exactly(2).await?;
            if length == 0 {
                return Ok(body);
            }
        }
    }
}
