//! Paths and the rows they lead to.

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

/// The pattern of the row that a path leads to; `bad` and `nowhere` for those that lead to none.
fn row_of(path: &str, base: &str) -> &'static str {
    let found = find(path, base, true).route;
    if std::ptr::eq(found, &BAD_REPOSITORY) {
        "bad"
    } else if std::ptr::eq(found, &NOWHERE) {
        "nowhere"
    } else {
        found.path
    }
}

#[test]
fn g01_32_the_four_git_routes_and_the_page_are_told_apart() {
    let of = |rest: &str| {
        let path = format!("/{NPUB}/my%20repo.git{rest}");
        let found = find(&path, "", true);
        let is_found = found.repository.is_some();
        let is_it = found
            .repository
            .is_none_or(|found| found == addr("my repo"));
        assert!(is_it, "{rest}");
        assert_eq!(is_found, !std::ptr::eq(found.route, &NOWHERE), "{rest}");
        (found.route.label, found.route.failures)
    };
    assert_eq!(of(""), ("repository", Failures::Negotiated));
    assert_eq!(of("/"), ("repository", Failures::Negotiated));
    assert_eq!(of("/info/refs"), ("info-refs", Failures::Git));
    assert_eq!(of("/git-upload-pack"), ("upload-pack", Failures::Git));
    assert_eq!(of("/git-receive-pack"), ("receive-pack", Failures::Git));
    for dumb in "/HEAD /objects /objects/info/packs /info/alternates".split(' ') {
        assert_eq!(of(dumb), ("dumb", Failures::Git), "{dumb}");
    }
    for other in "/Info/refs /info/refs/x /git-upload-archive /config".split(' ') {
        assert_eq!(of(other).0, "nowhere", "{other}");
    }
}

#[test]
fn g06_3_contributor_repositories_have_git_routes_and_no_page() {
    fn of(path: &str) -> Matched<'_> {
        find(path, "", true)
    }
    let repository = format!("/prs/{NPUB}/my%20repo.git");
    let routes = [
        ("/info/refs", "prs-info-refs"),
        ("/git-upload-pack", "prs-upload-pack"),
        ("/git-receive-pack", "prs-receive-pack"),
    ];
    for (rest, label) in routes {
        let path = format!("{repository}{rest}");
        let (found, off) = (of(&path), find(&path, "", false));
        assert_eq!(found.route.label, label);
        let addr = found.repository.expect("it names one");
        assert!(addr.is_contributor() && addr.identifier.as_str() == "my repo");
        assert!(std::ptr::eq(off.route, &NOWHERE) && off.repository.is_none());
    }
    for page in ["", "/", "/HEAD", "/objects/info/packs", "/tree/main"] {
        let path = format!("{repository}{page}");
        assert!(std::ptr::eq(of(&path).route, &NOWHERE), "{path}");
    }
    let hex = "a".repeat(64);
    for bad in [
        "/prs".to_owned(),
        format!("/prs/{NPUB}"),
        format!("/prs/{hex}/x.git/info/refs"),
        format!("/prs/{NPUB}/x/info/refs"),
        format!("/prs/{NPUB}/a%2Fb.git/info/refs"),
        format!("/prs/{}/x.git/info/refs", NPUB.to_uppercase()),
    ] {
        assert!(std::ptr::eq(of(&bad).route, &BAD_REPOSITORY), "{bad}");
    }
}

#[test]
fn g01_32_only_a_lower_case_npub_with_a_right_checksum_is_an_owner() {
    let long = format!("npub1{}", "q".repeat(5000));
    let wrong_sum = format!("{}q", &NPUB[..NPUB.len() - 1]);
    let (upper, hex) = (NPUB.to_uppercase(), "a".repeat(64));
    let others = ["npub1test", "nprofile1x", "%6epub1", "{npub}"];
    for owner in [&*long, &*wrong_sum, &*upper, &*hex]
        .into_iter()
        .chain(others)
    {
        let path = format!("/{owner}/x.git/info/refs");
        assert_eq!(row_of(&path, ""), "bad", "{owner}");
    }
}

#[test]
fn traversal_in_any_spelling_leads_nowhere() {
    for id in [
        "..", ".", "%2e%2e", "%2E%2e", "%2e", "a%2Fb", "a%2fb", "a%5cb", "a%00b", "a%0Ab", "%",
        "%zz", "%c3%28", "",
    ] {
        let path = format!("/{NPUB}/{id}.git/info/refs");
        assert_eq!(row_of(&path, ""), "bad", "{id:?}");
    }
    for path in [
        format!("/{NPUB}/../../etc/passwd"),
        format!("/{NPUB}/..%2f..%2fetc/passwd"),
        format!("/../{NPUB}/x.git/config"),
        format!("/{NPUB}/x.git/../../y.git/info/refs"),
        format!("/{NPUB}/x.git/objects/../../../x"),
    ] {
        let label = find(&path, "", true).route.label;
        assert!(["nowhere", "dumb"].contains(&label), "{path}: {label}");
    }
}

