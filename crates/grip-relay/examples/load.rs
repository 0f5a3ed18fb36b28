//! Puts a relay under load over loopback sockets and prints rates.
//!
//! `load serve <port>` in one terminal, `load run <port> <pid of the server> [scenario …]` in another;
//! the server takes every event. Scenarios: single, window, crowd, fill, by-id, author, tag, range,
//! fan-out, floor.
#![expect(
    clippy::unwrap_used,
    reason = "a tool for the bench; it stops at the first fault"
)]

use std::{
    env,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::{SinkExt, StreamExt, future::BoxFuture, future::join_all};
use grip_nostr::{Event, Kind, Timestamp};
use grip_relay::{Answer, Frame, Limits, Peer, Rates, Relay, Verdict, WritePolicy};
use grip_store::{EventStore, EventView, Options, StoreError};
use grip_tasks::TaskGroup;
use grip_types::Origin;
use nostr::prelude::{EventBuilder, FinalizeEvent, Keys, Tag};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message, Utf8Bytes,
        protocol::{CloseFrame, WebSocketConfig},
    },
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct TakeAll;

impl WritePolicy for TakeAll {
    fn judge(&self, _: &Event, _: &dyn EventView, _: Timestamp) -> Result<Verdict, StoreError> {
        Ok(Verdict::Store)
    }

    fn process_deferred<'a>(&'a self, _: Event, _: Origin) -> BoxFuture<'a, Answer> {
        Box::pin(async { Answer::accepted("") })
    }

    fn defers(&self, _: &Event) -> bool {
        false
    }
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", port] => serve(port.parse().unwrap()).await,
        ["run", port, pid, ref scenarios @ ..] => {
            let bench = Bench {
                port: port.parse().unwrap(),
                pid: pid.to_owned(),
            };
            for scenario in scenarios {
                bench.run(scenario).await;
            }
        }
        _ => eprintln!("load serve <port> | load run <port> <pid> <scenario> …"),
    }
}

async fn serve(port: u16) {
    let directory = tempfile::tempdir_in(".").unwrap();
    let store = EventStore::open(directory.path(), Options::default()).unwrap();
    let group = TaskGroup::new("load");
    let limits = Limits {
        connection_rates: Rates::OFF,
        address_rates: Rates::OFF,
        ..Limits::default()
    };
    let (relay, _writer) = Relay::start(store, limits, &group);
    let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    println!("pid {}", std::process::id());
    let watched = relay.clone();
    group.spawn("print", async move {
        let mut before = 0;
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let stats = watched.stats();
            let (commits, events) = (stats.commits.get(), stats.committed_events.get());
            if std::mem::replace(&mut before, commits) != commits {
                let sizes: Vec<_> = stats.commit_sizes().collect();
                println!("{commits} commits of {events} events: {sizes:?}");
            }
        }
    });
    loop {
        let (stream, address) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let relay = relay.clone();
        group.spawn("connection", async move {
            // The read buffer is allocated whole: the default of 128 KiB is the larger part of an
            // idle connection.
            let config = WebSocketConfig::default().read_buffer_size(4 << 10);
            let socket = tokio_tungstenite::accept_async_with_config(stream, Some(config));
            let socket = socket.await.unwrap();
            let socket = socket.map(|message| message.map(incoming)).with(|frame| {
                std::future::ready(Ok::<_, tokio_tungstenite::tungstenite::Error>(outgoing(
                    frame,
                )))
            });
            let peer = Peer {
                ip: address.ip(),
                connection: address.port().into(),
            };
            relay.serve(Arc::new(TakeAll), socket, peer).await;
        });
    }
}

fn incoming(message: Message) -> Frame {
    match message {
        Message::Text(text) => Frame::Text(text.into()),
        Message::Binary(_) | Message::Frame(_) => Frame::Binary,
        Message::Ping(bytes) => Frame::Ping(bytes),
        Message::Pong(bytes) => Frame::Pong(bytes),
        Message::Close(_) => Frame::Close(1000, "".into()),
    }
}

fn outgoing(frame: Frame) -> Message {
    match frame {
        Frame::Text(text) => Message::Text(Utf8Bytes::try_from(text).unwrap()),
        Frame::Binary => Message::Binary(bytes::Bytes::new()),
        Frame::Ping(bytes) => Message::Ping(bytes),
        Frame::Pong(bytes) => Message::Pong(bytes),
        Frame::Close(code, reason) => Message::Close(Some(CloseFrame {
            code: code.into(),
            reason: reason.into_owned().into(),
        })),
    }
}

type Socket = WebSocketStream<TcpStream>;

struct Bench {
    port: u16,
    pid: String,
}

impl Bench {
    async fn connect(&self) -> Socket {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let url = format!("ws://127.0.0.1:{}/", self.port);
        tokio_tungstenite::client_async(url, stream)
            .await
            .unwrap()
            .0
    }

