//! The name under which a node is reached.

use std::fmt;

use url::{Host, Url};

/// Our own origin: host, port and base path, as announcements name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    host: Host<String>,
    port: Option<u16>,
    base: String,
    /// True where clients reach us by `https`/`wss`.
    secure: bool,
}

/// Why a text is no service name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a service name such as `grasp.example.com` or `localhost:7334`")]
pub struct InvalidService(String);

impl Service {
    /// Reads `host[:port][/base]`, with or without a scheme.
    ///
    /// Without a scheme, `localhost` and IP addresses are taken to be plain `http`.
    pub fn parse(text: &str) -> Result<Self, InvalidService> {
        let invalid = || InvalidService(text.to_owned());
        let text = text.trim();
        let url = match text.split_once("://") {
            Some(("https" | "wss", rest)) => Url::parse(&format!("https://{rest}")),
            Some(("http" | "ws", rest)) => Url::parse(&format!("http://{rest}")),
            Some(_) => return Err(invalid()),
            None => Url::parse(&format!("https://{text}")),
        }
        .map_err(|_| invalid())?;
        let plain_text = !url.username().is_empty() || url.query().is_some();
        if plain_text || url.fragment().is_some() {
            return Err(invalid());
        }
        let host = url.host().ok_or_else(invalid)?.to_owned();
        let is_local = match &host {
            Host::Domain(name) => name == "localhost" || name.ends_with(".localhost"),
            Host::Ipv4(_) | Host::Ipv6(_) => true,
        };
        let secure = match text.split_once("://") {
            Some((scheme, _)) => matches!(scheme, "https" | "wss"),
            None => !is_local,
        };
        let default_port = if secure { 443 } else { 80 };
        let port = explicit_port(text)
            .or(url.port())
            .filter(|port| *port != default_port);
        let base = url.path().trim_matches('/').to_owned();
        Ok(Self {
            host,
            port,
            base,
            secure,
        })
    }

    /// Says whether `url` is one of ours, and gives the path segments below our base.
    ///
    /// Hosts compare without case; `http` and `https`, `ws` and `wss` are alike; a default port
    /// is the same as none; doubled and trailing slashes do not count.
    pub fn segments_of<'a>(&self, url: &'a Url, schemes: &[&str]) -> Option<Vec<&'a str>> {
        if !schemes.contains(&url.scheme()) || !self.has_authority(url) {
            return None;
        }
        let mut segments = url.path_segments()?.filter(|s| !s.is_empty());
        for part in self.base.split('/').filter(|s| !s.is_empty()) {
            if segments.next() != Some(part) {
                return None;
            }
        }
        Some(segments.collect())
    }

    /// Says whether `text` is the address of this server's relay.
    pub fn is_relay_url(&self, text: &str) -> bool {
        let url = Url::parse(text).ok();
        let rest = url
            .as_ref()
            .and_then(|url| self.segments_of(url, &["ws", "wss"]));
        rest.is_some_and(|rest| rest.is_empty())
    }

    /// Says whether `url` names our host and port.
    pub fn has_authority(&self, url: &Url) -> bool {
        let same_port = url.port_or_known_default() == Some(self.port_or_default())
            || (url.port().is_none() && self.port.is_none());
        let same_host = url.host().is_some_and(|host| {
            let host = host.to_owned();
            host == self.host || (is_loopback(&host) && is_loopback(&self.host))
        });
        same_host && same_port && url.username().is_empty()
    }

    fn port_or_default(&self) -> u16 {
        self.port.unwrap_or(if self.secure { 443 } else { 80 })
    }

    /// `host[:port][/base]`, as announcements write it after the scheme.
    pub fn authority(&self) -> String {
        let mut out = self.host.to_string();
        if let Some(port) = self.port {
            out.push_str(&format!(":{port}"));
        }
        if !self.base.is_empty() {
            out.push('/');
            out.push_str(&self.base);
        }
        out
    }

    /// The path below which everything is served, without slashes at its ends.
    pub fn base(&self) -> &str {
        &self.base
    }

    pub fn http_url(&self) -> String {
        format!(
            "{}://{}",
            if self.secure { "https" } else { "http" },
            self.authority()
        )
    }

    pub fn relay_url(&self) -> String {
        format!(
            "{}://{}",
            if self.secure { "wss" } else { "ws" },
            self.authority()
        )
    }
}

