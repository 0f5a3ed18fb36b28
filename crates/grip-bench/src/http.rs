//! A minimal keep-alive HTTP/1.1 client: the load must not be measured by a heavy client.

use std::net::Ipv4Addr;

use anyhow::{Context as _, Result, ensure};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpSocket, TcpStream},
};

pub struct Connection {
    stream: BufReader<TcpStream>,
    port: u16,
}

/// What came back: the body and when its first byte did.
pub struct Answer {
    pub body: Vec<u8>,
}

impl Connection {
    pub async fn open(port: u16) -> Result<Self> {
        Self::open_from(Ipv4Addr::LOCALHOST, port).await
    }

    /// Connects from an address of this machine.
    pub async fn open_from(address: Ipv4Addr, port: u16) -> Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((address, 0).into())?;
        let stream = socket.connect((Ipv4Addr::LOCALHOST, port).into()).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::with_capacity(256 * 1024, stream),
            port,
        })
    }

    pub async fn get(&mut self, path: &str, headers: &str) -> Result<Answer> {
        let port = self.port;
        let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{headers}\r\n");
        self.stream.get_mut().write_all(request.as_bytes()).await?;
        self.answer().await
    }

    pub async fn post(
        &mut self,
        path: &str,
        kind: &str,
        headers: &str,
        body: &[u8],
    ) -> Result<Answer> {
        let (port, length) = (self.port, body.len());
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: {kind}\r\n\
             Content-Length: {length}\r\n{headers}\r\n"
        );
        let stream = self.stream.get_mut();
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body).await?;
        self.answer().await
    }

    /// A GET of which only the status counts.
    pub async fn status(&mut self, path: &str) -> Result<u16> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        self.stream.get_mut().write_all(request.as_bytes()).await?;
        Ok(self.any_answer().await?.0)
    }

    async fn answer(&mut self) -> Result<Answer> {
        let (status, answer) = self.any_answer().await?;
        ensure!(status == 200, "status {status}");
        Ok(answer)
    }

    async fn any_answer(&mut self) -> Result<(u16, Answer)> {
        let mut line = String::new();
        self.stream.read_line(&mut line).await?;
        let status = line.split(' ').nth(1).context("no answer")?.parse()?;
        let (mut length, mut chunked) = (None, false);
        loop {
            line.clear();
            self.stream.read_line(&mut line).await?;
            let header = line.trim_end().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.strip_prefix("content-length:") {
                length = Some(value.trim().parse::<usize>()?);
            }
            chunked |= header.starts_with("transfer-encoding: chunked");
        }
        let mut body = Vec::new();
        if let Some(length) = length {
            body.resize(length, 0);
            self.stream.read_exact(&mut body).await?;
        } else {
            ensure!(chunked, "an answer without a length");
            self.chunks(&mut body).await?;
        }
        Ok((status, Answer { body }))
    }

    async fn chunks(&mut self, body: &mut Vec<u8>) -> Result<()> {
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).await?;
            let size = usize::from_str_radix(line.trim_end(), 16).context("chunk size")?;
            let start = body.len();
            body.resize(start + size, 0);
            self.stream.read_exact(&mut body[start..]).await?;
            self.stream.read_exact(&mut [0; 2]).await?;
            if size == 0 {
                return Ok(());
            }
        }
    }
}
