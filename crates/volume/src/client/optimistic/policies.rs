//! A policy for each server and each way of a call.

use super::policy::{AdaptivePolicy, PolicyCounters, PolicyOptions};
use std::collections::BTreeMap;
use std::ops::Add;

/// How a call brings its bytes: what an optimistic read is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallWay {
    /// In the message.
    Inline,
    /// By RDMA of its own.
    Direct,
}

/// The policies of a client. Its servers are those of a volume, so that their number bounds it.
#[derive(Debug, Clone, Default)]
pub struct AdaptivePolicies {
    options: PolicyOptions,
    by_server: BTreeMap<(u16, CallWay), AdaptivePolicy>,
}

impl AdaptivePolicies {
    /// Policies that know nothing yet.
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

    /// A reply of the server said how many of a thousand reads it answers from its cache: both ways hear it.
    pub fn server_hit_rate(&mut self, server: u16, permille: u16) {
        for way in [CallWay::Inline, CallWay::Direct] {
            self.of(server, way).server_hit_rate(permille);
        }
    }

    /// A server started anew: what was known of it no longer holds.
    pub fn forget_server(&mut self, server: u16) {
        for way in [CallWay::Inline, CallWay::Direct] {
            self.by_server.remove(&(server, way));
        }
    }

    /// The sums of all.
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
