//! The index of a GitHub host.

use std::{sync::Arc, time::Duration};

use grip_db::{Db, TestDatabase};
use grip_egress::Egress;
use grip_github::{GitHub, Login, Owner, Token};
use grip_index::{Change, GitHubOptions, GitHubSource, Options, PrivateRepos, Reader, Source};
use grip_limits::Throttle;
use grip_queue::{JobFacts, State};
use grip_testkit::{
    FakeGitHub,
    github::{Behaviour, Limits, Repo, Setup},
    until, until_true,
};
use grip_types::Domain;
use tokio::time::Instant;

use crate::support::Running;

const TOKENS: [&str; 2] = ["first-token", "second-token"];

pub async fn host(limits: Limits) -> FakeGitHub {
    let setup = Setup {
        tokens: TOKENS.map(String::from).to_vec(),
        base: String::new(),
        limits,
    };
    FakeGitHub::with("127.0.0.1", setup).await.unwrap()
}

/// A gateway that waits no longer than it must, behind a throttle that allows `in_flight` calls.
fn gateway(host: &FakeGitHub, in_flight: u32) -> GitHub {
    let throttle = Throttle::memory(grip_limits::Options {
        limits: grip_limits::Limits {
            in_flight,
            per_window: 1_000_000,
            window: Duration::from_secs(1),
        },
        ..grip_limits::Options::default()
    });
    let egress = grip_egress::Options {
        private_hosts: vec![Domain::parse(&host.domain()).unwrap()],
        ..grip_egress::Options::default()
    };
    let egress = Egress::new(egress, throttle).unwrap();
    let options = grip_github::Options {
        api: host.api().parse().unwrap(),
        tokens: TOKENS.map(|text| Token::new(text).unwrap()).to_vec(),
        margin: Duration::from_millis(50),
        // As many as the longest list of these tests has: one without an end is read to the last.
        max_pages: 50,
        ..grip_github::Options::default()
    };
    GitHub::new(options, egress).unwrap()
}

pub fn source(host: &FakeGitHub, owner: Owner, options: GitHubOptions) -> Arc<dyn Source> {
    let github = gateway(host, 6);
    Arc::new(GitHubSource::new(github, "github.com", owner, options))
}

fn org(host: &FakeGitHub) -> Arc<dyn Source> {
    let owner = Owner::Org(Login::parse("acme").unwrap());
    source(host, owner, rest())
}

/// Without GraphQL, as a host is read that does not answer it.
pub fn rest() -> GitHubOptions {
    GitHubOptions {
        graphql: false,
        ..GitHubOptions::default()
    }
}

pub fn options() -> Options {
    Options {
        workers: 5,
        spacing: Duration::from_millis(1),
        poll: Duration::from_millis(100),
        ..Options::default()
    }
}

async fn start(db: &Db, source: Arc<dyn Source>) -> Running {
    Running::over(db, vec![source], options()).await
}

/// An index of the host that has done all there is to do.
async fn settled(test: &TestDatabase, host: &FakeGitHub) -> Running {
    let running = start(test.db(), org(host)).await;
    running.settle().await;
    running
}

/// Tells of a push, and waits for what follows.
pub async fn push(running: &Running, repo: &str) {
    let pushed = running.index.source_push("github.com", "acme", repo);
    assert!(pushed.await.unwrap());
    running.settle().await;
}

/// The kind and the key of the job that lists the organisation.
pub const LIST: (&str, &str) = ("index-list", "github.com/orgs/acme");

/// Has a job done now, and waits for what follows.
pub async fn retry(running: &Running, (kind, key): (&str, &str)) {
    assert!(running.queue.retry(kind, key).await.unwrap());
    running.settle().await;
}

/// What the gateway leaves to others of a budget of 20 calls.
const RESERVED: u32 = 2;
/// How long no repository may have a turn before a test gives up, however slow the machine is.
const STALLED: Duration = Duration::from_secs(45);

