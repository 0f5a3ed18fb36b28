//! Flags over environment over `.env` over `gripfast.toml` over defaults.

use std::{
    collections::BTreeMap,
    fmt, io,
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::{
    Invalid, Opt, Settings, Status, Surroundings, dotenv, file,
    option::Default as OptDefault,
    parse, suggest,
    table::{OPTIONS, find},
};

const DOTENV: &str = ".env";
const CONFIG_FILE: &str = "gripfast.toml";
/// Names with our prefixes that are no options: where the file is, and what tests and the clients
/// of the same family use.
const OTHER_NAMES: &[&str] = &[
    "GRIPFAST_CONFIG",
    "GRIPFAST_CRASH_KILLS",
    "GRIPFAST_FAULT",
    "GRIPFAST_FIXTURES_DIR",
    "GRIPFAST_MEMORY_MIB",
    "GRIPFAST_NGIT_DIR",
    "NGIT_GRASP_DEFAULT_SET",
    "NGIT_RELAY_DEFAULT_SET",
];

/// What the command line says: key to text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags {
    pub(crate) values: BTreeMap<&'static str, String>,
    /// `--config`.
    pub(crate) config_file: Option<PathBuf>,
}

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

/// The whole configuration: typed settings, and where everything came from.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) settings: Settings,
    pub(crate) values: BTreeMap<&'static str, Value>,
    /// What the operator should know and that stops nothing.
    pub(crate) warnings: Vec<String>,
}

/// Lays the layers over each other and checks every value.
pub(crate) fn load(flags: &Flags, around: &dyn Surroundings) -> Result<Loaded, Invalid> {
    let mut layers = Layers::default();
    layers.read_file(flags, around);
    layers.read_dotenv(around);
    let environment = around.variables();
    layers.read_environment(&environment);
    layers.read_flags(flags);
    layers.warn_of_idle_options();
    let Layers {
        mut given,
        mut warnings,
        mut mistakes,
    } = layers;
    given.retain(|key, value| {
        let option = find(key).expect("only keys of the table are collected");
        let text = value.text.as_deref().unwrap_or_default();
        let complaint = parse::check(option.kind, text).err();
        mistakes.extend(complaint.as_ref().map(|c| sentence(option, value, c)));
        complaint.is_none()
    });
    let mut values: BTreeMap<_, _> = OPTIONS
        .iter()
        .map(|o| (o.key, given.remove(o.key).unwrap_or_else(|| default_of(o))))
        .collect();
    let settings = Settings::resolve(&mut values, around, &mut warnings, &mut mistakes);
    if mistakes.is_empty() {
        Ok(Loaded {
            settings,
            values,
            warnings,
        })
    } else {
        Err(Invalid(mistakes))
    }
}

fn default_of(option: &Opt) -> Value {
    match option.default {
        OptDefault::Value(text) => Value {
            text: Some(text.to_owned()),
            source: Source::Default,
        },
        OptDefault::Derived(how) => Value {
            text: None,
            source: Source::Derived { how },
        },
        OptDefault::Unset => Value {
            text: None,
            source: Source::Default,
        },
    }
}

/// "gripfast.toml:3: bind_address = "x" is no IP:PORT …"
pub(crate) fn sentence(option: &Opt, value: &Value, complaint: &str) -> String {
    let shown = match &value.text {
        Some(_) if option.is_secret() => "the value given".to_owned(),
        Some(text) => format!("`{text}`"),
        None => "the value".to_owned(),
    };
    format!("{}: {} — {shown} {complaint}", value.source, option.key)
}

#[derive(Default)]
struct Layers {
    given: BTreeMap<&'static str, Value>,
    warnings: Vec<String>,
    mistakes: Vec<String>,
}

impl Layers {
    /// An empty value is the same as none: units and Nix modules write `KEY=` for "not set".
    fn put(&mut self, option: &'static Opt, text: &str, source: Source) {
        let text = text.trim();
        if !text.is_empty() {
            self.given.insert(
                option.key,
                Value {
                    text: Some(text.to_owned()),
                    source,
                },
            );
        }
    }

