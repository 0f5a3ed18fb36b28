//! Backups of a node at work, and what comes back.

mod large;
mod server;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{LocalProject, Node, WorkTree, git, until_true};
use nostr::prelude::Event;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::BINARY;

/// Repositories with something to copy in them.
const REPOSITORIES: usize = 3;
const NOISE_MIB: u64 = 3;

/// A node that serves repositories and holds a state.
struct Scene {
    node: Node,
    served: Vec<LocalProject>,
    held: LocalProject,
    state: Event,
    backups: TempDir,
}

impl Scene {
    async fn start() -> Result<Self> {
        Self::start_with(&[]).await
    }

    async fn start_with(env: &[(&str, &str)]) -> Result<Self> {
        let node = Node::start_with(BINARY, env).await?;
        let mut served = Vec::new();
        for n in 0..REPOSITORIES {
            let tree = WorkTree::init()?;
            tree.commit_noise(NOISE_MIB, 1)?;
            let project = LocalProject::with_tree(&format!("served-{n}"), tree)?;
            project.publish(&node, 100).await?;
            served.push(project);
        }
        let held = LocalProject::new("held")?;
        let state = held.announce(&node, 100).await?;
        Ok(Self {
            node,
            served,
            held,
            state,
            backups: TempDir::new()?,
        })
    }

    fn place(&self) -> String {
        self.backups
            .path()
            .join("of-node")
            .to_string_lossy()
            .into_owned()
    }

    async fn back_up(&self) -> Result<Value> {
        let said = self.node.run(&["backup", &self.place(), "--json"]).await?;
        Ok(serde_json::from_str(&said)?)
    }

    /// A node on another path and port with what is in the backups.
    async fn restored(&self) -> Result<Node> {
        self.restored_with(&[]).await
    }

    async fn restored_with(&self, env: &[(&str, &str)]) -> Result<Node> {
        let mut node = Node::prepare(BINARY, env)?;
        node.run(&["restore", &self.place(), "--full"]).await?;
        node.launch().await?;
        Ok(node)
    }

    /// Fails unless both nodes have the same refs and events, and the held state waits.
    async fn must_agree(&self, other: &Node) -> Result<()> {
        for project in &self.served {
            let ours = git::ls_remote(&project.url(&self.node)).await?;
            let theirs = git::ls_remote(&project.url(other)).await?;
            ensure!(
                ours == theirs,
                "{}: {ours:?} {theirs:?}",
                project.identifier
            );
        }
        ensure!(events(&self.node).await? == events(other).await?);
        self.must_wait(other).await
    }

    /// Fails unless every file of the newest backup has its mode there, and the keys are the same.
    fn must_have_modes_and_keys(&self, other: &Node) -> Result<()> {
        let lists = files(&Path::new(&self.place()).join("backups"))?;
        let list = lists.keys().next_back().context("a backup")?;
        let list: Value = serde_json::from_slice(&fs::read(list)?)?;
        let (here, there) = (self.node.data_dir(), other.data_dir());
        let mut keys = Vec::new();
        for file in list["files"].as_array().context("files")? {
            let path = file["path"].as_str().context("a path")?;
            let mode = fs::metadata(there.join(path))?.mode() & 0o777;
            ensure!(file["mode"] == mode, "{file}: {mode:o}");
            if path.ends_with(".key") {
                ensure!(fs::read(here.join(path))? == fs::read(there.join(path))?);
                keys.push((path, mode));
            }
        }
        ensure!(keys.contains(&("relay.key", 0o400)), "{keys:?}");
        ensure!(keys.iter().all(|(_, mode)| mode & 0o077 == 0), "{keys:?}");
        Ok(())
    }

    async fn must_wait(&self, other: &Node) -> Result<()> {
        let explained = other.explain(&self.state.id.to_hex()).await?;
        ensure!(explained["status"] == "held", "{explained}");
        Ok(())
    }
}

/// The files below a directory, with their sizes and inodes: one that is written again is another.
fn files(root: &Path) -> Result<BTreeMap<PathBuf, (u64, u64)>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(root)? {
        let (path, metadata) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?)))?;
        if metadata.is_dir() {
            found.extend(files(&path)?);
        } else {
            found.insert(path, (metadata.len(), metadata.ino()));
        }
    }
    Ok(found)
}

fn bytes(files: &BTreeMap<PathBuf, (u64, u64)>) -> u64 {
    files.values().map(|(size, _)| size).sum()
}

async fn events(node: &Node) -> Result<Vec<String>> {
    let mut relay = node.connect().await?;
    let found = relay.query(&[json!({ "limit": 500 })]).await?;
    let mut ids: Vec<_> = found.iter().map(|event| event.id.to_hex()).collect();
    ids.sort();
    Ok(ids)
}

