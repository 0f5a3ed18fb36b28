//! Contributors without a repository of their own (GRASP-06): what is on disk and when, what a kill
//! leaves, whose share is used up, what the operator sees.

use std::{collections::BTreeSet, path::PathBuf};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{
    Author, GitOutput, LocalProject, Node, WorkTree,
    damage::{DAMAGE, Files, Repair},
    events::tag,
    git, until,
};
use nostr::prelude::{Event, EventId, Timestamp};
use rustix::process::Signal;
use serde_json::Value;

use crate::BINARY;

const ON: (&str, &str) = ("NGIT_GRASP06_ENABLE", "true");

struct Contributor {
    author: Author,
    owner: Author,
    identifier: String,
    tree: WorkTree,
    tip: String,
}

impl Contributor {
    fn new(identifier: &str) -> Result<Self> {
        Self::to(&Author::new(), identifier)
    }

    fn to(owner: &Author, identifier: &str) -> Result<Self> {
        let (author, tree) = (Author::new(), WorkTree::with_commit()?);
        let tip = tree.commit(&author.hex()[..8], "x")?;
        Ok(Self {
            author,
            owner: owner.clone(),
            identifier: identifier.to_owned(),
            tree,
            tip,
        })
    }

    fn url(&self, node: &Node) -> String {
        let (http, npub) = (node.http_url(), self.author.npub());
        format!("{http}/prs/{npub}/{}.git", self.identifier)
    }

    fn directory(&self, node: &Node) -> PathBuf {
        let all = node.data_dir().join("git/.prs").join(self.author.npub());
        all.join(format!("{}.git", self.identifier))
    }

    fn pull_request(&self, node: &Node) -> Event {
        self.request_at(node, &self.tip, Vec::new())
    }

    fn request_at(&self, node: &Node, tip: &str, more: Vec<Vec<String>>) -> Event {
        let mut tags = vec![
            tag(["a", &self.owner.coordinate(&self.identifier)]),
            tag(["c", tip]),
            tag(["clone", &self.url(node)]),
        ];
        tags.extend(more);
        self.author.sign(1618, "", tags)
    }

    async fn push(&self, node: &Node, tip: &str, id: &EventId) -> Result<GitOutput> {
        let refspec = format!("{tip}:{}", name_of(id));
        self.tree.push(&self.url(node), &[&refspec]).await
    }

    async fn push_ok(&self, node: &Node, event: &Event) -> Result<()> {
        let output = self.push(node, &self.tip, &event.id).await?;
        ensure!(output.ok, "{}", output.stderr);
        Ok(())
    }

    async fn names(&self, node: &Node) -> Result<Vec<String>> {
        let refs = git::ls_remote(&self.url(node)).await?;
        Ok(refs.into_iter().map(|(name, _)| name).collect())
    }

    async fn served(&self, node: &Node) -> Result<Event> {
        let event = self.pull_request(node);
        self.push_ok(node, &event).await?;
        let answer = node.connect().await?.publish(&event).await?;
        ensure!(answer.is_served(), "{answer:?}");
        Ok(event)
    }
}

fn name_of(id: &EventId) -> String {
    format!("refs/nostr/{}", id.to_hex())
}

async fn agrees(node: &Node) -> Result<()> {
    let said = node.run(&["check", "--full"]).await?;
    ensure!(said.contains("relay and git agree"), "{said}");
    Ok(())
}

