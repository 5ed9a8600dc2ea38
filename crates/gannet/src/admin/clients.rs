//! The clients of a server, each with its work in the last minute.

use gannet_metrics::{ClientList, ClientReading, Work};
use serde_json::{Value as Json, json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// The time between two looks at the work of all clients.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(10);
/// How far back the recent work of a client goes.
const MINUTE: Duration = Duration::from_secs(60);
/// Most clients in an answer: the busiest.
const ANSWER_MAX: usize = 1000;

/// The work of the clients during the last minute.
pub(super) struct Minute {
    /// The last look, or the start.
    looked: Instant,
    /// The id of the next client.
    next: u64,
    seen: BTreeMap<IpAddr, Seen>,
}

/// A client that some look found.
struct Seen {
    /// Stands for the address where that is not shown.
    id: u64,
    /// Its work at looks of the last minute, the oldest first.
    looks: VecDeque<(Instant, Work)>,
}

/// A client in an answer.
struct Listed {
    id: u64,
    address: IpAddr,
    reading: ClientReading,
    /// The time in which it did its recent work.
    span: Duration,
    recent: Work,
}

impl Minute {
    pub(super) fn new(now: Instant) -> Minute {
        Minute {
            looked: now,
            next: 0,
            seen: BTreeMap::new(),
        }
    }

    /// Notes the work of all clients, every [`LOOK_EVERY`].
    pub(super) fn look(&mut self, list: &ClientList, now: Instant) {
        self.notice(list);
        let too_old = |at: Instant| now.saturating_duration_since(at) >= MINUTE;
        for (address, seen) in &mut self.seen {
            let work = list.clients.get(address).map(|client| client.work);
            seen.looks.push_back((now, work.unwrap_or_default()));
            // One look of that age stays: the minute begins there.
            while seen.looks.get(1).is_some_and(|(at, _)| too_old(*at)) {
                seen.looks.pop_front();
            }
        }
        self.looked = now;
    }

    /// Learns which clients are new, gone, or were forgotten by the cores and came again.
    pub(super) fn notice(&mut self, list: &ClientList) {
        self.seen
            .retain(|address, _| list.clients.contains_key(address));
        for (address, client) in &list.clients {
            let seen = self.seen.entry(*address).or_insert_with(|| {
                self.next += 1;
                Seen {
                    id: self.next,
                    looks: VecDeque::from([(self.looked, Work::default())]),
                }
            });
            let before = seen.looks.back().map(|(_, work)| *work);
            if before.is_some_and(|before| client.work.operations < before.operations) {
                seen.looks = VecDeque::from([(self.looked, Work::default())]);
            }
        }
    }

    /// The number that stands for the client at an address; `None` for one that the last [`Minute::notice`] did not
    /// list.
    pub(super) fn id_of(&self, address: IpAddr) -> Option<u64> {
        self.seen.get(&address).map(|seen| seen.id)
    }

    /// `/clients.json`: those with a connection, or with work in the last minute, the busiest first.
    pub(super) fn answer(
        &mut self,
        list: &ClientList,
        now: Instant,
        shows_addresses: bool,
    ) -> String {
        self.notice(list);
        let mut listed: Vec<_> = self.listed(list, now).collect();
        listed.sort_by_key(|client| (Reverse(client.recent.operations), client.id));
        let more = listed.len().saturating_sub(ANSWER_MAX);
        let shown = listed.iter().take(ANSWER_MAX);
        let clients: Vec<_> = shown.map(|client| client.json(shows_addresses)).collect();
        let answer = json!({
            "clients": clients,
            "more": more,
            "unlisted_connections": list.unlisted,
        });
        answer.to_string() + "\n"
    }

    fn listed(&self, list: &ClientList, now: Instant) -> impl Iterator<Item = Listed> {
        list.clients.iter().filter_map(move |(address, reading)| {
            let seen = self.seen.get(address)?;
            let (since, before) = seen.looks.front().copied()?;
            let recent = reading.work.since(before);
            let is_shown = reading.connections() > 0 || recent != Work::default();
            is_shown.then(|| Listed {
                id: seen.id,
                address: *address,
                reading: *reading,
                span: now.saturating_duration_since(since),
                recent,
            })
        })
    }
}

impl Listed {
    fn json(&self, shows_addresses: bool) -> Json {
        let Listed {
            reading, recent, ..
        } = self;
        json!({
            "id": self.id,
            "address": shows_addresses.then(|| self.address.to_string()),
            "tcp_connections": reading.tcp_connections,
            "rdma_connections": reading.rdma_connections,
            "native_connections": reading.native_connections,
            "operations": reading.work.operations,
            "received_bytes": reading.work.received_bytes,
            "sent_bytes": reading.work.sent_bytes,
            "minute": {
                "seconds": self.span.as_secs_f64(),
                "operations": recent.operations,
                "received_bytes": recent.received_bytes,
                "sent_bytes": recent.sent_bytes,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(clients: &[(&str, u64, u64)]) -> ClientList {
        let clients = clients.iter().map(|(address, connections, operations)| {
            let work = Work {
                operations: *operations,
                ..Work::default()
            };
            let reading = ClientReading {
                tcp_connections: *connections,
                work,
                ..ClientReading::default()
            };
            (address.parse().unwrap(), reading)
        });
        ClientList {
            clients: clients.collect(),
            unlisted: 0,
        }
    }

    /// Ids, recent operations and the time that these took, in the order of the answer.
    fn rows(minute: &mut Minute, list: &ClientList, now: Instant) -> Vec<(u64, u64, u64)> {
        let answer: Json = serde_json::from_str(&minute.answer(list, now, false)).unwrap();
        let clients = answer["clients"].as_array().unwrap().iter();
        let row = |client: &Json| {
            assert_eq!(client["address"], Json::Null);
            let recent = &client["minute"];
            let seconds = recent["seconds"].as_f64().unwrap();
            assert!((seconds - seconds.round()).abs() < 1e-9);
            (
                client["id"].as_u64().unwrap(),
                recent["operations"].as_u64().unwrap(),
                format!("{seconds:.0}").parse().unwrap(),
            )
        };
        clients.map(row).collect()
    }

    #[test]
    fn work_that_is_older_than_a_minute_does_not_count() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut minute = Minute::new(start);
        let busy = list(&[("10.0.0.1", 1, 100), ("10.0.0.2", 1, 300)]);
        // Before the first look all work is recent.
        assert_eq!(rows(&mut minute, &busy, at(3)), [(2, 300, 3), (1, 100, 3)]);
        for look in 1..=6 {
            minute.look(&busy, at(10 * look));
        }
        assert_eq!(
            rows(&mut minute, &busy, at(60)),
            [(2, 300, 60), (1, 100, 60)]
        );
        minute.look(&busy, at(70));
        let later = list(&[("10.0.0.1", 0, 105), ("10.0.0.2", 1, 300)]);
        assert_eq!(rows(&mut minute, &later, at(70)), [(1, 5, 60), (2, 0, 60)]);
        // One without a connection and without work is not shown; one that is forgotten is new when it comes again.
        for look in 8..=16 {
            minute.look(&later, at(10 * look));
        }
        assert_eq!(rows(&mut minute, &later, at(160)), [(2, 0, 60)]);
        minute.look(&list(&[]), at(170));
        let again = list(&[("10.0.0.1", 1, 7)]);
        assert_eq!(rows(&mut minute, &again, at(175)), [(3, 7, 5)]);
        // Less work than before is that of a client which the cores had forgotten.
        minute.look(&again, at(180));
        let less = list(&[("10.0.0.1", 1, 2)]);
        assert_eq!(rows(&mut minute, &less, at(185)), [(3, 2, 5)]);
    }

    #[test]
    fn the_busiest_are_shown_and_the_others_counted() {
        let addresses: Vec<_> = (0..1010u64)
            .map(|number| (format!("10.0.{}.{}", number / 256, number % 256), number))
            .collect();
        let clients: Vec<_> = addresses
            .iter()
            .map(|(address, number)| (&**address, 1, *number))
            .collect();
        let start = Instant::now();
        let answer = Minute::new(start).answer(&list(&clients), start, true);
        assert!(answer.len() < 1 << 20, "{}", answer.len());
        let answer: Json = serde_json::from_str(&answer).unwrap();
        let shown = answer["clients"].as_array().unwrap();
        assert_eq!((shown.len(), &answer["more"]), (1000, &Json::from(10)));
        assert_eq!(
            (&shown[0]["address"], &shown[0]["operations"]),
            (&Json::from("10.0.3.241"), &Json::from(1009))
        );
    }
}
