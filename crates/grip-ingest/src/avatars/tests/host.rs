//! A host of pages, or of whatever is put there.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// What is at a path.
#[derive(Clone, Debug)]
pub(super) struct Page {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Page {
    pub(super) fn fine(body: &[u8]) -> Self {
        Self {
            body: body.to_vec(),
            ..Self::status(200)
        }
    }

    pub(super) fn status(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    pub(super) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(super) fn etag(self, etag: &str) -> Self {
        self.header("etag", etag)
    }
}

/// What was asked.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) method: String,
    pub(super) path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Ask {
    pub(super) fn header(&self, name: &str) -> Option<String> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone())
    }
}

#[derive(Default)]
struct State {
    pages: BTreeMap<String, Page>,
    asked: Vec<Ask>,
    sent: Vec<u16>,
    keeps: bool,
}

/// A running host; it ends when dropped.
pub(super) struct Host {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    _serving: JoinSet<()>,
}

impl Host {
    pub(super) async fn start(ip: &str) -> Self {
        let listener = TcpListener::bind((ip, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State::default()));
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, Arc::clone(&state)));
        Self {
            address,
            state,
            _serving: serving,
        }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(super) fn put(&self, path: &str, page: Page) {
        self.state
            .lock()
            .unwrap()
            .pages
            .insert(path.to_owned(), page);
    }

    /// From now on it keeps what is put there, as a bucket does.
    pub(super) fn keeps(&self) {
        self.state.lock().unwrap().keeps = true;
    }

    pub(super) fn asked(&self) -> Vec<Ask> {
        self.state.lock().unwrap().asked.clone()
    }

    /// The statuses of the answers.
    pub(super) fn sent(&self) -> Vec<u16> {
        self.state.lock().unwrap().sent.clone()
    }
}

async fn serve(listener: TcpListener, state: Arc<Mutex<State>>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            return;
        };
        connections.spawn(talk(stream, Arc::clone(&state)));
    }
}

/// One question and one answer.
async fn talk(stream: TcpStream, state: Arc<Mutex<State>>) {
    let mut stream = BufReader::new(stream);
    let Some(ask) = read(&mut stream).await else {
        return;
    };
    let is_head = ask.method == "HEAD";
    let page = state.lock().unwrap().answer(ask);
    let mut text = format!("HTTP/1.1 {} x\r\nconnection: close\r\n", page.status);
    for (name, value) in &page.headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if page.status != 304 {
        text.push_str(&format!("content-length: {}\r\n", page.body.len()));
    }
    text.push_str("\r\n");
    let _ = stream.write_all(text.as_bytes()).await;
    if !is_head {
        let _ = stream.write_all(&page.body).await;
    }
    let _ = stream.shutdown().await;
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Ask> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim().split_once(':') else {
            break;
        };
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let path = target.split('?').next()?.to_owned();
    let mut ask = Ask {
        method,
        path,
        headers,
        body: Vec::new(),
    };
    let length = ask.header("content-length").and_then(|n| n.parse().ok());
    ask.body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut ask.body).await.ok()?;
    Some(ask)
}

impl State {
    fn answer(&mut self, ask: Ask) -> Page {
        let page = match ask.method.as_str() {
            "PUT" if self.keeps => self.keep(&ask),
            "DELETE" if self.keeps => {
                self.pages.remove(&ask.path);
                Page::status(204)
            }
            "POST" if self.keeps => self.remove_all(&ask),
            _ => self.show(&ask),
        };
        self.asked.push(ask);
        self.sent.push(page.status);
        page
    }

    fn keep(&mut self, ask: &Ask) -> Page {
        let is_new = !self.pages.contains_key(&ask.path);
        if !is_new && ask.header("if-none-match").as_deref() == Some("*") {
            return Page::status(412);
        }
        let page = Page::fine(&ask.body)
            .etag("\"x\"")
            .header("last-modified", "Sun, 16 Nov 2025 01:50:00 GMT");
        self.pages.insert(ask.path.clone(), page);
        Page::status(200).etag("\"x\"")
    }

    /// Removes the objects of a bucket that the body names.
    fn remove_all(&mut self, ask: &Ask) -> Page {
        let text = String::from_utf8_lossy(&ask.body);
        let mut removed = String::new();
        for part in text.split("<Key>").skip(1) {
            let key = part.split("</Key>").next().unwrap();
            self.pages
                .remove(&format!("{}/{key}", ask.path.trim_end_matches('/')));
            removed.push_str(&format!("<Deleted><Key>{key}</Key></Deleted>"));
        }
        Page::fine(format!("<DeleteResult>{removed}</DeleteResult>").as_bytes())
    }

    fn show(&self, ask: &Ask) -> Page {
        let Some(page) = self.pages.get(&ask.path) else {
            return Page::status(404);
        };
        let etag = page.headers.iter().find(|(name, _)| name == "etag");
        match (etag, ask.header("if-none-match")) {
            (Some((_, known)), Some(asked)) if *known == asked => Page::status(304),
            _ => page.clone(),
        }
    }
}
