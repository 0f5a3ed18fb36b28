use std::{collections::BTreeSet, process::Stdio};

use grip_db::TestDatabase;
use grip_git::Options;
use grip_testkit::{Author, WorkTree, git};
use grip_types::{Identifier, RefEdit, RefName, Service};
use parking_lot::Mutex;
use tempfile::TempDir;

use super::*;

#[derive(Default)]
struct Set(Mutex<BTreeSet<RepoAddr>>);

impl ServedRepositories for Set {
    fn is_served(&self, repo: &RepoAddr) -> bool {
        self.0.lock().contains(repo)
    }

    fn page(&self, after: Option<&RepoAddr>, limit: usize) -> Vec<RepoAddr> {
        let all = self.0.lock();
        let behind = all
            .iter()
            .filter(|repo| after.is_none_or(|after| *repo > after));
        behind.take(limit).cloned().collect()
    }
}

struct Node {
    _dir: TempDir,
    served: Arc<Set>,
    hosted: Hosted,
    owner: Author,
}

impl Node {
    fn new(node: &str) -> Self {
        let dir = TempDir::new().unwrap();
        let repositories = Repositories::open(Options::new(dir.path().join("git"))).unwrap();
        let served = Arc::<Set>::default();
        let owner = Author::new();
        let claim = format!("example.com/lib={}", owner.npub());
        let hosted = Hosted::new(Parts {
            repositories,
            served: Arc::clone(&served) as Arc<dyn ServedRepositories>,
            module_paths: ModulePaths::of(&Service::parse("git.example:8443/base").unwrap()),
            claims: vec![Claim::parse(&claim).unwrap()],
            node: node.to_owned(),
            group: TaskGroup::new("test"),
        });
        Self {
            _dir: dir,
            served,
            hosted,
            owner,
        }
    }

    fn repo(&self, identifier: &str) -> RepoAddr {
        RepoAddr::new(self.owner.pubkey(), Identifier::parse(identifier).unwrap())
    }

    /// A served repository with nothing in it.
    fn empty(&self, identifier: &str) -> RepoAddr {
        let repo = self.repo(identifier);
        self.hosted.repositories().create(&repo).unwrap();
        self.served.0.lock().insert(repo.clone());
        repo
    }

    async fn tags(&self, name: &str, etag: Option<String>) -> Tags {
        let tags = self
            .hosted
            .tags(
                name,
                TagsQuery {
                    etag,
                    ..TagsQuery::default()
                },
            )
            .await;
        tags.unwrap()
    }

    async fn all_tags(&self, name: &str) -> (Vec<TagAt>, Option<String>) {
        match self.tags(name, None).await {
            Tags::Page(page) => (page.tags, page.etag),
            other => panic!("{other:?}"),
        }
    }

    /// A served repository with all of `work`.
    async fn publish(&self, identifier: &str, work: &WorkTree) -> RepoAddr {
        let repo = self.empty(identifier);
        let arguments = ["pack-objects", "--quiet", "--stdout", "--revs", "--all"];
        let pack = git::command(work.path(), arguments)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let repositories = self.hosted.repositories();
        let received = repositories.receive(&repo.identifier, &pack.stdout[..]);
        received.await.unwrap().promote().unwrap();
        let listed = work.git(["for-each-ref", "--format=%(refname) %(objectname)"]);
        let before = repositories.refs(&repo).unwrap();
        let edit = |line: &str| {
            let (name, oid) = line.split_once(' ').unwrap();
            let name = RefName::parse(name).unwrap();
            RefEdit {
                old: before.get(&name).map(|found| found.oid),
                name,
                new: Some(oid.parse().unwrap()),
            }
        };
        let edits: Vec<RefEdit> = listed.unwrap().lines().map(edit).collect();
        repositories.update_refs(&repo, &edits, None).unwrap();
        repo
    }
}

fn path(text: &str) -> ModulePath {
    ModulePath::parse(text).unwrap()
}

