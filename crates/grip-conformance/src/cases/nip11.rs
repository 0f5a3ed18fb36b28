//! G01-23 … G01-25: the relay information document.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::cases;
use crate::Target;

cases! {
    "G01-23" "NIP-11 names the supported grasps and the acceptance criteria" Url => grasps;
    "G01-24" "NIP-11 lists what is true and that writes are restricted" Url => truth;
    "G01-25" "the document has CORS headers and browsers get a page" Url => cors_and_page;
}

async fn document(target: &Target) -> Result<Value> {
    let response = target
        .get(
            "/",
            &[("Accept", "text/html;q=0.1, application/nostr+json")],
        )
        .await?;
    let kind = response
        .headers()
        .get("content-type")
        .context("no content type")?
        .to_str()?;
    ensure!(kind.starts_with("application/nostr+json"), "{kind}");
    Ok(response.json().await?)
}

async fn grasps(target: &Target) -> Result<()> {
    let document = document(target).await?;
    let grasps = document["supported_grasps"]
        .as_array()
        .context("supported_grasps")?;
    for grasp in grasps {
        let number = grasp
            .as_str()
            .and_then(|g| g.strip_prefix("GRASP-"))
            .context("form")?;
        ensure!(
            number.len() == 2 && number.bytes().all(|b| b.is_ascii_digit()),
            "{grasp}"
        );
    }
    ensure!(grasps.iter().any(|grasp| grasp == "GRASP-01"));
    let criteria = document["repo_acceptance_criteria"]
        .as_str()
        .context("criteria")?;
    ensure!(!criteria.is_empty());
    ensure!(
        document
            .get("curation")
            .is_none_or(|c| c.as_str().is_some_and(|c| !c.is_empty()))
    );
    Ok(())
}

async fn truth(target: &Target) -> Result<()> {
    let document = document(target).await?;
    let nips = document["supported_nips"]
        .as_array()
        .context("supported_nips")?;
    for nip in [1, 9, 11, 34, 77] {
        ensure!(nips.iter().any(|n| n == nip), "NIP-{nip} is missing");
    }
    let limits = &document["limitation"];
    ensure!(limits["restricted_writes"] == true);
    // A limit that is stated is a limit that holds.
    let longest = limits["max_subid_length"]
        .as_u64()
        .context("max_subid_length")?;
    let mut relay = target.connect().await?;
    let fits = "s".repeat(usize::try_from(longest)?);
    relay
        .send(serde_json::json!(["REQ", fits, {"limit": 0}]))
        .await?;
    relay
        .expect("EOSE", |m| m[0] == "EOSE" && m[1] == fits.as_str())
        .await?;
    let long = format!("{fits}s");
    relay
        .send(serde_json::json!(["REQ", long, {"limit": 0}]))
        .await?;
    relay
        .expect("CLOSED or NOTICE", |m| m[0] == "CLOSED" || m[0] == "NOTICE")
        .await?;
    let default = limits["default_limit"].as_u64();
    let most = limits["max_limit"].as_u64();
    ensure!(
        default <= most,
        "default_limit {default:?} above max_limit {most:?}"
    );
    Ok(())
}

async fn cors_and_page(target: &Target) -> Result<()> {
    let response = target
        .get("/", &[("Accept", "application/nostr+json")])
        .await?;
    ensure!(
        response
            .headers()
            .get("access-control-allow-origin")
            .is_some_and(|v| v == "*")
    );
    let page = target.get("/", &[("Accept", "text/html")]).await?;
    ensure!(page.status().is_success());
    let kind = page
        .headers()
        .get("content-type")
        .context("no content type")?
        .to_str()?
        .to_owned();
    ensure!(kind.starts_with("text/html"), "{kind}");
    ensure!(page.text().await?.to_lowercase().contains("<html"));
    Ok(())
}
