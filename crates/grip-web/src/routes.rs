//! The table of routes: from it come matching, methods, limits, metric labels and docs/routes.md.
//!
//! A path is matched segment by segment as it is written: `{name}` is one segment, `{name...}` all
//! that is left, both still percent-encoded. Doubled and trailing slashes do not count (G01-3).
//! Nothing here looks anything up.

use Class::{Api, Archive, Blame, Diff, Feed, Grep, History, Page, Raw, Resolve};
use Limit::{Answer, Bulk, ByHandler, Metered, Probe};
use futures_util::future::BoxFuture;
use grip_nostr::RepoAddr;
use grip_resolve::Action;
use grip_types::CONTRIBUTORS;
use http::Method;
use hyper::body::Incoming;

use crate::{
    admin::Admin,
    api,
    error::WebError,
    git, go, index_feed,
    limits::Class,
    live,
    pages::{self, browse},
    probes,
    request_context::{HttpResult, RequestContext},
    resolve, sumdb, webhook, websocket,
};

/// One row of the table.
pub(crate) struct Route {
    pub(crate) path: &'static str,
    /// As the `Allow` header says them; empty where any may come.
    methods: &'static str,
    /// Its name in logs and metrics: a bounded set, never the path.
    pub(crate) label: &'static str,
    pub(crate) limit: Limit,
    pub(crate) failures: Failures,
    pub(crate) reader: Reader,
    pub(crate) handler: Handler,
}

/// Who reaches a route of a private service (GRASP-08); on a public one everybody does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// Who shows a proof: what a row says nothing else about.
    Member,
    /// Everybody: it tells nothing of what is here.
    Anybody,
    /// Who signs the request for its handler; whatever that refuses is refused as by the gate.
    Signed,
}

/// What bounds the work of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// Answered however loaded the node is.
    Probe,
    /// As a probe, within the rate of its client: the answer costs something.
    Metered,
    /// Rates alone; the handler takes its permit, because its refusal has a form of its own.
    ByHandler,
    /// A permit of the class, for the time of an answer.
    Answer(Class),
    /// A permit of the class, for minutes.
    Bulk(Class),
}

/// The form of an error response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failures {
    /// A page, JSON or text, by `Accept`.
    Negotiated,
    /// A page for browsers, else JSON.
    Json,
    /// JSON or text, by `Accept`: git reads it.
    Git,
}

type Future<'a> = BoxFuture<'a, HttpResult>;

