//! Traffic classes of the network below: one for links that carry names and attributes, one for links that carry data.
//!
//! A link has one class, not each request its own: packets of a reliable connection must arrive in order, and networks
//! keep the order within one class alone. The [`Class`](gannet_wire::volume::Class) of a request decides which request
//! of a link goes first.

use gannet_runtime::Dscp;
use gannet_wire::volume::{Hello, Role};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// The traffic classes of links; `metadata=24,data=10` in text. By default packets have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TrafficClasses {
    /// Links with the manager at one end.
    pub metadata: Dscp,
    /// Links of clients and of I/O servers to I/O servers.
    pub data: Dscp,
}

impl TrafficClasses {
    /// The class of the link that begins with this `Hello`.
    pub(super) fn of(&self, hello: &Hello) -> Dscp {
        if hello.role != Role::Manager && hello.server != Hello::MANAGER {
            self.data
        } else {
            self.metadata
        }
    }
}

impl fmt::Display for TrafficClasses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TrafficClasses { metadata, data } = self;
        write!(f, "metadata={},data={}", metadata.get(), data.get())
    }
}

/// The text, which does not name traffic classes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not metadata=N,data=N, or one of them, with N from 0 to {max}", max = Dscp::MAX.get())]
pub struct TrafficClassesError(pub String);

impl FromStr for TrafficClasses {
    type Err = TrafficClassesError;

    fn from_str(text: &str) -> Result<TrafficClasses, TrafficClassesError> {
        let (mut metadata, mut data) = (None, None);
        for part in text.split(',') {
            let (name, number) = part.split_once('=').unwrap_or_default();
            let class = number.parse().ok().and_then(Dscp::new);
            let place = match name {
                "metadata" => Some(&mut metadata),
                "data" => Some(&mut data),
                _ => None,
            };
            match place.filter(|place| place.is_none() && class.is_some()) {
                Some(place) => *place = class,
                None => return Err(TrafficClassesError(text.to_owned())),
            }
        }
        Ok(TrafficClasses {
            metadata: metadata.unwrap_or_default(),
            data: data.unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(metadata: u8, data: u8) -> TrafficClasses {
        TrafficClasses {
            metadata: Dscp::new(metadata).unwrap(),
            data: Dscp::new(data).unwrap(),
        }
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else_is() {
        for (text, read) in [
            ("metadata=24,data=10", classes(24, 10)),
            ("data=63,metadata=0", classes(0, 63)),
            ("data=8", classes(0, 8)),
            ("metadata=46", classes(46, 0)),
        ] {
            assert_eq!(text.parse(), Ok(read), "{text}");
            assert_eq!(read.to_string().parse(), Ok(read), "{text}");
        }
        for text in [
            "",
            "26",
            "metadata",
            "metadata=",
            "metadata=64",
            "metadata=-1",
            "data=256",
            "data=af11",
            "data=1,",
            "data=1,data=1",
            "bulk=1",
            "metadata=1, data=1",
        ] {
            let error = text.parse::<TrafficClasses>().unwrap_err();
            assert!(
                error.to_string().contains("N from 0 to 63"),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn only_links_of_clients_and_io_servers_to_io_servers_carry_data() {
        let (metadata, data) = (Dscp::new(24).unwrap(), Dscp::new(10).unwrap());
        for (role, server, class) in [
            (Role::Client, Hello::MANAGER, metadata),
            (Role::Client, Hello::io_server(0), data),
            (Role::Client, Hello::io_server(7), data),
            (Role::Manager, Hello::io_server(0), metadata),
            (Role::IoServer, Hello::io_server(0), data),
            (Role::IoServer, Hello::MANAGER, metadata),
        ] {
            let hello = Hello {
                role,
                server,
                volume: [1; 16],
                nonce: [2; 16],
                credits: 32,
            };
            assert_eq!(classes(24, 10).of(&hello), class, "{role:?} {server}");
        }
    }
}
