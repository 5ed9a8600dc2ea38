//! Networks of clients: an address and the length of its prefix.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use thiserror::Error;

/// An IP network in CIDR notation; a single address is a network of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Network {
    /// Its first address: bits behind the prefix are zero.
    base: IpAddr,
    /// Bits of the prefix.
    prefix: u8,
}

/// Why a text is not a network.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NetworkError {
    /// The part before the slash is no IP address.
    #[error("{0:?} is not an IP address")]
    Address(String),
    /// The part behind the slash is no number, or longer than the address.
    #[error("{0:?} is not a prefix length for this address")]
    Prefix(String),
}

impl Network {
    /// The network of the addresses that share `prefix` bits with `address`; `None` if it has fewer bits.
    pub fn new(address: IpAddr, prefix: u8) -> Option<Network> {
        let base = match address {
            IpAddr::V4(v4) => IpAddr::V4((v4.to_bits() & mask32(prefix)?).into()),
            IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() & mask128(prefix)?).into()),
        };
        Some(Network { base, prefix })
    }

    /// Bits of the prefix: the more, the more specific.
    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    /// True for IPv6.
    pub fn is_ipv6(&self) -> bool {
        self.base.is_ipv6()
    }

    /// True when it holds addresses of the same machine alone.
    pub fn is_loopback(&self) -> bool {
        let all = if self.is_ipv6() { 128 } else { 8 };
        self.base.is_loopback() && self.prefix >= all
    }

    /// True when `address` is in it. IPv4 addresses that came by an IPv6 socket count as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        Network::new(address.to_canonical(), self.prefix).is_some_and(|of| of.base == self.base)
    }
}

fn mask32(prefix: u8) -> Option<u32> {
    match prefix {
        0 => Some(0),
        1..=32 => Some(u32::MAX << (32 - prefix)),
        _ => None,
    }
}

fn mask128(prefix: u8) -> Option<u128> {
    match prefix {
        0 => Some(0),
        1..=128 => Some(u128::MAX << (128 - prefix)),
        _ => None,
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Network, NetworkError> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let parsed: Result<IpAddr, _> = address.parse();
        let base = parsed.map_err(|_| NetworkError::Address(address.to_owned()))?;
        let whole = if base.is_ipv4() { 32 } else { 128 };
        let Some(prefix) = prefix else {
            return Ok(Network {
                base,
                prefix: whole,
            });
        };
        let bits = prefix.parse().ok().filter(|bits| *bits <= whole);
        bits.and_then(|bits| Network::new(base, bits))
            .ok_or_else(|| NetworkError::Prefix(prefix.to_owned()))
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(network: &str, address: &str) -> bool {
        network
            .parse::<Network>()
            .unwrap()
            .contains(address.parse().unwrap())
    }

    #[test]
    fn a_network_holds_its_addresses_alone() {
        assert!(contains("10.1.0.0/16", "10.1.255.3"));
        assert!(!contains("10.1.0.0/16", "10.2.0.1"));
        assert!(contains("192.168.7.9", "192.168.7.9"));
        assert!(!contains("192.168.7.9", "192.168.7.8"));
        assert!(contains("0.0.0.0/0", "203.0.113.9"));
        assert!(!contains("0.0.0.0/0", "2001:db8::1"));
        assert!(contains("2001:db8::/32", "2001:db8:ffff::1"));
        assert!(!contains("2001:db8::/32", "2001:db9::1"));
        assert!(contains("::/0", "::1"));
    }

    #[test]
    fn an_address_mapped_into_ipv6_is_the_ipv4_address() {
        assert!(contains("127.0.0.0/8", "::ffff:127.0.0.1"));
        assert!(!contains("::/0", "::ffff:127.0.0.1"));
    }

    #[test]
    fn networks_of_this_machine_alone_are_known() {
        let is_loopback = |network: &str| network.parse::<Network>().unwrap().is_loopback();
        assert!(is_loopback("127.0.0.1") && is_loopback("127.0.0.0/8") && is_loopback("::1"));
        assert!(!is_loopback("127.0.0.0/7") && !is_loopback("::/0") && !is_loopback("10.0.0.1"));
    }

    #[test]
    fn host_bits_are_dropped_and_the_text_comes_back() {
        let text = |network: &str| network.parse::<Network>().unwrap().to_string();
        assert_eq!(text("10.1.2.3/8"), "10.0.0.0/8");
        assert_eq!(text("::1"), "::1/128");
    }

    #[test]
    fn an_invalid_network_is_named_in_its_error() {
        let error = |network: &str| network.parse::<Network>().unwrap_err();
        assert_eq!(error("host/8"), NetworkError::Address("host".to_owned()));
        assert_eq!(error("10.0.0.0/33"), NetworkError::Prefix("33".to_owned()));
        assert_eq!(error("::1/129"), NetworkError::Prefix("129".to_owned()));
        assert_eq!(error("10.0.0.0/"), NetworkError::Prefix(String::new()));
    }
}
