//! G01-23 … G01-25: the relay information document.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::cases;
use crate::{Target, target::header};

cases! {
    "G01-23" "NIP-11 names the supported grasps and the acceptance criteria" Url => grasps;
    "G01-24" "NIP-11 lists what is true and that writes are restricted" Url => truth;
    "G01-25" "the document has CORS headers and browsers get a page" Url => cors_and_page;
}

async fn document(target: &Target) -> Result<Value> {
    let accept = [("Accept", "text/html;q=0.1, application/nostr+json")];
    let response = target.get("/", &accept).await?;
    let kind = header(&response, "content-type");
    ensure!(kind.starts_with("application/nostr+json"), "{kind}");
    Ok(response.json().await?)
}

async fn grasps(target: &Target) -> Result<()> {
    let document = document(target).await?;
    let grasps = document["supported_grasps"].as_array();
    let grasps = grasps.context("supported_grasps")?;
    for grasp in grasps {
        let number = grasp.as_str().and_then(|g| g.strip_prefix("GRASP-"));
        let number = number.context("form")?.as_bytes();
        let is_number = number.len() == 2 && number.iter().all(u8::is_ascii_digit);
        ensure!(is_number, "{grasp}");
    }
    ensure!(grasps.iter().any(|grasp| grasp == "GRASP-01"));
    let criteria = document["repo_acceptance_criteria"].as_str();
    ensure!(!criteria.context("criteria")?.is_empty());
    ensure!(
        document
            .get("curation")
            .is_none_or(|c| c.as_str().is_some_and(|c| !c.is_empty()))
    );
    Ok(())
}

async fn truth(target: &Target) -> Result<()> {
    let document = document(target).await?;
    let nips = document["supported_nips"].as_array();
    let nips = nips.context("supported_nips")?;
    for nip in [1, 9, 11, 34, 77] {
        ensure!(nips.iter().any(|n| n == nip), "NIP-{nip} is missing");
    }
    let limits = &document["limitation"];
    ensure!(limits["restricted_writes"] == true);
    // A limit that is stated is a limit that holds.
    let longest = limits["max_subid_length"].as_u64();
    let mut relay = target.connect().await?;
    let fits = "s".repeat(usize::try_from(longest.context("max_subid_length")?)?);
    relay.send(json!(["REQ", fits, {"limit": 0}])).await?;
    let is_end = |m: &Value| m[0] == "EOSE" && m[1] == fits.as_str();
    relay.expect("EOSE", is_end).await?;
    let long = format!("{fits}s");
    relay.send(json!(["REQ", long, {"limit": 0}])).await?;
    let is_refusal = |m: &Value| m[0] == "CLOSED" || m[0] == "NOTICE";
    relay.expect("CLOSED or NOTICE", is_refusal).await?;
    let default = limits["default_limit"].as_u64();
    let most = limits["max_limit"].as_u64();
    ensure!(
        default <= most,
        "default_limit {default:?} above max_limit {most:?}"
    );
    Ok(())
}

async fn cors_and_page(target: &Target) -> Result<()> {
    let accept = [("Accept", "application/nostr+json")];
    let response = target.get("/", &accept).await?;
    ensure!(header(&response, "access-control-allow-origin") == "*");
    let page = target.get("/", &[("Accept", "text/html")]).await?;
    ensure!(page.status().is_success());
    let kind = header(&page, "content-type");
    ensure!(kind.starts_with("text/html"), "{kind}");
    ensure!(page.text().await?.to_lowercase().contains("<html"));
    Ok(())
}
