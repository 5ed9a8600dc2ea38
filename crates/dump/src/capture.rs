//! Capture files: packets out of pcap (either byte order, micro- or nanoseconds) and pcapng.
//!
//! pcap-parser knows the formats. This module has the buffer, which also reads pipes, the bounds, and the clock.

use crate::limits::{CAPTURE_RECORD_MAX, READ_SIZE};
use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{Block, InterfaceDescriptionBlock, Linktype, PcapHeader};
use std::io::{self, Read};
use std::ops::Range;

/// First bytes of a pcapng section, the same in both byte orders.
const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// The byte-order magic of a big-endian section.
const BIG_ENDIAN_SECTION: [u8; 4] = [0x1a, 0x2b, 0x3c, 0x4d];
const PCAP_HEADER_LEN: usize = 24;
/// Bytes of the header of a pcap record, and of one in the modified format.
const PCAP_RECORD_HEADER_LEN: usize = 16;
const PCAP_MODIFIED_HEADER_LEN: usize = 24;
/// The position of the captured length in the header of a pcap record.
const PCAP_CAPTURED_LEN_AT: usize = 8;
/// The position of the total length in a pcapng block.
const BLOCK_LEN_AT: usize = 4;
/// The byte-order magic of a section header block.
const SECTION_ORDER: Range<usize> = 8..12;
/// Bytes around the body of a pcapng block: type, and the total length twice.
const BLOCK_OVERHEAD: usize = 12;
/// The position of the packet in an enhanced packet block, and in a simple one.
const ENHANCED_DATA_AT: usize = 28;
const SIMPLE_DATA_AT: usize = 12;
const NANOSECONDS: u128 = 1_000_000_000;

/// A packet as it was captured.
#[derive(Debug)]
pub(crate) struct Packet<'a> {
    /// Nanoseconds since the Unix epoch; `None` where the file has no time.
    pub(crate) time: Option<u64>,
    /// The kind of its first header.
    pub(crate) link: Linktype,
    /// The bytes captured, which the snap length may have cut.
    pub(crate) data: &'a [u8],
    /// Bytes of the packet on the wire.
    pub(crate) original_len: usize,
}

/// The reason why a capture cannot be read any further. The packets before are valid.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The input cannot be read.
    #[error("{0}")]
    Input(#[from] io::Error),
    /// The first bytes are of no known format.
    #[error("it is neither a pcap nor a pcapng file")]
    Format,
    /// The file ends within a record: the capture was cut short, or is still being written.
    #[error("it ends within the record at byte {at}")]
    CutShort {
        /// The position of the record in the file, in bytes.
        at: u64,
    },
    /// A record has impossible content.
    #[error("the record at byte {at} is damaged")]
    Damaged {
        /// The position of the record in the file, in bytes.
        at: u64,
    },
}

/// The format of the records of a file.
enum Format {
    Pcap(PcapHeader),
    PcapNg(Section),
}

/// The pcapng section being read.
struct Section {
    big_endian: bool,
    interfaces: Vec<Interface>,
}

#[derive(Clone, Copy)]
struct Interface {
    link: Linktype,
    /// Ticks of the interface's clock in a second.
    resolution: u128,
    /// Seconds to add.
    offset: i64,
}

/// A packet of which the bytes are still in the buffer.
struct Found {
    time: Option<u64>,
    link: Linktype,
    data: Range<usize>,
    original_len: usize,
}

/// Takes packets off an input.
pub(crate) struct Capture<R> {
    input: R,
    buffer: Vec<u8>,
    /// The position of the next record in the buffer.
    start: usize,
    /// The position of the buffer in the file.
    file_offset: u64,
    format: Option<Format>,
}

impl<R: Read> Capture<R> {
    /// Starts at the beginning of `input`.
    pub(crate) fn new(input: R) -> Capture<R> {
        Capture {
            input,
            buffer: Vec::new(),
            start: 0,
            file_offset: 0,
            format: None,
        }
    }

