//! Policy for addresses: those that may be dialled, named to others, and connect to us.

use std::net::{IpAddr, Ipv6Addr};

use grip_egress::Special;
use libp2p::{Multiaddr, PeerId, multiaddr::Protocol};

use crate::{DhtError, PeerName, limits};

/// The kind of network this node is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    /// Public addresses only.
    Global,
    /// Private, link-local and loopback addresses only.
    Lan,
    /// All addresses of hosts: for tests, and for closed networks.
    Any,
}

impl Policy {
    /// Whether an address that a stranger named may be used: an IP address and a TCP port,
    /// nothing else. Host names may not, because they lead anywhere their owner wants.
    pub(super) fn allows(self, address: &Multiaddr) -> bool {
        host_and_port(address).is_some_and(|(ip, port)| port != 0 && self.allows_ip(ip))
    }

    pub(super) fn allows_ip(self, ip: IpAddr) -> bool {
        use Special::{Broadcast, LinkLocal, Loopback, Metadata, Multicast, Private, Unspecified};
        match Special::of(ip) {
            None => self != Self::Lan,
            Some(Loopback | Private | LinkLocal) => self != Self::Global,
            Some(Unspecified | Multicast | Broadcast | Metadata) => false,
            Some(_) => self == Self::Any,
        }
    }

    /// The address of `peer` as strangers may see it: only its name where they may not name it
    /// themselves, as an address of the operator's own network.
    pub(super) fn shown(self, peer: PeerId, address: &Multiaddr) -> Multiaddr {
        if self.allows(address) {
            address.clone()
        } else {
            Multiaddr::empty().with(Protocol::P2p(peer))
        }
    }

    /// Whether a peer may connect from `address`.
    pub(super) fn admits(self, address: &Multiaddr) -> bool {
        match ip(address) {
            Some(ip) => self != Self::Lan || self.allows_ip(ip),
            None => self != Self::Lan,
        }
    }

    /// Whether a connection from `address` shows that peers of this kind of network can dial us.
    pub(super) fn is_from_outside(self, address: &Multiaddr) -> bool {
        ip(address).is_some_and(|ip| self.allows_ip(ip.to_canonical()))
    }

    /// A stranger's addresses that may be used, without the peer's name, each once, and the number
    /// of those refused.
    pub(super) fn filter_addresses<'a>(
        self,
        addresses: impl IntoIterator<Item = &'a Multiaddr>,
    ) -> (Vec<Multiaddr>, u64) {
        let mut good = Vec::new();
        let mut refused = 0;
        for address in addresses {
            let address = without_peer(address);
            if !self.allows(&address) {
                refused += 1;
            } else if !good.contains(&address) && good.len() < limits::ADDRESSES {
                good.push(address);
            }
        }
        (good, refused)
    }
}

/// The address without the name of a peer at its end.
pub(super) fn without_peer(address: &Multiaddr) -> Multiaddr {
    let mut address = address.clone();
    if matches!(address.iter().last(), Some(Protocol::P2p(_))) {
        address.pop();
    }
    address
}

fn ip(address: &Multiaddr) -> Option<IpAddr> {
    match address.iter().next()? {
        Protocol::Ip4(ip) => Some(ip.into()),
        Protocol::Ip6(ip) => Some(ip.into()),
        _ => None,
    }
}

/// The host of an address: a public IPv4 address, or the /64 network of an IPv6 host. None if it is
/// private: many peers may share it, as behind a proxy or in a LAN.
pub(super) fn host(address: &Multiaddr) -> Option<IpAddr> {
    match ip(address)?.to_canonical() {
        ip if Special::of(ip).is_some() => None,
        IpAddr::V6(ip) => {
            let network = ip.to_bits() >> 64 << 64;
            Some(Ipv6Addr::from_bits(network).into())
        }
        four => Some(four),
    }
}

/// Reads `/ip…/…/tcp/…` with at most the name of a peer behind it.
fn host_and_port(address: &Multiaddr) -> Option<(IpAddr, u16)> {
    let ip = ip(address)?;
    let mut rest = address.iter().skip(1);
    let Some(Protocol::Tcp(port)) = rest.next() else {
        return None;
    };
    match (rest.next(), rest.next()) {
        (None | Some(Protocol::P2p(_)), None) => Some((ip, port)),
        _ => None,
    }
}