/// Says whether a host is this machine itself, under whichever of its names: `localhost`,
/// `127.0.0.1` and `[::1]` with one port are one server.
fn is_loopback(host: &Host<String>) -> bool {
    match host {
        Host::Domain(name) => name == "localhost",
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    }
}

/// The port as written; the URL parser drops one that is its scheme's default.
fn explicit_port(text: &str) -> Option<u16> {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let authority = rest.split('/').next()?;
    let (host, port) = authority.rsplit_once(':')?;
    (!host.is_empty() && !port.contains(']'))
        .then(|| port.parse().ok())
        .flatten()
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owns(service: &str, url: &str) -> bool {
        let service = Service::parse(service).unwrap();
        service
            .segments_of(&Url::parse(url).unwrap(), &["http", "https"])
            .is_some()
    }

    #[test]
    fn a_longer_host_is_another_host() {
        assert!(owns("grasp.example.com", "https://grasp.example.com/x"));
        assert!(!owns(
            "grasp.example.com",
            "https://grasp.example.com.evil.net/x"
        ));
        assert!(!owns("grasp.example.com", "https://mygrasp.example.com/x"));
        assert!(!owns("git.com", "https://mygit.com/x"));
        assert!(!owns(
            "grasp.example.com",
            "https://user@grasp.example.com/x"
        ));
    }

    #[test]
    fn case_scheme_default_port_and_slashes_do_not_matter() {
        for url in [
            "http://GRASP.example.com//a//b/",
            "https://grasp.example.com:443/a/b",
            "http://grasp.example.com:80/a/b",
        ] {
            let service = Service::parse("grasp.example.com").unwrap();
            let url = Url::parse(url).unwrap();
            assert_eq!(
                service.segments_of(&url, &["http", "https"]),
                Some(vec!["a", "b"]),
                "{url}"
            );
        }
    }

    #[test]
    fn ports_are_compared() {
        assert!(owns("localhost:7334", "http://localhost:7334/x"));
        assert!(!owns("localhost:7334", "http://localhost:7335/x"));
        assert!(!owns("localhost:7334", "http://localhost/x"));
        assert!(!owns(
            "grasp.example.com",
            "https://grasp.example.com:8443/x"
        ));
    }

    #[test]
    fn the_names_of_this_machine_are_one_server() {
        assert!(owns("127.0.0.1:7334", "http://localhost:7334/x"));
        assert!(owns("localhost:7334", "http://[::1]:7334/x"));
        assert!(!owns("127.0.0.1:7334", "http://localhost:7335/x"));
        assert!(!owns("127.0.0.1:7334", "http://localhost.evil.net:7334/x"));
        assert!(!owns("grasp.example.com:7334", "http://localhost:7334/x"));
    }

    #[test]
    fn a_base_path_must_be_there() {
        let service = Service::parse("https://example.com/grasp").unwrap();
        let inside = Url::parse("https://example.com/grasp/npub/x.git").unwrap();
        let outside = Url::parse("https://example.com/npub/x.git").unwrap();
        assert_eq!(
            service.segments_of(&inside, &["https"]),
            Some(vec!["npub", "x.git"])
        );
        assert_eq!(service.segments_of(&outside, &["https"]), None);
        assert_eq!(service.relay_url(), "wss://example.com/grasp");
    }

    #[test]
    fn local_names_are_plain_http() {
        assert_eq!(
            Service::parse("127.0.0.1:7334").unwrap().http_url(),
            "http://127.0.0.1:7334"
        );
        assert_eq!(
            Service::parse("localhost").unwrap().relay_url(),
            "ws://localhost"
        );
        assert_eq!(
            Service::parse("grasp.example.com").unwrap().http_url(),
            "https://grasp.example.com"
        );
        assert!(Service::parse("").is_err());
        assert!(Service::parse("ftp://x").is_err());
    }
}
