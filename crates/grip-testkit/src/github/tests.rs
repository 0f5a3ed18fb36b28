use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{Behaviour, Counts, FakeGitHub, Repo, Setup};
use crate::{until, within};

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let found = lines.find(|(found, _)| found.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value)
    }

    fn remaining(&self) -> Option<u32> {
        self.header("x-ratelimit-remaining")?.parse().ok()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    fn names(&self, key: &str) -> Vec<String> {
        let items = self.json().as_array().cloned().unwrap_or_default();
        let name = |item: &Value| item[key].as_str().unwrap_or_default().to_owned();
        items.iter().map(name).collect()
    }
}

async fn ask(github: &FakeGitHub, path: &str, headers: &[(&str, &str)]) -> Result<Answer> {
    let address = github.shared.address;
    let asking = async {
        let mut stream = TcpStream::connect(address).await?;
        let mut head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).await?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await?;
        anyhow::Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = within("an answer", asking).await??;
    let (head, body) = text.split_once("\r\n\r\n").context("a head")?;
    Ok(Answer {
        status: head.get(9..12).context("a status")?.parse()?,
        head: head.to_owned(),
        body: body.to_owned(),
    })
}

fn tokens(tokens: &[&str]) -> Setup {
    Setup {
        tokens: tokens.iter().map(|token| (*token).to_owned()).collect(),
        ..Setup::default()
    }
}

const A: (&str, &str) = ("Authorization", "Bearer a");

#[tokio::test]
async fn repositories_are_listed_in_pages_with_links() -> Result<()> {
    let github = FakeGitHub::with("127.0.0.9", tokens(&["a"])).await?;
    github.fill("acme", 250, 0);
    let mut private = Repo::new("acme/secret");
    private.private = true;
    github.add_repo(private);
    let mut path = "/orgs/acme/repos?per_page=100&sort=created&direction=asc".to_owned();
    let mut all = Vec::new();
    loop {
        let page = ask(&github, &path, &[A]).await?;
        all.extend(page.names("full_name"));
        let Some(link) = page.header("link") else {
            break;
        };
        let next = link.split(['<', '>']).nth(1).context("a URL")?;
        path = next.replace(github.api().trim_end_matches('/'), "");
    }
    ensure!(
        all.len() == 251 && all[0] == "acme/repo-00000",
        "{}",
        all.len()
    );
    ensure!(github.count() == 3 && github.requests()[2].query.contains("page=3"));
    let hidden = ask(&github, "/orgs/acme/repos?per_page=1", &[]).await?;
    ensure!(hidden.names("full_name") == ["acme/repo-00249"]);
    ensure!(ask(&github, "/orgs/nobody/repos", &[]).await?.status == 404);
    Ok(())
}

#[tokio::test]
async fn the_whole_host_is_listed_by_id() -> Result<()> {
    let github = FakeGitHub::start("127.0.0.9").await?;
    github.fill("acme", 3, 0);
    let mut one = Repo::new("jo/one");
    one.of_user = true;
    let id = github.add_repo(one);
    let page = ask(&github, "/repositories?per_page=2", &[]).await?;
    ensure!(
        page.header("link")
            .is_some_and(|link| link.contains("since=14"))
    );
    let page = ask(&github, &format!("/repositories?since={}", id - 1), &[]).await?;
    ensure!(page.names("full_name") == ["jo/one"] && page.header("link").is_none());
    ensure!(ask(&github, "/users/jo/repos", &[]).await?.status == 200);
    ensure!(ask(&github, "/orgs/jo/repos", &[]).await?.status == 404);
    Ok(())
}

#[tokio::test]
async fn tags_commits_and_files_are_found_and_change_at_run_time() -> Result<()> {
    let github = FakeGitHub::start("127.0.0.9").await?;
    github.add("acme/one");
    let first = github.add_tag("acme/one", "v1.0.0");
    github.put_file("acme/one", "sub/go.mod", "module x\n");
    let page = ask(&github, "/repos/ACME/one/tags", &[]).await?;
    ensure!(page.names("name") == ["v1.0.0"]);
    let raw = ("Accept", "application/vnd.github.raw+json");
    let path = format!("/repos/acme/one/contents/sub/go.mod?ref={first}");
    ensure!(ask(&github, &path, &[raw]).await?.body == "module x\n");
    let commit = ask(
        &github,
        &format!("/repos/acme/one/git/commits/{first}"),
        &[],
    )
    .await?;
    ensure!(commit.json()["committer"]["date"] == "2023-11-14T22:13:21Z");
    let second = github.add_tag("acme/one", "v1.0.0");
    ensure!(first != second && github.tags("acme/one") == [("v1.0.0".into(), second)]);
    github.delete_tag("acme/one", "v1.0.0");
    ensure!(ask(&github, "/repos/acme/one/tags", &[]).await?.body == "[]");
    github.delete_file("acme/one", "sub/go.mod");
    ensure!(ask(&github, &path, &[raw]).await?.status == 404);
    github.rename("acme/one", "acme/two");
    let moved = ask(&github, "/repos/acme/one", &[]).await?;
    ensure!(moved.status == 301);
    let to = moved.header("location").context("a place")?;
    let there = ask(&github, to, &[]).await?;
    ensure!(there.json()["full_name"] == "acme/two", "{}", there.body);
    github.remove("acme/two");
    ensure!(ask(&github, "/repos/acme/two", &[]).await?.status == 404);
    ensure!(ask(&github, "/repos/acme/one", &[]).await?.status == 404);
    Ok(())
}