/// Pushes commit after commit until `stop` is there, and looks around after each; returns how many.
async fn push_until(
    node: &Node,
    project: &LocalProject,
    stop: &Path,
    pushed: impl Fn() -> Result<()>,
) -> Result<usize> {
    let (mut relay, url) = (node.connect().await?, project.url(node));
    for n in 1.. {
        let tip = project.tree.commit("load", &n.to_string())?;
        let age = 90_u64.saturating_sub(n as u64);
        relay
            .publish_ok(&project.project.state_at(&[("refs/heads/main", &tip)], age))
            .await?;
        project.tree.push_ok(&url, &["main"]).await?;
        pushed()?;
        if stop.exists() {
            return Ok(n);
        }
    }
    Ok(0)
}

/// Has the node wait in the middle of a backup until something was pushed.
struct Gate {
    signals: TempDir,
}

impl Gate {
    fn new() -> Result<Self> {
        let signals = TempDir::new()?;
        Ok(Self { signals })
    }

    fn go(&self) -> PathBuf {
        self.signals.path().join("go")
    }

    /// What the node is started with.
    fn fault(&self) -> String {
        format!("backup.events_copied@{}", self.go().display())
    }

    /// Makes a backup while one repository is pushed to, at least once in the middle of it.
    async fn back_up_under_load(&self, scene: &Scene, busy: &LocalProject) -> Result<()> {
        let stop = self.signals.path().join("stop");
        let backing_up = async {
            let made = scene.back_up().await;
            fs::write(&stop, "")?;
            made
        };
        let copies = scene.node.data_dir().join("git/.frozen/events/data.mdb");
        let pushing = async {
            until_true("the backup is under way", || copies.exists()).await?;
            push_until(&scene.node, busy, &stop, || {
                ensure!(
                    self.go().exists() || copies.exists(),
                    "the backup ended too soon"
                );
                Ok(fs::write(self.go(), "")?)
            })
            .await
        };
        let (made, pushed) = tokio::join!(backing_up, pushing);
        let (made, pushed) = (made?, pushed?);
        ensure!(
            pushed >= 1 && made["made"]["new_bytes"].as_u64() > Some(NOISE_MIB << 20),
            "{made}"
        );
        let frozen = scene.node.data_dir().join("git/.frozen");
        ensure!(!frozen.exists(), "the node has cleared up");
        Ok(())
    }
}

/// The events of the owner of a project, by kind.
async fn events_of(node: &Node, project: &LocalProject) -> Result<Vec<Event>> {
    let filter = json!({ "authors": [project.owner.hex()] });
    let mut found = node.connect().await?.query(&[filter]).await?;
    found.sort_by_key(|event| (event.kind, event.id));
    Ok(found)
}

/// Of a repository that was pushed to meanwhile it has a moment: refs and events of that moment agree.
async fn must_be_a_moment(scene: &Scene, busy: &LocalProject, other: &Node) -> Result<()> {
    other.run(&["check", "--full"]).await?;
    let refs = git::branches_and_tags(&busy.url(other)).await?;
    let (_, tip) = refs.first().context("main is there")?;
    busy.tree
        .git(["merge-base", "--is-ancestor", tip, "main"])?;
    for project in &scene.served {
        let (ours, theirs) = (project.url(&scene.node), project.url(other));
        ensure!(git::ls_remote(&ours).await? == git::ls_remote(&theirs).await?);
    }
    for project in scene.served.iter().chain([&scene.held]) {
        let (ours, theirs) = (
            events_of(&scene.node, project).await?,
            events_of(other, project).await?,
        );
        ensure!(ours == theirs, "{}", project.identifier);
    }
    // Of what replaces each other it has one that was there before, and that says what the refs are.
    let (now, then) = (
        events_of(&scene.node, busy).await?,
        events_of(other, busy).await?,
    );
    ensure!(now.len() == 2 && then.len() == 2, "{now:?} {then:?}");
    ensure!(now[0] == then[0], "the announcement");
    let main = then[1].tags.iter().find_map(|tag| match tag.as_slice() {
        [name, tip] if name == "refs/heads/main" => Some(tip),
        _ => None,
    });
    ensure!(main == Some(tip), "{then:?} {tip}");
    ensure!(then[1].created_at <= now[1].created_at);
    scene.must_wait(other).await
}

#[tokio::test]
async fn a_backup_under_push_load_is_restored_to_another_path_and_name() -> Result<()> {
    let gate = Gate::new()?;
    let scene = Scene::start_with(&[("GRIPFAST_FAULT", &gate.fault())]).await?;
    let busy = LocalProject::new("busy")?;
    busy.publish(&scene.node, 100).await?;
    gate.back_up_under_load(&scene, &busy).await?;
    let other = scene
        .restored_with(&[("NGIT_DOMAIN", "moved.example.org")])
        .await?;
    must_be_a_moment(&scene, &busy, &other).await?;

    // What waited is served when its data comes, to where the node is now.
    scene.held.push(&other).await?;
    let mut relay = other.connect().await?;
    ensure!(relay.serves(&scene.state.id).await?);
    Ok(())
}

