//! The index of a GitHub host that answers GraphQL, and of one that does not.

use std::{sync::Arc, time::Duration};

use grip_db::{Db, TestDatabase};
use grip_github::{Login, Owner};
use grip_index::{GitHubOptions, GoFilter, PrivateRepos, Reader, Source};
use grip_queue::State;
use grip_testkit::{
    FakeGitHub,
    github::{Behaviour, Limits, Repo},
    remote::Gate,
    until,
};

use crate::{
    github::{LIST, host, indexed, options, push, rest, retry, source},
    support::Running,
};

const MANY: &str = "github.com/acme/many";

fn wide() -> Limits {
    Limits {
        per_token: 100_000,
        points: 100_000,
        ..Limits::default()
    }
}

fn of(host: &FakeGitHub, options: GitHubOptions) -> Arc<dyn Source> {
    source(host, Owner::Org(Login::parse("acme").unwrap()), options)
}

async fn start(db: &Db, host: &FakeGitHub, with: GitHubOptions) -> Running {
    Running::over(db, vec![of(host, with)], options()).await
}

async fn settled(db: &Db, host: &FakeGitHub, with: GitHubOptions) -> Running {
    let running = start(db, host, with).await;
    running.settle().await;
    running
}

/// A host with one repository of versions at one commit.
async fn many(versions: std::ops::Range<usize>) -> FakeGitHub {
    let host = host(wide()).await;
    host.add("acme/many");
    host.put_file("acme/many", "go.mod", "module github.com/acme/many\n");
    let oid = host.commit("acme/many", None);
    for n in versions {
        host.set_tag("acme/many", &format!("v1.0.{n}"), &oid);
    }
    host
}

