#![doc = include_str!("../README.md")]

pub mod activity;
pub mod catalog;
pub mod conversation;
pub mod diff;
pub mod highlight;
pub mod markdown;
mod profile;
mod query;

pub use profile::{Profile, profiles};

/// Appends `text` as the text of an element or an attribute.
pub(crate) fn escape(html: &mut String, text: &str) {
    // Writing to a string cannot fail.
    let _ = pulldown_cmark_escape::escape_html(html, text);
}
