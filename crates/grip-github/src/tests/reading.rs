//! Reading of well-formed responses.

use grip_testkit::assert_matches;
use grip_testkit::github::Repo;

use super::support::{Pair, With, oid, pair, repo};
use crate::{Cursor, GitHubError, Login, Owner, Page, Repository, Response, Tag};

async fn all(pair: &Pair, owner: Owner) -> Vec<Page<Repository>> {
    let mut pages = Vec::new();
    let mut at: Option<Cursor> = None;
    loop {
        // As text, as it is kept between two calls.
        let kept = at.map(|at| at.to_string().parse().unwrap());
        let page = pair.github.repositories(&owner, kept).await.unwrap();
        at = page.next;
        pages.push(page);
        if at.is_none() {
            return pages;
        }
    }
}

/// A page of the tags of `acme/one`.
async fn tags(pair: &Pair, at: Option<Cursor>) -> Page<Tag> {
    let tags = pair.github.tags(&repo("acme/one"), at, None).await;
    tags.unwrap().fresh().unwrap()
}

fn login(name: &str) -> Login {
    Login::parse(name).unwrap()
}

#[tokio::test]
async fn a_repository_is_read_with_all_that_is_used_of_it() {
    let pair = With::default().start().await;
    let mut made = Repo::new("Acme/One");
    made.archived = true;
    made.fork = true;
    made.private = true;
    made.topics = vec!["go".to_owned()];
    made.pushed_at = Some(1_700_000_123);
    let id = pair.host.add_repo(made);
    let read = pair.github.repository(&repo("acme/one")).await.unwrap();
    let expected = Repository {
        id,
        full_name: repo("Acme/One"),
        archived: true,
        fork: true,
        private: true,
        internal: false,
        default_branch: Some("main".to_owned()),
        pushed_at: Some(1_700_000_123_000),
        clone_url: "https://github.com/Acme/One.git".parse().unwrap(),
        topics: vec!["go".to_owned()],
        language: Some("Go".to_owned()),
    };
    assert_eq!(read, expected);
}

#[tokio::test]
async fn all_repositories_of_an_owner_are_listed_a_page_a_call() {
    let pair = With::default().start().await;
    pair.host.fill("acme", 250, 0);
    let mut of_user = Repo::new("jo/tool");
    of_user.of_user = true;
    pair.host.add_repo(of_user);
    let pages = all(&pair, Owner::Org(login("ACME"))).await;
    let sizes: Vec<_> = pages.iter().map(|page| page.items.len()).collect();
    assert_eq!(
        (sizes.as_slice(), pair.host.count()),
        (&[100, 100, 50][..], 3)
    );
    let mut names: Vec<_> = pages.iter().flat_map(|page| &page.items).collect();
    names.sort_by_key(|item| item.id);
    names.dedup_by_key(|item| item.id);
    assert_eq!(names.len(), 250);
    let pages = all(&pair, Owner::User(login("jo"))).await;
    assert_eq!(pages[0].items[0].full_name, repo("jo/tool"));
    let nobody = Owner::Org(login("nobody"));
    let error = pair.github.repositories(&nobody, None).await;
    assert_matches!(error, Err(GitHubError::NotFound { .. }));
}

#[tokio::test]
async fn a_repository_that_is_made_meanwhile_hides_no_other() {
    let pair = With::default().start().await;
    pair.host.fill("acme", 150, 0);
    let acme = Owner::Org(login("acme"));
    let first = pair.github.repositories(&acme, None).await.unwrap();
    pair.host.fill("acme-new", 1, 0);
    pair.host.add("acme/new");
    let second = pair.github.repositories(&acme, first.next).await.unwrap();
    let mut ids: Vec<_> = first
        .items
        .iter()
        .chain(&second.items)
        .map(|r| r.id)
        .collect();
    ids.dedup();
    assert_eq!(ids.len(), 151);
}

#[tokio::test]
async fn all_repositories_of_a_host_are_listed_by_id() {
    let pair = With::default().start().await;
    pair.host.fill("acme", 130, 0);
    pair.host.fill("other", 120, 0);
    let pages = all(&pair, Owner::Everything).await;
    let ids: Vec<_> = pages
        .iter()
        .flat_map(|page| &page.items)
        .map(|r| r.id)
        .collect();
    assert!(ids.len() == 250 && ids.is_sorted());
    let first = &pages[0].items[0];
    assert_eq!(
        (first.default_branch.as_ref(), first.pushed_at),
        (None, None)
    );
    assert_eq!(
        first.clone_url.as_str(),
        "https://github.com/acme/repo-00000.git"
    );
}

#[tokio::test]
async fn tags_are_listed_and_asked_for_changes_only() {
    let pair = pair().await;
    let mut made = Vec::new();
    for n in 0..130 {
        made.push(pair.host.add_tag("acme/one", &format!("v0.{n}.0")));
    }
    let one = repo("acme/one");
    let first = tags(&pair, None).await;
    let second = tags(&pair, first.next).await;
    assert_eq!((first.items.len(), second.items.len()), (100, 30));
    assert_eq!(second.next, None);
    let mut commits: Vec<_> = first.items.iter().chain(&second.items).collect();
    commits.sort_by_key(|tag| tag.commit);
    let mut made: Vec<_> = made.iter().map(|hex| oid(hex)).collect();
    made.sort();
    assert!(commits.iter().map(|tag| tag.commit).eq(made));

    let left = pair.host.remaining(Some(0));
    let same = pair.github.tags(&one, None, first.etag.as_ref()).await;
    assert_eq!(same.unwrap(), Response::NotModified);
    assert_eq!(pair.host.remaining(Some(0)), left);
    pair.host.add_tag("acme/one", "v9.9.9");
    let changed = pair.github.tags(&one, None, first.etag.as_ref()).await;
    let changed = changed.unwrap().fresh().unwrap();
    assert!(changed.items.iter().any(|tag| tag.name == "v9.9.9"));
}

