//! Pages rendered from values alone.

use grip_grasp::RepositoryStatus;
use grip_types::Service;
use serde_json::json;

use super::{
    browse::Header, catalog::RepositoryLine, home::Home, repository::RepositoryPage,
    time::distance, *,
};

const NPUB: &str = "npub15qydau2hjma6ngxkl2cyar74wzyjshvl65za5k5rl69264ar2exs5cyejr";

fn frame() -> Frame {
    let mut settings = WebSettings::new(Service::parse("grasp.example.com").unwrap());
    settings.node.name = "Harbour <b>".into();
    let build = Build {
        version: "0.1.0",
        commit: Some("0123456789abcdef"),
    };
    Frame::new(&settings, &build)
}

fn home(lines: Vec<RepositoryLine>) -> Home {
    Home {
        frame: frame(),
        description: "A git server with a nostr relay in it".into(),
        counters: counters([("repositories", 12), ("events served", 48_210)]),
        lines,
        activity: Vec::new(),
        total: 12,
        more: 2,
        grasps: "GRASP-01".into(),
        criteria: "None".into(),
        curation: None,
    }
}

fn line(name: &str, description: &str) -> RepositoryLine {
    RepositoryLine {
        name: name.into(),
        href: format!("/{NPUB}/{name}"),
        owner: short_npub(NPUB),
        owner_href: format!("/{NPUB}"),
        description: description.into(),
        topics: vec!["<u>".into()],
        updated: Some(moment(&1_763_000_000)),
    }
}

fn repository(notice: Option<Notice>) -> RepositoryPage {
    let listed =
        |name: &str| json!({ "name": name, "oid": "5e0d1f2a3b4c5d6e7f8091a2b3c4d5e6f7081920" });
    let refs = [
        "refs/heads/main",
        "refs/heads/feature/spring-tide",
        "refs/tags/v1.0.0",
    ];
    let summary = json!({
        "npub": NPUB, "identifier": "tide-table", "name": "tide table",
        "description": "High and low water for small harbours.\nMade of <script>tides</script>.",
        "status": if notice.is_some() { RepositoryStatus::Held } else { RepositoryStatus::Served },
        "clone_url": format!("https://grasp.example.com/{NPUB}/tide-table.git"),
        "nostr_url": format!("nostr://{NPUB}/grasp.example.com/tide-table"),
        "web": ["https://tides.example"], "maintainers": [NPUB, NPUB],
        "head": "refs/heads/main", "branches": 2, "tags": 1, "pull_requests": 2,
        "refs": refs.map(listed),
        "state": { "id": "a".repeat(64), "author": NPUB, "created_at": 1_763_000_000 },
        "held_states": 0,
    });
    RepositoryPage {
        frame: frame(),
        header: Header {
            name: "tide table".into(),
            owner: "Ada <b>".into(),
            owner_href: format!("/{NPUB}"),
            base: format!("/{NPUB}/tide-table"),
            at: "main".into(),
            tab: "code",
        },
        summary: serde_json::from_value(summary).unwrap(),
        notice,
        path: format!("{NPUB}/tide-table"),
        nostr_url: format!("nostr://{NPUB}/grasp.example.com/tide-table"),
        maintainers: Vec::new(),
        elsewhere: Vec::new(),
        code: None,
    }
}

fn rendered(page: &impl Template) -> String {
    page.render().unwrap()
}

#[test]
fn everything_that_people_wrote_is_escaped() {
    let html = rendered(&repository(None));
    assert!(!html.contains("<script>"), "{html}");
    assert!(html.contains("&#60;script&#62;tides"));
    let html = rendered(&home(vec![line("\"><img src=x>", "<i>")]));
    assert!(!html.contains("<img") && !html.contains("<b>Harbour"));
    assert!(html.contains("Harbour &#60;b&#62;"));
}

#[test]
fn pages_load_nothing_from_elsewhere() {
    for html in [rendered(&home(vec![])), rendered(&repository(None))] {
        assert!(html.contains("<link rel=\"stylesheet\" href=\"/style.css?v="));
        assert_eq!(html.matches("<script").count(), 1);
        assert!(html.contains("<script src=\"/script.js?v="));
        assert!(!html.contains("src=\"http") && !html.contains("style=\""));
        assert!(html.len() < 100_000);
    }
}

