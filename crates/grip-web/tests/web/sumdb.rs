//! The checksum database over HTTP: statuses, types, and what strangers ask for.

use anyhow::{Context as _, Result};

use crate::go;

#[tokio::test]
async fn the_files_of_the_log_are_those_that_go_asks_for() -> Result<()> {
    let (node, module) = go::node().await?;
    let base = "/go/sumdb/127.0.0.1";
    let supported = node.get(&format!("{base}/supported")).await?;
    assert_eq!((supported.status, supported.body.len()), (200, 0));
    // Nothing runs ahead here: a lookup logs what it is asked for.
    for (number, version) in ["v1.1.0", "v1.0.0"].into_iter().enumerate() {
        let lookup = node
            .get(&format!("{base}/lookup/{module}@{version}"))
            .await?;
        assert_eq!(lookup.must_allow_any_origin().status, 200);
        assert_eq!(lookup.header("content-type"), "text/plain; charset=utf-8");
        let text = lookup.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], number.to_string());
        assert!(
            lines[1].starts_with(&format!("{module} {version} h1:")),
            "{text}"
        );
        assert!(
            lines[2].starts_with(&format!("{module} {version}/go.mod h1:")),
            "{text}"
        );
        assert_eq!((lines[3], lines[4]), ("", "go.sum database tree"));
        assert!(
            lines
                .last()
                .context("a signature")?
                .starts_with("\u{2014} 127.0.0.1 ")
        );
    }
    let latest = node.get(&format!("{base}/latest")).await?.text();
    assert!(latest.starts_with("go.sum database tree\n2\n"), "{latest}");
    let tile = node.get(&format!("{base}/tile/8/0/000.p/2")).await?;
    assert_eq!((tile.status, tile.body.len()), (200, 64));
    assert_eq!(tile.header("content-type"), "application/octet-stream");
    let data = node
        .get(&format!("{base}/tile/8/data/000.p/2"))
        .await?
        .text();
    assert!(
        data.starts_with(&format!("0\n{module} v1.1.0 h1:")),
        "{data}"
    );
    let proof = node.get(&format!("{base}/consistency/1/2")).await?.text();
    assert_eq!(proof.lines().count(), 1, "{proof}");
    let changes = node.get("/index/changes?limit=1").await?;
    assert!(!changes.header("gripfast-log-head").is_empty());
    Ok(())
}

#[tokio::test]
async fn what_the_log_does_not_have_is_404_in_words() -> Result<()> {
    let (node, module) = go::node().await?;
    for path in [
        "127.0.0.1".to_owned(),
        "127.0.0.1/".to_owned(),
        "127.0.0.1/nothing".to_owned(),
        "other.example/supported".to_owned(),
        "127.0.0.1/tile/8/0/000".to_owned(),
        "127.0.0.1/tile/8/0/000.p/0".to_owned(),
        "127.0.0.1/tile/8/64/000".to_owned(),
        "127.0.0.1/tile/8/0/..%2f..%2fsumdb.key".to_owned(),
        "127.0.0.1/consistency/0/0".to_owned(),
        "127.0.0.1/consistency/1/18446744073709551615".to_owned(),
        "127.0.0.1/lookup/golang.org/x/net@v1.0.0".to_owned(),
        format!("127.0.0.1/lookup/{module}@v9.9.9"),
        format!("127.0.0.1/lookup/{module}@v0.0.0-20200101000000-012345678901"),
        format!("127.0.0.1/lookup/{}@v1.0.0", "x".repeat(9 << 10)),
    ] {
        let reply = node.get(&format!("/go/sumdb/{path}")).await?;
        assert_eq!(reply.must_allow_any_origin().status, 404, "{path}");
        assert!(reply.text().starts_with("not found: "), "{}", reply.text());
    }
    let latest = node.get("/go/sumdb/127.0.0.1/latest").await?.text();
    assert!(latest.starts_with("go.sum database tree\n0\n"), "{latest}");
    Ok(())
}

#[tokio::test]
async fn sums_of_what_is_not_logged_take_a_permit_for_zips() -> Result<()> {
    let (node, module) = go::node().await?;
    let lookup = |version: &str| format!("/go/sumdb/127.0.0.1/lookup/{module}@{version}");
    assert_eq!(node.get(&lookup("v1.0.0")).await?.status, 200);
    node.change(|settings| settings.limits.zip = 0);
    assert_eq!(node.get(&lookup("v1.1.0")).await?.status, 429);
    assert_eq!(
        node.get(&lookup("v1.0.0")).await?.status,
        200,
        "it is logged"
    );
    Ok(())
}
