//! The stylesheet and the script of all pages: kept by browsers until they change.

use std::sync::LazyLock;

use http::{StatusCode, header};

use crate::{
    etag::ETag,
    request_context::{HttpResult, RequestContext},
    respond::{self, WithHeader as _},
};

/// A file that is part of the program.
pub(super) struct Asset {
    name: &'static str,
    content_type: &'static str,
    text: &'static str,
    version: LazyLock<String>,
}

pub(super) static STYLE: Asset = Asset {
    name: "style.css",
    content_type: "text/css; charset=utf-8",
    text: include_str!("../../templates/style.css"),
    version: LazyLock::new(|| version(include_str!("../../templates/style.css"))),
};

pub(super) static SCRIPT: Asset = Asset {
    name: "script.js",
    content_type: "text/javascript; charset=utf-8",
    text: include_str!("../../templates/script.js"),
    version: LazyLock::new(|| version(include_str!("../../templates/script.js"))),
};

/// A name for one text, so that a new one has another address.
fn version(text: &str) -> String {
    ETag::digest([text.as_bytes()])
}

impl Asset {
    /// Its address below `root`, which changes with its text.
    pub(super) fn href(&self, root: &str) -> String {
        format!("{root}{}?v={}", self.name, *self.version)
    }

    fn response(&self) -> HttpResult {
        let response = respond::typed(StatusCode::OK, self.content_type, self.text);
        Ok(response.with(header::CACHE_CONTROL, respond::FOREVER))
    }
}

pub(crate) fn style(_: &RequestContext<'_>) -> HttpResult {
    STYLE.response()
}

pub(crate) fn script(_: &RequestContext<'_>) -> HttpResult {
    SCRIPT.response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn style_and_script_are_small_and_load_nothing() {
        assert!(STYLE.text.len() + SCRIPT.text.len() < 100_000);
        for text in [STYLE.text, SCRIPT.text] {
            assert!(!text.contains("http") && !text.contains("@import") && !text.contains("url("));
        }
        assert!(STYLE.text.contains("prefers-color-scheme: dark"));
        assert_ne!(*STYLE.version, *SCRIPT.version);
    }
}
