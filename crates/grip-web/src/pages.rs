//! Pages for people: values in, HTML out, everything escaped by the templates.

pub(crate) mod github;
pub(crate) mod home;
pub(crate) mod modules;
pub(crate) mod purgatory;
pub(crate) mod recent_repositories;
pub(crate) mod repository;
pub(crate) mod resolver;
pub(crate) mod sync;

use askama::Template;
use grip_types::Service;
use http::StatusCode;

use crate::{
    Build, error::WebError, metrics::unix_now_ms, request_context::HttpResult, respond,
    settings::WebSettings,
};

/// The frame of every page.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    node: String,
    domain: String,
    /// The path of the home page: `/`, or `/base/`.
    root: String,
    http: String,
    /// The prefix of the module paths of repositories here.
    modules: String,
    relay: String,
    version: String,
}

impl Frame {
    pub(crate) fn new(settings: &WebSettings, build: &Build) -> Self {
        let service = &settings.service;
        let root = match service.base() {
            "" => "/".to_owned(),
            base => format!("/{base}/"),
        };
        Self {
            node: settings.node.name.clone(),
            domain: service.authority(),
            root,
            http: service.http_url(),
            modules: module_root(service),
            relay: service.relay_url(),
            version: build.full_version(),
        }
    }

    pub(crate) fn root(&self) -> &str {
        &self.root
    }

    /// Whether a module path may begin with our name: Go wants a dot in it.
    fn is_go_name(&self) -> bool {
        let host = self.modules.split('/').next();
        host.is_some_and(|host| host.contains('.'))
    }

    /// The owner and identifier of the repository here that a module path leads to.
    pub(crate) fn repository_of<'a>(&self, path: &'a str) -> Option<(&'a str, &'a str)> {
        let below = path.strip_prefix(&self.modules)?.strip_prefix('/')?;
        let mut elements = below.split('/');
        let npub = elements.next().filter(|npub| npub.starts_with("npub1"))?;
        Some((npub, elements.next()?))
    }
}

/// Host and base path without the port: Go allows no colon in a module path.
fn module_root(service: &Service) -> String {
    let url = service.http_url();
    let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
    let (authority, base) = match rest.split_once('/') {
        Some((authority, base)) => (authority, format!("/{base}")),
        None => (rest, String::new()),
    };
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => authority,
    };
    format!("{host}{base}")
}

pub(crate) struct CounterView {
    pub(crate) label: &'static str,
    pub(crate) value: String,
}

/// The figures at the top of a page.
pub(crate) fn counters<const N: usize>(counts: [(&'static str, u64); N]) -> Vec<CounterView> {
    let view = |(label, count)| CounterView {
        label,
        value: grouped(count),
    };
    counts.into_iter().map(view).collect()
}

pub(crate) struct Notice {
    pub(crate) title: &'static str,
    pub(crate) why: String,
    pub(crate) missing: Vec<String>,
    pub(crate) until: Option<String>,
}

impl Notice {
    fn new(title: &'static str, why: impl Into<String>) -> Self {
        Self {
            title,
            why: why.into(),
            missing: Vec::new(),
            until: None,
        }
    }
}

#[derive(Template)]
#[template(path = "failure.html")]
struct Failure<'a> {
    frame: Frame,
    title: &'a str,
    message: String,
    hints: Vec<String>,
    request: &'a str,
}

/// Renders a page.
pub(crate) fn render(status: StatusCode, page: &impl Template) -> HttpResult {
    let html = page
        .render()
        .map_err(|e| WebError::internal("a page cannot be rendered", e))?;
    Ok(respond::page(status, html))
}

/// The page for a person who met a failure.
pub(crate) fn failure(frame: Frame, error: &WebError, request: &str) -> HttpResult {
    let hints = hints(error, &frame);
    let page = Failure {
        title: title(error),
        message: error.caller(),
        hints,
        request,
        frame,
    };
    let mut response = render(error.status(), &page)?;
    error.add_headers(&mut response);
    Ok(response)
}

fn title(error: &WebError) -> &'static str {
    match error.status() {
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::TOO_MANY_REQUESTS => "Busy",
        StatusCode::SERVICE_UNAVAILABLE if matches!(error, WebError::Draining) => "Shutting down",
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::METHOD_NOT_ALLOWED => {
            "Not allowed"
        }
        _ => "That did not work",
    }
}