#[tokio::test]
async fn a_repository_without_tags_has_an_empty_page() {
    let pair = pair().await;
    let page = tags(&pair, None).await;
    assert_eq!((page.items.len(), page.next), (0, None));
}

#[tokio::test]
async fn hostile_tag_names_are_handed_on_as_they_are() {
    let pair = pair().await;
    let names = [
        "../../x",
        "a\u{0}b\n",
        "<script>",
        &"x".repeat(4_096),
        "ä/v1.0.0",
    ];
    for name in names {
        pair.host.add_tag("acme/one", name);
    }
    let read = tags(&pair, None).await.items;
    let mut read: Vec<_> = read.into_iter().map(|tag| tag.name).collect();
    let mut names = names.to_vec();
    read.sort();
    names.sort();
    assert_eq!(read, names);
}

#[tokio::test]
async fn the_time_of_a_commit_is_read() {
    let pair = pair().await;
    let commit = oid(&pair.host.commit("acme/one", Some(1_600_000_000)));
    let one = repo("acme/one");
    assert_eq!(
        pair.github.commit_time(&one, commit).await.unwrap(),
        1_600_000_000_000
    );
    let missing = oid(&"ab".repeat(20));
    let error = pair.github.commit_time(&one, missing).await;
    assert_matches!(error, Err(GitHubError::NotFound { .. }));
}

#[tokio::test]
async fn a_file_is_read_as_it_is_in_the_commit() {
    let pair = pair().await;
    let first = pair.host.add_tag("acme/one", "v1.0.0");
    let second = pair.host.add_tag("acme/one", "v2.0.0");
    pair.host
        .put_file("acme/one", "sub dir/ä?#%2F/go.mod", "module old\n");
    pair.host
        .put_file_at("acme/one", &second, "sub dir/ä?#%2F/go.mod", vec![0xff, 0]);
    let one = repo("acme/one");
    for (commit, expected) in [(first, &b"module old\n"[..]), (second, b"\xff\0")] {
        let path = "sub dir/ä?#%2F/go.mod";
        let file = pair
            .github
            .file(&one, oid(&commit), path, 100)
            .await
            .unwrap();
        assert_eq!(file.unwrap(), expected);
    }
}

#[tokio::test]
async fn a_missing_file_is_told_apart_from_a_missing_repository_or_commit() {
    let pair = pair().await;
    let commit = oid(&pair.host.add_tag("acme/one", "v1.0.0"));
    pair.host.put_file("acme/one", "sub/x", "y");
    let github = &pair.github;
    let one = repo("acme/one");
    assert_eq!(github.file(&one, commit, "go.mod", 9).await.unwrap(), None);
    assert_eq!(pair.host.count(), 2, "the repository was looked for");
    assert_eq!(github.file(&one, commit, "go.sum", 9).await.unwrap(), None);
    assert_eq!(pair.host.count(), 3, "it is known for a while");
    assert_eq!(
        github.file(&one, commit, "sub", 9).await.unwrap(),
        None,
        "a directory"
    );

    let gone = github.file(&repo("acme/none"), commit, "go.mod", 9).await;
    assert_matches!(gone, Err(GitHubError::NotFound { .. }));
    let missing = oid(&"ab".repeat(20));
    let gone = github.file(&one, missing, "go.mod", 9).await;
    assert_matches!(gone, Err(GitHubError::NotFound { .. }));
    pair.host.remove("acme/one");
    assert!(github.tags(&one, None, None).await.is_err());
    let gone = github.file(&one, commit, "go.mod", 9).await;
    assert_matches!(gone, Err(GitHubError::NotFound { .. }));
}

#[tokio::test]
async fn a_renamed_repository_is_found_and_every_hop_is_paid_for() {
    let pair = pair().await;
    let commit = oid(&pair.host.add_tag("acme/one", "v1.0.0"));
    pair.host.put_file("acme/one", "go.mod", "module x\n");
    pair.host.rename("acme/one", "corp/two");
    let one = repo("acme/one");
    let github = &pair.github;
    let found = github.repository(&one).await.unwrap();
    assert_eq!(found.full_name, repo("corp/two"));
    assert_eq!(tags(&pair, None).await.items[0].name, "v1.0.0");
    github.commit_time(&one, commit).await.unwrap();
    let file = github.file(&one, commit, "go.mod", 100).await.unwrap();
    assert_eq!(file.unwrap(), "module x\n");
    let left = github.budget()[0].remaining;
    assert_eq!((pair.host.count(), left), (8, Some(5_000 - 8)));
    assert!(
        pair.host
            .requests()
            .iter()
            .all(|seen| seen.token == Some(0))
    );
}

#[tokio::test]
async fn an_enterprise_host_has_its_api_below_a_path() {
    let pair = With {
        base: "/api/v3",
        ..With::default()
    }
    .start()
    .await;
    pair.host.fill("acme", 150, 1);
    assert_eq!(all(&pair, Owner::Org(login("acme"))).await.len(), 2);
    assert_eq!(pair.github.host(), "127.0.0.1");
}
