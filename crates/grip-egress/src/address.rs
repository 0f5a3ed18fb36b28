//! Classification of addresses: public, private, special.
//!
//! The table follows the IANA registries of special-purpose IPv4 and IPv6 addresses; where a
//! block of the registry has public exceptions that hold no git host, the whole block is refused.
//!
//! Invariant: an IPv6 address that carries an IPv4 address inside is no better than the one it
//! carries.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket},
};

use grip_types::Domain;
use ipnet::{Ipv4Net, Ipv6Net};

/// A port to name where nothing is sent.
const DISCARD_PORT: u16 = 9;

/// What an address is used for, where it is not a public one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Special {
    Unspecified,
    Multicast,
    Broadcast,
    Loopback,
    Private,
    LinkLocal,
    /// Between a provider and its customers (100.64.0.0/10).
    Shared,
    /// Where a cloud tells its machines their secrets.
    Metadata,
    Documentation,
    Benchmarking,
    /// Translation and tunnel prefixes that lead into another network.
    Transition,
    /// Everything else that no public host may have.
    Reserved,
    /// On an interface of this machine: what listens there may be meant for nobody outside.
    ThisMachine,
}

impl Special {
    /// What `address` is, none where it is public.
    pub fn of(address: IpAddr) -> Option<Self> {
        special(address)
    }

    /// Nobody can be reached there, whatever the operator allows.
    fn is_never_a_host(self) -> bool {
        matches!(self, Self::Unspecified | Self::Multicast | Self::Broadcast)
    }
}

impl fmt::Display for Special {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unspecified => "an unspecified address",
            Self::Multicast => "a multicast address",
            Self::Broadcast => "a broadcast address",
            Self::Loopback => "a loopback address",
            Self::Private => "a private address",
            Self::LinkLocal => "a link-local address",
            Self::Shared => "a shared address of a provider",
            Self::Metadata => "a metadata address of a cloud",
            Self::Documentation => "a documentation address",
            Self::Benchmarking => "a benchmarking address",
            Self::Transition => "an address of a transition mechanism",
            Self::Reserved => "a reserved address",
            Self::ThisMachine => "an address of this machine",
        })
    }
}

/// Which addresses may be connected to.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) allow_non_global: bool,
    /// Hosts that need not be public.
    pub(crate) private_hosts: Vec<Domain>,
    /// Loopback addresses that stand for public hosts in a test.
    #[cfg(test)]
    pub(crate) taken_for_public: Vec<IpAddr>,
}

impl Rules {
    pub(crate) fn new(allow_non_global: bool, private_hosts: Vec<Domain>) -> Self {
        Self {
            allow_non_global,
            private_hosts,
            #[cfg(test)]
            taken_for_public: Vec::new(),
        }
    }

    /// Says why `address` may not be connected to as that of `host`; none where it may.
    pub(crate) fn refuse(&self, host: &Domain, address: IpAddr) -> Option<Special> {
        let own = || {
            let is_own = !self.allow_non_global && !self.is_private(host) && is_own(address);
            is_own.then_some(Special::ThisMachine)
        };
        let special = self.special(address).or_else(own)?;
        let allowed = if self.allow_non_global {
            !special.is_never_a_host()
        } else {
            // What a cloud tells its machines is no host that an operator would name.
            self.is_private(host) && !special.is_never_a_host() && special != Special::Metadata
        };
        (!allowed).then_some(special)
    }

    /// Whether the operator named `host` as one that need not be public.
    pub(crate) fn is_private(&self, host: &Domain) -> bool {
        self.private_hosts.contains(host)
    }

    pub(crate) fn is_public(&self, address: IpAddr) -> bool {
        self.special(address).is_none()
    }

    fn special(&self, address: IpAddr) -> Option<Special> {
        #[cfg(test)]
        if self.taken_for_public.contains(&address) {
            return None;
        }
        special(address)
    }
}

/// Whether an address is on an interface of this machine: the system would then send from that
/// very address. Nothing is sent to find out, and interfaces may come and go.
pub(crate) fn is_own(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let from = || {
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect((address, DISCARD_PORT))?;
        socket.local_addr()
    };
    from().is_ok_and(|from| from.ip() == address)
}

/// What `address` is, none where it is public.
fn special(address: IpAddr) -> Option<Special> {
    match address {
        IpAddr::V4(address) => special_v4(address),
        IpAddr::V6(address) => special_v6(address),
    }
}

const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), bits)
}

