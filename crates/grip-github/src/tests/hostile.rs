//! A GitHub that answers nonsense, or tries to lead elsewhere.

use std::time::Duration;

use grip_testkit::{FakeGitHub, assert_matches, github::Behaviour, within};

use super::support::{With, oid, pair, repo};
use crate::{Cursor, GitHub, GitHubError, Login, NextStep, Owner, Tag};

const REPO: &str = "/repos/acme/one";
const TAGS: &str = "/repos/acme/one/tags";

fn acme() -> Owner {
    Owner::Org(Login::parse("acme").unwrap())
}

fn what(error: GitHubError) -> String {
    match error {
        GitHubError::Malformed { what } => what,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_web_page_or_half_an_answer_is_no_answer_to_any_question() {
    let pair = pair().await;
    let commit = oid(&pair.host.add_tag("acme/one", "v1.0.0"));
    let (one, github) = (repo("acme/one"), &pair.github);
    for (behaviour, told) in [
        (Behaviour::Html, "a web page instead of JSON"),
        (Behaviour::TruncatedJson, "JSON that ends too early"),
    ] {
        pair.host.behave("/", behaviour);
        let errors = [
            github.repository(&one).await.err(),
            github.repositories(&acme(), None).await.err(),
            github.repositories(&Owner::Everything, None).await.err(),
            github.tags(&one, None, None).await.err(),
            github.commit_time(&one, commit).await.err(),
        ];
        for error in errors {
            assert_eq!(what(error.unwrap()), told);
        }
    }
    pair.host.behave("/", Behaviour::Html);
    let file = github.file(&one, commit, "go.mod", 100).await;
    assert_eq!(what(file.unwrap_err()), "a web page instead of a file");
}

#[tokio::test]
async fn json_of_another_shape_is_noticed() {
    let pair = pair().await;
    for body in [
        "[]",
        "null",
        "7",
        "{}",
        r#"{"id":-1,"full_name":"acme/one","private":false}"#,
        r#"{"id":1,"full_name":"acme/one","private":false}"#,
        r#"{"id":1,"full_name":"../one","private":false,"html_url":"https://a.example/"}"#,
        r#"{"id":1,"full_name":"acme/one","private":false,"clone_url":"file:///etc"}"#,
        r#"{"id":1,"full_name":"acme/one","private":false,"clone_url":"https://u:p@a.example/"}"#,
        r#"{"id":1,"full_name":"acme/one","private":false,"html_url":"https://a.example/","pushed_at":"soon"}"#,
    ] {
        let code = 200;
        let (headers, body) = (Vec::new(), body.to_owned());
        pair.host.behave(
            REPO,
            Behaviour::Status {
                code,
                headers,
                body: body.clone(),
            },
        );
        let error = pair.github.repository(&repo("acme/one")).await;
        assert_matches!(error, Err(GitHubError::Malformed { .. }), "{body}");
    }
}

/// Reads a list to its end, or until it fails.
async fn all_tags(github: &GitHub) -> Result<Vec<Tag>, GitHubError> {
    let mut all = Vec::new();
    let mut at: Option<Cursor> = None;
    loop {
        let page = github.tags(&repo("acme/one"), at, None).await?;
        let page = page.fresh().expect("no mark was given");
        all.extend(page.items);
        match page.next {
            Some(next) => at = Some(next),
            None => return Ok(all),
        }
    }
}

async fn few_pages(tokens: &[&'static str]) -> (FakeGitHub, GitHub) {
    let mut with = With::tokens(tokens);
    with.options.max_pages = 7;
    with.options.max_host_pages = 9;
    let pair = with.start_with_repository().await;
    pair.host.add_tag("acme/one", "v1.0.0");
    (pair.host, pair.github)
}

#[tokio::test]
async fn endless_pages_have_an_end() {
    let (host, github) = few_pages(&["s3cret-a"]).await;
    host.behave("/", Behaviour::EndlessPages);
    let error = all_tags(&github).await.unwrap_err();
    assert_eq!(what(error), "the list has more than 7 pages");
    assert_eq!(host.requests_for(TAGS).len(), 7);
    let mut at = None;
    let error = loop {
        match github.repositories(&acme(), at).await {
            Ok(page) => at = page.next,
            Err(error) => break error,
        }
    };
    assert_eq!(what(error), "the list has more than 7 pages");
}

#[tokio::test]
async fn a_list_of_everything_that_repeats_itself_is_noticed() {
    let (host, github) = few_pages(&["s3cret-a"]).await;
    host.behave("/repositories", Behaviour::EndlessPages);
    let page = github.repositories(&Owner::Everything, None).await.unwrap();
    let error = github.repositories(&Owner::Everything, page.next).await;
    assert_eq!(
        what(error.unwrap_err()),
        "the next page is not after this one"
    );
}

#[tokio::test]
async fn a_page_that_leads_back_to_itself_is_noticed() {
    let (host, github) = few_pages(&["s3cret-a"]).await;
    host.behave("/", Behaviour::SamePage);
    let error = all_tags(&github).await.unwrap_err();
    assert_eq!(what(error), "the next page is the one that was asked for");
}

#[tokio::test]
async fn a_next_page_on_another_host_is_not_asked_for() {
    let (host, github) = few_pages(&["s3cret-a"]).await;
    let other = FakeGitHub::start("127.0.0.1").await.unwrap();
    for place in [
        format!("{}repos/acme/one/tags?page=2", other.api()),
        "https://evil.example/?page=2".to_owned(),
    ] {
        host.behave("/", Behaviour::NextElsewhere(place));
        let error = all_tags(&github).await.unwrap_err();
        assert_eq!(what(error), "the next page is not part of the API");
    }
    assert_eq!(other.count(), 0);
}

#[tokio::test]
async fn another_repositorys_data_is_refused() {
    let pair = pair().await;
    pair.host.add("acme/two");
    pair.host.add("evil/one");
    let mine = pair.host.add_tag("acme/one", "v1.0.0");
    let other = pair.host.add_tag("acme/two", "v1.0.0");
    let (one, github) = (repo("acme/one"), &pair.github);
    let instead = |path: &str, other: String| pair.host.behave(path, Behaviour::Instead(other));
    instead("/repos/acme/one", "/repos/acme/two".into());
    let error = github.repository(&one).await.unwrap_err();
    assert_eq!(what(error), "acme/two instead of acme/one");
    instead(TAGS, "/repos/acme/two/tags".into());
    let error = github.tags(&one, None, None).await.unwrap_err();
    assert_eq!(what(error), "tags of another repository than acme/one");
    let commit = format!("/repos/acme/two/git/commits/{other}");
    instead("/repos/acme/one/git", commit);
    let error = github.commit_time(&one, oid(&mine)).await.unwrap_err();
    assert!(what(error).starts_with("commit "));
    instead("/orgs/acme", "/orgs/evil/repos".into());
    let error = github.repositories(&acme(), None).await.unwrap_err();
    assert_eq!(what(error), "evil/one among the repositories of acme");
}

#[tokio::test]
async fn a_redirect_out_of_the_api_is_not_followed() {
    let pair = With {
        base: "/api/v3",
        ..With::default()
    }
    .start()
    .await;
    let other = FakeGitHub::start("127.0.0.1").await.unwrap();
    other.add("acme/one");
    let inside = pair.host.api().replace("/api/v3/", "/login");
    for place in [
        format!("{}repos/acme/one", other.api()),
        inside,
        "http://[".to_owned(),
    ] {
        pair.host.behave(REPO, Behaviour::moved(&place));
        let error = pair.ask().await.unwrap_err();
        assert_eq!(what(error), "a redirect that leads out of the API");
    }
    assert_eq!((other.count(), pair.host.count()), (0, 3));
}

#[tokio::test]
async fn redirects_in_a_circle_have_an_end() {
    let pair = pair().await;
    pair.host.behave(REPO, Behaviour::moved("/repos/acme/one"));
    let error = pair.ask().await.unwrap_err();
    assert_eq!(what(error), "more than 3 redirects in a row");
    assert_eq!(pair.host.count(), 4);
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_not_read() {
    let pair = pair().await;
    let commit = pair.host.add_tag("acme/one", "v1.0.0");
    pair.host.put_file("acme/one", "go.mod", vec![b'x'; 2_000]);
    let one = repo("acme/one");
    let file = pair.github.file(&one, oid(&commit), "go.mod", 1_999).await;
    assert_matches!(file, Err(GitHubError::TooBig { limit: 1_999 }));
    let file = pair.github.file(&one, oid(&commit), "go.mod", 2_000).await;
    assert_eq!(file.unwrap().unwrap().len(), 2_000);
    let page = Behaviour::Status {
        code: 200,
        headers: Vec::new(),
        body: " ".repeat((8 << 20) + 1),
    };
    pair.host.behave(TAGS, page);
    let tags = pair.github.tags(&one, None, None).await;
    assert_matches!(tags, Err(GitHubError::TooBig { .. }));
}

#[tokio::test]
async fn a_silent_host_is_given_up() {
    let pair = With {
        idle: Duration::from_millis(50),
        ..With::default()
    }
    .start_with_repository()
    .await;
    pair.ask().await.unwrap();
    pair.host.behave("/", Behaviour::Hang);
    let asked = within("giving up", pair.ask()).await.unwrap();
    let error = asked.unwrap_err();
    assert_matches!(error, GitHubError::Unreachable(_));
    assert_eq!(error.next_step(), NextStep::Retry);
    assert_eq!(pair.github.budget()[0].in_flight, 0);
}

#[tokio::test]
async fn paths_cannot_leave_the_api() {
    let pair = pair().await;
    let commit = oid(&pair.host.add_tag("acme/one", "v1.0.0"));
    for path in [
        "",
        "/",
        "a//b",
        "../x",
        "a/../b",
        "./a",
        "a/.",
        "a\0b",
        "a\nb",
        &"x/".repeat(3_000),
    ] {
        let file = pair.github.file(&repo("acme/one"), commit, path, 10).await;
        assert_matches!(file, Err(GitHubError::Path { .. }), "{path:?}");
    }
    assert_eq!(pair.host.count(), 0);
}
