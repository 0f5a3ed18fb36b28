//! Modules of a GitHub organisation, fetched by the real `go` command through a node.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{
    FakeGitHub, Node, ProxyServer, WorkTree,
    github::{Behaviour, Limits, Repo, Setup, pack_of},
    until_ok,
};
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    BINARY,
    index::{go::Go, scene::lines, sumdb::Log},
    operate::documents::blocks,
    proxies::NGINX,
};

const MODULES: &str = include_str!("../../../../../docs/modules.md");

const GITHUB_TOKEN: &str = "token-of-the-organisation";
const READER_TOKEN: &str = "token-of-a-reader";

/// An organisation with a public and a private module, and a node that indexes it.
struct Organisation {
    github: FakeGitHub,
    node: Node,
}

fn module(path: &str) -> Result<WorkTree> {
    let work = WorkTree::init()?;
    work.commit("go.mod", &format!("module {path}\n\ngo 1.19\n"))?;
    work.commit("lib.go", "package lib\n\nconst Greeting = \"Ahoy\"\n")?;
    work.git(["tag", "v1.0.0"])?;
    Ok(work)
}

impl Organisation {
    async fn start(address: &str, settings: &[(&str, &str)]) -> Result<Self> {
        let setup = Setup {
            tokens: vec![GITHUB_TOKEN.to_owned()],
            base: "/api/v3".to_owned(),
            limits: Limits {
                unmetered: true,
                ..Limits::default()
            },
        };
        let github = FakeGitHub::with(address, setup).await?;
        for name in ["open", "secret"] {
            let full = format!("acme/{name}");
            github.add_repo(Repo {
                private: name == "secret",
                ..Repo::new(&full)
            });
            github.publish(&full, &module(&format!("example.com/acme/{name}"))?)?;
        }
        let place = github.place("/orgs/acme");
        let host = place.trim_end_matches("/orgs/acme");
        let host = host.trim_start_matches("http://").to_owned();
        let all = [
            ("GRIPFAST_INDEX_GITHUB", place),
            ("GRIPFAST_INDEX_GITHUB_PRIVATE", "all".to_owned()),
            ("GRIPFAST_INDEX_READER_TOKEN", READER_TOKEN.to_owned()),
            ("GRIPFAST_GITHUB_TOKEN", format!("{host}={GITHUB_TOKEN}")),
            ("GRIPFAST_SYNC_HOST_LIMITS", github.wide_limits()),
        ];
        let mut all: Vec<(&str, &str)> = all.iter().map(|(k, v)| (*k, v.as_str())).collect();
        all.extend(settings);
        let node = Node::start_with(BINARY, &all).await?;
        until_ok("the public module is in the feed", async || {
            let (lines, _) = lines(&node, "/index").await?;
            let is_it = |line: &Value| line["Path"] == "example.com/acme/open";
            Ok(lines.iter().any(is_it).then_some(()))
        })
        .await?;
        Ok(Self { github, node })
    }

    fn fetches(&self, name: &str) -> usize {
        let path = format!("/acme/{name}.git/git-upload-pack");
        self.github.requests_for(&path).len()
    }
}

/// Copies a version into a directory that go takes for a proxy, as a reader with a token.
async fn read_as_reader(node: &Node, module: &str, to: &Path) -> Result<()> {
    let directory = to.join(module).join("@v");
    std::fs::create_dir_all(&directory)?;
    let token = format!("Bearer {READER_TOKEN}");
    for file in ["v1.0.0.info", "v1.0.0.mod", "v1.0.0.zip"] {
        let path = format!("/go/{module}/@v/{file}");
        let headers = [("authorization", token.as_str())];
        let response = node.ask("GET", &path, &headers, b"").await?;
        ensure!(response.status == 200, "{response:?}");
        let caching = response.header("cache-control");
        ensure!(
            caching.contains("private") || caching.contains("no-store"),
            "{caching}"
        );
        std::fs::write(directory.join(file), &response.body)?;
    }
    Ok(())
}

