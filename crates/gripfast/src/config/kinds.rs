//! Kinds of values: how a text is parsed, and how help and reference describe it.

mod github;

use std::{
    collections::BTreeSet,
    fmt,
    marker::PhantomData,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use grip_follow::RelayUrl;
use grip_grasp::{Selection, parse_authors};
use grip_index::{
    GoFilter, LeftSources, PrivateRepos,
    hosted::Claim,
    proxy::{PathPattern, SumDbKey},
};
use grip_nostr::MaintainerRule;
use grip_types::{Domain, Service};
use ipnet::IpNet;
use nostr::prelude::{Keys, PublicKey, ToBech32 as _};
use tracing_subscriber::EnvFilter;
use url::Url;

pub(crate) use self::github::{HostToken, IndexedOwner, PUBLIC, Secrets, Watched, WatchedLists};

/// A kind of values.
pub(crate) trait Kind {
    type Value;
    const SHAPE: Shape;
    /// What stands for the value in help texts; the values themselves where there are few.
    const PLACEHOLDER: &'static str;

    /// How the reference names it.
    fn describe() -> String;

    /// Reads a value. An empty text stands for none: lists and optional values take it.
    fn parse(text: &str) -> Result<Self::Value, ParseError>;
}

/// What TOML, help and displays have to know of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Text,
    Bool,
    Number,
    /// A number of bytes, mostly with a unit.
    Size,
    /// Separated by commas, or an array in the file.
    List,
    /// Never shown.
    Secret,
    /// A list, never shown.
    SecretList,
    /// Shown without user, password and parameters.
    SecretUrl,
}

impl Shape {
    /// Says whether a TOML value of this type can be one.
    pub(crate) fn takes(self, toml_type: &str) -> bool {
        match toml_type {
            "string" => true,
            "boolean" => self == Self::Bool,
            "integer" => matches!(self, Self::Number | Self::Size),
            "array" => self.is_list(),
            _ => false,
        }
    }

    fn is_list(self) -> bool {
        matches!(self, Self::List | Self::SecretList)
    }

    pub(crate) fn is_secret(self) -> bool {
        matches!(self, Self::Secret | Self::SecretList | Self::SecretUrl)
    }
}

/// Why a text is no value, as the end of a sentence that begins with the value.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ParseError(String);

impl From<String> for ParseError {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for ParseError {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// An option that may stay without a value.
impl<K: Kind> Kind for Option<K> {
    type Value = Option<K::Value>;
    const SHAPE: Shape = K::SHAPE;
    const PLACEHOLDER: &'static str = K::PLACEHOLDER;

    fn describe() -> String {
        K::describe()
    }