#[tokio::test]
async fn tags_are_told_with_their_commits_and_recognised_when_nothing_changed() {
    let node = Node::new("");
    let work = WorkTree::with_commit().unwrap();
    let commit = work.tip("HEAD").unwrap();
    work.git(["tag", "v1.0.0"]).unwrap();
    work.git(["tag", "--annotate", "--message=two", "v1.1.0"])
        .unwrap();
    work.git(["tag", "v9.0.0", "HEAD:README.md"]).unwrap();
    let repo = node.publish("hello", &work).await;
    let name = node.hosted.name_of(&repo);
    let (tags, etag) = node.all_tags(&name).await;
    let names: Vec<&str> = tags.iter().map(|tag| tag.name.as_str()).collect();
    assert_eq!(names, ["v1.0.0", "v1.1.0"], "a tag of a file is none");
    assert!(tags.iter().all(|tag| tag.commit.to_hex() == commit));
    assert_eq!(tags[1].object.to_hex(), work.tip("v1.1.0").unwrap());
    let again = node.tags(&name, etag.clone()).await;
    assert_eq!(again, Tags::Unchanged);

    work.git(["tag", "v1.2.0"]).unwrap();
    node.publish("hello", &work).await;
    let changed = node.tags(&name, etag).await;
    assert!(matches!(changed, Tags::Page(page) if page.tags.len() == 3));
}

#[tokio::test]
async fn a_tag_was_made_when_it_says_or_when_its_commit_says() {
    let node = Node::new("");
    let work = WorkTree::init().unwrap();
    std::fs::write(work.path().join("a"), "a").unwrap();
    work.git(["add", "-A"]).unwrap();
    let dated = |arguments: &[&str], at: &str| {
        let output = git::command(work.path(), arguments.iter().copied())
            .env("GIT_COMMITTER_DATE", at)
            .output()
            .unwrap();
        assert!(output.status.success());
    };
    dated(&["commit", "-q", "-m", "a"], "1000000000 +0000");
    dated(&["tag", "light"], "1100000000 +0000");
    dated(&["tag", "-a", "-m", "x", "heavy"], "1200000000 +0200");
    let repo = node.publish("hello", &work).await;
    let name = node.hosted.name_of(&repo);
    let (tags, _) = node.all_tags(&name).await;
    let mut created = Vec::new();
    for tag in &tags {
        let at = node.hosted.created(&name, tag).await.unwrap();
        created.push((tag.name.as_str(), at / 1000));
    }
    assert_eq!(
        created,
        [("heavy", 1_200_000_000), ("light", 1_000_000_000)]
    );
}

#[tokio::test]
async fn go_mod_is_read_where_it_is_a_file() {
    let node = Node::new("");
    let work = WorkTree::init().unwrap();
    work.commit("go.mod", "module a.example/x\n").unwrap();
    work.commit("directory/go.mod/x", "no file").unwrap();
    std::fs::create_dir(work.path().join("link")).unwrap();
    std::os::unix::fs::symlink("../go.mod", work.path().join("link/go.mod")).unwrap();
    let commit = work.commit("large/go.mod", &" ".repeat((16 << 20) + 1));
    let commit: Oid = commit.unwrap().parse().unwrap();
    let repo = node.publish("hello", &work).await;
    let name = node.hosted.name_of(&repo);
    let at = async |dir: &str| node.hosted.go_mod(&name, &commit, dir).await.unwrap();
    assert_eq!(at("").await, GoMod::Text("module a.example/x\n".into()));
    assert_eq!(at("directory").await, GoMod::Absent);
    assert_eq!(at("nothing").await, GoMod::Absent);
    assert_eq!(at("large").await, GoMod::TooLarge);
    assert_eq!(
        at("link").await,
        GoMod::Text("".into()),
        "never its target's text"
    );
}

