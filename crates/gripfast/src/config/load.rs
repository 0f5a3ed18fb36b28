//! Loading: flags over environment over `.env` over `gripfast.toml` over defaults.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use super::{
    ConfigError, Environment, Opt, Settings, Source, Value, Values,
    dotenv::{self, Variable},
    options::{self, find},
    toml_file,
};

const DOTENV: &str = ".env";
const CONFIG_FILE: &str = "gripfast.toml";
/// Where ngit-grasp kept the key it made for itself: the relay keeps its identity.
const NGIT_KEY_FILE: &str = ".relay-owner.nsec";
/// Names with our prefixes that are no options: where the file is, and what tests and the clients
/// of the same family use.
const OTHER_NAMES: &[&str] = &[
    "GRIPFAST_AUDIT_RUNS",
    "GRIPFAST_CONFIG",
    "GRIPFAST_CRASH_KILLS",
    "GRIPFAST_FAULT",
    "GRIPFAST_FIXTURES_DIR",
    "GRIPFAST_MEMORY_MIB",
    "GRIPFAST_PICTURES_DIR",
    "GRIPFAST_TOOLS_DIR",
    "NGIT_GRASP_DEFAULT_SET",
    "NGIT_RELAY_DEFAULT_SET",
    "NGIT_TEST",
    "NGIT_TEST_LISTENER_FD",
];

/// Names that documents of ngit-grasp mention and no version of it reads (S-3).
const NOWHERE: &[&str] = &[
    "NGIT_AUTH_REQUIRED",
    "NGIT_RATE_LIMIT_ENABLED",
    "NGIT_SYNC_BATCH_WINDOW_MS",
    "NGIT_SYNC_RECONNECT_DELAY_SECS",
    "NGIT_SYNC_RECONNECT_LOOKBACK_DAYS",
    "NGIT_SYNC_STARTUP_DELAY_SECS",
];

/// What the command line says: key to text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags {
    pub(crate) values: BTreeMap<&'static str, String>,
    /// `--config`.
    pub(crate) config_file: Option<PathBuf>,
}

/// The whole configuration: typed settings, and where everything came from.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) settings: Settings,
    pub(crate) values: Values,
    /// What the operator should know and that stops nothing.
    pub(crate) warnings: Vec<String>,
}

impl Loaded {
    /// Every option with its value and its source, secrets masked.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let options = options::all().map(|option| {
            let value = &self.values[option.key];
            serde_json::json!({
                "key": option.key,
                "value": value.text.as_deref().map(|text| option.shown(text)),
                "source": value.source,
                "has_effect": option.has_effect(),
                "live": option.live,
            })
        });
        serde_json::json!({ "options": options.collect::<Vec<_>>(), "warnings": self.warnings })
    }
}

/// Reads all sources and checks every value.
pub(crate) fn load(flags: &Flags, env: &dyn Environment) -> Result<Loaded, ConfigError> {
    let mut loader = Loader::default();
    loader.read_toml(flags, env);
    loader.read_dotenv(env);
    loader.read_environment(env);
    loader.read_flags(flags);
    loader.warn_of_options_without_effect();
    loader.drop_invalid();
    let mut values = Values::over_defaults(loader.given);
    let mut notes = loader.notes;
    for (key, file) in Settings::read(&values).secret_files() {
        if values[key].text.is_none()
            && let Some((path, text)) = notes.read_secret(key, file, env)
        {
            values.set(key, text, Source::Credential { path });
        }
    }
    let settings = Settings::read(&values);
    settings.review(&mut values, &mut notes);
    let Notes { warnings, mistakes } = notes;
    if !mistakes.is_empty() {
        return Err(ConfigError(mistakes));
    }
    Ok(Loaded {
        settings,
        values,
        warnings,
    })
}

/// Reads a file; one that nobody named need not be there.
fn read_file(env: &dyn Environment, path: &Path, is_named: bool) -> io::Result<Option<String>> {
    match env.read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !is_named => Ok(None),
        read => read.map(Some),
    }
}

/// What the operator is told.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pub(super) warnings: Vec<String>,
    mistakes: Vec<String>,
}