    /// The next packet of the input read so far; `None` when more has to be read first.
    ///
    /// # Errors
    /// - [`CaptureError::Format`]: the file is neither pcap nor pcapng.
    /// - [`CaptureError::Damaged`]: a record has impossible content.
    pub(crate) fn next_buffered(&mut self) -> Result<Option<Packet<'_>>, CaptureError> {
        loop {
            let Some(length) = self.record_len().ok_or_else(|| self.unreadable())? else {
                return Ok(None);
            };
            let end = self.start + length;
            if end > self.buffer.len() {
                return Ok(None);
            }
            let record = self.start..end;
            let found = self.read_record(record);
            let found = found.ok_or_else(|| self.unreadable())?;
            self.start = end;
            if let Some(found) = found {
                let data = self.buffer.get(found.data).unwrap_or_default();
                return Ok(Some(Packet {
                    time: found.time,
                    link: found.link,
                    data,
                    original_len: found.original_len.max(data.len()),
                }));
            }
        }
    }

    /// Reads more of the input; false at its end.
    ///
    /// # Errors
    /// - [`CaptureError::Input`]: the input cannot be read.
    /// - [`CaptureError::Format`]: the input ended before its format was clear.
    /// - [`CaptureError::CutShort`]: the input ended within a record.
    pub(crate) fn refill(&mut self) -> Result<bool, CaptureError> {
        self.buffer.drain(..self.start);
        self.file_offset += self.start as u64;
        self.start = 0;
        let held = self.buffer.len();
        self.buffer.resize(held + READ_SIZE, 0);
        let read = loop {
            match self.input.read(&mut self.buffer[held..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.buffer.truncate(held + *read.as_ref().unwrap_or(&0));
        match read? {
            0 if self.format.is_none() => Err(CaptureError::Format),
            0 if held > 0 => Err(CaptureError::CutShort {
                at: self.file_offset,
            }),
            0 => Ok(false),
            _ => Ok(true),
        }
    }

    /// The error of the record at the front, which cannot be read.
    fn unreadable(&self) -> CaptureError {
        match self.format {
            Some(_) => CaptureError::Damaged {
                at: self.file_offset + self.start as u64,
            },
            None => CaptureError::Format,
        }
    }

    /// Bytes of the record at the front: `None` if the length is impossible, `Some(None)` until it is there.
    fn record_len(&self) -> Option<Option<usize>> {
        let bytes = self.buffer.get(self.start..).unwrap_or_default();
        let Some(magic) = bytes.first_chunk::<4>() else {
            return Some(None);
        };
        let length = match &self.format {
            None if *magic != SECTION_HEADER => return Some(Some(PCAP_HEADER_LEN)),
            Some(Format::Pcap(header)) => {
                let head = if header.is_modified_format() {
                    PCAP_MODIFIED_HEADER_LEN
                } else {
                    PCAP_RECORD_HEADER_LEN
                };
                let captured = word(bytes, PCAP_CAPTURED_LEN_AT, header.is_bigendian());
                captured.map(|captured| (captured as usize).saturating_add(head))
            }
            Some(Format::PcapNg(section)) if *magic != SECTION_HEADER => {
                word(bytes, BLOCK_LEN_AT, section.big_endian).map(|length| length as usize)
            }
            _ => bytes.get(SECTION_ORDER).and_then(|order| {
                let length = word(bytes, BLOCK_LEN_AT, order == BIG_ENDIAN_SECTION);
                length.map(|length| length as usize)
            }),
        };
        // A pcap record has more bytes in front of its data than a block has around its body.
        match length {
            Some(length) if !(BLOCK_OVERHEAD..=CAPTURE_RECORD_MAX).contains(&length) => None,
            known => Some(known),
        }
    }

    /// Reads the whole record at `record`: `None` if it is damaged, `Some(None)` if it is no packet.
    fn read_record(&mut self, record: Range<usize>) -> Option<Option<Found>> {
        let bytes = self.buffer.get(record.clone())?;
        match &mut self.format {
            None if bytes.starts_with(&SECTION_HEADER) => {
                self.format = Some(Format::PcapNg(Section::new(bytes)?));
                Some(None)
            }
            None => {
                let (_, header) = pcap_parser::parse_pcap_header(bytes).ok()?;
                self.format = Some(Format::Pcap(header));
                Some(None)
            }
            Some(Format::Pcap(header)) => pcap_record(header, bytes, record.start).map(Some),
            Some(Format::PcapNg(section)) => section.block(bytes, record.start),
        }
    }

    /// True once the input has turned out to be a capture.
    pub(crate) fn is_recognized(&self) -> bool {
        self.format.is_some()
    }
}

impl Section {
    /// Starts the section with the header block `bytes`.
    fn new(bytes: &[u8]) -> Option<Section> {
        let (_, header) = pcap_parser::pcapng::parse_sectionheaderblock(bytes).ok()?;
        Some(Section {
            big_endian: header.big_endian(),
            interfaces: Vec::new(),
        })
    }

    /// Reads the block at `start` of the buffer: `None` if it is damaged, `Some(None)` if it is no packet.
    fn block(&mut self, bytes: &[u8], start: usize) -> Option<Option<Found>> {
        let parsed = if self.big_endian {
            pcap_parser::parse_block_be(bytes)
        } else {
            pcap_parser::parse_block_le(bytes)
        };
        match parsed.ok()?.1 {
            Block::SectionHeader(header) => {
                self.big_endian = header.big_endian();
                self.interfaces.clear();
            }
            Block::InterfaceDescription(block) => {
                let interface = Interface::new(&block, self.big_endian);
                self.interfaces.push(interface);
            }
            Block::EnhancedPacket(packet) => {
                let interface = self.interfaces.get(packet.if_id as usize)?;
                let ticks = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                return Some(Some(Found {
                    time: interface.time(ticks),
                    link: interface.link,
                    data: range(start + ENHANCED_DATA_AT, packet.packet_data().len()),
                    original_len: packet.origlen as usize,
                }));
            }
            Block::SimplePacket(packet) => {
                let interface = self.interfaces.first()?;
                return Some(Some(Found {
                    time: None,
                    link: interface.link,
                    data: range(start + SIMPLE_DATA_AT, packet.packet_data().len()),
                    original_len: packet.origlen as usize,
                }));
            }
            _ => {}
        }
        Some(None)
    }
}

impl Interface {
    fn new(block: &InterfaceDescriptionBlock<'_>, big_endian: bool) -> Interface {
        Interface {
            link: block.linktype,
            resolution: ticks_per_second(block.if_tsresol),
            // pcap-parser takes the offset of every section for little-endian.
            offset: if big_endian {
                block.if_tsoffset.swap_bytes()
            } else {
                block.if_tsoffset
            },
        }
    }

    /// Nanoseconds since the epoch; `None` for a time that 64 bits cannot express.
    fn time(&self, ticks: u64) -> Option<u64> {
        let since = u128::from(ticks) * NANOSECONDS / self.resolution;
        let offset = i128::from(self.offset).checked_mul(NANOSECONDS as i128)?;
        u64::try_from(i128::try_from(since).ok()?.checked_add(offset)?).ok()
    }
}

/// Ticks in a second by the option `if_tsresol` of pcapng: a power of two if its high bit is set, else of ten. Powers
/// beyond 128 bits count as the largest number: 64 bits of such ticks are less than a nanosecond.
///
/// pcap-parser 0.17 refuses powers of two: it compares the byte with 63 before it removes the high bit.
fn ticks_per_second(if_tsresol: u8) -> u128 {
    let exponent = u32::from(if_tsresol & 0x7f);
    let base: u128 = if if_tsresol & 0x80 == 0 { 10 } else { 2 };
    base.checked_pow(exponent).unwrap_or(u128::MAX)
}

fn pcap_record(header: &PcapHeader, bytes: &[u8], start: usize) -> Option<Found> {
    let parse = if header.is_modified_format() {
        pcap_parser::pcap::parse_pcap_frame_modified
    } else if header.is_bigendian() {
        pcap_parser::pcap::parse_pcap_frame_be
    } else {
        pcap_parser::pcap::parse_pcap_frame
    };
    let (_, record) = parse(bytes).ok()?;
    let head = bytes.len() - record.data.len();
    let unit = if header.is_nanosecond_precision() {
        1
    } else {
        1000
    };
    let seconds = u64::from(record.ts_sec) * NANOSECONDS as u64;
    Some(Found {
        time: Some(seconds + u64::from(record.ts_usec) * unit),
        // The upper bits may give the length of a frame check sequence.
        link: Linktype(header.network.0 & 0xffff),
        data: range(start + head, record.data.len()),
        original_len: record.origlen as usize,
    })
}

fn range(start: usize, length: usize) -> Range<usize> {
    start..start + length
}

/// The 32-bit word at `at`.
fn word(bytes: &[u8], at: usize, big_endian: bool) -> Option<u32> {
    let word = *bytes.get(at..)?.first_chunk::<4>()?;
    Some(if big_endian {
        u32::from_be_bytes(word)
    } else {
        u32::from_le_bytes(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds since the epoch of the packet in the tests.
    const SECONDS: u64 = 1_700_000_000;

    /// A pcapng file in one byte order.
    struct File {
        bytes: Vec<u8>,
        big_endian: bool,
    }

    impl File {
        fn word(&mut self, word: u32) {
            self.bytes.extend(if self.big_endian {
                word.to_be_bytes()
            } else {
                word.to_le_bytes()
            });
        }

        fn halves(&mut self, first: u16, second: u16) {
            let [one, other] = [first, second].map(u32::from);
            self.word(if self.big_endian {
                one << 16 | other
            } else {
                other << 16 | one
            });
        }

        /// A file with one packet at so many `ticks` of a clock with these options.
        fn of(big_endian: bool, if_tsresol: u8, offset: u32, ticks: u64) -> Vec<u8> {
            let bytes = Vec::new();
            let mut file = File { bytes, big_endian };
            for word in [0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28] {
                file.word(word);
            }
            [1, 44].into_iter().for_each(|word| file.word(word));
            file.halves(1, 0);
            file.word(0);
            file.halves(9, 1);
            file.bytes.extend([if_tsresol, 0, 0, 0]);
            file.halves(14, 8);
            let [high, low] = if big_endian { [0, offset] } else { [offset, 0] };
            [high, low, 0, 44]
                .into_iter()
                .for_each(|word| file.word(word));
            let (high, low) = ((ticks >> 32) as u32, ticks as u32);
            for word in [6, 36, 0, high, low, 4, 4, 0xabab_abab, 36] {
                file.word(word);
            }
            file.bytes
        }
    }

    fn time(file: &[u8]) -> Option<u64> {
        let mut capture = Capture::new(file);
        assert!(capture.refill().unwrap());
        let packet = capture.next_buffered().unwrap().expect("a packet");
        assert_eq!(packet.data, [0xab; 4]);
        packet.time
    }

    #[test]
    fn clocks_with_powers_of_two_are_read() {
        for bits in [0, 1, 10, 20, 30, 32, 33] {
            for big_endian in [false, true] {
                let half = if bits == 0 { 0 } else { 1 << (bits - 1) };
                let file = File::of(big_endian, 0x80 | bits, 0, (SECONDS << bits) + half);
                let expected = SECONDS * 1_000_000_000 + if bits == 0 { 0 } else { 500_000_000 };
                assert_eq!(time(&file), Some(expected), "2^-{bits}");
            }
        }
        // Less than a nanosecond in 64 bits.
        for resolution in [0xff, 0x7f] {
            assert_eq!(time(&File::of(false, resolution, 0, u64::MAX)), Some(0));
        }
    }

    #[test]
    fn the_offset_of_a_clock_is_in_the_byte_order_of_its_section() {
        for big_endian in [false, true] {
            let file = File::of(big_endian, 6, 3, SECONDS * 1_000_000);
            assert_eq!(time(&file), Some((SECONDS + 3) * 1_000_000_000));
        }
    }
}
