//! From texts that have the right shape to settings: types, and what follows from what.

mod amnesia;
mod github;
mod index;
mod resolving;
mod sync;
mod watch;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use grip_nostr::MaintainerRule;
use grip_types::Service;
use nostr::prelude::{Keys, PublicKey, ToBech32 as _};

use super::{
    Invalid, LogFormat, Settings, Source, Surroundings, Timeouts, Value, layers,
    option::Default as OptDefault,
    parse,
    settings::{Limits, PurgatoryLimits},
    table::find,
};

impl Settings {
    /// Makes settings of values that were part of a valid configuration.
    pub(crate) fn from_checked(
        values: &BTreeMap<&'static str, Value>,
        around: &dyn Surroundings,
    ) -> Result<Self, Invalid> {
        let (mut warnings, mut mistakes) = (Vec::new(), Vec::new());
        let settings = Self::resolve(&mut values.clone(), around, &mut warnings, &mut mistakes);
        if mistakes.is_empty() {
            Ok(settings)
        } else {
            Err(Invalid(mistakes))
        }
    }

    /// Makes settings of values that have the right shape; fills in what follows from others.
    pub(crate) fn resolve(
        values: &mut BTreeMap<&'static str, Value>,
        around: &dyn Surroundings,
        warnings: &mut Vec<String>,
        mistakes: &mut Vec<String>,
    ) -> Self {
        let mut r = Resolver {
            values,
            warnings,
            mistakes,
        };
        let bind_address = r.get("bind_address", parse::address);
        let service_is_address = is_derived(r.value("domain"));
        let service = r.service(bind_address);
        let data_dir = PathBuf::from(r.text("data_dir"));
        let git_data_path = r.path_or("git_data_path", &data_dir, "git");
        let relay_data_path = r.path_or("relay_data_path", &data_dir, "relay");
        let relay_name = r.text_or("relay_name", || format!("{service} grasp relay"));
        let owner = r.owner(around);
        r.check_compatibility();
        let watch = r.watch(&data_dir, around);
        let watched = watch.as_ref().map(|watch| watch.host.clone());
        Self {
            amnesia: r.amnesia(),
            github: r.github(watched.as_ref(), around),
            watch,
            bind_address,
            trusted_proxies: r
                .optional("trusted_proxy_cidrs", parse::networks)
                .unwrap_or_default(),
            event_map_bytes: r.get("event_map_bytes", parse::bytes),
            git_program: PathBuf::from(r.text("git_program")),
            relay_description: r.text("relay_description"),
            maintainer_rule: match r.text("maintainer_rule").as_str() {
                "reciprocal" => MaintainerRule::Reciprocal,
                _ => MaintainerRule::Legacy,
            },
            repository_whitelist: r.list("repository_whitelist"),
            repository_blacklist: r.list("repository_blacklist"),
            event_blacklist: r.list("event_blacklist"),
            relay_contact: r.value("relay_contact").text.clone(),
            relay_icon: r.value("relay_icon").text.clone(),
            limits: r.limits(),
            purgatory: r.purgatory(),
            timeouts: r.timeouts(),
            sync: r.sync(),
            database: r.database(&data_dir),
            index: r.index(),
            resolve: r.resolving(),
            aliases: r
                .optional("domain_aliases", parse::services)
                .unwrap_or_default(),
            log_level: r.text("log_level"),
            log_format: match r.text("log_format").as_str() {
                "json" => LogFormat::Json,
                _ => LogFormat::Text,
            },
            metrics_enabled: r.get("metrics_enabled", parse::boolean),
            service,
            service_is_address,
            data_dir,
            git_data_path,
            relay_data_path,
            relay_name,
            owner,
        }
    }
}

fn is_derived(value: &Value) -> bool {
    matches!(value.source, Source::Derived { .. })
}