#[tokio::test]
async fn what_is_not_served_or_not_ours_is_gone() {
    let node = Node::new("");
    let repo = node.empty("hello");
    let name = node.hosted.name_of(&repo);
    let tags = async |name: &str| node.tags(name, None).await;
    assert!(matches!(tags(&name).await, Tags::Page(_)));
    node.served.0.lock().clear();
    assert_eq!(tags(&name).await, Tags::Gone);
    for strange in [
        "",
        "hello",
        "github.com/a/b",
        "npub1/../x",
        "npub1x/",
        "npub1x/a/b",
    ] {
        assert_eq!(tags(strange).await, Tags::Gone, "{strange}");
    }
    node.served.0.lock().insert(node.repo("never-made"));
    let name = node.hosted.name_of(&node.repo("never-made"));
    assert_eq!(tags(&name).await, Tags::Gone);
}

#[test]
fn a_repository_speaks_for_its_place_and_for_what_its_owner_was_given() {
    let node = Node::new("");
    let npub = node.owner.npub();
    let name = node.hosted.name_of(&node.repo("hello"));
    let root = format!("git.example/base/{npub}/hello");
    assert_eq!(node.hosted.location(&name), Some(path(&root)));
    for (claimed, trust) in [
        (root.as_str(), Trust::Proven),
        (&format!("{root}/sub/v2"), Trust::Proven),
        (&format!("{root}x"), Trust::Refused),
        (&format!("git.example/base/{npub}/other"), Trust::Refused),
        ("example.com/lib", Trust::Chosen),
        ("example.com/lib/v2", Trust::Chosen),
        ("example.com/library", Trust::Refused),
        ("example.com", Trust::Refused),
        ("golang.org/x/net", Trust::Refused),
    ] {
        assert_eq!(
            node.hosted.trusts(&name, &path(claimed)),
            trust,
            "{claimed}"
        );
    }
    let other = RepoAddr::new(Author::new().pubkey(), Identifier::parse("hello").unwrap());
    let other = node.hosted.name_of(&other);
    assert_eq!(
        node.hosted.trusts(&other, &path("example.com/lib")),
        Trust::Refused
    );
    assert_eq!(node.hosted.trusts(&other, &path(&root)), Trust::Refused);
}

#[test]
fn a_place_and_its_path_lead_to_each_other() {
    let node = Node::new("");
    let module_paths = node.hosted.module_paths();
    let repo = node.repo("Hello.World_1");
    let location = module_paths.location(&repo).unwrap();
    assert_eq!(module_paths.repository(&location), Some(repo.clone()));
    let below = path(&format!("{location}/sub/v2"));
    assert_eq!(module_paths.repository(&below), Some(repo.clone()));
    let npub = &repo.npub();
    for strange in [
        format!("git.example/{npub}/x"),
        format!("git.example/base/{npub}"),
        "git.example/base/hello/x".to_owned(),
        format!("git.example.evil/base/{npub}/x"),
    ] {
        assert_eq!(module_paths.repository(&path(&strange)), None, "{strange}");
    }
    assert_eq!(
        module_paths.clone_url(&node.repo("a b")),
        format!("https://git.example:8443/base/{npub}/a%20b.git")
    );
    for identifier in ["a b", "naïve", "a+b", "con", "x.", ".x", "v1", "v01"] {
        let name = node.hosted.name_of(&node.repo(identifier));
        assert_eq!(node.hosted.location(&name), None, "{identifier}");
    }
}

#[test]
fn names_hold_the_node_where_nodes_have_names() {
    let node = Node::new("alpha");
    assert_eq!(node.hosted.name(), "hosted@alpha");
    let repo = node.repo("naïve repo");
    let name = node.hosted.name_of(&repo);
    assert_eq!(name, format!("alpha/{}/naïve repo", repo.npub()));
    assert_eq!(node.hosted.repository(&name), Some(repo.clone()));
    assert_eq!(node.hosted.repository(&repo.to_string()), None);
    let beta = Node::new("beta");
    assert_eq!(beta.hosted.repository(&name), None);
    assert_eq!(Node::new("").hosted.name(), "hosted");
}