#[test]
fn escapes_are_decoded_once_in_either_case() {
    for (segment, identifier) in [("na%c3%afve%2525", "naïve%25"), ("a+b", "a+b")] {
        let path = format!("/{NPUB}/{segment}.git");
        assert_eq!(find(&path, "", true).repository, Some(addr(identifier)));
    }
}

#[test]
fn g01_3_doubled_slashes_do_not_count() {
    let path = format!("//{NPUB}//x.git//info/refs");
    assert_eq!(find(&path, "", true).route.label, "info-refs");
    assert_eq!(row_of("//", ""), "/");
}

#[test]
fn a_base_path_may_be_there_or_cut_off_by_the_proxy() {
    for path in ["/", "/grasp", "/grasp/"] {
        assert_eq!(row_of(path, "grasp"), "/", "{path}");
    }
    assert_eq!(row_of("/grasp/healthz", "grasp"), "/healthz");
    assert_eq!(row_of("/healthz", "grasp"), "/healthz");
    assert_eq!(row_of("/graspx", "grasp"), "nowhere");
}

#[test]
fn the_suffix_of_a_repository_may_be_left_out() {
    for rest in [
        "",
        "/info/refs",
        "/git-upload-pack",
        "/tree/main/a.git",
        "/issues",
    ] {
        let (bare, whole) = (format!("/{NPUB}/x{rest}"), format!("/{NPUB}/x.git{rest}"));
        let (bare, whole) = (find(&bare, "", true), find(&whole, "", true));
        assert_eq!(bare.route.path, whole.route.path, "{rest}");
        assert_ne!(bare.route.label, "nowhere", "{rest}");
        assert_eq!(bare.repository, Some(addr("x")), "{rest}");
        assert_eq!(bare.params, whole.params, "{rest}");
    }
    let found = format!("/{NPUB}");
    assert_eq!(find(&found, "", true).route.label, "author");
    assert_eq!(row_of("/foo/bar", ""), "nowhere");
}

#[test]
fn parameters_stand_as_they_are_written() {
    // A table: one path a line.
    #[rustfmt::skip]
    let cases = [
        ("/sync", "/sync", ["", ""]),
        ("/purgatory/", "/purgatory", ["", ""]),
        ("/b/index/", "/index", ["", ""]),
        ("/index/changes", "/index/changes", ["", ""]),
        ("/go", "/go/{path...}", ["", ""]),
        ("/go/a.example/x/@v/list", "/go/{path...}", ["a.example/x/@v/list", ""]),
        ("/go/%2e%2e/@v//x.zip", "/go/{path...}", ["%2e%2e/@v//x.zip", ""]),
        ("/go/../index", "/go/{path...}", ["../index", ""]),
        ("/resolve/a.git/b.git", "/resolve/{key...}", ["a.git/b.git", ""]),
        ("/b/api/v1/sync/a%2Fb/now", "/api/v1/sync/{identifier}/now", ["a%2Fb", ""]),
        ("/api/v1/purgatory/ab", "/api/v1/purgatory/{event}", ["ab", ""]),
        ("/api/v1/purgatory/ab/retry", "/api/v1/purgatory/{event}/retry", ["ab", ""]),
        ("/api/v1/index/now", "/api/v1/index/now", ["", ""]),
        ("/api/v1/index/repos/", "/api/v1/index/repos", ["", ""]),
        ("/api/v1/index/repos/h/a/b%2F", "/api/v1/index/repos/{name...}", ["h/a/b%2F", ""]),
        ("/api/v1/queue/x/a%2Fb", "/api/v1/queue/{kind}/{key}", ["x", "a%2Fb"]),
        ("/api/v1/queue/x/a%2Fb/retry", "/api/v1/queue/{kind}/{key}/retry", ["x", "a%2Fb"]),
        ("/api/v1/github/events/", "/api/v1/github/events", ["", ""]),
        ("/api/v1/github/users/a%2Fb", "/api/v1/github/users/{user}", ["a%2Fb", ""]),
        ("/api/v1/github/repos/a/b", "/api/v1/github/repos/{name...}", ["a/b", ""]),
        ("/api/v1/github/gaps/close", "/api/v1/github/gaps/close", ["", ""]),
        ("/api/v1/github", "/api/v1/github/{path...}", ["", ""]),
        ("/api/v1/github/users/", "/api/v1/github/{path...}", ["users/", ""]),
        ("/api/v1/github/users/a/b", "/api/v1/github/{path...}", ["users/a/b", ""]),
        ("/api/v1/github/Events", "/api/v1/github/{path...}", ["Events", ""]),
        ("/api/v1/github/events/../stats", "/api/v1/github/{path...}", ["events/../stats", ""]),
        ("/admin/pin", "/admin/pin", ["", ""]),
        ("/admin/other", "nowhere", ["", ""]),
        ("/api/v1/sync/x", "nowhere", ["", ""]),
        ("/api/v1/sync/x/later", "nowhere", ["", ""]),
        ("/api/v2/sync", "nowhere", ["", ""]),
        ("/api/v1/queue/index-repo/a/b/c", "nowhere", ["", ""]),
        ("/index/later", "nowhere", ["", ""]),
        ("/gone/x", "nowhere", ["", ""]),
    ];
    for (path, row, params) in cases {
        assert_eq!(
            (row_of(path, "b"), find(path, "b", true).params),
            (row, params),
            "{path}"
        );
    }
    let long = format!("/go/{}", "x/".repeat(4096));
    assert_eq!(row_of(&long, ""), "/go/{path...}");
}

