//! Commands that find their node, and exit codes that scripts can use.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Stdio, time::Duration};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{
    Author, FakeGitHub, LocalProject, Node, WorkTree, http::must_contain, until, until_ok,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{io::AsyncReadExt as _, time::timeout};

use crate::{BINARY, EVERY_LINE};

/// Longer than anything takes that is waited for.
const DEADLINE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_node_is_found_by_commands_that_were_told_nothing() -> Result<()> {
    let runtime = TempDir::new()?;
    let directory = runtime.path().to_string_lossy().into_owned();
    let mut node = Node::start_with(BINARY, &[("XDG_RUNTIME_DIR", &directory)]).await?;
    let elsewhere = TempDir::new()?;
    let run = |arguments: &[&str]| {
        let mut command = node.command(arguments);
        command
            .current_dir(elsewhere.path())
            .env_remove("NGIT_BIND_ADDRESS")
            .env_remove("NGIT_DOMAIN")
            .env_remove("GRIPFAST_DATA_DIR")
            .env("XDG_RUNTIME_DIR", &directory);
        command.output()
    };
    let status = run(&["status"]).await?;
    let text = String::from_utf8_lossy(&status.stdout).into_owned();
    ensure!(
        status.status.success() && text.contains(&node.http_url()),
        "{text}"
    );
    // One that needs the token of the data directory.
    let config = run(&["config", "--service"]).await?;
    let text = String::from_utf8_lossy(&config.stdout).into_owned();
    must_contain(
        &text,
        &[
            "environment NGIT_DOMAIN",
            &node.authority(),
            "max_pack_bytes",
        ],
    );
    let json = run(&["config", "--service", "--json"]).await?;
    let json: Value = serde_json::from_slice(&json.stdout)?;
    let options = json["options"].as_array().context("a list")?;
    let data_dir = options.iter().find(|option| option["key"] == "data_dir");
    let data_dir = data_dir.context("it has a data directory")?;
    ensure!(
        data_dir["value"] == node.data_dir().to_string_lossy().as_ref(),
        "{data_dir}"
    );
    node.stop().await?;
    let gone = fs::read_dir(runtime.path().join("gripfast"))?
        .next()
        .is_none();
    ensure!(gone, "the record goes with the node");
    Ok(())
}

/// As in a container without ca-certificates: a client that finds no certificates of the machine cannot even
/// be built for plain HTTP, if it has none of its own.
#[tokio::test]
async fn commands_reach_a_node_where_the_machine_has_no_certificates() -> Result<()> {
    let node = Node::start(BINARY).await?;
    let url = node.http_url();
    for command in [
        &["healthcheck"][..],
        &["status"],
        &["selftest", "--url", &url],
        &["selftest"],
    ] {
        let mut bare = node.command(command);
        for place in ["SSL_CERT_FILE", "SSL_CERT_DIR"] {
            bare.env(place, "/nonexistent");
        }
        let output = bare.output().await?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let report = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "{command:?}: {report}{said}");
    }
    Ok(())
}

/// As in the first ten minutes of docs/install.md, typed without a session: nothing but HOME is set.
#[tokio::test]
async fn a_backup_from_another_directory_finds_the_node_or_says_what_to_name() -> Result<()> {
    let home = TempDir::new()?;
    let state = home.path().join(".local/state");
    let mut node = Node::prepare(BINARY, &[("XDG_STATE_HOME", &state.to_string_lossy())])?;
    node.launch().await?;
    let backup = |node: &Node| {
        let mut command = node.command(&["backup", "../backups", "--verify"]);
        let elsewhere = node.work_dir().join("elsewhere");
        fs::create_dir_all(&elsewhere)?;
        command
            .current_dir(elsewhere)
            .env_remove("XDG_STATE_HOME")
            .env_remove("XDG_RUNTIME_DIR")
            .env_remove("NGIT_BIND_ADDRESS")
            .env_remove("NGIT_DOMAIN")
            .env_remove("GRIPFAST_DATA_DIR")
            .env("HOME", home.path());
        anyhow::Ok(command)
    };
    let made = backup(&node)?.output().await?;
    let said = String::from_utf8_lossy(&made.stderr).into_owned();
    ensure!(made.status.success(), "{said}");
    node.stop().await?;
    fs::remove_dir_all(node.work_dir().join("backups"))?;
    let refused = backup(&node)?.output().await?;
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    ensure!(refused.status.code() == Some(1), "{said}");
    ensure!(said.contains("--data-dir"), "{said}");
    ensure!(!node.work_dir().join("backups").exists(), "nothing is made");
    Ok(())
}

