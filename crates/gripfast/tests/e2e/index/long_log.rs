//! A long checksum log, asked over HTTP, and proven by the real `go` command.
//!
//! `cargo xtask campaign sumdb` has a million records.

use std::{collections::BTreeMap, fs, ops::Range, path::Path, time::Duration};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Node, http::Connection};
use grip_tlog::{Contents, Frontier, HEIGHT, Hash, Tile, WIDTH, record_hash};
use serde_json::{Value, json};
use sqlx::{
    ConnectOptions as _, Connection as _, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteSynchronous},
};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::{
    BINARY,
    index::{
        go::Go,
        scene::Module,
        sumdb::{Log, zip_of},
    },
};

/// Records that are written before go asks; a million in the campaign.
const RECORDS: u64 = 3_000;
/// The most requests of each kind that are timed; a fifth of the records in a shorter log.
const MAX_REQUESTS: u64 = 10_000;
/// Versions all over the log that go downloads and looks up.
const PLACES: u64 = 24;
/// Versions that the node itself logs while go has an older head.
const GROWN: u64 = 40;
/// What serving may cost beside what the node has anyway.
const GROWTH_BYTES: u64 = 64 << 20;

/// The sums of a module's zip and of its go.mod.
type Sums = (String, String);

#[tokio::test]
async fn go_proves_inclusion_and_consistency_in_a_long_log() -> Result<()> {
    let size: u64 = match std::env::var("GRIPFAST_SUMDB_RECORDS") {
        Ok(records) => records.parse()?,
        Err(_) => RECORDS,
    };
    let settings = [("GRIPFAST_HTTP_REQUESTS_PER_SECOND", "0")];
    let mut node = Node::start_with(BINARY, &settings).await?;
    let mut module = Module::announce(&node, "hello").await?;
    let commit = module.change("as it was released")?;
    module.release(&node, "v1.0.0", commit.clone()).await?;
    let log = Log::of(&node).await?;
    log.of_size(&node, 1).await?;

    let mirror = Mirror::new()?;
    let places: Vec<u64> = (0..PLACES)
        .map(|at| 1 + at * (size - 2) / (PLACES - 1))
        .collect();
    let sums = mirror.publish(&node, &places).await?;
    node.stop().await?;
    let began = Instant::now();
    fill(&node, 1..size, &sums).await?;
    println!("wrote {size} records in {:?}", began.elapsed());
    node.launch().await?;
    let head = log.of_size(&node, size).await?;
    serve_many(&node, &log, size).await?;

    // Inclusion: each place is looked up, and proven by tiles against the signed head.
    let mut go = Go::checking(&node, &log.setting())?.by(mirror.path());
    let began = Instant::now();
    go.run(&Mirror::download(&places)).await?;
    println!(
        "go proved {PLACES} records of {size} in {:?}",
        began.elapsed()
    );
    ensure!(
        log.head(&go.kept_head(&log.name)?)? == head,
        "go has another head"
    );

    // Consistency: the node goes on logging, and go begins with the head that it has.
    for number in 1..=GROWN {
        module.tags.insert(format!("v1.{number}.0"), commit.clone());
    }
    module.publish(&node).await?;
    let grown = log.of_size(&node, size + GROWN).await?;
    go = go.by_proxy(&node);
    let began = Instant::now();
    for version in ["v1.0.0", "v1.1.0", &format!("v1.{GROWN}.0")] {
        let wanted = format!("{}@{version}", module.path());
        go.run(&["mod", "download", &wanted]).await?;
    }
    println!(
        "go proved {size} records in {} in {:?}",
        grown.size,
        began.elapsed()
    );
    ensure!(
        log.head(&go.kept_head(&log.name)?)? == grown,
        "go has another head"
    );

    another_past_is_refused(&node, &log, go, &mirror, grown.size + 10).await
}

