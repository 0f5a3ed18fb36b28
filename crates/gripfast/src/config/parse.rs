//! Reading values: one function per shape, each with a message that says what would be right.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use grip_grasp::{InvalidSelection, Selection, parse_authors};
use grip_types::{Domain, Service};
use ipnet::IpNet;
use nostr::prelude::{Keys, PublicKey};
use tracing_subscriber::EnvFilter;
use url::Url;

use super::{
    Kind, github,
    settings::{DatabasePlace, ModuleOwner, Secret},
    watched,
};

/// What is wrong with a value, as the end of a sentence: "NGIT_DOMAIN=… " + this.
pub(crate) type Complaint = String;

/// Checks `text` against the shape of its option.
pub(crate) fn check(kind: Kind, text: &str) -> Result<(), Complaint> {
    match kind {
        Kind::Text | Kind::Path | Kind::List => Ok(()),
        Kind::Domain => Service::parse(text).map(drop).map_err(|_| {
            "is no host name; write it as `grasp.example.com` or `localhost:7334`".to_owned()
        }),
        Kind::Domains => services(text).map(drop),
        Kind::HostLimits => host_limits(text).map(drop),
        Kind::Schemes => schemes(text).map(drop),
        Kind::Multiaddrs => multiaddrs(text).map(drop),
        Kind::RedisUrl => redis_url(text).map(drop),
        Kind::DatabaseUrl => database_url(text).map(drop),
        Kind::Name => name(text).map(drop),
        Kind::GithubPlaces => github::places(text).map(drop),
        Kind::GithubEvents => watched::watched(text).map(drop),
        Kind::Secrets => watched::secrets(text).map(drop),
        Kind::Tokens => github::tokens(text).map(drop),
        Kind::ModuleOwners => module_owners(text).map(drop),
        Kind::Address => address(text).map(drop),
        Kind::Secret => Keys::parse(text).map(drop).map_err(|_| {
            "is no private key; it should start with `nsec1` or be 64 hex digits".to_owned()
        }),
        Kind::Npub => npub(text).map(drop),
        Kind::Bool => boolean(text).map(drop),
        Kind::Count { min, max } => count(text, min, max).map(drop),
        Kind::Bytes => bytes(text).map(drop),
        Kind::Duration => duration(text).map(drop),
        // A mistyped key in a list would let in, or keep out, the wrong people.
        Kind::Repositories => text
            .parse::<Selection>()
            .map(drop)
            .map_err(|e| wrong_entry(&e)),
        Kind::Npubs => parse_authors(text).map(drop).map_err(|e| wrong_entry(&e)),
        Kind::LogFilter => log_filter(text).map(drop),
        Kind::Networks => networks(text).map(drop),
        Kind::Choice(values) if values.contains(&text) => Ok(()),
        Kind::Choice(values) => Err(format!("is none of {}", values.join(", "))),
    }
}

fn wrong_entry(error: &InvalidSelection) -> Complaint {
    format!("has a wrong entry: {error}")
}

pub(crate) fn address(text: &str) -> Result<SocketAddr, Complaint> {
    text.parse()
        .map_err(|_| "is no IP:PORT such as 127.0.0.1:7334 or [::]:7334".to_owned())
}

pub(crate) fn npub(text: &str) -> Result<PublicKey, Complaint> {
    PublicKey::parse(text).map_err(|_| {
        "is no public key; it should start with `npub1` or be 64 hex digits".to_owned()
    })
}

/// Reads a truth value as shells, Nix and systemd units write them.
pub(crate) fn boolean(text: &str) -> Result<bool, Complaint> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err("is neither true nor false".to_owned()),
    }
}

pub(crate) fn count(text: &str, min: u64, max: u64) -> Result<u64, Complaint> {
    let number: u64 = text.parse().map_err(|_| "is no whole number".to_owned())?;
    match number {
        n if n < min => Err(format!("is less than {min}")),
        n if n > max => Err(format!("is more than {max}")),
        n => Ok(n),
    }
}