/// Calls that were not answered with "nothing has changed".
fn paid(host: &FakeGitHub, path: &str) -> usize {
    let all = host.requests_for(path);
    all.iter().filter(|seen| seen.status == 200).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_index_needs_a_twentieth_of_the_calls_that_rest_needs() {
    // REST does the same for every repository, so a tenth of them tells what all would cost.
    let mut counts = Vec::new();
    for (with, repos) in [(GitHubOptions::default(), 1_000), (rest(), 100)] {
        let (test, host) = (TestDatabase::sqlite().await, host(wide()).await);
        host.fill("acme", repos, 20);
        let running = start(test.db(), &host, with).await;
        indexed(&running, repos as i64).await;
        let status = running.index.status().await.unwrap();
        assert_eq!(status.versions, repos as i64 * 20);
        counts.push((host.count(), host.requests_for("/graphql/").len()));
        running.stop().await;
    }
    let ((graphql, queries), (rest, _)) = (counts[0], counts[1]);
    println!(
        "1,000 repositories with 20,000 tags: {graphql} calls ({queries} GraphQL queries) by \
         GraphQL; REST: {rest} calls for 100 repositories with 2,000 tags, {} for all",
        rest * 10
    );
    assert!(graphql * 20 <= rest * 10, "{graphql} and {}", rest * 10);
    assert!(queries * 10 >= graphql * 9, "{queries} of {graphql}");
}

#[tokio::test]
async fn the_date_of_a_tag_is_its_own_whichever_way_it_is_read() {
    for with in [GitHubOptions::default(), rest()] {
        let (test, host) = (TestDatabase::sqlite().await, host(wide()).await);
        host.add("acme/many");
        host.put_file("acme/many", "go.mod", "module github.com/acme/many\n");
        let oid = host.commit("acme/many", Some(1_600_000_000));
        // At one commit: a tag object has its own date, a bare tag that of the commit.
        host.set_tag("acme/many", "v1.0.0", &oid);
        host.annotate("acme/many", "v1.1.0", &oid, 1_700_000_000);
        host.annotate("acme/many", "v1.2.0", &oid, 1_750_000_000);
        let running = settled(test.db(), &host, with.clone()).await;
        let tags = running.tags(MANY).await;
        let dates: Vec<_> = tags
            .iter()
            .map(|tag| tag.created_ms.unwrap() / 1_000)
            .collect();
        assert_eq!(
            dates,
            [1_600_000_000, 1_700_000_000, 1_750_000_000],
            "{with:?}"
        );

        // A tag that is made again at the same commit has moved to its new date.
        host.annotate("acme/many", "v1.1.0", &oid, 1_760_000_000);
        host.add_tag("acme/many", "v1.3.0");
        push(&running, "many").await;
        let tags = running.tags(MANY).await;
        assert_eq!(tags[1].created_ms, Some(1_760_000_000_000), "{with:?}");
        running.stop().await;
    }
}

#[tokio::test]
async fn modules_below_the_root_are_read_in_batches() {
    let (test, host) = (TestDatabase::sqlite().await, host(wide()).await);
    host.add("acme/mono");
    for n in 0..30 {
        let (name, oid) = (format!("part{n:02}"), host.commit("acme/mono", None));
        let path = format!("{name}/go.mod");
        host.put_file(
            "acme/mono",
            &path,
            format!("module github.com/acme/mono/{name}\n"),
        );
        host.set_tag("acme/mono", &format!("{name}/v1.0.0"), &oid);
    }
    let running = settled(test.db(), &host, GitHubOptions::default()).await;
    assert_eq!(running.feed().await.len(), 30);
    assert_eq!(host.requests_for("/graphql/Files").len(), 1);
    assert!(
        host.requests_for("/repos/").is_empty(),
        "{:?}",
        host.requests()
    );
    running.stop().await;
}

#[tokio::test]
async fn go_mods_that_a_query_does_not_show_are_read_by_rest() {
    let (test, host) = (TestDatabase::sqlite().await, host(wide()).await);
    let mut large = b"module github.com/acme/large\n".to_vec();
    large.resize(600 << 10, b'\n');
    for (name, text) in [
        ("large", large),
        ("binary", b"module \xff\xfe\n".to_vec()),
        ("plain", b"module github.com/acme/plain\n".to_vec()),
    ] {
        let name = format!("acme/{name}");
        host.add(&name);
        host.put_file(&name, "go.mod", text);
        host.add_tag(&name, "v1.0.0");
    }
    let running = settled(test.db(), &host, GitHubOptions::default()).await;
    let mut feed = running.feed().await;
    feed.sort();
    let expected = [
        "github.com/acme/large@v1.0.0",
        "github.com/acme/plain@v1.0.0",
    ];
    assert_eq!(feed, expected);
    assert_eq!(host.requests_for("/repos/acme/plain/").len(), 0);
    assert_eq!(host.requests_for("/repos/acme/large/contents").len(), 1);
    running.stop().await;
}

#[tokio::test]
async fn rest_is_asked_where_graphql_is_not_understood() {
    for refusal in [
        Behaviour::status(404, "Not Found"),
        Behaviour::Html,
        Behaviour::status(400, "Problems parsing JSON"),
    ] {
        let (test, host) = (TestDatabase::sqlite().await, many(0..120).await);
        host.add("acme/two");
        host.behave("/graphql/", refusal.clone());
        let running = settled(test.db(), &host, GitHubOptions::default()).await;
        assert_eq!(running.feed().await.len(), 120, "{refusal:?}");
        let queries = host.requests_for("/graphql/").len();
        assert!(queries <= 8, "{refusal:?}: asked {queries} times");
        running.stop().await;
    }
}

#[tokio::test]
async fn a_list_that_graphql_began_and_rest_ends_is_read_whole() {
    let (test, host) = (TestDatabase::sqlite().await, many(0..250).await);
    let gone = Behaviour::status(404, "Not Found");
    host.script("/graphql/Tags", [Behaviour::Serve, gone]);
    let running = settled(test.db(), &host, GitHubOptions::default()).await;
    assert_eq!(running.feed().await.len(), 250);
    running.stop().await;
}

#[tokio::test]
async fn points_that_are_spent_are_waited_for_and_never_paid_with_rest_calls() {
    let test = TestDatabase::sqlite().await;
    let host = host(Limits {
        points: 20,
        window: Duration::from_secs(1),
        ..Limits::default()
    })
    .await;
    host.fill("acme", 60, 2);
    let running = start(test.db(), &host, GitHubOptions::default()).await;
    indexed(&running, 60).await;
    assert_eq!(running.feed().await.len(), 120);
    assert_eq!(host.counts().over_budget, 0);
    assert!(
        host.requests_for("/repos/").is_empty(),
        "{:?}",
        host.requests()
    );
    running.stop().await;
}

#[tokio::test]
async fn a_list_is_gone_on_with_from_the_database_after_a_restart() {
    for (with, list) in [
        (GitHubOptions::default(), "/graphql/Tags"),
        (rest(), "/repos/acme/many/tags"),
    ] {
        let (test, host) = (TestDatabase::sqlite().await, many(0..450).await);
        let held = Behaviour::Hold(Gate::default());
        host.script(list, [Behaviour::Serve, Behaviour::Serve, held]);
        let running = start(test.db(), &host, with.clone()).await;
        until("the third page is asked for", || async {
            (host.requests_for(list).len() == 3).then_some(())
        })
        .await
        .unwrap();
        running.stop().await;
        let test = test.reopen().await;

        host.forget();
        host.behave(list, Behaviour::Serve);
        let running = start(test.db(), &host, with.clone()).await;
        indexed(&running, 1).await;
        assert_eq!(running.feed().await.len(), 450, "{with:?}");
        assert_eq!(
            paid(&host, list),
            3,
            "{with:?}: {:?}",
            host.requests_for(list)
        );
        running.stop().await;
    }
}

#[tokio::test]
async fn a_list_of_many_pages_that_has_not_changed_costs_nothing() {
    let (test, host) = (TestDatabase::sqlite().await, many(0..450).await);
    let running = settled(test.db(), &host, GitHubOptions::default()).await;
    let job = ("index-repo", MANY);
    // The first turn has no marks of pages, the second collects them.
    retry(&running, job).await;
    host.forget();
    retry(&running, job).await;
    let seen = host.requests();
    assert!(seen.iter().all(|seen| seen.status == 304), "{seen:?}");
    assert_eq!(seen.len(), 5);

    // A change on any page is seen.
    host.add_tag("acme/many", "v1.0.99");
    host.add_tag("acme/many", "v2.0.0+x");
    retry(&running, job).await;
    assert_eq!(running.tags(MANY).await.len(), 451);
    running.stop().await;
}

#[tokio::test]
async fn a_page_that_shifts_while_it_is_read_removes_no_live_tag() {
    for with in [GitHubOptions::default(), rest()] {
        let (test, host) = (TestDatabase::sqlite().await, many(100..350).await);
        let running = settled(test.db(), &host, with.clone()).await;
        assert_eq!(running.feed().await.len(), 250);
        let before = running.index.stamp().await.unwrap();
        // Pages are in the order of names, the last first: the one that goes after the first page
        // was read moves the first of the second page out of sight.
        host.add_tag("acme/many", "v1.0.350");
        let untag = Behaviour::ThenUntag {
            repo: "acme/many".into(),
            tag: "v1.0.300".into(),
        };
        host.script("/repos/acme/many/tags", [untag, Behaviour::Serve]);
        retry(&running, ("index-repo", MANY)).await;
        let told = async || {
            let told = running.changes(before).await;
            let told = told.iter().map(|it| format!("{:?} {}", it.op, it.version));
            told.collect::<Vec<_>>()
        };
        assert_eq!(told().await, ["Added v1.0.350"], "{with:?}");
        retry(&running, ("index-repo", MANY)).await;
        assert_eq!(
            told().await,
            ["Added v1.0.350", "Removed v1.0.300"],
            "{with:?}"
        );
        assert_eq!(running.feed().await.len(), 250);
        running.stop().await;
    }
}

#[tokio::test]
async fn single_sign_on_that_denies_and_grants_again_stops_nothing_for_good() {
    for with in [GitHubOptions::default(), rest()] {
        let (test, host) = (TestDatabase::sqlite().await, many(0..3).await);
        host.require_sso("acme", true);
        let running = settled(test.db(), &host, with.clone()).await;
        let (kind, key) = LIST;
        let job = running.queue.find(kind, key).await.unwrap().unwrap();
        assert_eq!(job.state, State::Waiting, "{with:?}: {job:?}");
        assert!(job.last_error.unwrap().contains("SAML"));

        host.require_sso("acme", false);
        test.db().shift_clock_ms(25 * 60 * 60 * 1_000);
        until("it is indexed", || async {
            (running.feed().await.len() == 3).then_some(())
        })
        .await
        .unwrap();
        running.settle().await;

        // So for one repository, whose rows stay meanwhile.
        host.require_sso("acme", true);
        host.add_tag("acme/many", "v1.1.0");
        push(&running, "many").await;
        let job = running.job(MANY).await;
        assert_eq!(job.state, State::Waiting, "{with:?}: {job:?}");
        assert_eq!(running.feed().await.len(), 3);
        host.require_sso("acme", false);
        test.db().shift_clock_ms(27 * 60 * 60 * 1_000);
        until("the new tag is there", || async {
            (running.feed().await.len() == 4).then_some(())
        })
        .await
        .unwrap();
        running.stop().await;
    }
}

/// A host with a public, an internal and a private repository.
async fn three() -> FakeGitHub {
    let host = host(wide()).await;
    for (name, internal, private) in [
        ("acme/open", false, false),
        ("acme/inner", true, true),
        ("acme/secret", false, true),
    ] {
        let mut repo = Repo::new(name);
        (repo.internal, repo.private) = (internal, private);
        host.add_repo(repo);
        host.put_file(name, "go.mod", format!("module github.com/{name}\n"));
        host.add_tag(name, "v1.0.0");
    }
    host
}

#[tokio::test]
async fn private_and_internal_repositories_are_indexed_as_the_settings_say() {
    for (private, expected) in [
        (PrivateRepos::None, vec!["open"]),
        (PrivateRepos::Internal, vec!["inner", "open"]),
        (PrivateRepos::All, vec!["inner", "open", "secret"]),
    ] {
        for way in [GitHubOptions::default(), rest()] {
            let (test, host) = (TestDatabase::sqlite().await, three().await);
            let with = GitHubOptions { private, ..way };
            let running = settled(test.db(), &host, with).await;
            let mut all = running.feed().await;
            all.sort();
            let wanted = expected.iter();
            let wanted: Vec<_> = wanted
                .map(|it| format!("github.com/acme/{it}@v1.0.0"))
                .collect();
            assert_eq!(all, wanted);
            let anybody = running.feed_for(Reader::Anybody).await;
            assert_eq!(anybody, ["github.com/acme/open@v1.0.0"]);
            running.stop().await;
        }
    }
}

#[tokio::test]
async fn repositories_are_chosen_by_language_or_by_go_mod() {
    for (filter, way, expected) in [
        (GoFilter::All, GitHubOptions::default(), 3),
        (GoFilter::Language, GitHubOptions::default(), 2),
        (GoFilter::Language, rest(), 2),
        (GoFilter::GoMod, GitHubOptions::default(), 1),
        // REST does not tell in its list; the language decides there.
        (GoFilter::GoMod, rest(), 2),
    ] {
        let (test, host) = (TestDatabase::sqlite().await, host(wide()).await);
        for (name, language, has_go_mod) in [
            ("acme/go", "Go", true),
            ("acme/old", "Go", false),
            ("acme/c", "C", false),
        ] {
            let mut repo = Repo::new(name);
            repo.language = Some(language.to_owned());
            host.add_repo(repo);
            if has_go_mod {
                host.put_file(name, "go.mod", format!("module github.com/{name}\n"));
            }
        }
        let with = GitHubOptions { filter, ..way };
        let running = settled(test.db(), &host, with.clone()).await;
        let repos = running.index.repos("", 10, Reader::All).await.unwrap();
        assert_eq!(repos.len(), expected, "{with:?}: {repos:?}");
        running.stop().await;
    }
}