/// The first match counts.
const TABLE_V4: &[(Ipv4Net, Special)] = &[
    (v4(0, 0, 0, 0, 32), Special::Unspecified),
    (v4(0, 0, 0, 0, 8), Special::Reserved),
    (v4(10, 0, 0, 0, 8), Special::Private),
    (v4(100, 64, 0, 0, 10), Special::Shared),
    (v4(127, 0, 0, 0, 8), Special::Loopback),
    // A public number that a large cloud answers inside its own machines.
    (v4(168, 63, 129, 16, 32), Special::Metadata),
    (v4(169, 254, 169, 254, 32), Special::Metadata),
    (v4(169, 254, 0, 0, 16), Special::LinkLocal),
    (v4(172, 16, 0, 0, 12), Special::Private),
    (v4(192, 0, 0, 0, 24), Special::Reserved),
    (v4(192, 0, 2, 0, 24), Special::Documentation),
    (v4(192, 31, 196, 0, 24), Special::Reserved),
    (v4(192, 52, 193, 0, 24), Special::Reserved),
    (v4(192, 88, 99, 0, 24), Special::Transition),
    (v4(192, 168, 0, 0, 16), Special::Private),
    (v4(192, 175, 48, 0, 24), Special::Reserved),
    (v4(198, 18, 0, 0, 15), Special::Benchmarking),
    (v4(198, 51, 100, 0, 24), Special::Documentation),
    (v4(203, 0, 113, 0, 24), Special::Documentation),
    (v4(224, 0, 0, 0, 4), Special::Multicast),
    (v4(255, 255, 255, 255, 32), Special::Broadcast),
    (v4(240, 0, 0, 0, 4), Special::Reserved),
];

fn special_v4(address: Ipv4Addr) -> Option<Special> {
    TABLE_V4
        .iter()
        .find(|(net, _)| net.contains(&address))
        .map(|(_, special)| *special)
}

const fn v6(a: u16, b: u16, c: u16, d: u16, bits: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0), bits)
}

const MAPPED: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96);
const COMPATIBLE: Ipv6Net = v6(0, 0, 0, 0, 96);
const NAT64: Ipv6Net = v6(0x64, 0xff9b, 0, 0, 96);
const SIX_TO_FOUR: Ipv6Net = v6(0x2002, 0, 0, 0, 16);
/// All that is given out to networks of the public internet.
const GLOBAL_UNICAST: Ipv6Net = v6(0x2000, 0, 0, 0, 3);

/// The first match counts; what is in none and not global unicast is reserved.
const TABLE_V6: &[(Ipv6Net, Special)] = &[
    (v6(0, 0, 0, 0, 128), Special::Unspecified),
    (
        Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128),
        Special::Loopback,
    ),
    (COMPATIBLE, Special::Transition),
    (v6(0x64, 0xff9b, 1, 0, 48), Special::Transition),
    (v6(0x2001, 0, 0, 0, 32), Special::Transition),
    (v6(0x2001, 2, 0, 0, 48), Special::Benchmarking),
    (v6(0x2001, 0xdb8, 0, 0, 32), Special::Documentation),
    (v6(0x2001, 0, 0, 0, 23), Special::Reserved),
    (v6(0x2620, 0x4f, 0x8000, 0, 48), Special::Reserved),
    (v6(0x3fff, 0, 0, 0, 20), Special::Documentation),
    (v6(0xfc00, 0, 0, 0, 7), Special::Private),
    (v6(0xfe80, 0, 0, 0, 10), Special::LinkLocal),
    (v6(0xfec0, 0, 0, 0, 10), Special::Private),
    (v6(0xff00, 0, 0, 0, 8), Special::Multicast),
];

fn special_v6(address: Ipv6Addr) -> Option<Special> {
    let listed = || {
        TABLE_V6
            .iter()
            .find(|(net, _)| net.contains(&address))
            .map(|(_, special)| *special)
    };
    let unlisted = || {
        let is_public = [MAPPED, NAT64, GLOBAL_UNICAST]
            .iter()
            .any(|net| net.contains(&address));
        (!is_public).then_some(Special::Reserved)
    };
    carried(address)
        .and_then(special_v4)
        .or_else(listed)
        .or_else(unlisted)
}

/// The IPv4 address at which a packet to `address` may end. Forms that the table refuses as a
/// whole are left out, but for the one that reads like an IPv4 address.
fn carried(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let bytes = address.octets();
    let is_in = |nets: &[Ipv6Net]| nets.iter().any(|net| net.contains(&address));
    if address.is_unspecified() || address.is_loopback() {
        None
    } else if is_in(&[MAPPED, COMPATIBLE, NAT64]) {
        Some(Ipv4Addr::new(bytes[12], bytes[13], bytes[14], bytes[15]))
    } else if is_in(&[SIX_TO_FOUR]) {
        Some(Ipv4Addr::new(bytes[2], bytes[3], bytes[4], bytes[5]))
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