    /// Seconds of CPU the server has used.
    fn cpu(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap();
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap()
            .split_whitespace()
            .collect();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        ticks as f64 / 100.0
    }

    fn rss_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap();
        let line = |name: &str| -> u64 {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        line("RssAnon:")
    }

    async fn run(&self, scenario: &str) {
        match scenario {
            "single" => self.publish(scenario, 1, 1, 3_000).await,
            "window" => self.publish(scenario, 1, 32, 20_000).await,
            "crowd" => self.publish(scenario, 64, 32, 40_000).await,
            "fill" => self.publish(scenario, 8, 32, 20_000).await,
            "by-id" | "author" | "tag" | "range" => {
                self.query(scenario, 8).await;
                self.query(scenario, 1).await;
            }
            "fan-out" => self.fan_out(1_000, 200).await,
            "floor" => floor(),
            other => eprintln!("no scenario {other}"),
        }
    }

    async fn publish(&self, name: &str, connections: usize, window: usize, events: usize) {
        let frames = signed(events);
        let began_cpu = self.cpu();
        let chunks = frames.chunks(events / connections);
        let sockets = join_all((0..connections).map(|_| self.connect())).await;
        let began = Instant::now();
        let all = join_all(
            sockets
                .into_iter()
                .zip(chunks)
                .map(|(socket, frames)| send_all(socket, frames, window)),
        );
        let mut times: Vec<Duration> = all.await.concat();
        report(name, connections, times.len(), began.elapsed(), &mut times);
        let used = self.cpu() - began_cpu;
        println!(
            "    CPU {:.3} s per 1k, anonymous memory {} MiB",
            used * 1e3 / events as f64,
            self.rss_kib() >> 10
        );
    }