/// Waits until so many repositories have had a turn.
pub async fn indexed(running: &Running, count: i64) {
    let (mut before, mut since) = (-1, Instant::now());
    loop {
        let now = running.index.status().await.unwrap().repos_indexed;
        if now >= count {
            return;
        }
        if now > before {
            (before, since) = (now, Instant::now());
        }
        let is_stalled = since.elapsed() >= STALLED;
        assert!(
            !is_stalled,
            "stuck at {now}: {:?}",
            running.queue.stats().await
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A GitHub on a bad day: small budgets, a token that expires, refusals, gateways that fail.
async fn bad_day(repos: usize, tagged: usize) -> FakeGitHub {
    let host = host(Limits {
        per_token: (repos / 3) as u32,
        window: Duration::from_secs(if repos > 1_000 { 3 } else { 1 }),
        concurrent: Some(6),
        retry_after: 1,
        fail_every: Some(97),
        ..Limits::default()
    })
    .await;
    host.fill("acme", repos - tagged, 0);
    for n in 0..tagged {
        let name = format!("acme/tagged-{n:05}");
        host.add(&name);
        host.put_file(&name, "go.mod", format!("module github.com/{name}\n"));
        host.add_tag(&name, "v0.1.0");
        host.add_tag(&name, "v0.2.0");
    }
    host.expire_after(1, (repos / 4) as u32);
    for n in (0..repos - tagged).step_by((repos / 8).max(1)) {
        let refused = Behaviour::retry_after(429, 1);
        host.script(
            &format!("/repos/acme/repo-{n:05}/tags"),
            [refused, Behaviour::Serve],
        );
    }
    host
}

/// Indexes with a restart in the middle, and compares what was asked before and after it.
async fn completes_and_repeats_nothing(test: TestDatabase, repos: usize, tagged: usize) {
    let host = bad_day(repos, tagged).await;
    // However late the middle is noticed, there is something left to do.
    let last = host.hold(&format!("/repos/acme/tagged-{:05}", tagged - 1));
    let running = start(test.db(), org(&host)).await;
    indexed(&running, repos as i64 / 2).await;
    let finished = finished(&running).await;
    running.stop().await;
    let test = test.reopen().await;
    assert_eq!(host.counts().over_budget, 0, "the budget was overdrawn");
    host.forget();
    last.open();

    // A budget that is spent on every machine, however slow; then one that is enough.
    host.renew_budgets();
    host.set_limits(|limits| (limits.per_token, limits.window) = (20, Duration::from_secs(3)));
    let running = start(test.db(), org(&host)).await;
    let is_spent = || host.remaining(Some(0)) <= RESERVED;
    until_true("the budget is spent", is_spent).await.unwrap();
    host.set_limits(|limits| limits.per_token = repos as u32);
    indexed(&running, repos as i64).await;
    let status = running.index.status().await.unwrap();
    assert_eq!(status.repos, repos as i64);
    assert_eq!(status.versions, 2 * tagged as i64);
    assert_eq!(host.counts().over_budget, 0, "the budget was overdrawn");
    assert!(host.counts().unauthorised <= 12, "{:?}", host.counts());
    assert!(!finished.is_empty() && finished.len() < repos);
    let requests = host.requests();
    let again = requests.iter().filter(|seen| {
        let repo = seen.path.strip_prefix("/repos/").unwrap_or_default();
        let name: Vec<_> = repo.splitn(3, '/').take(2).collect();
        finished.contains(&format!("github.com/{}", name.join("/")))
    });
    let again: Vec<_> = again.map(|seen| seen.path.clone()).collect();
    assert!(again.is_empty(), "asked again: {again:?}");
    assert!(!requests.iter().any(|seen| seen.path.contains("search")));
    running.stop().await;

    // And once all is done, a start asks for nothing at all.
    let test = test.reopen().await;
    host.forget();
    let running = start(test.db(), org(&host)).await;
    host.add_tag("acme/tagged-00000", "v0.3.0");
    let pushed = running
        .index
        .source_push("github.com", "acme", "tagged-00000");
    assert!(pushed.await.unwrap());
    until("the new tag is in the feed", || async {
        let status = running.index.status().await.unwrap();
        (status.versions == 2 * tagged as i64 + 1).then_some(())
    })
    .await
    .unwrap();
    let paths: Vec<_> = host.requests().into_iter().map(|seen| seen.path).collect();
    assert!(
        paths.iter().all(|path| path.contains("tagged-00000")),
        "{paths:?}"
    );
    running.stop().await;
}

async fn finished(running: &Running) -> std::collections::BTreeSet<String> {
    let mut finished = std::collections::BTreeSet::new();
    let mut after = String::new();
    loop {
        let page = running
            .index
            .repos(&after, 1_000, Reader::All)
            .await
            .unwrap();
        let Some(last) = page.last() else {
            return finished;
        };
        after.clone_from(&last.name);
        let done = page.into_iter().filter(|repo| repo.finished_ms.is_some());
        finished.extend(done.map(|repo| repo.name));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_of_3500_repositories_are_indexed_within_the_budget_on_a_bad_day() {
    let test = TestDatabase::sqlite().await;
    completes_and_repeats_nothing(test, 3_500, 100).await;
}

grip_db::on_both_engines! {
    async fn a_bad_day_is_no_matter_of_the_engine(test: TestDatabase) {
        completes_and_repeats_nothing(test, 200, 20).await;
    }
}

/// A host with one repository of one version, and the index of it.
async fn one() -> (TestDatabase, FakeGitHub) {
    let host = host(Limits::default()).await;
    host.add("acme/one");
    host.put_file("acme/one", "go.mod", "module github.com/acme/one\n");
    host.add_tag("acme/one", "v1.0.0");
    (TestDatabase::sqlite().await, host)
}

pub async fn reason(running: &Running, kind: &str, key: &str) -> JobFacts {
    until("there is a reason", || async {
        let job = running.queue.find(kind, key).await.unwrap();
        let has_ended = |job: &JobFacts| {
            // Given up for good or until the next period.
            let later = running.queue.db().now_ms() + 60_000;
            job.state == State::Dead || job.due_ms.is_some_and(|due| due > later)
        };
        job.filter(|job| job.last_error.is_some() && has_ended(job))
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn nonsense_instead_of_tags_is_kept_as_the_reason_and_changes_nothing() {
    for (behaviour, expected) in [
        (Behaviour::Html, "malformed"),
        (Behaviour::TruncatedJson, "malformed"),
        (Behaviour::BreakOff, "not to the end"),
        (Behaviour::EndlessPages, "malformed"),
        (Behaviour::SamePage, "malformed"),
        (
            Behaviour::NextElsewhere("http://127.0.0.2/x".into()),
            "malformed",
        ),
        (
            Behaviour::Instead("/repos/acme/two/tags".into()),
            "another repository",
        ),
        (
            Behaviour::status(403, "Repository access blocked"),
            "denies access",
        ),
        (Behaviour::status(502, ""), "502"),
    ] {
        let (test, host) = one().await;
        host.add("acme/two");
        host.add_tag("acme/two", "v9.0.0");
        let running = settled(&test, &host).await;
        let feed = running.feed().await;
        assert_eq!(feed.len(), 2);
        let shown = format!("{behaviour:?}");
        host.behave("/repos/acme/one/tags", behaviour);
        host.add_tag("acme/one", "v1.1.0");
        let pushed = running.index.source_push("github.com", "acme", "one");
        assert!(pushed.await.unwrap());
        let job = reason(&running, "index-repo", "github.com/acme/one").await;
        let said = job.last_error.unwrap();
        assert!(said.contains(expected), "{shown}: {said}");
        assert_eq!(running.feed().await, feed, "{shown}");
    }
}

#[tokio::test]
async fn nonsense_instead_of_repositories_is_kept_as_the_reason_and_removes_none() {
    for (behaviour, expected) in [
        (Behaviour::Html, "malformed"),
        (Behaviour::TruncatedJson, "malformed"),
        (Behaviour::SamePage, "malformed"),
        (
            Behaviour::Instead("/orgs/other/repos".into()),
            "among the repositories of",
        ),
        (Behaviour::status(404, "Not Found"), "no such organisation"),
    ] {
        let (test, host) = one().await;
        host.add("other/x");
        let running = settled(&test, &host).await;
        let shown = format!("{behaviour:?}");
        host.behave("/orgs/acme/repos", behaviour);
        let (kind, key) = LIST;
        assert!(running.queue.retry(kind, key).await.unwrap());
        let said = reason(&running, kind, key).await.last_error.unwrap();
        assert!(said.contains(expected), "{shown}: {said}");
        assert_eq!(
            running.feed().await,
            ["github.com/acme/one@v1.0.0"],
            "{shown}"
        );
    }
}

#[tokio::test]
async fn nonsense_about_one_commit_leaves_a_reason_at_its_tag_alone() {
    let (test, host) = one().await;
    let strange = host.add_tag("acme/one", "v1.1.0");
    let path = format!("/repos/acme/one/git/commits/{strange}");
    host.behave(&path, Behaviour::Html);
    let running = settled(&test, &host).await;
    assert_eq!(running.feed().await, ["github.com/acme/one@v1.0.0"]);
    let tags = running.tags("github.com/acme/one").await;
    assert!(
        tags[1].why.as_ref().unwrap().contains("malformed"),
        "{tags:?}"
    );
    host.behave(&path, Behaviour::Serve);
    push(&running, "one").await;
    assert_eq!(running.feed().await.len(), 2);
}

#[tokio::test]
async fn large_and_broken_go_mods_are_read_or_refused() {
    let (test, host) = one().await;
    for (name, text) in [
        ("acme/large", {
            let mut text = b"module github.com/acme/large\n".to_vec();
            text.resize(10 << 20, b'\n');
            text
        }),
        ("acme/larger", vec![b'\n'; (16 << 20) + 1]),
        ("acme/binary", b"module \xff\xfe\n".to_vec()),
    ] {
        host.add(name);
        host.put_file(name, "go.mod", text);
        host.add_tag(name, "v1.0.0");
    }
    let running = settled(&test, &host).await;
    let mut feed = running.feed().await;
    feed.sort();
    assert_eq!(
        feed,
        ["github.com/acme/large@v1.0.0", "github.com/acme/one@v1.0.0"]
    );
    for repo in ["larger", "binary"] {
        let tags = running.tags(&format!("github.com/acme/{repo}")).await;
        assert!(tags[0].why.as_ref().unwrap().contains("go.mod"), "{tags:?}");
    }
}

#[tokio::test]
async fn renamed_and_removed_repositories_leave_the_feed_with_a_word() {
    let (test, host) = one().await;
    for name in ["acme/old", "acme/gone"] {
        host.add(name);
        host.put_file(name, "go.mod", format!("module github.com/{name}\n"));
        host.add_tag(name, "v1.0.0");
    }
    let running = settled(&test, &host).await;
    assert_eq!(running.feed().await.len(), 3);
    let before = running.index.stamp().await.unwrap();
    host.rename("acme/old", "acme/new");
    host.put_file("acme/new", "go.mod", "module github.com/acme/new\n");
    host.remove("acme/gone");
    retry(&running, LIST).await;
    let mut feed = running.feed().await;
    feed.sort();
    assert_eq!(
        feed,
        ["github.com/acme/new@v1.0.0", "github.com/acme/one@v1.0.0"]
    );
    let mut ops: Vec<_> = running
        .changes(before)
        .await
        .iter()
        .map(|change| format!("{:?} {}", change.op, change.path))
        .collect();
    ops.sort();
    let expected = [
        "Added github.com/acme/new",
        "Removed github.com/acme/gone",
        "Removed github.com/acme/old",
    ];
    assert_eq!(ops, expected);
}

#[tokio::test]
async fn what_the_law_forbids_to_show_leaves_the_feed_when_the_list_lacks_it() {
    let (test, host) = one().await;
    let running = settled(&test, &host).await;
    assert_eq!(running.feed().await.len(), 1);
    let forbidden = Behaviour::status(451, "Repository access blocked");
    host.behave("/repos/acme/one", forbidden);
    host.change("acme/one", |repo| repo.private = true);
    retry(&running, LIST).await;
    assert!(running.feed().await.is_empty());
}

#[tokio::test]
async fn private_repositories_stay_out_unless_they_are_wanted() {
    for (private, expected) in [(PrivateRepos::None, 1), (PrivateRepos::All, 2)] {
        let (test, host) = one().await;
        let mut secret = Repo::new("acme/secret");
        secret.private = true;
        host.add_repo(secret);
        host.add_tag("acme/secret", "v1.0.0");
        let owner = Owner::Org(Login::parse("acme").unwrap());
        let include_private = private == PrivateRepos::All;
        let options = GitHubOptions { private, ..rest() };
        let running = start(test.db(), source(&host, owner, options)).await;
        running.settle().await;
        assert_eq!(running.feed().await.len(), expected);
        // Nor does a push bring them in.
        host.add_tag("acme/secret", "v1.1.0");
        let pushed = running.index.private_push("github.com", "acme", "secret");
        assert_eq!(pushed.await.unwrap(), include_private);
        running.settle().await;
        assert_eq!(running.feed().await.len(), expected * 2 - 1);
    }
}

#[tokio::test]
async fn the_name_of_a_private_repository_is_kept_by_nobody() {
    let (test, host) = one().await;
    let mut secret = Repo::new("acme/secret");
    secret.private = true;
    host.add_repo(secret);
    host.add_tag("acme/secret", "v1.0.0");
    let running = settled(&test, &host).await;
    let names = || async {
        let repos = running.index.repos("", 10, Reader::All).await.unwrap();
        repos.into_iter().map(|repo| repo.name).collect::<Vec<_>>()
    };
    let covered = running.index.private_push("github.com", "acme", "secret");
    assert!(!covered.await.unwrap());
    let job = running.queue.find("index-repo", "github.com/acme/secret");
    assert_eq!(job.await.unwrap(), None);
    assert_eq!(names().await, ["github.com/acme/one"]);
    // Nor is anything left where it was not said.
    let covered = running.index.source_push("github.com", "acme", "secret");
    assert!(covered.await.unwrap());
    running.settle().await;
    assert_eq!(names().await, ["github.com/acme/one"]);

    // One that is there already leaves the feed, and is remembered as gone.
    host.change("acme/one", |repo| repo.private = true);
    let covered = running.index.private_push("github.com", "acme", "one");
    assert!(covered.await.unwrap());
    running.settle().await;
    assert!(running.feed().await.is_empty());
    assert_eq!(running.index.status().await.unwrap().repos_gone, 1);
    let covered = running.index.private_push("github.com", "acme", "one");
    assert!(!covered.await.unwrap(), "it is not named a second time");
}

#[tokio::test]
async fn a_whole_host_is_listed_and_believed_only_about_its_own_paths() {
    let (test, host) = one().await;
    for n in 0..250 {
        host.add(&format!("owner-{n}/repo"));
    }
    host.put_file("owner-7/repo", "go.mod", "module go.example/vanity\n");
    host.add_tag("owner-7/repo", "v1.0.0");
    let everything = source(&host, Owner::Everything, rest());
    let running = start(test.db(), everything).await;
    indexed(&running, 251).await;
    assert_eq!(running.feed().await, ["github.com/acme/one@v1.0.0"]);
    let tags = running.tags("github.com/owner-7/repo").await;
    assert!(tags[0].why.as_ref().unwrap().contains("nothing proves"));
    let pushed = running
        .index
        .source_push("github.com", "Owner-9", "repo")
        .await;
    assert!(pushed.unwrap());
    let pushed = running
        .index
        .source_push("elsewhere.example", "acme", "one")
        .await;
    assert!(!pushed.unwrap());
}

#[tokio::test]
async fn a_list_of_tags_that_no_budget_covers_is_read_all_the_same() {
    let test = TestDatabase::sqlite().await;
    let host = host(Limits {
        per_token: 20,
        window: Duration::from_secs(1),
        ..Limits::default()
    })
    .await;
    host.expire_after(1, 0);
    host.add("acme/many");
    host.put_file("acme/many", "go.mod", "module github.com/acme/many\n");
    let oid = host.commit("acme/many", None);
    for n in 0..2_950 {
        host.set_tag("acme/many", &format!("v1.0.{n}"), &oid);
    }
    let running = start(test.db(), org(&host)).await;
    indexed(&running, 1).await;
    assert_eq!(running.feed().await.len(), 2_950);
    assert_eq!(host.counts().over_budget, 0);
    let pages = host.requests_for("/repos/acme/many/tags");
    let pages = pages.iter().filter(|seen| seen.status == 200).count();
    assert_eq!(pages, 30, "no page was read twice");
}

/// A host with one repository of 150 versions at one commit, on two pages of tags.
async fn two_pages() -> (TestDatabase, FakeGitHub) {
    let host = host(Limits::default()).await;
    host.add("acme/many");
    host.put_file("acme/many", "go.mod", "module github.com/acme/many\n");
    let oid = host.commit("acme/many", None);
    for n in 100..250 {
        host.set_tag("acme/many", &format!("v1.0.{n}"), &oid);
    }
    (TestDatabase::sqlite().await, host)
}

#[tokio::test]
async fn a_list_from_before_a_push_is_not_published_after_it() {
    let (test, host) = two_pages().await;
    let files = "/repos/acme/many/contents";
    host.behave(files, Behaviour::status(502, ""));
    let first = org(&host);
    let running = start(test.db(), Arc::clone(&first)).await;
    reason(&running, "index-repo", "github.com/acme/many").await;
    running.stop().await;
    let test = test.reopen().await;

    // Another instance publishes a tag that was moved since; it is not on the last page.
    host.behave(files, Behaviour::Serve);
    let moved = host.add_tag("acme/many", "v1.0.249");
    let running = start(test.db(), org(&host)).await;
    let key = "github.com/acme/many";
    assert!(running.queue.retry("index-repo", key).await.unwrap());
    indexed(&running, 1).await;
    running.stop().await;
    let test = test.reopen().await;

    let running = start(test.db(), first).await;
    push(&running, "many").await;
    let found = running.index.version(key, "v1.0.249").await.unwrap();
    assert_eq!(found.unwrap().commit, moved);
}

#[tokio::test]
async fn new_tags_of_a_repository_that_became_private_are_told_neither_by_a_push_nor_by_its_turn() {
    let key = "github.com/acme/one";
    for is_pushed in [true, false] {
        let (test, host) = one().await;
        let running = settled(&test, &host).await;
        assert_eq!(running.feed().await, ["github.com/acme/one@v1.0.0"]);
        host.forget();
        retry(&running, ("index-repo", key)).await;
        let paths: Vec<_> = host.requests().into_iter().map(|seen| seen.path).collect();
        assert_eq!(paths, ["/repos/acme/one/tags"], "nothing new costs nothing");

        host.change("acme/one", |repo| repo.private = true);
        host.add_tag("acme/one", "v1.1.0");
        if is_pushed {
            push(&running, "one").await;
        } else {
            retry(&running, ("index-repo", key)).await;
        }
        assert!(running.feed().await.is_empty());
        let changes = running.changes(0).await;
        let is_known = |change: &Change| change.version == "v1.0.0";
        assert!(changes.iter().all(is_known), "{changes:?}");
    }
}

#[tokio::test]
async fn only_the_turn_after_a_push_asks_whether_the_repository_is_one_of_ours() {
    let (test, host) = one().await;
    let running = settled(&test, &host).await;
    push(&running, "one").await;
    host.forget();
    let key = "github.com/acme/one";
    assert_eq!(running.job(key).await.payload, "");
    retry(&running, ("index-repo", key)).await;
    let paths: Vec<_> = host.requests().into_iter().map(|seen| seen.path).collect();
    assert_eq!(paths, ["/repos/acme/one/tags"]);
}
