mod host;

use std::time::Duration;

use grip_db::{TestDatabase, on_both_engines, prepare_all};
use grip_limits::Throttle;
use grip_testkit::until;
use object_store::aws::AmazonS3Builder;
use tempfile::TempDir;

use self::host::{Host, Page};
use super::{avatar_rows::sql, *};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n one";
const GIF: &[u8] = b"GIF89a another";

struct Fixture {
    host: Host,
    context: Context,
    queue: Queue,
    dir: TempDir,
}

fn throttle() -> Throttle {
    Throttle::memory(grip_limits::Options {
        limits: grip_limits::Limits {
            in_flight: 100,
            per_window: 10_000,
            window: Duration::from_secs(1),
        },
        ..grip_limits::Options::default()
    })
}

/// A way out that reaches the test's host only if the operator named it.
fn egress(named: &[&str]) -> Egress {
    let private_hosts = named.iter().map(|host| Domain::parse(host).unwrap());
    let options = grip_egress::Options {
        private_hosts: private_hosts.collect(),
        ..grip_egress::Options::default()
    };
    Egress::new(options, throttle()).unwrap()
}

fn parts(db: &Db, dir: &TempDir) -> AvatarParts {
    AvatarParts {
        db: db.clone(),
        queue: Queue::new(db.clone()),
        pictures: PictureStore::open(dir.path().to_str().unwrap()).unwrap(),
        egress: egress(&[]),
        named: egress(&["127.0.0.1", "127.0.0.2"]),
        options: AvatarOptions {
            hosts: vec![Domain::parse("127.0.0.1").unwrap()],
            ..AvatarOptions::default()
        },
        group: TaskGroup::new("avatars"),
    }
}

async fn fixture(db: &Db) -> Fixture {
    let dir = TempDir::new().unwrap();
    Fixture {
        host: Host::start("127.0.0.1").await,
        context: Context::new(parts(db, &dir)),
        queue: Queue::new(db.clone()),
        dir,
    }
}

grip_db::statements! {
    mod users {
        ADD = "INSERT INTO github_users (id, login, avatar_url, raw, fetched_at, created_at, \
               updated_at) VALUES ($1, 'mona', $2, '{}', 1, 1, 1) \
               ON CONFLICT (id) DO UPDATE SET avatar_url = excluded.avatar_url";
        DROP = "DELETE FROM github_users WHERE id = $1";
    }
}

async fn add_user(db: &Db, id: i64, url: &str) {
    let user = [id.into(), url.into()];
    db.execute(&users::ADD, &user).await.unwrap();
}

async fn drop_user(db: &Db, id: i64) {
    db.execute(&users::DROP, &[id.into()]).await.unwrap();
}

impl Fixture {
    async fn fetch(&self, user: i64) -> Outcome {
        self.context.run(FETCH, &user.to_string()).await
    }

    async fn shown(&self, user: i64) -> Option<Picture> {
        self.context.picture(user).await.unwrap()
    }

    /// The files of the store.
    fn files(&self) -> usize {
        let avatars = self.dir.path().join("avatars");
        let dirs = std::fs::read_dir(avatars).into_iter().flatten().flatten();
        dirs.map(|dir| std::fs::read_dir(dir.path()).unwrap().count())
            .sum()
    }
}