/// Asks for records and tiles all over the log, one after another, and prints what that takes.
async fn serve_many(node: &Node, log: &Log, size: u64) -> Result<()> {
    let mut connection = Connection::open(node.port()).await?;
    let (mut lookups, mut tiles) = (Vec::new(), Vec::new());
    let requests = MAX_REQUESTS.min(size / 5);
    // What the first requests of a process allocate for good is not what many cost.
    let mut before = 0;
    for step in 0..requests {
        if step == requests / 10 {
            before = node.anonymous_rss_bytes()?;
        }
        let number = 1 + (step * 7_919 + 13) % (size - 1);
        let (path, version) = name(number);
        let tile = Tile {
            contents: Contents::Hashes(0),
            index: number / WIDTH,
            width: WIDTH.min(size - number / WIDTH * WIDTH),
        };
        let asked = [format!("lookup/{path}@{version}"), format!("tile/{tile}")];
        for (asked, times) in asked.iter().zip([&mut lookups, &mut tiles]) {
            let began = Instant::now();
            let response = connection
                .get(&format!("/go/sumdb/{}/{asked}", log.name))
                .await?;
            times.push(began.elapsed());
            ensure!(response.status == 200, "{asked}: {response:?}");
            let is_record = asked.starts_with("lookup");
            let answers = response
                .text()
                .starts_with(&format!("{number}\n{path} {version} "));
            ensure!(answers || !is_record, "{asked}: {response:?}");
        }
    }
    let grown = node.anonymous_rss_bytes()?.saturating_sub(before);
    let p99 = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        times[times.len() * 99 / 100]
    };
    println!(
        "{size} records over HTTP: lookup p99 {:?}, tile p99 {:?}, memory {} MiB, grew by {} KiB",
        p99(&mut lookups),
        p99(&mut tiles),
        node.anonymous_rss_bytes()? >> 20,
        grown >> 10,
    );
    ensure!(grown < GROWTH_BYTES, "memory grew by {grown} bytes");
    Ok(())
}

/// A second log that the same key signs: longer than the one that go has proven, and with another past.
async fn another_past_is_refused(
    node: &Node,
    log: &Log,
    go: Go,
    mirror: &Mirror,
    size: u64,
) -> Result<()> {
    let settings = [("GRIPFAST_SUMDB_NAME", log.name.as_str())];
    let mut fork = Node::prepare(BINARY, &settings)?;
    fs::create_dir_all(fork.data_dir())?;
    fs::copy(
        node.data_dir().join("sumdb.key"),
        fork.data_dir().join("sumdb.key"),
    )?;
    fork.launch().await?;
    fork.stop().await?;
    // A version that go has not looked up yet.
    let place = [size - 1];
    let sums = mirror.publish(node, &place).await?;
    fill(&fork, 0..size, &sums).await?;
    fork.launch().await?;
    let forked = Log::of(&fork).await?;
    let refused = go
        .by(mirror.path())
        .checked_by(&forked.setting())
        .run(&Mirror::download(&place))
        .await;
    let said = format!(
        "{:?}",
        refused.err().context("another past must be refused")?
    );
    let checked = format!("against tree#{size}: downloaded inconsistent tile");
    ensure!(said.contains(&checked), "{said}");
    // Who has no head of before cannot know.
    let newcomer = Go::checking(&fork, &forked.setting())?.by(mirror.path());
    newcomer.run(&Mirror::download(&place)).await?;
    Ok(())
}

/// The module and version of a record.
fn name(number: u64) -> (String, String) {
    let (module, version) = (number / 50, number % 50);
    (format!("example.com/m{module}"), format!("v1.{version}.0"))
}

fn wanted(number: u64) -> String {
    let (path, version) = name(number);
    format!("{path}@{version}")
}

/// Modules in a directory that go takes for a proxy.
struct Mirror(TempDir);

