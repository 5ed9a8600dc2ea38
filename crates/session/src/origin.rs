//! Origins: peers that bounds count as one.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// The origin of a peer: its IPv4 address, or the /64 network of its IPv6 address. A host chooses the lower half of an
/// IPv6 address itself, and could multiply itself otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin(IpAddr);

impl From<IpAddr> for Origin {
    fn from(address: IpAddr) -> Origin {
        Origin(match address.to_canonical() {
            IpAddr::V4(address) => IpAddr::V4(address),
            IpAddr::V6(address) => {
                let network = u128::from(address) >> 64 << 64;
                IpAddr::V6(Ipv6Addr::from(network))
            }
        })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(address) => address.fmt(f),
            IpAddr::V6(network) => write!(f, "{network}/64"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_cannot_multiply_itself_within_its_network() {
        let origin = |text: &str| Origin::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(origin("2001:db8::1"), origin("2001:db8::ffff:0:0:2"));
        assert_ne!(origin("2001:db8::1"), origin("2001:db8:0:1::1"));
        assert_ne!(origin("192.0.2.1"), origin("192.0.2.2"));
        assert_eq!(origin("::ffff:192.0.2.1"), origin("192.0.2.1"));
        assert_eq!(origin("2001:db8::1").to_string(), "2001:db8::/64");
        assert_eq!(origin("::ffff:192.0.2.1").to_string(), "192.0.2.1");
    }
}
