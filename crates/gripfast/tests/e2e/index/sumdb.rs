//! The checksum database, with the real `go` command as its client.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use grip_testkit::{Node, http::must_contain, until_ok};
use grip_tlog::{Contents, Hash, Signer, Tile, TreeHead, Verifier, WIDTH, check_consistency};
use serde_json::Value;
use sqlx::{ConnectOptions as _, Connection as _, sqlite::SqliteConnectOptions};
use tempfile::TempDir;

use crate::{
    BINARY,
    index::{
        go::Go,
        scene::{Module, lines},
    },
};

/// The checksum database of a node, as its operator tells of it.
pub struct Log {
    pub name: String,
    verifier: String,
    url: String,
}

impl Log {
    pub async fn of(node: &Node) -> Result<Self> {
        let view = node.json("/api/v1/index/sumdb").await?;
        let text = |key: &str| view[key].as_str().map(str::to_owned).context("a text");
        Ok(Self {
            name: text("name")?,
            verifier: text("verifier")?,
            url: text("url")?,
        })
    }

    /// The value of GOSUMDB.
    pub fn setting(&self) -> String {
        format!("{} {}", self.verifier, self.url)
    }

    /// The signed head, checked.
    pub fn head(&self, note: &str) -> Result<TreeHead> {
        let verifier: Verifier = self.verifier.parse()?;
        Ok(TreeHead::parse(verifier.open(note)?)?)
    }

    pub async fn get(&self, node: &Node, path: &str) -> Result<String> {
        let response = node.get(&format!("/go/sumdb/{}/{path}", self.name)).await?;
        ensure!(response.status == 200, "{path}: {response:?}");
        Ok(response.text())
    }

    /// The head once the log has so many records.
    pub async fn of_size(&self, node: &Node, size: u64) -> Result<TreeHead> {
        until_ok("the versions are logged", async || {
            let head = self.head(&self.get(node, "latest").await?)?;
            Ok((head.size == size).then_some(head))
        })
        .await
    }

    /// The modules and versions of all records, from the data tiles.
    async fn records(&self, node: &Node, size: u64) -> Result<Vec<(String, String)>> {
        let mut records = Vec::new();
        while (records.len() as u64) < size {
            let first = records.len() as u64;
            let tile = Tile {
                contents: Contents::Records,
                index: first / WIDTH,
                width: WIDTH.min(size - first),
            };
            let text = self.get(node, &format!("tile/{tile}")).await?;
            for record in text.split_terminator("\n\n") {
                let mut lines = record.lines();
                let number = lines.next().context("a number")?;
                ensure!(number == records.len().to_string(), "{record}");
                let mut words = lines.next().context("a sum")?.split(' ');
                let (path, version) = words.next().zip(words.next()).context("a version")?;
                records.push((path.to_owned(), version.to_owned()));
            }
            ensure!(records.len() as u64 == first + tile.width, "{text}");
        }
        Ok(records)
    }

    /// Checks that the log of `new` begins with all of `old`.
    async fn check_since(&self, node: &Node, old: TreeHead, new: TreeHead) -> Result<()> {
        if old.size == 0 {
            return Ok(());
        }
        let proof = self
            .get(node, &format!("consistency/{}/{}", old.size, new.size))
            .await?;
        let proof: Vec<Hash> = proof.lines().map(str::parse).collect::<Result<_, _>>()?;
        check_consistency(&proof, (old.size, old.hash), (new.size, new.hash))?;
        Ok(())
    }
}

async fn released(node: &Node, identifier: &str) -> Result<Module> {
    let mut module = Module::announce(node, identifier).await?;
    let commit = module.change("as it was released")?;
    module.release(node, "v1.0.0", commit).await?;
    Ok(module)
}

