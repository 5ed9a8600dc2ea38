//! Calls whose replies broke their connection.

use crate::limits::{DRC_AGE_MAX, POISONED_MAX};
use gannet_runtime::Instant;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Calls whose transfers failed, kept for [`DRC_AGE_MAX`].
///
/// A client that lost its connection sends its pending calls again. The call that broke the connection would break
/// the next one, and so on, so its duplicates are refused (RFC 8166 section 4.5). They may come to another core than
/// the first, so all cores share the table.
#[derive(Default)]
pub(crate) struct Poisoned {
    calls: Mutex<BTreeMap<(IpAddr, u32), Instant>>,
    /// The end of the youngest entry, in nanoseconds. Calls after it take no lock; without failures that is all calls.
    until: AtomicU64,
}

impl Poisoned {
    /// Remembers the call `xid` of `client`. When there are too many, the oldest is forgotten.
    pub(crate) fn add(&self, client: IpAddr, xid: u32, now: Instant) {
        let until = now + DRC_AGE_MAX;
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.retain(|_, until| *until > now);
        if calls.len() == POISONED_MAX
            && let Some(oldest) = calls.iter().min_by_key(|(_, until)| **until)
        {
            let oldest = *oldest.0;
            calls.remove(&oldest);
        }
        calls.insert((client.to_canonical(), xid), until);
        self.until.fetch_max(until.as_nanos(), Ordering::Relaxed);
    }

    /// True when the call `xid` of `client` must be refused.
    pub(crate) fn contains(&self, client: IpAddr, xid: u32, now: Instant) -> bool {
        if now.as_nanos() >= self.until.load(Ordering::Relaxed) {
            return false;
        }
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let until = calls.get(&(client.to_canonical(), xid));
        until.is_some_and(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn calls_are_known_by_client_and_xid_until_they_are_too_old() {
        let poisoned = Poisoned::default();
        let start = Instant::from_nanos(5);
        assert!(!poisoned.contains(CLIENT, 7, start));
        poisoned.add(CLIENT, 7, start);
        let mapped = IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped());
        let other = IpAddr::V4(Ipv4Addr::BROADCAST);
        for (client, xid, known) in [
            (CLIENT, 7, true),
            (mapped, 7, true),
            (other, 7, false),
            (CLIENT, 8, false),
        ] {
            assert_eq!(poisoned.contains(client, xid, start), known);
            assert!(!poisoned.contains(client, xid, start + DRC_AGE_MAX));
        }
    }

    #[test]
    fn the_oldest_make_room() {
        let poisoned = Poisoned::default();
        let max = POISONED_MAX as u32;
        for xid in 0..=max {
            // The order of the keys is not that of the ages.
            let xid = max - xid;
            poisoned.add(CLIENT, xid, Instant::from_nanos(u64::from(max - xid)));
        }
        let now = Instant::from_nanos(u64::from(max));
        assert!(!poisoned.contains(CLIENT, max, now));
        assert!((0..max).all(|xid| poisoned.contains(CLIENT, xid, now)));
    }
}