    fn parse(text: &str) -> Result<Self::Value, ParseError> {
        Some(text)
            .filter(|text| !text.is_empty())
            .map(K::parse)
            .transpose()
    }
}

/// Declares kinds: the type of their values, shape, placeholder, description and parser.
macro_rules! kinds {
    ($($kind:ty => $value:ty: $shape:ident, $placeholder:literal, $describe:literal, $parse:expr;)*) => {$(
        impl Kind for $kind {
            type Value = $value;
            const SHAPE: Shape = Shape::$shape;
            const PLACEHOLDER: &'static str = $placeholder;

            fn describe() -> String {
                let note = if Self::SHAPE.is_list() { " (an array in the file)" } else { "" };
                format!("{}{note}", $describe)
            }

            fn parse(text: &str) -> Result<$value, ParseError> {
                $parse(text)
            }
        }
    )*};
}

use kinds;

/// A number of bytes.
pub(crate) struct Bytes;
/// A number of bytes that are held in memory.
pub(crate) struct MemoryBytes;
/// A number of bytes that an event may have.
pub(crate) struct EventBytes;
/// Scheme, host and port.
pub(crate) struct Origin;
pub(crate) struct PrivateKey;
/// A level or filter directives.
pub(crate) struct LogFilter;
pub(crate) struct RedisUrl;
/// The name of an instance: safe in file names and database rows.
pub(crate) struct NodeName;
/// Texts of any form.
pub(crate) struct List;
/// Public keys of authors.
pub(crate) struct Authors;
/// Repositories as [`Selection`] names them; a wrong entry is left out. None where nothing is given,
/// which is not the same as nothing that is right.
pub(crate) struct Archived;
/// URL schemes.
pub(crate) struct Schemes;
/// Addresses of the network of nodes.
pub(crate) struct Multiaddrs;

kinds! {
    String => String: Text, "TEXT", "text", |text: &str| Ok(text.to_owned());
    PathBuf => PathBuf: Text, "PATH", "path", |text: &str| Ok(text.into());
    bool => bool: Bool, "BOOL", "true or false", boolean;
    Bytes => u64: Size, "SIZE", "size, such as `500 MB` or `2 GiB`", bytes;
    MemoryBytes => usize: Size, "SIZE", "size, such as `500 MB` or `2 GiB`", |text: &str| {
        bytes(text).map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
    };
    EventBytes => usize: Size, "SIZE", "size up to `5 MiB`", |text: &str| {
        let bytes = usize::try_from(bytes(text)?).ok();
        let bytes = bytes.filter(|bytes| *bytes <= MAX_EVENT_BYTES);
        bytes.ok_or_else(|| "is more than 5 MiB".into())
    };
    Origin => String: Text, "ORIGIN", "`https://host` or `http://host:port`", origin;
    Duration => Duration: Text, "DURATION", "duration, such as `500ms` or `5s`", duration;
    Service => Service: Text, "HOST", "host name, with port if it is not the usual one", |text| {
        let hint = "is no host name; write it as `grasp.example.com` or `localhost:7334`";
        Service::parse(text).map_err(|_| hint.into())
    };
    SocketAddr => SocketAddr: Text, "IP:PORT", "IP:PORT", |text: &str| {
        text.parse().map_err(|_| "is no IP:PORT such as 127.0.0.1:7334 or [::]:7334".into())
    };
    PrivateKey => Keys: Secret, "NSEC", "private key (nsec or hex)", |text: &str| {
        let hint = "is no private key; it should start with `nsec1` or be 64 hex digits";
        Keys::parse(text.trim()).map_err(|_| hint.into())
    };
    PublicKey => PublicKey: Text, "NPUB", "npub or hex public key", |text| {
        let hint = "is no public key; it should start with `npub1` or be 64 hex digits";
        PublicKey::parse(text).map_err(|_| hint.into())
    };
    LogFilter => String: Text, "LEVEL", "level or filter directives", log_filter;
    RedisUrl => SecretText: SecretUrl, "URL", "URL of a Redis server", redis_url;
    DatabasePlace => DatabasePlace: SecretUrl, "URL", "`postgres://…` or `sqlite:PATH`",
        database_place;
    NodeName => String: Text, "NAME", "letters, digits, `-`, `_` and `.`", node_name;
    MaintainerRule => MaintainerRule: Text, "legacy|reciprocal", "`legacy` or `reciprocal`", |text| {
        let (legacy, reciprocal) = (MaintainerRule::Legacy, MaintainerRule::Reciprocal);
        choice(text, &[("legacy", legacy), ("reciprocal", reciprocal)])
    };
    SumDbKey => SumDbKey: Text, "GOSUMDB", "`sum.golang.org`, or a key and the URL behind it",
        |text: &str| {
            let hint = "is neither sum.golang.org nor a key with a URL behind it, as in GOSUMDB";
            text.parse().map_err(|_| hint.into())
        };
    PrivateRepos => PrivateRepos: Text, "none|internal|all", "`none` or `internal` or `all`", |text| {
        let (none, internal) = (PrivateRepos::None, PrivateRepos::Internal);
        choice(text, &[("none", none), ("internal", internal), ("all", PrivateRepos::All)])
    };
    GoFilter => GoFilter: Text, "all|language|go.mod", "`all` or `language` or `go.mod`", |text| {
        let (all, language) = (GoFilter::All, GoFilter::Language);
        choice(text, &[("all", all), ("language", language), ("go.mod", GoFilter::GoMod)])
    };
    LeftSources => LeftSources: Text, "keep|hide|remove", "`keep` or `hide` or `remove`",
        |text| choice(text, &LeftSources::ALL.map(|it| (it.name(), it)));
    LogFormat => LogFormat: Text, "text|json", "`text` or `json`", |text| {
        choice(text, &[("text", LogFormat::Text), ("json", LogFormat::Json)])
    };
    EventBackend => EventBackend: Text, "lmdb|memory|nostrdb", "`lmdb` or `memory` or `nostrdb`",
        |text| {
            let other = EventBackend::Other;
            choice(text, &[("lmdb", EventBackend::Lmdb), ("memory", other), ("nostrdb", other)])
        };
    List => Vec<String>: List, "LIST", "comma-separated list", |text| Ok(items(text).collect());
    // A mistyped key in a list would let in, or keep out, the wrong people.
    Selection => Selection: List, "LIST",
        "comma-separated `npub`, `npub/identifier` or `identifier`",
        |text: &str| text.parse().map_err(|e| format!("has a wrong entry: {e}").into());
    // Lets nobody in: what is wrong is said when settings are reviewed.
    Archived => Option<Selection>: List, "LIST",
        "comma-separated `npub`, `npub/identifier` or `identifier`",
        |text: &str| {
            let is_given = !text.trim().is_empty();
            Ok(is_given.then(|| Selection::parse_leniently(text).0))
        };
    Authors => BTreeSet<PublicKey>: List, "LIST", "comma-separated npubs",
        |text| parse_authors(text).map_err(|e| format!("has a wrong entry: {e}").into());
    Vec<IpNet> => Vec<IpNet>: List, "CIDRS", "comma-separated networks, such as `10.0.0.0/8`",
        networks;
    Vec<Service> => Vec<Service>: List, "HOSTS",
        "comma-separated host names, with ports if they are not the usual ones", services;
    Vec<Domain> => Vec<Domain>: List, "HOSTS",
        "comma-separated host names, with ports if they are not the usual ones", domains;
    Vec<HostLimit> => Vec<HostLimit>: List, "HOST=N/M",
        "comma-separated `host=concurrent/per-minute`", host_limits;
    Schemes => Vec<String>: List, "LIST", "`https`, `http` or both", schemes;
    Vec<PathPattern> => Vec<PathPattern>: List, "PATTERNS",
        "comma-separated patterns of module paths, as in `GOPRIVATE`", |text| {
            each(text, |item| item.parse().map_err(|why| format!("which is no pattern: {why}")))
        };
    Vec<Claim> => Vec<Claim>: List, "PREFIX=NPUB", "comma-separated `prefix=npub`", claims;
    Vec<RelayUrl> => Vec<RelayUrl>: List, "URLS", "comma-separated relays, `wss://` assumed",
        |text| each(text, |item| {
            RelayUrl::parse_setting(item).map_err(|why| format!("which {why}"))
        });
    Multiaddrs => Vec<String>: List, "ADDRESSES",
        "comma-separated addresses, such as `/ip4/0.0.0.0/tcp/7335` or \
         `/dns4/a.example/tcp/7335/p2p/12D3KooW…`", multiaddrs;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// What ngit-grasp's units say of the event store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventBackend {
    Lmdb,
    Other,
}

/// A number within bounds.
pub(crate) struct Count<T, const MIN: u64, const MAX: u64 = { u64::MAX }>(PhantomData<T>);

pub(crate) type Any = Count<usize, 0>;
pub(crate) type Positive = Count<usize, 1>;
pub(crate) type Small = Count<u32, 1, { u32::MAX as u64 }>;
pub(crate) type Percent = Count<u32, 1, 100>;
/// Bounded so that fifty times the value still fits its bucket.
pub(crate) type Rate = Count<u32, 0, 50_000_000>;

impl<T: TryFrom<u64>, const MIN: u64, const MAX: u64> Kind for Count<T, MIN, MAX> {
    type Value = T;
    const SHAPE: Shape = Shape::Number;
    const PLACEHOLDER: &'static str = "NUMBER";