#[derive(Clone, Copy)]
pub(crate) enum Handler {
    /// Waits for nothing.
    Immediate(fn(&RequestContext<'_>) -> HttpResult),
    Read(for<'a> fn(&'a RequestContext<'a>) -> Future<'a>),
    /// Reads the body of the request.
    Upload(for<'a> fn(&'a RequestContext<'a>, Incoming) -> Future<'a>),
    /// Is for the operator alone.
    Operator(for<'a> fn(&'a RequestContext<'a>, Admin) -> Future<'a>),
    /// Is for the operator alone, and reads the body of the request.
    OperatorUpload(for<'a> fn(&'a RequestContext<'a>, Admin, Incoming) -> Future<'a>),
}

impl Handler {
    pub(crate) fn is_for_operator(self) -> bool {
        matches!(self, Self::Operator(_) | Self::OperatorUpload(_))
    }
}

macro_rules! read {
    ($handler:path) => {
        Handler::Read(|cx| Box::pin($handler(cx)))
    };
}
macro_rules! upload {
    ($handler:path $(, $argument:expr)?) => {
        Handler::Upload(|cx, body| Box::pin($handler(cx, body $(, $argument)?)))
    };
}
macro_rules! operator {
    ($handler:path) => {
        Handler::Operator(|cx, admin| Box::pin($handler(cx, admin)))
    };
}

macro_rules! operator_upload {
    ($handler:path) => {
        Handler::OperatorUpload(|cx, admin, body| Box::pin($handler(cx, admin, body)))
    };
}

const GET: &str = "GET, HEAD, OPTIONS";
const POST: &str = "POST, OPTIONS";
const DELETE: &str = "DELETE, OPTIONS";
const GET_OR_DELETE: &str = "GET, HEAD, DELETE, OPTIONS";
const ANY: &str = "";

/// What the paths of a repository begin with.
const REPOSITORY: &str = "/{npub}/{identifier}.git";
/// What the paths of a contributor repository begin with: it has no page (G06-3).
const CONTRIBUTOR: &str = "/prs/{npub}/{identifier}.git";
/// The path of an owner.
const OWNER: &str = "/{npub}";

// A table: one row a line. The first that matches counts, so the busy ones stand at the top.
#[rustfmt::skip]
static ROUTES: &[Route] = &[
    git("/{npub}/{identifier}.git/info/refs", GET, "info-refs", read!(git::info_refs)),
    git("/{npub}/{identifier}.git/git-upload-pack", POST, "upload-pack", upload!(git::upload_pack)),
    git("/{npub}/{identifier}.git/git-receive-pack", POST, "receive-pack", upload!(git::receive_pack)),
    git("/{npub}/{identifier}.git/HEAD", GET, "dumb", Handler::Immediate(git::dumb_http)),
    git("/{npub}/{identifier}.git/objects/{path...}", GET, "dumb", Handler::Immediate(git::dumb_http)),
    git("/{npub}/{identifier}.git/info/{file}", GET, "dumb", Handler::Immediate(git::dumb_http)),
    get("/{npub}/{identifier}.git", "repository", Answer(Page), read!(pages::repository::page)),
    get("/{npub}/{identifier}.git/tree/{path...}", "browse", Answer(Page), read!(browse::files::page)),
    get("/{npub}/{identifier}.git/blob/{path...}", "browse", Answer(Page), read!(browse::files::page)),
    get("/{npub}/{identifier}.git/raw/{path...}", "browse-raw", Answer(Raw), read!(browse::raw::file)),
    get("/{npub}/{identifier}.git/log", "browse", Answer(Page), read!(browse::log::page)),
    get("/{npub}/{identifier}.git/log/{path...}", "browse", Answer(Page), read!(browse::log::page)),
    get("/{npub}/{identifier}.git/history/{path...}", "browse-history", Answer(History), read!(browse::log::of_path)),
    get("/{npub}/{identifier}.git/commit/{oid}", "browse-diff", Answer(Diff), read!(browse::commit::page)),
    get("/{npub}/{identifier}.git/compare", "browse", ByHandler, Handler::Immediate(browse::compare::redirect)),
    get("/{npub}/{identifier}.git/compare/{path...}", "browse-diff", Answer(Diff), read!(browse::compare::page)),
    get("/{npub}/{identifier}.git/refs", "browse", Answer(Page), read!(browse::refs::page)),
    get("/{npub}/{identifier}.git/moves", "browse", Answer(Page), read!(browse::moves::page)),
    get("/{npub}/{identifier}.git/go", "browse", ByHandler, Handler::Immediate(browse::refs::go)),
    get("/{npub}/{identifier}.git/blame/{path...}", "browse-blame", Answer(Blame), read!(browse::blame::page)),
    get("/{npub}/{identifier}.git/grep/{path...}", "browse-grep", Answer(Grep), read!(browse::grep::page)),
    get("/{npub}/{identifier}.git/archive/{path...}", "browse-archive", Bulk(Archive), read!(browse::archive::file)),
    get("/{npub}/{identifier}.git/log.atom", "browse", Answer(Page), read!(browse::feed::commits)),
    get("/{npub}/{identifier}.git/tags.atom", "browse", Answer(Page), read!(browse::feed::tags)),
    get("/{npub}/{identifier}.git/issues", "browse", Answer(Page), read!(pages::conversation::issues)),
    get("/{npub}/{identifier}.git/proposals", "browse", Answer(Page), read!(pages::conversation::proposals)),
    get("/{npub}/{identifier}.git/topic/{event}", "browse", Answer(Page), read!(pages::conversation::topic)),
    git("/prs/{npub}/{identifier}.git/info/refs", GET, "prs-info-refs", read!(git::info_refs)),
    git("/prs/{npub}/{identifier}.git/git-upload-pack", POST, "prs-upload-pack", upload!(git::upload_pack)),
    git("/prs/{npub}/{identifier}.git/git-receive-pack", POST, "prs-receive-pack", upload!(git::receive_pack)),
    get("/{npub}", "author", Answer(Page), read!(pages::author::page)),

    any("/", "root", read!(websocket::root)).public(),
    get("/healthz", "healthz", Probe, Handler::Immediate(probes::health)).public(),
    get("/readyz", "readyz", Probe, Handler::Immediate(probes::ready)).public(),
    get("/version", "version", Probe, Handler::Immediate(probes::version)),
    get("/metrics", "metrics", Metered, read!(probes::metrics)),
    get("/robots.txt", "robots", Probe, Handler::Immediate(probes::robots)),
    get("/.well-known/nostr.json", "nip05", ByHandler, Handler::Immediate(probes::nip05)).public(),
    get("/style.css", "asset", ByHandler, Handler::Immediate(pages::assets::style)).public(),
    get("/script.js", "asset", ByHandler, Handler::Immediate(pages::assets::script)).public(),
    get("/icon.svg", "icon", ByHandler, Handler::Immediate(probes::icon)).public(),
    get("/icon.png", "icon", ByHandler, Handler::Immediate(probes::icon)).public(),
    get("/favicon.ico", "icon", ByHandler, Handler::Immediate(probes::icon)).public(),

    get("/resolve/{key...}", "resolve", Answer(Resolve), read!(resolve::manifest)).json(),
    get("/providers/{key...}", "providers", Answer(Resolve), read!(resolve::providers)).json(),
    post("/admin/pin", "resolve-api", ByHandler, upload!(resolve::order, Action::Pin)).json().signed(),
    post("/admin/unpin", "resolve-api", ByHandler, upload!(resolve::order, Action::Unpin)).json().signed(),
    post("/admin/reindex", "resolve-api", ByHandler, upload!(resolve::order, Action::Reindex)).json().signed(),
    get("/api/v1/resolve", "resolve-api", Answer(Api), read!(api::resolve::status)).json(),

    get("/index", "index", Answer(Feed), read!(index_feed::versions)),
    get("/index/changes", "index-changes", Answer(Feed), read!(index_feed::changes)),
    get("/go/sumdb/{path...}", "sumdb", ByHandler, read!(sumdb::answer)),
    get("/go/{path...}", "go", ByHandler, read!(go::proxy)),

    get("/repositories", "page", Answer(Page), read!(pages::repositories::page)),
    get("/live/{part}", "live", ByHandler, Handler::Immediate(live::events)),
    get("/status", "page", Answer(Page), read!(pages::status::page)),
    get("/explain/{subject...}", "page", Answer(Page), read!(pages::explain::page)),
    get("/sync", "page", Answer(Page), Handler::Immediate(pages::sync::page)),
    get("/purgatory", "page", Answer(Page), read!(pages::purgatory::page)),
    get("/modules", "page", Answer(Page), read!(pages::modules::page)),
    get("/github", "page", Answer(Page), read!(pages::github::page)),
    get("/resolver", "page", Answer(Page), read!(pages::resolver::page)),

    get("/api/v1/openapi.json", "openapi", ByHandler, Handler::Immediate(api::openapi::show)),
    get("/api/v1/status", "status", Answer(Api), read!(api::status::status)),
    row("/api/v1/config", GET, "config", Answer(Api), operator!(api::config::show)),
    get("/api/v1/explain/{subject...}", "explain", Answer(Api), read!(api::explain::explain)),
    post("/api/v1/check", "check", Bulk(Api), operator!(api::check::run)),
    post("/api/v1/check/restore", "check", ByHandler, operator_upload!(api::check::restore)),
    get("/api/v1/archive/{npub}/{identifier}/log", "archive", Answer(Api), read!(api::archive::log)),
    post("/api/v1/backup", "backup", Bulk(Api), operator!(api::backup::begin)),
    post("/api/v1/backup/end", "backup", Bulk(Api), operator!(api::backup::end)),
    get("/api/v1/tasks", "tasks", Answer(Api), Handler::Immediate(api::tasks::list)),
    get("/api/v1/sync", "sync", Answer(Api), Handler::Immediate(api::sync::status)),
    post("/api/v1/sync/{identifier}/now", "sync", Answer(Api), operator!(api::sync::now)),
    get("/api/v1/purgatory", "purgatory", Answer(Api), read!(api::purgatory::list)),
    delete("/api/v1/purgatory/{event}", "purgatory", Answer(Api), operator!(api::purgatory::forget)),
    post("/api/v1/purgatory/{event}/retry", "purgatory", Answer(Api), operator!(api::purgatory::retry)),
    post("/api/v1/events/remove", "events", Bulk(Api), operator!(api::repos::remove)),
    post("/api/v1/holding", "holding", Answer(Api), operator!(api::holding::list)),
    post("/api/v1/holding/{npub}/{identifier}/restore", "holding", Bulk(Api), operator!(api::holding::restore)),
    delete("/api/v1/holding/{npub}/{identifier}", "holding", Bulk(Api), operator!(api::holding::purge)),
    post("/api/v1/events/compact", "events", Answer(Api), operator!(api::events::compact)),
    get("/api/v1/repos", "repos", Answer(Api), read!(api::repos::list)),
    get("/api/v1/repos/sizes", "repos", Answer(Api), operator!(api::repos::sizes)),
    post("/api/v1/repos/remove", "repos", Bulk(Api), operator!(api::repos::remove)),
    get("/api/v1/repos/{name...}", "repos", Answer(Api), read!(api::repos::show)),
    get("/api/v1/blocks", "repos", Answer(Api), operator!(api::repos::blocks)),
    post("/api/v1/blocks/add", "repos", Bulk(Api), operator!(api::repos::block)),
    post("/api/v1/blocks/remove", "repos", Bulk(Api), operator!(api::repos::unblock)),
    get("/api/v1/queue", "queue", Answer(Api), read!(api::queue::list)),
    get("/api/v1/queue/causes", "queue", Bulk(Api), operator!(api::queue::causes)),
    post("/api/v1/queue/revive", "queue", Bulk(Api), operator!(api::queue::revive)),
    row("/api/v1/queue/{kind}/{key}", GET_OR_DELETE, "queue", ByHandler, read!(api::queue::job)),
    post("/api/v1/queue/{kind}/{key}/retry", "queue", Answer(Api), operator!(api::queue::retry)),
    get("/api/v1/index", "index-api", Answer(Api), read!(api::index::status)),
    post("/api/v1/index/now", "index-api", Answer(Api), operator!(api::index::now)),
    post("/api/v1/index/forget", "index-api", Answer(Api), operator!(api::index::forget)),
    get("/api/v1/index/sumdb", "index-api", Answer(Api), read!(api::index::sumdb)),
    post("/api/v1/index/verify", "index-api", Bulk(Api), operator!(api::index::verify)),
    get("/api/v1/index/repos", "index-api", Answer(Api), read!(api::index::repos)),
    get("/api/v1/index/repos/{name...}", "index-api", Answer(Api), read!(api::index::repo)),

    post("/webhooks/github", "webhook", ByHandler, upload!(webhook::receive)).signed(),
    get("/api/v1/github/events", "github", Answer(Api), read!(api::github::events)),
    get("/api/v1/github/users/{user}", "github", Answer(Api), read!(api::github::user)),
    get("/api/v1/github/repos/{name...}", "github", Answer(Api), read!(api::github::repo)),
    get("/api/v1/github/avatars/{user}", "github", Answer(Api), read!(api::github::avatar)),
    get("/api/v1/github/stats", "github", Answer(Api), read!(api::github::stats)),
    get("/api/v1/github/status", "github", Answer(Api), read!(api::github::status)),
    get("/api/v1/github/gaps", "github", Answer(Api), read!(api::github::gaps)),
    post("/api/v1/github/gaps/close", "github", Bulk(Api), operator!(api::github::close_gaps)),
    post("/api/v1/github/retention", "github", Bulk(Api), operator!(api::github::retention)),
    post("/api/v1/github/reextract", "github", Bulk(Api), operator!(api::github::reextract)),
    get("/api/v1/github/{path...}", "github", Answer(Api), Handler::Immediate(api::github::nothing)),
];

static NOWHERE: Route = any(
    "",
    "nowhere",
    Handler::Immediate(|_| Err(WebError::NoSuchPage)),
);

/// Looks like a repository, but the npub or the identifier cannot be one.
static BAD_REPOSITORY: Route = any(
    "",
    "nowhere",
    Handler::Immediate(|_| Err(WebError::BadRepositoryPath)),
);

const fn row(
    path: &'static str,
    methods: &'static str,
    label: &'static str,
    limit: Limit,
    handler: Handler,
) -> Route {
    Route {
        path,
        methods,
        label,
        limit,
        failures: Failures::Negotiated,
        reader: Reader::Member,
        handler,
    }
}

const fn any(path: &'static str, label: &'static str, handler: Handler) -> Route {
    row(path, ANY, label, ByHandler, handler)
}

const fn get(path: &'static str, label: &'static str, limit: Limit, handler: Handler) -> Route {
    row(path, GET, label, limit, handler)
}

const fn post(path: &'static str, label: &'static str, limit: Limit, handler: Handler) -> Route {
    row(path, POST, label, limit, handler)
}

const fn delete(path: &'static str, label: &'static str, limit: Limit, handler: Handler) -> Route {
    row(path, DELETE, label, limit, handler)
}

const fn git(
    path: &'static str,
    methods: &'static str,
    label: &'static str,
    handler: Handler,
) -> Route {
    let mut route = row(path, methods, label, ByHandler, handler);
    route.failures = Failures::Git;
    route
}

impl Route {
    const fn json(mut self) -> Self {
        self.failures = Failures::Json;
        self
    }

    /// A row that a private service shows to everybody (G08-3).
    const fn public(mut self) -> Self {
        self.reader = Reader::Anybody;
        self
    }

    /// A row whose requests are signed for their handler.
    const fn signed(mut self) -> Self {
        self.reader = Reader::Signed;
        self
    }

    pub(crate) fn check_method(&self, method: &Method) -> Result<(), WebError> {
        if self.methods == ANY {
            return Ok(());
        }
        check_method(self.methods, method)
    }
}

/// What a request must show beside what a private service asks everybody for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Credential {
    None,
    AdminToken,
    /// A signature of the operator's key for this request, or the token.
    Signature,
}

/// What the row of this path asks for.
pub(crate) fn credential_of(path: &str) -> Credential {
    let route = ROUTES.iter().find(|route| route.path == path);
    match route.map(|route| (route.handler, route.reader)) {
        Some((handler, _)) if handler.is_for_operator() => Credential::AdminToken,
        Some((_, Reader::Signed)) => Credential::Signature,
        _ => Credential::None,
    }
}

/// Every row's path with its methods, as the `Allow` header says them.
#[cfg(test)]
pub(crate) fn methods_by_path() -> impl Iterator<Item = (&'static str, &'static str)> {
    ROUTES.iter().map(|route| (route.path, route.methods))
}

/// Refuses all but GET (and HEAD, which is GET without its body).
pub(crate) fn check_get(method: &Method) -> Result<(), WebError> {
    check_method(GET, method)
}

fn check_method(allow: &'static str, method: &Method) -> Result<(), WebError> {
    let mut allowed = allow.split(", ");
    let found = allowed.find(|name| *name == method.as_str());
    found.map(|_| ()).ok_or(WebError::Method { allow })
}

/// A route with what its path names.
pub(crate) struct Matched<'p> {
    pub(crate) route: &'static Route,
    pub(crate) params: [&'p str; 2],
    pub(crate) repository: Option<RepoAddr>,
}

/// Finds the route of a path. `base` is the service's base path without slashes at its ends; a
/// proxy may or may not have cut it off, so both forms are understood.
///
/// Where there are no `contributors`, nothing is below `/prs/` (G06-2).
pub(crate) fn find<'p>(path: &'p str, base: &str, contributors: bool) -> Matched<'p> {
    let path = strip_base(path, base);
    let (first, rest) = next_segment(path).unwrap_or_default();
    if first.starts_with("npub1") {
        return find_of_repository(first, rest);
    }
    if first == CONTRIBUTORS {
        return if contributors {
            find_of_contributor(rest)
        } else {
            matched(&NOWHERE, [""; 2], None)
        };
    }
    let initial = first.bytes().next();
    let alike = ROUTES
        .iter()
        .filter(|route| route.path.as_bytes().get(1).copied() == initial && initial != Some(b'{'));
    for route in alike {
        if let Some(params) = match_path(route.path, path) {
            return matched(route, params, None);
        }
    }
    let is_repository = next_segment(rest).is_some_and(|(second, _)| second.ends_with(".git"));
    let route = if is_repository {
        &BAD_REPOSITORY
    } else {
        &NOWHERE
    };
    matched(route, [""; 2], None)
}

