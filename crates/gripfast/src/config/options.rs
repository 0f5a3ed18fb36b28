//! Every option, a file for each group, in the order in which people meet them.

mod about;
mod acceptance;
mod archive;
mod discovery;
mod index;
mod limits;
mod logs;
mod reach;
mod storage;
mod sync;
mod timeouts;
mod watch;

use self::archive::Archive;
pub(crate) use self::{
    about::About, acceptance::Acceptance, discovery::Discovery, index::Index, limits::Limits,
    logs::Logs, reach::Reach, storage::Storage, sync::Sync, timeouts::Timeouts, watch::Watch,
};
use super::{Opt, Values};

/// A section of help, reference and example.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) title: &'static str,
    options: &'static [Opt],
    without_effect: &'static [Opt],
}

impl Group {
    pub(crate) fn options(&self) -> impl Iterator<Item = &'static Opt> {
        self.options.iter().chain(self.without_effect)
    }
}

macro_rules! groups {
    ($($group:ident),*) => {
        &[$(Group {
            title: $group::TITLE,
            options: $group::OPTIONS,
            without_effect: $group::WITHOUT_EFFECT,
        }),*]
    };
}

pub(crate) static GROUPS: &[Group] = groups!(
    Reach, Storage, About, Acceptance, Limits, Timeouts, Logs, Archive, Sync, Index, Watch,
    Discovery
);

/// Every option.
pub(crate) fn all() -> impl Iterator<Item = &'static Opt> {
    GROUPS.iter().flat_map(Group::options)
}

/// The option with this key.
pub(crate) fn find(key: &str) -> Option<&'static Opt> {
    all().find(|option| option.key == key)
}

/// The typed value of every option; what follows from several of them are methods.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) reach: Reach,
    pub(crate) storage: Storage,
    pub(crate) about: About,
    pub(crate) acceptance: Acceptance,
    pub(crate) limits: Limits,
    pub(crate) timeouts: Timeouts,
    pub(crate) logs: Logs,
    pub(crate) sync: Sync,
    pub(crate) index: Index,
    pub(crate) watch: Watch,
    pub(crate) discovery: Discovery,
}

impl Settings {
    /// Takes values that were checked.
    pub(crate) fn read(values: &Values) -> Self {
        Self {
            reach: Reach::read(values),
            storage: Storage::read(values),
            about: About::read(values),
            acceptance: Acceptance::read(values),
            limits: Limits::read(values),
            timeouts: Timeouts::read(values),
            logs: Logs::read(values),
            sync: Sync::read(values),
            index: Index::read(values),
            watch: Watch::read(values),
            discovery: Discovery::read(values),
        }
    }
}