#[tokio::test]
async fn go_gets_modules_of_an_organisation_and_checks_them_against_the_log() -> Result<()> {
    let acme = Organisation::start("127.0.0.151", &[]).await?;
    let log = Log::of(&acme.node).await?;
    let go = Go::checking(&acme.node, &log.setting())?;
    go.run(&["get", "example.com/acme/open@latest"]).await?;
    go.run(&["mod", "download", "example.com/acme/open@v1.0.0"])
        .await?;
    go.run(&["mod", "verify"]).await?;
    ensure!(go.has_checked(&log.name)?, "go has not asked for the log");
    ensure!(acme.fetches("open") == 1, "{}", acme.fetches("open"));
    let again = Go::checking(&acme.node, &log.setting())?;
    again.run(&["get", "example.com/acme/open@v1.0.0"]).await?;
    ensure!(again.sums()? == go.sums()?, "the sums have changed");
    ensure!(acme.fetches("open") == 1, "it is cached");

    // The private one is for readers alone, and in no log.
    let strange = go.run(&["get", "example.com/acme/secret@v1.0.0"]).await;
    let said = format!("{:?}", strange.err().context("a stranger must be refused")?);
    ensure!(said.contains("404"), "{said}");
    ensure!(acme.fetches("secret") == 0, "fetched for a stranger");
    // go sends passwords over https alone: what a reader gets is handed to it as a directory.
    let mirror = TempDir::new()?;
    let module = "example.com/acme/secret";
    until_ok("the private module is served", async || {
        let got = read_as_reader(&acme.node, module, mirror.path()).await;
        got.map(Some)
    })
    .await?;
    let reader = Go::new(&acme.node)?.by(mirror.path());
    reader.run(&["get", &format!("{module}@v1.0.0")]).await?;
    reader.run(&["mod", "verify"]).await?;
    let records = acme.node.json("/api/v1/index/sumdb").await?;
    ensure!(records["records"] == 1, "{records}");
    let data = log.get(&acme.node, "tile/8/data/000.p/1").await?;
    ensure!(!data.contains("secret"), "{data}");
    until_ok("the metrics count both", async || {
        let metrics = acme.node.get("/metrics").await?.text();
        let line = "go_proxy_fetches_total{result=\"ok\"} 2";
        Ok(metrics.contains(line).then_some(()))
    })
    .await?;
    Ok(())
}

/// docs/modules.md about private modules, typed line by line by a developer with the token and by one
/// without.
#[tokio::test]
async fn go_gets_a_private_module_with_the_token_in_netrc_and_a_stranger_gets_nothing() -> Result<()>
{
    let acme = Organisation::start("127.0.0.155", &[]).await?;
    until_ok("readers are served the private module", async || {
        let token = format!("Bearer {READER_TOKEN}");
        let list = "/go/example.com/acme/secret/@v/list";
        let headers = [("authorization", token.as_str())];
        let response = acme.node.ask("GET", list, &headers, b"").await?;
        Ok((response.status == 200).then_some(()))
    })
    .await?;
    // go sends passwords over https alone.
    let tls = ProxyServer::nginx(NGINX, &acme.node).await?;
    let port = tls.tls_port().context("nginx speaks TLS")?;
    let typed = |block: &str, token: &str| {
        block
            .replace("//grasp.example.com", &format!("//localhost:{port}"))
            .replace("grasp.example.com", "localhost")
            .replace("github.com/acme", "example.com/acme")
            .replace("the-reader-token", token)
    };
    let sh = blocks(MODULES, "sh");
    let of = |word: &str| sh.iter().copied().find(|block| block.contains(word));
    let netrc = of(".netrc").context("netrc is documented")?;
    let get = of("acme/secret").context("a private module is fetched")?;
    let private = of("GONOPROXY=none").context("GOPRIVATE is documented")?;
    let client = || Ok::<_, anyhow::Error>(Go::new(&acme.node)?.trusting(&tls));

    // Somebody without a token, and one with a wrong one.
    let stranger = client()?;
    let guessing = client()?;
    guessing.shell(&typed(netrc, "a-guess")).await?;
    for stranger in [&stranger, &guessing] {
        for lines in [get, private] {
            let refused = stranger.shell(&typed(lines, "")).await;
            let said = format!("{:?}", refused.err().context("nothing is for strangers")?);
            ensure!(said.contains("404"), "{said}");
        }
    }
    ensure!(acme.fetches("secret") == 0, "fetched for a stranger");

    let reader = client()?;
    reader.shell(&typed(netrc, READER_TOKEN)).await?;
    reader.shell(&typed(get, "")).await?;
    let sums = reader.sums()?;
    ensure!(
        sums.contains("example.com/acme/secret v1.0.0 h1:"),
        "{sums}"
    );
    // The other way to say it; the same sums.
    reader.shell("go clean -modcache").await?;
    reader.shell(&typed(private, "")).await?;
    ensure!(
        reader.sums()? == sums && acme.fetches("secret") == 1,
        "{sums}"
    );

    // Without either, go wants it in the checksum database, where nothing private is.
    let log = Log::of(&acme.node).await?;
    let checked = format!("export GOSUMDB={:?}\n{}", log.setting(), typed(get, ""));
    let checked = checked.replace("export GONOSUMDB", "# export GONOSUMDB");
    reader.shell("go clean -modcache; rm go.sum").await?;
    let refused = reader.shell(&checked).await;
    let said = format!(
        "{:?}",
        refused.err().context("a private module is in no log")?
    );
    ensure!(
        said.contains("/go/sumdb/") && said.contains("404"),
        "{said}"
    );
    let view = acme.node.json("/api/v1/index/sumdb").await?;
    ensure!(view["records"] == 0, "{view}");
    Ok(())
}

