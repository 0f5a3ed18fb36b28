//! Pages for people: values in, HTML out, everything escaped by the templates.

pub(crate) mod assets;
pub(crate) mod author;
pub(crate) mod browse;
pub(crate) mod catalog;
pub(crate) mod conversation;
pub(crate) mod explain;
pub(crate) mod github;
pub(crate) mod home;
pub(crate) mod modules;
mod pager;
pub(crate) mod purgatory;
pub(crate) mod repositories;
pub(crate) mod repository;
pub(crate) mod resolver;
pub(crate) mod status;
pub(crate) mod sync;
mod time;

use askama::Template;
use grip_nostr::{PublicKey, RepoAddr};
use grip_types::Service;
use http::StatusCode;

pub(crate) use self::time::{Now, moment, moment_ms, took, when, when_ms};
use crate::{Build, error::WebError, request_context::HttpResult, respond, settings::WebSettings};

/// The frame of every page.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    node: String,
    /// The path of the home page: `/`, or `/base/`.
    root: String,
    http: String,
    /// The prefix of the module paths of repositories here.
    modules: String,
    relay: String,
    version: String,
    /// The title of the page; empty for that of the node itself.
    page: String,
    /// One sentence for those who see a link to the page.
    description: String,
    /// The Atom feed of what the page shows.
    feed: Option<String>,
    /// Whether search engines should leave the page and its links alone.
    is_unlisted: bool,
    /// The first part of the page's path, by which its place in the navigation is known.
    section: &'static str,
    has_index: bool,
    has_watch: bool,
    has_resolver: bool,
}

/// An entry of the navigation.
struct NavigationItem {
    label: &'static str,
    href: String,
    is_current: bool,
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
            root,
            http: service.http_url(),
            modules: module_root(service),
            relay: service.relay_url(),
            version: build.full_version(),
            page: String::new(),
            description: settings.node.description.clone(),
            feed: None,
            is_unlisted: false,
            section: "",
            has_index: true,
            has_watch: true,
            has_resolver: true,
        }
    }

    /// The frame of a page below the path of `route`, on a node with these features.
    pub(crate) fn within(
        mut self,
        route: &'static str,
        [has_index, has_watch, has_resolver]: [bool; 3],
    ) -> Self {
        self.section = match route.split('/').nth(1) {
            Some(section) if section.starts_with('{') => "repositories",
            section => section.unwrap_or(""),
        };
        (self.has_index, self.has_watch, self.has_resolver) = (has_index, has_watch, has_resolver);
        self
    }

    /// The frame of a page with this title, and a sentence about it.
    pub(crate) fn about(mut self, page: impl Into<String>, description: impl Into<String>) -> Self {
        self.page = page.into();
        let description: String = description.into();
        self.description = description.chars().take(300).collect();
        self
    }

    pub(crate) fn root(&self) -> &str {
        &self.root
    }

    /// The page of a repository. One whose name ends in `.git` needs the suffix once more.
    pub(crate) fn repository(&self, addr: &RepoAddr) -> String {
        let (npub, name) = (addr.npub(), addr.identifier.encoded());
        let suffix = if name.ends_with(".git") { ".git" } else { "" };
        format!("{}{npub}/{name}{suffix}", self.root)
    }

    /// The page of somebody.
    pub(crate) fn author(&self, key: &PublicKey) -> String {
        format!("{}{}", self.root, catalog::npub(key))
    }

    fn title(&self) -> String {
        match &*self.page {
            "" => self.node.clone(),
            page => format!("{page} · {}", self.node),
        }
    }

    fn style(&self) -> String {
        assets::STYLE.href(&self.root)
    }

    fn script(&self) -> String {
        assets::SCRIPT.href(&self.root)
    }

    fn navigation(&self) -> Vec<NavigationItem> {
        let items = [
            ("Repositories", "repositories", true),
            ("Modules", "modules", self.has_index),
            ("Purgatory", "purgatory", true),
            ("Sync", "sync", true),
            ("GitHub", "github", self.has_watch),
            ("Resolver", "resolver", self.has_resolver),
            ("Status", "status", true),
        ];
        let items = items.into_iter().filter(|(_, _, is_there)| *is_there);
        let item = |(label, path, _)| NavigationItem {
            label,
            href: format!("{}{path}", self.root),
            is_current: path == self.section,
        };
        items.map(item).collect()
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
    Ok(respond::page(status, html(page)?))
}

fn html(page: &impl Template) -> Result<String, WebError> {
    page.render()
        .map_err(|e| WebError::internal("a page cannot be rendered", e))
}

/// The page for a person who met a failure.
pub(crate) fn failure(frame: Frame, error: &WebError, request: &str) -> HttpResult {
    let hints = hints(error, &frame);
    let page = Failure {
        title: title(error),
        message: error.caller(),
        hints,
        request,
        frame: Frame {
            is_unlisted: true,
            ..frame.about(title(error), error.caller())
        },
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
        StatusCode::SERVICE_UNAVAILABLE if matches!(error, WebError::TooSlow) => "Too much work",
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::METHOD_NOT_ALLOWED => {
            "Not allowed"
        }
        StatusCode::UNPROCESSABLE_ENTITY => "Not shown",
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
        error if error.is_worth_another_try() => vec!["Try again in a moment.".into()],
        _ => Vec::new(),
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