on_both_engines! {
    async fn every_statement_is_understood(test: TestDatabase) {
        prepare_all(test.db(), sql::ALL).await.unwrap();
    }

    async fn a_picture_is_fetched_kept_by_its_digest_and_shown(test: TestDatabase) {
        let fixture = fixture(test.db()).await;
        fixture.host.put("/u/1", Page::fine(PNG).etag("\"a\""));
        add_user(test.db(), 1, &fixture.host.url("/u/1?v=4")).await;
        add_user(test.db(), 2, &fixture.host.url("/u/1")).await;
        assert_eq!(fixture.shown(1).await, None);
        assert_eq!(fixture.fetch(1).await, Outcome::Done);
        assert_eq!(fixture.fetch(2).await, Outcome::Done);
        let picture = fixture.shown(1).await.unwrap();
        assert_eq!((picture.kind, &picture.bytes[..]), (Kind::Png, PNG));
        assert_eq!(fixture.shown(2).await.unwrap(), picture);
        assert_eq!(fixture.files(), 1, "the same picture is kept once");
        assert_eq!(fixture.shown(3).await, None);
        assert_eq!(fixture.fetch(3).await, Outcome::Done, "nobody is known by that id");
    }

    async fn what_has_not_changed_is_not_sent_again(test: TestDatabase) {
        let fixture = fixture(test.db()).await;
        fixture.host.put("/u/1", Page::fine(PNG).etag("\"a\""));
        add_user(test.db(), 1, &fixture.host.url("/u/1")).await;
        fixture.fetch(1).await;
        fixture.fetch(1).await;
        let asked = fixture.host.asked();
        let marks: Vec<_> = asked.iter().map(|ask| ask.header("if-none-match")).collect();
        assert_eq!(marks, [None, Some("\"a\"".to_owned())]);
        assert_eq!(fixture.host.sent(), [200, 304]);
        assert!(fixture.shown(1).await.is_some());
        // Another address has nothing to do with that mark.
        fixture.host.put("/u/other", Page::fine(PNG).etag("\"a\""));
        add_user(test.db(), 1, &fixture.host.url("/u/other")).await;
        fixture.fetch(1).await;
        assert_eq!(fixture.host.sent(), [200, 304, 200]);
    }

    async fn a_new_picture_takes_the_place_of_the_old_one(test: TestDatabase) {
        let fixture = fixture(test.db()).await;
        fixture.host.put("/u/1", Page::fine(PNG).etag("\"a\""));
        add_user(test.db(), 1, &fixture.host.url("/u/1")).await;
        add_user(test.db(), 2, &fixture.host.url("/u/1")).await;
        fixture.fetch(1).await;
        fixture.fetch(2).await;
        fixture.host.put("/u/1", Page::fine(GIF).etag("\"b\""));
        fixture.fetch(1).await;
        assert_eq!(fixture.shown(1).await.unwrap().kind, Kind::Gif);
        assert_eq!((fixture.shown(2).await.unwrap().kind, fixture.files()), (Kind::Png, 2));
        fixture.fetch(2).await;
        assert_eq!(fixture.files(), 1, "nobody has the old one any more");
    }

    async fn what_is_no_picture_is_not_kept_and_the_reason_is(test: TestDatabase) {
        let fixture = fixture(test.db()).await;
        let mut big = GIF.to_vec();
        big.resize(MAX_BYTES + 1, 0);
        for (user, path, page) in [
            (1, "/svg", Page::fine(b"<svg onload='x()'/>").header("content-type", "image/png")),
            (2, "/big", Page::fine(&big)),
            (3, "/none", Page::status(404)),
            (4, "/denied", Page::status(403)),
            (5, "/away", Page::status(302).header("location", "http://127.0.0.9/u/1")),
            (6, "/loop", Page::status(302).header("location", "/loop")),
            (7, "/empty", Page::fine(b"")),
        ] {
            fixture.host.put(path, page);
            add_user(test.db(), user, &fixture.host.url(path)).await;
            assert_eq!(fixture.fetch(user).await, Outcome::Done, "{path}");
            assert_eq!(fixture.shown(user).await, None, "{path}");
        }
        assert_eq!(fixture.files(), 0);
        // And none of them is asked for again at once.
        let before = fixture.context.rows.now_ms() - 1_000;
        assert!(fixture.context.rows.without(0, before, 10).await.unwrap().is_empty());
    }

    async fn hosts_that_nobody_named_must_be_public(test: TestDatabase) {
        let fixture = fixture(test.db()).await;
        let inside = Host::start("127.0.0.2").await;
        inside.put("/u/1", Page::fine(PNG));
        for (user, url) in [
            (1, inside.url("/u/1")),
            (2, "http://169.254.169.254/latest/meta-data".to_owned()),
            (3, "file:///etc/passwd".to_owned()),
            (4, "no url".to_owned()),
            (5, "http://localhost/u/1".to_owned()),
            (6, "http://[::1]/u/1".to_owned()),
        ] {
            add_user(test.db(), user, &url).await;
            assert_eq!(fixture.fetch(user).await, Outcome::Done, "{url}");
            assert_eq!(fixture.shown(user).await, None, "{url}");
        }
        assert!(inside.asked().is_empty(), "though the operator's own way would lead there");
    }

    async fn a_host_in_trouble_is_asked_again_later(test: TestDatabase) {
        let fixture = fixture(test.db()).await;
        add_user(test.db(), 1, &fixture.host.url("/u/1")).await;
        fixture.host.put("/u/1", Page::status(502));
        let Outcome::Failed(failure) = fixture.fetch(1).await else {
            panic!("it failed");
        };
        assert_eq!(failure.class, grip_queue::Class::Transient);
        fixture.host.put("/u/1", Page::status(429).header("retry-after", "60"));
        let now = fixture.context.rows.now_ms();
        let Outcome::Failed(failure) = fixture.fetch(1).await else {
            panic!("it failed");
        };
        let grip_queue::Class::RateLimited { until_ms } = failure.class else {
            panic!("{failure:?}");
        };
        assert!((55_000..65_000).contains(&(until_ms - now)), "{}", until_ms - now);
        // The host is left alone until then, and no try is lost.
        let asked = fixture.host.asked().len();
        let outcome = fixture.fetch(1).await;
        assert!(matches!(outcome, Outcome::Postponed { .. }), "{outcome:?}");
        assert_eq!(fixture.host.asked().len(), asked);
    }

    async fn a_picture_that_the_store_lost_is_fetched_again(test: TestDatabase) {
        let fixture = fixture(test.db()).await;
        fixture.host.put("/u/1", Page::fine(PNG).etag("\"a\""));
        add_user(test.db(), 1, &fixture.host.url("/u/1")).await;
        fixture.fetch(1).await;
        let digest = fixture.shown(1).await.unwrap().digest;
        let file = fixture.dir.path().join("avatars").join(&digest[..2]).join(&digest);
        std::fs::write(&file, GIF).unwrap();
        assert_eq!(fixture.shown(1).await, None, "it is not what it was");
        std::fs::remove_file(&file).unwrap();
        let jobs = fixture.queue.claim(FETCH, 9, Duration::from_secs(60)).await.unwrap();
        assert_eq!(jobs.len(), 1);
        fixture.fetch(1).await;
        assert_eq!(&fixture.shown(1).await.unwrap().bytes[..], PNG);
        assert_eq!(fixture.host.sent(), [200, 200], "without the mark of what is lost");
    }

    async fn those_without_a_fresh_picture_are_found_and_those_who_are_gone_forgotten(test: TestDatabase) {
        let fixture = fixture(test.db()).await;
        fixture.host.put("/u/1", Page::fine(PNG));
        for user in 1..=700 {
            add_user(test.db(), user, &fixture.host.url("/u/1")).await;
        }
        add_user(test.db(), 701, "").await;
        fixture.fetch(1).await;
        assert_eq!(fixture.context.run(FIND_MISSING, "all").await, Outcome::Done);
        let lease = Duration::from_secs(60);
        let jobs = fixture.queue.claim(FETCH, 1_000, lease).await.unwrap();
        assert_eq!(jobs.len(), 699);
        drop_user(test.db(), 1).await;
        fixture.context.run(FIND_MISSING, "all").await;
        assert_eq!((fixture.shown(1).await, fixture.files()), (None, 0));
    }
}