    fn describe() -> String {
        if MAX == u64::MAX {
            format!("number, at least {MIN}")
        } else {
            format!("number from {MIN} to {MAX}")
        }
    }

    fn parse(text: &str) -> Result<T, ParseError> {
        let number: u64 = text.parse().map_err(|_| "is no whole number")?;
        match number {
            n if n < MIN => Err(format!("is less than {MIN}").into()),
            n if n > MAX => Err(format!("is more than {MAX}").into()),
            n => T::try_from(n).map_err(|_| "is too large".into()),
        }
    }
}

/// A number of bytes that is counted with, from `MIN` on: a limit that 0 lifts, or one that is there.
pub(crate) struct ByteCount<T, const MIN: u64>(PhantomData<T>);

impl<T: TryFrom<u64>, const MIN: u64> Kind for ByteCount<T, MIN> {
    type Value = T;
    const SHAPE: Shape = Shape::Size;
    const PLACEHOLDER: &'static str = "SIZE";

    fn describe() -> String {
        let none = if MIN == 0 { ", or 0" } else { "" };
        format!("size, such as `500 MB` or `2 GiB`{none}")
    }

    fn parse(text: &str) -> Result<T, ParseError> {
        let number = if MIN == 0 && text == "0" {
            0
        } else {
            bytes(text)?
        };
        T::try_from(number).map_err(|_| "is too large".into())
    }
}

/// A text that no log line and no debug output shows.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SecretText(String);

impl SecretText {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(…)")
    }
}

/// Where SQL state is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DatabasePlace {
    File(PathBuf),
    /// The URL of a Postgres.
    Server(SecretText),
}