#[tokio::test]
async fn an_event_is_named_by_its_first_digits_wherever_it_is_printed() -> Result<()> {
    let node = Node::start(BINARY).await?;
    let project = LocalProject::new("tides")?;
    let id = project.announce(&node, 10).await?.id;
    let state = id.to_hex();
    let retried = node.run(&["purgatory", "retry", &state[..8]]).await?;
    let hint = format!("gripfast explain {}", &state[..8]);
    ensure!(retried.contains(&hint), "{retried}");
    let held = node.run(&["explain", &state[..8]]).await?;
    ensure!(held.starts_with("held"), "{held}");
    project.push(&node).await?;
    let served = node.run(&["explain", &state[..8]]).await?;
    ensure!(served.starts_with("served"), "{served}");
    // What nobody knows is refused in words, and nothing is removed for it.
    let mut unknown = node.command(&["events", "rm", "0123abcd", "--execute"]);
    let unknown = unknown.output().await?;
    let said = String::from_utf8_lossy(&unknown.stderr).into_owned();
    ensure!(
        unknown.status.code() == Some(1) && said.contains("`0123abcd`: "),
        "{said}"
    );
    node.run(&["events", "rm", &state[..8], "--execute"])
        .await?;
    ensure!(!node.connect().await?.serves(&id).await?);
    Ok(())
}

/// More wait than a list has, and each is found by how its id begins.
#[tokio::test]
async fn an_event_beyond_the_list_is_named_by_its_first_digits() -> Result<()> {
    const WAITING: usize = 1_001;
    let node = Node::start_with(
        BINARY,
        &[
            ("GRIPFAST_PURGATORY_MAX_PER_AUTHOR", "5000"),
            ("GRIPFAST_PURGATORY_MAX_PER_IDENTIFIER", "5000"),
            ("GRIPFAST_SYNC_ENABLED", "false"),
        ],
    )
    .await?;
    let project = LocalProject::new("tides")?;
    project.publish(&node, 10).await?;
    let (author, url) = (Author::new(), project.url(&node));
    let mut relay = node.connect().await?;
    for number in 0..WAITING {
        let tip = format!("{number:040x}");
        relay
            .publish_ok(&author.pull_request(&project.owner, "tides", &tip, &url))
            .await?;
    }
    // The list has those that end first: this one is not among them.
    let last = author.pull_request(&project.owner, "tides", &"f".repeat(40), &url);
    relay.publish_ok(&last).await?;
    let id = last.id.to_hex();
    let listed = node
        .run(&["purgatory", "ls", "--limit", "1000", "--json"])
        .await?;
    ensure!(!listed.contains(&id), "it is listed");
    let planned = node.run(&["purgatory", "drop", &id[..10]]).await?;
    ensure!(planned.contains(&id[..8]), "{planned}");
    node.run(&["purgatory", "drop", &id[..10], "--yes"]).await?;
    let gone = node
        .command(&["purgatory", "drop", &id[..10], "--yes"])
        .output()
        .await?;
    ensure!(gone.status.code() == Some(1), "{gone:?}");
    Ok(())
}