fn hints(error: &WebError, frame: &Frame) -> Vec<String> {
    let repository = format!("A repository is at {}/<npub>/<identifier>.git", frame.http);
    match error {
        WebError::NoSuchRepository => vec![
            "Check the npub and the spelling: identifiers are case-sensitive.".into(),
            "A repository appears when its announcement arrives, and goes again if nothing is \
             pushed within 30 minutes."
                .into(),
        ],
        WebError::BadRepositoryPath | WebError::NoSuchPage => {
            vec![repository, format!("The relay is at {}", frame.relay)]
        }
        WebError::NoToken | WebError::WrongToken | WebError::NotLocal => {
            vec!["`gripfast sync` and `gripfast purgatory` on its machine do it for you.".into()]
        }
        _ => vec!["Try again in a moment.".into()],
    }
}

/// `npub1abcd…wxyz`, for places where the whole key would push everything else aside.
pub(crate) fn short_npub(npub: &str) -> String {
    match (npub.get(..12), npub.get(npub.len().saturating_sub(6)..)) {
        (Some(head), Some(tail)) if npub.len() > 24 => format!("{head}…{tail}"),
        _ => npub.to_owned(),
    }
}

/// The first digits of an event id.
pub(crate) fn short_id(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

/// A time for people, in UTC.
pub(crate) fn when(unix_seconds: u64) -> String {
    i64::try_from(unix_seconds)
        .ok()
        .and_then(|s| jiff::Timestamp::from_second(s).ok())
        .map_or_else(
            || "at an impossible time".to_owned(),
            |t| t.strftime("%Y-%m-%d %H:%M UTC").to_string(),
        )
}

/// The same for milliseconds, as deadlines are kept.
pub(crate) fn when_ms(unix_ms: i64) -> String {
    when(u64::try_from(unix_ms / 1000).unwrap_or(0))
}

/// The moment that a page is made.
#[derive(Clone, Copy)]
pub(crate) struct Now(i64);

impl Now {
    pub(crate) fn new() -> Self {
        Self(unix_now_ms())
    }

    /// How far `unix_ms` is from this moment.
    pub(crate) fn distance(self, unix_ms: &i64) -> String {
        distance(*unix_ms, self.0)
    }

    fn is_before(self, unix_ms: i64) -> bool {
        unix_ms > self.0
    }
}

/// How far a moment is from now, in the largest unit that says enough: `in 29 min`, `3 s ago`.
pub(crate) fn distance(unix_ms: i64, now_ms: i64) -> String {
    let ahead = unix_ms.saturating_sub(now_ms);
    match span(ahead.unsigned_abs()) {
        None => "now".to_owned(),
        Some(span) if ahead > 0 => format!("in {span}"),
        Some(span) => format!("{span} ago"),
    }
}

fn span(ms: u64) -> Option<String> {
    let seconds = ms / 1000;
    Some(match seconds {
        0 => return None,
        1..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    })
}

/// `840 ms`, or a span.
pub(crate) fn took(ms: &u64) -> String {
    match *ms {
        ms @ 0..1000 => format!("{ms} ms"),
        ms @ 1000..10_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        ms => span(ms).unwrap_or_default(),
    }
}

/// `1 push`, `48,210 pushes`.
pub(crate) fn count(count: u64, one: &str, many: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        count => format!("{} {many}", grouped(count)),
    }
}

/// A figure of the database, which knows signed ones alone.
pub(crate) fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// `48210` as `48,210`.
pub(crate) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests;
