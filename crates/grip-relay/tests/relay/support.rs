//! A relay with a policy made for tests, and clients that speak frames.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{Sink, Stream, future::BoxFuture};
use grip_nostr::{Event, Kind, Timestamp};
use grip_relay::{
    Access, Answer, Frame, Limits, Peer, Rates, Relay, Share, Verdict, WritePolicy, Writer,
};
use grip_store::{EventStore, EventView, Options, StoreError};
use grip_tasks::{JoinHandle, TaskGroup};
use grip_types::{EventSource, Origin};
use nostr::prelude::{EventBuilder, FinalizeEvent, Keys, Tag};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};
use tokio_util::sync::PollSender;

/// Longer than anything should take, even on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// Content that the test policy refuses, fails on, or panics on.
pub const REFUSED: &str = "refuse me";
pub const FAILING: &str = "fail on me";
pub const PANICKING: &str = "panic on me";
/// A kind the test policy settles by itself.
pub const DEFERRED: Kind = Kind::Custom(1617);

/// Takes everything but what says otherwise.
pub struct TestPolicy {
    pub settled: Mutex<Vec<Event>>,
    pub noted: Mutex<Vec<(Event, Answer)>>,
    /// `settle` waits until this is true.
    pub gate: watch::Sender<bool>,
}

impl Default for TestPolicy {
    fn default() -> Self {
        Self {
            settled: Mutex::default(),
            noted: Mutex::default(),
            gate: watch::Sender::new(true),
        }
    }
}

impl WritePolicy for TestPolicy {
    fn judge(
        &self,
        event: &Event,
        _view: &dyn EventView,
        _now: Timestamp,
    ) -> Result<Verdict, StoreError> {
        match event.content.as_str() {
            REFUSED => Ok(Verdict::Refuse(Answer::refused(
                "blocked: you asked for it",
            ))),
            FAILING => Err(StoreError::Full),
            PANICKING => panic!("asked to"),
            _ => Ok(Verdict::Store),
        }
    }

    fn process_deferred<'a>(&'a self, event: Event, _source: EventSource) -> BoxFuture<'a, Answer> {
        let mut gate = self.gate.subscribe();
        Box::pin(async move {
            gate.wait_for(|open| *open).await.unwrap();
            self.settled.lock().push(event);
            Answer::accepted("purgatory: settled")
        })
    }

    fn defers(&self, event: &Event) -> bool {
        event.kind == DEFERRED
    }

    fn share(&self, event: &Event, source: EventSource) -> Option<Share> {
        if source.origin == Origin::Synced {
            return (!source.is_configured).then_some(Share::Synced);
        }
        match event.kind.as_u16() {
            10_317 => Some(Share::Unrelated),
            1_621 => Some(Share::Related),
            _ => None,
        }
    }

    fn noted(&self, event: &Event, answer: &Answer) {
        self.noted.lock().push((event.clone(), answer.clone()));
    }
}

pub struct Node {
    pub relay: Relay,
    pub writer: Writer,
    pub store: EventStore,
    pub policy: Arc<TestPolicy>,
    pub group: TaskGroup,
    _directory: TempDir,
}

impl Node {
    pub fn start() -> Self {
        Self::with(unlimited())
    }

    pub fn with(limits: Limits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = EventStore::open(directory.path(), Options::default()).unwrap();
        let group = TaskGroup::new("test");
        let (relay, writer) = Relay::start(store.clone(), limits, &group);
        Self {
            relay,
            writer,
            store,
            policy: Arc::default(),
            group,
            _directory: directory,
        }
    }

    pub fn connect(&self) -> Client {
        self.connect_with_room(1_024)
    }

    pub fn connect_from(&self, ip: &str) -> Client {
        self.connect_as(ip, 1_024)
    }

    /// `room`: frames the client's socket takes in without the client reading them.
    pub fn connect_with_room(&self, room: usize) -> Client {
        self.connect_as("192.0.2.1", room)
    }

    pub fn connect_as(&self, ip: &str, room: usize) -> Client {
        self.open(ip, room, None)
    }

    /// Connects to it as to a private relay.
    pub fn connect_private(&self, access: Access) -> Client {
        self.open("192.0.2.1", 1_024, Some(access))
    }

    fn open(&self, ip: &str, room: usize, access: Option<Access>) -> Client {
        let (to_relay, from_client) = mpsc::channel(1_024);
        let (to_client, from_relay) = mpsc::channel(room);
        let socket = Socket {
            frames: from_client,
            out: PollSender::new(to_client),
        };
        let (relay, policy) = (self.relay.clone(), Arc::clone(&self.policy));
        let peer = Peer {
            ip: ip.parse().unwrap(),
            exempt: false,
            connection: 1,
        };
        let served = self.group.spawn("connection", async move {
            match access {
                Some(access) => relay.serve_members(policy, access, socket, peer).await,
                None => relay.serve(policy, socket, peer).await,
            }
        });
        Client {
            to_relay: Some(to_relay),
            from_relay,
            served,
        }
    }
}

/// A relay with one client, and an author of events.
pub fn start() -> (Node, Client, Author) {
    let node = Node::start();
    let client = node.connect();
    (node, client, Author::new())
}

pub fn unlimited() -> Limits {
    Limits {
        connection_rates: Rates::OFF,
        address_rates: Rates::OFF,
        ..Limits::default()
    }
}

/// Frames in memory as a socket.
struct Socket {
    frames: mpsc::Receiver<Frame>,
    out: PollSender<Frame>,
}

