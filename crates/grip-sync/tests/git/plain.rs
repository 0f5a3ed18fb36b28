//! Hosts of today.

use anyhow::{Result, ensure};
use grip_sync::FetchError;
use grip_testkit::{
    Author, WorkTree,
    remote::{Behaviour, RemoteHost},
};
use grip_types::{RefEdit, RefName, RepoAddr};

use crate::support::*;

#[tokio::test]
async fn g02_57_all_wants_come_with_one_request() -> Result<()> {
    let host = RemoteHost::start("127.0.0.2").await?;
    let tree = WorkTree::with_commit()?;
    let inner = tree.tip("HEAD")?;
    let main = tree.commit("more", "1")?;
    tree.git(["checkout", "-q", "-b", "other", &inner])?;
    let other = tree.commit("else", "2")?;
    tree.git(["tag", "-a", "v1", "-m", "one"])?;
    let tag = tree.tip("v1")?;
    let url = host.host(&tree, "x.git")?;

    let desk = Desk::new();
    let wants = [main.as_str(), &other, &tag, &inner];
    let fetched = desk.ask(&url, &wants).await?;
    ensure!(fetched.arrived == oids(&wants) && !fetched.resume);
    ensure!(wants.iter().all(|oid| desk.has(oid)));
    let requests = host.requests();
    ensure!(requests.len() == 1, "{requests:?}");
    ensure!(requests[0].wants.len() == 4 && requests[0].headers["git-protocol"] == "version=2");
    Ok(())
}

#[tokio::test]
async fn what_is_here_is_not_sent_again() -> Result<()> {
    let host = RemoteHost::start("127.0.0.2").await?;
    let tree = WorkTree::with_commit()?;
    let old = tree.commit_noise(1, 1)?;
    let url = host.host(&tree, "x.git")?;
    let desk = Desk::new();
    desk.ask(&url, &[&old]).await?;
    let repo = RepoAddr::new(Author::new().pubkey(), desk.identifier.clone());
    desk.repositories.create(&repo)?;
    let edit = RefEdit {
        name: RefName::parse("refs/heads/main")?,
        old: None,
        new: Some(parse(&old)),
    };
    desk.repositories.update_refs(&repo, &[edit], None)?;
    let new = tree.commit("small", "1")?;
    host.take(&tree, "x.git", &["main"])?;
    // The whole history would not come through.
    let cut = Behaviour::CloseAfter { bytes: 200_000 };
    host.behave(cut);
    let fetched = desk.ask(&url, &[&new]).await;
    ensure!(fetched.is_ok_and(|fetched| fetched.arrived == oids(&[&new])));
    Ok(())
}

#[tokio::test]
async fn g02_57_a_partial_host_is_asked_for_what_its_refs_show() -> Result<()> {
    let host = RemoteHost::start("127.0.0.2").await?;
    let tree = WorkTree::with_commit()?;
    let main = tree.tip("HEAD")?;
    let url = host.host(&tree, "x.git")?;
    let desk = Desk::new();
    let wants = [main.as_str(), NOWHERE];

    let first = desk.ask(&url, &wants).await?;
    ensure!(first.resume && first.arrived.is_empty() && first.note.contains("does not have"));
    let second = desk.ask(&url, &wants).await?;
    ensure!(second.resume && second.arrived.is_empty());
    let third = desk.ask(&url, &wants).await?;
    ensure!(!third.resume && third.arrived == oids(&[&main]));
    ensure!(steps(&host) == ["fetch", "ls-refs", "fetch"]);
    ensure!(host.requests()[2].wants == [main]);

    // Later attempts cost one small request each.
    for _ in 0..3 {
        let later = desk.ask(&url, &[NOWHERE]).await?;
        ensure!(!later.resume && later.arrived.is_empty());
    }
    ensure!(steps(&host)[3..] == ["ls-refs", "ls-refs", "ls-refs"]);
    Ok(())
}

#[tokio::test]
async fn made_up_tips_do_not_hold_up_a_state_that_the_host_has_moved_on_from() -> Result<()> {
    let host = RemoteHost::start("127.0.0.2").await?;
    let tree = WorkTree::with_commit()?;
    let past = tree.tip("HEAD")?;
    tree.commit("more", "1")?;
    let url = host.host(&tree, "x.git")?;
    let desk = Desk::new();
    let made_up: Vec<String> = (1..100).map(|n| format!("{n:040x}")).collect();
    let mut wants: Vec<&str> = made_up.iter().map(String::as_str).collect();
    wants.push(&past);

    ensure!(desk.ask_with(&url, &wants, &[&past]).await?.resume);
    ensure!(!desk.ask_with(&url, &wants, &[&past]).await?.resume);
    let fetched = desk.ask_with(&url, &wants, &[&past]).await?;
    ensure!(fetched.arrived == oids(&[&past]) && desk.has(&past));
    ensure!(steps(&host) == ["fetch", "ls-refs", "fetch"]);
    ensure!(host.requests()[0].wants.len() == wants.len());
    Ok(())
}

