//! Modules of GitHub sources, fetched from the git server of a made-up GitHub.

mod node;

use std::{path::PathBuf, time::Duration};

use grip_go::{ModulePath, Version};
use grip_index::{
    MovedVersion, Reader,
    proxy::{Options, ProxyError},
};
use grip_testkit::{
    WorkTree, git,
    github::{Behaviour, Repo, pack_of},
    until,
};
use parking_lot::Mutex;

use self::node::{Node, PATH, Settings, caller, reader, serve_sumdb};
use crate::support::{World, ask, module};

#[tokio::test]
async fn a_module_of_github_is_what_go_makes_of_its_commit_and_is_logged() {
    let work = module(PATH);
    // What archives of the host would leave out or rewrite, and go does not.
    let attributes = "hello.go export-ignore\nversion.txt export-subst\n";
    work.commit(".gitattributes", attributes).unwrap();
    work.commit("version.txt", "$Format:%H$\n").unwrap();
    work.commit("sub/go.mod", &format!("module {PATH}/sub\n"))
        .unwrap();
    for tag in ["v1.0.0", "v1.1.0-rc.1", "sub/v0.2.0"] {
        work.git(["tag", tag]).unwrap();
    }
    let node = Node::new().await;
    node.github.add("acme/lib");
    node.publish("lib", &work).await;

    // The same files in a repository of a node, whose zips are compared with go's elsewhere.
    let world = World::with(Options::default(), PATH).await;
    world.publish("lib", &work).await;
    for file in ["v1.0.0.zip", "v1.0.0.mod", "list"] {
        let expected = world.ask(&format!("{PATH}/@v/{file}")).await.unwrap();
        assert_eq!(node.get(file, caller(1)).await.unwrap(), expected, "{file}");
    }
    let sub = format!("{PATH}/sub/@v/v0.2.0.zip");
    let expected = world.ask(&sub).await.unwrap();
    assert_eq!(ask(&node.proxy, &sub, caller(1)).await.unwrap(), expected);

    let info = node.get("v1.0.0.info", caller(1)).await.unwrap();
    let info: serde_json::Value = serde_json::from_slice(&info).unwrap();
    assert_eq!(info["Origin"]["Hash"], work.tip("v1.0.0").unwrap());
    assert_eq!(info["Origin"]["Ref"], "refs/tags/v1.0.0");
    assert_eq!(node.fetches("lib"), 2, "one for each version");
    let record = node.record("v1.0.0").await.unwrap();
    assert_eq!(record.repo, "github.com/acme/lib");
    assert_eq!(
        node.record("v1.1.0-rc.1").await,
        None,
        "nobody asked for it"
    );
    let requests = node.github.requests_for("/acme/lib.git");
    assert!(
        requests.iter().all(|it| it.token.is_none()),
        "public: no token"
    );
}

#[tokio::test]
async fn only_what_the_feed_lists_can_be_fetched() {
    let (node, work) = Node::with_module(Settings::new()).await;
    let commit = work.tip("v1.0.0").unwrap();
    for file in [
        "v1.0.1.zip",
        "v9.9.9.mod",
        "main.info",
        &format!("{commit}.info"),
    ] {
        let refused = node.get(file, caller(1)).await;
        assert!(
            matches!(refused, Err(ProxyError::NotFound { .. })),
            "{file}"
        );
    }
    let other = ask(&node.proxy, "github.com/other/lib/@v/v1.0.0.zip", caller(1)).await;
    assert!(matches!(other, Err(ProxyError::NotFound { .. })));
    assert_eq!(node.fetches("lib"), 0);
}

#[tokio::test]
async fn many_who_ask_at_once_cost_one_fetch() {
    let (node, _) = Node::with_module(Settings::new()).await;
    let gate = node.github.hold("/acme/lib.git");
    let asking = (1..=20).map(|n| node.get("v1.0.0.zip", caller(n)));
    let asking = futures_util::future::join_all(asking);
    let opened = async {
        let asked = || async { (node.fetches("lib") == 1).then_some(()) };
        until("the host is asked", asked).await.unwrap();
        gate.open();
    };
    let (zips, ()) = tokio::join!(asking, opened);
    let first = zips[0].as_ref().unwrap();
    assert!(zips.iter().all(|zip| zip.as_ref().unwrap() == first));
    assert_eq!(node.fetches("lib"), 1);
    assert_eq!(node.status().fetched, 1);
}

