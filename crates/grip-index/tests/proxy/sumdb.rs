//! Versions as the checksum database has logged them.

use grip_go::{ModulePath, Version};
use grip_index::{Record, Verified, proxy::ProxyError};
use grip_testkit::until;

use crate::support::{Scene, World};

grip_db::statements! {
    mod sql {
        // As if the objects of what was logged were gone.
        LOSE = "UPDATE sumdb_records SET commit_oid = $1";
        FORGE = "UPDATE sumdb_records SET zip_sum = 'h1:forged'";
    }
}

impl Scene {
    /// The record of a version, once there is one.
    async fn recorded(&self, version: &str) -> Record {
        let (path, version) = (
            ModulePath::parse(&self.path).unwrap(),
            Version::parse(version).unwrap(),
        );
        let sumdb = self.world.proxy.sumdb().unwrap();
        let found = || async { sumdb.find(&path, &version).await.unwrap() };
        until("the version is logged", found).await.unwrap()
    }

    /// Puts a tag elsewhere, and waits until the index knows.
    async fn move_tag(&self, tag: &str) -> String {
        self.git(["tag", "-f", tag]);
        self.publish().await;
        self.tip(tag)
    }

    async fn moved(&self) -> Vec<(String, String)> {
        let moved = self.world.proxy.sumdb().unwrap().moved(10).await.unwrap();
        let pair = |moved: grip_index::MovedVersion| (moved.logged, moved.commit);
        moved.into_iter().map(pair).collect()
    }

    async fn verified(&self) -> Verified {
        self.world.proxy.verify(0).await.unwrap()
    }
}

async fn scene() -> Scene {
    let world = World::logging().await;
    let path = world.path("hello");
    Scene::of(world, "hello", path).tagged(&["v1.0.0"])
}

#[tokio::test]
async fn what_the_feed_lists_is_logged_without_anybody_asking() {
    let scene = scene().await;
    scene.publish().await;
    let record = scene.recorded("v1.0.0").await;
    assert_eq!((record.id, record.commit), (0, scene.tip("v1.0.0")));
    assert_eq!(record.tag.as_deref(), Some("v1.0.0"));
    let verified = scene.verified().await;
    assert_eq!((verified.records, verified.matched), (1, 1), "{verified:?}");
}

#[tokio::test]
async fn a_moved_tag_is_served_as_it_was_logged_and_reported() {
    let scene = scene().await;
    scene.publish().await;
    let first = scene.recorded("v1.0.0").await;
    let zip = scene.zip("v1.0.0").await;
    scene.commit("hello.go", "package hello\n\nconst Greeting = \"evil\"\n");
    let now = scene.move_tag("v1.0.0").await;
    assert_ne!(now, first.commit);

    assert_eq!(scene.zip("v1.0.0").await, zip);
    let info = scene.info("v1.0.0").await;
    assert_eq!(info["Origin"]["Hash"], *first.commit);
    assert_eq!(info["Origin"]["Ref"], serde_json::Value::Null);
    assert_eq!(scene.recorded("v1.0.0").await, first);
    let expected = vec![(first.commit.clone(), now)];
    let reported = || async { (scene.moved().await == expected).then_some(()) };
    until("the move is reported", reported).await.unwrap();
    let [as_logged, refused] = scene.world.proxy.moved_requests();
    assert!(as_logged >= 2 && refused == 0, "{as_logged} {refused}");

    // Put back, nothing is wrong any more.
    scene.git(["tag", "-f", "v1.0.0", &first.commit]);
    scene.publish().await;
    assert_eq!(scene.moved().await, []);
}

#[tokio::test]
async fn a_moved_tag_whose_logged_commit_is_gone_is_refused_with_the_reason() {
    let scene = scene().await;
    scene.publish().await;
    let _ = scene.recorded("v1.0.0").await;
    let lost = "0123456789012345678901234567890123456789";
    let db = scene.world.test.db();
    db.execute(&sql::LOSE, &[lost.into()]).await.unwrap();
    for file in ["v1.0.0.zip", "v1.0.0.mod", "v1.0.0.info"] {
        let answer = scene.world.ask(&format!("{}/@v/{file}", scene.path)).await;
        match answer {
            Err(error @ ProxyError::Moved { .. }) => {
                let said = error.to_string();
                assert!(
                    said.contains(lost) && said.contains("new version"),
                    "{said}"
                );
            }
            other => panic!("{file}: {other:?}"),
        }
    }
    let [_, refused] = scene.world.proxy.moved_requests();
    assert_eq!(refused, 3);
}

#[tokio::test]
async fn a_tag_on_another_commit_with_the_same_files_is_no_move() {
    let scene = scene().await;
    scene.publish().await;
    let first = scene.recorded("v1.0.0").await;
    scene.git(["commit", "--allow-empty", "-m", "nothing"]);
    let now = scene.move_tag("v1.0.0").await;
    let followed = || async { (scene.recorded("v1.0.0").await.commit == now).then_some(()) };
    until("the record is at the new commit", followed)
        .await
        .unwrap();
    let record = scene.recorded("v1.0.0").await;
    assert_eq!((record.id, record.text()), (first.id, first.text()));
    assert_eq!(scene.moved().await, []);
}

#[tokio::test]
async fn a_removed_tag_is_not_served_and_stays_logged() {
    let scene = scene().await;
    scene.publish().await;
    let first = scene.recorded("v1.0.0").await;
    scene.git(["tag", "-d", "v1.0.0"]);
    scene.publish().await;
    scene.refuses("v1.0.0.zip", "no tag v1.0.0").await;
    assert_eq!(scene.recorded("v1.0.0").await, first);
    let verified = scene.verified().await;
    assert_eq!(
        (verified.matched, verified.wrong.len()),
        (1, 0),
        "{verified:?}"
    );
}

#[tokio::test]
async fn a_commit_without_a_tag_is_logged_when_it_is_asked_for() {
    let scene = scene().await;
    scene.commit("more.go", "package hello\n");
    scene.publish().await;
    let version = scene.version("main").await;
    let before = scene.world.proxy.sumdb().unwrap().head().await.unwrap();
    drop(scene.zip(&version).await);
    let record = scene.recorded(&version).await;
    assert!(record.id >= i64::try_from(before.size).unwrap() - 1);
    assert_eq!(record.tag, None);
    scene
        .refuses("v0.0.0-20200101000000-012345678901.zip", "not found")
        .await;
}

#[tokio::test]
async fn a_forged_record_does_not_pass_verification() {
    let scene = scene().await;
    scene.publish().await;
    let _ = scene.recorded("v1.0.0").await;
    let db = scene.world.test.db();
    db.execute(&sql::FORGE, &[]).await.unwrap();
    let wrong = scene.verified().await.wrong;
    let wrong: Vec<_> = wrong.iter().map(|found| found.what.as_str()).collect();
    let version = format!("{}@v1.0.0", scene.path);
    assert_eq!(wrong, ["tile 8/0/000.p/1", version.as_str()]);
}

#[tokio::test]
async fn a_version_that_cannot_be_zipped_holds_up_no_other() {
    let scene = scene().await;
    scene.commit("case.txt", "");
    scene.commit("CASE.txt", "");
    scene.tag("v1.1.0");
    scene.git(["rm", "CASE.txt"]);
    scene.commit("fixed.go", "package hello\n");
    scene.tag("v1.2.0");
    scene.publish().await;
    let last = scene.recorded("v1.2.0").await;
    assert_eq!(last.id, 1);
    scene.refuses("v1.1.0.zip", "differs only in case").await;
}
