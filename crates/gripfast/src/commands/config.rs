//! `gripfast config`: the effective configuration and its sources.

use anstyle::Style;
use anyhow::Context as _;
use reqwest::Method;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    cli::NodeRequest,
    commands::{
        client::Node,
        table::{BOLD, DIM, Table, YELLOW, plain},
    },
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
        anstream::println!("{:#}", loaded.to_json());
    } else {
        anstream::print!("{}", as_table(&loaded));
        for warning in &loaded.warnings {
            anstream::eprintln!("{YELLOW}warning:{YELLOW:#} {warning}");
        }
    }
    Ok(())
}

/// Prints the configuration that the running node uses.
pub(crate) fn run_service(request: &NodeRequest) -> anyhow::Result<()> {
    let node = Node::new(request)?;
    let answer = node.change(Method::GET, &["api", "v1", "config"], &[])?;
    let config: ServiceConfig = serde_json::from_str(&answer)
        .with_context(|| format!("{} gave a response that cannot be read", node.name()))?;
    if request.json {
        anstream::println!("{:#}", serde_json::from_str::<Value>(&answer)?);
        return Ok(());
    }
    anstream::println!("{DIM}{} uses, from{DIM:#}", node.name());
    for group in GROUPS {
        let rows = config.options.iter();
        let rows = rows.filter(|row| group.options.iter().any(|option| option.key == row.key));
        let mut table = Table::new(["option", "value", "source"], 2);
        for row in rows {
            let value = row.value.as_deref().unwrap_or("–");
            table.row([&row.key, &value, &source(&row.source)]);
        }
        anstream::print!("\n{BOLD}{}{BOLD:#}\n{}", group.title, table.render());
    }
    for warning in &config.warnings {
        anstream::eprintln!("{YELLOW}warning:{YELLOW:#} {}", plain(warning));
    }
    Ok(())
}

/// What the node says of its configuration.
#[derive(Deserialize)]
struct ServiceConfig {
    options: Vec<ServiceOption>,
    warnings: Vec<String>,
}

#[derive(Deserialize)]
struct ServiceOption {
    key: String,
    value: Option<String>,
    source: Value,
}

/// A source as the node writes it, in the words of [`Source`].
fn source(source: &Value) -> String {
    let text = |key: &str| source[key].as_str().unwrap_or_default();
    match text("kind") {
        "file" => format!("{}:{}", text("path"), source["line"]),
        "derived" => format!("default: {}", text("how")),
        "default" => "default".to_owned(),
        kind => format!("{kind} {}{}", text("name"), text("path")),
    }
}

fn shown(option: &Opt, loaded: &Loaded) -> Option<String> {
    let text = loaded.values[option.key].text.as_deref()?;
    Some(option.shown(text))
}

fn as_table(loaded: &Loaded) -> String {
    let mut out = String::new();
    for group in GROUPS {
        let options = group.options.iter().filter(|o| o.has_effect()).collect();
        section(&mut out, group.title, loaded, options);
    }
    let meaningless = options::all().filter(|o| !o.has_effect());
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
