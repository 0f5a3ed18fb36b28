//! Hosts that speak only the old protocol.

use anyhow::{Result, ensure};
use grip_testkit::{
    WorkTree,
    remote::{RemoteHost, Speaks},
};

use crate::support::*;

#[tokio::test]
async fn an_old_host_is_found_out_and_asked_for_its_tips() -> Result<()> {
    let host = RemoteHost::speaking("127.0.0.2", Speaks::V0).await?;
    let tree = WorkTree::with_commit()?;
    let first = tree.tip("HEAD")?;
    let url = host.host(&tree, "x.git")?;
    let desk = Desk::new();
    let fetched = desk.ask_on(&url, &[&first]).await?;
    ensure!(fetched.arrived == oids(&[&first]));
    ensure!(
        steps(&host) == ["fetch", "info/refs", "old fetch"],
        "{:?}",
        steps(&host)
    );

    // It is remembered as old.
    let second = tree.commit("more", "1")?;
    host.take(&tree, "x.git", &["main"])?;
    let fetched = desk.ask_on(&url, &[&second]).await?;
    ensure!(fetched.arrived == oids(&[&second]));
    ensure!(steps(&host)[3..] == ["info/refs", "old fetch"]);
    Ok(())
}

#[tokio::test]
async fn g02_9_heads_and_tags_are_fetched_where_ids_are_not_served() -> Result<()> {
    let host = RemoteHost::speaking("127.0.0.2", Speaks::V0).await?;
    let tree = WorkTree::with_commit()?;
    let inner = tree.tip("HEAD")?;
    let tip = tree.commit("more", "1")?;
    let url = host.host(&tree, "x.git")?;
    let desk = Desk::new();
    let fetched = desk.ask_on(&url, &[&inner, NOWHERE]).await?;
    ensure!(fetched.arrived == oids(&[&inner]));
    ensure!(
        desk.has(&inner) && !desk.has(&tip),
        "only the wanted one is kept"
    );
    ensure!(host.requests()[2].wants == [tip]);

    // What its refs do not lead to is not fetched again while they stay as they are.
    for _ in 0..3 {
        let fetched = desk.ask_on(&url, &[NOWHERE]).await?;
        ensure!(fetched.arrived.is_empty());
    }
    ensure!(steps(&host)[3..] == ["info/refs", "info/refs", "info/refs"]);
    Ok(())
}

#[tokio::test]
async fn an_empty_old_host_has_nothing() -> Result<()> {
    let host = RemoteHost::speaking("127.0.0.2", Speaks::V0).await?;
    let url = host.create("x.git")?;
    let desk = Desk::new();
    let fetched = desk.ask_on(&url, &[NOWHERE]).await?;
    ensure!(fetched.arrived.is_empty());
    ensure!(steps(&host) == ["fetch", "info/refs"]);
    Ok(())
}
