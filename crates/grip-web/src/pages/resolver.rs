//! A name or a digest, looked up for people.

use askama::Template;

use super::{CounterView, Frame};

#[derive(Template)]
#[template(path = "resolver.html")]
pub(crate) struct ResolverPage {
    pub(crate) frame: Frame,
    /// What was asked for, to be asked again.
    pub(crate) key: String,
    pub(crate) is_fresh: bool,
    /// Why there is no answer.
    pub(crate) trouble: Option<Trouble>,
    pub(crate) found: Option<Found>,
    /// None where the network is off.
    pub(crate) network: Option<Network>,
    pub(crate) counters: Vec<CounterView>,
}

pub(crate) struct Trouble {
    pub(crate) title: &'static str,
    pub(crate) why: String,
}

/// An answer.
pub(crate) struct Found {
    pub(crate) title: String,
    pub(crate) description: String,
    pub(crate) name: String,
    pub(crate) id: String,
    /// The answer for programs.
    pub(crate) href: String,
    pub(crate) signed: String,
    pub(crate) state: String,
    pub(crate) how: String,
    pub(crate) providers: Vec<ProviderLine>,
}

pub(crate) struct ProviderLine {
    pub(crate) url: String,
    pub(crate) named_by: String,
    pub(crate) badge: Option<&'static str>,
    pub(crate) score: String,
}

/// The network as it looks from here.
pub(crate) struct Network {
    pub(crate) peer: String,
    pub(crate) listening: Vec<String>,
    pub(crate) is_alone: bool,
}
