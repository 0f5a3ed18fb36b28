//! Messages and events that are attacks.

use std::net::Ipv4Addr;

use anyhow::{Result, ensure};
use grip_testkit::{Author, events::tag, http::Connection, until_ok};
use nostr::prelude::Timestamp;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::hostile::scene::{NO_PROXY, Scene};

#[tokio::test]
async fn bad_frames_get_a_notice_and_the_connection_lives() -> Result<()> {
    let mut scene = Scene::new().await?;
    for bad in [
        "",
        "null",
        "{}",
        "[]",
        "[1]",
        "[\"EVENT\"]",
        "[\"REQ\"]",
        "[\"REQ\",1,{}]",
        "[\"NOPE\",1]",
        "[\"EVENT\",{}]",
        "[\"EVENT\",[]]",
        "[\"CLOSE\"]",
        "[\"COUNT\"]",
        "[\"NEG-MSG\"]",
        "not json",
        "[\"REQ\",\"\",{}]",
        "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
        "\u{0}",
    ] {
        scene.relay.send_text(bad).await?;
        let answer = scene.relay.next().await?;
        let answer = answer.unwrap_or_else(|| panic!("the connection was closed by {bad:?}"));
        let kind = answer[0].as_str().unwrap_or_default();
        ensure!(
            ["NOTICE", "CLOSED", "OK", "NEG-ERR"].contains(&kind),
            "{bad:?}: {answer}"
        );
    }
    let binary = Message::binary(vec![1, 2, 3]);
    scene.relay.send_message(binary).await?;
    let filters = [
        json!({"search": "x"}),
        json!({"#clone": ["x"]}),
        json!({"ids": ["short"]}),
        json!({"unknown": 1}),
    ];
    for filter in filters {
        let mut fresh = scene.node.connect().await?;
        fresh.send(json!(["REQ", "bad", filter])).await?;
        let closed = fresh.expect("CLOSED", |m| m[0] == "CLOSED").await?;
        let reason = closed[2].as_str().unwrap_or_default();
        ensure!(
            reason.starts_with("unsupported:") || reason.starts_with("invalid:"),
            "{closed}"
        );
    }
    scene.goes_on().await
}

#[tokio::test]
async fn forged_and_malformed_events_are_invalid() -> Result<()> {
    let mut scene = Scene::new().await?;
    let author = Author::new();
    let issue = author.issue(&scene.project.owner, &scene.project.identifier, "real");
    let forge = |change: fn(&mut Value)| {
        let mut event = json!(issue);
        change(&mut event);
        event
    };
    let forgeries = [
        forge(|e| e["content"] = json!("changed")),
        forge(|e| e["sig"] = json!("ab".repeat(64))),
        forge(|e| e["created_at"] = json!(1.5)),
        forge(|e| e["created_at"] = json!(-1)),
        forge(|e| e["kind"] = json!(70_000)),
        forge(|e| e["tags"] = json!([[1, 2]])),
        forge(|e| e["tags"] = json!([[]])),
        forge(|e| e["pubkey"] = json!("AB".repeat(32))),
        forge(|e| e["content"] = json!(null)),
    ];
    for forged in forgeries {
        scene.relay.send(json!(["EVENT", forged])).await?;
        let answer = scene.relay.answer(&issue.id).await?;
        ensure!(
            !answer.accepted && answer.message.starts_with("invalid:"),
            "{answer:?}"
        );
    }
    let now = Timestamp::now();
    let coordinate = scene.project.coordinate();
    let expired = (now - 60_u64).as_secs().to_string();
    for (more, at) in [
        (tag(["subject", "future"]), now + 7_200_u64),
        (tag(["expiration", &expired]), now),
        (tag(["-"]), now),
    ] {
        let tags = vec![tag(["a", &coordinate]), more];
        let event = author.sign_at(1621, "", tags, at);
        let answer = scene.relay.publish(&event).await?;
        ensure!(!answer.accepted, "{answer:?}");
    }
    ensure!(
        scene.relay.publish(&issue).await?.is_served(),
        "the real one is taken"
    );
    scene.goes_on().await
}

#[tokio::test]
async fn events_beyond_the_limits_are_refused_with_their_id() -> Result<()> {
    let mut scene = Scene::new().await?;
    let author = Author::new();
    let coordinate = scene.project.coordinate();
    for (length, tags) in [(600_000, 0), (0, 30_000)] {
        let more = (0..tags).map(|n| tag(["t", &n.to_string()]));
        let tags = std::iter::once(tag(["a", &coordinate])).chain(more);
        let event = author.sign(1621, &"x".repeat(length), tags.collect());
        let answer = scene.relay.publish(&event).await?;
        let is_invalid = !answer.accepted && answer.message.starts_with("invalid:");
        ensure!(is_invalid, "{answer:?}");
    }
    scene.goes_on().await
}

#[tokio::test]
async fn a_reader_that_never_reads_is_cut_and_others_hear_everything() -> Result<()> {
    let mut scene = Scene::new().await?;
    let mut lazy = scene.node.connect().await?;
    let lazy_sub = lazy.subscribe(&[json!({"kinds": [1621]})]).await?;
    lazy.stored(&lazy_sub).await?;
    let mut keen = scene.node.connect().await?;
    let sub = keen
        .subscribe(&[json!({"kinds": [1621], "limit": 0})])
        .await?;
    keen.stored(&sub).await?;
    let author = Author::new();
    let coordinate = scene.project.coordinate();
    let text = "x".repeat(100_000);
    let before = scene.node.peak_rss_bytes()?;
    for n in 0..400 {
        let tags = vec![tag(["a", &coordinate]), tag(["subject", &n.to_string()])];
        let event = author.sign(1621, &text, tags);
        scene.relay.publish_ok(&event).await?;
        ensure!(keen.live(&sub).await?.id == event.id);
    }
    let after = scene.node.peak_rss_bytes()?;
    let is_bounded = after < before + (160 << 20);
    ensure!(is_bounded, "memory grew: {before} {after}");
    scene.goes_on().await
}

