//! A relay that says what a test tells it to.

mod endless;
mod flood;
mod mute;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use anyhow::{Context as _, Result};
use futures_util::{SinkExt as _, StreamExt as _};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_tungstenite::tungstenite::Message;

pub use self::endless::EndlessIssues;

/// What is said to a message of a client.
pub type Script = Arc<dyn Fn(&Value) -> Vec<Value> + Send + Sync>;

/// A scripted relay; it ends when dropped.
pub struct FakeRelay {
    address: std::net::SocketAddr,
    heard: Arc<Mutex<Vec<Value>>>,
    connected: Arc<Mutex<Vec<Instant>>>,
    flooded: Arc<AtomicU64>,
    document: Arc<Mutex<Document>>,
    described: Arc<AtomicU64>,
    _tasks: JoinSet<()>,
}

/// What is answered to the question what the relay is (NIP-11).
#[derive(Clone, Debug, Default)]
pub enum Document {
    #[default]
    Absent,
    /// The question is never answered.
    Hanging,
    /// White space without end.
    Endless,
    /// Another place has it.
    Moved(String),
}

/// What is made of a connection.
#[derive(Clone)]
enum Behaviour {
    Scripted(Script),
    Mute,
    /// Sends an event without end.
    Flood(Arc<Value>),
}

impl FakeRelay {
    /// Listens on a loopback address such as `127.0.0.9`.
    pub async fn start(address: &str, script: Script) -> Result<Self> {
        Self::behaving(address, Behaviour::Scripted(script)).await
    }

    /// One that takes connections and then says nothing on them, not even a pong. A ping that comes is
    /// heard as `["PING"]`.
    pub async fn mute(address: &str) -> Result<Self> {
        Self::behaving(address, Behaviour::Mute).await
    }

    /// One that answers any request with `event` without end, and reads nothing more.
    pub async fn flooding(address: &str, event: Value) -> Result<Self> {
        Self::behaving(address, Behaviour::Flood(Arc::new(event))).await
    }

    async fn behaving(address: &str, behaviour: Behaviour) -> Result<Self> {
        let listener = TcpListener::bind((address, 0)).await?;
        let address = listener.local_addr()?;
        let (heard, connected, flooded) = (Arc::default(), Arc::default(), Arc::default());
        let document: Arc<Mutex<Document>> = Arc::default();
        let described: Arc<AtomicU64> = Arc::default();
        let mut tasks = JoinSet::new();
        let (hearing, connecting) = (Arc::clone(&heard), Arc::clone(&connected));
        let (flooding, describing) = (Arc::clone(&flooded), Arc::clone(&document));
        let counting = Arc::clone(&described);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (heard, connected) = (Arc::clone(&hearing), Arc::clone(&connecting));
                let (behaviour, flooded) = (behaviour.clone(), Arc::clone(&flooding));
                let (document, described) = (Arc::clone(&describing), Arc::clone(&counting));
                connections.spawn(async move {
                    // A client that leaves in the middle is no failure of the test.
                    if !is_websocket(&stream).await {
                        described.fetch_add(1, Ordering::Relaxed);
                        let document = document.lock().clone();
                        let _ = describe(stream, document, &flooded).await;
                        return;
                    }
                    let _ = serve(stream, &behaviour, &heard, &connected, &flooded).await;
                });
            }
        });
        Ok(Self {
            address,
            heard,
            connected,
            flooded,
            document,
            described,
            _tasks: tasks,
        })
    }

    /// A relay without NIP-77 that has `events`.
    pub async fn with_events(address: &str, events: Vec<Value>) -> Result<Self> {
        let script = move |message: &Value| honest(message, &events);
        Self::start(address, Arc::new(script)).await
    }

    /// A relay without NIP-77 and with a history that never ends.
    pub async fn with_endless(address: &str, issues: EndlessIssues) -> Result<Self> {
        let script = move |message: &Value| issues.answer(message);
        Self::start(address, Arc::new(script)).await
    }

    pub fn url(&self) -> String {
        format!("ws://{}", self.address)
    }

    /// Says from now on what the relay is.
    pub fn set_document(&self, document: Document) {
        *self.document.lock() = document;
    }

    /// How often it was asked what it is.
    pub fn described(&self) -> u64 {
        self.described.load(Ordering::Relaxed)
    }

    /// What a flood has sent so far.
    pub fn flooded_bytes(&self) -> u64 {
        self.flooded.load(Ordering::Relaxed)
    }

    /// When each websocket was opened.
    pub fn connected(&self) -> Vec<Instant> {
        self.connected.lock().clone()
    }

    /// All that clients said.
    pub fn heard(&self) -> Vec<Value> {
        self.heard.lock().clone()
    }
}