/// Reads `2147483648`, `2 GiB`, `2G` or `500 MB`; K, M, G, T alone mean powers of 1024.
pub(crate) fn bytes(text: &str) -> Result<u64, Complaint> {
    let wrong = || "is no size such as `500 MB`, `2 GiB` or a number of bytes".to_owned();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let unit: u64 = match text[digits..].trim().to_ascii_lowercase().as_str() {
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
    number
        .checked_mul(unit)
        .filter(|n| *n > 0)
        .ok_or_else(wrong)
}

pub(crate) fn duration(text: &str) -> Result<Duration, Complaint> {
    let duration = humantime::parse_duration(text).map_err(|_| match text.parse::<u64>() {
        Ok(_) => format!("has no unit; write `{text}s` or `{text}ms`"),
        Err(_) => "is no duration such as `500ms` or `5s`".to_owned(),
    })?;
    // A timer of nothing never rests, and a patience of nothing refuses everybody.
    if duration.is_zero() {
        return Err("is no time at all; the least is `1ms`".to_owned());
    }
    Ok(duration)
}

pub(crate) fn list(text: &str) -> Vec<String> {
    text.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .map(str::to_owned)
        .collect()
}

pub(crate) fn log_filter(text: &str) -> Result<EnvFilter, Complaint> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let wrong = || "is no log level; use error, warn, info, debug or trace".to_owned();
    // A lone word that is no level would be taken for a part of the program, and silence the rest.
    let is_level = |word: &str| LEVELS.iter().any(|level| word.eq_ignore_ascii_case(level));
    let known = |directive: &String| directive.contains(['=', '[']) || is_level(directive);
    if !list(text).iter().all(known) {
        return Err(wrong());
    }
    EnvFilter::try_new(text).map_err(|_| wrong())
}

/// Reads networks; a single address stands for itself.
pub(crate) fn networks(text: &str) -> Result<Vec<IpNet>, Complaint> {
    list(text)
        .iter()
        .map(|item| {
            item.parse::<IpNet>()
                .or_else(|_| item.parse::<IpAddr>().map(IpNet::from))
                .map_err(|_| format!("has `{item}`, which is no network such as 10.0.0.0/8"))
        })
        .collect()
}

/// Reads names of services.
pub(crate) fn services(text: &str) -> Result<Vec<Service>, Complaint> {
    list(text)
        .iter()
        .map(|item| {
            Service::parse(item).map_err(|_| {
                format!("has `{item}`, which is no host name such as `grasp.example.com`")
            })
        })
        .collect()
}

/// What one host gets in place of the usual limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostLimit {
    pub(crate) host: Domain,
    pub(crate) concurrent: u32,
    pub(crate) per_minute: u32,
}

/// Reads `host=concurrent/per-minute` items; none may name a host twice.
pub(crate) fn host_limits(text: &str) -> Result<Vec<HostLimit>, Complaint> {
    let mut found: Vec<HostLimit> = Vec::new();
    for item in list(text) {
        let limit = host_limit(&item).ok_or_else(|| {
            format!("has `{item}`, which is no host=concurrent/per-minute such as github.com=10/60")
        })?;
        if found.iter().any(|known| known.host == limit.host) {
            return Err(format!("names {} twice", limit.host));
        }
        found.push(limit);
    }
    Ok(found)
}

fn host_limit(item: &str) -> Option<HostLimit> {
    let (host, limits) = item.split_once('=')?;
    let (concurrent, per_minute) = limits.split_once('/')?;
    let number = |text: &str| text.trim().parse::<u32>().ok().filter(|n| *n > 0);
    Some(HostLimit {
        host: Domain::parse(host).ok()?,
        concurrent: number(concurrent)?,
        per_minute: number(per_minute)?,
    })
}

/// Reads URL schemes. Git data is fetched by HTTP alone, so another scheme would do nothing.
pub(crate) fn schemes(text: &str) -> Result<Vec<String>, Complaint> {
    let schemes = list(&text.to_ascii_lowercase());
    match schemes
        .iter()
        .find(|s| !matches!(s.as_str(), "https" | "http"))
    {
        Some(other) => Err(format!(
            "has `{other}`, but data is fetched by `https` or `http` only"
        )),
        None if schemes.is_empty() => Err("names no scheme".to_owned()),
        None => Ok(schemes),
    }
}

