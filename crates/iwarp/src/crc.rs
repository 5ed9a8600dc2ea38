//! CRC-32C as MPA stores it, by the processor's own instructions.

use crc_fast::{CrcAlgorithm, Digest};
use gannet_wire::mpa::CRC_LEN;

/// The CRC field of an FPDU whose covered bytes are `bytes`.
pub(crate) fn field_of(bytes: &[u8]) -> [u8; CRC_LEN] {
    crc_fast::crc32_iscsi(bytes).to_le_bytes()
}

/// The CRC field of an FPDU whose covered bytes lie in several places.
pub(crate) fn field_of_parts(parts: [&[u8]; 3]) -> [u8; CRC_LEN] {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    for part in parts {
        digest.update(part);
    }
    #[allow(clippy::cast_possible_truncation)] // a 32-bit CRC in a 64-bit result
    let crc = digest.finalize() as u32;
    crc.to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_in_one_piece_and_in_three() {
        let expected = [0x83, 0x92, 0x06, 0xe3];
        assert_eq!(field_of(b"123456789"), expected);
        assert_eq!(field_of_parts([b"1", b"2345", b"6789"]), expected);
        assert_eq!(field_of_parts([b"", b"123456789", b""]), expected);
    }
}
