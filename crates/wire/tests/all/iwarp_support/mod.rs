//! Common parts of the iWARP tests: hexadecimal text, and CRC-32C the slow way.

/// The bytes of `text`; white space between digits is ignored, `NN*K` repeats a byte K times.
pub(crate) fn bytes_of(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in text.split_whitespace() {
        if let Some((byte, count)) = word.split_once('*') {
            let byte = u8::from_str_radix(byte, 16).unwrap();
            bytes.extend(std::iter::repeat_n(byte, count.parse().unwrap()));
            continue;
        }
        assert_eq!(word.len() % 2, 0, "odd number of digits in {word}");
        for at in (0..word.len()).step_by(2) {
            bytes.push(u8::from_str_radix(&word[at..at + 2], 16).unwrap());
        }
    }
    bytes
}

/// CRC-32C (Castagnoli, reflected), bit by bit, in the order of the wire.
pub(crate) fn crc32c(bytes: &[u8]) -> [u8; 4] {
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 {
                crc >> 1 ^ 0x82f6_3b78
            } else {
                crc >> 1
            };
        }
    }
    (!crc).to_le_bytes()
}
