//! Markdown as safe HTML.
//!
//! The text is parsed, its links are led to where they belong, and the result goes through a
//! sanitiser that knows HTML as browsers do. Pictures from elsewhere become links: a page loads
//! nothing from other hosts, and so tells them nothing of its visitors.

use std::{borrow::Cow, collections::HashSet};

use ammonia::{Builder, UrlRelative};
use pulldown_cmark::{CodeBlockKind, CowStr, Event, Options, Parser, Tag, TagEnd, html};

use crate::{escape, highlight};

/// Largest text that is rendered; of larger ones the beginning is.
const MAX_BYTES: usize = 256 << 10;
/// Elements within each other; those deeper are left out, their text is not.
const MAX_DEPTH: usize = 64;
/// Tags of raw HTML. Formatting that is never closed is opened again in every paragraph, so that
/// the size of the result grows with the square of this.
const MAX_RAW_TAGS: usize = 600;
/// What the names of headings begin with, so that none is mistaken for one of the page's own.
const ID_PREFIX: &str = "md-";

/// Where the relative links of a text lead.
pub trait Links {
    /// The address of the page of a relative path.
    fn page(&self, path: &str) -> Option<String>;

    /// The address of the bytes of a relative path, for pictures.
    fn raw(&self, path: &str) -> Option<String>;
}

/// A text without a place of its own, such as a comment: relative links lead nowhere.
pub struct Nowhere;

impl Links for Nowhere {
    fn page(&self, _: &str) -> Option<String> {
        None
    }

    fn raw(&self, _: &str) -> Option<String> {
        None
    }
}

/// Renders a text.
pub fn render(text: &str, links: impl Links + Send + Sync + 'static) -> String {
    let text = beginning(text);
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_GFM;
    let allows_raw = raw_tags(text, options) <= MAX_RAW_TAGS;
    let events = Rewriter::new(Parser::new_ext(text, options), allows_raw);
    let mut unsafe_html = String::with_capacity(text.len() * 3 / 2);
    html::push_html(&mut unsafe_html, events);
    // Columns are aligned by a style, which the policy of pages forbids.
    for side in ["left", "center", "right"] {
        let style = format!(" style=\"text-align: {side}\"");
        unsafe_html = unsafe_html.replace(&style, &format!(" align=\"{side}\""));
    }
    sanitiser(links).clean(&unsafe_html).to_string()
}

fn beginning(text: &str) -> &str {
    let end = text.floor_char_boundary(MAX_BYTES.min(text.len()));
    &text[..end]
}

fn raw_tags(text: &str, options: Options) -> usize {
    let events = Parser::new_ext(text, options);
    let raw = events.map(|event| match event {
        Event::Html(raw) | Event::InlineHtml(raw) => raw.matches('<').count(),
        _ => 0,
    });
    raw.sum()
}

/// Changes events on their way to HTML.
struct Rewriter<'a> {
    events: Parser<'a>,
    allows_raw: bool,
    depth: usize,
    /// The language and text of the code block under way.
    code: Option<(String, String)>,
    /// The text of the heading under way, and its events.
    heading: Option<(String, Vec<Event<'a>>)>,
    ready: std::vec::IntoIter<Event<'a>>,
    ids: HashSet<String>,
    /// The pictures under way, and whether each is from elsewhere and so a link here.
    images: Vec<bool>,
}

impl<'a> Rewriter<'a> {
    fn new(events: Parser<'a>, allows_raw: bool) -> Self {
        Self {
            events,
            allows_raw,
            depth: 0,
            code: None,
            heading: None,
            ready: Vec::new().into_iter(),
            ids: HashSet::new(),
            images: Vec::new(),
        }
    }

    /// A name for a heading, as GitHub makes them, so that links to it work in both places.
    fn id(&mut self, text: &str) -> String {
        let kept = text.chars().take(100).filter_map(|c| match c {
            ' ' | '-' => Some('-'),
            '_' => Some('_'),
            c if c.is_alphanumeric() => c.to_lowercase().next(),
            _ => None,
        });
        let base: String = kept.collect();
        let mut id = base.clone();
        let mut count = 0;
        while !self.ids.insert(id.clone()) {
            count += 1;
            id = format!("{base}-{count}");
        }
        id
    }

