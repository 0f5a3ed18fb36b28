//! Manifests and providers, for people.

use std::fmt::Write as _;

use grip_resolve::{NamedBy, Ranked, Source};
use grip_web::api_types::{ResolvedFacts, ResolvedManifest};
use serde_json::Value;

use crate::commands::{
    table::{BOLD, DIM, plain},
    when::Now,
};

pub(super) fn found(found: &ResolvedManifest, now: Now) -> String {
    let facts = &found.facts;
    let part = |at: usize| found.manifest.get(at).unwrap_or(&Value::Null);
    let (announcement, state) = (part(2), part(4));
    let title = tag(announcement, "name").or_else(|| tag(announcement, "d"));
    let mut out = String::new();
    let title = plain(title.unwrap_or(&facts.name));
    let _ = writeln!(out, "{BOLD}{title}{BOLD:#}");
    if let Some(description) = tag(announcement, "description") {
        let _ = writeln!(out, "{}", plain(description));
    }
    let signed = [announcement, state].map(|event| event["created_at"].as_u64());
    let signed = signed.into_iter().flatten().max();
    let signed = signed.map_or("never".to_owned(), |at| now.seconds(at));
    for (label, value) in [
        ("name", format!("name:{}", facts.name)),
        ("manifest", facts.id.clone()),
        ("signed", signed),
        ("state", state_line(state)),
        ("answer", how(facts)),
    ] {
        let _ = writeln!(out, "  {DIM}{label:<9}{DIM:#} {}", plain(&value));
    }
    for (at, url) in part(5).as_array().into_iter().flatten().enumerate() {
        let label = if at == 0 { "clone" } else { "" };
        let url = plain(url.as_str().unwrap_or_default());
        let _ = writeln!(out, "  {DIM}{label:<9}{DIM:#} {url}");
    }
    out
}

fn state_line(state: &Value) -> String {
    if state.is_null() {
        return "none is known yet".to_owned();
    }
    let refs = tags(state).filter(|(name, _)| name.starts_with("refs/"));
    let refs = match refs.count() {
        1 => "1 ref".to_owned(),
        n => format!("{n} refs"),
    };
    let head = tag(state, "HEAD").and_then(|head| head.strip_prefix("ref: refs/heads/"));
    match head {
        Some(head) => format!("{refs}, HEAD at {head}"),
        None => refs,
    }
}

fn how(found: &ResolvedFacts) -> String {
    let took = format!("{:.1} ms", found.took_ms);
    match found.source {
        Some(Source::Local) => format!("from the node itself, in {took}"),
        Some(Source::Cache) => format!("from the node's cache, in {took}"),
        Some(Source::Stale) => format!("from the node's cache, in {took}; being refreshed"),
        Some(Source::Dht) => format!(
            "from the network in {took} (hops: {}, requests: {})",
            found.hops, found.asked
        ),
        None => format!("in {took}"),
    }
}

pub(super) fn providers(ranked: &Ranked) -> String {
    if ranked.providers.is_empty() {
        return "no provider is known\n".to_owned();
    }
    let mut out = format!("{BOLD}providers, best first{BOLD:#}\n");
    for provider in &ranked.providers {
        // Never cut: it is there to be copied.
        let _ = writeln!(out, "  {}", plain(provider.url.as_str()));
        let by = match &provider.named_by {
            NamedBy::Owner => String::new(),
            NamedBy::Node(peer) => format!(" · {peer}"),
        };
        let region = provider.region.iter().map(|region| format!(" · {region}"));
        let more: String = region.chain([by]).collect();
        let why = plain(&(provider.why.clone() + &more));
        let _ = writeln!(out, "      {DIM}{why}{DIM:#}");
    }
    out
}

/// The first value of a tag, unless it is empty.
fn tag<'a>(event: &'a Value, name: &str) -> Option<&'a str> {
    let mut found = tags(event).filter(|(tag, value)| *tag == name && !value.is_empty());
    found.next().map(|(_, value)| value)
}

fn tags(event: &Value) -> impl Iterator<Item = (&str, &str)> {
    let tags = event["tags"].as_array().into_iter().flatten();
    tags.filter_map(|tag| Some((tag[0].as_str()?, tag[1].as_str()?)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::commands::table::unstyled as shown;

    const ID: &str = "b3:00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff";

    #[test]
    fn an_answer_is_shown_with_what_it_says_and_where_it_came_from() {
        let event = |tags: Value| json!({ "created_at": 1_763_000_000, "tags": tags });
        let answer: ResolvedManifest = serde_json::from_value(json!({
            "id": "b3:00ff", "name": "npub1abc/tides", "source": "dht",
            "hops": 2, "asked": 5, "took_ms": 41.27,
            "manifest": ["gripfast-manifest", 1,
                event(json!([["d", "tides"], ["name", "Tides\u{1b}[2J"], ["description", "When."]])),
                [],
                event(json!([["d", "tides"], ["refs/heads/main", "11"], ["HEAD", "ref: refs/heads/main"]])),
                ["https://a.example/npub1abc/tides.git", "https://b.example/npub1abc/tides.git"]],
        }))
        .unwrap();
        let ranked: Ranked = serde_json::from_value(
            json!({ "id": ID, "name": "npub1abc/tides", "source": "dht", "providers": [
                { "url": "https://a.example/npub1abc/tides.git", "named_by": "owner", "score": 0.5,
                  "is_shut": false, "why": "named by the owner, not asked before, signed 2 h ago" },
                { "url": "https://c.example/npub1abc/tides.git", "named_by": { "node": "12D3Koo" },
                  "region": "eu-west", "score": 0.25, "is_shut": true,
                  "why": "offered by a node, failed recently, signed 3 d ago" },
            ]}),
        )
        .unwrap();
        let now = Now::at(1_763_000_120);
        let text = shown(&format!("{}\n{}", found(&answer, now), providers(&ranked)));
        insta::assert_snapshot!(text);
        assert!(!found(&answer, now).contains("\u{1b}[2J"));
    }

    #[test]
    fn an_answer_of_another_version_is_shown_as_far_as_it_can_be_read() {
        let text = shown(&found(&ResolvedManifest::default(), Now::at(0)));
        assert!(text.contains("none is known yet"), "{text}");
        let none = json!({ "id": ID, "name": "", "source": "local", "providers": [] });
        let none: Ranked = serde_json::from_value(none).unwrap();
        assert!(providers(&none).contains("no provider"));
    }
}
