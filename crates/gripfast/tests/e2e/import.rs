//! Moving in from ngit-grasp: directories as its versions lay them out.

mod real;
mod unseen;

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use grip_store::nostr_lmdb::testing;
use grip_testkit::{Author, Node, WorkTree, events::tag, git, until_true};
use nostr::prelude::{Event, Keys};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::BINARY;

const MAIN: &str = "refs/heads/main";
/// Events that are asked for at once.
const IDS_PER_QUERY: usize = 100;

/// What another server left behind.
struct Left {
    dir: TempDir,
    owner: Author,
    tip: String,
    names: Vec<String>,
    events: Vec<Event>,
}

#[derive(Clone, Copy, PartialEq)]
enum Version {
    One,
    Three,
}

impl Left {
    /// Repositories with their events, in the layout of a version.
    fn make(version: Version, count: usize, service: &Node) -> Result<Self> {
        let (dir, owner, tree) = (TempDir::new()?, Author::new(), WorkTree::with_commit()?);
        let git = dir.path().join("git");
        let mut left = Self {
            tip: tree.tip("HEAD")?,
            names: (0..count).map(|n| format!("r{n}")).collect(),
            events: Vec::new(),
            owner,
            dir,
        };
        for name in &left.names {
            let view = git.join(left.owner.npub()).join(format!("{name}.git"));
            fs::create_dir_all(view.join("refs/heads"))?;
            fs::write(view.join("refs/heads/main"), format!("{}\n", left.tip))?;
            fs::write(view.join("HEAD"), "ref: refs/heads/main\n")?;
            fs::write(
                view.join("config"),
                "[core]\n\tbare = true\n[gc]\n\tauto = 0\n",
            )?;
            fs::create_dir_all(view.join("objects/info"))?;
            let objects = if version == Version::Three {
                let family = git.join(format!(".grasp/families/sha1/{name}.git/objects"));
                let text = format!("{}\n", family.display());
                fs::write(view.join("objects/info/alternates"), text)?;
                family
            } else {
                view.join("objects")
            };
            copy(&tree.path().join(".git/objects"), &objects)?;
        }
        if version == Version::Three {
            fs::write(git.join(".grasp/storage-version"), "1\n")?;
        }
        left.make_events(service);
        testing::write(&left.relay(), &left.events);
        let held = left.owner.sign(30618, "", vec![tag(["d", "waiting"])]);
        let purgatory = json!({ "version": 1, "state_events": { "x": { "event": held } } });
        fs::write(git.join("purgatory-state.json"), purgatory.to_string())?;
        Ok(left)
    }

    fn make_events(&mut self, service: &Node) {
        let stranger = Author::new();
        for name in &self.names {
            let (owner, authority) = (&self.owner, service.authority());
            let issue = stranger.issue(owner, name, "ebb");
            self.events.extend([
                owner.announcement(&authority, name, vec![]),
                owner.state(name, &[(MAIN, &self.tip)], Some(MAIN)),
                stranger.comment(&issue, "flow"),
                issue,
            ]);
        }
        // What it keeps about itself, and what belongs to nothing.
        self.events.push(stranger.sign(9905, "", vec![]));
        self.events.push(stranger.sign(1, "spam", vec![]));
    }

    fn git(&self) -> PathBuf {
        self.dir.path().join("git")
    }

    fn relay(&self) -> PathBuf {
        self.dir.path().join("relay")
    }

    fn arguments(&self) -> [String; 3] {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        [
            "import-ngit-grasp".into(),
            text(self.git()),
            text(self.relay()),
        ]
    }

    async fn import(&self, node: &Node, more: &[&str]) -> Result<Value> {
        let arguments = self.arguments();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let printed = node
            .run(&[&arguments[..], more, &["--json"]].concat())
            .await?;
        serde_json::from_str(&printed).with_context(|| printed.clone())
    }