impl Notes {
    /// Notes what is wrong with a value: "gripfast.toml:3: bind_address — `x` is no IP:PORT …".
    pub(super) fn mistake(&mut self, key: &str, value: &Value, why: impl std::fmt::Display) {
        let option = find(key).expect("only keys of options are checked");
        let shown = match &value.text {
            Some(_) if option.shape.is_secret() => "the value given".to_owned(),
            Some(text) => format!("`{text}`"),
            None => "the value".to_owned(),
        };
        let source = &value.source;
        let mistake = format!("{source}: {key} — {shown} {why}");
        self.mistakes.push(mistake);
    }

    /// The file that a setting names, which must be there, or else the systemd credential of the
    /// name of the option, where there is one.
    fn read_secret(
        &mut self,
        key: &'static str,
        named: Option<PathBuf>,
        env: &dyn Environment,
    ) -> Option<(PathBuf, String)> {
        let is_named = named.is_some();
        let credential = || {
            let directory = env.variable("CREDENTIALS_DIRECTORY");
            directory.map(|directory| Path::new(&directory).join(key))
        };
        let ours = || (key == "relay_owner_nsec").then(|| NGIT_KEY_FILE.into());
        let candidates = match named {
            Some(path) => vec![path],
            None => credential().into_iter().chain(ours()).collect(),
        };
        for path in candidates {
            let text = match read_file(env, &path, is_named) {
                Ok(Some(text)) => text,
                Ok(None) => continue,
                Err(error) => {
                    let (path, suffix) = (path.display(), if is_named { "_file" } else { "" });
                    let mistake = format!("{path}: {key}{suffix} cannot be read: {error}");
                    self.mistakes.push(mistake);
                    return None;
                }
            };
            // Ends like a line, so that a comma is part of a secret.
            let text = format!("{}\n", text.trim());
            let option = find(key).expect("secrets are options");
            let Err(why) = (option.check)(&text) else {
                return Some((path, text));
            };
            let (source, text) = (Source::Credential { path }, Some(text));
            self.mistake(key, &Value { text, source }, why);
            return None;
        }
        None
    }
}

#[derive(Default)]
struct Loader {
    given: BTreeMap<&'static str, Value>,
    notes: Notes,
}

impl Loader {
    /// An empty value is the same as none: units and Nix modules write `KEY=` for "not set".
    fn put(&mut self, option: &'static Opt, text: &str, source: Source) {
        let text = text.trim();
        if !text.is_empty() {
            let text = Some(text.to_owned());
            self.given.insert(option.key, Value { text, source });
        }
    }

    fn warn(&mut self, text: String) {
        self.notes.warnings.push(text);
    }

    fn read_toml(&mut self, flags: &Flags, env: &dyn Environment) {
        let variable = || env.variable("GRIPFAST_CONFIG").map(PathBuf::from);
        let named = flags.config_file.clone().or_else(variable);
        let is_named = named.is_some();
        // The directory that systemd made for a unit with `ConfigurationDirectory=`.
        let of_unit = || {
            let directory = env.variable("CONFIGURATION_DIRECTORY");
            directory.map(|directory| Path::new(&directory).join(CONFIG_FILE))
        };
        let candidates = match named {
            Some(path) => vec![path],
            None => of_unit().into_iter().chain([CONFIG_FILE.into()]).collect(),
        };
        let found = candidates.into_iter().find_map(|path| {
            let read = read_file(env, &path, is_named).transpose()?;
            Some((path, read))
        });
        let Some((path, read)) = found else {
            return;
        };
        let entries = match read {
            Ok(text) => toml_file::parse(&text)
                .map_err(|(line, message)| format!(":{line}: is no TOML: {message}")),
            Err(error) => Err(format!(": cannot be read: {error}")),
        };
        match entries {
            Ok(entries) => entries.into_iter().for_each(|e| self.take_entry(&path, e)),
            Err(why) => self.notes.mistakes.push(format!("{}{why}", path.display())),
        }
    }

    fn take_entry(&mut self, path: &Path, entry: toml_file::Entry) {
        let (path, line) = (path.to_owned(), entry.line);
        let source = Source::File { path, line };
        let key = entry.key.replace('-', "_");
        match (find(&key), entry.value) {
            (Some(option), Some(text)) if option.shape.takes(entry.toml_type) => {
                self.put(option, &text, source);
            }
            (Some(_), _) => {
                let mistake = format!("{source}: {key} cannot be of type {}", entry.toml_type);
                self.notes.mistakes.push(mistake);
            }
            (None, _) => {
                let hint = hint(&key, options::all().map(|o| o.key.to_owned()));
                let key = entry.key;
                self.warn(format!("{source}: {key} is no setting of gripfast{hint}"));
            }
        }
    }