#[tokio::test]
async fn negentropy_garbage_is_an_error_not_an_end() -> Result<()> {
    let mut scene = Scene::new().await?;
    for bad in ["", "zz", "61", "61ff", "6100000105", &"61".repeat(40)] {
        let open = json!(["NEG-OPEN", "n", {"kinds": [30617]}, bad]);
        scene.relay.send(open).await?;
        let is_answer = |m: &Value| m[1] == "n" || m[0] == "NOTICE";
        let answer = scene.relay.expect("an answer", is_answer).await?;
        ensure!(
            ["NEG-ERR", "NEG-MSG", "NOTICE"].contains(&answer[0].as_str().unwrap_or("")),
            "{answer}"
        );
    }
    let message = json!(["NEG-MSG", "never-opened", "61"]);
    scene.relay.send(message).await?;
    let is_error = |m: &Value| m[0] == "NEG-ERR" && m[1] == "never-opened";
    let answer = scene.relay.expect("NEG-ERR", is_error).await?;
    let reason = answer[2].as_str().unwrap_or_default();
    ensure!(reason.starts_with("closed:"), "{answer}");
    scene.goes_on().await
}

#[tokio::test]
async fn deletion_requests_of_one_key_are_bounded_in_bytes() -> Result<()> {
    let mut scene = Scene::new().await?;
    let author = Author::new();
    let text = "x".repeat(100_000);
    let mut refused = Vec::new();
    for n in 0..13 {
        let target = tag(["e", &format!("{n:064x}")]);
        let answer = scene
            .relay
            .publish(&author.sign(5, &text, vec![target]))
            .await?;
        if !answer.accepted {
            refused.push(answer.message);
        }
    }
    ensure!(refused.len() == 2, "{refused:?}");
    ensure!(refused.iter().all(|text| text.starts_with("rate-limited:")));
    scene.goes_on().await
}

#[tokio::test]
async fn the_event_store_is_compacted_under_load_and_a_kill_loses_nothing() -> Result<()> {
    let mut scene = Scene::new().await?;
    let author = Author::new();
    let coordinate = scene.project.coordinate();
    let mut taken = Vec::new();
    for round in 0..3 {
        let compacting = scene.node.command(&["compact"]).output();
        let publishing = async {
            for n in 0..40 {
                let tags = vec![tag(["a", &coordinate]), tag(["subject", &n.to_string()])];
                let event = author.sign(1621, &format!("{round} {n}"), tags);
                scene.relay.publish_ok(&event).await?;
                taken.push(event.id);
            }
            anyhow::Ok(())
        };
        let (compacted, published) = tokio::join!(compacting, publishing);
        published?;
        let compacted = compacted?;
        ensure!(compacted.status.success(), "{compacted:?}");
    }
    // Killed while another is under way.
    let compacting = scene.node.command(&["compact"]).spawn();
    scene.node.crash_and_restart().await?;
    drop(compacting);
    scene.relay = scene.node.connect().await?;
    for id in &taken {
        ensure!(scene.relay.serves(id).await?, "{id} is gone");
    }
    scene.goes_on().await
}

/// A frame takes its whole length of memory as soon as its head is there. So frames that are announced
/// and never sent count against their sender's network, and it is cut off before they do harm.
#[tokio::test]
async fn frames_that_are_half_there_take_no_more_than_the_share_of_their_network() -> Result<()> {
    const MIB: u64 = 1 << 20;
    let env = [NO_PROXY, ("GRIPFAST_RELAY_MEMORY_BYTES", "72 MiB")];
    let mut scene = Scene::with(&env).await?;
    let before = scene.node.anonymous_rss_bytes()?;
    let stranger = Ipv4Addr::new(127, 1, 0, 1);
    let headers = [
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    let (mut held, mut cut) = (Vec::new(), 0);
    for n in 0..200 {
        let mut connection = Connection::open_from(stranger, scene.node.port()).await?;
        connection.ask("GET", "/", &headers, b"").await?;
        let head = [&[0x81, 0xff][..], &2_000_000_u64.to_be_bytes(), &[0; 4]].concat();
        connection.send(&head).await?;
        // Some send most of it, others nothing at all.
        if n % 2 == 0 {
            cut += usize::from(connection.send(&vec![b'x'; 1_500_000]).await.is_err());
        }
        held.push(connection);
    }
    // A ninth of 72 MiB are four frames.
    let grown = scene.node.anonymous_rss_bytes()?.saturating_sub(before);
    ensure!(grown < 64 * MIB, "{} MiB more, {cut} cut", grown / MIB);
    until_ok("all but a few are cut off", async || {
        let metrics = scene.node.get("/metrics").await?.text();
        let open = metrics
            .lines()
            .find_map(|line| line.strip_prefix("ngit_websocket_connections_active "));
        let open: f64 = open.unwrap_or("0").parse()?;
        Ok((open < 20.0).then_some(()))
    })
    .await?;
    drop(held);
    scene.goes_on().await
}
