//! G01-59 … G01-61: cross-origin requests.

use anyhow::{Context as _, Result, ensure};
use reqwest::{Method, Response, StatusCode};

use super::cases;
use crate::{Target, fixture::Fixture};

cases! {
    "G01-59" "every response carries the CORS headers" Url => every_response;
    "G01-60" "OPTIONS on any path is 204" Url => options;
    "G01-61" "browser clients may send Git-Protocol and HEAD" Url => supersets;
}

fn check(response: &Response) -> Result<()> {
    let header = |name: &str| -> Result<String> {
        let value = response
            .headers()
            .get(name)
            .with_context(|| format!("{name} is missing"))?;
        Ok(value.to_str()?.to_lowercase())
    };
    ensure!(header("access-control-allow-origin")? == "*");
    let methods = header("access-control-allow-methods")?;
    ensure!(
        methods.contains("get") && methods.contains("post"),
        "{methods}"
    );
    let headers = header("access-control-allow-headers")?;
    ensure!(headers.contains("content-type"), "{headers}");
    ensure!(
        response
            .headers()
            .get("access-control-allow-credentials")
            .is_none()
    );
    Ok(())
}

async fn every_response(target: &Target) -> Result<()> {
    let fixture = Fixture::served(target).await?;
    let repo = fixture.path();
    for path in [
        "/".to_owned(),
        "/npub1test/nonexistent.git/info/refs?service=git-upload-pack".into(),
        format!("{repo}/info/refs?service=git-upload-pack"),
        format!("{repo}/info/refs?service=git-receive-pack"),
        format!("{repo}/info/refs"),
        format!("{repo}/HEAD"),
        repo.clone(),
        "/no/such/page".into(),
        "/%zz".into(),
    ] {
        check(&target.get(&path, &[]).await?).with_context(|| path.clone())?;
    }
    check(
        &target
            .get("/", &[("Accept", "application/nostr+json")])
            .await?,
    )?;
    let (fetch, plain) = (
        format!("{repo}/git-upload-pack"),
        [("Content-Type", "text/plain")],
    );
    let wrong = target
        .request(Method::POST, &fetch, &plain, b"0000".to_vec())
        .await?;
    ensure!(
        wrong.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "{}",
        wrong.status()
    );
    check(&wrong)?;
    let put = target.request(Method::PUT, &repo, &[], vec![]).await?;
    ensure!(
        put.status() == StatusCode::METHOD_NOT_ALLOWED,
        "{}",
        put.status()
    );
    check(&put)
}

async fn options(target: &Target) -> Result<()> {
    for path in [
        "/",
        "/npub1test/test.git/git-upload-pack",
        "/npub1test/test.git/info/refs",
        "/prs/npub1test/test.git/info/refs",
        "/no/such/page",
    ] {
        let response = target.request(Method::OPTIONS, path, &[], vec![]).await?;
        ensure!(
            response.status() == StatusCode::NO_CONTENT,
            "{path}: {}",
            response.status()
        );
        check(&response).with_context(|| path.to_owned())?;
    }
    Ok(())
}

async fn supersets(target: &Target) -> Result<()> {
    let fixture = Fixture::served(target).await?;
    let path = format!("{}/info/refs?service=git-upload-pack", fixture.path());
    let response = target.request(Method::OPTIONS, &path, &[], vec![]).await?;
    let allowed = response
        .headers()
        .get("access-control-allow-headers")
        .context("headers")?;
    let allowed = allowed.to_str()?.to_lowercase();
    for name in ["git-protocol", "authorization", "content-type"] {
        ensure!(allowed.contains(name), "{name} is not allowed: {allowed}");
    }
    let head = target.request(Method::HEAD, &path, &[], vec![]).await?;
    ensure!(head.status() == StatusCode::OK);
    check(&head)?;
    ensure!(head.bytes().await?.is_empty());
    Ok(())
}
