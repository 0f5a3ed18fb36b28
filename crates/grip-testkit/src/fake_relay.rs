//! A relay that says what a test tells it to.

mod endless;
mod flood;
mod mute;
mod nip77;
mod requests;

use std::{
    collections::BTreeMap,
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
    sync::broadcast,
    task::JoinSet,
};
use tokio_tungstenite::{WebSocketStream, tungstenite::Message};

use self::requests::Open;
use crate::until_true;

pub use self::{endless::EndlessIssues, nip77::Nip77, requests::Request};

/// What is said to a message of a client.
pub type Script = Arc<dyn Fn(&Value) -> Vec<Value> + Send + Sync>;

/// A scripted relay; it ends when dropped.
pub struct FakeRelay {
    address: std::net::SocketAddr,
    state: Arc<State>,
    _tasks: JoinSet<()>,
}

/// What connections share.
struct State {
    behaviour: Behaviour,
    script: Mutex<Script>,
    document: Mutex<Document>,
    heard: Mutex<Vec<Frame>>,
    connected: Mutex<Vec<Instant>>,
    open: Mutex<Open>,
    flooded: AtomicU64,
    described: AtomicU64,
    orders: broadcast::Sender<Order>,
    /// The round that each open connection has answered, and how many there were.
    rounds: Mutex<BTreeMap<usize, u64>>,
    round: AtomicU64,
}

/// A message of a client.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Which websocket it came on, counted from 0.
    pub connection: usize,
    pub at: Instant,
    pub message: Value,
}

/// What a test has every open connection do.
#[derive(Clone)]
enum Order {
    Say(Value),
    /// Which round of [`FakeRelay::settled`] it is for.
    Ping(u64),
    HangUp,
}

/// Orders that a connection may be late by.
const MAX_ORDERS: usize = 1_024;

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
    Json(Value),
}

/// What is made of a connection.
#[derive(Clone)]
enum Behaviour {
    Scripted,
    Mute,
    /// Sends an event without end.
    Flood(Arc<Value>),
}

impl State {
    fn hear(&self, connection: usize, message: &Value) {
        self.open.lock().hear(connection, message);
        self.heard.lock().push(Frame {
            connection,
            at: Instant::now(),
            message: message.clone(),
        });
    }

    fn answer(&self, connection: usize, answer: &Value) {
        self.open.lock().answer(connection, answer);
    }

    async fn serve(&self, stream: TcpStream) -> Result<()> {
        if !is_websocket(&stream).await {
            self.described.fetch_add(1, Ordering::Relaxed);
            let document = self.document.lock().clone();
            return describe(stream, document, &self.flooded).await;
        }
        let socket = tokio_tungstenite::accept_async(stream).await?;
        let connection = {
            let mut connected = self.connected.lock();
            connected.push(Instant::now());
            connected.len() - 1
        };
        match &self.behaviour {
            Behaviour::Scripted => {
                let ended = converse(socket, self, connection).await;
                self.rounds.lock().remove(&connection);
                self.open.lock().leave(connection);
                ended
            }
            Behaviour::Mute => {
                let hear = |message| self.hear(connection, &message);
                mute::listen(socket.into_inner(), hear).await
            }
            Behaviour::Flood(event) => flood::send(socket, event, &self.flooded).await,
        }
    }
}

impl FakeRelay {
    /// Listens on a loopback address such as `127.0.0.9`.
    pub async fn start(address: &str, script: Script) -> Result<Self> {
        Self::behaving(address, Behaviour::Scripted, script).await
    }

    /// One that takes connections and then says nothing on them, not even a pong. A ping that comes is
    /// heard as `["PING"]`.
    pub async fn mute(address: &str) -> Result<Self> {
        Self::behaving(address, Behaviour::Mute, silence()).await
    }

    /// One that answers any request with `event` without end, and reads nothing more.
    pub async fn flooding(address: &str, event: Value) -> Result<Self> {
        Self::behaving(address, Behaviour::Flood(Arc::new(event)), silence()).await
    }

