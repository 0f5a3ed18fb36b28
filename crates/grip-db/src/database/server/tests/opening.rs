use grip_testkit::{assert_matches, within};

use super::*;
use crate::Location;

#[tokio::test]
async fn a_server_that_is_not_there_is_named_without_the_password() {
    let mut server = postgres().await;
    let url = url(&server, "gripfast:s3cret", "postgres");
    server.kill();
    let (error, text) = refused(&url).await;
    assert_matches!(error, ServerError::Unreachable { .. }, "{text}");
    let address = format!("127.0.0.1:{}/postgres", server.port());
    assert!(
        text.contains(&address) && text.contains("is it running"),
        "{text}"
    );
    assert!(!text.contains("s3cret"), "{text}");
}

#[tokio::test]
async fn a_url_that_is_none_is_told_without_being_shown() {
    for url in [
        "postgres://u:s3cret@host:port/x",
        "s3cret",
        "postgres://h/d?sslmode=s3cr",
    ] {
        let (error, text) = refused(url).await;
        assert_matches!(error, ServerError::Url(_), "{text}");
        assert!(!text.contains("s3cret"), "{text}");
    }
}

#[tokio::test]
async fn a_wrong_password_and_a_missing_database_are_told_apart() {
    let server = postgres().await;
    admin(
        &server.url(),
        "CREATE ROLE guest LOGIN PASSWORD 'right'; \
         COPY (VALUES ('host all guest all scram-sha-256'), ('host all all all trust')) \
         TO PROGRAM 'cat > pg_hba.conf'",
    )
    .await;
    admin(&server.url(), "SELECT pg_reload_conf()").await;
    let denied = grip_testkit::until("the password is asked for", || async {
        let link = PgConnection::connect(&url(&server, "guest:wr0ng", "postgres")).await;
        link.is_err().then_some(())
    });
    denied.await.unwrap();
    let (error, text) = refused(&url(&server, "guest:wr0ng", "postgres")).await;
    assert_matches!(error, ServerError::Denied { .. }, "{text}");
    assert!(text.contains("guest") && !text.contains("wr0ng"), "{text}");

    let (error, text) = refused(&url(&server, "gripfast", "elsewhere")).await;
    assert_matches!(error, ServerError::NoDatabase { .. }, "{text}");
    assert!(text.contains("createdb"), "{text}");
}

#[tokio::test]
async fn a_guest_is_told_what_it_lacks() {
    let server = postgres().await;
    admin(&server.url(), "CREATE ROLE guest LOGIN").await;
    admin(&server.url(), "CREATE DATABASE narrow").await;
    admin(&server.url(), "ALTER DATABASE narrow CONNECTION LIMIT 0").await;
    let (error, text) = refused(&url(&server, "guest", "narrow")).await;
    assert_matches!(error, ServerError::Crowded { .. }, "{text}");
    let (error, text) = refused(&url(&server, "guest", "postgres")).await;
    assert_matches!(error, ServerError::Forbidden { .. }, "{text}");
    admin(
        &server.url(),
        "ALTER DATABASE postgres SET default_transaction_read_only = on",
    )
    .await;
    let (error, text) = refused(&server.url()).await;
    assert_matches!(error, ServerError::ReadOnly { .. }, "{text}");
}

#[tokio::test]
async fn a_schema_of_a_newer_version_is_refused() {
    let server = postgres().await;
    let database = TestDatabase::postgres(&server.url()).await;
    let Location::Server(at) = database.location().clone() else {
        panic!("a server");
    };
    database.db().close().await;
    admin(
        &at.url,
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
         VALUES (9999, 'later', TRUE, '', 0)",
    )
    .await;
    let (error, text) = refused(&at.url).await;
    assert_matches!(error, ServerError::Newer { version: 9999, .. }, "{text}");
}

#[tokio::test]
async fn instances_that_start_together_migrate_once() {
    let server = postgres().await;
    let starts = (0..4).map(|n| {
        let at = Server::new(server.url(), format!("node {n}"));
        async move { Db::connect(&at).await }
    });
    let dbs = within("all have started", futures_util::future::join_all(starts));
    for db in dbs.await.unwrap() {
        let db = db.unwrap();
        db.put(&["a"]).await.unwrap();
        assert_eq!(db.keys().await.unwrap().len(), 1, "its own row");
        db.close().await;
    }
}

#[tokio::test]
async fn a_server_that_does_not_speak_is_given_up_in_time() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let (error, text) = refused(&format!("postgres://u:s3cret@127.0.0.1:{port}/d")).await;
    assert_matches!(error, ServerError::TimedOut { .. }, "{text}");
    assert!(!text.contains("s3cret"), "{text}");
}