/// G08-3: a private service shows everybody these and no other.
#[test]
fn what_is_public_of_a_private_service_is_listed_here() {
    let public = ROUTES.iter().filter(|row| row.reader == Reader::Anybody);
    let public: Vec<_> = public.map(|row| row.path).collect();
    let listed = "/ /healthz /readyz /.well-known/nostr.json /style.css /script.js /icon.svg /icon.png /favicon.ico";
    assert_eq!(public, listed.split(' ').collect::<Vec<_>>());
    assert_eq!(NOWHERE.reader, Reader::Member);
    assert_eq!(BAD_REPOSITORY.reader, Reader::Member);
}

/// G08-7
#[test]
fn a_proof_is_for_the_root_of_a_repository_or_the_whole_path() {
    for (path, base, expected) in [
        (
            format!("/{NPUB}/x.git/info/refs"),
            "",
            format!("/{NPUB}/x.git"),
        ),
        (
            format!("/{NPUB}/x/tree/main/b.git"),
            "",
            format!("/{NPUB}/x.git"),
        ),
        (
            format!("/{NPUB}/a.git.git/HEAD"),
            "",
            format!("/{NPUB}/a.git.git"),
        ),
        (format!("/g/{NPUB}/x.git"), "g", format!("/g/{NPUB}/x.git")),
        (
            format!("/{NPUB}/my%20x.git"),
            "g",
            format!("/g/{NPUB}/my%20x.git"),
        ),
        (format!("/{NPUB}"), "", format!("/{NPUB}")),
        ("/index".into(), "g", "/g/index".into()),
        ("/".into(), "", "/".into()),
    ] {
        assert_eq!(proof_path(&path, base), expected);
    }
}

#[test]
fn every_row_is_reached_by_its_own_path() {
    for route in ROUTES {
        let path = route.path.replace("{npub}", NPUB).replace("...}", "}");
        let found = find(&path, "", true);
        assert!(
            std::ptr::eq(found.route, route),
            "{path} leads to {}",
            found.route.path
        );
    }
}

/// The list of routes for people; `UPDATE_DOCS=1` writes it.
#[test]
fn the_documented_routes_are_those_of_the_table() {
    let mut text = "# Routes\n\nMade from the table in `grip-web/src/routes.rs`. *Limit* is the \
                    pool of permits that a request takes one of: beyond it the answer is 429. \
                    Probes are answered however loaded the node is.\n\n\
                    | methods | path | limit | metric label | for | of a private service for |\n|---|---|---|---|---|---|\n"
        .to_owned();
    for route in ROUTES {
        let methods = route.methods.trim_end_matches(", OPTIONS");
        let methods = if methods.is_empty() {
            "GET, HEAD"
        } else {
            methods
        };
        let path = route
            .path
            .replace('{', "<")
            .replace("...}", "…>")
            .replace('}', ">");
        let limit = match route.limit {
            Probe => "none: a probe",
            Metered => "none but its rate: a probe",
            ByHandler => "its handler's",
            Answer(class) | Bulk(class) => class.label(),
        };
        let is_for_operator = route.handler.is_for_operator();
        let reader = if is_for_operator {
            "the operator"
        } else {
            "anybody"
        };
        let private = match route.reader {
            _ if is_for_operator => "the operator",
            Reader::Member => "members",
            Reader::Anybody => "anybody",
            Reader::Signed => "who signs the request",
        };
        let label = route.label;
        text += &format!("| {methods} | `{path}` | {limit} | `{label}` | {reader} | {private} |\n");
    }
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/routes.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(file, &text).unwrap();
    }
    let written = std::fs::read_to_string(file).unwrap();
    assert!(
        written == text,
        "docs/routes.md is not what the table says: UPDATE_DOCS=1 writes it"
    );
}

proptest! {
    #[test]
    fn any_path_is_read_without_panic_and_never_names_a_separator(
        path in "/[-a-zA-Z0-9%./_~+{}\\\\ ]{0,120}", base in "(|grasp|a/b)",
    ) {
        check(find(&path, &base, true));
    }

    #[test]
    fn any_identifier_segment_is_safe_or_refused(segment in "[%0-9a-fA-F.+\\\\é/]{0,60}") {
        check(find(&format!("/{NPUB}/{segment}.git/info/refs"), "", true));
    }
}

fn check(found: Matched<'_>) {
    if let Some(addr) = found.repository {
        let id = addr.identifier.as_str();
        assert!(!id.contains(['/', '\\', '\0']) && id != "." && id != "..");
    }
}
