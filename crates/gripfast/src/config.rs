//! Configuration: a table of options, the sources of their values, typed settings.
//!
//! An option is declared once, in [`options`]: flags, environment names, `--help`,
//! `docs/configuration.md`, `gripfast.example.toml` and the field of [`Settings`] are made from
//! that. [`load()`] lays flags over the environment over `.env` over `gripfast.toml` over defaults
//! and remembers the source of each value.
//!
//! Invariant: nothing in here reads the process environment or a file but through
//! [`Environment`], so tests touch neither.

pub(crate) mod docs;
mod dotenv;
mod environment;
mod kinds;
mod load;
mod option;
pub(crate) mod options;
mod settings;
mod toml_file;
mod values;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use self::{
    environment::{Environment, ProcessEnvironment},
    kinds::{
        DatabasePlace, LogFormat, MAX_EVENT_BYTES, SecretText, Shape, Watched,
        node_name as parse_node_name,
    },
    load::{Flags, Loaded, load},
    option::Opt,
    options::Settings,
    settings::{GithubHost, local_url, origin_of, service_at},
    values::{Source, Value, Values},
};

/// Why the configuration cannot be used; one sentence per mistake.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub(crate) struct ConfigError(pub(crate) Vec<String>);