#[tokio::test]
async fn one_network_has_two_fetches_at_once_and_its_others_wait_behind_nobody_else() {
    let (node, work) = Node::with_module(Settings::new()).await;
    for n in 1..=33 {
        work.git(["tag", &format!("v1.{n}.0")]).unwrap();
    }
    node.publish("lib", &work).await;
    let gate = node.github.hold("/acme/lib.git");
    let files: Vec<_> = (0..33).map(|n| format!("v1.{n}.0.mod")).collect();
    let asking = files.iter().map(|file| node.get(file, caller(1)));
    let asking = futures_util::future::join_all(asking);
    let other = async {
        let asked = |count| {
            let node = &node;
            move || async move { (node.fetches("lib") == count).then_some(()) }
        };
        until("the host is asked", asked(2)).await.unwrap();
        let opened = async {
            let of_both = asked(3);
            until("the host is asked for another", of_both)
                .await
                .unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert_eq!(node.fetches("lib"), 3);
            gate.open();
        };
        tokio::join!(node.get("v1.33.0.mod", caller(2)), opened).0
    };
    let (answers, other) = tokio::join!(asking, other);
    assert!(other.is_ok(), "{other:?}");
    let served = answers.iter().filter(|answer| answer.is_ok()).count();
    let is_busy = |answer: &&Result<_, _>| matches!(answer, Err(ProxyError::Busy { .. }));
    let busy = answers.iter().filter(is_busy).count();
    assert_eq!((served, busy), (32, 1), "{answers:?}");
}

#[tokio::test]
async fn restricted_modules_are_for_readers_and_in_no_public_log() {
    let node = Node::new().await;
    let work = module(PATH);
    work.git(["tag", "v1.0.0"]).unwrap();
    node.github.add_repo(Repo {
        private: true,
        ..Repo::new("acme/lib")
    });
    node.publish("lib", &work).await;
    let nothing = |text: String| text.replace(PATH, "…");
    for file in ["list", "v1.0.0.info", "v1.0.0.mod", "v1.0.0.zip"] {
        let hidden = node.get(file, caller(1)).await.unwrap_err().to_string();
        let unknown = ask(
            &node.proxy,
            &format!("github.com/acme/nix/@v/{file}"),
            caller(1),
        )
        .await;
        let unknown = unknown.unwrap_err().to_string();
        let unknown = unknown.replace("github.com/acme/nix", "…");
        assert_eq!(nothing(hidden), unknown, "{file}");
    }
    assert_eq!(node.fetches("lib"), 0);

    assert_eq!(&node.get("list", reader()).await.unwrap()[..], b"v1.0.0\n");
    let first = node.get("v1.0.0.zip", reader()).await.unwrap();
    let requests = node.github.requests_for("/acme/lib.git");
    assert!(
        requests.iter().all(|it| it.token == Some(0)),
        "{requests:?}"
    );
    assert_eq!(node.record("v1.0.0").await, None);
    assert_eq!(node.proxy.sumdb().unwrap().head().await.unwrap().size, 0);
    // Cached or not, a stranger learns nothing.
    assert!(node.get("v1.0.0.zip", caller(1)).await.is_err());

    // Its tag moves, and readers get what they got before.
    work.commit("hello.go", "package hello\n\nconst Greeting = \"evil\"\n")
        .unwrap();
    work.git(["tag", "-f", "v1.0.0"]).unwrap();
    node.publish("lib", &work).await;
    assert_eq!(node.get("v1.0.0.zip", reader()).await.unwrap(), first);
    assert_eq!(node.proxy.sumdb().unwrap().moved(10).await.unwrap(), []);
}

