//! The index of modules, for people.

use askama::Template;

use super::{CounterView, Frame, Notice};

#[derive(Template)]
#[template(path = "modules.html")]
pub(crate) struct ModulesPage {
    pub(crate) frame: Frame,
    pub(crate) notice: Option<Notice>,
    pub(crate) counters: Vec<CounterView>,
    /// A module to try, if one is there.
    pub(crate) example: Option<String>,
    /// Whether the go command is served.
    pub(crate) proxy: bool,
    pub(crate) versions: Vec<VersionLine>,
    pub(crate) more_versions: u64,
    pub(crate) sources: Vec<SourceView>,
}

pub(crate) struct VersionLine {
    pub(crate) path: String,
    /// The same, shorter where a key would push everything else aside.
    pub(crate) short: String,
    /// The page of its repository, if that is here.
    pub(crate) href: Option<String>,
    pub(crate) version: String,
    pub(crate) created: String,
}

pub(crate) struct SourceView {
    pub(crate) name: String,
    /// What keeps it from being listed.
    pub(crate) trouble: Option<String>,
    pub(crate) is_listing: bool,
    pub(crate) repos: String,
    pub(crate) when: String,
}
