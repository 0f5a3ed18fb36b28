//! Live delivery to a thousand subscribers.

use std::{path::Path, time::Instant};

use anyhow::{Context as _, Result};
use futures_util::{SinkExt as _, StreamExt as _};
use grip_testkit::Author;
use serde_json::json;
use tokio_tungstenite::tungstenite::{Message, protocol::WebSocketConfig};

use crate::{report::Table, world::World};

const SUBSCRIBERS: usize = 1_000;
const EVENTS: usize = 60;

pub async fn measure(binary: &Path, table: &mut Table) -> Result<()> {
    let world = World::new(binary).await?;
    let before = world.node.anonymous_rss_bytes()?;
    let config = WebSocketConfig::default()
        .read_buffer_size(8 * 1024)
        .write_buffer_size(0);
    let mut sockets = Vec::with_capacity(SUBSCRIBERS);
    for _ in 0..SUBSCRIBERS {
        let url = world.node.relay_url();
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
    let idle =
        (world.node.anonymous_rss_bytes()?.saturating_sub(before)) as f64 / SUBSCRIBERS as f64;
    let events = world.issues(&[Author::new()], EVENTS);
    let mut relay = world.node.connect().await?;
    let cpu = world.cpu_seconds()?;
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
    let each = (world.cpu_seconds()? - cpu) / deliveries as f64 * 1e6;
    let value = format!(
        "{:.0} deliveries/s, {each:.1} µs CPU each, none lost",
        deliveries as f64 / seconds
    );
    table.row(
        "live fan-out, 1,000 subscribers",
        value,
        "5.3 µs each",
        Some(each / 5.3),
        "35 k/s, 28 µs each",
    );
    let value = format!("{:.0} kB", idle / 1_000.0);
    table.row("memory per idle subscriber", value, "–", None, "118 kB");
    Ok(())
}