    /// Starts the node and looks for all that was left.
    async fn must_be_served(&self, node: &mut Node) -> Result<()> {
        node.launch().await?;
        let mut relay = node.connect().await?;
        let (served, lost) = self.events.split_at(self.events.len() - 2);
        for events in served.chunks(IDS_PER_QUERY) {
            let mut ids: Vec<_> = events.iter().map(|event| event.id).collect();
            let found = relay.query(&[json!({ "ids": ids })]).await?;
            let mut found: Vec<_> = found.iter().map(|event| event.id).collect();
            ids.sort();
            found.sort();
            ensure!(found == ids, "{} of {} are served", found.len(), ids.len());
        }
        for event in lost {
            ensure!(!relay.serves(&event.id).await?, "{}", event.kind.as_u16());
        }
        for name in &self.names {
            let url = self.owner.clone_url(&node.authority(), name);
            let refs = git::branches_and_tags(&url).await?;
            ensure!(refs == [(MAIN.to_owned(), self.tip.clone())], "{refs:?}");
        }
        let url = self.owner.clone_url(&node.authority(), &self.names[0]);
        let clone = WorkTree::clone(&url, &[]).await?;
        ensure!(clone.tip("HEAD")? == self.tip);
        Ok(())
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let place = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &place)?;
        } else {
            fs::copy(entry.path(), place)?;
        }
    }
    Ok(())
}

/// Everything below a directory, with its contents.
fn snapshot(path: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut files = Vec::new();
    collect(path, &mut files)?;
    files.sort();
    Ok(files)
}

fn collect(path: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) -> Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), files)?;
        } else {
            files.push((entry.path(), fs::read(entry.path())?));
        }
    }
    Ok(())
}

/// L-1 … L-6, L-8, L-10: the same refs and events, nothing of the source changed, and a second run
/// finds everything there.
#[tokio::test]
async fn directories_of_each_version_are_moved_in_and_a_second_run_changes_nothing() -> Result<()> {
    for version in [Version::One, Version::Three] {
        let mut node = Node::prepare(BINARY, &[])?;
        let left = Left::make(version, 3, &node)?;
        let before = snapshot(left.dir.path())?;
        let looked = left.import(&node, &["--dry-run"]).await?;
        ensure!(looked["repositories"]["found"] == 3, "{looked}");
        ensure!(!node.data_dir().exists(), "a dry run writes nothing");
        let report = left.import(&node, &[]).await?;
        ensure!(report["repositories"]["taken"] == 3, "{report:#}");
        ensure!(report["events"]["taken"] == 12, "{report:#}");
        ensure!(report["differing_refs"] == json!([]), "{report:#}");
        let again = left.import(&node, &[]).await?;
        ensure!(again["repositories"]["taken"] == 0, "{again:#}");
        ensure!(again["events"]["taken"] == 0, "{again:#}");
        ensure!(again["events"]["already_here"] == 12, "{again:#}");
        ensure!(again["differing_refs"] == json!([]), "{again:#}");
        ensure!(
            snapshot(left.dir.path())? == before,
            "the source was changed"
        );
        left.must_be_served(&mut node).await?;
    }
    Ok(())
}

/// How many repositories of one owner: more than may wait for a client's push, or what `cargo xtask campaign import` says.
fn many() -> usize {
    let asked = std::env::var("GRIPFAST_IMPORT_REPOSITORIES").ok();
    asked.map_or(120, |count| count.parse().expect("a number"))
}

#[tokio::test]
async fn many_repositories_of_1_x_are_moved_in_whatever_cuts_it_off() -> Result<()> {
    many_are_moved_in(Version::One).await
}

#[tokio::test]
async fn many_repositories_of_3_x_are_moved_in_whatever_cuts_it_off() -> Result<()> {
    many_are_moved_in(Version::Three).await
}

/// L-10: killed at the first repository, in the middle and among the events, then run to its end; a
/// further run changes nothing, and everything is served as it was.
async fn many_are_moved_in(version: Version) -> Result<()> {
    let count = many();
    let mut node = Node::prepare(BINARY, &[])?;
    let left = Left::make(version, count, &node)?;
    let owner = node.data_dir().join("git").join(left.owner.npub());
    let arguments = left.arguments();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    for at_least in [1, count / 2, count] {
        let mut child = node.command(&arguments).spawn()?;
        until_true("some of it is here", || {
            fs::read_dir(&owner).map_or(0, Iterator::count) >= at_least
        })
        .await?;
        child.kill().await?;
    }
    let began = Instant::now();
    let report = left.import(&node, &[]).await?;
    let taken = began.elapsed();
    ensure!(report["differing_refs"] == json!([]), "{report:#}");
    let began = Instant::now();
    let again = left.import(&node, &[]).await?;
    println!(
        "{count} repositories, {} events: {taken:?} after three kills, {:?} to find all there",
        4 * count,
        began.elapsed()
    );
    for what in ["repositories", "events"] {
        ensure!(again[what]["taken"] == 0, "{again:#}");
    }
    ensure!(again["events"]["already_here"] == 4 * count, "{again:#}");
    ensure!(again["differing_refs"] == json!([]), "{again:#}");
    // Half a second for each is far more than it takes on a busy machine.
    let bound = Duration::from_secs(60) + Duration::from_millis(500) * u32::try_from(count)?;
    ensure!(taken < bound, "{taken:?}");
    left.must_be_served(&mut node).await
}