fn invalid(address: &str, reason: impl Into<String>) -> DhtError {
    DhtError::InvalidAddress {
        address: address.to_owned(),
        reason: reason.into(),
    }
}

fn parse(text: &str) -> Result<Multiaddr, DhtError> {
    text.parse().map_err(|error| {
        invalid(
            text,
            format!("{error}; an example is /ip4/192.0.2.1/tcp/4001"),
        )
    })
}

/// An address to listen on.
pub(super) fn listen(text: &str) -> Result<Multiaddr, DhtError> {
    let address = parse(text)?;
    match host_and_port(&address) {
        Some(_) if without_peer(&address) == address => Ok(address),
        _ => Err(invalid(text, "it takes the form /ip4/0.0.0.0/tcp/4001")),
    }
}

/// An address of ours that is named to others.
pub(super) fn external(text: &str, policy: Policy) -> Result<Multiaddr, DhtError> {
    let address = without_peer(&parse(text)?);
    if policy.allows(&address) {
        return Ok(address);
    }
    Err(invalid(
        text,
        "others would not dial it: they want an IP address and a TCP port of the same kind of \
         network as theirs",
    ))
}

/// A peer that the operator names, which may be anywhere except outside of its own LAN.
pub(super) fn bootstrap(text: &str, policy: Policy) -> Result<(PeerId, Multiaddr), DhtError> {
    let mut address = parse(text)?;
    let Some(Protocol::P2p(peer)) = address.pop() else {
        return Err(invalid(
            text,
            "it must end in /p2p/ and the name of the peer",
        ));
    };
    if matches!(address.iter().next(), Some(Protocol::Dnsaddr(_))) {
        return Err(invalid(
            text,
            "lists of peers in DNS are not read; it takes the form /dns4/a.example/tcp/4001/p2p/…",
        ));
    }
    if policy == Policy::Lan && ip(&address).is_some_and(|ip| !policy.allows_ip(ip)) {
        return Err(invalid(
            text,
            "it is outside, and this node stays within its LAN",
        ));
    }
    Ok((peer, address))
}

/// A peer that a stranger named, at an address that may be dialled.
pub(super) fn named_by_others(text: &str, policy: Policy) -> Option<(PeerId, Multiaddr)> {
    if text.len() > 2 * limits::ADDRESS_BYTES {
        return None;
    }
    let mut address: Multiaddr = text.parse().ok()?;
    let Some(Protocol::P2p(peer)) = address.pop() else {
        return None;
    };
    policy.allows(&address).then_some((peer, address))
}

pub(super) fn name(peer: &PeerId) -> Option<PeerName> {
    PeerName::from_bytes(&peer.to_bytes()).ok()
}