#[tokio::test]
async fn every_token_has_its_budget_and_what_has_not_changed_is_free() -> Result<()> {
    let github = FakeGitHub::with("127.0.0.9", tokens(&["a", "b"])).await?;
    github.set_limits(|limits| limits.per_token = 2);
    github.add("acme/one");
    let path = "/repos/acme/one";
    let first = ask(&github, path, &[A]).await?;
    let etag = first.header("etag").context("a mark")?.to_owned();
    ensure!(first.remaining() == Some(1));
    let same = ask(&github, path, &[A, ("If-None-Match", &etag)]).await?;
    ensure!((same.status, same.remaining()) == (304, Some(1)));
    ensure!(ask(&github, path, &[A]).await?.remaining() == Some(0));
    ensure!(github.counts() == Counts::default());
    let over = ask(&github, path, &[A]).await?;
    ensure!((over.status, over.remaining()) == (403, Some(0)));
    ensure!(github.counts().over_budget == 1);
    let other = ask(&github, path, &[("Authorization", "token b")]).await?;
    ensure!((other.status, other.remaining()) == (200, Some(1)));
    let seen: Vec<_> = github
        .requests()
        .iter()
        .map(|s| (s.token, s.status))
        .collect();
    ensure!(seen[3..] == [(Some(0), 403), (Some(1), 200)]);
    github.set_limits(|limits| limits.window = Duration::from_millis(50));
    github.renew_budgets();
    github.use_up(Some(0), 2);
    let renewed = || std::future::ready((github.remaining(Some(0)) == 2).then_some(()));
    until("the next window", renewed).await
}

#[tokio::test]
async fn tokens_expire_and_unknown_ones_are_refused() -> Result<()> {
    let github = FakeGitHub::with("127.0.0.9", tokens(&["a"])).await?;
    github.expire_after(0, 1);
    ensure!(ask(&github, "/repositories", &[A]).await?.status == 200);
    for token in [A.1, "Bearer x", "nonsense"] {
        let answer = ask(&github, "/repositories", &[("Authorization", token)]).await?;
        ensure!(answer.status == 401, "{token}");
    }
    github.renew_token(0);
    ensure!(ask(&github, "/repositories", &[A]).await?.status == 200);
    ensure!(github.counts().unauthorised == 3);
    Ok(())
}

#[tokio::test]
async fn bursts_are_refused_and_counted() -> Result<()> {
    let github = FakeGitHub::start("127.0.0.9").await?;
    github.add("acme/one");
    github.set_limits(|limits| limits.concurrent = Some(1));
    let gate = github.hold("/repos/acme/one");
    let opening = async {
        let held = || std::future::ready((github.in_flight() == 1).then_some(()));
        until("one call is held", held).await?;
        let refused = ask(&github, "/repositories", &[]).await?;
        ensure!(refused.status == 403 && refused.body.contains("secondary rate limit"));
        ensure!(refused.header("retry-after") == Some("60"));
        gate.open();
        Ok(())
    };
    let (held, opened) = tokio::join!(ask(&github, "/repos/acme/one", &[]), opening);
    opened?;
    ensure!(held?.status == 200);
    ensure!(ask(&github, "/repositories", &[]).await?.status == 403);
    ensure!((github.counts().secondary, github.counts().too_early) == (2, 1));
    github.renew_budgets();
    github.set_limits(|limits| limits.per_minute = Some(1));
    ensure!(ask(&github, "/repositories", &[]).await?.status == 200);
    ensure!(ask(&github, "/repositories", &[]).await?.status == 429);
    Ok(())
}

#[tokio::test]
async fn every_nth_call_fails_and_scripts_run_step_by_step() -> Result<()> {
    let github = FakeGitHub::start("127.0.0.9").await?;
    github.fill("acme", 2, 1);
    github.set_limits(|limits| limits.fail_every = Some(3));
    let mut statuses = Vec::new();
    for _ in 0..6 {
        statuses.push(ask(&github, "/repositories", &[]).await?.status);
    }
    ensure!(statuses == [200, 200, 502, 200, 200, 502]);
    github.set_limits(|limits| limits.fail_every = None);
    let path = "/repos/acme/repo-00000";
    let whole = ask(&github, path, &[]).await?.body;
    let steps = [
        Behaviour::Html,
        Behaviour::TruncatedJson,
        Behaviour::Instead("/repos/acme/repo-00001".into()),
        Behaviour::status(404, "Not Found"),
        Behaviour::Serve,
    ];
    github.script(path, steps);
    ensure!(ask(&github, path, &[]).await?.body.starts_with("<!doctype"));
    let half = ask(&github, path, &[]).await?.body;
    ensure!(whole.starts_with(&half) && half.len() < whole.len());
    ensure!(ask(&github, path, &[]).await?.json()["name"] == "repo-00001");
    ensure!(ask(&github, path, &[]).await?.status == 404);
    ensure!(ask(&github, path, &[]).await?.body == whole);
    let tags = "/repos/acme/repo-00001/tags";
    github.behave(tags, Behaviour::EndlessPages);
    let endless = ask(&github, &format!("{tags}?page=7"), &[]).await?;
    ensure!(endless.names("name") == ["v0.0.0"]);
    ensure!(
        endless
            .header("link")
            .is_some_and(|link| link.contains("page=8"))
    );
    Ok(())
}

#[tokio::test]
async fn thousands_of_repositories_are_no_burden() -> Result<()> {
    let github = FakeGitHub::with("127.0.0.9", tokens(&["a"])).await?;
    github.fill("acme", 3_500, 4);
    let last = ask(&github, "/orgs/acme/repos?per_page=100&page=35", &[A]).await?;
    ensure!(last.names("name").len() == 100 && last.header("link").is_none());
    ensure!(github.tags("acme/repo-03499").len() == 4);
    Ok(())
}
