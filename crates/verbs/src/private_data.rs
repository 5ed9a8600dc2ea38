//! Private data of set-up messages, and the padding of the connection manager.
//!
//! InfiniBand's and RoCE's set-up messages have a field of fixed length and carry no length. So a peer receives the
//! data with zeros behind it. Zeros can be data, so only a field of nothing but zeros counts as no data. Protocols
//! above ignore bytes behind those that they know. iWARP carries the length.

use crate::limits::{IB_REJECT_DATA_MAX, IB_REPLY_DATA_MAX, IB_REQUEST_DATA_MAX, IWARP_DATA_MAX};
use gannet_fabric::ConnectError;

/// The messages that carry private data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetUp {
    Request,
    Reply,
    Rejection,
}

impl SetUp {
    /// Bytes of private data in such a message.
    pub(crate) fn data_max(self, is_iwarp: bool) -> usize {
        match self {
            _ if is_iwarp => IWARP_DATA_MAX,
            SetUp::Request => IB_REQUEST_DATA_MAX,
            SetUp::Reply => IB_REPLY_DATA_MAX,
            SetUp::Rejection => IB_REJECT_DATA_MAX,
        }
    }

    /// Checks the length of private data of our own.
    pub(crate) fn check(self, data: &[u8], is_iwarp: bool) -> Result<(), ConnectError> {
        if data.len() > self.data_max(is_iwarp) {
            return Err(ConnectError::Unsupported("private data this long"));
        }
        Ok(())
    }
}

/// The private data of a message that came, without a padding that holds nothing else.
pub(crate) fn received(mut data: Vec<u8>, is_iwarp: bool) -> Vec<u8> {
    if !is_iwarp && data.iter().all(|byte| *byte == 0) {
        data.clear();
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_alone_is_no_private_data() {
        assert!(received(vec![0; 56], false).is_empty());
        assert!(received(Vec::new(), false).is_empty());
        assert_eq!(received(vec![0; 56], true), [0; 56]);
    }

    #[test]
    fn zeros_at_the_end_of_private_data_stay() {
        let mut padded = vec![7, 0, 1, 0];
        padded.resize(56, 0);
        assert_eq!(received(padded.clone(), false), padded);
    }

    #[test]
    fn private_data_has_the_length_that_its_message_carries() {
        for (message, max) in [
            (SetUp::Request, 56),
            (SetUp::Reply, 196),
            (SetUp::Rejection, 148),
        ] {
            assert!(message.check(&vec![1; max], false).is_ok());
            assert!(message.check(&vec![1; max + 1], false).is_err());
        }
        assert!(SetUp::Request.check(&[1; 196], true).is_ok());
        assert!(SetUp::Request.check(&[1; 197], true).is_err());
    }
}
