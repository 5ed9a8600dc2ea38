//! Capture files: packets out of pcap (either byte order, micro- or nanoseconds) and pcapng.
//!
//! The formats are pcap-parser's; what is here is the buffer, which also reads pipes, the bounds, and the clock.

use crate::limits::{CAPTURE_RECORD_MAX, READ_SIZE};
use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{Block, Linktype, PcapHeader};
use std::io::{self, Read};
use std::ops::Range;

/// First bytes of a pcapng section, the same in both byte orders.
const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// The byte-order magic of a big-endian section.
const BIG_ENDIAN_SECTION: [u8; 4] = [0x1a, 0x2b, 0x3c, 0x4d];
const PCAP_HEADER_LEN: usize = 24;
const NANOSECONDS: u128 = 1_000_000_000;

/// A packet as it was captured.
#[derive(Debug)]
pub(crate) struct Packet<'a> {
    /// Nanoseconds since the Unix epoch; `None` where the file does not say.
    pub(crate) time: Option<u64>,
    /// What its first header is.
    pub(crate) link: Linktype,
    /// Its bytes, perhaps cut by the snap length.
    pub(crate) data: &'a [u8],
    /// Bytes it had on the wire.
    pub(crate) original_len: usize,
}

/// Why a capture cannot be read any further. What came before is fine.
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
        /// Where in the file the record starts.
        at: u64,
    },
    /// A record makes no sense.
    #[error("the record at byte {at} is damaged")]
    Damaged {
        /// Where in the file the record starts.
        at: u64,
    },
}

/// How the records of a file are laid out.
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
    /// Ticks of its clock in a second.
    resolution: u64,
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
    /// Where in the buffer the next record starts.
    start: usize,
    /// Where in the file the buffer starts.
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

    /// The next packet of what was read so far; `None` when more has to be read first.
    ///
    /// # Errors
    /// The file is of no known format, or damaged.
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
    /// The input cannot be read, or ends within a record.
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

    /// What to say of a record that cannot be read.
    fn unreadable(&self) -> CaptureError {
        match self.format {
            Some(_) => CaptureError::Damaged {
                at: self.file_offset + self.start as u64,
            },
            None => CaptureError::Format,
        }
    }

    /// Length of the record at the front: `None` if it cannot be, `Some(None)` until it can be told.
    fn record_len(&self) -> Option<Option<usize>> {
        let bytes = self.buffer.get(self.start..).unwrap_or_default();
        let Some(magic) = bytes.first_chunk::<4>() else {
            return Some(None);
        };
        let length = match &self.format {
            None if *magic != SECTION_HEADER => return Some(Some(PCAP_HEADER_LEN)),
            Some(Format::Pcap(header)) => {
                let head = if header.is_modified_format() { 24 } else { 16 };
                word(bytes, 8, header.is_bigendian()).map(|it| (it as usize).saturating_add(head))
            }
            Some(Format::PcapNg(section)) if *magic != SECTION_HEADER => {
                word(bytes, 4, section.big_endian).map(|length| length as usize)
            }
            _ => bytes.get(8..12).and_then(|order| {
                word(bytes, 4, order == BIG_ENDIAN_SECTION).map(|length| length as usize)
            }),
        };
        // Every pcapng block has twelve bytes around its body, every pcap record sixteen in front.
        match length {
            Some(length) if !(12..=CAPTURE_RECORD_MAX).contains(&length) => None,
            known => Some(known),
        }
    }

    /// Reads the whole record at `record`: `None` if it cannot be, `Some(None)` if it is no packet.
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

    /// Whether the input is known to be a capture.
    pub(crate) fn is_recognized(&self) -> bool {
        self.format.is_some()
    }
}

impl Section {
    /// Starts the section whose header `bytes` are.
    fn new(bytes: &[u8]) -> Option<Section> {
        let (_, header) = pcap_parser::pcapng::parse_sectionheaderblock(bytes).ok()?;
        Some(Section {
            big_endian: header.big_endian(),
            interfaces: Vec::new(),
        })
    }

    /// As [`Capture::read_record`]; the block starts at `start` of the buffer.
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
            Block::InterfaceDescription(interface) => self.interfaces.push(Interface {
                link: interface.linktype,
                resolution: interface.ts_resolution()?,
                offset: interface.ts_offset(),
            }),
            Block::EnhancedPacket(packet) => {
                let interface = self.interfaces.get(packet.if_id as usize)?;
                let ticks = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                return Some(Some(Found {
                    time: interface.time(ticks),
                    link: interface.link,
                    data: range(start + 28, packet.packet_data().len()),
                    original_len: packet.origlen as usize,
                }));
            }
            Block::SimplePacket(packet) => {
                let interface = self.interfaces.first()?;
                return Some(Some(Found {
                    time: None,
                    link: interface.link,
                    data: range(start + 12, packet.packet_data().len()),
                    original_len: packet.origlen as usize,
                }));
            }
            _ => {}
        }
        Some(None)
    }
}

impl Interface {
    /// Nanoseconds since the epoch; `None` for a time that no clock showed.
    fn time(&self, ticks: u64) -> Option<u64> {
        let since = u128::from(ticks) * NANOSECONDS / u128::from(self.resolution.max(1));
        let offset = i128::from(self.offset).checked_mul(NANOSECONDS as i128)?;
        u64::try_from(i128::try_from(since).ok()?.checked_add(offset)?).ok()
    }
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
        // The upper bits may tell the length of a frame check sequence.
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
