//! `gripfast config`: the effective configuration and its sources.

use anstyle::Style;
use serde_json::{Value as Json, json};

use crate::{
    cli::NodeRequest,
    config::{
        self, Loaded, Opt, ProcessEnvironment, Source, Value, docs,
        options::{self, GROUPS},
    },
};

/// Prints the effective configuration.
pub(crate) fn run(request: &NodeRequest, docs: Option<&str>) -> anyhow::Result<()> {
    match docs {
        Some("reference") => {
            anstream::print!("{}", docs::markdown());
            return Ok(());
        }
        Some(_) => {
            anstream::print!("{}", docs::example());
            return Ok(());
        }
        None => {}
    }
    let loaded = config::load(&request.flags, &ProcessEnvironment)?;
    if request.json {
        anstream::println!("{:#}", as_json(&loaded));
    } else {
        anstream::print!("{}", as_table(&loaded));
        for warning in &loaded.warnings {
            anstream::eprintln!("{YELLOW}warning:{YELLOW:#} {warning}");
        }
    }
    Ok(())
}

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const YELLOW: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(anstyle::AnsiColor::Yellow)));

fn shown(option: &Opt, loaded: &Loaded) -> Option<String> {
    let text = loaded.values[option.key].text.as_deref()?;
    Some(option.shown(text))
}

fn as_table(loaded: &Loaded) -> String {
    let mut out = String::new();
    for group in GROUPS {
        let options = group.options().filter(|o| o.has_effect).collect();
        section(&mut out, group.title, loaded, options);
    }
    let idle = options::all().filter(|o| !o.has_effect).collect();
    section(&mut out, "Accepted, has no effect yet", loaded, idle);
    out
}

fn section(out: &mut String, title: &str, loaded: &Loaded, options: Vec<&Opt>) {
    if options.is_empty() {
        return;
    }
    if !out.is_empty() {
        out.push('\n');
    }
    out.push_str(&format!("{BOLD}{title}{BOLD:#}\n"));
    let key_width = options.iter().map(|o| o.key.len()).max().unwrap_or(0);
    let texts: Vec<_> = options
        .iter()
        .map(|o| shown(o, loaded).unwrap_or_else(|| "–".into()))
        .collect();
    let text_width = texts.iter().map(|t| t.chars().count()).max().unwrap_or(0);
    for (option, text) in options.iter().zip(texts) {
        let Value {
            text: value,
            source,
        } = &loaded.values[option.key];
        let style = if source.is_default() {
            DIM
        } else {
            Style::new()
        };
        let source = match (value, source) {
            (None, Source::Default) => "not set".to_owned(),
            _ => source.to_string(),
        };
        let key = option.key;
        out.push_str(&format!(
            "  {key:key_width$}  {text:text_width$}  {style}{source}{style:#}\n"
        ));
    }
}

fn as_json(loaded: &Loaded) -> Json {
    let options: Vec<_> = options::all()
        .map(|option| {
            json!({
                "key": option.key,
                "value": shown(option, loaded),
                "source": loaded.values[option.key].source,
                "has_effect": option.has_effect,
                "live": option.live,
            })
        })
        .collect();
    json!({ "options": options, "warnings": loaded.warnings })
}
