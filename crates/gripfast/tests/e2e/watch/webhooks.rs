//! GitHub tells by itself.

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Author, Node, RemoteHost, WorkTree, events::tag, git, until};
use nostr::prelude::Event;
use serde_json::Value;

use crate::{
    BINARY,
    watch::scene::{SECRET, deliver, push_body, pushes, signed},
};

/// Settings under which hosts on this machine may be asked, with the usual delays.
const SETTINGS: &[(&str, &str)] = &[
    ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true"),
    ("GRIPFAST_GITHUB_WEBHOOK_SECRET", SECRET),
    ("GRIPFAST_WATCH_ENRICH", "false"),
];

/// A module whose data is on another host, as its owner announces it.
struct Mirrored {
    owner: Author,
    tree: WorkTree,
}

impl Mirrored {
    fn new() -> Result<Self> {
        let (owner, tree) = (Author::new(), WorkTree::init()?);
        let module = Self { owner, tree };
        let go_mod = format!("module {}\n\ngo 1.19\n", module.path());
        module.tree.commit("go.mod", &go_mod)?;
        Ok(module)
    }

    fn path(&self) -> String {
        format!("127.0.0.1/{}/tides", self.owner.npub())
    }

    fn announcement(&self, node: &Node, elsewhere: &str) -> Event {
        let own = self.owner.clone_url(&node.authority(), "tides");
        let tags = vec![
            tag(["d", "tides"]),
            tag(["clone", &own, elsewhere]),
            tag(["relays".to_owned(), node.relay_url()]),
        ];
        self.owner.sign(30617, "", tags)
    }

    fn state(&self, tip: &str, tags: &[(&str, &str)]) -> Event {
        let mut refs = vec![("refs/heads/main", tip)];
        refs.extend(tags);
        self.owner.state("tides", &refs, Some("refs/heads/main"))
    }
}

async fn feed(node: &Node, path: &str) -> Result<Vec<String>> {
    let answer = node.get("/index").await?;
    let lines = answer.lines().filter(|line| line.starts_with('{'));
    let lines: Vec<Value> = lines.map(serde_json::from_str).collect::<Result<_, _>>()?;
    let versions = lines.iter().filter(|line| line["Path"] == path);
    let version = |line: &Value| line["Version"].as_str().map(str::to_owned);
    Ok(versions.filter_map(version).collect())
}

#[tokio::test]
async fn a_signed_webhook_brings_the_new_commit_to_git_and_its_tag_to_the_feed() -> Result<()> {
    let github = RemoteHost::start("127.0.0.91").await?;
    let module = Mirrored::new()?;
    let node = Node::start_with(BINARY, SETTINGS).await?;
    let mut relay = node.connect().await?;
    let clone_url = github.host(&module.tree, "acme/tides.git")?;
    relay
        .publish_ok(&module.announcement(&node, &clone_url))
        .await?;

    // The owner commits, tags, signs, and pushes to GitHub alone.
    let before = module.tree.tip("main")?;
    let code = "package tides\n\nconst High = true\n";
    let tip = module.tree.commit("tides.go", code)?;
    let state = module.state(&tip, &[("refs/tags/v1.0.0", &tip)]);
    let answer = relay.publish(&state).await?;
    ensure!(answer.is_held(), "{answer:?}");
    github.take(&module.tree, "acme/tides.git", &["main"])?;
    github.forget();

    // Unless somebody tells, data is looked for after three minutes.
    let before_it = async {
        let asked = github.count();
        let served = relay.serves(&state.id).await?;
        let versions = feed(&node, &module.path()).await?;
        anyhow::Ok((asked, served, versions.len()))
    };
    ensure!(before_it.await? == (0, false, 0), "something else has told");
    let waiting = node.run(&["purgatory", "ls", "--json"]).await?;
    ensure!(waiting.contains(&state.id.to_hex()), "{waiting}");

    // Named as GitHub does, and not as the announcement does.
    let named = clone_url.replace("acme/tides", "Acme/Tides");
    let body = push_body("Acme/Tides", &named, &before, &tip);
    let status = deliver(&node, "d-1", "push", &body, Some(&signed(SECRET, &body))).await?;
    ensure!((200..300).contains(&status), "{status}");

    let url = module.owner.clone_url(&node.authority(), "tides");
    let wanted = vec![
        ("refs/heads/main".to_owned(), tip.clone()),
        ("refs/tags/v1.0.0".to_owned(), tip.clone()),
    ];
    until("the commit is served to git", || async {
        let served = git::branches_and_tags(&url).await.ok()?;
        (served == wanted).then_some(())
    })
    .await
    .with_context(|| format!("log:\n{}", node.log()))?;
    let clone = WorkTree::clone(&url, &[]).await?;
    ensure!(clone.tip("HEAD")? == tip);
    ensure!(std::fs::read_to_string(clone.path().join("tides.go"))? == code);
    until("the tag is in the feed", || async {
        let versions = feed(&node, &module.path()).await.ok()?;
        (versions == ["v1.0.0"]).then_some(())
    })
    .await
    .with_context(|| format!("log:\n{}", node.log()))?;
    ensure!(relay.serves(&state.id).await?);
    Ok(())
}

