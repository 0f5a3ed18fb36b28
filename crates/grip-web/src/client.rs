//! The address of the client, also behind a proxy.

use std::net::IpAddr;

use http::HeaderMap;
use ipnet::IpNet;

const FORWARDED_FOR: &str = "x-forwarded-for";

/// The address a request counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Client {
    pub(crate) ip: IpAddr,
    /// True where per-address bounds do not apply: a trusted peer that speaks for nobody else,
    /// such as a tool on this machine.
    pub(crate) exempt: bool,
}

impl Client {
    /// Finds the client of a request that came from `peer`.
    ///
    /// `X-Forwarded-For` is read from its right end, past proxies we trust: what stands further
    /// left was written by the client and may be anything. A header that names nobody,
    /// with any bytes, exempts nobody: the request counts against the proxy itself.
    pub(crate) fn find(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> Self {
        let peer = peer.to_canonical();
        if !is_trusted(peer, trusted) {
            return Self {
                ip: peer,
                exempt: false,
            };
        }
        let named = headers
            .get_all(FORWARDED_FOR)
            .iter()
            .rev()
            .flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b','))
            .map_while(read_address)
            .find(|ip| !is_trusted(*ip, trusted));
        Self {
            ip: named.unwrap_or(peer),
            exempt: !headers.contains_key(FORWARDED_FOR),
        }
    }
}

/// Whether `ip` is a proxy of the operator's.
pub(crate) fn is_trusted(ip: IpAddr, trusted: &[IpNet]) -> bool {
    let ip = ip.to_canonical();
    trusted.iter().any(|net| net.contains(&ip))
}

/// Reads an address with or without a port, as proxies write both.
fn read_address(bytes: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(bytes).ok()?.trim();
    let ip = text
        .parse::<IpAddr>()
        .or_else(|_| text.parse::<std::net::SocketAddr>().map(|a| a.ip()))
        .or_else(|_| text.trim_matches(['[', ']']).parse::<IpAddr>());
    ip.ok().map(|ip| ip.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn find(peer: &str, forwarded: &[&str]) -> (String, bool) {
        let forwarded: Vec<_> = forwarded.iter().map(|value| value.as_bytes()).collect();
        find_in_bytes(peer, &forwarded)
    }

    fn find_in_bytes(peer: &str, forwarded: &[&[u8]]) -> (String, bool) {
        let headers = testing::header(FORWARDED_FOR, forwarded);
        let trusted = ["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()];
        let client = Client::find(ip(peer), &headers, &trusted);
        (client.ip.to_string(), client.exempt)
    }

    #[test]
    fn a_stranger_cannot_choose_its_address() {
        let found = find("203.0.113.7", &["198.51.100.1"]);
        assert_eq!(found, ("203.0.113.7".into(), false));
    }

    #[test]
    fn a_trusted_proxy_names_the_client_at_the_right_end() {
        let cases: &[(&[&str], &str)] = &[
            (&["198.51.100.1"], "198.51.100.1"),
            (&["1.1.1.1, 198.51.100.1"], "198.51.100.1"),
            (&["1.1.1.1", "198.51.100.1, 10.9.9.9"], "198.51.100.1"),
            (&["198.51.100.1:4711"], "198.51.100.1"),
            (&["[2001:db8::1]:4711"], "2001:db8::1"),
            (&["[2001:db8::1]"], "2001:db8::1"),
            (&["::ffff:198.51.100.1"], "198.51.100.1"),
            (&["1.1.1.1", "10.9.9.9"], "1.1.1.1"),
        ];
        for (forwarded, expected) in cases {
            let found = find("10.0.0.1", forwarded);
            assert_eq!(found, ((*expected).into(), false), "{forwarded:?}");
        }
        assert_eq!(find("10.0.0.1", &[]), ("10.0.0.1".into(), true));
        assert_eq!(find("::ffff:10.0.0.1", &["1.2.3.4"]).0, "1.2.3.4");
    }

    #[test]
    fn no_byte_that_a_client_writes_makes_it_exempt() {
        let named = ("198.51.100.1".to_owned(), false);
        for forwarded in [
            &[&b"\xff, 198.51.100.1"[..]] as &[&[u8]],
            &[b"\xe4\xb8\xad, 1.1.1.1,198.51.100.1"],
            &[b"\xff", b"198.51.100.1"],
            &[b"1.1.1.1, \x80, 198.51.100.1, 10.9.9.9"],
        ] {
            assert_eq!(find_in_bytes("10.0.0.1", forwarded), named, "{forwarded:?}");
        }
    }

    #[test]
    fn a_header_that_names_nobody_counts_against_the_proxy() {
        let proxy = ("10.0.0.1".to_owned(), false);
        for forwarded in [
            &[&b"1.1.1.1, unknown"[..]] as &[&[u8]],
            &[b""],
            &[b","],
            &[b"1.1.1.1, \xff"],
            &[b"1.1.1.1", b"\xff"],
            &[b"10.9.9.9"],
        ] {
            assert_eq!(find_in_bytes("10.0.0.1", forwarded), proxy, "{forwarded:?}");
        }
    }
}
