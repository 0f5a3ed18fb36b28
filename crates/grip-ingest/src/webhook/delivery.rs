//! Parsing of webhook deliveries. Pure: nothing is stored, and no clock is read.

use bytes::Bytes;
use serde::Deserialize;

use crate::accept::Arrival;

/// Longest body; GitHub sends none that is longer.
pub const MAX_BODY: usize = 25 << 20;
/// Longest id of a delivery and longest name of an event.
const MAX_WORD: usize = 64;

/// A delivery as it came: the headers that matter, and the body byte by byte.
#[derive(Clone, Debug, Default)]
pub struct Delivery {
    /// `X-GitHub-Event`
    pub event: Option<String>,
    /// `X-GitHub-Delivery`
    pub id: Option<String>,
    /// `X-Hub-Signature-256`
    pub signature: Option<Vec<u8>>,
    /// `Content-Type`; JSON where there is none.
    pub content_type: Option<String>,
    pub body: Bytes,
}

/// What a delivery is about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum About {
    /// GitHub tries whether somebody is there.
    Ping {
        zen: String,
    },
    Push(Arrival),
    /// Anything else, by one of the names of GitHub's documentation or `unknown`.
    Other(&'static str),
}

/// Why a delivery cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadDelivery {
    #[error("the body is longer than {MAX_BODY} bytes")]
    TooBig,
    #[error("the header {0} is missing, or is no word of letters, digits, dashes and underscores")]
    Header(&'static str),
    #[error("a form must have one field named payload")]
    Form,
}

/// What is always there, once the delivery can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// GitHub's id of the delivery.
    pub id: String,
    pub about: About,
}

/// Says what a delivery is about. Whether it is GitHub's at all is another question.
pub fn parse(delivery: &Delivery) -> Result<Parsed, BadDelivery> {
    if delivery.body.len() > MAX_BODY {
        return Err(BadDelivery::TooBig);
    }
    let event = word(delivery.event.as_deref(), "X-GitHub-Event")?;
    let id = word(delivery.id.as_deref(), "X-GitHub-Delivery")?.to_owned();
    let body = payload(delivery)?;
    let about = match event {
        "ping" => About::Ping { zen: zen(&body) },
        "push" => About::Push(Arrival::Delivery {
            id: id.clone(),
            body,
        }),
        other => {
            let known = EVENTS.split(' ').find(|known| *known == other);
            About::Other(known.unwrap_or("unknown"))
        }
    };
    Ok(Parsed { id, about })
}

fn word<'a>(text: Option<&'a str>, header: &'static str) -> Result<&'a str, BadDelivery> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_word = |text: &&str| (1..=MAX_WORD).contains(&text.len()) && text.bytes().all(is_plain);
    text.filter(is_word).ok_or(BadDelivery::Header(header))
}

/// The JSON: the body itself, or a field of the form that it is.
fn payload(delivery: &Delivery) -> Result<Bytes, BadDelivery> {
    let kind = delivery.content_type.as_deref().unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Ok(delivery.body.clone());
    }
    let mut fields = url::form_urlencoded::parse(&delivery.body);
    match (fields.find(|(name, _)| name == "payload"), fields.next()) {
        (Some((_, json)), None) => Ok(json.into_owned().into_bytes().into()),
        _ => Err(BadDelivery::Form),
    }
}

/// A proverb that GitHub greets with.
fn zen(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Ping {
        zen: String,
    }
    let ping = serde_json::from_slice::<Ping>(body).map(|ping| ping.zen);
    let zen = ping.unwrap_or_default();
    zen.chars().filter(|c| !c.is_control()).take(200).collect()
}

/// The events that GitHub names, without those that have a way of their own.
const EVENTS: &str = "branch_protection_configuration branch_protection_rule cache_sync check_run check_suite \
    code_scanning_alert commit_comment content_reference create custom_property \
    custom_property_values delete dependabot_alert deploy_key deployment \
    deployment_protection_rule deployment_review deployment_status discussion discussion_comment \
    enterprise fork github_app_authorization gollum installation installation_repositories \
    installation_target issue_comment issue_dependencies issues label marketplace_purchase member \
    membership merge_group meta milestone org_block organization package page_build \
    personal_access_token_request project project_card project_column projects_v2 projects_v2_item \
    projects_v2_status_update public pull_request pull_request_review pull_request_review_comment \
    pull_request_review_thread registry_package release repository repository_advisory \
    repository_dispatch repository_import repository_ruleset repository_vulnerability_alert \
    secret_scanning_alert secret_scanning_alert_location secret_scanning_scan security_advisory \
    security_and_analysis sponsorship star status sub_issues team team_add user watch \
    workflow_dispatch workflow_job workflow_run";