/// Reads addresses of the network of nodes as far as their form goes; the network reads the rest.
pub(crate) fn multiaddrs(text: &str) -> Result<Vec<String>, Complaint> {
    let addresses = list(text);
    let is_one = |address: &&String| {
        address.starts_with('/') && (address.contains("/tcp/") || address.contains("/udp/"))
    };
    match addresses.iter().find(|address| !is_one(address)) {
        Some(other) => Err(format!(
            "has `{other}`, which is no address such as `/ip4/0.0.0.0/tcp/7335`"
        )),
        None => Ok(addresses),
    }
}

pub(crate) fn redis_url(text: &str) -> Result<String, Complaint> {
    let good = Url::parse(text)
        .is_ok_and(|url| matches!(url.scheme(), "redis" | "rediss") && url.has_host());
    match good {
        true => Ok(text.to_owned()),
        false => Err("is no URL such as redis://127.0.0.1/ or rediss://user:password@host/".into()),
    }
}

/// Reads the place of the database. The file of `sqlite:` is what stands behind the colon, two
/// slashes more or less.
pub(crate) fn database_url(text: &str) -> Result<DatabasePlace, Complaint> {
    let wrong =
        || "is neither a URL such as postgres://user:password@host/name nor sqlite:PATH".to_owned();
    match text.split_once(':') {
        Some(("postgres" | "postgresql", _)) => {
            let url = Url::parse(text).map_err(|_| wrong())?;
            match url.has_host() {
                true => Ok(DatabasePlace::Server(Secret::new(text))),
                false => Err(wrong()),
            }
        }
        Some(("sqlite", rest)) => match rest.strip_prefix("//").unwrap_or(rest) {
            "" | ":memory:" => Err("names no file; write sqlite:PATH".to_owned()),
            path if path.contains('?') => Err("takes no parameters after the file".to_owned()),
            path => Ok(DatabasePlace::File(path.into())),
        },
        _ => Err(wrong()),
    }
}

/// Reads a name of an instance.
pub(crate) fn name(text: &str) -> Result<String, Complaint> {
    const MAX: usize = 63;
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    match text.len() <= MAX && text.bytes().all(allowed) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "is no name of at most {MAX} letters, digits, `-`, `_` and `.`"
        )),
    }
}

/// Reads `prefix=npub` items; none may name a prefix twice.
pub(crate) fn module_owners(text: &str) -> Result<Vec<ModuleOwner>, Complaint> {
    let mut found: Vec<ModuleOwner> = Vec::new();
    for item in list(text) {
        let owner = module_owner(&item).map_err(|why| format!("has `{item}`, {why}"))?;
        if found.iter().any(|known| known.prefix == owner.prefix) {
            return Err(format!("names {} twice", owner.prefix));
        }
        found.push(owner);
    }
    Ok(found)
}

fn module_owner(item: &str) -> Result<ModuleOwner, &'static str> {
    let (prefix, owner) = item
        .split_once('=')
        .ok_or("which is no prefix=npub such as go.example.com/tools=npub1…")?;
    let prefix = prefix.trim().trim_end_matches('/');
    if !is_module_prefix(prefix) {
        return Err("where the prefix is no module path such as go.example.com/tools");
    }
    Ok(ModuleOwner {
        prefix: prefix.to_owned(),
        owner: npub(owner.trim()).map_err(|_| "where the owner is no npub")?,
    })
}