    fn read_file(&mut self, flags: &Flags, around: &dyn Surroundings) {
        let named = flags.config_file.clone().or_else(|| {
            let variables = around.variables();
            let found = variables
                .into_iter()
                .find(|(name, _)| name == "GRIPFAST_CONFIG");
            found
                .map(|(_, path)| path)
                .filter(|path| !path.is_empty())
                .map(PathBuf::from)
        });
        let path = named.clone().unwrap_or_else(|| PathBuf::from(CONFIG_FILE));
        let text = match around.read(&path) {
            Ok(text) => text,
            // A file that was asked for must be there; the usual one need not.
            Err(error) if error.kind() == io::ErrorKind::NotFound && named.is_none() => return,
            Err(error) => {
                self.mistakes
                    .push(format!("{}: cannot be read: {error}", path.display()));
                return;
            }
        };
        match file::parse(&text) {
            Ok(entries) => entries
                .into_iter()
                .for_each(|entry| self.take_entry(&path, entry)),
            Err((line, message)) => {
                self.mistakes
                    .push(format!("{}:{line}: is no TOML: {message}", path.display()));
            }
        }
    }

    fn take_entry(&mut self, path: &Path, entry: file::Entry) {
        let source = Source::File {
            path: path.to_owned(),
            line: entry.line,
        };
        let key = entry.key.replace('-', "_");
        match (find(&key), entry.value) {
            (Some(option), Some(text)) if option.kind.takes(entry.shape) => {
                self.put(option, &text, source);
            }
            (Some(_), _) => {
                let shape = entry.shape;
                self.mistakes
                    .push(format!("{source}: {key} cannot be of type {shape}"));
            }
            (None, _) => {
                let hint = suggest::hint(&key, OPTIONS.iter().map(|o| o.key));
                self.warnings.push(format!(
                    "{source}: {} is no setting of gripfast{hint}",
                    entry.key
                ));
            }
        }
    }

    fn read_dotenv(&mut self, around: &dyn Surroundings) {
        let text = match around.read(Path::new(DOTENV)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => {
                self.warnings
                    .push(format!("{DOTENV}: cannot be read: {error}"));
                return;
            }
        };
        let (assignments, unreadable) = dotenv::parse(&text);
        for line in unreadable {
            self.warnings
                .push(format!("{DOTENV}:{line}: is no KEY=value line"));
        }
        let found: Vec<_> = assignments
            .iter()
            .map(|a| {
                (
                    a.name.as_str(),
                    a.value.as_str(),
                    Source::File {
                        path: DOTENV.into(),
                        line: a.line,
                    },
                )
            })
            .collect();
        self.read_variables(&found);
    }

    fn read_environment(&mut self, environment: &[(String, String)]) {
        let found: Vec<_> = environment
            .iter()
            .map(|(name, value)| {
                (
                    name.as_str(),
                    value.as_str(),
                    Source::Environment { name: name.clone() },
                )
            })
            .collect();
        self.read_variables(&found);
    }

    /// Takes the strongest name of each option and warns of names nobody knows.
    fn read_variables(&mut self, variables: &[(&str, &str, Source)]) {
        for option in OPTIONS {
            let names = option.env_names();
            let mut set = names.iter().filter_map(|name| {
                variables
                    .iter()
                    .rev()
                    .find(|(n, value, _)| n == name && !value.trim().is_empty())
            });
            let Some((name, text, source)) = set.next() else {
                continue;
            };
            for (weaker, ..) in set.filter(|(_, other, _)| other.trim() != text.trim()) {
                self.warnings
                    .push(format!("{weaker} is set too, but {name} counts"));
            }
            self.put(option, text, source.clone());
        }
        let names: Vec<_> = OPTIONS.iter().flat_map(Opt::env_names).collect();
        for (name, _, source) in variables {
            let ours = name.starts_with("NGIT_") || name.starts_with("GRIPFAST_");
            let known = names.iter().any(|n| n == name) || OTHER_NAMES.contains(name);
            if ours && !known {
                let hint = suggest::hint(name, names.iter().map(String::as_str));
                let place = match source {
                    Source::File { .. } => format!("{source}: {name}"),
                    _ => format!("the environment variable {name}"),
                };
                self.warnings
                    .push(format!("{place} is no setting of gripfast{hint}"));
            }
        }
    }

    fn read_flags(&mut self, flags: &Flags) {
        for (key, text) in &flags.values {
            let option = find(key).expect("flags are made from the table");
            self.put(
                option,
                text,
                Source::Flag {
                    name: format!("--{}", option.flag()),
                },
            );
        }
    }

    fn warn_of_idle_options(&mut self) {
        for (key, value) in &self.given {
            let option = find(key).expect("only keys of the table are collected");
            let changed = match option.default {
                OptDefault::Value(default) => value.text.as_deref() != Some(default),
                _ => true,
            };
            if option.status == Status::NoEffectYet && changed {
                let source = &value.source;
                self.warnings
                    .push(format!("{source}: {key} is accepted but has no effect yet"));
            }
        }
    }
}