/// What is kept is the operator's to see, by the first digits that a log line has, and nobody else's.
#[tokio::test]
async fn an_event_in_holding_is_explained_to_the_operator_alone() -> Result<()> {
    let node = Node::start(BINARY).await?;
    let project = LocalProject::new("tides")?;
    project.publish(&node, 60).await?;
    let mut relay = node.connect().await?;
    let versions = [50, 40].map(|seconds| project.announcement_at(&[&node], &[], seconds));
    for version in &versions {
        relay.publish_ok(version).await?;
    }
    let [replaced, blocked] = versions.map(|version| version.id.to_hex());
    let explained = async |id: &str, words: &[&str]| {
        let shown = node.run(&["explain", &id[..8]]).await?;
        ensure!(shown.starts_with("kept"), "{shown}");
        must_contain(&shown, words);
        let public = node.explain(&id[..8]).await?;
        ensure!(public["status"] == "unknown", "{public}");
        let public = node.explain(id).await?;
        ensure!(public["status"] == "unknown", "{public}");
        anyhow::Ok(())
    };
    explained(&replaced, &["a later version replaced it"]).await?;
    let name = format!("{}/tides", project.owner.npub());
    node.run(&["repos", "block", &name, "--execute"]).await?;
    let words = ["taken out of service", "holding restore", "expires in 89d"];
    until_ok("it is taken out of service", async || {
        explained(&blocked, &words).await.map(Some)
    })
    .await
}

