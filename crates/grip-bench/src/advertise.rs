//! Ref advertisements and listings.

use std::{path::Path, time::Instant};

use anyhow::{Result, ensure};

use crate::{fixture::Fixture, http::Connection, report::Table};

const CONNECTIONS: usize = 16;

pub async fn measure(binary: &Path, table: &mut Table) -> Result<()> {
    let fixture = Fixture::new(binary).await?;
    let info = format!(
        "{}/info/refs?service=git-upload-pack",
        fixture.project.path()
    );
    let v2 = rate(&fixture, 20_000, |c| {
        get(c, &info, "Git-Protocol: version=2\r\n")
    })
    .await?;
    let bare = rate(&fixture, 20_000, |c| get(c, "/healthz", "")).await?;
    let floor = format!("/healthz {bare:.0}/s");
    table.row(
        "info/refs v2, 16 connections",
        format!("{v2:.0}/s"),
        &floor,
        Some(v2 / bare),
        "759/s",
    );
    let peers = [(10, "579/s"), (1_000, "109/s"), (20_000, "6.5/s")];
    for (version, (count, peer)) in (1..).zip(peers) {
        let tip = fixture.project.tree.tip("HEAD")?;
        let names: Vec<String> = (1..count).map(|n| format!("refs/tags/v{n:05}")).collect();
        let mut refs = vec![("refs/heads/main", tip.as_str())];
        refs.extend(names.iter().map(|name| (name.as_str(), tip.as_str())));
        let mut relay = fixture.node.connect().await?;
        let answer = relay.publish_ok(&fixture.state(&refs, version)).await?;
        ensure!(answer.is_served(), "{answer:?}");
        let rounds = if count > 5_000 { 600 } else { 6_000 };
        let v0 = rate(&fixture, rounds, |c| get(c, &info, "")).await?;
        table.row(
            &format!("info/refs v0, {count} refs, 16 connections"),
            format!("{v0:.0}/s"),
            "–",
            None,
            peer,
        );
        let path = format!("{}/git-upload-pack", fixture.project.path());
        let listed = rate(&fixture, rounds, |c| list_refs(c, &path)).await?;
        table.row(
            &format!("ls-refs, {count} refs, 16 connections"),
            format!("{listed:.0}/s"),
            "–",
            None,
            "–",
        );
    }
    Ok(())
}

async fn get(mut connection: Connection, path: &str, headers: &str) -> Result<Connection> {
    let answer = connection.get(path, headers).await?;
    ensure!(!answer.body.is_empty());
    Ok(connection)
}

/// Lists refs in version 2 of the protocol; `path` is that of `git-upload-pack`.
pub async fn list_refs(mut connection: Connection, path: &str) -> Result<Connection> {
    let body = b"0014command=ls-refs\n0001000csymrefs\n0009peel\n0000";
    let kind = "application/x-git-upload-pack-request";
    let answer = connection
        .post(path, kind, "Git-Protocol: version=2\r\n", body)
        .await?;
    ensure!(answer.body.ends_with(b"0000"));
    Ok(connection)
}

/// Requests a second over all connections together.
async fn rate<F>(fixture: &Fixture, rounds: usize, ask: impl Fn(Connection) -> F) -> Result<f64>
where
    F: Future<Output = Result<Connection>>,
{
    let began = Instant::now();
    let asking = (0..CONNECTIONS).map(|_| async {
        let mut connection = Connection::open(fixture.node.port()).await?;
        for _ in 0..rounds / CONNECTIONS {
            connection = ask(connection).await?;
        }
        anyhow::Ok(())
    });
    futures_util::future::try_join_all(asking).await?;
    Ok(rounds as f64 / began.elapsed().as_secs_f64())
}
