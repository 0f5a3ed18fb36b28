//! The certificate is for localhost, valid for a hundred years, and of nobody who signs others.

use grip_testkit::assert_matches;
use tempfile::TempDir;

use super::*;

const CERTIFICATE: &str = include_str!("tls/server.crt");
const KEY: &str = include_str!("tls/server.key");

/// Writes a file into the directory of the server, as its owner.
async fn write_file(url: &str, name: &str, text: &str) {
    let lines = text.lines().map(|line| format!("('{line}')"));
    let lines = lines.collect::<Vec<_>>().join(", ");
    let copy = format!("COPY (VALUES {lines}) TO PROGRAM 'umask 077; cat > {name}'");
    admin(url, copy).await;
}

#[tokio::test]
async fn a_server_is_spoken_to_by_tls_and_its_certificate_is_checked() {
    let server = postgres().await;
    let plain = server.url();
    let (error, text) = refused(&format!("{plain}?sslmode=require")).await;
    assert_matches!(error, ServerError::Tls { .. }, "{text}");

    write_file(&plain, "server.crt", CERTIFICATE).await;
    write_file(&plain, "server.key", KEY).await;
    admin(&plain, "ALTER SYSTEM SET ssl = on").await;
    admin(&plain, "SELECT pg_reload_conf()").await;
    let there = TempDir::new().unwrap();
    let root = there.path().join("root.crt");
    std::fs::write(&root, CERTIFICATE).unwrap();
    let known = format!("{plain}?sslmode=verify-full&sslrootcert={}", root.display());
    let db = grip_testkit::until("the server speaks TLS", || async {
        Db::connect(&Server::new(known.clone(), "a")).await.ok()
    });
    let db = db.await.unwrap();
    db.put(&["a"]).await.unwrap();

    let (error, text) = refused(&format!("{plain}?sslmode=verify-full")).await;
    assert_matches!(error, ServerError::Tls { .. }, "{text}");
    assert!(text.contains("sslrootcert"), "{text}");
}