pub(super) fn id(name: &PeerName) -> Option<PeerId> {
    PeerId::from_bytes(&name.to_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(policy: Policy, text: &str) -> bool {
        policy.allows(&text.parse().unwrap())
    }

    #[test]
    fn strangers_name_public_addresses_only() {
        for text in ["/ip4/1.1.1.1/tcp/4001", "/ip6/2606:4700::1/tcp/4001"] {
            assert!(allows(Policy::Global, text), "{text}");
            assert!(!allows(Policy::Lan, text), "{text}");
        }
        let words = "/ip4/127.0.0.1/tcp/4001 /ip4/10.0.0.1/tcp/4001 /ip4/192.168.1.1/tcp/4001 \
            /ip6/::1/tcp/4001 /ip6/fd00::1/tcp/4001 /ip6/fe80::1/tcp/4001 \
            /ip6/::ffff:10.0.0.1/tcp/4001";
        for text in words.split(' ') {
            assert!(!allows(Policy::Global, text), "{text}");
        }
    }

    #[test]
    fn metadata_services_and_addresses_of_no_host_are_refused() {
        let words = "/ip4/169.254.169.254/tcp/80 /ip4/0.0.0.0/tcp/4001 /ip4/224.0.0.1/tcp/4001 \
            /ip4/1.1.1.1/tcp/0 /ip4/1.1.1.1/udp/4001 /ip4/1.1.1.1/udp/4001/quic-v1 /ip4/1.1.1.1 \
            /dns4/evil.example/tcp/4001 /dnsaddr/evil.example /ip4/1.1.1.1/tcp/4001/ws";
        for text in words.split(' ') {
            for policy in [Policy::Global, Policy::Lan, Policy::Any] {
                assert!(!allows(policy, text), "{text}");
            }
        }
    }

    #[test]
    fn a_lan_is_private_and_loopback_addresses() {
        for text in [
            "/ip4/10.1.2.3/tcp/1",
            "/ip4/127.0.0.1/tcp/1",
            "/ip6/fd00::1/tcp/1",
        ] {
            assert!(allows(Policy::Lan, text), "{text}");
        }
        let outside = "/ip4/1.1.1.1/tcp/1".parse().unwrap();
        assert!(!Policy::Lan.admits(&outside));
        assert!(Policy::Global.admits(&outside));
    }

    #[test]
    fn a_sifted_list_is_short_and_has_nothing_twice() {
        let good = |i: usize| format!("/ip4/1.1.1.{}/tcp/1", i % 12).parse().unwrap();
        let mut addresses: Vec<Multiaddr> = (0..24).map(good).collect();
        addresses.push("/ip4/10.0.0.1/tcp/1".parse().unwrap());
        let (sifted, refused) = Policy::Global.filter_addresses(&addresses);
        assert_eq!((sifted.len(), refused), (limits::ADDRESSES, 1));
    }

    #[test]
    fn hosts_are_distinguished_by_their_own_address_or_network() {
        let of = |text: &str| host(&text.parse().unwrap()).map(|host| host.to_string());
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(of("/ip4/1.1.1.1/tcp/1"), some("1.1.1.1"));
        assert_eq!(of("/ip6/::ffff:1.1.1.1/tcp/1"), some("1.1.1.1"));
        assert_eq!(
            of("/ip6/2606:4700:1:2:3:4:5:6/tcp/1"),
            some("2606:4700:1:2::")
        );
        for nowhere in [
            "/ip4/127.0.0.1/tcp/1",
            "/ip4/172.17.0.1/tcp/1",
            "/ip4/100.64.0.1/tcp/1",
            "/ip6/fd00::1/tcp/1",
            "/dns4/a.example/tcp/1",
        ] {
            assert_eq!(of(nowhere), None, "{nowhere}");
        }
    }

    #[test]
    fn a_peer_that_a_stranger_named_is_dialled_at_public_addresses_only() {
        let name = "12D3KooWPjceQrSwdWXPyLLeABRXmuqt69Rg3sBYbU1Nft9HyQ6X";
        let named = |at: &str| named_by_others(&format!("{at}/p2p/{name}"), Policy::Global);
        assert!(named("/ip4/1.1.1.1/tcp/1").is_some());
        for refused in [
            "/ip4/10.0.0.1/tcp/1",
            "/ip4/127.0.0.1/tcp/1",
            "/dns4/a.example/tcp/1",
            "/ip4/1.1.1.1/udp/1/quic-v1",
        ] {
            assert!(named(refused).is_none(), "{refused}");
        }
        assert!(named_by_others("/ip4/1.1.1.1/tcp/1", Policy::Global).is_none());
        assert!(named_by_others(&"/ip4/1.1.1.1".repeat(99), Policy::Global).is_none());
    }

    #[test]
    fn invalid_addresses_of_the_settings_are_refused() {
        let name = "12D3KooWPjceQrSwdWXPyLLeABRXmuqt69Rg3sBYbU1Nft9HyQ6X";
        assert!(bootstrap(&format!("/dns4/a.example/tcp/1/p2p/{name}"), Policy::Lan).is_ok());
        assert!(bootstrap(&format!("/ip4/10.0.0.1/tcp/1/p2p/{name}"), Policy::Global).is_ok());
        let wrong = [
            bootstrap("/ip4/1.1.1.1/tcp/1", Policy::Global).unwrap_err(),
            bootstrap(&format!("/ip4/1.1.1.1/tcp/1/p2p/{name}"), Policy::Lan).unwrap_err(),
            bootstrap(&format!("/dnsaddr/a.example/p2p/{name}"), Policy::Global).unwrap_err(),
            external("/ip4/10.0.0.1/tcp/1", Policy::Global).unwrap_err(),
            listen("/dns4/a.example/tcp/1").unwrap_err(),
            listen("4001").unwrap_err(),
        ];
        for error in wrong {
            assert!(matches!(error, DhtError::InvalidAddress { .. }), "{error}");
        }
    }
}
