//! An explanation as a page for people. Reads the JSON leniently: an older command shows what a
//! newer node says, field by field, in the order in which the node gave it.

use anstyle::Style;
use serde_json::Value as Json;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

/// Lays the explanation out as indented lines.
pub(super) fn explanation(answer: &Json) -> String {
    let mut out = String::new();
    fields(&mut out, answer, 0);
    out
}

fn fields(out: &mut String, value: &Json, depth: usize) {
    let indent = "  ".repeat(depth);
    match value {
        Json::Object(map) => {
            let width = map
                .iter()
                .filter(|(_, v)| is_short(v))
                .map(|(k, _)| k.chars().count())
                .max()
                .unwrap_or(0);
            for (key, value) in map.iter().filter(|(_, v)| !is_empty(v)) {
                let label = key.replace('_', " ");
                if is_short(value) {
                    out.push_str(&format!(
                        "{indent}{BOLD}{label:width$}{BOLD:#}  {}\n",
                        short(value)
                    ));
                } else {
                    out.push_str(&format!("{indent}{BOLD}{label}{BOLD:#}\n"));
                    fields(out, value, depth + 1);
                }
            }
        }
        Json::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                if is_short(item) {
                    out.push_str(&format!(
                        "{indent}{DIM}{}.{DIM:#} {}\n",
                        index + 1,
                        short(item)
                    ));
                } else if let Some(line) = one_line(item) {
                    out.push_str(&format!("{indent}{DIM}{}.{DIM:#} {line}\n", index + 1));
                } else {
                    out.push_str(&format!("{indent}{DIM}{}.{DIM:#}\n", index + 1));
                    fields(out, item, depth + 1);
                }
            }
        }
        other => out.push_str(&format!("{indent}{}\n", short(other))),
    }
}

/// A flat object as `a · b · c`.
fn one_line(item: &Json) -> Option<String> {
    let map = item.as_object()?;
    let parts: Vec<_> = map.values().filter(|v| !is_empty(v)).collect();
    parts.iter().all(|v| is_short(v)).then(|| {
        parts
            .iter()
            .map(|v| short(v))
            .collect::<Vec<_>>()
            .join(" · ")
    })
}

fn is_empty(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::Array(items) => items.is_empty(),
        Json::Object(map) => map.is_empty(),
        _ => false,
    }
}

fn is_short(value: &Json) -> bool {
    !matches!(value, Json::Array(_) | Json::Object(_))
}

fn short(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        Json::Bool(true) => "yes".to_owned(),
        Json::Bool(false) => "no".to_owned(),
        other => other.to_string(),
    }
}
