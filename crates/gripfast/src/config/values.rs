//! The effective value of every option, and where it came from.

use std::{collections::BTreeMap, fmt, ops::Index, path::PathBuf};

use serde::Serialize;

use super::{Opt, kinds::Kind, options};

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Source {
    Flag {
        name: String,
    },
    Environment {
        name: String,
    },
    File {
        path: PathBuf,
        line: usize,
    },
    Credential {
        path: PathBuf,
    },
    Default,
    /// Follows from other settings.
    Derived {
        how: &'static str,
    },
}

impl Source {
    /// Says whether nobody gave the value.
    pub(crate) fn is_default(&self) -> bool {
        matches!(self, Self::Default | Self::Derived { .. })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag { name } => write!(f, "flag {name}"),
            Self::Environment { name } => write!(f, "environment {name}"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Credential { path } => write!(f, "{}", path.display()),
            Self::Default => f.write_str("default"),
            Self::Derived { how } => write!(f, "default: {how}"),
        }
    }
}

/// One effective value. `text` is `None` where nothing is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) text: Option<String>,
    pub(crate) source: Source,
}

impl Value {
    /// What counts where nobody gives a value.
    fn default_of(option: &Opt) -> Self {
        Self {
            text: option.default.map(str::to_owned),
            source: option
                .derived
                .map_or(Source::Default, |how| Source::Derived { how }),
        }
    }
}

/// Every option by its key.
#[derive(Clone, Debug)]
pub(crate) struct Values(BTreeMap<&'static str, Value>);

impl Values {
    /// The values given, and defaults for all other options.
    pub(super) fn over_defaults(mut given: BTreeMap<&'static str, Value>) -> Self {
        let mut value =
            |o: &'static Opt| given.remove(o.key).unwrap_or_else(|| Value::default_of(o));
        Self(options::all().map(|o| (o.key, value(o))).collect())
    }

    /// The values that `choose` takes for each option.
    pub(crate) fn choose<'a>(choose: impl Fn(&Opt) -> &'a Self) -> Self {
        let value = |o: &'static Opt| choose(o)[o.key].clone();
        Self(options::all().map(|o| (o.key, value(o))).collect())
    }

    pub(super) fn set(&mut self, key: &'static str, text: String, source: Source) {
        let text = Some(text);
        self.0.insert(key, Value { text, source });
    }

    /// The typed value of an option; a derived one is not read back but derived again.
    pub(super) fn read<K: Kind>(&self, key: &str) -> K::Value {
        let Value { text, source } = &self[key];
        let is_derived = matches!(source, Source::Derived { .. });
        let text = text.as_deref().filter(|_| !is_derived).unwrap_or_default();
        K::parse(text).expect("a value was checked, or is optional or a list and was not given")
    }
}

impl Index<&str> for Values {
    type Output = Value;

    fn index(&self, key: &str) -> &Value {
        self.0.get(key).expect("every option has a value")
    }
}