/// G06-3, G06-10: reading makes nothing, nor does a refused push; the last ref takes all with it.
#[tokio::test]
async fn a_contributor_repository_is_on_disk_while_it_has_refs() -> Result<()> {
    let node = Node::start_with(BINARY, &[ON]).await?;
    let it = Contributor::new("sails")?;
    let all = node.data_dir().join("git/.prs");
    ensure!(it.names(&node).await?.is_empty());
    WorkTree::clone(&it.url(&node), &[]).await?;
    let refused = it
        .tree
        .push(&it.url(&node), &["HEAD:refs/heads/main"])
        .await?;
    ensure!(!refused.ok);
    ensure!(!it.directory(&node).exists(), "nothing was accepted yet");

    let first = it.served(&node).await?;
    let again = it.request_at(&node, &it.tip, vec![tag(["subject", "again"])]);
    it.push_ok(&node, &again).await?;
    ensure!(it.directory(&node).exists());
    agrees(&node).await?;
    let mut relay = node.connect().await?;
    relay.publish_ok(&again).await?;
    for event in [&first, &again] {
        ensure!(it.directory(&node).exists());
        relay
            .publish_ok(&it.author.delete_events(&[event.id]))
            .await?;
    }
    ensure!(it.names(&node).await?.is_empty());
    ensure!(!it.directory(&node).exists());
    ensure!(!all.join(it.author.npub()).exists());
    let records = node.data_dir().join("git/.staged/.prs");
    let left = std::fs::read_dir(records)?.count();
    ensure!(left == 0, "{left} records are left");
    agrees(&node).await
}

/// What a contributor repository has is nowhere else: reading everything names each that is damaged, a repair
/// touches none of them, and the others are whole.
#[tokio::test]
async fn damage_below_prs_is_named_and_left_to_a_person() -> Result<()> {
    let node = Node::start_with(BINARY, &[ON]).await?;
    let sound = Contributor::new("sound")?;
    sound.served(&node).await?;
    let mut harmed = Vec::new();
    // Of its directory alone a check knows nothing: the next start looks for the data of what it showed.
    let kinds = DAMAGE.iter().filter(|kind| kind.repair == Repair::ByFetch);
    for (n, kind) in kinds
        .filter(|kind| kind.name != "store missing")
        .enumerate()
    {
        let it = Contributor::new(&format!("harmed-{n}"))?;
        it.served(&node).await?;
        harmed.push((kind, it));
    }
    agrees(&node).await?;
    let mut left = Vec::new();
    for (kind, it) in &harmed {
        let files = Files::of_contributor(&node.data_dir(), &it.author.npub(), &it.identifier);
        kind.harm(&files)?;
        left.push((files.contents()?, files));
    }
    for arguments in [&["--repair"][..], &[]] {
        let arguments = [&["check", "--full", "--json"], arguments].concat();
        let checked = node.command(&arguments).output().await?;
        ensure!(!checked.status.success());
        let checked: Value = serde_json::from_slice(&checked.stdout)?;
        let found = checked["disagreements"].as_array().context("a list")?;
        let named = found.iter().filter_map(|it| it["repository"].as_str());
        let named: BTreeSet<&str> = named.collect();
        for (kind, it) in &harmed {
            let path = format!("prs/{}/{}.git", it.author.npub(), it.identifier);
            ensure!(named.contains(&*path), "{}: {checked:#}", kind.name);
        }
        ensure!(named.len() == harmed.len(), "{checked:#}");
    }
    for (before, files) in left {
        ensure!(files.contents()? == before, "it was touched");
    }
    ensure!(!sound.names(&node).await?.is_empty());
    Ok(())
}

/// G06-10: whoever comes at the same time finds a repository.
#[tokio::test(flavor = "multi_thread")]
async fn pushes_and_deletions_at_the_same_time_lose_nothing() -> Result<()> {
    let node = Node::start_with(BINARY, &[ON]).await?;
    let it = Contributor::new("sails")?;
    for round in 0..3 {
        let gone = it.request_at(&node, &it.tip, vec![tag(["subject", &format!("{round}")])]);
        it.push_ok(&node, &gone).await?;
        let mut relay = node.connect().await?;
        relay.publish_ok(&gone).await?;
        let subject = |n: usize| tag(["subject", &format!("{round}-{n}")]);
        let events: Vec<Event> = (0..4)
            .map(|n| it.request_at(&node, &it.tip, vec![subject(n)]))
            .collect();
        let deletion = it.author.delete_events(&[gone.id]);
        let pushes =
            futures_util::future::try_join_all(events.iter().map(|event| it.push_ok(&node, event)));
        let (pushed, deleted) = tokio::join!(pushes, relay.publish_ok(&deletion));
        pushed?;
        deleted?;
        let names = it.names(&node).await?;
        for event in &events {
            ensure!(names.contains(&name_of(&event.id)), "{names:?}");
            relay.publish_ok(event).await?;
        }
        ensure!(!names.contains(&name_of(&gone.id)), "{names:?}");
        agrees(&node).await?;
        let ids: Vec<EventId> = events.iter().map(|event| event.id).collect();
        relay.publish_ok(&it.author.delete_events(&ids)).await?;
        ensure!(!it.directory(&node).exists());
    }
    Ok(())
}