#[tokio::test]
async fn a_moved_tag_is_served_as_it_was_logged_or_refused() {
    let (node, work) = Node::with_module(Settings::new()).await;
    let first = node.get("v1.0.0.zip", caller(1)).await.unwrap();
    let logged = node.record("v1.0.0").await.unwrap();
    // In place of the commit that was tagged, which no ref leads to any more.
    let evil = "package hello\n\nconst Greeting = \"evil\"\n";
    std::fs::write(work.path().join("hello.go"), evil).unwrap();
    work.git(["commit", "-q", "-a", "--amend", "-m", "evil"])
        .unwrap();
    work.git(["tag", "-f", "v1.0.0"]).unwrap();
    node.publish("lib", &work).await;
    // From the cache, and from the host, which still has the commit.
    assert_eq!(node.get("v1.0.0.zip", caller(1)).await.unwrap(), first);
    node.cached_files()
        .iter()
        .for_each(|file| std::fs::remove_file(file).unwrap());
    assert_eq!(node.get("v1.0.0.zip", caller(1)).await.unwrap(), first);
    let info = node.get("v1.0.0.info", caller(1)).await.unwrap();
    let info: serde_json::Value = serde_json::from_slice(&info).unwrap();
    assert_eq!(info["Origin"]["Hash"], *logged.commit);
    assert_eq!(info["Origin"]["Ref"], serde_json::Value::Null);
    let reported = || async {
        let moved: Vec<MovedVersion> = node.proxy.sumdb().unwrap().moved(10).await.unwrap();
        moved
            .into_iter()
            .find(|moved| moved.logged == logged.commit)
    };
    until("the move is reported", reported).await.unwrap();

    // Until the host forgets it.
    node.cached_files()
        .iter()
        .for_each(|file| std::fs::remove_file(file).unwrap());
    let bare = node.github.git_path("acme/lib");
    for args in [
        &["reflog", "expire", "--expire=now", "--all"][..],
        &["gc", "-q", "--prune=now"],
    ] {
        let done = git::command(&bare, args.iter().copied()).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    }
    let refused = node.get("v1.0.0.zip", caller(1)).await;
    let Err(error @ ProxyError::Moved { .. }) = refused else {
        panic!("{refused:?}");
    };
    assert!(error.to_string().contains(&logged.commit), "{error}");
}

#[tokio::test]
async fn a_pack_that_is_not_the_commit_is_refused_and_nothing_of_it_stays() {
    let (node, _) = Node::with_module(Settings::new()).await;
    let evil = WorkTree::init().unwrap();
    evil.commit("hello.go", "package evil\n").unwrap();
    let pack = pack_of(&evil).unwrap();
    node.github.behave("/acme/lib.git", Behaviour::Pack(pack));
    let refused = node.get("v1.0.0.zip", caller(1)).await;
    assert!(
        matches!(refused, Err(ProxyError::NotFound { .. })),
        "{refused:?}"
    );
    assert_eq!(node.cached_files(), Vec::<PathBuf>::new());
    assert_eq!(node.record("v1.0.0").await, None);
    node.github.behave("/acme/lib.git", Behaviour::Serve);
    assert!(node.get("v1.0.0.zip", caller(1)).await.is_ok());
}

#[tokio::test]
async fn a_host_at_its_limits_is_said_and_left_alone_and_asked_again() {
    let (node, _) = Node::with_module(Settings::new()).await;
    node.github
        .behave("/acme/lib.git", Behaviour::retry_after(429, 2));
    let later = node.get("v1.0.0.zip", caller(1)).await;
    let Err(error @ ProxyError::Elsewhere { .. }) = later else {
        panic!("{later:?}");
    };
    assert!(error.to_string().contains("429"), "{error}");
    node.github.behave("/acme/lib.git", Behaviour::Serve);
    let soon = node.get("v1.0.0.zip", caller(1)).await;
    assert!(
        matches!(soon, Err(ProxyError::Elsewhere { .. })),
        "{soon:?}"
    );
    assert_eq!(
        node.fetches("lib"),
        1,
        "it is left alone for as long as it said"
    );
    let served = || async { node.get("v1.0.0.zip", caller(1)).await.ok() };
    until("the module is served", served).await.unwrap();
    assert_eq!(node.fetches("lib"), 2);
}

