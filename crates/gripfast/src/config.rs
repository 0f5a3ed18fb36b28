//! One table of options, four layers of values, one typed result.
//!
//! [`table::OPTIONS`] is the single source: flags, environment names, `--help`,
//! `docs/configuration.md` and `gripfast.example.toml` are all made from it. [`load`] lays flags
//! over the environment over `.env` over `gripfast.toml` over defaults and remembers where each
//! value came from; [`Settings`] is what the rest of the program sees.
//!
//! Invariant: nothing in here reads the process environment or a file but through
//! [`Surroundings`], so tests touch neither.

pub(crate) mod docs;
mod dotenv;
mod file;
mod github;
mod layers;
mod option;
mod parse;
mod resolve;
mod settings;
mod suggest;
mod surroundings;
pub(crate) mod table;
mod watched;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use github::Owner as GithubOwner;
pub(crate) use layers::{Flags, Loaded, Source, Value, load};
pub(crate) use option::{Group, Kind, Opt, Reload, Status};
pub(crate) use parse::name as parse_name;
pub(crate) use resolve::service_at;
pub(crate) use settings::{
    DatabasePlace, GithubHost, LogFormat, Network as NetworkSettings, Resolve as ResolveSettings,
    Settings, Sync as SyncSettings, Timeouts, Watch as WatchSettings,
};
pub(crate) use surroundings::{Process, Surroundings};

/// Why the configuration cannot be used; one sentence per mistake.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub(crate) struct Invalid(pub(crate) Vec<String>);
