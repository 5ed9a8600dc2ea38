//! Private data of set-up messages, and the padding of the connection manager.
//!
//! InfiniBand's and RoCE's set-up messages have a field of fixed length and carry no length. So a peer receives the
//! data with zeros behind it, which the protocols above ignore. iWARP carries the length.

use crate::limits::{IB_REPLY_DATA_MAX, IB_REQUEST_DATA_MAX, IWARP_DATA_MAX};
use gannet_fabric::{ConnectError, PrivateDataLimits};

/// The bounds of private data on devices of this kind.
pub(crate) fn private_data_limits(is_iwarp: bool) -> PrivateDataLimits {
    if is_iwarp {
        return PrivateDataLimits {
            request_max: IWARP_DATA_MAX,
            reply_max: IWARP_DATA_MAX,
            exact: true,
        };
    }
    PrivateDataLimits {
        request_max: IB_REQUEST_DATA_MAX,
        reply_max: IB_REPLY_DATA_MAX,
        exact: false,
    }
}

/// Checks the length of private data of our own.
pub(crate) fn check(data: &[u8], max: usize) -> Result<(), ConnectError> {
    if data.len() > max {
        return Err(ConnectError::Unsupported("private data this long"));
    }
    Ok(())
}

/// The private data of a message that came, up to the bound for such messages. The field of an InfiniBand reply is
/// longer than that of a rejection, and so than the bound.
pub(crate) fn received(mut data: Vec<u8>, max: usize) -> Vec<u8> {
    data.truncate(max);
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_data_is_trimmed_to_its_bound_and_keeps_its_zeros() {
        let limits = private_data_limits(false);
        let mut padded = vec![7, 0, 1, 0];
        padded.resize(196, 0);
        let reply = received(padded.clone(), limits.reply_max);
        assert_eq!(reply, padded[..148]);
        assert_eq!(received(vec![0; 56], limits.request_max), [0; 56]);
        let limits = private_data_limits(true);
        assert!(received(Vec::new(), limits.reply_max).is_empty());
    }

    #[test]
    fn private_data_has_the_length_that_its_message_carries() {
        for (is_iwarp, request_max, reply_max) in [(false, 56, 148), (true, 196, 196)] {
            let limits = private_data_limits(is_iwarp);
            assert_eq!(
                (limits.request_max, limits.reply_max),
                (request_max, reply_max)
            );
            for max in [request_max, reply_max] {
                assert!(check(&vec![1; max], max).is_ok());
                assert!(check(&vec![1; max + 1], max).is_err());
            }
        }
    }
}