#[tokio::test]
async fn go_checks_modules_against_the_log_by_the_proxy_and_directly() -> Result<()> {
    let node = Node::start(BINARY).await?;
    let mut module = released(&node, "hello").await?;
    let (log, path) = (Log::of(&node).await?, module.path());
    module.change("after the release")?;
    module.publish(&node).await?;
    let by_proxy = Go::checking(&node, &log.setting())?;
    by_proxy.run(&["get", &format!("{path}@v1.0.0")]).await?;
    // A commit without a tag is logged when it is asked for.
    by_proxy.run(&["get", &format!("{path}@main")]).await?;
    by_proxy.run(&["mod", "verify"]).await?;
    ensure!(
        by_proxy.has_checked(&log.name)?,
        "go has not asked for the log"
    );

    // Modules from one place, the log from another, as GOSUMDB names it.
    let mirror = TempDir::new()?;
    mirror_version(&node, &path, "v1.0.0", mirror.path()).await?;
    let directly = Go::checking(&node, &log.setting())?.by(mirror.path());
    directly
        .run(&["mod", "download", &format!("{path}@v1.0.0")])
        .await?;
    ensure!(
        directly.has_checked(&log.name)?,
        "go has not asked for the log"
    );

    // A client of before, which checks nothing; and one that knows only another key.
    let old = Go::new(&node)?;
    old.run(&["get", &format!("{path}@v1.0.0")]).await?;
    let other = Signer::new(&log.name, &[9; 32])?;
    let wrong = Go::checking(&node, &format!("{} {}", other.verifier(), log.url))?;
    let refused = wrong.run(&["get", &format!("{path}@v1.0.0")]).await;
    let said = format!(
        "{:?}",
        refused.err().context("a wrong key must be refused")?
    );
    ensure!(said.contains("verif"), "{said}");
    Ok(())
}

/// Copies a version into a directory that go takes for a proxy.
async fn mirror_version(node: &Node, module: &str, version: &str, to: &Path) -> Result<PathBuf> {
    let directory = to.join(module).join("@v");
    fs::create_dir_all(&directory)?;
    for file in ["info", "mod", "zip"] {
        let name = format!("{version}.{file}");
        let response = node.get(&format!("/go/{module}/@v/{name}")).await?;
        ensure!(response.status == 200, "{response:?}");
        fs::write(directory.join(name), &response.body)?;
    }
    Ok(directory)
}

#[tokio::test]
async fn go_refuses_a_zip_that_is_not_what_was_logged() -> Result<()> {
    let node = Node::start(BINARY).await?;
    let honest = released(&node, "honest").await?;
    let (log, path) = (Log::of(&node).await?, honest.path());
    let mirror = TempDir::new()?;
    let directory = mirror_version(&node, &path, "v1.0.0", mirror.path()).await?;
    // A zip of the same version with other contents, as a proxy in between could make one.
    let evil = zip_of(
        &format!("{path}@v1.0.0"),
        &fs::read_to_string(directory.join("v1.0.0.mod"))?,
    )?;
    fs::write(directory.join("v1.0.0.zip"), evil)?;
    let go = Go::checking(&node, &log.setting())?.by(mirror.path());
    let said = go
        .run(&["mod", "download", &format!("{path}@v1.0.0")])
        .await;
    let said = format!(
        "{:?}",
        said.err().context("a tampered zip must be refused")?
    );
    ensure!(said.contains("SECURITY ERROR"), "{said}");
    // Whoever checks nothing takes it.
    let careless = Go::new(&node)?.by(mirror.path());
    careless
        .run(&["mod", "download", &format!("{path}@v1.0.0")])
        .await?;
    Ok(())
}

/// A zip with a go.mod and one file, made by somebody else.
pub fn zip_of(prefix: &str, go_mod: &str) -> Result<Vec<u8>> {
    let dir = TempDir::new()?;
    let made = dir.path().join("made.zip");
    let script = "import sys, zipfile\n\
                  with zipfile.ZipFile(sys.argv[1], 'w') as zip:\n\
                  \tzip.writestr(sys.argv[2] + '/go.mod', sys.argv[3])\n\
                  \tzip.writestr(sys.argv[2] + '/hello.go', 'package hello\\n')\n";
    #[expect(clippy::disallowed_methods, reason = "not made by the code under test")]
    let status = std::process::Command::new("python3")
        .args(["-c", script])
        .arg(&made)
        .args([prefix, go_mod])
        .status()?;
    ensure!(status.success(), "python3 must be installed");
    Ok(fs::read(made)?)
}

