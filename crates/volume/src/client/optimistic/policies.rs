//! The adaptive policies of a client: one for each server and each way of a call.

use super::policy::{AdaptivePolicy, PolicyCounters, PolicyOptions};
use std::collections::BTreeMap;
use std::ops::Add;

/// The way by which a call brings its bytes: an optimistic read is compared with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallWay {
    /// The data is in the message.
    Inline,
    /// The data moves by an RDMA operation of its own.
    Direct,
}

/// The policies of a client. The number of I/O servers in the volume bounds theirs.
#[derive(Debug, Clone, Default)]
pub struct AdaptivePolicies {
    options: PolicyOptions,
    by_server: BTreeMap<(u16, CallWay), AdaptivePolicy>,
}

impl AdaptivePolicies {
    /// Policies without any measurement.
    pub fn new(options: PolicyOptions) -> AdaptivePolicies {
        AdaptivePolicies {
            options,
            by_server: BTreeMap::new(),
        }
    }

    /// The policy for a server and a way.
    pub fn of(&mut self, server: u16, way: CallWay) -> &mut AdaptivePolicy {
        let new = || AdaptivePolicy::new(self.options);
        self.by_server.entry((server, way)).or_insert_with(new)
    }

    /// Notes, for both ways, that a server answers `permille` of a thousand reads from its cache.
    pub fn server_hit_rate(&mut self, server: u16, permille: u16) {
        for way in [CallWay::Inline, CallWay::Direct] {
            self.of(server, way).server_hit_rate(permille);
        }
    }

    /// Drops the policies of a server that has restarted.
    pub fn forget_server(&mut self, server: u16) {
        for way in [CallWay::Inline, CallWay::Direct] {
            self.by_server.remove(&(server, way));
        }
    }

    /// The sums of all policies' counters.
    pub fn counters(&self) -> PolicyCounters {
        let each = self.by_server.values().map(AdaptivePolicy::counters);
        each.fold(PolicyCounters::default(), PolicyCounters::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::optimistic::ReadPath;
    use gannet_runtime::Instant;
    use std::time::Duration;

    #[test]
    fn each_server_and_way_is_judged_by_itself() {
        let mut policies = AdaptivePolicies::default();
        let now = Instant::START;
        for _ in 0..64 {
            let stale = Duration::from_micros(20);
            policies.of(1, CallWay::Inline).stale_took(stale, now);
        }
        assert_eq!(policies.of(1, CallWay::Inline).decide(now), ReadPath::Call);
        for (server, way) in [(1, CallWay::Direct), (2, CallWay::Inline)] {
            assert_eq!(policies.of(server, way).decide(now), ReadPath::Optimistic);
        }
        assert_eq!(policies.counters().switches_off, 1);
        policies.forget_server(1);
        assert_eq!(
            policies.of(1, CallWay::Inline).decide(now),
            ReadPath::Optimistic
        );
    }
}
