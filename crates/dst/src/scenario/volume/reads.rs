//! How the clients of a simulation read: by requests, from servers' memory, or from their own caches.

use super::past::AGE_MAX_NS;
use super::{Plan, Stage};
use gannet_sim::Random;
use gannet_sim::fabric::DeviceProfile;
use gannet_volume::client::{Optimistic, ReadOptions};
use std::time::Duration;

/// The way in which each client of a simulation reads, and its cache.
#[derive(Debug, Clone)]
pub(super) struct Reads {
    /// Connections of the fabric in memory survive exceptions, as those of the software RNIC do.
    pub(super) exceptions: bool,
    /// The number of registrations of memory, of a thousand, that are refused.
    pub(super) registration_failures_per_mille: u64,
    /// Machines have adapters instead of software.
    pub(super) device: Option<DeviceProfile>,
    /// The optimistic mode of each client.
    clients: Vec<Optimistic>,
    /// The size in bytes and the greatest age of the cache of clients that keep the data they read.
    cache: Option<(u64, Duration)>,
}

impl Reads {
    pub(super) fn draw(random: &Random, clients: usize) -> Reads {
        let ways = [
            Optimistic::On,
            Optimistic::On,
            Optimistic::Auto,
            Optimistic::Off,
        ];
        let cache = random.chance(600);
        Reads {
            exceptions: random.chance(850),
            registration_failures_per_mille: random.below(4) / 3 * 20,
            clients: (0..clients)
                .map(|_| ways[random.index(ways.len())])
                .collect(),
            cache: cache.then(|| {
                let age = Duration::from_nanos(random.between(1_000_000, AGE_MAX_NS));
                (random.between(64 << 10, 1 << 20), age)
            }),
            device: random.chance(350).then(|| DeviceProfile {
                file_pages: random.chance(300),
                windows: random.chance(500),
                optimistic_reads: random.chance(700),
                revocation_us_max: [0, 1, 100, 5000][random.index(4)],
                ..DeviceProfile::PLAIN
            }),
        }
    }

    pub(super) fn fails_to_register(&self) -> bool {
        self.registration_failures_per_mille > 0
    }

    /// The read options of a client without a data cache.
    pub(super) fn options(&self, client: usize) -> ReadOptions {
        ReadOptions {
            optimistic: self.clients[client],
            ..ReadOptions::default()
        }
    }
}

impl Plan {
    /// The read options of a client with a data cache, if this simulation has such clients.
    pub(super) fn cached_reads(&self, client: usize) -> Option<ReadOptions> {
        let (cache_len, cache_age) = self.reads.cache?;
        Some(ReadOptions {
            cache_len,
            cache_age,
            ..self.reads.options(client)
        })
    }
}

impl Stage {
    /// The greatest age of data that a client with a data cache returns.
    pub(super) fn cache_age(&self, client: usize) -> Option<Duration> {
        let options = self.plan.cached_reads(client);
        options.map(|options| options.cache_age)
    }
}
