//! Networks of clients: the unit in which addresses are counted.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// The network that a client's address counts under. A client with one address of it is taken to
/// have them all, so that what one client may use up does not grow with its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientNetwork(IpAddr);

/// How many leading bits of an address name its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkPrefixes {
    /// Default 32: each address for itself.
    pub ipv4: u8,
    /// Default 56: what providers commonly give to one household.
    pub ipv6: u8,
}

impl Default for NetworkPrefixes {
    fn default() -> Self {
        Self { ipv4: 32, ipv6: 56 }
    }
}

impl NetworkPrefixes {
    /// The network of an address; IPv4 addresses in IPv6 clothing are IPv4 ones.
    pub fn network(self, ip: IpAddr) -> ClientNetwork {
        ClientNetwork(match ip.to_canonical() {
            IpAddr::V4(ip) => {
                let unused = 32_u32.saturating_sub(self.ipv4.into());
                let mask = u32::MAX.checked_shl(unused).unwrap_or(0);
                Ipv4Addr::from(u32::from(ip) & mask).into()
            }
            IpAddr::V6(ip) => {
                let unused = 128_u32.saturating_sub(self.ipv6.into());
                let mask = u128::MAX.checked_shl(unused).unwrap_or(0);
                Ipv6Addr::from(u128::from(ip) & mask).into()
            }
        })
    }
}

impl ClientNetwork {
    /// Its first address, as one of IPv6.
    pub(crate) fn octets(self) -> [u8; 16] {
        match self.0 {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
        }
    }
}

impl fmt::Display for ClientNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(prefixes: NetworkPrefixes, ip: &str) -> String {
        prefixes.network(ip.parse().unwrap()).to_string()
    }

    #[test]
    fn addresses_of_one_household_are_one_network() {
        let usual = NetworkPrefixes::default();
        assert_eq!(network(usual, "192.0.2.7"), "192.0.2.7");
        assert_eq!(network(usual, "::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(network(usual, "2001:db8:1:2ff:3::4"), "2001:db8:1:200::");
        assert_ne!(
            network(usual, "2001:db8:1:2ff::"),
            network(usual, "2001:db8:1:3ff::")
        );
    }

    #[test]
    fn prefixes_can_be_of_any_length() {
        let wide = NetworkPrefixes { ipv4: 24, ipv6: 48 };
        assert_eq!(network(wide, "192.0.2.7"), "192.0.2.0");
        assert_eq!(network(wide, "2001:db8:1:2::4"), "2001:db8:1::");
        let all = NetworkPrefixes { ipv4: 0, ipv6: 0 };
        assert_eq!(network(all, "192.0.2.7"), "0.0.0.0");
        assert_eq!(network(all, "2001:db8::1"), "::");
        let each = NetworkPrefixes {
            ipv4: 255,
            ipv6: 255,
        };
        assert_eq!(network(each, "192.0.2.7"), "192.0.2.7");
        assert_eq!(network(each, "2001:db8::1"), "2001:db8::1");
    }
}