/// Whatever a command is asked about: what is not there ends it with 1 and says so.
#[tokio::test]
async fn what_nobody_knows_ends_with_1() -> Result<()> {
    let node = Node::start(BINARY).await?;
    let (owner, id) = (Author::new().npub(), "ab".repeat(32));
    let name = &format!("{owner}/boats");
    for (arguments, words) in [
        (&["explain", "0123456789abcdef"][..], "nothing is known of"),
        (&["explain", "hello"], "nothing is known of"),
        (&["explain", &id], "nothing is known of"),
        (&["explain", name], "nothing is known of"),
        (&["resolve", name], "knows it"),
        (&["resolve", name, "--providers"], "knows it"),
        (&["resolve", name, "--clone-url"], "knows it"),
        (&["repos", "show", name], "repository"),
        (&["repos", "rm", name], "repository"),
        (&["events", "rm", "0123abcd"], "nothing is known of it"),
        (&["archive", "log", name], "repository"),
        (
            &["index", "repo", "github.com/acme/tides"],
            "The index knows no",
        ),
        (
            &["index", "now", "github.com/acme/tides"],
            "The index knows no",
        ),
        (
            &["index", "forget", "github.com/orgs/acme"],
            "The index knows no",
        ),
        (&["sync", "now", "boats"], "waits for git data"),
        (&["queue", "retry", "index-repo", "x"], "job"),
        (&["queue", "drop", "index-repo", "x"], "job"),
        (&["queue", "drop", "index-repo", "x", "--yes"], "job"),
        (&["purgatory", "retry", &id], "names no event that waits"),
        (
            &["purgatory", "drop", "0123abcd"],
            "names no event that waits",
        ),
        (&["holding", "restore", name], "nothing is kept"),
        (&["holding", "purge", name], "nothing is kept"),
        (&["holding", "purge", name, "--yes"], "nothing is kept"),
        (&["repos", "unblock", name, "--execute"], "block"),
        (&["pin", name], "knows it"),
        (&["restore", "nowhere"], "nowhere"),
    ] {
        for json in [&[][..], &["--json"]] {
            let arguments = [arguments, json].concat();
            let output = node.command(&arguments).output().await?;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            ensure!(
                output.status.code() == Some(1) && said.contains(words),
                "{arguments:?}: {:?} {said}",
                output.status
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_first_scrape_after_a_start_has_the_counts_of_the_database() -> Result<()> {
    let node = Node::start(BINARY).await?;
    let metrics = node.get("/metrics").await?.text();
    must_contain(&metrics, &["index_versions 0", "database_up 1"]);
    Ok(())
}

#[tokio::test]
async fn pages_and_api_count_the_same_repositories() -> Result<()> {
    let node = Node::start(BINARY).await?;
    let served = LocalProject::new("served")?;
    served.publish(&node, 10).await?;
    // On disk, and not served before its first push.
    LocalProject::new("held")?.announce(&node, 10).await?;
    grip_testkit::until("all count one repository", || async {
        let status = node.json("/api/v1/status").await.ok()?;
        let home = node.get("/").await.ok()?.text();
        let listed = node.get("/repositories").await.ok()?.text();
        let is_one = status["repositories"] == 1 && listed.contains("1 repository");
        (is_one && !home.contains("2 repositories")).then_some(())
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_refusal_is_printed_once_for_the_push_and_once_for_its_ref() -> Result<()> {
    let node = Node::start(BINARY).await?;
    let project = LocalProject::new("tides")?;
    project.announce(&node, 10).await?;
    project.tree.commit("more", "of it")?;
    let refused = project.tree.push(&project.url(&node), &["main"]).await?;
    ensure!(!refused.ok);
    let reason = refused
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix("remote: "));
    let reason = reason.context("the reason is there")?.trim().to_owned();
    ensure!(
        refused.stderr.matches(&reason).count() == 2,
        "{}",
        refused.stderr
    );
    Ok(())
}

/// Lines of a terminal, without what moves the cursor and colours.
fn seen(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output).into_owned();
    let mut parts = text.split("\u{1b}[");
    let mut seen = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| c.is_ascii_alphabetic());
        seen.push_str(end.map_or("", |end| &part[end + 1..]));
    }
    seen
}

#[tokio::test]
async fn a_check_shows_how_far_it_is_on_a_terminal_alone() -> Result<()> {
    let node = Node::start(BINARY).await?;
    for name in ["ebb", "flow"] {
        LocalProject::new(name)?.publish(&node, 10).await?;
    }
    let shown = node.command_on_terminal(&["check", "--full"]).output();
    let shown = shown.await?;
    let text = seen(&shown.stdout);
    ensure!(shown.status.success(), "{text}");
    must_contain(&text, &["▰", "2/2", "left", "relay and git agree"]);
    let piped = node.command(&["check", "--full"]).output().await?;
    ensure!(piped.status.success() && piped.stderr.is_empty());
    let text = String::from_utf8_lossy(&piped.stdout).into_owned();
    ensure!(text == "2 identifiers: relay and git agree\n", "{text}");
    Ok(())
}

/// What a command that waits for the node shows on a terminal until `part` is there, and what at its end,
/// once the node was let go on.
async fn shown_while_held(
    node: &Node,
    go: &Path,
    arguments: &[&str],
    part: &str,
) -> Result<String> {
    let mut command = node.command_on_terminal(arguments);
    let mut working = command.stdout(Stdio::piped()).spawn()?;
    let mut output = working.stdout.take().context("it is piped")?;
    let mut shown = Vec::new();
    let waited = async {
        while !seen(&shown).contains(part) {
            let more = output.read_buf(&mut shown).await?;
            ensure!(more > 0, "{part}: {}", seen(&shown));
        }
        Ok(())
    };
    let waited = timeout(DEADLINE, waited).await;
    fs::write(go, "")?;
    waited.with_context(|| format!("{part}: {}", seen(&shown)))??;
    output.read_to_end(&mut shown).await?;
    let text = seen(&shown);
    ensure!(working.wait().await?.success(), "{text}");
    Ok(text)
}

/// How far the node is with its part of the work, and then the command with its own.
#[tokio::test]
async fn long_work_shows_how_far_it_is_on_a_terminal() -> Result<()> {
    for (fault, arguments, part, done) in [
        (
            "backup.events_copied",
            &["backup", "backups"][..],
            "events and database",
            "▰",
        ),
        (
            "backup.repository_linked",
            &["backup", "backups"],
            "repositories",
            "▰",
        ),
        (
            "relay.compact",
            &["compact"],
            "compact",
            "compacted the event store: ",
        ),
    ] {
        let files = TempDir::new()?;
        let go = files.path().join("go");
        let fault = format!("{fault}@{}", go.display());
        let node = Node::start_with(BINARY, &[("GRIPFAST_FAULT", &fault)]).await?;
        LocalProject::new("tides")?.publish(&node, 10).await?;
        let text = shown_while_held(&node, &go, arguments, part).await?;
        must_contain(&text, &["left", done]);
        if arguments[0] == "backup" {
            let restore = ["restore", "backups", "--data-dir", "restored"];
            let restored = node.command_on_terminal(&restore).output().await?;
            let text = seen(&restored.stdout);
            ensure!(restored.status.success(), "{text}");
            must_contain(&text, &["▰", "left", "restored "]);
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_compaction_ends_with_what_it_saved() -> Result<()> {
    let node = Node::start(BINARY).await?;
    LocalProject::new("tides")?.publish(&node, 10).await?;
    let mut compact = node.command(&["compact"]);
    let compacted = compact.env("GRIPFAST_FAULT", EVERY_LINE).output().await?;
    let text = String::from_utf8_lossy(&compacted.stdout).into_owned();
    let said = String::from_utf8_lossy(&compacted.stderr).into_owned();
    ensure!(compacted.status.success(), "{text}{said}");
    ensure!(
        said.starts_with("compact: ") && said.contains(" left"),
        "{said}"
    );
    must_contain(&text, &["compacted the event store: ", " before, ", " now"]);
    let report = node.run(&["compact", "--json"]).await?;
    let report: Value = serde_json::from_str(&report)?;
    ensure!(
        report["compacted"] == true && report["bytes_after"].is_u64(),
        "{report}"
    );
    Ok(())
}

#[tokio::test]
async fn every_report_is_json_where_that_is_asked_for() -> Result<()> {
    let node = Node::start(BINARY).await?;
    let (served, held) = (LocalProject::new("tides")?, LocalProject::new("held")?);
    let state = served.publish(&node, 10).await?.id.to_hex();
    let waiting = held.announce(&node, 10).await?.id.to_hex();
    let name = format!("{}/tides", served.owner.npub());
    for command in [
        "status",
        "selftest",
        "healthcheck",
        "version",
        "config",
        "config --service",
        "check",
        "compact",
        "backup backups",
        "backup backups --list",
        "restore backups --data-dir restored",
        "explain npub1x/y",
        "purgatory ls",
        "sync now held",
        &format!("purgatory retry {waiting}"),
        &format!("purgatory drop {waiting}"),
        &format!("purgatory drop {waiting} --yes"),
        "sync status",
        "repos ls",
        "repos size",
        "repos blocks",
        &format!("repos show {name}"),
        &format!("repos rm {name}"),
        "repos block boats",
        "repos block boats --execute",
        "repos unblock boats",
        "repos unblock boats --execute",
        &format!("events rm {state}"),
        &format!("archive log {name}"),
        "holding ls",
        &format!("resolve {name}"),
        &format!("resolve {name} --providers"),
        &format!("pin {name}"),
        "pins",
        &format!("unpin {name}"),
        "queue ls",
        "queue causes",
        "queue revive",
        "index status",
        "index sources",
        "index sumdb",
        &format!("repos rm {name} --execute"),
        &format!("holding restore {name}"),
        &format!("holding purge {name} --yes"),
    ] {
        let words: Vec<_> = command.split(' ').chain(["--json"]).collect();
        let output = node.command(&words).output().await?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let said = String::from_utf8_lossy(&output.stderr);
        let read = serde_json::from_str::<Value>(&text);
        read.with_context(|| format!("{command}: {text}{said}"))?;
    }
    Ok(())
}

/// An announcement names this server among others: that it has nothing is no failed attempt.
#[tokio::test]
async fn the_own_url_of_a_repository_is_no_attempt_of_sync() -> Result<()> {
    let node = Node::start(BINARY).await?;
    let project = LocalProject::new("tides")?;
    let elsewhere = "http://127.0.0.1:9/tides.git".to_owned();
    let announced = project.announcement_at(&[&node], std::slice::from_ref(&elsewhere), 10);
    let mut relay = node.connect().await?;
    relay.publish_ok(&announced).await?;
    relay.publish_ok(&project.state(10)).await?;
    node.run(&["sync", "now", "tides"]).await?;
    let shown = until("the other URL was tried", || async {
        let shown = node.run(&["sync", "status"]).await.ok()?;
        shown.contains(&elsewhere).then_some(shown)
    })
    .await?;
    ensure!(!shown.contains(&project.url(&node)), "{shown}");
    let json = node.run(&["sync", "status", "--json"]).await?;
    ensure!(!json.contains(&project.url(&node)), "{json}");
    Ok(())
}

/// Entries of the longest list in a report.
fn entries(report: &str) -> Result<usize> {
    let report: Value = serde_json::from_str(report)?;
    let lists: Vec<&Value> = match &report {
        Value::Object(fields) => fields.values().collect(),
        list => vec![list],
    };
    let lengths = lists.iter().filter_map(|list| list.as_array());
    Ok(lengths.map(Vec::len).max().unwrap_or(0))
}

/// `--limit` on every list: of several entries one is shown.
#[tokio::test]
async fn every_list_takes_a_limit() -> Result<()> {
    let github = FakeGitHub::enterprise("127.0.0.78", true).await?;
    github.add("closed/one");
    github.require_sso("closed", true);
    let sources = [github.place("/orgs/gone"), github.place("/orgs/closed")].join(",");
    let node = Node::start_with(
        BINARY,
        &[
            ("GRIPFAST_INDEX_GITHUB", &sources),
            ("GRIPFAST_SYNC_HOST_LIMITS", &github.wide_limits()),
        ],
    )
    .await?;
    for n in 0..2 {
        let [served, blocked, held] =
            ["served", "blocked", "held"].map(|name| LocalProject::new(&format!("{name}-{n}")));
        let (served, blocked) = (served?, blocked?);
        let name = |project: &LocalProject| {
            let npub = project.owner.npub();
            format!("{npub}/{}", project.identifier)
        };
        served.publish(&node, 10).await?;
        node.run(&["pin", &name(&served)]).await?;
        blocked.publish(&node, 10).await?;
        let block = ["repos", "block", "--execute", &name(&blocked)];
        node.run(&block).await?;
        held?.announce(&node, 10).await?;
        node.run(&["backup", "backups"]).await?;
    }
    for list in [
        &["backup", "backups", "--list"][..],
        &["index", "status"],
        &["repos", "ls"],
        &["repos", "size"],
        &["repos", "blocks"],
        &["holding", "ls"],
        &["purgatory", "ls"],
        &["queue", "ls"],
        &["queue", "causes"],
        &["sync", "status"],
        &["pins"],
        &["index", "sources"],
    ] {
        until_ok(&format!("{list:?} has several entries"), async || {
            let said = node.run(&[list, &["--json"]].concat()).await?;
            Ok((entries(&said)? > 1).then_some(()))
        })
        .await?;
        let limited = [list, &["--limit", "1"]].concat();
        let said = node.run(&[&limited[..], &["--json"]].concat()).await?;
        ensure!(entries(&said)? == 1, "{list:?}: {said}");
        node.run(&limited).await?;
    }
    Ok(())
}

/// Whatever a node writes, its group reads at most, and nobody else anything.
#[tokio::test]
async fn no_file_of_a_node_at_work_is_open_to_others() -> Result<()> {
    let node = Node::start(BINARY).await?;
    let (served, held) = (LocalProject::new("tides")?, LocalProject::new("held")?);
    served.publish(&node, 10).await?;
    held.announce(&node, 10).await?;
    let (mut places, mut names) = (vec![node.data_dir()], Vec::new());
    while let Some(place) = places.pop() {
        let metadata = fs::symlink_metadata(&place)?;
        let mode = metadata.permissions().mode();
        ensure!(mode & 0o027 == 0, "{}: {mode:o}", place.display());
        if metadata.is_dir() {
            for entry in fs::read_dir(&place)? {
                places.push(entry?.path());
            }
        } else {
            names.extend(place.file_name().map(|name| name.to_owned()));
        }
    }
    for name in ["gripfast.sqlite", "data.mdb", "relay.key", "HEAD"] {
        ensure!(names.iter().any(|found| found == name), "{name}: {names:?}");
    }
    Ok(())
}

/// G01-124: without `blacklist_auto_restore`, what a list took out of service waits for the operator.
#[tokio::test]
async fn holding_restore_brings_back_what_a_blacklist_took_out_of_service() -> Result<()> {
    let mut node = Node::start(BINARY).await?;
    let project = LocalProject::new("tides")?;
    let announcement = project.announcement_at(&[&node], &[], 10);
    let mut relay = node.connect().await?;
    relay.publish_ok(&announcement).await?;
    relay.publish_ok(&project.state(10)).await?;
    project.push(&node).await?;
    let name = format!("{}/tides", project.owner.npub());
    let config = node.work_dir().join("gripfast.toml");
    for blacklist in ["tides", ""] {
        fs::write(&config, format!("repository_blacklist = \"{blacklist}\"\n"))?;
        node.stop().await?;
        node.launch().await?;
        until_ok("it is out of service", async || {
            let is_served = node.connect().await?.serves(&announcement.id).await?;
            let held = node.run(&["holding", "ls", "--json"]).await?;
            let held: Value = serde_json::from_str(&held)?;
            let mut held = held["held"].as_array().context("a list")?.iter();
            let is_held =
                held.any(|it| it["repository"] == name.as_str() && it["reason"] == "blacklist");
            Ok((!is_served && is_held).then_some(()))
        })
        .await
        .with_context(|| format!("log:\n{}", node.log()))?;
    }
    let unknown = node.run(&["holding", "restore", "tides"]).await;
    let unknown = unknown.unwrap_err().to_string();
    must_contain(&unknown, &["is no repository: write npub1…/identifier"]);
    let done = node.run(&["holding", "restore", &name]).await?;
    ensure!(
        done.trim() == format!("brought back 1 event of {name}"),
        "{done}"
    );
    let mut relay = node.connect().await?;
    ensure!(relay.serves(&announcement.id).await?);
    let clone = WorkTree::clone(&project.url(&node), &[]).await?;
    ensure!(clone.tip("HEAD")? == project.tip);
    let held = node.run(&["holding", "ls"]).await?;
    ensure!(held.trim() == "nothing is kept", "{held}");
    Ok(())
}

/// Who, by which event, from which address, from what to what; and whose events are served by it.
#[tokio::test]
async fn the_log_says_who_changed_a_ref_and_from_where() -> Result<()> {
    let node = Node::start(BINARY).await?;
    let project = LocalProject::new("tides")?;
    let state = project.publish(&node, 10).await?;
    let (log, npub) = (node.log(), project.owner.npub());
    let line = |part: &str| {
        let mut lines = log.lines();
        let found = lines.find(|line| line.contains(part));
        found.with_context(|| log.clone())
    };
    let moved = format!("refs/heads/main none → {}", &project.tip[..10]);
    let by = format!("push by state {} of {npub}", state.id);
    must_contain(line("refs changed")?, &["from=127.0.0.1", &moved, &by]);
    let released = ["announcements=1", "states=1", npub.as_str()];
    must_contain(line("released from purgatory")?, &released);
    Ok(())
}

/// Events change refs as well: of what is here already, of pull requests, and by deleting these.
#[tokio::test]
async fn the_log_says_whose_event_changed_a_ref_and_from_where() -> Result<()> {
    let node = Node::start(BINARY).await?;
    let project = LocalProject::new("tides")?;
    project.publish(&node, 60).await?;
    let mut relay = node.connect().await?;
    let (tip, npub) = (project.tip.as_str(), project.owner.npub());
    let refs = [("refs/heads/main", tip), ("refs/heads/next", tip)];
    let state = project.state_at(&refs, 50);
    relay.publish_ok(&state).await?;
    let contributor = Author::new();
    let fix = project.tree.commit("fix", "1")?;
    let url = project.url(&node);
    let request = contributor.pull_request(&project.owner, "tides", &fix, &url);
    let name = format!("refs/nostr/{}", request.id);
    let refspec = format!("{fix}:{name}");
    project.tree.push_ok(&url, &[&refspec]).await?;
    relay.publish_ok(&request).await?;
    let deletion = contributor.delete_events(&[request.id]);
    relay.publish_ok(&deletion).await?;

    let log = node.log();
    let must_say = |change: String, parts: &[&str]| {
        let mut changes = log.lines().filter(|line| line.contains("refs changed"));
        let found = changes.find(|line| line.contains(&change));
        must_contain(found.with_context(|| log.clone())?, parts);
        anyhow::Ok(())
    };
    let (tip, fix) = (&tip[..10], &fix[..10]);
    let by = format!("by=state {} of {npub}", state.id);
    let next = format!("refs/heads/next none → {tip}");
    must_say(next, &["from=127.0.0.1", &by])?;
    let pushed = format!("{name} none → {fix}");
    must_say(pushed, &["from=127.0.0.1", "by=push ahead of its event"])?;
    let (id, of) = (
        format!("id={}", deletion.id),
        format!("of=\"{}\"", contributor.npub()),
    );
    let cleared = format!("{name} {fix} → none");
    must_say(cleared, &["from=127.0.0.1", &id, &of])?;
    Ok(())
}
