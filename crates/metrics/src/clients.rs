//! The work of each client of a core. Addresses are no labels of metrics: a reader gets this list apart from them.

use crate::{Counter, Gauge};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Most clients that the list of a core has. Those without a connection make room for others; where
/// all have connections, a further one works unlisted.
pub const CLIENTS_MAX: usize = 1024;

/// How a client's connection reaches the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// RPC over TCP.
    Tcp,
    /// RPC over RDMA.
    Rdma,
    /// The protocol of volumes.
    Native,
}

/// The work of one client on one core.
#[derive(Debug, Default)]
struct ClientCounters {
    operations: Counter,
    received: Counter,
    sent: Counter,
    tcp: Gauge,
    rdma: Gauge,
    native: Gauge,
}

impl ClientCounters {
    fn connections(&self, reach: Reach) -> &Gauge {
        match reach {
            Reach::Tcp => &self.tcp,
            Reach::Rdma => &self.rdma,
            Reach::Native => &self.native,
        }
    }

    fn read(&self) -> ClientReading {
        ClientReading {
            tcp_connections: self.tcp.now(),
            rdma_connections: self.rdma.now(),
            native_connections: self.native.now(),
            work: Work {
                operations: self.operations.total(),
                received_bytes: self.received.total(),
                sent_bytes: self.sent.total(),
            },
        }
    }
}

/// The work of a client so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Work {
    /// Its calls, or requests.
    pub operations: u64,
    /// Bytes that came from it, with those read by RDMA.
    pub received_bytes: u64,
    /// Bytes that went to it, with those written by RDMA.
    pub sent_bytes: u64,
}

impl Work {
    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Work) -> Work {
        Work {
            operations: self.operations + other.operations,
            received_bytes: self.received_bytes + other.received_bytes,
            sent_bytes: self.sent_bytes + other.sent_bytes,
        }
    }

    /// The work after `before`; nothing where there was more before, as for a client that was forgotten meanwhile.
    #[must_use]
    pub fn since(self, before: Work) -> Work {
        Work {
            operations: self.operations.saturating_sub(before.operations),
            received_bytes: self.received_bytes.saturating_sub(before.received_bytes),
            sent_bytes: self.sent_bytes.saturating_sub(before.sent_bytes),
        }
    }
}

/// A client at one time, over the cores that were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClientReading {
    /// Its connections of RPC over TCP.
    pub tcp_connections: u64,
    /// Its connections of RPC over RDMA.
    pub rdma_connections: u64,
    /// Its connections of the protocol of volumes.
    pub native_connections: u64,
    /// Its work, since it is listed.
    pub work: Work,
}

impl ClientReading {
    /// Its connections, over all ways.
    pub fn connections(&self) -> u64 {
        self.tcp_connections + self.rdma_connections + self.native_connections
    }

    /// Adds what another core counted.
    pub fn add(&mut self, other: &ClientReading) {
        self.tcp_connections += other.tcp_connections;
        self.rdma_connections += other.rdma_connections;
        self.native_connections += other.native_connections;
        self.work = self.work.plus(other.work);
    }
}

/// The clients of a core.
#[derive(Debug, Default)]
pub struct Clients {
    known: Mutex<BTreeMap<IpAddr, Arc<ClientCounters>>>,
    unlisted: Counter,
}

impl Clients {
    /// Notes a connection of the client at `address`, for as long as the result lives.
    pub fn connected(&self, address: IpAddr, reach: Reach) -> ClientConnection {
        let client = self.client(address.to_canonical());
        client.connections(reach).raise(1);
        ClientConnection { client, reach }
    }

    fn client(&self, address: IpAddr) -> Arc<ClientCounters> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= CLIENTS_MAX && !known.contains_key(&address) {
            let mut each = known.iter();
            let gone = each.find(|(_, client)| client.read().connections() == 0);
            let Some(gone) = gone.map(|(address, _)| *address) else {
                self.unlisted.add(1);
                return Arc::default();
            };
            known.remove(&gone);
        }
        match known.entry(address) {
            Entry::Occupied(client) => Arc::clone(client.get()),
            Entry::Vacant(place) => Arc::clone(place.insert(Arc::default())),
        }
    }

    /// Adds the clients to those of other cores.
    pub fn read(&self, into: &mut ClientList) {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for (address, client) in &*known {
            let entry = into.clients.entry(*address);
            entry.or_default().add(&client.read());
        }
        into.unlisted += self.unlisted.total();
    }
}

/// The clients of a process at one time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientList {
    /// The listed ones, by their addresses.
    pub clients: BTreeMap<IpAddr, ClientReading>,
    /// Connections so far of clients for which a list had no room.
    pub unlisted: u64,
}

/// A client's connection; the list has it until it is dropped.
#[derive(Debug)]
pub struct ClientConnection {
    client: Arc<ClientCounters>,
    reach: Reach,
}

impl ClientConnection {
    /// Counts calls, or requests.
    pub fn operations(&self, count: u64) {
        self.client.operations.add(count);
    }

    /// Counts bytes that came.
    pub fn received(&self, bytes: u64) {
        self.client.received.add(bytes);
    }

    /// Counts bytes that went.
    pub fn sent(&self, bytes: u64) {
        self.client.sent.add(bytes);
    }
}

impl Drop for ClientConnection {
    fn drop(&mut self) {
        self.client.connections(self.reach).lower(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number))
    }

    #[test]
    fn a_client_is_the_sum_of_its_connections_on_all_cores() {
        let cores = [Clients::default(), Clients::default()];
        let over_tcp = cores[0].connected(address(1), Reach::Tcp);
        let mapped = "::ffff:10.0.0.1".parse().unwrap();
        let over_rdma = cores[1].connected(mapped, Reach::Rdma);
        over_tcp.operations(3);
        over_tcp.received(100);
        over_rdma.operations(4);
        over_rdma.sent(1000);
        drop(over_tcp);
        let mut read = ClientList::default();
        cores.iter().for_each(|core| core.read(&mut read));
        let expected = ClientReading {
            rdma_connections: 1,
            work: Work {
                operations: 7,
                received_bytes: 100,
                sent_bytes: 1000,
            },
            ..ClientReading::default()
        };
        assert_eq!(read.clients, BTreeMap::from([(address(1), expected)]));
    }

    #[test]
    fn clients_who_left_make_room_and_those_who_stay_do_not() {
        let clients = Clients::default();
        let most = u32::try_from(CLIENTS_MAX).unwrap();
        let mut stay: Vec<_> = (1..most)
            .map(|number| clients.connected(address(number), Reach::Tcp))
            .collect();
        drop(clients.connected(address(0), Reach::Native));
        let listed = || {
            let mut read = ClientList::default();
            clients.read(&mut read);
            read
        };
        let has = |number| listed().clients.contains_key(&address(number));
        assert!(has(0));
        stay.push(clients.connected(address(most), Reach::Tcp));
        assert!(!has(0) && has(most));
        stay.push(clients.connected(address(most + 1), Reach::Tcp));
        assert!(!has(most + 1));
        let list = listed();
        assert_eq!((list.clients.len(), list.unlisted), (CLIENTS_MAX, 1));
    }
}