/// What one host gets in place of the usual limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostLimit {
    pub(crate) host: Domain,
    pub(crate) concurrent: u32,
    pub(crate) per_minute: u32,
}

/// The largest event that ngit-grasp can be told to take.
pub(crate) const MAX_EVENT_BYTES: usize = 5 << 20;

/// The items of a list.
fn items(text: &str) -> impl Iterator<Item = String> {
    let trimmed = text.split(',').map(str::trim);
    trimmed.filter(|item| !item.is_empty()).map(str::to_owned)
}

/// Parses each item; the error names the item before the reason, such as `which is no host`.
fn each<T, E: fmt::Display>(
    text: &str,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Vec<T>, ParseError> {
    let wrong = |item: &str, why: E| format!("has `{item}`, {why}").into();
    let parsed = items(text).map(|item| parse(&item).map_err(|why| wrong(&item, why)));
    parsed.collect()
}

/// Reads one of a few words.
fn choice<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, ParseError> {
    let found = words.iter().find(|(word, _)| *word == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        format!("is none of {}", words.join(", ")).into()
    })
}

/// Refuses two items of one name.
fn unique<T>(found: Vec<T>, name: impl Fn(&T) -> String) -> Result<Vec<T>, ParseError> {
    let mut names = BTreeSet::new();
    match found.iter().map(name).find(|n| !names.insert(n.clone())) {
        Some(twice) => Err(format!("names {twice} twice").into()),
        None => Ok(found),
    }
}

/// Reads a truth value as shells, Nix and systemd units write them.
fn boolean(text: &str) -> Result<bool, ParseError> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err("is neither true nor false".into()),
    }
}

/// Reads `2147483648`, `2 GiB`, `2G` or `500 MB`; K, M, G, T alone mean powers of 1024.
fn bytes(text: &str) -> Result<u64, ParseError> {
    let wrong = || "is no size such as `500 MB`, `2 GiB` or a number of bytes".into();
    let digits = text.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let unit: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1000,
        "mb" => 1000_u64.pow(2),
        "gb" => 1000_u64.pow(3),
        "tb" => 1000_u64.pow(4),
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        _ => return Err(wrong()),
    };
    let bytes = number.checked_mul(unit).filter(|n| *n > 0);
    bytes.ok_or_else(wrong)
}

fn duration(text: &str) -> Result<Duration, ParseError> {
    let duration = humantime::parse_duration(text).map_err(|_| match text.parse::<u64>() {
        Ok(_) => format!("has no unit; write `{text}s` or `{text}ms`"),
        Err(_) => "is no duration such as `500ms` or `5s`".to_owned(),
    })?;
    // A timer of nothing never rests, and a timeout of nothing refuses everybody.
    if duration.is_zero() {
        return Err("is no time at all; the least is `1ms`".into());
    }
    Ok(duration)
}

fn log_filter(text: &str) -> Result<String, ParseError> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    // A lone word that is no level would be taken for a part of the program, and silence the rest.
    let is_level = |word: &str| LEVELS.iter().any(|level| word.eq_ignore_ascii_case(level));
    let known = |directive: String| directive.contains(['=', '[']) || is_level(&directive);
    if items(text).all(known) && EnvFilter::try_new(text).is_ok() {
        Ok(text.to_owned())
    } else {
        Err("is no log level; use error, warn, info, debug or trace".into())
    }
}

/// Reads networks; a single address stands for itself.
fn networks(text: &str) -> Result<Vec<IpNet>, ParseError> {
    each(text, |item| {
        let address = || item.parse::<IpAddr>().map(IpNet::from);
        let network = item.parse().or_else(|_| address());
        network.map_err(|_| "which is no network such as 10.0.0.0/8")
    })
}

fn services(text: &str) -> Result<Vec<Service>, ParseError> {
    let wrong = "which is no host name such as `grasp.example.com`";
    each(text, |item| Service::parse(item).map_err(|_| wrong))
}

fn domains(text: &str) -> Result<Vec<Domain>, ParseError> {
    let urls = services(text)?.into_iter().map(|s| s.http_url());
    Ok(urls
        .filter_map(|url| Domain::of(&Url::parse(&url).ok()?))
        .collect())
}

/// Reads `host=concurrent/per-minute` items; none may name a host twice.
fn host_limits(text: &str) -> Result<Vec<HostLimit>, ParseError> {
    let number = |text: &str| text.trim().parse::<u32>().ok().filter(|n| *n > 0);
    let limit = |item: &str| {
        let (host, limits) = item.split_once('=')?;
        let (concurrent, per_minute) = limits.split_once('/')?;
        Some(HostLimit {
            host: Domain::parse(host).ok()?,
            concurrent: number(concurrent)?,
            per_minute: number(per_minute)?,
        })
    };
    let wrong = "which is no host=concurrent/per-minute such as github.com=10/60";
    let found = each(text, |item| limit(item).ok_or(wrong))?;
    unique(found, |limit| limit.host.to_string())
}

