//! From a request path to what it names. Nothing here looks anything up.

mod github;

use grip_nostr::RepoAddr;

pub(crate) use self::github::GitHub;
use crate::resolve::Action;

/// What a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route<'a> {
    /// `/`: relay, NIP-11 document or landing page.
    Root,
    Health,
    Ready,
    Version,
    Metrics,
    Icon,
    Robots,
    /// `/api/v1/explain/<subject>`, the subject still percent-encoded.
    Explain(&'a str),
    /// `/sync`: a page for people.
    SyncPage,
    /// `/purgatory`: a page for people.
    PurgatoryPage,
    /// `/api/v1/tasks`
    Tasks,
    /// `/api/v1/sync`
    Sync,
    /// `/api/v1/sync/<identifier>/now`, the identifier still percent-encoded.
    SyncNow(&'a str),
    /// `/api/v1/purgatory`
    Purgatory,
    /// `/api/v1/purgatory/<event id>`
    Waiting(&'a str),
    /// `/api/v1/purgatory/<event id>/retry`
    WaitingRetry(&'a str),
    /// `/index`: the feed of module versions.
    Feed,
    /// `/index/changes`
    Changes,
    /// `/modules`: a page for people.
    ModulesPage,
    /// `/go/<rest>`, the rest as it is written.
    Go(&'a str),
    /// `/api/v1/index`
    Index,
    /// `/api/v1/index/now`
    IndexNow,
    /// `/api/v1/index/repos`
    IndexRepos,
    /// `/api/v1/index/repos/<name>`, the name still percent-encoded and perhaps with slashes.
    IndexRepo(&'a str),
    /// `/api/v1/queue`
    Queue,
    /// `/api/v1/queue/<kind>/<key>`, both still percent-encoded.
    Job(&'a str, &'a str),
    /// `/api/v1/queue/<kind>/<key>/retry`, both still percent-encoded.
    JobRetry(&'a str, &'a str),
    /// `/github`: a page for people.
    GitHubPage,
    /// `/webhooks/github`
    Webhook,
    /// Below `/api/v1/github/`.
    GitHub(GitHub<'a>),
    /// `/resolve/<key>`, the key still percent-encoded and perhaps with slashes.
    Resolve(&'a str),
    /// `/providers/<key>`, the key in the same form.
    Providers(&'a str),
    /// `/admin/<action>`
    ResolveOrder(Action),
    /// `/api/v1/resolve`
    ResolveStatus,
    /// `/resolver`: a page for people.
    ResolverPage,
    /// `/<npub>/<identifier>.git`: a page for people.
    Repository(RepoAddr),
    Git(RepoAddr, Endpoint),
    /// `/<npub>/<identifier>` without `.git`: a browser may be sent on.
    Bare(RepoAddr),
    /// Looks like a repository, but the npub or the identifier cannot be one.
    BadRepository,
    Nowhere,
}

/// What of a repository is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    InfoRefs,
    UploadPack,
    ReceivePack,
    /// A file of the dumb protocol, which is not served.
    Dumb,
}

impl<'a> Route<'a> {
    /// Reads a path. `base` is the service's base path without slashes at its ends; a proxy may
    /// or may not have cut it off, so both forms are understood.
    ///
    /// Segments are compared as they are written: nothing is decoded but the identifier, and that
    /// exactly once. Doubled and trailing slashes do not count (G01-3).
    pub(crate) fn parse(path: &'a str, base: &str) -> Self {
        let path = strip_base(path, base);
        if let Some(subject) = path.strip_prefix("/api/v1/explain/") {
            return Self::Explain(subject);
        }
        if let Some(rest) = path.strip_prefix("/go/") {
            return Self::Go(rest);
        }
        if let Some(key) = path.strip_prefix("/resolve/") {
            return Self::Resolve(key);
        }
        if let Some(key) = path.strip_prefix("/providers/") {
            return Self::Providers(key);
        }
        if let Some(rest) = path.strip_prefix("/api/v1/github/") {
            return Self::GitHub(GitHub::parse(rest));
        }
        if let Some(name) = path.strip_prefix("/api/v1/index/repos/") {
            return match name.trim_matches('/') {
                "" => Self::IndexRepos,
                name => Self::IndexRepo(name),
            };
        }
        let segments: Vec<&str> = path.split('/').filter(|s| !s.is_empty()).take(8).collect();
        match segments.as_slice() {
            [] => Self::Root,
            ["healthz"] => Self::Health,
            ["readyz"] => Self::Ready,
            ["version"] => Self::Version,
            ["metrics"] => Self::Metrics,
            ["icon.svg" | "icon.png" | "favicon.ico"] => Self::Icon,
            ["robots.txt"] => Self::Robots,
            ["sync"] => Self::SyncPage,
            ["purgatory"] => Self::PurgatoryPage,
            ["api", "v1", "tasks"] => Self::Tasks,
            ["api", "v1", "sync"] => Self::Sync,
            ["api", "v1", "sync", identifier, "now"] => Self::SyncNow(identifier),
            ["api", "v1", "purgatory"] => Self::Purgatory,
            ["api", "v1", "purgatory", id] => Self::Waiting(id),
            ["api", "v1", "purgatory", id, "retry"] => Self::WaitingRetry(id),
            ["index"] => Self::Feed,
            ["index", "changes"] => Self::Changes,
            ["modules"] => Self::ModulesPage,
            ["go"] => Self::Go(""),
            ["github"] => Self::GitHubPage,
            ["resolve"] => Self::Resolve(""),
            ["providers"] => Self::Providers(""),
            ["resolver"] => Self::ResolverPage,
            ["admin", action] => Action::parse(action).map_or(Self::Nowhere, Self::ResolveOrder),
            ["api", "v1", "resolve"] => Self::ResolveStatus,
            ["webhooks", "github"] => Self::Webhook,
            ["api", "v1", "github"] => Self::GitHub(GitHub::Nowhere),
            ["api", "v1", "index"] => Self::Index,
            ["api", "v1", "index", "now"] => Self::IndexNow,
            ["api", "v1", "index", "repos"] => Self::IndexRepos,
            ["api", "v1", "queue"] => Self::Queue,
            ["api", "v1", "queue", kind, key] => Self::Job(kind, key),
            ["api", "v1", "queue", kind, key, "retry"] => Self::JobRetry(kind, key),
            [npub, repository, rest @ ..] => Self::parse_repository(npub, repository, rest),
            [_] => Self::Nowhere,
        }
    }

    fn parse_repository(npub: &str, repository: &str, rest: &[&str]) -> Self {
        if !repository.ends_with(".git") {
            return match RepoAddr::from_segments(npub, &format!("{repository}.git")) {
                Some(addr) if rest.is_empty() => Self::Bare(addr),
                _ if npub.starts_with("npub1") => Self::BadRepository,
                _ => Self::Nowhere,
            };
        }
        let Some(addr) = RepoAddr::from_segments(npub, repository) else {
            return Self::BadRepository;
        };
        match rest {
            [] => Self::Repository(addr),
            ["info", "refs"] => Self::Git(addr, Endpoint::InfoRefs),
            ["git-upload-pack"] => Self::Git(addr, Endpoint::UploadPack),
            ["git-receive-pack"] => Self::Git(addr, Endpoint::ReceivePack),
            ["HEAD"] | ["objects", ..] | ["info", _] => Self::Git(addr, Endpoint::Dumb),
            _ => Self::Nowhere,
        }
    }

    /// The name of the route in logs and metrics: a bounded set, never the path.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Health => "healthz",
            Self::Ready => "readyz",
            Self::Version => "version",
            Self::Metrics => "metrics",
            Self::Icon => "icon",
            Self::Robots => "robots",
            Self::Explain(_) => "explain",
            Self::SyncPage
            | Self::PurgatoryPage
            | Self::ModulesPage
            | Self::GitHubPage
            | Self::ResolverPage => "page",
            Self::Webhook => "webhook",
            Self::GitHub(_) => "github",
            Self::Resolve(_) => "resolve",
            Self::Providers(_) => "providers",
            Self::ResolveOrder(_) | Self::ResolveStatus => "resolve-api",
            Self::Tasks => "tasks",
            Self::Feed => "index",
            Self::Changes => "index-changes",
            Self::Go(_) => "go",
            Self::Index | Self::IndexNow | Self::IndexRepos | Self::IndexRepo(_) => "index-api",
            Self::Sync | Self::SyncNow(_) => "sync",
            Self::Purgatory | Self::Waiting(_) | Self::WaitingRetry(_) => "purgatory",
            Self::Queue | Self::Job(..) | Self::JobRetry(..) => "queue",
            Self::Repository(_) => "repository",
            Self::Git(_, Endpoint::InfoRefs) => "info-refs",
            Self::Git(_, Endpoint::UploadPack) => "upload-pack",
            Self::Git(_, Endpoint::ReceivePack) => "receive-pack",
            Self::Git(_, Endpoint::Dumb) => "dumb",
            Self::Bare(_) => "redirect",
            Self::BadRepository | Self::Nowhere => "nowhere",
        }
    }

    /// Says whether the answer must come however loaded the node is.
    pub(crate) fn is_probe(&self) -> bool {
        matches!(
            self,
            Self::Health | Self::Ready | Self::Version | Self::Metrics | Self::Robots
        )
    }

    /// Says whether all answers but pages are JSON, failures too.
    pub(crate) fn is_for_programs(&self) -> bool {
        matches!(
            self,
            Self::Resolve(_) | Self::Providers(_) | Self::ResolveOrder(_) | Self::ResolveStatus
        )
    }

    /// Says whether git, not a person, reads the answer.
    pub(crate) fn is_git(&self) -> bool {
        matches!(self, Self::Git(..))
    }
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
mod tests {
    use grip_types::Identifier;
    use proptest::prelude::*;

    use super::*;

    const NPUB: &str = "npub15qydau2hjma6ngxkl2cyar74wzyjshvl65za5k5rl69264ar2exs5cyejr";

    fn addr(identifier: &str) -> RepoAddr {
        RepoAddr::new(
            RepoAddr::parse_npub(NPUB).unwrap(),
            Identifier::parse(identifier).unwrap(),
        )
    }

    #[test]
    fn g01_32_the_four_git_routes_and_the_page_are_told_apart() {
        let parse = |rest: &str| {
            let path = format!("/{NPUB}/my%20repo.git{rest}");
            match Route::parse(&path, "") {
                Route::Git(found, endpoint) => {
                    assert_eq!(found, addr("my repo"));
                    format!("{endpoint:?}")
                }
                Route::Repository(found) => {
                    assert_eq!(found, addr("my repo"));
                    "page".into()
                }
                other => format!("{other:?}"),
            }
        };
        assert_eq!(parse(""), "page");
        assert_eq!(parse("/"), "page");
        assert_eq!(parse("/info/refs"), "InfoRefs");
        assert_eq!(parse("/git-upload-pack"), "UploadPack");
        assert_eq!(parse("/git-receive-pack"), "ReceivePack");
        for dumb in ["/HEAD", "/objects/info/packs", "/info/alternates"] {
            assert_eq!(parse(dumb), "Dumb", "{dumb}");
        }
        for other in [
            "/Info/refs",
            "/info/refs/x",
            "/git-upload-archive",
            "/config",
        ] {
            assert_eq!(parse(other), "Nowhere", "{other}");
        }
    }

    #[test]
    fn g01_32_only_a_lower_case_npub_with_a_right_checksum_is_an_owner() {
        let long = format!("npub1{}", "q".repeat(5000));
        let wrong_sum = format!("{}q", &NPUB[..NPUB.len() - 1]);
        let upper = NPUB.to_uppercase();
        let hex = "a".repeat(64);
        for owner in [
            &*long,
            &*wrong_sum,
            &*upper,
            &*hex,
            "npub1test",
            "nprofile1x",
            "%6epub1",
        ] {
            let path = format!("/{owner}/x.git/info/refs");
            assert_eq!(Route::parse(&path, ""), Route::BadRepository, "{owner}");
        }
    }

    #[test]
    fn traversal_in_any_spelling_leads_nowhere() {
        for id in [
            "..", ".", "%2e%2e", "%2E%2e", "%2e", "a%2Fb", "a%2fb", "a%5cb", "a%00b", "a%0Ab", "%",
            "%zz", "%c3%28", "",
        ] {
            let path = format!("/{NPUB}/{id}.git/info/refs");
            assert_eq!(Route::parse(&path, ""), Route::BadRepository, "{id:?}");
        }
        for path in [
            format!("/{NPUB}/../../etc/passwd"),
            format!("/{NPUB}/..%2f..%2fetc/passwd"),
            format!("/../{NPUB}/x.git/config"),
            format!("/{NPUB}/x.git/../../y.git/info/refs"),
            format!("/{NPUB}/x.git/objects/../../../x"),
        ] {
            let route = Route::parse(&path, "");
            let harmless = matches!(
                route,
                Route::Nowhere | Route::BadRepository | Route::Git(_, Endpoint::Dumb)
            );
            assert!(harmless, "{path}: {route:?}");
        }
    }

    #[test]
    fn escapes_are_decoded_once_in_either_case() {
        let encoded = format!("/{NPUB}/na%c3%afve%2525.git");
        assert_eq!(
            Route::parse(&encoded, ""),
            Route::Repository(addr("naïve%25"))
        );
        let plus = format!("/{NPUB}/a+b.git");
        assert_eq!(Route::parse(&plus, ""), Route::Repository(addr("a+b")));
    }

    #[test]
    fn g01_3_doubled_slashes_do_not_count() {
        let path = format!("//{NPUB}//x.git//info/refs");
        assert_eq!(
            Route::parse(&path, ""),
            Route::Git(addr("x"), Endpoint::InfoRefs)
        );
        assert_eq!(Route::parse("//", ""), Route::Root);
    }

    #[test]
    fn a_base_path_may_be_there_or_cut_off_by_the_proxy() {
        for path in ["/", "/grasp", "/grasp/"] {
            assert_eq!(Route::parse(path, "grasp"), Route::Root, "{path}");
        }
        assert_eq!(Route::parse("/grasp/healthz", "grasp"), Route::Health);
        assert_eq!(Route::parse("/healthz", "grasp"), Route::Health);
        assert_eq!(Route::parse("/graspx", "grasp"), Route::Nowhere);
    }

    #[test]
    fn pages_and_the_api_of_sync_are_told_apart() {
        assert_eq!(Route::parse("/sync", ""), Route::SyncPage);
        assert_eq!(Route::parse("/purgatory/", ""), Route::PurgatoryPage);
        assert_eq!(Route::parse("/api/v1/sync", ""), Route::Sync);
        assert_eq!(
            Route::parse("/g/api/v1/sync/a%2Fb/now", "g"),
            Route::SyncNow("a%2Fb")
        );
        assert_eq!(
            Route::parse("/api/v1/purgatory/ab", ""),
            Route::Waiting("ab")
        );
        assert_eq!(
            Route::parse("/api/v1/purgatory/ab/retry", ""),
            Route::WaitingRetry("ab")
        );
        for path in ["/api/v1/sync/x", "/api/v1/sync/x/later", "/api/v2/sync"] {
            assert_eq!(Route::parse(path, ""), Route::Nowhere, "{path}");
        }
    }

    #[test]
    fn a_repository_name_without_its_suffix_is_known_for_browsers() {
        assert_eq!(
            Route::parse(&format!("/{NPUB}/x"), ""),
            Route::Bare(addr("x"))
        );
        assert_eq!(
            Route::parse(&format!("/{NPUB}/x/info/refs"), ""),
            Route::BadRepository
        );
        assert_eq!(Route::parse("/foo/bar", ""), Route::Nowhere);
    }

    #[test]
    fn the_feed_its_api_and_the_proxy_are_told_apart() {
        for (path, expected) in [
            ("/index", Route::Feed),
            ("/b/index/", Route::Feed),
            ("/index/changes", Route::Changes),
            ("/modules", Route::ModulesPage),
            ("/go", Route::Go("")),
            ("/go/a.example/x/@v/list", Route::Go("a.example/x/@v/list")),
            ("/go/%2e%2e/@v//x.zip", Route::Go("%2e%2e/@v//x.zip")),
            ("/go/../index", Route::Go("../index")),
            ("/api/v1/index", Route::Index),
            ("/api/v1/index/now", Route::IndexNow),
            ("/api/v1/index/repos/", Route::IndexRepos),
            (
                "/api/v1/index/repos/h.example/a/b%2F",
                Route::IndexRepo("h.example/a/b%2F"),
            ),
            (
                "/api/v1/queue/index-repo/a%2Fb/retry",
                Route::JobRetry("index-repo", "a%2Fb"),
            ),
            (
                "/api/v1/queue/index-repo/a%2Fb",
                Route::Job("index-repo", "a%2Fb"),
            ),
            ("/api/v1/queue/index-repo/a/b/c", Route::Nowhere),
            ("/index/later", Route::Nowhere),
            ("/gone/x", Route::Nowhere),
        ] {
            assert_eq!(Route::parse(path, "b"), expected, "{path}");
        }
        let long = format!("/go/{}", "x/".repeat(4096));
        assert!(matches!(Route::parse(&long, ""), Route::Go(_)));
    }

    proptest! {
        #[test]
        fn any_path_is_read_without_panic_and_never_names_a_separator(
            path in "/[-a-zA-Z0-9%./_~+\\\\ ]{0,120}", base in "(|grasp|a/b)",
        ) {
            check(Route::parse(&path, &base));
        }

        #[test]
        fn any_identifier_segment_is_safe_or_refused(segment in "[%0-9a-fA-F.+\\\\é/]{0,60}") {
            check(Route::parse(&format!("/{NPUB}/{segment}.git/info/refs"), ""));
        }
    }

    fn check(route: Route<'_>) {
        if let Route::Repository(addr) | Route::Git(addr, _) | Route::Bare(addr) = route {
            let id = addr.identifier.as_str();
            assert!(!id.contains(['/', '\\', '\0']) && id != "." && id != "..");
        }
    }
}