fn is_module_prefix(prefix: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'~');
    let is_element = |e: &str| !e.is_empty() && !e.starts_with('.') && e.bytes().all(allowed);
    let host = prefix.split('/').next().unwrap_or_default();
    host.contains('.') && prefix.split('/').all(is_element)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_single_hosts_name_each_host_once() {
        let found = host_limits("GitHub.com=10/60, codeberg.org = 2 / 10").unwrap();
        let shown: Vec<_> = found
            .iter()
            .map(|l| format!("{} {} {}", l.host, l.concurrent, l.per_minute))
            .collect();
        assert_eq!(shown, ["github.com 10 60", "codeberg.org 2 10"]);
        for text in [
            "github.com",
            "github.com=10",
            "github.com=0/60",
            "github.com:443=1/2",
            "=1/2",
            "a=1/-2",
        ] {
            assert!(host_limits(text).unwrap_err().contains(text), "{text}");
        }
        let twice = host_limits("a.example=1/2,A.example.=3/4").unwrap_err();
        assert_eq!(twice, "names a.example twice");
    }

    #[test]
    fn only_what_can_be_fetched_is_a_scheme() {
        assert_eq!(schemes("HTTPS").unwrap(), ["https"]);
        assert!(schemes("https,ssh").unwrap_err().contains("`ssh`"));
        assert!(schemes(",").is_err());
    }

    #[test]
    fn redis_is_named_by_a_url() {
        for text in [
            "redis://127.0.0.1/",
            "rediss://:secret@cache.example:6380/2",
        ] {
            assert!(redis_url(text).is_ok(), "{text}");
        }
        for text in ["127.0.0.1:6379", "http://127.0.0.1/", "redis:"] {
            assert!(redis_url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_database_is_a_server_or_a_file() {
        for (text, file) in [
            ("sqlite:state.db", "state.db"),
            ("sqlite:///var/lib/x.db", "/var/lib/x.db"),
            ("sqlite:/var/lib/x.db", "/var/lib/x.db"),
        ] {
            assert_eq!(
                database_url(text),
                Ok(DatabasePlace::File(file.into())),
                "{text}"
            );
        }
        for text in ["postgres://db.example/x", "postgresql://u:p@127.0.0.1:1/x"] {
            assert!(
                matches!(database_url(text), Ok(DatabasePlace::Server(_))),
                "{text}"
            );
        }
        for text in [
            "mysql://x/y",
            "postgres:x",
            "sqlite:",
            "sqlite::memory:",
            "x",
        ] {
            assert!(database_url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn module_paths_have_an_owner_each() {
        const NPUB: &str = "npub10xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqpkge6d";
        let found = module_owners(&format!("go.example.com/tools/ = {NPUB}")).unwrap();
        assert_eq!(found[0].prefix, "go.example.com/tools");
        for (text, hint) in [
            ("go.example.com".to_owned(), "prefix=npub"),
            (format!("tools={NPUB}"), "no module path"),
            (format!("a.example/../b={NPUB}"), "no module path"),
            ("a.example=npub1x".to_owned(), "no npub"),
        ] {
            let complaint = module_owners(&text).unwrap_err();
            assert!(complaint.contains(&format!("`{text}`")), "{complaint}");
            assert!(complaint.contains(hint), "{complaint}");
        }
        let twice = format!("a.example={NPUB},a.example/={NPUB}");
        assert_eq!(module_owners(&twice).unwrap_err(), "names a.example twice");
    }

    #[test]
    fn a_name_of_an_instance_is_one_word() {
        assert!(name("harbour-1.eu_west").is_ok());
        for text in ["two words", "a@b", "a/b", &"x".repeat(64)] {
            assert!(name(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_have_units_or_none() {
        for (text, expected) in [
            ("2147483648", 2_147_483_648),
            ("2 GiB", 2 << 30),
            ("2G", 2 << 30),
            ("500 MB", 500_000_000),
            ("64kib", 64 << 10),
        ] {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for text in ["", "0", "-1", "2 gigs", "1.5 GiB", "99999999999 TiB"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_duration_without_unit_is_told_which_to_add() {
        assert_eq!(duration("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(duration("1m 30s"), Ok(Duration::from_secs(90)));
        assert_eq!(
            duration("5").unwrap_err(),
            "has no unit; write `5s` or `5ms`"
        );
        assert!(duration("soon").is_err());
        assert!(duration("0s").is_err());
    }

    #[test]
    fn truth_is_written_in_many_ways() {
        for text in ["true", "1", "YES", "on"] {
            assert_eq!(boolean(text), Ok(true));
        }
        for text in ["false", "0", "No", "off"] {
            assert_eq!(boolean(text), Ok(false));
        }
        assert!(boolean("maybe").is_err());
    }

    #[test]
    fn a_log_level_is_a_level_or_names_its_part() {
        for text in [
            "info",
            "WARN",
            "info,grip_git=debug",
            "grip_web[request]=trace",
        ] {
            assert!(log_filter(text).is_ok(), "{text}");
        }
        for text in ["loud", "info,grip_git", "grip_git=loud"] {
            assert!(log_filter(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_single_address_is_a_network() {
        let found = networks("10.0.0.0/8, 127.0.0.1,").unwrap();
        assert_eq!(
            found.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["10.0.0.0/8", "127.0.0.1/32"]
        );
        assert!(networks("10.0.0.0/99").unwrap_err().contains("10.0.0.0/99"));
    }
}