    /// The event as it goes on; `None` if it does not.
    fn change(&mut self, event: Event<'a>) -> Option<Event<'a>> {
        match event {
            Event::Start(Tag::CodeBlock(kind)) => {
                let language = match kind {
                    CodeBlockKind::Fenced(info) => {
                        let word = info.split([' ', ',', '{']).next();
                        word.unwrap_or("").to_owned()
                    }
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new()));
                None
            }
            Event::End(TagEnd::CodeBlock) => {
                let (language, text) = self.code.take()?;
                let code = highlight::code(&language, &text);
                Some(Event::Html(
                    format!("<pre><code>{code}</code></pre>").into(),
                ))
            }
            Event::Start(Tag::Image {
                link_type,
                dest_url,
                title,
                id,
            }) => {
                let is_foreign = is_absolute(&dest_url);
                self.images.push(is_foreign);
                Some(Event::Start(if is_foreign {
                    Tag::Link {
                        link_type,
                        dest_url,
                        title,
                        id,
                    }
                } else {
                    Tag::Image {
                        link_type,
                        dest_url,
                        title,
                        id,
                    }
                }))
            }
            Event::End(TagEnd::Image) => {
                let is_foreign = self.images.pop().unwrap_or(false);
                let end = if is_foreign {
                    TagEnd::Link
                } else {
                    TagEnd::Image
                };
                Some(Event::End(end))
            }
            Event::Html(raw) | Event::InlineHtml(raw) if !self.allows_raw => Some(Event::Text(raw)),
            Event::Start(_) => {
                self.depth += 1;
                (self.depth <= MAX_DEPTH).then_some(event)
            }
            Event::End(_) => {
                self.depth = self.depth.saturating_sub(1);
                (self.depth < MAX_DEPTH).then_some(event)
            }
            other => Some(other),
        }
    }

    /// Gathers a heading, whose name is known at its end.
    fn gather(&mut self, event: Event<'a>) -> Option<Event<'a>> {
        match (&mut self.heading, event) {
            (None, event @ Event::Start(Tag::Heading { .. })) => {
                self.heading = Some((String::new(), vec![event]));
                None
            }
            (Some((text, events)), event) => {
                if let Event::Text(part) | Event::Code(part) = &event {
                    text.push_str(part);
                }
                let is_end = matches!(event, Event::End(TagEnd::Heading(_)));
                events.push(event);
                if is_end {
                    let (text, mut events) = self.heading.take()?;
                    let name = self.id(&text);
                    if let Some(Event::Start(Tag::Heading { id, .. })) = events.first_mut() {
                        *id = Some(CowStr::from(name));
                    }
                    self.ready = events.into_iter();
                    return self.ready.next();
                }
                None
            }
            (None, event) => Some(event),
        }
    }
}

impl<'a> Iterator for Rewriter<'a> {
    type Item = Event<'a>;

    fn next(&mut self) -> Option<Event<'a>> {
        loop {
            if let Some(event) = self.ready.next() {
                return Some(event);
            }
            let Some(event) = self.events.next() else {
                // A heading that never ended is shown as far as it came.
                let (_, events) = self.heading.take()?;
                self.ready = events.into_iter();
                continue;
            };
            if let (Some((_, code)), Event::Text(text)) = (&mut self.code, &event) {
                code.push_str(text);
                continue;
            }
            if let Some(event) = self.change(event)
                && let Some(event) = self.gather(event)
            {
                return Some(event);
            }
        }
    }
}

/// Whether a link leads to another host.
fn is_absolute(url: &str) -> bool {
    let scheme = url.split(['/', '?', '#']).next().unwrap_or("");
    scheme.contains(':') || url.starts_with("//")
}

fn sanitiser(links: impl Links + Send + Sync + 'static) -> Builder<'static> {
    let mut builder = Builder::default();
    builder
        .add_tags(["input", "section"])
        .add_tag_attributes("input", ["type", "checked", "disabled"])
        .set_tag_attribute_value("input", "aria-label", "Task")
        .add_tag_attributes("th", ["align"])
        .add_tag_attributes("td", ["align"])
        .add_tag_attributes("p", ["align"])
        .add_tag_attributes("div", ["align"])
        .add_tag_attributes("img", ["loading"])
        .set_tag_attribute_value("img", "loading", "lazy")
        .add_generic_attributes(["id"])
        .id_prefix(Some(ID_PREFIX))
        .add_allowed_classes(
            "span",
            ["h-c", "h-e", "h-s", "h-n", "h-k", "h-f", "h-t", "h-d"],
        )
        .url_schemes(HashSet::from(["http", "https", "mailto", "nostr"]))
        .url_relative(UrlRelative::PassThrough)
        .link_rel(Some("nofollow noreferrer ugc"))
        .attribute_filter(move |element, attribute, value| {
            filter(&links, element, attribute, value)
        });
    builder
}

/// The value of an attribute as it goes to the page; `None` removes it.
fn filter<'v>(
    links: &impl Links,
    element: &str,
    attribute: &str,
    value: &'v str,
) -> Option<Cow<'v, str>> {
    match (element, attribute) {
        ("input", "type") => (value == "checkbox").then_some(value.into()),
        ("img", "src") if is_absolute(value) => None,
        ("img", "src") => links.raw(value).map(Cow::from),
        (_, "cite") => None,
        (_, "href") => match value.strip_prefix('#') {
            Some(name) => Some(format!("#{ID_PREFIX}{name}").into()),
            None if is_absolute(value) => Some(value.into()),
            None => links.page(value).map(Cow::from),
        },
        _ => Some(value.into()),
    }
}

/// A text that is no Markdown, with its lines as they are.
pub fn plain(text: &str) -> String {
    let mut html = String::from("<pre>");
    escape(&mut html, beginning(text));
    html.push_str("</pre>");
    html
}

#[cfg(test)]
mod tests;