/// Each would wait a second for its announcement if a client had sent it.
#[tokio::test]
async fn states_that_nothing_announces_are_left_out_at_once() -> Result<()> {
    const STATES: u32 = 40;
    let node = Node::prepare(BINARY, &[])?;
    let mut left = Left::make(Version::One, 1, &node)?;
    let states = (0..STATES).map(|n| {
        let (name, author) = (format!("gone-{n}"), Author::new());
        author.state(&name, &[(MAIN, &left.tip)], Some(MAIN))
    });
    let states: Vec<_> = states.collect();
    left.events.extend(states);
    fs::remove_dir_all(left.relay())?;
    testing::write(&left.relay(), &left.events);
    let began = Instant::now();
    let report = left.import(&node, &[]).await?;
    ensure!(
        began.elapsed() < Duration::from_secs(1) * STATES / 2,
        "{:?}",
        began.elapsed()
    );
    ensure!(report["events"]["taken"] == 4, "{report:#}");
    // With the one that waited.
    let why = "events of kind 30618: no announcement of their repository is here";
    ensure!(report["skipped"][why] == STATES + 1, "{report:#}");
    Ok(())
}

/// A patch of so many bytes.
fn patch(author: &Author, owner: &Author, name: &str, bytes: usize) -> Event {
    let signed = |content: &str| {
        let tags = vec![tag(["a", &owner.coordinate(name)])];
        author.sign(1617, content, tags)
    };
    let frame = json!(signed("")).to_string().len();
    signed(&"x".repeat(bytes - frame))
}

/// G01-11: of its default size, and of the most that it can be set to; our own bounds are for clients.
#[tokio::test]
async fn an_event_as_large_as_ngit_grasp_takes_is_moved_in() -> Result<()> {
    const SIZES: [usize; 2] = [192 << 10, 5 << 20];
    let mut node = Node::prepare(BINARY, &[])?;
    let mut left = Left::make(Version::Three, 1, &node)?;
    let author = Author::new();
    let patches = SIZES.map(|bytes| patch(&author, &left.owner, "r0", bytes));
    left.events.splice(0..0, patches);
    fs::remove_dir_all(left.relay())?;
    testing::write(&left.relay(), &left.events);
    let report = left.import(&node, &[]).await?;
    ensure!(report["events"]["taken"] == 6, "{report:#}");
    left.must_be_served(&mut node).await
}

/// L-11: the key is taken when it is asked for.
#[tokio::test]
async fn the_key_of_the_service_is_taken_only_when_asked_for() -> Result<()> {
    let node = Node::prepare(BINARY, &[])?;
    let left = Left::make(Version::One, 1, &node)?;
    let (keys, key) = (Keys::generate(), left.dir.path().join("key"));
    fs::write(&key, keys.secret_key().to_secret_hex())?;
    let kept = || fs::read_to_string(node.data_dir().join("relay.key"));
    ensure!(left.import(&node, &[]).await?["key_taken"] == false);
    ensure!(kept()?.trim() != keys.secret_key().to_secret_hex());
    let file = key.to_string_lossy();
    ensure!(left.import(&node, &["--key", &file]).await?["key_taken"] == true);
    ensure!(kept()?.trim() == keys.secret_key().to_secret_hex());
    Ok(())
}

/// L-1
#[tokio::test]
async fn a_layout_that_is_not_known_is_refused() -> Result<()> {
    let node = Node::prepare(BINARY, &[])?;
    let left = Left::make(Version::Three, 1, &node)?;
    fs::write(left.git().join(".grasp/storage-version"), "2")?;
    let error = left.import(&node, &[]).await.unwrap_err().to_string();
    ensure!(error.contains("only 1 is known"), "{error}");
    ensure!(!node.data_dir().join("git").exists());
    Ok(())
}
