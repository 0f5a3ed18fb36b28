//! `gripfast pin`, `unpin` and `pins`.

use anyhow::Context as _;
use grip_web::api_types::{PinList, ResolverOrder};
use reqwest::Method;
use serde_json::json;

use crate::{
    cli::NodeRequest,
    commands::{
        client::Node,
        table::{self, BOLD, Table, counted, plain},
        when::Now,
    },
};

/// Keeps the manifest that `key` resolves to, and provides it from then on.
pub(crate) fn pin(request: &NodeRequest, key: &str) -> anyhow::Result<()> {
    order(request, "pin", key, pinned)
}

/// Lets the pins of `key` go.
pub(crate) fn unpin(request: &NodeRequest, key: &str) -> anyhow::Result<()> {
    order(request, "unpin", key, unpinned)
}

/// Lists the pins.
pub(crate) fn list(request: &NodeRequest) -> anyhow::Result<()> {
    let node = Node::new(request)?;
    let mut list: PinList = node.data(&["api", "v1", "resolve"], &[])?;
    let total = list.pins.len();
    list.pins.truncate(request.limit.unwrap_or(total));
    if request.json {
        anstream::println!("{:#}", serde_json::to_value(&list.pins)?);
    } else {
        table::print(&render(&list, total, Now::new()));
    }
    Ok(())
}

fn order(
    request: &NodeRequest,
    action: &str,
    key: &str,
    render: fn(&ResolverOrder) -> String,
) -> anyhow::Result<()> {
    let node = Node::new(request)?;
    let body = json!({ "key": key }).to_string();
    let answer = node.change_with(Method::POST, &["admin", action], body)?;
    if request.json {
        anstream::println!("{answer}");
        return Ok(());
    }
    let done: ResolverOrder = serde_json::from_str(&answer).context("the answer cannot be read")?;
    anstream::println!("{}", render(&done));
    Ok(())
}

/// "pinned b3:…": what is provided from here on.
fn pinned(done: &ResolverOrder) -> String {
    format!("{} ({})", plain(&done.outcome), plain(&done.subject))
}

fn unpinned(done: &ResolverOrder) -> String {
    let subject = plain(&done.subject);
    match done.outcome.strip_prefix("unpinned ") {
        Some("0") => format!("nothing is pinned under {subject}"),
        Some(number) => match number.parse() {
            Ok(number) => format!("unpinned {} ({subject})", counted(number, "manifest")),
            Err(_) => format!("unpinned {} ({subject})", plain(number)),
        },
        None => format!("{} ({subject})", plain(&done.outcome)),
    }
}

/// `total` are all pins, of which `list` has the first.
fn render(list: &PinList, total: usize, now: Now) -> String {
    if total == 0 {
        return "nothing is pinned; `gripfast pin <npub>/<identifier>` keeps a manifest\n"
            .to_owned();
    }
    let count = counted(total as u64, "manifest");
    let mut out = format!("{BOLD}{count} pinned{BOLD:#}\n\n");
    let mut table = Table::new(["repository", "manifest", "pinned", "by"], 0);
    for pin in &list.pins {
        table.row([
            &plain(&pin.name),
            &plain(&pin.id),
            &now.millis(pin.pinned_at),
            &plain(&pin.pinned_by),
        ]);
    }
    out.push_str(&table.render());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::table::unstyled;

    fn done(outcome: &str) -> ResolverOrder {
        ResolverOrder {
            subject: "name:npub1abc/tides\u{1b}[2J".to_owned(),
            outcome: outcome.to_owned(),
            ..ResolverOrder::default()
        }
    }

    #[test]
    fn an_order_is_told_in_words_and_without_control_characters() {
        let pinned = pinned(&done("pinned b3:00ff"));
        assert!(
            pinned.starts_with("pinned b3:00ff (name:npub1abc/tides"),
            "{pinned}"
        );
        assert!(!pinned.contains('\u{1b}'));
        assert!(unpinned(&done("unpinned 0")).starts_with("nothing is pinned under name:npub1abc"));
        assert!(unpinned(&done("unpinned 1")).starts_with("unpinned 1 manifest ("));
        assert!(unpinned(&done("unpinned 2")).starts_with("unpinned 2 manifests ("));
    }

    #[test]
    fn pins_are_listed_with_who_pinned_them_and_when() {
        let list: PinList = serde_json::from_value(json!({ "pins": [
            { "id": "b3:00ff", "name": "npub1abc/tides", "pinned_by": "token", "pinned_at": 1_763_000_000_000_i64 },
        ]}))
        .unwrap();
        let text = unstyled(&render(&list, 1, Now::at(1_763_000_120)));
        for part in ["1 manifest pinned", "npub1abc/tides", "b3:00ff", "token"] {
            assert!(text.contains(part), "{text}");
        }
        let some = unstyled(&render(&list, 7, Now::at(1_763_000_120)));
        assert!(some.contains("7 manifests pinned"), "{some}");
        assert!(render(&PinList::default(), 0, Now::at(0)).contains("nothing is pinned"));
    }
}
