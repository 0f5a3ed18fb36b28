//! Hosts that fail, refuse, lie, hang or flood.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use grip_egress::{EgressError, Phase};
use grip_git::{ReceiveError, remote::RemoteError};
use grip_limits::Lane;
use grip_sync::FetchError;
use grip_testkit::{
    WorkTree,
    remote::{Behaviour, RemoteHost},
    until, wire,
};
use grip_types::Domain;

use crate::support::*;

async fn host_with_commit() -> Result<(RemoteHost, String, String, WorkTree)> {
    let host = RemoteHost::start("127.0.0.2").await?;
    let tree = WorkTree::with_commit()?;
    let tip = tree.tip("HEAD")?;
    let url = host.host(&tree, "x.git")?;
    Ok((host, url, tip, tree))
}

#[tokio::test]
async fn refusals_are_told_and_cost_one_request_each() -> Result<()> {
    let (host, url, tip, _tree) = host_with_commit().await?;
    for (number, code) in [401, 403, 404, 410, 429, 500, 502, 503]
        .into_iter()
        .enumerate()
    {
        host.behave(Behaviour::status(code));
        let desk = Desk::new();
        let error = desk.ask(&url, &[&tip]).await.err().context("refused")?;
        let FetchError::Egress(EgressError::Status { status, .. }) = &error else {
            panic!("{error:?}");
        };
        ensure!(status.as_u16() == code && host.count() == number + 1);
        ensure!(!desk.has(&tip));
    }
    Ok(())
}

#[tokio::test]
async fn a_host_that_asks_us_to_wait_is_left_alone() -> Result<()> {
    let (host, url, tip, _tree) = host_with_commit().await?;
    for code in [429, 503] {
        host.behave(Behaviour::retry_after(code, 120));
        let desk = Desk::new();
        ensure!(desk.ask(&url, &[&tip]).await.is_err());
        let domain = Domain::parse(&host.domain())?;
        ensure!(desk.throttle.is_throttled(&domain, Lane::Git), "{code}");
    }
    Ok(())
}

#[tokio::test]
async fn a_host_that_fell_over_is_asked_in_the_old_way_next() -> Result<()> {
    let (host, url, tip, _tree) = host_with_commit().await?;
    host.script("x.git", [Behaviour::status(500), Behaviour::Serve]);
    let desk = Desk::new();
    ensure!(desk.ask(&url, &[&tip]).await.is_err());
    let fetched = desk.ask_on(&url, &[&tip]).await?;
    ensure!(fetched.arrived == oids(&[&tip]));
    ensure!(steps(&host) == ["fetch", "info/refs", "old fetch"]);
    Ok(())
}