impl Mirror {
    fn new() -> Result<Self> {
        Ok(Self(TempDir::new()?))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// The arguments by which go downloads these.
    fn download(places: &[u64]) -> Vec<String> {
        let words = ["mod", "download"].map(str::to_owned);
        let places = places.iter().map(|place| wanted(*place));
        words.into_iter().chain(places).collect()
    }

    /// Makes the modules of these places; their sums are computed by go.
    async fn publish(&self, node: &Node, places: &[u64]) -> Result<BTreeMap<u64, Sums>> {
        for place in places {
            let (path, version) = name(*place);
            let at = self.path().join(&path).join("@v");
            fs::create_dir_all(&at)?;
            let go_mod = format!("module {path}\n");
            let zip = zip_of(&wanted(*place), &go_mod)?;
            let file = |end: &str| at.join(format!("{version}.{end}"));
            fs::write(file("info"), json!({ "Version": version }).to_string())?;
            fs::write(file("mod"), go_mod)?;
            fs::write(file("zip"), zip)?;
        }
        let unchecked = Go::new(node)?.by(self.path());
        let mut asked = Self::download(places);
        asked.insert(2, "-json".to_owned());
        let said = unchecked.run(&asked).await?;
        let said = serde_json::Deserializer::from_str(&said).into_iter::<Value>();
        let said = said.collect::<Result<Vec<_>, _>>()?;
        ensure!(said.len() == places.len(), "{said:?}");
        let text = |line: &Value, key: &str| line[key].as_str().map(str::to_owned).context("a sum");
        let sums = places.iter().zip(&said);
        sums.map(|(place, line)| {
            let (path, version) = name(*place);
            ensure!(line["Path"] == path && line["Version"] == version, "{line}");
            Ok((*place, (text(line, "Sum")?, text(line, "GoModSum")?)))
        })
        .collect()
    }
}

/// Writes records into the database of a node that is stopped, as its own appends would have: those
/// with `sums` can be downloaded, the others are names.
async fn fill(node: &Node, numbers: Range<u64>, sums: &BTreeMap<u64, Sums>) -> Result<()> {
    const AT_ONCE: usize = 10_000;
    // A power cut ends the test anyway.
    let options = SqliteConnectOptions::new()
        .filename(node.data_dir().join("gripfast.sqlite"))
        .synchronous(SqliteSynchronous::Off);
    let mut db = options.connect().await?;
    let (size, roots): (i64, String) = sqlx::query_as("SELECT size, frontier FROM sumdb_log")
        .fetch_one(&mut db)
        .await?;
    ensure!(
        size.unsigned_abs() == numbers.start,
        "the log has {size} records"
    );
    let roots: Vec<Hash> = roots
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    let mut frontier = Frontier::from_parts(numbers.start, roots)?;
    let numbers: Vec<u64> = numbers.collect();
    for numbers in numbers.chunks(AT_ONCE) {
        let (mut records, mut nodes) = (Vec::new(), Vec::new());
        for number in numbers {
            let (path, version) = name(*number);
            let of =
                |what: &str| format!("h1:{}", record_hash(format!("{what}{number}").as_bytes()));
            let made_up = || (of("zip"), of("mod"));
            let (zip, go_mod) = sums.get(number).cloned().unwrap_or_else(made_up);
            let text = format!("{path} {version} {zip}\n{path} {version}/go.mod {go_mod}\n");
            let hash = record_hash(text.as_bytes());
            frontier.append(hash, |node, hash| {
                nodes.push(json!([node.level / HEIGHT, node.index, hash.to_string()]));
            });
            let repo = format!("github.com/acme/m{}", number / 50);
            records.push(json!([
                number,
                path,
                version,
                zip,
                go_mod,
                hash.to_string(),
                repo
            ]));
        }
        append(&mut db, &records, &nodes, &frontier).await?;
    }
    db.close().await?;
    Ok(())
}

async fn append(
    db: &mut SqliteConnection,
    records: &[Value],
    nodes: &[Value],
    frontier: &Frontier,
) -> Result<()> {
    let mut transaction = db.begin().await?;
    let add = "INSERT INTO sumdb_records (id, path, version, zip_sum, go_mod_sum, record_hash, \
               org_repo_name, commit_oid, logged_at) \
               SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, \
               value ->> 6, '', 0 FROM json_each($1)";
    let add = sqlx::query(add).bind(Value::from(records).to_string());
    add.execute(&mut *transaction).await?;
    let add = "INSERT INTO sumdb_nodes (level, number, hash) \
               SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each($1)";
    let add = sqlx::query(add).bind(Value::from(nodes).to_string());
    add.execute(&mut *transaction).await?;
    let roots: Vec<_> = frontier.roots().iter().map(Hash::to_string).collect();
    sqlx::query("UPDATE sumdb_log SET size = $1, frontier = $2, root = $3")
        .bind(frontier.size().cast_signed())
        .bind(roots.join(" "))
        .bind(frontier.root().to_string())
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await?;
    Ok(())
}