impl Stream for Socket {
    type Item = Result<Frame, ()>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.frames.poll_recv(cx).map(|frame| frame.map(Ok))
    }
}

impl Sink<Frame> for Socket {
    type Error = ();

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), ()>> {
        self.out.poll_reserve(cx).map_err(drop)
    }

    fn start_send(mut self: Pin<&mut Self>, frame: Frame) -> Result<(), ()> {
        self.out.send_item(frame).map_err(drop)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), ()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), ()>> {
        self.out.close();
        Poll::Ready(Ok(()))
    }
}

pub struct Client {
    to_relay: Option<mpsc::Sender<Frame>>,
    from_relay: mpsc::Receiver<Frame>,
    served: JoinHandle<()>,
}

impl Client {
    pub async fn frame(&self, frame: Frame) {
        let to_relay = self.to_relay.as_ref().expect("not hung up");
        to_relay.send(frame).await.unwrap();
    }

    pub async fn text(&self, text: impl Into<String>) {
        self.frame(Frame::text(text)).await;
    }

    pub async fn send(&self, message: Value) {
        self.text(message.to_string()).await;
    }

    pub async fn event(&self, event: &Event) {
        self.send(json!(["EVENT", event])).await;
    }

    /// The next frame; `None` when the relay closed the connection.
    pub async fn next_frame(&mut self) -> Option<Frame> {
        timeout(DEADLINE, self.from_relay.recv())
            .await
            .expect("the relay says something")
    }

    /// The next message, pings left out.
    pub async fn next(&mut self) -> Value {
        loop {
            match self.next_frame().await {
                Some(Frame::Text(text)) => return serde_json::from_slice(&text).unwrap(),
                Some(Frame::Ping(_)) => {}
                other => panic!("expected a message, got {other:?}"),
            }
        }
    }

    /// Sends an event and returns the two parts of its OK.
    pub async fn publish(&mut self, event: &Event) -> (bool, String) {
        self.event(event).await;
        self.ok(event).await
    }

    /// Sends an event that is refused in words with this beginning.
    pub async fn refused(&mut self, event: &Event, start: &str) -> String {
        let (accepted, message) = self.publish(event).await;
        assert!(!accepted && message.starts_with(start), "{message}");
        message
    }

    pub async fn ok(&mut self, event: &Event) -> (bool, String) {
        let answer = self.next().await;
        assert_eq!(answer[0], "OK", "{answer}");
        assert_eq!(answer[1], event.id.to_hex(), "{answer}");
        let message = answer[3].as_str().unwrap().to_owned();
        (answer[2].as_bool().unwrap(), message)
    }

    /// Asks, and returns the ids of the stored events in their order.
    pub async fn request(&mut self, sub: &str, filter: Value) -> Vec<String> {
        self.send(json!(["REQ", sub, filter])).await;
        self.stored(sub).await
    }

    pub async fn stored(&mut self, sub: &str) -> Vec<String> {
        let mut ids = Vec::new();
        loop {
            let message = self.next().await;
            assert_eq!(message[1], sub, "{message}");
            match message[0].as_str().unwrap() {
                "EVENT" => ids.push(message[2]["id"].as_str().unwrap().to_owned()),
                "EOSE" => return ids,
                _ => panic!("unexpected {message}"),
            }
        }
    }

    /// Proves that nothing else was sent before: the next message answers this one.
    pub async fn expect_silence(&mut self) {
        self.send(json!(["COUNT", "silence", {"ids": []}])).await;
        assert_eq!(self.next().await, json!(["COUNT", "silence", {"count": 0}]));
    }

    /// As [`Client::expect_silence`], but an `EOSE` may still come.
    pub async fn expect_silence_after_eose(&mut self) {
        self.send(json!(["COUNT", "silence", {"ids": []}])).await;
        let mut message = self.next().await;
        if message[0] == "EOSE" {
            message = self.next().await;
        }
        assert_eq!(message, json!(["COUNT", "silence", {"count": 0}]));
    }

    /// Closes the client's sending side.
    pub fn hang_up(&mut self) {
        self.to_relay = None;
    }

    /// Takes nothing from the relay any more: what it sends fails.
    pub fn stop_reading(&mut self) {
        self.from_relay.close();
    }

    /// Waits until the relay is done with this connection.
    pub async fn ended(self) {
        timeout(DEADLINE, self.served).await.unwrap().unwrap();
    }
}

/// Builds signed events.
pub struct Author(pub Keys);

impl Author {
    pub fn new() -> Self {
        Self(Keys::generate())
    }

    pub fn note(&self, content: &str) -> Event {
        self.event(1, content, &[], now())
    }

    pub fn event(&self, kind: u16, content: &str, tags: &[&[&str]], at: u64) -> Event {
        let tags = tags
            .iter()
            .map(|tag| Tag::parse(tag.iter().copied()).unwrap());
        EventBuilder::new(Kind::from(kind), content)
            .tags(tags)
            .custom_created_at(Timestamp::from_secs(at))
            .finalize(&self.0)
            .unwrap()
    }
}

pub fn now() -> u64 {
    Timestamp::now().as_secs()
}

/// Polls until `state` holds.
pub async fn eventually(what: &str, state: impl Fn() -> bool) {
    let polled = async {
        while !state() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(DEADLINE, polled)
        .await
        .unwrap_or_else(|_| panic!("never: {what}"));
}