    async fn behaving(address: &str, behaviour: Behaviour, script: Script) -> Result<Self> {
        let listener = TcpListener::bind((address, 0)).await?;
        let address = listener.local_addr()?;
        let state = Arc::new(State {
            behaviour,
            script: Mutex::new(script),
            document: Mutex::default(),
            heard: Mutex::default(),
            connected: Mutex::default(),
            open: Mutex::default(),
            flooded: AtomicU64::default(),
            described: AtomicU64::default(),
            orders: broadcast::Sender::new(MAX_ORDERS),
            rounds: Mutex::default(),
            round: AtomicU64::default(),
        });
        let mut tasks = JoinSet::new();
        let serving = Arc::clone(&state);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&serving);
                // A client that leaves in the middle is no failure of the test.
                connections.spawn(async move { drop(state.serve(stream).await) });
            }
        });
        Ok(Self {
            address,
            state,
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
        *self.state.document.lock() = document;
    }

    /// Answers by another script from now on, on connections that are open, too.
    pub fn set_script(&self, script: Script) {
        *self.state.script.lock() = script;
    }

    /// Says something on every open connection that nobody asked for.
    pub fn say(&self, message: Value) {
        // Nobody is there to hear it where no connection is open.
        let _ = self.state.orders.send(Order::Say(message));
    }

    /// Waits until everything that was said was read by clients, and what they said to it was heard.
    pub async fn settled(&self) -> Result<()> {
        let round = self.state.round.fetch_add(1, Ordering::Relaxed) + 1;
        let _ = self.state.orders.send(Order::Ping(round));
        let is_answered = || self.state.rounds.lock().values().all(|it| *it >= round);
        until_true("all clients have answered a ping", is_answered).await
    }

    /// Ends every open connection without a word.
    pub fn hang_up(&self) {
        let _ = self.state.orders.send(Order::HangUp);
    }

    /// How often it was asked what it is.
    pub fn described(&self) -> u64 {
        self.state.described.load(Ordering::Relaxed)
    }

    /// What a flood has sent so far.
    pub fn flooded_bytes(&self) -> u64 {
        self.state.flooded.load(Ordering::Relaxed)
    }

    /// When each websocket was opened.
    pub fn connected(&self) -> Vec<Instant> {
        self.state.connected.lock().clone()
    }

    /// All that clients said.
    pub fn heard(&self) -> Vec<Value> {
        let heard = self.state.heard.lock();
        heard.iter().map(|frame| frame.message.clone()).collect()
    }

    /// The same with when and where it was said.
    pub fn frames(&self) -> Vec<Frame> {
        self.state.heard.lock().clone()
    }

    /// All that clients asked for by REQ or NEG-OPEN, in this order.
    pub fn requests(&self) -> Vec<Request> {
        let heard = self.state.heard.lock();
        heard.iter().filter_map(Request::read).collect()
    }

    /// Names of the requests that are open now on any connection.
    pub fn open(&self) -> Vec<String> {
        self.state.open.lock().names()
    }

    /// The most requests that were ever open at once on one connection.
    pub fn most_open(&self) -> usize {
        self.state.open.lock().most()
    }
}

/// Says nothing to anything.
fn silence() -> Script {
    Arc::new(|_| Vec::new())
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
        Document::Json(json) => {
            let body = json.to_string();
            let length = body.len();
            let header =
                format!("content-type: application/nostr+json\r\ncontent-length: {length}");
            let head = format!("HTTP/1.1 200 OK\r\n{header}\r\nconnection: close\r\n\r\n");
            return Ok(stream.write_all((head + &body).as_bytes()).await?);
        }
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

/// Answers by the script, says what the test says meanwhile, and notes both.
async fn converse(
    mut socket: WebSocketStream<TcpStream>,
    state: &State,
    connection: usize,
) -> Result<()> {
    let mut orders = state.orders.subscribe();
    // Rounds of before it was there are not its own.
    let round = state.round.load(Ordering::Relaxed);
    state.rounds.lock().insert(connection, round);
    loop {
        let answers = tokio::select! {
            order = orders.recv() => match order {
                Ok(Order::Say(message)) => vec![message],
                Ok(Order::Ping(round)) => {
                    let payload = round.to_be_bytes().to_vec();
                    socket.send(Message::Ping(payload.into())).await?;
                    continue;
                }
                // More was said than a connection took in time: it is not the one that was meant.
                Ok(Order::HangUp) | Err(_) => return Ok(()),
            },
            message = socket.next() => match message.transpose()? {
                Some(Message::Text(text)) => {
                    let message = serde_json::from_str(&text).context("a client sent no JSON")?;
                    state.hear(connection, &message);
                    let script = Arc::clone(&state.script.lock());
                    script(&message)
                }
                Some(Message::Pong(payload)) => {
                    if let Ok(round) = <[u8; 8]>::try_from(&payload[..]) {
                        let mut rounds = state.rounds.lock();
                        rounds.insert(connection, u64::from_be_bytes(round));
                    }
                    continue;
                }
                Some(_) => continue,
                None => return Ok(()),
            },
        };
        for answer in answers {
            state.answer(connection, &answer);
            socket.send(Message::text(answer.to_string())).await?;
        }
    }
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

/// Says whether a filter asks for an event.
pub fn matches(filter: &Value, event: &Value) -> bool {
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
