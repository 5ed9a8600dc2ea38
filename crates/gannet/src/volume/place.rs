//! Hosts with ports as text, and the lookup of their addresses.

use gannet_wire::volume::{Address, HOST_MAX};
use serde::Deserialize;
use serde::de::Error as _;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// `HOST:PORT`; a host that is an IPv6 address stands in brackets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place(pub Address);

/// The text, which is not a host with a port.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not HOST:PORT, for example io1.example:20051")]
pub struct PlaceError(pub String);

impl FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Place, PlaceError> {
        let wrong = || PlaceError(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().ok().filter(|port| *port != 0);
        let bare = match host.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']').ok_or_else(wrong)?,
            None if host.contains(':') => return Err(wrong()),
            None => host,
        };
        let odd = |letter: char| letter.is_whitespace() || letter.is_control();
        if bare.is_empty() || bare.len() > HOST_MAX || bare.contains(odd) {
            return Err(wrong());
        }
        Ok(Place(Address {
            host: bare.to_owned(),
            port: port.ok_or_else(wrong)?,
        }))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Address { host, port } = &self.0;
        if host.contains(':') {
            write!(f, "[{host}]:{port}")
        } else {
            write!(f, "{host}:{port}")
        }
    }
}

impl<'de> Deserialize<'de> for Place {
    fn deserialize<D: serde::Deserializer<'de>>(source: D) -> Result<Place, D::Error> {
        let text = String::deserialize(source)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_hosts_with_ports() {
        for (text, host, port) in [
            ("io1.example:20051", "io1.example", 20051),
            ("10.0.0.1:1", "10.0.0.1", 1),
            ("[::1]:65535", "::1", 65535),
        ] {
            let place: Place = text.parse().unwrap();
            assert_eq!((place.0.host.as_str(), place.0.port), (host, port));
            assert_eq!(place.to_string(), text);
        }
        for text in ["host", "host:", "host:0", ":1", "::1:2", "[::1:2", "a b:1"] {
            assert_eq!(text.parse::<Place>(), Err(PlaceError(text.to_owned())));
        }
    }
}