    async fn query(&self, name: &str, connections: usize) {
        let filters = Arc::new(self.filters(name).await);
        let began_cpu = self.cpu();
        let next = Arc::new(AtomicUsize::new(0));
        let total =
            if name == "by-id" { 40_000 } else { 4_000 } / if connections == 1 { 4 } else { 1 };
        let sockets = join_all((0..connections).map(|_| self.connect())).await;
        let began = Instant::now();
        let clients = sockets.into_iter().map(|mut socket| {
            let (filters, next) = (Arc::clone(&filters), Arc::clone(&next));
            async move {
                let (mut times, mut events) = (Vec::new(), 0_usize);
                while next.fetch_add(1, Ordering::Relaxed) < total {
                    let filter = &filters[times.len() % filters.len()];
                    let began = Instant::now();
                    let request = format!(r#"["REQ","s",{filter}]"#);
                    socket.send(Message::text(request)).await.unwrap();
                    loop {
                        let Message::Text(text) = socket.next().await.unwrap().unwrap() else {
                            continue;
                        };
                        if text.starts_with("[\"EOSE") {
                            break;
                        }
                        events += 1;
                    }
                    times.push(began.elapsed());
                }
                (times, events)
            }
        });
        let clients: Vec<_> = clients
            .map(|client| Box::pin(client) as BoxFuture<'_, _>)
            .collect();
        let done = join_all(clients).await;
        let events: usize = done.iter().map(|(_, events)| events).sum();
        let mut times: Vec<Duration> = done.into_iter().flat_map(|(times, _)| times).collect();
        report(name, connections, times.len(), began.elapsed(), &mut times);
        let used = self.cpu() - began_cpu;
        println!(
            "    {} events an answer, CPU {:.0} µs a request",
            events / times.len(),
            used * 1e6 / times.len() as f64
        );
    }

    async fn filters(&self, name: &str) -> Vec<Value> {
        let mut socket = self.connect().await;
        socket
            .send(Message::text(r#"["REQ","s",{"limit":5000}]"#))
            .await
            .unwrap();
        let mut stored: Vec<Value> = Vec::new();
        loop {
            let Message::Text(text) = socket.next().await.unwrap().unwrap() else {
                continue;
            };
            let message: Value = serde_json::from_str(&text).unwrap();
            if message[0] == "EOSE" {
                break;
            }
            stored.push(message[2].clone());
        }
        let one = |event: &Value| match name {
            "by-id" => json!({"ids": [event["id"]]}),
            "author" => {
                json!({"authors": [event["pubkey"]], "kinds": [event["kind"]], "limit": 50})
            }
            "tag" => json!({"#a": [event["tags"][0][1]], "limit": 500}),
            _ => json!({"since": 0, "until": event["created_at"], "limit": 100}),
        };
        stored.iter().map(one).collect()
    }

    async fn fan_out(&self, subscribers: usize, events: usize) {
        let before = self.rss_kib();
        let mut sockets = Vec::new();
        for _ in 0..subscribers {
            let mut socket = self.connect().await;
            socket
                .send(Message::text(
                    r#"["REQ","live",{"kinds":[1621],"limit":0}]"#,
                ))
                .await
                .unwrap();
            let _eose = socket.next().await;
            sockets.push(socket);
        }
        println!(
            "idle subscriber: {} kB",
            self.rss_kib().saturating_sub(before) / subscribers as u64
        );
        let frames = signed(events);
        let began_cpu = self.cpu();
        let began = Instant::now();
        let publisher = self.connect().await;
        let listeners = join_all(sockets.iter_mut().map(|socket| async {
            let mut heard = 0;
            while heard < events {
                if let Message::Text(_) = socket.next().await.unwrap().unwrap() {
                    heard += 1;
                }
            }
        }));
        tokio::join!(send_all(publisher, &frames, 8), listeners);
        let deliveries = subscribers * events;
        let (took, used) = (began.elapsed().as_secs_f64(), self.cpu() - began_cpu);
        println!(
            "fan-out: {:.0} deliveries/s, CPU {:.1} µs each",
            deliveries as f64 / took,
            used * 1e6 / deliveries as f64
        );
    }
}

/// Keeps `window` events unanswered; returns the time each took.
async fn send_all(socket: Socket, frames: &[String], window: usize) -> Vec<Duration> {
    let (mut out, mut input) = socket.split();
    let slots = tokio::sync::Semaphore::new(window);
    let sent = parking_lot::Mutex::new(std::collections::VecDeque::new());
    let sending = async {
        for frame in frames {
            slots.acquire().await.unwrap().forget();
            sent.lock().push_back(Instant::now());
            out.send(Message::text(frame.clone())).await.unwrap();
        }
    };
    let reading = async {
        let mut times = Vec::new();
        while times.len() < frames.len() {
            let Message::Text(text) = input.next().await.unwrap().unwrap() else {
                continue;
            };
            assert!(text.contains(",true,"), "{text}");
            let began = sent.lock().pop_front().unwrap();
            times.push(began.elapsed());
            slots.add_permits(1);
        }
        times
    };
    tokio::join!(sending, reading).1
}

fn report(name: &str, connections: usize, count: usize, took: Duration, times: &mut [Duration]) {
    times.sort();
    let at = |share: usize| times[(times.len() - 1) * share / 100];
    println!(
        "{name}, {connections} connections: {:.0}/s, p50 {:?}, p99 {:?}",
        count as f64 / took.as_secs_f64(),
        at(50),
        at(99)
    );
}

/// What the disk, the store and the curve cost by themselves.
fn floor() {
    let mut file = tempfile::tempfile_in(".").unwrap();
    let mut times = timed(200, |_| {
        std::io::Write::write_all(&mut file, &[1; 4_096]).unwrap();
        file.sync_data().unwrap();
    });
    println!("fdatasync: p50 {:?}", median(&mut times));
    let events: Vec<Event> = signed(600)
        .iter()
        .map(|text| serde_json::from_str::<(String, Event)>(text).unwrap().1)
        .collect();
    println!(
        "verify: p50 {:?}",
        median(&mut timed(600, |n| events[n].verify().unwrap()))
    );
    let directory = tempfile::tempdir_in(".").unwrap();
    let store = EventStore::open(directory.path(), Options::default()).unwrap();
    let now = Timestamp::now();
    let put = |n: usize| drop(store.write(|view| view.put(&events[n], now)).unwrap());
    println!("commit of 1 event: p50 {:?}", median(&mut timed(300, put)));
    let put = |n: usize| {
        let events = &events[300 + n * 30..330 + n * 30];
        let all = |view: &mut grip_store::WriteView<'_>| {
            events
                .iter()
                .try_for_each(|event| view.put(event, now).map(drop))
        };
        store.write(all).unwrap();
    };
    println!("commit of 30 events: p50 {:?}", median(&mut timed(10, put)));
}

fn timed(count: usize, mut work: impl FnMut(usize)) -> Vec<Duration> {
    let once = |n| {
        let began = Instant::now();
        work(n);
        began.elapsed()
    };
    (0..count).map(once).collect()
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Issues of 20 authors about 10 repositories, 500 bytes of content.
fn signed(count: usize) -> Vec<String> {
    let authors: Vec<Keys> = (0..20).map(|_| Keys::generate()).collect();
    let start = Timestamp::now().as_secs() - count as u64;
    let one = |n: usize| {
        let keys = &authors[n % authors.len()];
        let address = format!("30617:{}:repository-{}", authors[0].public_key(), n % 10);
        let content = format!("{n} {}", "x".repeat(500));
        let event = EventBuilder::new(Kind::from(1621), content)
            .tags([
                Tag::parse(["a", &address]).unwrap(),
                Tag::parse(["t", "bug"]).unwrap(),
            ])
            .custom_created_at(Timestamp::from_secs(start + n as u64))
            .finalize(keys)
            .unwrap();
        json!(["EVENT", event]).to_string()
    };
    (0..count).into_par_iter().map(one).collect()
}
