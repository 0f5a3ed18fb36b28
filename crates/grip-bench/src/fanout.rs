//! Live delivery to a thousand subscribers.

use std::{io::Write as _, path::Path, time::Instant};

use anyhow::{Context as _, Result};
use futures_util::{SinkExt as _, StreamExt as _};
use grip_testkit::{Author, Node};
use serde_json::json;
use tokio::{io::AsyncReadExt as _, net::TcpStream};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream,
    tungstenite::{Message, protocol::WebSocketConfig},
};

use crate::{fixture::Fixture, report::Table};

const SUBSCRIBERS: usize = 1_000;
const EVENTS: usize = 60;
/// About what one of the events is on the wire.
const FRAME_BYTES: usize = 880;

pub async fn measure(binary: &Path, table: &mut Table) -> Result<()> {
    let fixture = Fixture::new(binary).await?;
    let before = fixture.node.anonymous_rss_bytes()?;
    let mut sockets = subscribe(&fixture.node, SUBSCRIBERS).await?;
    let idle =
        (fixture.node.anonymous_rss_bytes()?.saturating_sub(before)) as f64 / SUBSCRIBERS as f64;
    let events = fixture.issues(&[Author::new()], EVENTS);
    let mut relay = fixture.node.connect().await?;
    let cpu = fixture.cpu_seconds()?;
    let began = Instant::now();
    let hearing = sockets.iter_mut().map(|socket| async move {
        let mut heard = 0;
        while heard < EVENTS {
            let message = socket.next().await.context("a subscriber was cut off")??;
            heard += usize::from(message.is_text());
        }
        anyhow::Ok(heard)
    });
    let telling = async {
        for event in &events {
            relay.publish_ok(event).await?;
        }
        anyhow::Ok(())
    };
    let (heard, told) = tokio::join!(futures_util::future::try_join_all(hearing), telling);
    told?;
    let deliveries: usize = heard?.iter().sum();
    let seconds = began.elapsed().as_secs_f64();
    let each = (fixture.cpu_seconds()? - cpu) / deliveries as f64 * 1e6;
    let value = format!(
        "{:.0} deliveries/s, {each:.1} µs CPU each, none lost",
        deliveries as f64 / seconds
    );
    let floor = plain_sends().await?;
    table.row(
        "live fan-out, 1,000 subscribers",
        value,
        &format!("plain TCP sends {floor:.1} µs each"),
        Some(each / floor),
        "35 k/s, 28 µs each",
    );
    let value = format!("{:.0} kB", idle / 1_000.0);
    table.row("memory per idle subscriber", value, "–", None, "118 kB");
    Ok(())
}

/// Subscribers of live issues that have heard all that is stored.
pub async fn subscribe(
    node: &Node,
    count: usize,
) -> Result<Vec<WebSocketStream<MaybeTlsStream<TcpStream>>>> {
    let config = WebSocketConfig::default()
        .read_buffer_size(8 * 1024)
        .write_buffer_size(0);
    let mut sockets = Vec::with_capacity(count);
    for _ in 0..count {
        let url = node.relay_url();
        let (mut socket, _) =
            tokio_tungstenite::connect_async_with_config(url, Some(config), true).await?;
        socket
            .send(Message::text(
                json!(["REQ", "live", {"kinds": [1621], "limit": 0}]).to_string(),
            ))
            .await?;
        loop {
            let message = socket.next().await.context("closed")??;
            if message.to_text()?.starts_with(r#"["EOSE""#) {
                break;
            }
        }
        sockets.push(socket);
    }
    Ok(sockets)
}

/// Microseconds of CPU that a bare thread takes to send as many bytes to as many readers.
async fn plain_sends() -> Result<f64> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let (mut senders, mut readers) = (Vec::new(), Vec::new());
    for _ in 0..SUBSCRIBERS {
        let (reader, accepted) = tokio::try_join!(TcpStream::connect(address), listener.accept())?;
        let sender = accepted.0.into_std()?;
        sender.set_nonblocking(false)?;
        sender.set_nodelay(true)?;
        senders.push(sender);
        readers.push(reader);
    }
    let sending = tokio::task::spawn_blocking(move || {
        let frame = [b'x'; FRAME_BYTES];
        let before = thread_cpu_seconds()?;
        for _ in 0..EVENTS {
            for sender in &mut senders {
                sender.write_all(&frame)?;
            }
        }
        let deliveries = (EVENTS * SUBSCRIBERS) as f64;
        anyhow::Ok((thread_cpu_seconds()? - before) / deliveries * 1e6)
    });
    let hearing = readers.iter_mut().map(|reader| async move {
        let mut buffer = vec![0; FRAME_BYTES * EVENTS];
        reader.read_exact(&mut buffer).await
    });
    let (sent, heard) = tokio::join!(sending, futures_util::future::try_join_all(hearing));
    heard?;
    sent?
}

/// CPU this thread has used.
fn thread_cpu_seconds() -> Result<f64> {
    crate::fixture::cpu_seconds("/proc/thread-self/stat")
}