#[tokio::test]
async fn a_moved_tag_is_refused_by_the_log_served_as_it_was_and_reported() -> Result<()> {
    let node = Node::start(BINARY).await?;
    let mut module = released(&node, "moving").await?;
    let (log, path) = (Log::of(&node).await?, module.path());
    let logged = module.tags["v1.0.0"].clone();
    let before = Go::checking(&node, &log.setting())?;
    before.run(&["get", &format!("{path}@v1.0.0")]).await?;

    let evil = module.change("something else")?;
    module.tags.insert("v1.0.0".into(), evil.clone());
    module.publish(&node).await?;
    let line = until_ok("the move is a change", async || {
        let (lines, _) = lines(&node, "/index/changes").await?;
        let is_it = |line: &Value| line["Op"] == "moved" && line["Path"] == path;
        Ok(lines.into_iter().find(is_it))
    })
    .await?;
    ensure!(line["Commit"] == evil && line["Logged"] == logged, "{line}");

    // A client without a go.sum gets what was logged, and its check holds.
    let after = Go::checking(&node, &log.setting())?;
    after.run(&["get", &format!("{path}@v1.0.0")]).await?;
    ensure!(after.sums()? == before.sums()?, "the sums have changed");
    let info = node.json(&format!("/go/{path}/@v/v1.0.0.info")).await?;
    ensure!(info["Origin"]["Hash"] == logged, "{info}");

    until_ok("the move is reported", async || {
        let view = node.json("/api/v1/index/sumdb").await?;
        Ok((view["moved_versions"][0]["commit"] == evil).then_some(()))
    })
    .await?;
    let page = node.get("/modules").await?.text();
    ensure!(
        page.contains("Moved tags") && page.contains(&evil[..10]),
        "{page}"
    );
    let said = node.run(&["index", "sumdb"]).await?;
    ensure!(
        said.contains(&logged[..10]) && said.contains(&log.verifier),
        "{said}"
    );
    until_ok("the metrics count it", async || {
        let metrics = node.get("/metrics").await?.text();
        Ok(metrics.contains("sumdb_moved_versions 1").then_some(()))
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_follower_proves_from_visit_to_visit_that_it_missed_nothing() -> Result<()> {
    let node = Node::start(BINARY).await?;
    let mut module = released(&node, "followed").await?;
    let log = Log::of(&node).await?;
    let kept = node.work_dir().join("head");
    let kept = kept.to_str().context("a path")?;
    let mut last: Option<TreeHead> = None;
    for number in 1..4_u64 {
        let head = until_ok("the version is logged", async || {
            let response = node.get("/index/changes?limit=1").await?;
            let note = STANDARD.decode(response.header("gripfast-log-head"))?;
            let head = log.head(std::str::from_utf8(&note)?)?;
            Ok((head.size == number).then_some(head))
        })
        .await?;
        if let Some(last) = last {
            log.check_since(&node, last, head).await?;
        }
        last = Some(head);
        let said = node.run(&["index", "verify", "--since", kept]).await?;
        ensure!(said.contains(&format!("{number} records")), "{said}");
        let is_proven = said.contains(&format!("begins with the {} records", number - 1));
        ensure!(is_proven == (number > 1), "{said}");
        let commit = module.change(&format!("version {number}"))?;
        module
            .release(&node, &format!("v1.{number}.0"), commit)
            .await?;
    }
    // A head that this log never had.
    let stranger = log.head(&fs::read_to_string(kept)?)?;
    let forged = TreeHead {
        hash: Hash([1; 32]),
        ..stranger
    };
    let now = last.context("the last head")?;
    ensure!(log.check_since(&node, forged, now).await.is_err());
    Ok(())
}

/// Runs `gripfast index verify`, which must end with exit code 1 and these words.
async fn must_be_refused(node: &Node, arguments: &[&str], words: &str) -> Result<()> {
    let arguments = [&["index", "verify"][..], arguments].concat();
    let output = node.command(&arguments).output().await?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(
        output.status.code() == Some(1) && said.contains(words),
        "{words}: {:?} {said}",
        output.status
    );
    Ok(())
}

#[tokio::test]
async fn a_log_of_several_tiles_is_verified_and_what_was_forged_or_damaged_ends_with_1()
-> Result<()> {
    const RECORDS: u64 = 300;
    let mut node = Node::start(BINARY).await?;
    let mut module = released(&node, "many").await?;
    let log = Log::of(&node).await?;
    let first = log.of_size(&node, 1).await?;
    let (_, cursor) = lines(&node, "/index/changes").await?;
    let commit = module.tags["v1.0.0"].clone();
    for number in 1..RECORDS {
        module.tags.insert(format!("v1.{number}.0"), commit.clone());
    }
    module.publish(&node).await?;
    let head = log.of_size(&node, RECORDS).await?;
    log.check_since(&node, first, head).await?;

    // What the feed has added between the two heads is what the log has between them.
    let (changes, _) = lines(&node, &format!("/index/changes?cursor={cursor}")).await?;
    let text = |line: &Value, key: &str| line[key].as_str().unwrap_or_default().to_owned();
    let added = changes.iter().filter(|line| line["Op"] == "added");
    let mut added: Vec<_> = added
        .map(|line| (text(line, "Path"), text(line, "Version")))
        .collect();
    let mut logged = log.records(&node, head.size).await?.split_off(1);
    added.sort();
    logged.sort();
    ensure!(added == logged, "{added:?} {logged:?}");

    let kept = node.work_dir().join("head");
    let since = ["--since", kept.to_str().context("a path")?];
    let said = node
        .run(&[&["index", "verify"][..], &since].concat())
        .await?;
    ensure!(said.contains("300 records"), "{said}");
    let shown = node.command_on_terminal(&["index", "verify"]).output();
    let shown = String::from_utf8_lossy(&shown.await?.stdout).into_owned();
    must_contain(&shown, &["verify records", "/300", "left", "300 records"]);

    // A head that somebody else signed; and one with the key of this log that it never had.
    let honest = fs::read_to_string(&kept)?;
    let stranger = Signer::new(&log.name, &[9; 32])?;
    fs::write(&kept, stranger.sign(&head.to_note()))?;
    must_be_refused(&node, &since, "holds no head of this log").await?;
    let mut seed = [0; 32];
    let key = fs::read_to_string(node.data_dir().join("sumdb.key"))?;
    faster_hex::hex_decode(key.trim().as_bytes(), &mut seed)?;
    let own = Signer::new(&log.name, &seed)?;
    let (size, hash) = (WIDTH + 1, Hash([1; 32]));
    fs::write(&kept, own.sign(&TreeHead { size, hash }.to_note()))?;
    must_be_refused(&node, &since, "changed since the last time").await?;
    let size = RECORDS + 1;
    fs::write(&kept, own.sign(&TreeHead { size, hash }.to_note()))?;
    must_be_refused(&node, &since, "fewer records than the last time").await?;

    // One sum of the first tile, which is whole.
    node.stop().await?;
    damage(&node.data_dir().join("gripfast.sqlite")).await?;
    node.launch().await?;
    fs::write(&kept, &honest)?;
    must_be_refused(&node, &since, "not those that the head is signed for").await?;
    ensure!(
        fs::read_to_string(&kept)? == honest,
        "the head of before stays"
    );
    Ok(())
}

/// Changes a sum that was logged, behind the back of the node.
async fn damage(database: &Path) -> Result<()> {
    let options = SqliteConnectOptions::new().filename(database);
    let mut connection = options.connect().await?;
    let changed = "UPDATE sumdb_records SET zip_sum = go_mod_sum WHERE id = 7";
    let changed = sqlx::query(changed).execute(&mut connection).await?;
    connection.close().await?;
    ensure!(changed.rows_affected() == 1, "there is such a record");
    Ok(())
}

#[tokio::test]
async fn what_was_served_of_the_log_outlives_every_kill() -> Result<()> {
    let mut node = Node::start(BINARY).await?;
    let mut module = released(&node, "killed").await?;
    let log = Log::of(&node).await?;
    let path = module.path();
    let mut served: Vec<(String, String)> = Vec::new();
    let mut heads = vec![log.head(&log.get(&node, "latest").await?)?];
    for round in 0..4 {
        let first = module.tags.len();
        for number in first..first + 3 {
            let commit = module.change(&format!("version {number}"))?;
            module.tags.insert(format!("v1.{number}.0"), commit);
        }
        module.publish(&node).await?;
        // Killed at whatever moment of its work it is when one of them was answered.
        let tag = format!("v1.{}.0", first + round % 3);
        let lookup = format!("lookup/{path}@{tag}");
        let answer = until_ok("the version is logged", async || {
            let answer = log.get(&node, &lookup).await;
            Ok(answer.ok())
        })
        .await?;
        node.crash_and_restart().await?;
        let (record, note) = answer.split_once("\n\n").context("a record and a head")?;
        heads.push(log.head(note)?);
        served.push((lookup, record.to_owned()));

        let now = log.head(&log.get(&node, "latest").await?)?;
        for head in &heads {
            log.check_since(&node, *head, now).await?;
        }
        for (lookup, record) in &served {
            let again = log.get(&node, lookup).await?;
            ensure!(again.starts_with(&format!("{record}\n\n")), "{again}");
        }
        heads.push(now);
    }
    if Log::of(&node).await?.verifier != log.verifier {
        bail!("the key has changed");
    }
    node.run(&["index", "verify"]).await?;
    Ok(())
}