#[tokio::test]
async fn a_web_page_is_not_git() -> Result<()> {
    let (host, url, tip, _tree) = host_with_commit().await?;
    host.behave(Behaviour::Page);
    let error = Desk::new().ask(&url, &[&tip]).await.err();
    ensure!(
        matches!(error, Some(FetchError::Remote(RemoteError::NotSmart))),
        "{error:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_host_that_sends_something_else_brings_nothing() -> Result<()> {
    let (host, url, tip, _tree) = host_with_commit().await?;
    let other = WorkTree::init()?;
    let foreign = other.commit("else", "entirely")?;
    let pack = wire::pack(&other, &foreign, None).await?;
    host.behave(Behaviour::Pack(pack.into()));
    let desk = Desk::new();
    let error = desk.ask(&url, &[&tip]).await.err();
    ensure!(
        matches!(error, Some(FetchError::NothingWanted)),
        "{error:?}"
    );
    ensure!(!desk.has(&foreign) && !desk.has(&tip));
    Ok(())
}

#[tokio::test]
async fn an_incomplete_history_is_not_kept() -> Result<()> {
    let (host, url, base, tree) = host_with_commit().await?;
    let tip = tree.commit("more", "1")?;
    // Only the newest commit, without what it stands on.
    let pack = wire::pack(&tree, &tip, Some(&base)).await?;
    host.behave(Behaviour::Pack(pack.into()));
    let desk = Desk::new();
    ensure!(desk.ask(&url, &[&tip]).await.is_err());
    ensure!(!desk.has(&tip));
    Ok(())
}

#[tokio::test]
async fn an_answer_that_breaks_off_leaves_nothing_behind() -> Result<()> {
    let (host, url, _, tree) = host_with_commit().await?;
    let tip = tree.commit_noise(1, 1)?;
    host.take(&tree, "x.git", &["main"])?;
    for bytes in [0, 3, 40, 100, 20_000, 500_000] {
        host.behave(Behaviour::CloseAfter { bytes });
        let desk = Desk::new();
        let asked = desk.ask(&url, &[&tip]).await;
        ensure!(
            asked.as_ref().is_ok_and(|f| f.arrived.is_empty()) || asked.is_err(),
            "{bytes}"
        );
        ensure!(!desk.has(&tip), "{bytes}");
        // The next try is none the worse for it.
        host.behave(Behaviour::Serve);
        let fetched = desk.ask_on(&url, &[&tip]).await?;
        ensure!(fetched.arrived == oids(&[&tip]));
    }
    Ok(())
}

#[tokio::test]
async fn g02_60_a_flood_is_cut_at_the_largest_pack() -> Result<()> {
    let (host, url, tip, _tree) = host_with_commit().await?;
    host.behave(Behaviour::Endless);
    let mut settings = Settings::default();
    settings.git.max_pack_bytes = 1 << 20;
    let desk = Desk::with(settings);
    let error = desk.ask(&url, &[&tip]).await.err();
    let is_cut = matches!(
        error,
        Some(FetchError::Receive(ReceiveError::TooBig {
            limit: 0x10_0000
        }))
    );
    ensure!(is_cut, "{error:?}");
    until("the host is hung up on", || {
        std::future::ready((host.in_flight() == 0).then_some(()))
    })
    .await
}

#[tokio::test]
async fn silence_ends_a_fetch() -> Result<()> {
    let (host, url, tip, _tree) = host_with_commit().await?;
    // A busy machine may take its time for the headers.
    for (silent, idle_ms, at) in [
        (Behaviour::HangAfter { bytes: 60 }, 2_500, Phase::Body),
        (Behaviour::HangBeforeHeaders, 100, Phase::Headers),
    ] {
        host.behave(silent);
        let mut settings = Settings::default();
        settings.egress.idle = Duration::from_millis(idle_ms);
        settings.egress.connect = Duration::from_millis(400);
        let error = Desk::with(settings).ask(&url, &[&tip]).await.err();
        let error = error.context("silence is an error")?;
        let text = format!("{:#}", anyhow::Error::from(error));
        ensure!(text.contains(&at.to_string()), "{text}");
    }
    Ok(())
}

#[tokio::test]
async fn a_host_that_is_not_there_is_an_error() -> Result<()> {
    let (host, url, tip, _tree) = host_with_commit().await?;
    drop(host);
    let desk = Desk::new();
    let error = desk.ask(&url, &[&tip]).await.err();
    let is_away = matches!(
        error,
        Some(FetchError::Egress(EgressError::Unreachable { .. }))
    );
    ensure!(is_away, "{error:?}");
    ensure!(desk.throttle.failures(&Domain::parse("127.0.0.2")?) == 1);
    Ok(())
}

#[tokio::test]
async fn a_fetch_that_is_given_up_leaves_nothing_behind() -> Result<()> {
    let (host, url, _, tree) = host_with_commit().await?;
    let tip = tree.commit_noise(1, 1)?;
    host.take(&tree, "x.git", &["main"])?;
    host.behave(Behaviour::HangAfter { bytes: 300_000 });
    let desk = Desk::new();
    let wants = [tip.as_str()];
    let asking = desk.ask(&url, &wants);
    let under_way = until("the pack is on its way", || {
        std::future::ready((desk.packs_in_quarantine() > 0).then_some(()))
    });
    tokio::select! {
        asked = asking => panic!("the host hangs: {asked:?}"),
        seen = under_way => seen?,
    }
    until("nothing is left", || {
        let hosts = desk.throttle.hosts();
        let free = hosts.iter().all(|host| host.in_flight == 0);
        std::future::ready((free && desk.packs_in_quarantine() == 0).then_some(()))
    })
    .await?;
    ensure!(!desk.has(&tip));
    Ok(())
}

#[tokio::test]
async fn nobody_is_asked_while_the_disk_is_nearly_full() -> Result<()> {
    let (host, url, tip, _tree) = host_with_commit().await?;
    let mut settings = Settings::default();
    settings.git.min_free_bytes = u64::MAX;
    let desk = Desk::with(settings);
    let error = desk.ask(&url, &[&tip]).await.err().context("no room")?;
    ensure!(matches!(error, FetchError::DiskFull(u64::MAX)), "{error:?}");
    ensure!(error.to_string().starts_with("less than "));
    ensure!(host.count() == 0 && !desk.has(&tip));
    let started: u64 = desk
        .throttle
        .hosts()
        .iter()
        .map(|host| host.requests_total)
        .sum();
    ensure!(started == 0, "no start is counted");
    Ok(())
}

#[tokio::test]
async fn a_host_that_trickles_is_given_up() -> Result<()> {
    let (host, url, _, tree) = host_with_commit().await?;
    let tip = tree.commit_noise(1, 1)?;
    host.take(&tree, "x.git", &["main"])?;
    let every = Duration::from_millis(20);
    host.behave(Behaviour::Trickle { bytes: 64, every });
    let mut settings = Settings::default();
    settings.git.rate_grace = Duration::from_secs(1);
    let desk = Desk::with(settings);
    let error = desk.ask(&url, &[&tip]).await.err().context("given up")?;
    let text = grip_types::ErrorChain(&error).to_string();
    ensure!(text.contains("less than 8192 bytes a second"), "{text}");
    ensure!(desk.meter.received() > 0 && !desk.has(&tip));
    Ok(())
}

#[tokio::test]
async fn all_that_a_host_sends_is_counted_of_use_or_not() -> Result<()> {
    let (host, url, _, tree) = host_with_commit().await?;
    let tip = tree.commit_noise(1, 1)?;
    host.take(&tree, "x.git", &["main"])?;
    let desk = Desk::new();
    desk.ask(&url, &[&tip]).await?;
    let of_use = desk.meter.received();
    ensure!(of_use > 1 << 20, "{of_use}");
    host.behave(Behaviour::CloseAfter { bytes: 500_000 });
    let desk = Desk::new();
    ensure!(desk.ask(&url, &[&tip]).await.is_err());
    let received = desk.meter.received();
    ensure!((400_000..=500_000).contains(&received), "{received}");
    Ok(())
}