#[tokio::test]
async fn a_second_backup_stores_what_is_new_and_old_ones_can_go() -> Result<()> {
    let scene = Scene::start().await?;
    let first = scene.back_up().await?;
    let second = scene.back_up().await?;
    let new = |made: &Value| made["made"]["new_bytes"].as_u64().context("a number");
    // The repositories have the same data, which is stored once.
    let packs = NOISE_MIB << 20;
    ensure!(
        new(&first)? > packs && new(&second)? < packs / 2,
        "{first} {second}"
    );

    let place = scene.place();
    let kept = scene
        .node
        .run(&["backup", &place, "--keep", "1", "--verify"])
        .await?;
    ensure!(
        kept.contains("restored and checked") && kept.contains("removed older backups: 2"),
        "{kept}"
    );
    let list: Value = serde_json::from_str(
        &scene
            .node
            .run(&["backup", &place, "--list", "--json"])
            .await?,
    )?;
    ensure!(
        list["backups"].as_array().is_some_and(|all| all.len() == 1),
        "{list}"
    );
    let other = scene.restored().await?;
    scene.must_agree(&other).await
}

#[tokio::test]
async fn old_backups_of_one_node_go_and_those_of_another_stay() -> Result<()> {
    let (one, other) = (Scene::start().await?, Node::start(BINARY).await?);
    let place = one.place();
    other.run(&["backup", &place]).await?;
    one.back_up().await?;
    let kept = one.node.run(&["backup", &place, "--keep", "1"]).await?;
    ensure!(kept.contains("removed older backups: 1"), "{kept}");
    let list = other.run(&["backup", &place, "--list", "--json"]).await?;
    let list: Value = serde_json::from_str(&list)?;
    let backups = list["backups"].as_array().context("a list")?;
    ensure!(backups.len() == 2, "one of each node: {list}");
    let restored = one.restored().await?;
    one.must_agree(&restored).await
}

/// The node says how far it is, and is asked again.
#[tokio::test]
async fn a_layout_that_takes_longer_than_an_answer_is_waited_for() -> Result<()> {
    let files = TempDir::new()?;
    let go = files.path().join("go");
    let fault = format!("backup.events_copied@{}", go.display());
    let scene = Scene::start_with(&[("GRIPFAST_FAULT", &fault)]).await?;
    let backing_up = scene.back_up();
    let looking = async {
        let bearer = format!("Bearer {}", scene.node.admin_token()?);
        let headers = [("authorization", bearer.as_str())];
        let ask = || scene.node.ask("POST", "/api/v1/backup", &headers, b"");
        // How far it is, while it goes on.
        let answer = ask().await?;
        ensure!(answer.status == 202, "{}", answer.text());
        let so_far = answer.json()?;
        ensure!(
            so_far["is_complete"] == false && so_far["copied_bytes"].as_u64() > Some(0),
            "{so_far}"
        );
        fs::write(&go, "")?;
        anyhow::Ok(())
    };
    let (made, looked) = tokio::join!(backing_up, looking);
    looked?;
    let made = made?;
    ensure!(
        made["made"]["new_bytes"].as_u64() > Some(NOISE_MIB << 20),
        "{made}"
    );
    ensure!(!scene.node.data_dir().join("git/.frozen").exists());
    let other = scene.restored().await?;
    scene.must_agree(&other).await
}

#[tokio::test]
async fn a_backup_that_is_killed_goes_on_with_the_next() -> Result<()> {
    let scene = Scene::start().await?;
    let place = scene.place();
    let blocks = Path::new(&place).join("blocks");
    let mut stored = BTreeMap::new();
    // Until there is more than small files to go on with.
    for hits in (2..).map(|power| 1_u32 << power) {
        let mut killed = scene.node.command(&["backup", &place]);
        killed.env("GRIPFAST_FAULT", format!("backup.block:{hits}"));
        ensure!(
            !killed.output().await?.status.success(),
            "it died on the way, at block {hits}"
        );
        stored = files(&blocks)?;
        if bytes(&stored) > NOISE_MIB << 20 {
            break;
        }
    }
    let none = scene.node.command(&["restore", &place]).output().await?;
    ensure!(!none.status.success(), "half a backup is none");
    let made = scene.back_up().await?;
    let all = files(&blocks)?;
    for (path, block) in &stored {
        ensure!(all.get(path) == Some(block), "{path:?} was written again");
    }
    let new = made["made"]["new_bytes"].as_u64().context("a number")?;
    ensure!(new == bytes(&all) - bytes(&stored), "{made}");
    let read = made["made"]["read_bytes"].as_u64().context("a number")?;
    ensure!(new + bytes(&stored) <= read, "{made}");
    let other = scene.restored().await?;
    scene.must_agree(&other).await
}