#[tokio::test]
async fn go_prints_that_the_host_is_at_its_limits_and_succeeds_later() -> Result<()> {
    let acme = Organisation::start("127.0.0.152", &[]).await?;
    let limited = Behaviour::retry_after(429, 3);
    acme.github.behave("/acme/open.git", limited);
    let log = Log::of(&acme.node).await?;
    let go = Go::checking(&acme.node, &log.setting())?;
    let refused = go.run(&["get", "example.com/acme/open@v1.0.0"]).await;
    let said = format!("{:?}", refused.err().context("nothing can be fetched")?);
    ensure!(
        said.contains("503") && said.contains("cannot be fetched now") && said.contains("429"),
        "{said}"
    );
    acme.github.behave("/acme/open.git", Behaviour::Serve);
    until_ok("go gets the module", async || {
        let got = go.run(&["get", "example.com/acme/open@v1.0.0"]).await;
        Ok(got.ok())
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_tag_that_moves_on_github_gives_go_no_other_files() -> Result<()> {
    let acme = Organisation::start("127.0.0.154", &[]).await?;
    let (path, log) = ("example.com/acme/open", Log::of(&acme.node).await?);
    let before = Go::checking(&acme.node, &log.setting())?;
    before.run(&["get", &format!("{path}@v1.0.0")]).await?;

    let evil = module(path)?;
    evil.commit("lib.go", "package lib\n\nconst Greeting = \"evil\"\n")?;
    evil.git(["tag", "-f", "v1.0.0"])?;
    evil.git(["tag", "v1.1.0"])?;
    acme.github.publish("acme/open", &evil)?;
    let place = acme.github.place("/acme/open");
    let repo = place.trim_start_matches("http://");
    acme.node.run(&["index", "now", repo]).await?;
    until_ok("the move is a change", async || {
        let (lines, _) = lines(&acme.node, "/index/changes").await?;
        let is_it = |line: &Value| line["Op"] == "moved" && line["Path"] == path;
        Ok(lines.into_iter().any(|line| is_it(&line)).then_some(()))
    })
    .await?;
    // From now on the host sends another commit than the one it is asked for.
    let other = pack_of(&module("example.com/acme/other")?)?;
    acme.github.behave("/acme/open.git", Behaviour::Pack(other));
    let after = Go::checking(&acme.node, &log.setting())?;
    after.run(&["get", &format!("{path}@v1.0.0")]).await?;
    ensure!(after.sums()? == before.sums()?, "the sums have changed");
    let forged = after.run(&["get", &format!("{path}@v1.1.0")]).await;
    let said = format!(
        "{:?}",
        forged.err().context("another commit must be refused")?
    );
    ensure!(said.contains("404"), "{said}");

    // As it is, the new version is served, and its log agrees.
    acme.github.behave("/acme/open.git", Behaviour::Serve);
    until_ok("go gets the new version", async || {
        let got = after.run(&["get", &format!("{path}@v1.1.0")]).await;
        Ok(got.ok())
    })
    .await?;
    until_ok("the move is reported", async || {
        let view = acme.node.json("/api/v1/index/sumdb").await?;
        let moved = view["moved_versions"].as_array().map_or(0, Vec::len);
        Ok((moved == 1).then_some(()))
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn modules_of_other_hosts_can_be_switched_off() -> Result<()> {
    let acme = Organisation::start("127.0.0.153", &[("GRIPFAST_GO_PROXY_GITHUB", "false")]).await?;
    let listed = acme.node.get("/go/example.com/acme/open/@v/list").await?;
    listed.must_be(404, &[]);
    ensure!(acme.fetches("open") == 0, "fetched");
    Ok(())
}