#[tokio::test]
async fn a_state_that_is_signed_a_little_after_the_push_finds_its_data_at_once() -> Result<()> {
    let github = RemoteHost::start("127.0.0.92").await?;
    let module = Mirrored::new()?;
    let node = Node::start_with(BINARY, SETTINGS).await?;
    let mut relay = node.connect().await?;
    let clone_url = github.host(&module.tree, "acme/tides.git")?;
    relay
        .publish_ok(&module.announcement(&node, &clone_url))
        .await?;
    let tip = module.tree.tip("main")?;
    let body = push_body("acme/tides", &clone_url, &"0".repeat(40), &tip);
    let status = deliver(&node, "d-1", "push", &body, Some(&signed(SECRET, &body))).await?;
    ensure!((200..300).contains(&status), "{status}");
    until("the push is done with", || async {
        let jobs = node
            .run(&["queue", "ls", "--kind", "push-event", "--json"])
            .await;
        (!jobs.ok()?.contains("d-1")).then_some(())
    })
    .await?;
    let answer = relay.publish(&module.state(&tip, &[])).await?;
    ensure!(answer.is_held(), "{answer:?}");
    let url = module.owner.clone_url(&node.authority(), "tides");
    until("the commit is served to git", || async {
        let served = git::ls_remote(&url).await.ok()?;
        let is_it = |(name, oid): &(String, String)| name == "refs/heads/main" && *oid == tip;
        served.iter().any(is_it).then_some(())
    })
    .await
    .with_context(|| format!("log:\n{}", node.log()))
}

#[tokio::test]
async fn only_what_is_signed_is_kept_and_the_same_delivery_once() -> Result<()> {
    let node = Node::start_with(BINARY, SETTINGS).await?;
    let (zero, one) = ("0".repeat(40), "1".repeat(40));
    let body = push_body("acme/one", "https://github.com/acme/one.git", &zero, &one);
    let other = signed("another secret", &body);
    let old = signed(SECRET, "{}");
    let wrong = [
        None,
        Some(""),
        Some("sha256=00"),
        Some(other.as_str()),
        Some(old.as_str()),
    ];
    for (number, signature) in wrong.into_iter().enumerate() {
        let id = format!("w-{number}");
        let status = deliver(&node, &id, "push", &body, signature).await?;
        ensure!(status == 401, "{signature:?}: {status}");
    }
    ensure!(
        pushes(&node).await?.is_empty(),
        "something unsigned was kept"
    );
    let right = signed(SECRET, &body);
    for turn in 0..3 {
        let status = deliver(&node, "d-1", "push", &body, Some(&right)).await?;
        ensure!((200..300).contains(&status), "{turn}: {status}");
    }
    ensure!(pushes(&node).await? == ["delivery d-1"]);
    // What was refused under an id does not stand in the way of what is signed.
    let status = deliver(&node, "w-0", "ping", "{}", Some(&signed(SECRET, "{}"))).await?;
    ensure!((200..300).contains(&status), "{status}");
    let log = node.log();
    ensure!(!log.contains(SECRET), "the secret is in the log");
    Ok(())
}

#[tokio::test]
async fn a_node_without_a_secret_takes_no_webhook() -> Result<()> {
    let node = Node::start(BINARY).await?;
    let body = "{}";
    let status = deliver(&node, "d-1", "push", body, Some(&signed(SECRET, body))).await?;
    ensure!((400..600).contains(&status), "{status}");
    Ok(())
}