/// The name of a node nobody gave a name: its own address.
pub(crate) fn service_at(address: SocketAddr, base: &str) -> Service {
    let host = match address.ip() {
        // Listening everywhere is no name; from this machine, loopback is one.
        ip if ip.is_unspecified() => format!("127.0.0.1:{}", address.port()),
        _ => address.to_string(),
    };
    let text = format!("{host}/{}", base.trim_matches('/'));
    Service::parse(&text).expect("an address and a checked path make a service")
}

/// Reads typed values. Every shape was checked before, so reading cannot fail.
struct Resolver<'a> {
    values: &'a mut BTreeMap<&'static str, Value>,
    warnings: &'a mut Vec<String>,
    mistakes: &'a mut Vec<String>,
}

impl Resolver<'_> {
    fn value(&self, key: &str) -> &Value {
        self.values
            .get(key)
            .expect("every option of the table has a value")
    }

    fn text(&self, key: &str) -> String {
        self.value(key)
            .text
            .clone()
            .expect("an option with a default has a text")
    }

    fn optional<T>(&self, key: &str, read: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let text = self.value(key).text.as_deref()?;
        Some(read(text).expect("shapes are checked before settings are made"))
    }

    fn get<T>(&self, key: &str, read: impl Fn(&str) -> Result<T, String>) -> T {
        self.optional(key, read)
            .expect("an option with a default has a text")
    }

    fn count<T: TryFrom<u64>>(&self, key: &str) -> T {
        let number = self.get(key, |text| parse::count(text, 0, u64::MAX));
        T::try_from(number)
            .ok()
            .expect("the table bounds the option to its type")
    }

    /// A size that is kept in memory, so it fits.
    fn size(&self, key: &str) -> usize {
        usize::try_from(self.get(key, parse::bytes)).unwrap_or(usize::MAX)
    }

    fn limits(&self) -> Limits {
        Limits {
            pack_bytes: self.get("max_pack_bytes", parse::bytes),
            connections: self.count("max_connections"),
            connections_per_ip: self.count("max_connections_per_ip"),
            pushes: self.count("max_pushes"),
            fetches: self.count("max_fetches"),
            http_requests_per_second: self.count("http_requests_per_second"),
            events_per_second: self.count("relay_events_per_second"),
            queries_per_second: self.count("relay_requests_per_second"),
            message_bytes: self.size("relay_max_message_bytes"),
            subscriptions: self.count("relay_max_subscriptions"),
            filter_limit: self.count("relay_filter_limit"),
        }
    }

    fn purgatory(&self) -> PurgatoryLimits {
        PurgatoryLimits {
            lifetime: self.get("purgatory_lifetime", parse::duration),
            orphan_ref_lifetime: self.get("orphan_ref_lifetime", parse::duration),
            sweep_interval: self.get("purgatory_sweep_interval", parse::duration),
            entries: self.count("purgatory_max_entries"),
            bytes: self.size("purgatory_max_bytes"),
            per_author: self.count("purgatory_max_per_author"),
            per_identifier: self.count("purgatory_max_per_identifier"),
        }
    }

    fn timeouts(&self) -> Timeouts {
        Timeouts {
            drain: self.get("drain_deadline", parse::duration),
            stall: self.get("stall_timeout", parse::duration),
            idle: self.get("idle_timeout", parse::duration),
            header: self.get("header_timeout", parse::duration),
        }
    }

    fn list(&self, key: &str) -> String {
        self.value(key).text.clone().unwrap_or_default()
    }

    /// Shows a derived value in its place, with the rule it follows.
    fn derive(&mut self, key: &'static str, text: &str) {
        let option = find(key).expect("the key is one of the table");
        let OptDefault::Derived(how) = option.default else {
            return;
        };
        self.values.insert(
            key,
            Value {
                text: Some(text.to_owned()),
                source: Source::Derived { how },
            },
        );
    }

    fn text_or(&mut self, key: &'static str, derived: impl FnOnce() -> String) -> String {
        if let Some(text) = &self.value(key).text {
            return text.clone();
        }
        let text = derived();
        self.derive(key, &text);
        text
    }

    fn path_or(&mut self, key: &'static str, parent: &Path, name: &str) -> PathBuf {
        PathBuf::from(self.text_or(key, || parent.join(name).to_string_lossy().into_owned()))
    }

    fn service(&mut self, bind: SocketAddr) -> Service {
        let base = self.value("base_path").text.clone().unwrap_or_default();
        let base = base.trim_matches('/');
        let Some(domain) = self.value("domain").text.clone() else {
            let service = service_at(bind, base);
            if bind.ip().is_unspecified() {
                self.warnings.push(format!(
                    "domain is not set: only clients of this machine can use the node, as {service}"
                ));
            }
            self.derive("domain", &service.authority());
            return service;
        };
        let text = match base {
            "" => domain,
            base => format!("{}/{base}", domain.trim_end_matches('/')),
        };
        Service::parse(&text).unwrap_or_else(|_| {
            self.complain("base_path", "is no path such as `/git`");
            service_at(bind, "")
        })
    }

    /// The operator's public key: named outright, or that of the relay's private key.
    fn owner(&mut self, around: &dyn Surroundings) -> Option<PublicKey> {
        let of_secret = self.relay_key(around).map(|keys| keys.public_key());
        if let Some(named) = self.optional("owner_npub", parse::npub) {
            return Some(named);
        }
        let key = of_secret?;
        let npub = key.to_bech32().expect("a public key has an npub");
        self.derive("owner_npub", &npub);
        Some(key)
    }

    fn relay_key(&mut self, around: &dyn Surroundings) -> Option<Keys> {
        if let Some(text) = &self.value("relay_owner_nsec").text {
            return Keys::parse(text).ok();
        }
        if let Some(path) = self.value("relay_owner_nsec_file").text.clone() {
            return self.key_file(Path::new(&path), "relay_owner_nsec_file", true, around);
        }
        let variables = around.variables();
        let credentials = variables
            .iter()
            .find(|(name, _)| name == "CREDENTIALS_DIRECTORY");
        let credential = credentials.map(|(_, dir)| Path::new(dir).join("relay_owner_nsec"));
        credential
            .and_then(|path| self.key_file(&path, "relay_owner_nsec", false, around))
            // Where ngit-grasp kept the key it made for itself: the relay stays who it was.
            .or_else(|| {
                self.key_file(
                    Path::new(".relay-owner.nsec"),
                    "relay_owner_nsec",
                    false,
                    around,
                )
            })
    }

    fn key_file(
        &mut self,
        path: &Path,
        key: &'static str,
        must_exist: bool,
        around: &dyn Surroundings,
    ) -> Option<Keys> {
        let text = match around.read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !must_exist => {
                return None;
            }
            Err(error) => {
                self.mistakes
                    .push(format!("{}: {key} cannot be read: {error}", path.display()));
                return None;
            }
        };
        let Ok(keys) = Keys::parse(text.trim()) else {
            self.mistakes
                .push(format!("{}: {key} holds no private key", path.display()));
            return None;
        };
        let source = Source::Credential {
            path: path.to_owned(),
        };
        self.values.insert(
            "relay_owner_nsec",
            Value {
                text: Some(text.trim().into()),
                source,
            },
        );
        Some(keys)
    }

    fn complain(&mut self, key: &str, complaint: &str) {
        let option = find(key).expect("the key is one of the table");
        self.mistakes
            .push(layers::sentence(option, self.value(key), complaint));
    }

    /// Settings that start here but would mean something else than they say.
    fn check_compatibility(&mut self) {
        if self.text("database_backend") != "lmdb" {
            let source = &self.value("database_backend").source;
            self.warnings.push(format!(
                "{source}: database_backend: events are kept in LMDB"
            ));
        }
        if self.get("private_mode", parse::boolean) {
            self.complain(
                "private_mode",
                "cannot be kept: this version serves every repository to everybody",
            );
        }
    }
}