#[tokio::test]
async fn a_damaged_cache_is_noticed_and_filled_again() {
    let (node, _) = Node::with_module(Settings::new()).await;
    let first = node.get("v1.0.0.zip", caller(1)).await.unwrap();
    let [file] = &node.cached_files()[..] else {
        panic!("one module is cached");
    };
    let mut bytes = std::fs::read(file).unwrap();
    bytes[10] ^= 1;
    std::fs::write(file, bytes).unwrap();
    assert!(
        node.get("v1.0.0.zip", caller(1)).await.is_err(),
        "no changed byte leaves"
    );
    assert_eq!(node.get("v1.0.0.zip", caller(1)).await.unwrap(), first);
    assert_eq!(node.fetches("lib"), 2);
}

#[tokio::test]
async fn a_network_that_had_its_share_fetched_waits_and_is_served_what_is_cached() {
    let mut settings = Settings::new();
    settings.options.bytes_per_hour = 1;
    let (node, work) = Node::with_module(settings).await;
    work.git(["tag", "v1.1.0"]).unwrap();
    node.publish("lib", &work).await;
    assert!(node.get("v1.0.0.zip", caller(1)).await.is_ok());
    let spent = node.get("v1.1.0.zip", caller(1)).await;
    assert!(
        matches!(spent, Err(ProxyError::BudgetSpent { .. })),
        "{spent:?}"
    );
    assert!(node.get("v1.1.0.zip", caller(2)).await.is_ok());
    assert!(
        node.get("v1.1.0.zip", caller(1)).await.is_ok(),
        "it is cached now"
    );
    assert!(node.get("v1.0.0.info", caller(1)).await.is_ok());
    assert_eq!(node.fetches("lib"), 2);
}

/// One node has logged several versions; others check against its log what they fetch themselves.
#[tokio::test]
async fn fetched_modules_have_to_agree_with_another_checksum_database() {
    let (known, work) = Node::with_module(Settings::new()).await;
    for n in 1..=5 {
        work.commit("more.go", &format!("package hello\n\nconst N = {n}\n"))
            .unwrap();
        work.git(["tag", &format!("v1.{n}.0")]).unwrap();
    }
    known.publish("lib", &work).await;
    for n in 0..=4 {
        known.get(&format!("v1.{n}.0.mod"), reader()).await.unwrap();
    }
    let (setting, asked) = serve_sumdb(&known).await;
    let checking = |excepted: Vec<&'static str>| Settings {
        checker: Some((setting.clone(), excepted)),
        ..Settings::new()
    };

    let honest = Node::with(checking(Vec::new())).await;
    honest.github.add("acme/lib");
    honest.publish("lib", &work).await;
    for n in 0..=5 {
        let zip = honest.get(&format!("v1.{n}.0.zip"), caller(1)).await;
        assert!(zip.is_ok(), "v1.{n}.0: {zip:?}");
    }
    let lookups = |asked: &Mutex<Vec<String>>| {
        let asked = asked.lock();
        asked
            .iter()
            .filter(|path| path.starts_with("lookup/"))
            .count()
    };
    assert_eq!(lookups(&asked), 6, "v1.5.0 is not known there, and served");
    assert!(
        asked
            .lock()
            .iter()
            .any(|path| path.starts_with("tile/8/0/"))
    );

    // Other files under a version that is known.
    asked.lock().clear();
    let evil = module(PATH);
    evil.commit("hello.go", "package evil\n").unwrap();
    evil.git(["tag", "v1.0.0"]).unwrap();
    let forged = Node::with(checking(Vec::new())).await;
    forged.github.add("acme/lib");
    forged.publish("lib", &evil).await;
    let refused = forged.get("v1.0.0.zip", caller(1)).await;
    assert!(
        matches!(refused, Err(ProxyError::Untrusted { .. })),
        "{refused:?}"
    );
    assert_eq!(forged.cached_files(), Vec::<PathBuf>::new());
    assert_eq!(forged.record("v1.0.0").await, None);

    // Excepted paths and restricted repositories are not told.
    asked.lock().clear();
    let excepted = Node::with(checking(vec!["github.com/acme"])).await;
    excepted.github.add("acme/lib");
    excepted.publish("lib", &evil).await;
    assert!(excepted.get("v1.0.0.zip", caller(1)).await.is_ok());
    let private = Node::with(checking(Vec::new())).await;
    private.github.add_repo(Repo {
        internal: true,
        ..Repo::new("acme/lib")
    });
    private.publish("lib", &evil).await;
    assert!(private.get("v1.0.0.zip", reader()).await.is_ok());
    assert_eq!(*asked.lock(), Vec::<String>::new());
}