/// Finds the route of a path that begins with an npub. Nothing is decoded but the identifier, and
/// that exactly once. The suffix `.git` may be left out.
fn find_of_repository<'p>(npub: &'p str, rest: &'p str) -> Matched<'p> {
    let Some((name, rest)) = next_segment(rest) else {
        let owner = ROUTES.iter().find(|route| route.path == OWNER);
        return matched(owner.unwrap_or(&NOWHERE), [npub, ""], None);
    };
    let addr = if name.ends_with(".git") {
        RepoAddr::from_segments(npub, name)
    } else {
        RepoAddr::from_segments(npub, &format!("{name}.git"))
    };
    let Some(addr) = addr else {
        return matched(&BAD_REPOSITORY, [""; 2], None);
    };
    let found = ROUTES.iter().find_map(|route| {
        let below = route.path.strip_prefix(REPOSITORY)?;
        let params = match_path(below, rest)?;
        Some((route, params))
    });
    match found {
        Some((route, params)) => matched(route, params, Some(addr)),
        None => matched(&NOWHERE, [""; 2], None),
    }
}

/// Finds the route of a path behind `/prs`. The suffix `.git` may not be left out: it is part of the
/// name that a pull request gives.
fn find_of_contributor(rest: &str) -> Matched<'_> {
    let (npub, rest) = next_segment(rest).unwrap_or_default();
    let (name, rest) = next_segment(rest).unwrap_or_default();
    let Some(addr) = RepoAddr::contributor_from_segments(npub, name) else {
        return matched(&BAD_REPOSITORY, [""; 2], None);
    };
    let found = ROUTES.iter().find(|route| {
        let below = route.path.strip_prefix(CONTRIBUTOR);
        below.is_some_and(|below| match_path(below, rest).is_some())
    });
    match found {
        Some(route) => matched(route, [""; 2], Some(addr)),
        None => matched(&NOWHERE, [""; 2], None),
    }
}

