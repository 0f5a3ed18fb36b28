//! `gripfast config`: the effective configuration and its sources.

use anstyle::Style;
use serde_json::{Value as Json, json};

use crate::{
    cli::NodeRequest,
    commands::table::{BOLD, DIM, YELLOW},
    config::{
        self, Loaded, Opt, ProcessEnvironment, Source, docs,
        options::{self, GROUPS},
    },
};

/// Prints the effective configuration.
pub(crate) fn run(request: &NodeRequest, docs: Option<&str>) -> anyhow::Result<()> {
    if let Some(name) = docs {
        let is_reference = name == "reference";
        let make = if is_reference {
            docs::markdown
        } else {
            docs::example
        };
        anstream::print!("{}", make());
        return Ok(());
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

fn shown(option: &Opt, loaded: &Loaded) -> Option<String> {
    let text = loaded.values[option.key].text.as_deref()?;
    Some(option.shown(text))
}

fn as_table(loaded: &Loaded) -> String {
    let mut out = String::new();
    for group in GROUPS {
        let options = group.options.iter().filter(|o| o.has_effect).collect();
        section(&mut out, group.title, loaded, options);
    }
    let is_idle = |o: &&Opt| !o.has_effect && o.meaningless.is_none();
    let idle = options::all().filter(is_idle).collect();
    section(&mut out, "Accepted, has no effect yet", loaded, idle);
    let meaningless = options::all().filter(|o| o.meaningless.is_some());
    let meaningless = meaningless.collect();
    section(
        &mut out,
        "Accepted, means nothing here",
        loaded,
        meaningless,
    );
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
    let text = |o: &&Opt| shown(o, loaded).unwrap_or_else(|| "–".into());
    let texts: Vec<_> = options.iter().map(text).collect();
    let text_width = texts.iter().map(|t| t.chars().count()).max().unwrap_or(0);
    for (option, text) in options.iter().zip(texts) {
        let (key, value) = (option.key, &loaded.values[option.key]);
        let is_default = value.source.is_default();
        let style = if is_default { DIM } else { Style::new() };
        let source = match (&value.text, &value.source) {
            (None, Source::Default) => "not set".to_owned(),
            (_, source) => source.to_string(),
        };
        out.push_str(&format!(
            "  {key:key_width$}  {text:text_width$}  {style}{source}{style:#}\n"
        ));
    }
}

fn as_json(loaded: &Loaded) -> Json {
    let options = options::all().map(|option| {
        json!({
            "key": option.key,
            "value": shown(option, loaded),
            "source": loaded.values[option.key].source,
            "has_effect": option.has_effect,
            "live": option.live,
        })
    });
    json!({ "options": options.collect::<Vec<_>>(), "warnings": loaded.warnings })
}