/// G02-59: another advertisement than before clears what was missed.
#[tokio::test]
async fn g02_59_a_late_push_to_a_partial_host_is_seen_in_its_refs() -> Result<()> {
    let host = RemoteHost::start("127.0.0.2").await?;
    let tree = WorkTree::with_commit()?;
    let url = host.host(&tree, "x.git")?;
    let late = tree.commit("late", "1")?;
    let desk = Desk::new();
    let fetched = desk.ask_on(&url, &[&late]).await?;
    ensure!(fetched.arrived.is_empty());
    host.take(&tree, "x.git", &["main"])?;
    let fetched = desk.ask_on(&url, &[&late]).await?;
    ensure!(fetched.arrived == oids(&[&late]));
    ensure!(steps(&host) == ["fetch", "ls-refs", "fetch"]);
    Ok(())
}

#[tokio::test]
async fn partial_data_of_several_hosts_adds_up() -> Result<()> {
    let tree = WorkTree::with_commit()?;
    let first = tree.tip("HEAD")?;
    let one = RemoteHost::start("127.0.0.2").await?;
    let url_one = one.host(&tree, "x.git")?;
    tree.git(["checkout", "-q", "--orphan", "alone"])?;
    let second = tree.commit("else", "1")?;
    let two = RemoteHost::start("127.0.0.3").await?;
    let url_two = two.create("x.git")?;
    two.take(&tree, "x.git", &["alone"])?;
    let desk = Desk::new();
    let wants = [first.as_str(), &second];
    let fetched = desk.ask_on(&url_one, &wants).await?;
    ensure!(fetched.arrived == oids(&[&first]));
    let fetched = desk.ask_on(&url_two, &[&second]).await?;
    ensure!(fetched.arrived == oids(&[&second]));
    ensure!(desk.has(&first) && desk.has(&second));
    Ok(())
}

#[tokio::test]
async fn redirects_are_followed_and_paid_for() -> Result<()> {
    let old = RemoteHost::start("127.0.0.2").await?;
    let new = RemoteHost::start("127.0.0.3").await?;
    let tree = WorkTree::with_commit()?;
    let tip = tree.tip("HEAD")?;
    let to = new.host(&tree, "moved.git")?;
    for status in [307, 308] {
        old.behave(Behaviour::Redirect {
            status,
            to: to.clone(),
        });
        let desk = Desk::new();
        let fetched = desk.ask(&old.clone_url("x.git"), &[&tip]).await?;
        ensure!(fetched.arrived == oids(&[&tip]));
        let started: Vec<_> = desk.throttle.hosts().iter().map(|h| h.started).collect();
        ensure!(started == [1, 1]);
    }
    ensure!((old.count(), new.count()) == (2, 2));
    Ok(())
}

#[tokio::test]
async fn our_own_service_is_never_asked() -> Result<()> {
    let desk = Desk::new();
    let asked = desk.ask("https://grip.example/x.git", &[NOWHERE]).await;
    ensure!(matches!(asked, Err(FetchError::Forbidden(_))));
    ensure!(desk.throttle.hosts().iter().all(|host| host.started == 0));
    Ok(())
}

#[tokio::test]
async fn g02_60_only_what_is_wanted_is_kept() -> Result<()> {
    let host = RemoteHost::start("127.0.0.2").await?;
    let tree = WorkTree::with_commit()?;
    let wanted = tree.tip("HEAD")?;
    tree.git(["checkout", "-q", "--orphan", "alone"])?;
    let extra = tree.commit("else", "1")?;
    tree.git(["checkout", "-q", "-b", "both", &wanted])?;
    tree.git([
        "merge",
        "-q",
        "--allow-unrelated-histories",
        "-m",
        "both",
        &extra,
    ])?;
    let both = tree.tip("HEAD")?;
    let url = host.host(&tree, "x.git")?;
    // The host sends far more than it was asked for.
    let pack = grip_testkit::wire::pack(&tree, &both, None).await?;
    host.behave(Behaviour::Pack(pack.into()));
    let desk = Desk::new();
    let fetched = desk.ask(&url, &[&wanted]).await?;
    ensure!(fetched.arrived == oids(&[&wanted]) && desk.has(&wanted));
    ensure!(!desk.has(&extra) && !desk.has(&both));
    Ok(())
}