async fn is_websocket(stream: &TcpStream) -> bool {
    let mut head = [0; 2048];
    let read = stream.peek(&mut head).await.unwrap_or_default();
    let head = String::from_utf8_lossy(&head[..read]).to_lowercase();
    head.contains("upgrade: websocket")
}

async fn describe(mut stream: TcpStream, document: Document, flooded: &AtomicU64) -> Result<()> {
    let is_endless = matches!(document, Document::Endless);
    let (status, header) = match document {
        Document::Absent => ("404 Not Found", "content-length: 0".to_owned()),
        Document::Hanging => std::future::pending().await,
        Document::Endless => ("200 OK", "content-type: application/nostr+json".to_owned()),
        Document::Moved(to) => ("302 Found", format!("content-length: 0\r\nlocation: {to}")),
    };
    let head = format!("HTTP/1.1 {status}\r\n{header}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    if !is_endless {
        return Ok(());
    }
    loop {
        stream.write_all(&[b' '; 4096]).await?;
        flooded.fetch_add(4096, Ordering::Relaxed);
    }
}

async fn serve(
    stream: TcpStream,
    behaviour: &Behaviour,
    heard: &Mutex<Vec<Value>>,
    connected: &Mutex<Vec<Instant>>,
    flooded: &AtomicU64,
) -> Result<()> {
    let mut socket = tokio_tungstenite::accept_async(stream).await?;
    connected.lock().push(Instant::now());
    let script = match behaviour {
        Behaviour::Scripted(script) => script,
        Behaviour::Mute => return mute::listen(socket.into_inner(), heard).await,
        Behaviour::Flood(event) => return flood::send(socket, event, flooded).await,
    };
    while let Some(message) = socket.next().await {
        let Message::Text(text) = message? else {
            continue;
        };
        let message: Value = serde_json::from_str(&text).context("a client sent no JSON")?;
        heard.lock().push(message.clone());
        for answer in script(&message) {
            socket.send(Message::text(answer.to_string())).await?;
        }
    }
    Ok(())
}

/// What a relay with `events` and without NIP-77 says, 500 events a page.
pub fn honest(message: &Value, events: &[Value]) -> Vec<Value> {
    let name = &message[1];
    if message[0] == "NEG-OPEN" {
        return vec![json!(["NOTICE", "ERROR: bad msg: unknown cmd"])];
    }
    if message[0] != "REQ" {
        return Vec::new();
    }
    let filters = message.as_array().into_iter().flatten().skip(2);
    let mut answers = Vec::new();
    for filter in filters {
        let limit = filter["limit"].as_u64().unwrap_or(500).min(500) as usize;
        let mut found: Vec<&Value> = events.iter().filter(|it| matches(filter, it)).collect();
        found.sort_by_key(|event| std::cmp::Reverse(event["created_at"].as_u64()));
        let found = found.into_iter().take(limit);
        answers.extend(found.map(|event| json!(["EVENT", name, event])));
    }
    answers.push(json!(["EOSE", name]));
    answers
}

fn matches(filter: &Value, event: &Value) -> bool {
    let contains = |list: &Value, item: &Value| {
        let list = list.as_array();
        list.is_none_or(|list| list.contains(item))
    };
    let at = event["created_at"].as_u64().unwrap_or_default();
    let tags = filter.as_object().into_iter().flatten();
    let mut tags = tags.filter_map(|(key, wanted)| Some((key.strip_prefix('#')?, wanted)));
    contains(&filter["ids"], &event["id"])
        && contains(&filter["kinds"], &event["kind"])
        && contains(&filter["authors"], &event["pubkey"])
        && filter["since"].as_u64().is_none_or(|since| at >= since)
        && filter["until"].as_u64().is_none_or(|until| at <= until)
        && tags.all(|(name, wanted)| {
            let tags = event["tags"].as_array().into_iter().flatten();
            tags.filter(|tag| tag[0] == name)
                .any(|tag| contains(wanted, &tag[1]))
        })
}