    fn read_dotenv(&mut self, env: &dyn Environment) {
        let path = Path::new(DOTENV);
        match read_file(env, path, false) {
            Ok(text) => {
                let (variables, unreadable) = dotenv::parse(path, &text.unwrap_or_default());
                for line in unreadable {
                    self.warn(format!("{DOTENV}:{line}: is no KEY=value line"));
                }
                self.read_variables(&variables);
            }
            Err(error) => self.warn(format!("{DOTENV}: cannot be read: {error}")),
        }
    }

    fn read_environment(&mut self, env: &dyn Environment) {
        let variable = |(name, value): (String, String)| {
            let source = Source::Environment { name: name.clone() };
            Variable {
                name,
                value,
                source,
            }
        };
        let variables: Vec<_> = env.variables().into_iter().map(variable).collect();
        self.read_variables(&variables);
    }

    /// Takes the strongest name of each option and warns of unknown names.
    fn read_variables(&mut self, variables: &[Variable]) {
        let mut known: Vec<String> = Vec::new();
        for option in options::all() {
            let names = option.env_names();
            let mut set = names.iter().filter_map(|name| {
                let mut latest = variables.iter().rev();
                latest.find(|v| v.name == *name && !v.value.trim().is_empty())
            });
            if let Some(found) = set.next() {
                let text = found.value.trim();
                for weaker in set.filter(|other| other.value.trim() != text) {
                    let (weaker, name) = (&weaker.name, &found.name);
                    self.warn(format!("{weaker} is set too, but {name} counts"));
                }
                self.put(option, text, found.source.clone());
            }
            known.extend(names);
        }
        for Variable { name, source, .. } in variables {
            let is_ours = name.starts_with("NGIT_") || name.starts_with("GRIPFAST_");
            if NOWHERE.contains(&name.as_str()) {
                self.warn(format!(
                    "{name} has no effect, and none in ngit-grasp either"
                ));
            } else if is_ours && !known.contains(name) && !OTHER_NAMES.contains(&name.as_str()) {
                let hint = hint(name, known.iter().cloned());
                let place = match source {
                    Source::File { .. } => format!("{source}: {name}"),
                    _ => format!("the environment variable {name}"),
                };
                self.warn(format!("{place} is no setting of gripfast{hint}"));
            }
        }
    }

    fn read_flags(&mut self, flags: &Flags) {
        for (key, text) in &flags.values {
            let option = find(key).expect("flags are made from the options");
            let name = format!("--{}", option.flag());
            self.put(option, text, Source::Flag { name });
        }
    }

    fn warn_of_options_without_effect(&mut self) {
        for (key, value) in &self.given {
            let option = find(key).expect("only keys of options are collected");
            let is_changed = option.default.is_none() || value.text.as_deref() != option.default;
            if let Some(why) = option.meaningless
                && is_changed
            {
                let source = &value.source;
                let warning = format!("{source}: {key} means nothing here: {why}");
                self.notes.warnings.push(warning);
            }
        }
    }

    /// Notes every value that is none of its kind, and goes on without it.
    fn drop_invalid(&mut self) {
        let notes = &mut self.notes;
        self.given.retain(|key, value| {
            let option = find(key).expect("only keys of options are collected");
            let checked = (option.check)(value.text.as_deref().unwrap_or_default());
            checked
                .map_err(|why| notes.mistake(key, value, why))
                .is_ok()
        });
    }
}

/// `; did you mean X?` for the name nearest to `word`, if one is near enough to have been meant.
fn hint(word: &str, names: impl Iterator<Item = String>) -> String {
    const NEAR_ENOUGH: f64 = 0.7;
    // A prefix that all names share does not tell which one was meant.
    fn bare(name: &str) -> &str {
        let ours = name.strip_prefix("GRIPFAST_");
        ours.or_else(|| name.strip_prefix("NGIT_")).unwrap_or(name)
    }
    let likeness = |name: &str| strsim::normalized_damerau_levenshtein(bare(word), bare(name));
    let rated = names.map(|name| (likeness(&name), name));
    let near = rated.filter(|(likeness, _)| *likeness >= NEAR_ENOUGH);
    let nearest = near.max_by(|(a, _), (b, _)| a.total_cmp(b));
    nearest.map_or_else(String::new, |(_, name)| format!("; did you mean {name}?"))
}
