//! Explanations as pages: why something is served, held or refused, and what to do about it.

use askama::Template;
use grip_grasp::{EventFacts, Missing, Status, UrlAttempt};
use grip_nostr::RepoAddr;
use http::StatusCode;

use super::{Frame, short_id, short_npub, time::Now};
use crate::{
    ReplicaReport,
    api::explain::explained,
    api_types::{Explained, Search},
    error::WebError,
    negotiation,
    query::decoded,
    request_context::{HttpResult, RequestContext},
};

/// Entries of each list.
const LISTED: usize = 20;

#[derive(Template)]
#[template(path = "explain.html")]
struct ExplainPage {
    frame: Frame,
    now: Now,
    title: String,
    /// As the API takes it.
    subject: String,
    status: &'static str,
    class: &'static str,
    summary: String,
    /// What its author should do next.
    advice: Option<String>,
    event: Option<EventFacts>,
    deadline: Option<super::time::Moment>,
    /// The page of the repository it is about.
    repository: Option<String>,
    chain: Vec<String>,
    /// How its maintainers came to it.
    roles: Vec<String>,
    missing: Vec<Missing>,
    more_missing: usize,
    searches: Vec<String>,
    urls: Vec<String>,
    attempts: Vec<UrlAttempt>,
    replicas: Vec<ReplicaReport>,
    waiting: Vec<EventFacts>,
    refusals: Vec<RefusalLine>,
}

struct RefusalLine {
    reason: String,
    at_ms: i64,
}

pub(crate) async fn page(cx: &RequestContext<'_>) -> HttpResult {
    let [subject, _] = cx.params();
    let explained = explained(cx, subject).await?;
    let status = match explained.explanation.status {
        Status::Unknown => StatusCode::NOT_FOUND,
        _ => StatusCode::OK,
    };
    let title = title(&decoded(subject, "the subject")?);
    let page = ExplainPage::new(cx, explained, subject, title);
    super::render(status, &page)
}

/// The answer for a repository that is not here: why not, if that is known.
pub(crate) async fn absent(cx: &RequestContext<'_>, addr: &RepoAddr) -> HttpResult {
    if !negotiation::wants_page(cx.headers()) {
        return Err(WebError::NoSuchRepository);
    }
    let subject = format!("{}/{}", addr.npub(), addr.identifier.encoded());
    let explained = explained(cx, &subject).await?;
    let page = ExplainPage::new(cx, explained, &subject, "Not found".to_owned());
    super::render(StatusCode::NOT_FOUND, &page)
}

/// A name for what is explained.
fn title(subject: &str) -> String {
    match subject.split_once('/') {
        Some((npub, identifier)) if npub.starts_with("npub1") => {
            format!("{identifier} of {}", short_npub(npub))
        }
        _ => format!("Event {}", short_id(subject)),
    }
}

impl ExplainPage {
    fn new(cx: &RequestContext<'_>, of: Explained, subject: &str, title: String) -> Self {
        let Explained {
            explanation,
            next_step,
            sync,
            replicas,
        } = of;
        let now = Now::new();
        let (status, class) = badge(explanation.status);
        let mut frame = cx.frame().about(&*title, sentence(&explanation.summary));
        frame.is_unlisted = true;
        let repository = explanation.repository.as_ref();
        let repository =
            repository.and_then(|r| RepoAddr::from_segments(&r.npub, &encoded(&r.identifier)));
        let refusals = explanation.refusals.iter().take(LISTED);
        let refusals = refusals.map(|refusal| RefusalLine {
            reason: refusal.reason.clone(),
            at_ms: i64::try_from(refusal.at.as_secs()).unwrap_or(0) * 1000,
        });
        let waiting = explanation.held.iter().chain(&explanation.wanted);
        let attempts = sync.iter().flat_map(|search| &search.tried);
        let missing: Vec<_> = explanation.missing.iter().take(LISTED).cloned().collect();
        Self {
            now,
            title,
            subject: subject.to_owned(),
            status,
            class,
            summary: sentence(&explanation.summary),
            advice: next_step,
            deadline: explanation.deadline.map(|at| super::moment_ms(&at)),
            repository: repository.map(|addr| frame.repository(&addr)),
            more_missing: explanation.missing_total.saturating_sub(missing.len()),
            missing,
            searches: sync.iter().map(|search| sentence_of(search, now)).collect(),
            urls: explanation
                .urls
                .iter()
                .take(LISTED)
                .map(|url| url.to_string())
                .collect(),
            attempts: attempts.take(LISTED).cloned().collect(),
            waiting: waiting.take(LISTED).cloned().collect(),
            replicas,
            refusals: refusals.collect(),
            roles: explanation
                .repository
                .map_or_else(Vec::new, |repository| repository.roles),
            chain: explanation.chain,
            event: explanation.event,
            frame,
        }
    }

    fn replica_note<'a>(&self, replica: &'a ReplicaReport) -> &'a str {
        replica.note.as_deref().unwrap_or_default()
    }

    fn kind_name(&self, kind: &u16) -> &'static str {
        match *kind {
            30617 => "announcement",
            30618 => "state",
            1617 => "patch",
            1618 => "pull request",
            1619 => "update of a pull request",
            1621 => "issue",
            1111 | 1622 => "comment",
            1630..=1633 => "status",
            5 => "deletion request",
            _ => "event",
        }
    }
}

fn encoded(identifier: &str) -> String {
    format!("{}.git", grip_types::percent_encode(identifier))
}

fn badge(status: Status) -> (&'static str, &'static str) {
    match status {
        Status::Served => ("served", ""),
        Status::Held => ("held", "held"),
        Status::Wanted => ("expired, still looked for", "held"),
        Status::Awaited => ("awaited", "held"),
        Status::Refused => ("refused", "held"),
        Status::Kept => ("kept", "held"),
        Status::Unknown => ("not here", "held"),
    }
}

fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string());
    let text = format!("{}{}", first.unwrap_or_default(), chars.as_str());
    if text.ends_with(['.', '!', '?']) {
        text
    } else {
        format!("{text}.")
    }
}

fn sentence_of(search: &Search, now: Now) -> String {
    let attempts = match search.attempts {
        0 => "no attempt has failed".to_owned(),
        1 => "1 attempt has failed".to_owned(),
        n => format!("{n} attempts have failed"),
    };
    let next = match search.next_attempt {
        _ if search.in_progress => "it is being fetched now".to_owned(),
        Some(at) => format!("the next attempt is {}", now.distance(&at)),
        None => "no further attempt is planned".to_owned(),
    };
    format!("Data of {}: {attempts}, {next}.", search.identifier)
}