#[tokio::test]
async fn what_authors_say_is_shown_of_what_was_fetched_and_nothing_is_fetched_for_it() {
    let (node, work) = Node::with_module(Settings::new()).await;
    let go_mod =
        format!("// Deprecated: use another.\nmodule {PATH}\n\nretract v1.0.0 // broken\n");
    work.commit("go.mod", &go_mod).unwrap();
    work.git(["tag", "v1.1.0"]).unwrap();
    node.publish("lib", &work).await;
    let path = ModulePath::parse(PATH).unwrap();
    assert!(node.proxy.notices(&path, Reader::Anybody).await.is_err());
    assert_eq!(node.fetches("lib"), 0);
    node.get("v1.1.0.mod", caller(1)).await.unwrap();
    let notices = node.proxy.notices(&path, Reader::Anybody).await.unwrap();
    assert_eq!(notices.deprecated.as_deref(), Some("use another."));
    let retracted = Version::parse("v1.0.0").unwrap();
    assert_eq!(notices.retraction(&retracted), Some("broken"));
    drop(node.test);
}

#[tokio::test]
async fn what_was_restricted_gives_strangers_nothing_of_its_time() {
    let node = Node::new().await;
    let work = module(PATH);
    let secret = "package hello\n\nconst Greeting = \"secret\"\n";
    work.commit("hello.go", secret).unwrap();
    work.git(["tag", "v1.0.0"]).unwrap();
    node.github.add_repo(Repo {
        private: true,
        ..Repo::new("acme/lib")
    });
    node.publish("lib", &work).await;
    let restricted = node.get("v1.0.0.zip", reader()).await.unwrap();
    let secret_commit = work.tip("v1.0.0").unwrap();

    // Its author takes the secret out, tags it again and opens the repository to everybody.
    let open = "package hello\n\nconst Greeting = \"open\"\n";
    std::fs::write(work.path().join("hello.go"), open).unwrap();
    work.git(["commit", "-q", "-a", "--amend", "-m", "open"])
        .unwrap();
    work.git(["tag", "-f", "v1.0.0"]).unwrap();
    node.publish("lib", &work).await;
    node.open_to_everybody("lib").await;

    node.github
        .behave("/acme/lib.git", Behaviour::status(404, "Not Found"));
    let refused = node.get("v1.0.0.zip", caller(1)).await.unwrap_err();
    assert!(!refused.to_string().contains(&secret_commit), "{refused}");
    node.github.behave("/acme/lib.git", Behaviour::Serve);
    let zip = node.get("v1.0.0.zip", caller(1)).await.unwrap();
    assert_ne!(zip, restricted);
    let commit = work.tip("v1.0.0").unwrap();
    let info = node.get("v1.0.0.info", caller(1)).await.unwrap();
    let info: serde_json::Value = serde_json::from_slice(&info).unwrap();
    assert_eq!(info["Origin"]["Hash"], *commit);
    let record = node.record("v1.0.0").await.unwrap();
    assert_eq!(record.commit, commit);
    assert_eq!(node.proxy.sumdb().unwrap().head().await.unwrap().size, 1);
    // Readers have what everybody has from now on.
    assert_eq!(node.get("v1.0.0.zip", reader()).await.unwrap(), zip);
}