fn matched<'p>(
    route: &'static Route,
    params: [&'p str; 2],
    repository: Option<RepoAddr>,
) -> Matched<'p> {
    Matched {
        route,
        params,
        repository,
    }
}

fn match_path<'p>(pattern: &str, path: &'p str) -> Option<[&'p str; 2]> {
    let (mut params, mut count, mut rest) = ([""; 2], 0, path);
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        if part.ends_with("...}") {
            params[count] = rest.strip_prefix('/').unwrap_or(rest);
            return Some(params);
        }
        let (segment, after) = next_segment(rest)?;
        if part.starts_with('{') {
            params[count] = segment;
            count += 1;
        } else if part != segment {
            return None;
        }
        rest = after;
    }
    next_segment(rest).is_none().then_some(params)
}

/// The first segment of a path, and the path behind it.
fn next_segment(path: &str) -> Option<(&str, &str)> {
    let path = path.trim_start_matches('/');
    let end = path.find('/').unwrap_or(path.len());
    (!path.is_empty()).then(|| path.split_at(end))
}

/// The path that a proof of membership is made for: of a repository its root, up to and including
/// `.git`, else the whole of it. With the base path, whether a proxy has cut it off or not.
pub(crate) fn proof_path(path: &str, base: &str) -> String {
    let rest = strip_base(path, base);
    let root = next_segment(rest).and_then(|(npub, below)| {
        let (name, _) = next_segment(below)?;
        let suffix = if name.ends_with(".git") { "" } else { ".git" };
        npub.starts_with("npub1")
            .then(|| format!("/{npub}/{name}{suffix}"))
    });
    let slash = if base.is_empty() { "" } else { "/" };
    let rest = root.as_deref().unwrap_or(rest);
    format!("{slash}{base}{rest}")
}

fn strip_base<'a>(path: &'a str, base: &str) -> &'a str {
    if base.is_empty() {
        return path;
    }
    path.strip_prefix('/')
        .and_then(|path| path.strip_prefix(base))
        .filter(|rest| rest.is_empty() || rest.starts_with('/'))
        .unwrap_or(path)
}

#[cfg(test)]
mod tests;