/// G06-10: a kill leaves all or nothing, and relay and git agree after it.
async fn killed_at_each(points: &[&str]) -> Result<()> {
    for point in points {
        killed_at(point)
            .await
            .with_context(|| format!("fault point {point}"))?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_while_a_tip_is_staged_leaves_all_or_nothing() -> Result<()> {
    let points = [
        "push.received",
        "git.stage.recorded",
        "git.promote.half",
        "git.stage.done",
    ];
    killed_at_each(&points).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_while_refs_are_set_or_removed_leaves_all_or_nothing() -> Result<()> {
    let removed = "git.contributor.moved_away";
    let points = [
        "git.refs.before",
        "git.refs.written",
        "push.refs_updated",
        removed,
    ];
    killed_at_each(&points).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_while_a_tip_is_mirrored_leaves_all_or_nothing() -> Result<()> {
    let mirrored = ["git.stage.promoted", "release.objects_durable"];
    let points = [
        &mirrored[..],
        &["release.refs_aligned", "release.event_saved"],
    ]
    .concat();
    killed_at_each(&points).await
}

async fn killed_at(point: &str) -> Result<()> {
    let mut node = Node::start_with(BINARY, &[ON]).await?;
    let project = LocalProject::new("sails")?;
    project.announce(&node, 10).await?;
    project.publish(&node, 5).await?;
    let it = Contributor::to(&project.owner, "sails")?;
    let event = it.pull_request(&node);
    node.stop().await?;
    node.set_env("GRIPFAST_FAULT", &format!("{point}:1"));
    node.launch().await?;
    // Errors are the kill as its clients see it.
    let _ = contribute_and_delete(&it, &node, &event).await;
    node.died().await?;
    node.remove_env("GRIPFAST_FAULT");
    node.crash_and_restart().await?;
    agrees(&node).await?;
    let is_there = it.directory(&node).exists();
    ensure!(is_there != it.names(&node).await?.is_empty());
    if point == "git.contributor.moved_away" {
        ensure!(!is_there, "its deletion was stored");
        return Ok(());
    }
    // And it goes on where it was.
    it.push_ok(&node, &event).await?;
    let mut relay = node.connect().await?;
    relay.publish(&event).await?;
    ensure!(relay.serves(&event.id).await?);
    git::until_ref(&project.url(&node), &name_of(&event.id), &it.tip).await?;
    agrees(&node).await
}

async fn contribute_and_delete(it: &Contributor, node: &Node, event: &Event) -> Result<()> {
    it.push_ok(node, event).await?;
    let mut relay = node.connect().await?;
    relay.publish_ok(event).await?;
    let deletion = it.author.delete_events(&[event.id]);
    relay.publish_ok(&deletion).await.map(drop)
}

/// G01-89: what waits for its event waits across a restart, and is promoted after it.
#[tokio::test]
async fn a_pushed_tip_outlives_a_restart() -> Result<()> {
    let mut node = Node::start_with(BINARY, &[ON]).await?;
    let it = Contributor::new("sails")?;
    let (pushed, held) = (it.pull_request(&node), Contributor::new("sails")?);
    it.push_ok(&node, &pushed).await?;
    let waiting = held.pull_request(&node);
    node.connect().await?.publish_ok(&waiting).await?;
    node.crash_and_restart().await?;
    agrees(&node).await?;
    ensure!(it.names(&node).await? == [name_of(&pushed.id)]);
    let mut relay = node.connect().await?;
    let answer = relay.publish(&pushed).await?;
    ensure!(answer.is_served(), "{answer:?}");
    ensure!(!relay.serves(&waiting.id).await?);
    held.push_ok(&node, &waiting).await?;
    ensure!(relay.serves(&waiting.id).await?);
    node.crash_and_restart().await?;
    ensure!(it.names(&node).await? == [name_of(&pushed.id)]);
    agrees(&node).await
}

/// G06-4: what one may keep is bounded by address, key and target, in refs and bytes.
#[tokio::test]
async fn each_quota_is_told_to_who_exceeds_it() -> Result<()> {
    let cases = [
        (
            "GRIPFAST_PRS_MAX_REFS_PER_ADDRESS",
            "1",
            "from your address",
        ),
        ("GRIPFAST_PRS_MAX_REFS_PER_KEY", "1", "below this npub"),
        (
            "GRIPFAST_PRS_MAX_REFS_PER_TARGET",
            "1",
            "for repositories named sails",
        ),
        (
            "GRIPFAST_PRS_MAX_BYTES_PER_ADDRESS",
            "100000",
            "from your address",
        ),
        (
            "GRIPFAST_PRS_MAX_BYTES_PER_KEY",
            "100000",
            "below this npub",
        ),
        (
            "GRIPFAST_PRS_MAX_BYTES_PER_TARGET",
            "100000",
            "for repositories named sails",
        ),
    ];
    for (setting, limit, says) in cases {
        let node = Node::start_with(BINARY, &[ON, (setting, limit)]).await?;
        let it = Contributor::new("sails")?;
        // From another machine: this one has no bound per address.
        let header = "X-Forwarded-For: 203.0.113.7";
        it.tree.git(["config", "http.extraHeader", header])?;
        let first = it.served(&node).await?;
        let other = it.tree.commit_noise(1, 1)?;
        let more = it.request_at(&node, &other, Vec::new());
        let output = it.push(&node, &other, &more.id).await?;
        let is_told = output.stderr.contains("over quota") && output.stderr.contains(says);
        ensure!(!output.ok && is_told, "{setting}: {}", output.stderr);
        ensure!(it.names(&node).await? == [name_of(&first.id)]);
        // What is deleted frees its share.
        let deletion = it.author.delete_events(&[first.id]);
        node.connect().await?.publish_ok(&deletion).await?;
        let output = it.push(&node, &it.tip, &more.id).await?;
        ensure!(output.ok, "{setting}: {}", output.stderr);
    }
    Ok(())
}

/// What is deleted frees quotas, and not the day of its network: a copy of it may stay in the repositories it
/// was for.
#[tokio::test]
async fn pushes_and_deletions_in_a_row_end_with_the_day_of_their_network() -> Result<()> {
    let day = ("GRIPFAST_PULL_REQUEST_MAX_BYTES_PER_ADDRESS", "3500000");
    let node = Node::start_with(BINARY, &[ON, day]).await?;
    let it = Contributor::new("sails")?;
    let from = |it: &Contributor, address: &str| {
        let header = format!("X-Forwarded-For: {address}");
        it.tree.git(["config", "http.extraHeader", &header])
    };
    from(&it, "203.0.113.7")?;
    let tip = it.tree.commit_noise(1, 1)?;
    let mut relay = node.connect().await?;
    let mut taken = 0;
    let refused = loop {
        let more = vec![tag(["subject", &taken.to_string()])];
        let event = it.request_at(&node, &tip, more);
        let output = it.push(&node, &tip, &event.id).await?;
        if !output.ok {
            break output.stderr;
        }
        taken += 1;
        ensure!(taken < 4, "3.5 MB of 1 MiB each are less");
        relay.publish_ok(&event).await?;
        relay
            .publish_ok(&it.author.delete_events(&[event.id]))
            .await?;
        ensure!(it.names(&node).await?.is_empty());
    };
    ensure!(taken == 3, "{taken} were taken");
    ensure!(refused.contains("from your network may add"), "{refused}");
    from(&it, "203.0.113.8")?;
    let event = it.request_at(&node, &tip, Vec::new());
    let output = it.push(&node, &tip, &event.id).await?;
    ensure!(output.ok, "{}", output.stderr);
    agrees(&node).await
}

/// G01-110, G01-122, G01-123: the end of the event is the end of its ref in every view.
#[tokio::test]
async fn expiry_and_ban_remove_the_ref_in_every_view() -> Result<()> {
    let node = Node::start_with(BINARY, &[ON]).await?;
    let project = LocalProject::new("sails")?;
    project.announce(&node, 10).await?;
    project.publish(&node, 5).await?;
    let it = Contributor::to(&project.owner, "sails")?;
    let end = (Timestamp::now() + 4).to_string();
    let expiring = it.request_at(&node, &it.tip, vec![tag(["expiration", &end])]);
    it.push_ok(&node, &expiring).await?;
    let mut relay = node.connect().await?;
    relay.publish_ok(&expiring).await?;
    let lasting = it.served(&node).await?;
    git::until_ref(&project.url(&node), &name_of(&lasting.id), &it.tip).await?;
    until("the expired one is gone", || async {
        let here = it.names(&node).await.ok()?;
        let mirrored = git::ls_remote(&project.url(&node)).await.ok()?;
        let is_gone = !mirrored
            .iter()
            .any(|(name, _)| *name == name_of(&expiring.id));
        (here == [name_of(&lasting.id)] && is_gone).then_some(())
    })
    .await?;
    let config = format!("event_blacklist = [\"{}\"]\n", it.author.npub());
    std::fs::write(node.work_dir().join("gripfast.toml"), config)?;
    node.signal(Signal::HUP)?;
    until("nothing of the banned is shown", || async {
        let names = it.names(&node).await.ok()?;
        names.is_empty().then_some(())
    })
    .await?;
    let mirrored = git::ls_remote(&project.url(&node)).await?;
    let is_nostr = |name: &String| name.starts_with("refs/nostr/");
    ensure!(!mirrored.iter().any(|(name, _)| is_nostr(name)));
    let output = it.push(&node, &it.tip, &lasting.id).await?;
    ensure!(!output.ok && output.stderr.contains("takes nothing from this author"));
    agrees(&node).await
}

/// G01-124: what is here for a banned repository alone leaves with it.
#[tokio::test]
async fn a_banned_identifier_takes_its_contributions_along() -> Result<()> {
    let node = Node::start_with(BINARY, &[ON]).await?;
    let (it, other) = (Contributor::new("sails")?, Contributor::new("masts")?);
    let event = it.served(&node).await?;
    let kept = other.served(&node).await?;
    let config = "repository_blacklist = [\"sails\"]\n";
    std::fs::write(node.work_dir().join("gripfast.toml"), config)?;
    node.signal(Signal::HUP)?;
    // The tip goes a moment before its event.
    until("the contribution is not shown any more", || async {
        let names = it.names(&node).await.ok()?;
        let serves = node.connect().await.ok()?.serves(&event.id).await.ok()?;
        (names.is_empty() && !serves).then_some(())
    })
    .await?;
    let mut relay = node.connect().await?;
    ensure!(relay.serves(&kept.id).await?);
    let answer = relay.publish(&it.pull_request(&node)).await?;
    ensure!(!answer.accepted, "{answer:?}");
    ensure!(other.names(&node).await? == [name_of(&kept.id)]);
    agrees(&node).await
}

/// G01-112, G01-124: what a block takes out comes back whole with its end, over a restart too.
#[tokio::test]
async fn a_contribution_comes_back_with_its_data_when_a_block_is_lifted() -> Result<()> {
    let mut node = Node::start_with(BINARY, &[ON]).await?;
    let (it, other) = (Contributor::new("sails")?, Contributor::new("sails")?);
    let event = it.served(&node).await?;
    let kept = other.served(&node).await?;
    let target = format!("{}/sails", it.owner.npub());
    for subject in [target, it.author.npub(), "sails".to_owned()] {
        node.run(&["repos", "block", &subject, "--execute"]).await?;
        ensure!(
            it.names(&node).await?.is_empty(),
            "{subject}: it is out of service"
        );
        ensure!(!node.connect().await?.serves(&event.id).await?, "{subject}");
        agrees(&node).await?;
        node.crash_and_restart().await?;
        node.run(&["repos", "unblock", &subject, "--execute"])
            .await?;
        ensure!(it.names(&node).await? == [name_of(&event.id)], "{subject}");
        ensure!(node.connect().await?.serves(&event.id).await?, "{subject}");
        let clone = WorkTree::init()?;
        let fetched = clone
            .run(["fetch", "-q", &it.url(&node), &name_of(&event.id)])
            .await?;
        ensure!(fetched.ok, "{subject}: {}", fetched.stderr);
        ensure!(clone.tip("FETCH_HEAD")? == it.tip);
        ensure!(
            other.names(&node).await? == [name_of(&kept.id)],
            "{subject}"
        );
        agrees(&node).await?;
    }
    Ok(())
}

/// G01-112: a tip that is out of service is not given out by its id beside another that is shown, over a
/// kill too, and is again when it is back.
#[tokio::test]
async fn a_hidden_contribution_is_not_given_out_beside_a_shown_one() -> Result<()> {
    let mut node = Node::start_with(BINARY, &[ON]).await?;
    let it = Contributor::new("sails")?;
    let hidden = it.served(&node).await?;
    let other = Contributor::to(&Author::new(), "sails")?;
    // Nothing that is shown leads to the hidden one.
    let next = it.tree.tip("HEAD~1")?;
    let shown = it
        .author
        .pull_request(&other.owner, "sails", &next, &it.url(&node));
    let pushed = it.push(&node, &next, &shown.id).await?;
    ensure!(pushed.ok, "{}", pushed.stderr);
    node.connect().await?.publish_ok(&shown).await?;
    let fetch = async |node: &Node, id: &str| {
        let clone = WorkTree::init()?;
        let fetched = clone.run(["fetch", "-q", &it.url(node), id]).await?;
        anyhow::Ok((fetched.ok, fetched.stderr))
    };
    let target = format!("{}/sails", it.owner.npub());
    node.run(&["repos", "block", &target, "--execute"]).await?;
    ensure!(it.names(&node).await? == [name_of(&shown.id)]);
    for _ in 0..2 {
        let (ok, said) = fetch(&node, &it.tip).await?;
        ensure!(!ok && said.contains("not our ref"), "{said}");
        let (ok, said) = fetch(&node, &next).await?;
        ensure!(ok, "{said}");
        // A partial clone gets what it lacks of the shown one when it is needed.
        let partial = WorkTree::init()?;
        partial.git(["remote", "add", "origin", &it.url(&node)])?;
        let name = name_of(&shown.id);
        let fetch_it = format!("fetch -q --filter=blob:none origin {name}");
        for words in [fetch_it.as_str(), "checkout -q FETCH_HEAD"] {
            let done = partial.run(words.split(' ')).await?;
            ensure!(done.ok, "{words}: {}", done.stderr);
        }
        node.crash_and_restart().await?;
    }
    node.run(&["repos", "unblock", &target, "--execute"])
        .await?;
    ensure!(node.connect().await?.serves(&hidden.id).await?);
    let (ok, said) = fetch(&node, &it.tip).await?;
    ensure!(ok, "{said}");
    agrees(&node).await
}

/// G01-112: a tip that is out of service, by an order or by its author's deletion, is given out by no id
/// where it was mirrored to either, over a kill too; all else is.
#[tokio::test]
async fn a_hidden_contribution_is_given_out_by_no_id_where_it_was_mirrored_to() -> Result<()> {
    let mut node = Node::start_with(BINARY, &[ON]).await?;
    let project = LocalProject::new("sails")?;
    project.announce(&node, 10).await?;
    project.publish(&node, 5).await?;
    let it = Contributor::to(&project.owner, "sails")?;
    let event = it.served(&node).await?;
    let name = name_of(&event.id);
    let tree = it.tree.git(["rev-parse", "HEAD^{tree}"])?;
    let has = async |node: &Node, id: &str| {
        let clone = WorkTree::init()?;
        let fetched = clone.run(["fetch", "-q", &project.url(node), id]).await?;
        let is_refused = fetched.stderr.contains("not our ref");
        ensure!(fetched.ok != is_refused, "{}", fetched.stderr);
        anyhow::Ok(fetched.ok)
    };
    let author = it.author.npub();
    for ending in ["block", "deletion"] {
        git::until_ref(&project.url(&node), &name, &it.tip).await?;
        ensure!(has(&node, &it.tip).await? && has(&node, tree.trim()).await?);
        if ending == "block" {
            node.run(&["repos", "block", &author, "--execute"]).await?;
        } else {
            let deletion = it.author.delete_events(&[event.id]);
            node.connect().await?.publish_ok(&deletion).await?;
        }
        until("it is not shown any more", || async {
            let refs = git::ls_remote(&project.url(&node)).await.ok()?;
            (!refs.iter().any(|(shown, _)| *shown == name)).then_some(())
        })
        .await?;
        for _ in 0..2 {
            let is_given = has(&node, &it.tip).await? || has(&node, tree.trim()).await?;
            ensure!(!is_given, "{ending}");
            ensure!(has(&node, &project.tip).await?, "{ending}: all else is");
            node.crash_and_restart().await?;
        }
        if ending == "block" {
            node.run(&["repos", "unblock", &author, "--execute"])
                .await?;
        }
    }
    agrees(&node).await
}

/// G01-120: what is hidden goes with who vanishes, and with who deletes it.
#[tokio::test]
async fn a_hidden_contribution_ends_with_its_event() -> Result<()> {
    let node = Node::start_with(BINARY, &[ON]).await?;
    let it = Contributor::new("sails")?;
    it.served(&node).await?;
    node.run(&["repos", "block", "sails", "--execute"]).await?;
    let directory = it.directory(&node);
    ensure!(directory.exists(), "it is kept");
    let tags = vec![tag(["relay", "ALL_RELAYS"])];
    let request = it.author.sign(62, "", tags);
    node.connect().await?.publish_ok(&request).await?;
    ensure!(!directory.exists(), "nothing is left of it");
    node.run(&["repos", "unblock", "sails", "--execute"])
        .await?;
    ensure!(it.names(&node).await?.is_empty());
    agrees(&node).await
}

/// G06-6: what waits, where its tip may be pushed to and what was pushed is told to those who ask.
#[tokio::test]
async fn what_waits_below_prs_is_explained_and_listed() -> Result<()> {
    let node = Node::start_with(BINARY, &[ON]).await?;
    let it = Contributor::new("sails")?;
    let path = format!("prs/{}/sails", it.author.npub());
    let held = it.pull_request(&node);
    node.connect().await?.publish_ok(&held).await?;
    let other = it.tree.commit("more", "y")?;
    let pushed = it.request_at(&node, &other, Vec::new());
    let output = it.push(&node, &other, &pushed.id).await?;
    ensure!(output.ok, "{}", output.stderr);
    let told = node.explain(&held.id.to_hex()).await?.to_string();
    ensure!(told.contains("held") && told.contains(&path), "{told}");
    let told = node.explain(&pushed.id.to_hex()).await?.to_string();
    ensure!(told.contains("awaited") && told.contains(&path), "{told}");
    let told = node.explain(&path).await?.to_string();
    ensure!(
        told.contains("contributor repository") && told.contains("1 "),
        "{told}"
    );
    let listed = node.admin_json("/api/v1/purgatory").await?.to_string();
    let is_listed = listed.contains(&held.id.to_hex()) && listed.contains(&path);
    ensure!(is_listed, "{listed}");
    let page = node.get("/purgatory").await?;
    page.must_be(200, &["sails", &format!("to be pushed to /{path}.git")]);
    let metrics = node.get("/metrics").await?;
    metrics.must_be(200, &["prs-receive-pack", "contributor_refs 1"]);
    Ok(())
}

/// G06-24: hosting for everybody and private mode do not go together.
#[tokio::test]
async fn g06_24_private_mode_and_contributors_refuse_to_start() -> Result<()> {
    let mut node = Node::prepare(BINARY, &[ON, ("NGIT_PRIVATE_MODE", "true")])?;
    node.spawn()?;
    let status = node.wait().await?;
    ensure!(!status.success());
    ensure!(node.log().contains("private_mode"), "{}", node.log());
    Ok(())
}