#[test]
fn the_frame_names_the_page_its_place_and_the_way_past_it() {
    let mut home = home(vec![line("a", "b")]);
    home.frame = home.frame.within("/sync", [true, false, true]);
    home.frame = home.frame.about("A \"title\"", "What it is");
    let html = rendered(&home);
    for part in [
        "<title>A &#34;title&#34; · Harbour &#60;b&#62;</title>",
        "<meta name=\"description\" content=\"What it is\">",
        "<meta property=\"og:title\"",
        "<a class=\"skip\" href=\"#main\">",
        "<a href=\"/sync\" aria-current=\"page\">Sync</a>",
        "<a href=\"/repositories\">Repositories</a>",
        "<time datetime=\"2025-11-13T02:13:20Z\"",
    ] {
        assert!(html.contains(part), "{part} is missing: {html}");
    }
    assert!(!html.contains(">GitHub</a>"), "it is not watched here");
}

#[test]
fn g01_33_the_repository_page_links_to_web_clients_and_both_clone_forms() {
    let html = rendered(&repository(None));
    for text in [
        format!("https://gitworkshop.dev/{NPUB}/tide-table"),
        format!("git clone nostr://{NPUB}/grasp.example.com/tide-table"),
        format!("git clone https://grasp.example.com/{NPUB}/tide-table.git"),
        "2025-11-13 02:13 UTC".into(),
    ] {
        assert!(html.contains(&text), "{text} is missing");
    }
    assert!(!html.contains("Not served yet"));
}

#[test]
fn a_held_repository_says_what_is_missing_and_until_when_it_waits() {
    let notice = Notice {
        title: "Not served yet.",
        why: "The announcement is here, the git data is not.".into(),
        missing: vec!["main at 5e0d1f2a3b".into()],
        until: Some(when(1_763_001_800)),
    };
    let html = rendered(&repository(Some(notice)));
    assert!(html.contains("Not served yet") && html.contains("main at 5e0d1f2a3b"));
    assert!(html.contains("Kept until 2025-11-13 02:43 UTC"));
}

#[test]
fn a_failure_helps() {
    let response = failure(frame(), &WebError::NoSuchRepository, "abc-1").unwrap();
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    let policy = response.headers()["content-security-policy"]
        .to_str()
        .unwrap();
    assert!(policy.starts_with("default-src 'none'"));
    let busy = WebError::Busy(crate::limits::Class::Page);
    let response = failure(frame(), &busy, "abc-2").unwrap();
    assert_eq!(response.headers()["retry-after"], "5");
}

#[test]
fn keys_and_times_are_short_for_people() {
    assert_eq!(short_npub(NPUB), "npub15qydau2…5cyejr");
    assert_eq!(short_npub("npub1x"), "npub1x");
    assert_eq!(when(0), "1970-01-01 00:00 UTC");
    assert_eq!(when(u64::MAX), "at an impossible time");
}

#[test]
fn numbers_are_grouped_in_threes() {
    let cases = [(0, "0"), (999, "999"), (1000, "1,000"), (48_210, "48,210")];
    for (value, text) in cases {
        assert_eq!(grouped(value), text);
    }
    assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
}

#[test]
fn moments_are_told_by_their_distance() {
    let now = 1_000_000_000;
    let cases = [
        (now, "now"),
        (now + 999, "now"),
        (now + 5_000, "in 5 s"),
        (now - 65_000, "65 s ago"),
        (now + 29 * 60_000, "in 29 min"),
        (now - 3 * 3_600_000, "3 h ago"),
        (now + 29 * 86_400_000, "in 29 days"),
    ];
    for (moment, text) in cases {
        assert_eq!(distance(moment, now), text);
    }
    assert_eq!(distance(i64::MIN, i64::MAX).split(' ').nth(1), Some("days"));
    assert_eq!(
        (took(&840), took(&1_250), took(&75_000)),
        ("840 ms".into(), "1.2 s".into(), "75 s".into())
    );
}
