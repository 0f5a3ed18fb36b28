//! Rendering, and texts that are attacks.

use std::time::{Duration, Instant};

use super::*;

struct Below;

impl Links for Below {
    fn page(&self, path: &str) -> Option<String> {
        (!path.starts_with('/')).then(|| format!("/r/blob/{path}"))
    }

    fn raw(&self, path: &str) -> Option<String> {
        Some(format!("/r/raw/{path}"))
    }
}

fn rendered(text: &str) -> String {
    render(text, Below)
}

#[test]
fn tables_tasks_and_code_are_shown() {
    let html =
        rendered("|a|b|\n|-|-:|\n|1|2|\n\n- [x] done\n- [ ] open\n\n```rust\nfn x() {}\n```\n");
    for part in [
        "<table>",
        "<th",
        "type=\"checkbox\"",
        "checked",
        "aria-label=\"Task\"",
        "align=\"right\"",
        "h-k\">fn",
    ] {
        assert!(html.contains(part), "{part}: {html}");
    }
}

#[test]
fn relative_links_stay_within_and_headings_can_be_linked() {
    let html =
        rendered("# A `b` c\n\n[x](docs/a.md) ![p](p.png) [h](#a-b-c) [w](https://w.example/)");
    for part in [
        "id=\"md-a-b-c\"",
        "href=\"/r/blob/docs/a.md\"",
        "src=\"/r/raw/p.png\"",
        "href=\"#md-a-b-c\"",
        "href=\"https://w.example/\"",
        "rel=\"nofollow noreferrer ugc\"",
    ] {
        assert!(html.contains(part), "{part}: {html}");
    }
}

#[test]
fn pictures_from_elsewhere_are_links() {
    let html =
        rendered("![badge](https://ci.example/b.svg) <img src=\"//t.example/x.gif\" alt=\"y\">");
    assert!(html.contains("href=\"https://ci.example/b.svg\""), "{html}");
    assert!(!html.contains("src="), "{html}");
}

#[test]
fn hostile_texts_inject_nothing() {
    let attacks = [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[a](javascript:alert(1)) [b](JaVaScRiPt:alert(1)) [c](data:text/html,x)",
        "<a href=\"java\nscript:alert(1)\">x</a>",
        "<svg onload=alert(1)><script>1</script></svg>",
        "<style>body{display:none}</style>",
        "<iframe src=\"https://e.example\"></iframe>",
        "<form action=\"https://e.example\"><button>x</button></form>",
        "<p style=\"position:fixed\">x</p>",
        "<base href=\"https://e.example\">",
        "<meta http-equiv=refresh content=0>",
        "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
        "```<script>\n</code></pre><script>alert(1)</script>\n```",
        "# <script>x</script>\n",
        "<div id=\"main\">x</div>",
        "</main></body><script>1</script>",
        "![x](x\"onerror=\"alert(1))",
    ];
    for attack in attacks {
        let html = rendered(attack);
        let lower = html.to_lowercase();
        for part in [
            "<script",
            "onerror=\"",
            "onload",
            "javascript:",
            "data:",
            "<style",
            "<iframe",
            "<form",
            "style=",
            "<base",
            "<meta",
            "<svg",
            "id=\"main\"",
            "</main",
        ] {
            assert!(!lower.contains(part), "{attack}: {html}");
        }
    }
}

#[test]
fn bombs_end_soon_and_small() {
    let many = |text: &str, n: usize| text.repeat(n);
    let formatting: String = (0..2000).map(|n| format!("<b title={n}>")).collect();
    let bombs = [
        many("> ", 50_000),
        many("[", 200_000),
        many("*a ", 100_000),
        many("- ", 50_000),
        many("<div>", 50_000),
        many("`", 200_001),
        format!("{formatting}{}", many("\n\n<p>x", 20_000)),
        many("|a", 50_000) + "\n" + &many("|-", 50_000),
        format!("[a]: /{}\n\n{}", "x".repeat(10_000), many("[a] ", 20_000)),
    ];
    for bomb in bombs {
        let began = Instant::now();
        let html = rendered(&bomb);
        let (took, head) = (began.elapsed(), &bomb[..20]);
        assert!(took < Duration::from_secs(60), "{head:?} took {took:?}");
        assert!(
            html.len() < 20 << 20,
            "{head:?} became {} bytes",
            html.len()
        );
    }
}