/// Reads URL schemes. Git data is fetched by HTTP alone, so another scheme would do nothing.
fn schemes(text: &str) -> Result<Vec<String>, ParseError> {
    let schemes: Vec<_> = items(&text.to_ascii_lowercase()).collect();
    let known = |scheme: &&String| matches!(scheme.as_str(), "https" | "http");
    match schemes.iter().find(|scheme| !known(scheme)) {
        Some(other) => {
            Err(format!("has `{other}`, but data is fetched by `https` or `http` only").into())
        }
        None if schemes.is_empty() => Err("names no scheme".into()),
        None => Ok(schemes),
    }
}

/// Reads addresses of the network of nodes as far as their form goes; the network reads the rest.
fn multiaddrs(text: &str) -> Result<Vec<String>, ParseError> {
    each(text, |item| {
        let has_port = item.contains("/tcp/") || item.contains("/udp/");
        let address = (item.starts_with('/') && has_port).then(|| item.to_owned());
        address.ok_or("which is no address such as `/ip4/0.0.0.0/tcp/7335`")
    })
}

fn origin(text: &str) -> Result<String, ParseError> {
    let wrong = || "is no origin such as https://git.example.com or http://localhost:7334".into();
    let url = Url::parse(text).map_err(|_| wrong())?;
    let is_plain = url.path() == "/"
        && !text.ends_with('/')
        && url.query().is_none()
        && url.fragment().is_none()
        && url.username().is_empty()
        && url.password().is_none();
    if matches!(url.scheme(), "http" | "https") && url.has_host() && is_plain {
        Ok(url.origin().ascii_serialization())
    } else {
        Err(wrong())
    }
}

fn redis_url(text: &str) -> Result<SecretText, ParseError> {
    let is_redis = |url: Url| matches!(url.scheme(), "redis" | "rediss") && url.has_host();
    if Url::parse(text).is_ok_and(is_redis) {
        Ok(SecretText::new(text))
    } else {
        Err("is no URL such as redis://127.0.0.1/ or rediss://user:password@host/".into())
    }
}

/// Reads the place of the database. The file of `sqlite:` is what stands behind the colon, two
/// slashes more or less.
fn database_place(text: &str) -> Result<DatabasePlace, ParseError> {
    match text.split_once(':') {
        Some(("postgres" | "postgresql", _)) if Url::parse(text).is_ok_and(|u| u.has_host()) => {
            Ok(DatabasePlace::Server(SecretText::new(text)))
        }
        Some(("sqlite", rest)) => match rest.strip_prefix("//").unwrap_or(rest) {
            "" | ":memory:" => Err("names no file; write sqlite:PATH".into()),
            path if path.contains('?') => Err("takes no parameters after the file".into()),
            path => Ok(DatabasePlace::File(path.into())),
        },
        _ => Err(
            "is neither a URL such as postgres://user:password@host/name nor sqlite:PATH".into(),
        ),
    }
}

/// Reads a name of an instance.
pub(crate) fn node_name(text: &str) -> Result<String, ParseError> {
    const MAX: usize = 63;
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if text.len() <= MAX && text.bytes().all(allowed) {
        Ok(text.to_owned())
    } else {
        Err(format!("is no name of at most {MAX} letters, digits, `-`, `_` and `.`").into())
    }
}

/// Reads `prefix=npub` items; none may name a prefix twice.
fn claims(text: &str) -> Result<Vec<Claim>, ParseError> {
    let found = each(text, |item| {
        let (prefix, owner) = item
            .split_once('=')
            .ok_or("which is no prefix=npub such as go.example.com/tools=npub1…")?;
        let owner = PublicKey::parse(owner.trim()).ok();
        let owner = owner.and_then(|key| key.to_bech32().ok());
        let owner = owner.ok_or("where the owner is no npub")?;
        let prefix = prefix.trim().trim_end_matches('/');
        let claim = Claim::new(prefix, &owner)
            .map_err(|_| "where the prefix is no module path such as go.example.com/tools")?;
        Ok::<_, &str>((prefix.to_owned(), claim))
    })?;
    let found = unique(found, |(prefix, _)| prefix.clone())?;
    Ok(found.into_iter().map(|(_, claim)| claim).collect())
}

#[cfg(test)]
mod tests;