#[tokio::test]
async fn another_repository_with_the_same_commit_is_tried() {
    let mut settings = Settings::new();
    settings.options.failure_for = Duration::from_secs(60);
    let (node, work) = Node::with_module(settings).await;
    node.github.add("acme/mirror");
    node.publish("mirror", &work).await;
    for name in ["lib", "mirror"] {
        let path = format!("/acme/{name}.git");
        node.github
            .behave(&path, Behaviour::status(404, "Not Found"));
    }
    assert!(node.get("v1.0.0.zip", caller(1)).await.is_err());
    let asked = (node.fetches("lib"), node.fetches("mirror"));
    assert_eq!(asked, (1, 1));
}

#[tokio::test]
async fn what_was_fetched_of_a_restricted_repository_answers_for_no_public_one() {
    let node = Node::new().await;
    let work = module(PATH);
    work.git(["tag", "v1.0.0"]).unwrap();
    node.github.add_repo(Repo {
        private: true,
        ..Repo::new("acme/hidden")
    });
    node.publish("hidden", &work).await;
    node.get("v1.0.0.zip", reader()).await.unwrap();
    assert_eq!(node.fetches("hidden"), 1);
    node.github.add("acme/lib");
    node.publish("lib", &work).await;
    let listed = || async { node.get("v1.0.0.info", caller(1)).await.ok() };
    let info = until("the public repository is listed", listed)
        .await
        .unwrap();
    let info = String::from_utf8(info.to_vec()).unwrap();
    assert!(
        info.contains("acme/lib") && !info.contains("hidden"),
        "{info}"
    );
    assert_eq!(node.fetches("lib"), 1, "its own bytes were fetched");
    let record = node.record("v1.0.0").await.unwrap();
    assert_eq!(record.repo, "github.com/acme/lib");

    // The same repository, once everybody may see it, is fetched as everybody sees it.
    let other = Node::new().await;
    other.github.add_repo(Repo {
        private: true,
        ..Repo::new("acme/lib")
    });
    other.publish("lib", &work).await;
    other.get("v1.0.0.zip", reader()).await.unwrap();
    other.open_to_everybody("lib").await;
    other.get("v1.0.0.zip", caller(1)).await.unwrap();
    let requests = other.github.requests_for("/acme/lib.git");
    let tokens: Vec<_> = requests.iter().map(|it| it.token).collect();
    assert_eq!(tokens, [Some(0), None]);
}

#[tokio::test]
async fn a_moved_tag_that_another_checksum_database_contradicts_is_decided_once() {
    let (known, work) = Node::with_module(Settings::new()).await;
    known.get("v1.0.0.mod", reader()).await.unwrap();
    let (setting, _) = serve_sumdb(&known).await;
    let checking = Settings {
        checker: Some((setting, Vec::new())),
        ..Settings::new()
    };
    let node = Node::with(checking).await;
    node.github.add("acme/lib");
    node.publish("lib", &work).await;
    let first = node.get("v1.0.0.zip", caller(1)).await.unwrap();
    work.commit("hello.go", "package hello\n\nconst Greeting = \"evil\"\n")
        .unwrap();
    work.git(["tag", "-f", "v1.0.0"]).unwrap();
    node.publish("lib", &work).await;
    let commit = work.tip("v1.0.0").unwrap();
    let reported = || async {
        let moved: Vec<MovedVersion> = node.proxy.sumdb().unwrap().moved(10).await.unwrap();
        moved.into_iter().find(|moved| moved.commit == commit)
    };
    until("the move is reported", reported).await.unwrap();
    assert_eq!(node.status().untrusted, 1);
    assert_eq!(node.get("v1.0.0.zip", caller(1)).await.unwrap(), first);
}

#[tokio::test]
async fn a_host_that_lets_nobody_in_does_not_say_that_there_is_nothing() {
    let (node, _) = Node::with_module(Settings::new()).await;
    for (status, is_missing) in [(401, false), (403, false), (404, true), (451, true)] {
        node.github
            .behave("/acme/lib.git", Behaviour::status(status, "no"));
        let refused = node.get("v1.0.0.zip", caller(1)).await.unwrap_err();
        let is_not_found = matches!(refused, ProxyError::NotFound { .. });
        let is_later = matches!(refused, ProxyError::Elsewhere { .. });
        assert_eq!(
            (is_not_found, is_later),
            (is_missing, !is_missing),
            "{status}: {refused}"
        );
    }
}