#[test]
fn claims_are_read_or_refused_with_a_reason() {
    let npub = Author::new().npub();
    for (text, reason) in [
        ("example.com/lib".to_owned(), "not of the form"),
        (format!("={npub}"), "no module path"),
        (format!("example/lib={npub}"), "no module path"),
        (format!("example.com/../lib={npub}"), "no module path"),
        ("example.com/lib=npub1xyz".to_owned(), "is no npub"),
        (format!("example.com/lib={}", "ab".repeat(32)), "is no npub"),
    ] {
        let said = Claim::parse(&text).unwrap_err().to_string();
        assert!(said.contains(reason), "{text}: {said}");
    }
    let claim = Claim::parse(&format!(" example.com/lib/ = {npub} ")).unwrap();
    assert_eq!(claim.to_string(), format!("example.com/lib={npub}"));
}

#[tokio::test]
async fn all_repositories_are_listed_page_by_page() {
    let node = Node::new("");
    let all: BTreeSet<String> = (0..2_500)
        .map(|n| {
            let repo = node.repo(&format!("r{n}"));
            let name = node.hosted.name_of(&repo);
            node.served.0.lock().insert(repo);
            name
        })
        .collect();
    let (mut seen, mut pages, mut cursor) = (BTreeSet::new(), 0, None);
    loop {
        let listing = node.hosted.list(cursor).await.unwrap();
        assert!(listing.repos.len() <= PAGE);
        seen.extend(listing.repos.into_iter().map(|repo| repo.name));
        pages += 1;
        cursor = listing.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!((seen, pages), (all, 3));
}

grip_db::statements! {
    mod sql {
        REPO = "INSERT INTO repos (org_repo_name, etag) VALUES ($1, $2)";
        MEMBER = "INSERT INTO repo_sources (source, org_repo_name, listing)
            VALUES ('hosted', $1, 1)";
    }
}

async fn know(test: &TestDatabase, name: &str, etag: Option<String>) {
    let (repo, member) = ([name.into(), etag.into()], [name.into()]);
    let db = test.db();
    db.write(move |mut db| {
        Box::pin(async move {
            db.execute(&sql::REPO, &repo).await?;
            db.execute(&sql::MEMBER, &member).await
        })
    })
    .await
    .unwrap();
}

grip_db::on_both_engines! {
    async fn a_start_finds_what_was_released_or_withdrawn_meanwhile(test: TestDatabase) {
        let node = Node::new("");
        let work = WorkTree::with_commit().unwrap();
        work.git(["tag", "v1.0.0"]).unwrap();
        let mut expected = BTreeSet::new();
        for identifier in ["same", "moved", "new", "unnoted"] {
            let repo = node.publish(identifier, &work).await;
            let name = node.hosted.name_of(&repo);
            let (_, etag) = node.all_tags(&name).await;
            match identifier {
                "same" => know(&test, &name, etag).await,
                "moved" => know(&test, &name, Some("before".to_owned())).await,
                "unnoted" => know(&test, &name, None).await,
                _ => {}
            }
            if identifier != "same" {
                expected.insert(name);
            }
        }
        let gone = node.hosted.name_of(&node.repo("gone"));
        know(&test, &gone, Some("before".to_owned())).await;
        expected.insert(gone);
        let found = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&found);
        let caught_up = node
            .hosted
            .catch_up(test.db(), move |names| {
                seen.lock().extend(names);
                Box::pin(async { Ok(()) })
            })
            .await
            .unwrap();
        assert_eq!(caught_up, CaughtUp { looked_at: 4, changed: 4 });
        let found: BTreeSet<String> = found.lock().drain(..).collect();
        assert_eq!(found, expected);
    }

    async fn every_statement_is_understood(test: TestDatabase) {
        grip_db::prepare_all(test.db(), catch_up::sql::ALL).await.unwrap();
        grip_db::prepare_all(test.db(), crate::proxy::STATEMENTS).await.unwrap();
        grip_db::prepare_all(test.db(), crate::sumdb::STATEMENTS).await.unwrap();
    }
}