#[tokio::test]
async fn workers_keep_the_pictures_of_all_people() {
    let test = TestDatabase::sqlite().await;
    let Fixture { host, dir, .. } = fixture(test.db()).await;
    host.put("/u/1", Page::fine(PNG));
    for user in 1..=20 {
        add_user(test.db(), user, &host.url("/u/1")).await;
    }
    let avatars = Avatars::start(parts(test.db(), &dir)).await.unwrap();
    until("all have their picture", async || {
        for user in 1..=20 {
            avatars.picture(user).await.unwrap()?;
        }
        Some(())
    })
    .await
    .unwrap();
    assert_eq!(host.asked().len(), 20);
    avatars.want(1).await.unwrap();
    until("it was fetched again", async || {
        (host.asked().len() == 21).then_some(())
    })
    .await
    .unwrap();
    avatars.shutdown().await;
}

#[tokio::test]
async fn a_bucket_keeps_pictures_like_a_directory() {
    let s3 = Host::start("127.0.0.1").await;
    s3.keeps();
    let builder = AmazonS3Builder::new()
        .with_url("s3://pictures/of/people")
        .with_endpoint(s3.url("").trim_end_matches('/'))
        .with_allow_http(true)
        .with_region("us-east-1")
        .with_access_key_id("key")
        .with_secret_access_key("s3cret");
    let url = "s3://pictures/of/people".parse().unwrap();
    let pictures = PictureStore::at(grip_bucket::s3(builder, &url).unwrap());
    let picture = Picture::new(PNG.into()).unwrap();
    assert_eq!(pictures.get(&picture.digest).await.unwrap(), None);
    pictures.put(&picture).await.unwrap();
    pictures.put(&picture).await.unwrap();
    let put = s3
        .asked()
        .into_iter()
        .find(|ask| ask.method == "PUT")
        .unwrap();
    let place = format!(
        "/pictures/of/people/avatars/{}/{}",
        &picture.digest[..2],
        picture.digest
    );
    assert_eq!(put.path, place);
    let signed = put.header("authorization").unwrap();
    assert!(
        signed.starts_with("AWS4-HMAC-SHA256 Credential=key/"),
        "{signed}"
    );
    assert_eq!(
        pictures.get(&picture.digest).await.unwrap(),
        Some(picture.clone())
    );
    pictures.remove(&picture.digest).await.unwrap();
    pictures.remove(&picture.digest).await.unwrap();
    assert_eq!(pictures.get(&picture.digest).await.unwrap(), None);
}