/// What was laid out for it goes at the next start, and the next backup begins with what is stored.
#[tokio::test]
async fn a_backup_of_a_node_that_is_killed_is_none_and_the_next_one_is_whole() -> Result<()> {
    let gate = Gate::new()?;
    let mut scene = Scene::start_with(&[("GRIPFAST_FAULT", &gate.fault())]).await?;
    let frozen = scene.node.data_dir().join("git/.frozen");
    let place = scene.place();
    let mut backing_up = scene.node.command(&["backup", &place]);
    let backing_up = backing_up.output();
    let killing = async {
        let copies = frozen.join("events/data.mdb");
        until_true("the backup is under way", || copies.exists()).await
    };
    tokio::pin!(backing_up);
    tokio::select! {
        ended = &mut backing_up => anyhow::bail!("it ended too soon: {ended:?}"),
        waited = killing => waited?,
    }
    scene.node.kill();
    let output = backing_up.await?;
    ensure!(!output.status.success(), "{output:?}");
    let none = scene.node.command(&["restore", &place]).output().await?;
    ensure!(!none.status.success(), "there is no backup");
    ensure!(frozen.exists());
    fs::write(gate.go(), "")?;
    scene.node.launch().await?;
    ensure!(!frozen.exists(), "the start clears up");
    scene.back_up().await?;
    let other = scene.restored().await?;
    scene.must_agree(&other).await
}

#[tokio::test]
async fn a_restore_that_is_killed_is_no_node_until_it_was_run_again() -> Result<()> {
    let mut scene = Scene::start().await?;
    // Of a node that does not run.
    let before = events(&scene.node).await?;
    let refs = git::ls_remote(&scene.served[0].url(&scene.node)).await?;
    scene.node.stop().await?;
    let place = scene.place();
    let key = scene.node.data_dir().join("relay.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o400))?;
    scene.node.run(&["backup", &place]).await?;

    let mut other = Node::prepare(BINARY, &[])?;
    // Each goes on where the one before died, at a file of its own choice or whenever it is hit.
    for hits in [1, 4, 9] {
        let mut killed = other.command(&["restore", &place]);
        killed.env("GRIPFAST_FAULT", format!("restore.file:{hits}"));
        ensure!(
            !killed.output().await?.status.success(),
            "it died on the way"
        );
    }
    for patience in [5, 20, 40, 80].map(Duration::from_millis) {
        let mut killed = other.command(&["restore", &place]);
        // At the latest here.
        killed.env("GRIPFAST_FAULT", "restore.file:12");
        let mut killed = killed.spawn()?;
        if timeout(patience, killed.wait()).await.is_err() {
            killed.kill().await?;
        }
    }
    let refused = other.command(&["serve"]).output().await?;
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    ensure!(
        refused.status.code() == Some(1) && said.contains("run `gripfast restore` again"),
        "{said}"
    );
    let mut finished = files(&other.data_dir())?;
    finished.retain(|path, _| !path.ends_with("restoring"));
    ensure!(finished.len() >= 9, "{finished:?}");
    other.run(&["restore", &place]).await?;
    let all = files(&other.data_dir())?;
    for (path, file) in &finished {
        ensure!(all.get(path) == Some(file), "{path:?} was written again");
    }
    scene.must_have_modes_and_keys(&other)?;
    let again = other.command(&["restore", &place]).output().await?;
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    ensure!(
        !again.status.success() && said.contains("is not empty"),
        "{said}"
    );
    other.launch().await?;
    ensure!(events(&other).await? == before);
    ensure!(git::ls_remote(&scene.served[0].url(&other)).await? == refs);
    scene.must_wait(&other).await
}

#[tokio::test]
async fn a_damaged_block_is_named_and_not_restored() -> Result<()> {
    let scene = Scene::start().await?;
    scene.back_up().await?;
    let blocks = Path::new(&scene.place()).join("blocks");
    let mut largest = (0, blocks.clone());
    for directory in fs::read_dir(&blocks)? {
        for block in fs::read_dir(directory?.path())? {
            let block = block?;
            largest = largest.max((block.metadata()?.len(), block.path()));
        }
    }
    let mut bytes = fs::read(&largest.1)?;
    bytes[100] ^= 1;
    fs::write(&largest.1, bytes)?;
    let other = Node::prepare(BINARY, &[])?;
    let output = other.command(&["restore", &scene.place()]).output().await?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(
        !output.status.success() && said.contains("is damaged"),
        "{said}"
    );
    ensure!(other.data_dir().join("restoring").exists());
    Ok(())
}
