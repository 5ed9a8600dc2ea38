//! Authentication of optimistic reads: requests have a keyed hash and a number (paper 003, section IV-C).

use gannet_fabric::{AccessError, CapabilityKey};

/// Bytes of a code.
pub const MAC_LEN: usize = 16;

/// One end's key of a connection and the timestamps of its requests so far, in both directions.
#[derive(Default)]
pub struct Authenticator {
    key: Option<CapabilityKey>,
    /// The timestamp of the last request from here, and of the last genuine one of the peer.
    sent: u64,
    received: u64,
}

impl Authenticator {
    /// Uses `key` from now on.
    pub fn set_key(&mut self, key: CapabilityKey) {
        self.key = Some(key);
    }

    /// True once there is a key.
    pub fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// The timestamp of the next request from here: greater than all before it.
    pub fn next_timestamp(&mut self) -> u64 {
        self.sent += 1;
        self.sent
    }

    /// The code of a request with the fields `claim`; zeros without a key, which no peer accepts.
    pub fn code(&self, claim: &[u8]) -> [u8; MAC_LEN] {
        let mut code = [0; MAC_LEN];
        if let Some(CapabilityKey(key)) = &self.key {
            let hash = blake3::keyed_hash(key, claim);
            code.copy_from_slice(&hash.as_bytes()[..MAC_LEN]);
        }
        code
    }

    /// Checks a request of the peer: its code first, then that it is newer than all before it. A request with a wrong
    /// code changes nothing: a forged timestamp would otherwise make all later genuine requests replays.
    ///
    /// # Errors
    /// [`AccessError::Capability`] for a wrong code or before [`Authenticator::set_key`], [`AccessError::Replay`].
    pub fn check(
        &mut self,
        claim: &[u8],
        timestamp: u64,
        code: &[u8; MAC_LEN],
    ) -> Result<(), AccessError> {
        let expected = self.code(claim);
        // All bytes are compared, so that the time of the comparison reveals nothing about the code.
        let difference = expected
            .iter()
            .zip(code)
            .fold(0, |sum, (a, b)| sum | (a ^ b));
        if self.key.is_none() || difference != 0 {
            return Err(AccessError::Capability);
        }
        if timestamp <= self.received {
            return Err(AccessError::Replay);
        }
        self.received = timestamp;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends() -> (Authenticator, Authenticator) {
        let mut ends = (Authenticator::default(), Authenticator::default());
        ends.0.set_key(CapabilityKey([7; 32]));
        ends.1.set_key(CapabilityKey([7; 32]));
        ends
    }

    #[test]
    fn a_request_counts_once_and_in_order() {
        let (mut near, mut far) = ends();
        let (first, second) = (near.next_timestamp(), near.next_timestamp());
        let code = near.code(b"claim");
        assert_eq!(far.check(b"claim", second, &code), Ok(()));
        assert_eq!(far.check(b"claim", second, &code), Err(AccessError::Replay));
        assert_eq!(far.check(b"claim", first, &code), Err(AccessError::Replay));
    }

    #[test]
    fn a_forged_request_changes_nothing() {
        let (near, mut far) = ends();
        let mut code = near.code(b"claim");
        code[15] ^= 1;
        assert_eq!(far.check(b"claim", 9, &code), Err(AccessError::Capability));
        code[15] ^= 1;
        assert_eq!(far.check(b"clain", 9, &code), Err(AccessError::Capability));
        assert_eq!(far.check(b"claim", 1, &code), Ok(()));
    }

    #[test]
    fn without_a_key_nothing_is_genuine() {
        let mut far = Authenticator::default();
        assert_eq!(
            far.check(b"", 1, &[0; MAC_LEN]),
            Err(AccessError::Capability)
        );
    }
}
