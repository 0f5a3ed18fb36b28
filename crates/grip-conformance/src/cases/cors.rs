//! G01-59 … G01-61: cross-origin requests.

use anyhow::{Context as _, Result, ensure};
use reqwest::{Method, Response, StatusCode};

use super::cases;
use crate::{Target, fixture::Fixture, target::header};

cases! {
    "G01-59" "every response carries the CORS headers" Url => every_response;
    "G01-60" "OPTIONS on any path is 204" Url => options;
    "G01-61" "browser clients may send Git-Protocol and HEAD" Url => supersets;
}

fn check(response: &Response) -> Result<()> {
    ensure!(header(response, "access-control-allow-origin") == "*");
    let methods = header(response, "access-control-allow-methods");
    let are_allowed = methods.contains("get") && methods.contains("post");
    ensure!(are_allowed, "{methods}");
    let headers = header(response, "access-control-allow-headers");
    ensure!(headers.contains("content-type"), "{headers}");
    let credentials = response.headers().get("access-control-allow-credentials");
    ensure!(credentials.is_none(), "{credentials:?}");
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
    let document = [("Accept", "application/nostr+json")];
    check(&target.get("/", &document).await?)?;
    let (fetch, plain) = (
        format!("{repo}/git-upload-pack"),
        [("Content-Type", "text/plain")],
    );
    for (method, path, headers, status) in [
        (
            Method::POST,
            &fetch,
            &plain[..],
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ),
        (Method::PUT, &repo, &[], StatusCode::METHOD_NOT_ALLOWED),
    ] {
        let response = target
            .request(method, path, headers, b"0000".to_vec())
            .await?;
        ensure!(response.status() == status, "{}", response.status());
        check(&response)?;
    }
    Ok(())
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
        let status = response.status();
        ensure!(status == StatusCode::NO_CONTENT, "{path}: {status}");
        check(&response).with_context(|| path.to_owned())?;
    }
    Ok(())
}

async fn supersets(target: &Target) -> Result<()> {
    let fixture = Fixture::served(target).await?;
    let path = format!("{}/info/refs?service=git-upload-pack", fixture.path());
    let response = target.request(Method::OPTIONS, &path, &[], vec![]).await?;
    let allowed = header(&response, "access-control-allow-headers");
    for name in ["git-protocol", "authorization", "content-type"] {
        ensure!(allowed.contains(name), "{name} is not allowed: {allowed}");
    }
    let head = target.request(Method::HEAD, &path, &[], vec![]).await?;
    ensure!(head.status() == StatusCode::OK);
    check(&head)?;
    ensure!(head.bytes().await?.is_empty());
    Ok(())
}
