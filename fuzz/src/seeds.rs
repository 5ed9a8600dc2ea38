//! Seeds: messages of recorded connections between Linux peers (`vectors/`), and a few written by hand.

mod exceptions;
mod hostile;
mod journal;
mod native;
mod volume;

use crate::corpus::{self, fingerprint, write};
use anyhow::{Context, Result};
use gannet_wire::mpa::{CRC_LEN, LENGTH_LEN};
use gannet_wire::rpc::{CallHeader, RecordMark, ReplyHeader};
use gannet_wire::rpcrdma::{ChunkLimits, ChunkLists, TransportHeader};
use gannet_wire::xdr::Decoder;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Longest seed: longer ones are payload, from which a decoder learns nothing.
const SEED_MAX: usize = 4096;
/// Seeds of one kind (a procedure's calls, an operation's segments).
const SEEDS_PER_KIND: usize = 3;
/// MPA length, DDP and RDMAP control, then the untagged header.
const UNTAGGED_AT: usize = 20;
/// Bytes of a pcap file's header, and of a record's.
const PCAP_HEADER_LEN: usize = 24;
const PCAP_RECORD_LEN: usize = 16;
const MOUNT_PROGRAM: u32 = 100_005;
const NFS_PROGRAM: u32 = 100_003;
const CHUNK_LIMITS: ChunkLimits = ChunkLimits {
    segments_max: 64,
    write_chunks_max: 8,
};

/// Seeds by target and kind.
#[derive(Default)]
struct Seeds {
    found: BTreeMap<(&'static str, String), Vec<Vec<u8>>>,
    /// The handle of the simulated servers' root.
    root: Vec<u8>,
    /// The bytes that the initiator sent so far, by connection.
    initiators: BTreeMap<String, Vec<u8>>,
    /// The bytes that both ends sent so far, as the target `dump_stream` reads them, by connection.
    streams: BTreeMap<String, Vec<u8>>,
    /// Procedures of calls, by connection and xid, to know what replies answer.
    procedures: BTreeMap<(String, u32), (u32, u32)>,
}

/// Writes the corpora of all targets.
///
/// # Errors
/// A recording is malformed, or a file cannot be written.
pub fn write_all() -> Result<()> {
    let root = crate::server::root_handle().context("the simulated server cannot be mounted")?;
    let mut seeds = Seeds {
        root,
        ..Seeds::default()
    };
    for path in recordings()? {
        let text = std::fs::read_to_string(&path)?;
        seeds
            .add_recording(&path, &text)
            .with_context(|| path.display().to_string())?;
    }
    for path in captures()? {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        seeds.add_capture(&name, &std::fs::read(&path)?);
    }
    let by_hand = by_hand().into_iter().chain(volume::by_hand());
    let by_hand = by_hand.chain(exceptions::by_hand());
    let by_hand = by_hand.chain(native::by_hand()).chain(hostile::by_hand());
    for (target, kind, bytes) in by_hand.chain(journal::by_hand()?) {
        seeds.add(target, kind, bytes);
    }
    for ((target, kind), inputs) in &seeds.found {
        for input in inputs {
            let name = format!("{kind}-{:08x}", fingerprint(input) >> 32);
            write(&corpus::folder(target).join(name), input)?;
        }
    }
    Ok(())
}

fn recordings() -> Result<Vec<PathBuf>> {
    vectors("frames")
}

fn captures() -> Result<Vec<PathBuf>> {
    vectors("pcap")
}

fn vectors(wanted: &str) -> Result<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vectors");
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        paths.push(entry?.path());
    }
    paths.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == wanted)
    });
    paths.sort();
    Ok(paths)
}

impl Seeds {
    fn add(&mut self, target: &'static str, kind: impl Into<String>, bytes: Vec<u8>) {
        let known = self.found.entry((target, kind.into())).or_default();
        if known.len() < SEEDS_PER_KIND && bytes.len() <= SEED_MAX && !known.contains(&bytes) {
            known.push(bytes);
        }
    }

    /// Lines are `CONNECTION DIRECTION KIND DETAILS | HEX`; messages may span several.
    fn add_recording(&mut self, path: &Path, text: &str) -> Result<()> {
        let mut messages: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (about, hex) = line.split_once(" | ").context("a line without ` | `")?;
            let bytes = bytes_of(hex)?;
            let mut words = about.split(' ');
            let (connection, direction) = (
                words.next().unwrap_or_default(),
                words.next().unwrap_or_default(),
            );
            let kind = words.next().unwrap_or_default().to_owned();
            self.add_to_connection(path, connection, direction, &bytes);
            self.add_to_streams(path, connection, direction, &bytes);
            if kind.starts_with("mpa-") {
                self.add(
                    "private_data",
                    kind.clone(),
                    bytes.get(20..).unwrap_or_default().to_vec(),
                );
                self.add("mpa_startup", kind, bytes);
                continue;
            }
            self.add_segment(&kind, &bytes);
            if kind.starts_with("send") {
                let stream = format!("{} {connection}", path.display());
                let message = messages.entry(format!("{stream} {direction}")).or_default();
                message.extend_from_slice(payload_of(&bytes, about));
                if about.contains("last=1") {
                    let message = std::mem::take(message);
                    self.add_message(&stream, direction == "i>r", &message);
                }
            }
        }
        Ok(())
    }

    /// Short captures: the beginning of one, and some packets from its middle, in both formats.
    fn add_capture(&mut self, name: &str, capture: &[u8]) {
        let Some((header, records)) = capture.split_at_checked(PCAP_HEADER_LEN) else {
            return;
        };
        let mut pieces = vec![Vec::new()];
        let mut rest = records;
        while let Some(captured) = rest.get(8..).and_then(|it| it.first_chunk::<4>()) {
            let length = PCAP_RECORD_LEN + u32::from_le_bytes(*captured) as usize;
            let Some((record, behind)) = rest.split_at_checked(length) else {
                break;
            };
            rest = behind;
            let full = |piece: &Vec<&[u8]>| piece.concat().len() + length > SEED_MAX * 3 / 4;
            if pieces.last().is_none_or(full) {
                pieces.push(Vec::new());
            }
            if let Some(piece) = pieces.last_mut() {
                piece.push(record);
            }
        }
        let middle = pieces.len() / 2;
        for (kind, piece) in [("begin", pieces.first()), ("middle", pieces.get(middle))] {
            let records = piece.cloned().unwrap_or_default();
            let pcap = [header, &records.concat()].concat();
            self.add("dump_capture", format!("{kind}-{name}"), pcap);
            if kind == "begin" {
                self.add("dump_capture", "pcapng", as_pcap_ng(header, &records));
            }
        }
    }

    /// The beginning of what an initiator sends, longer and longer: the handshake alone, with one frame, and so on.
    fn add_to_connection(&mut self, path: &Path, connection: &str, direction: &str, bytes: &[u8]) {
        if direction != "i>r" {
            return;
        }
        let key = format!("{} {connection}", path.display());
        let sent = self.initiators.entry(key).or_default();
        sent.extend_from_slice(bytes);
        let (kind, sent) = (format!("sent{}", sent.len() / 256), sent.clone());
        self.add("server_rdma", kind, sent);
    }

    /// Both streams of a connection, frame by frame.
    fn add_to_streams(&mut self, path: &Path, connection: &str, direction: &str, bytes: &[u8]) {
        let key = format!("{} {connection}", path.display());
        let streams = self.streams.entry(key).or_default();
        for piece in bytes.chunks(usize::from(u8::MAX)) {
            let length = u8::try_from(piece.len()).unwrap_or(u8::MAX);
            streams.extend([u8::from(direction == "r>i"), length]);
            streams.extend(piece);
        }
        let (kind, streams) = (format!("streams{}", streams.len() / 1024), streams.clone());
        self.add("dump_stream", kind, streams);
    }

    /// A call in a record of its own, about the root of the simulated server instead of the recorded one's handle.
    fn add_server_call(&mut self, kind: &str, rpc: &[u8]) {
        let mut decoder = Decoder::new(rpc);
        if CallHeader::parse(&mut decoder).is_err() {
            return;
        }
        let header = rpc.get(..decoder.position()).unwrap_or_default();
        let mut call = header.to_vec();
        if decoder.opaque(64).is_ok() {
            gannet_wire::xdr::Encoder::new(&mut call).opaque(&self.root);
        }
        call.extend_from_slice(decoder.remaining());
        let mark = RecordMark::single(u32::try_from(call.len()).unwrap_or(0)).to_bytes();
        self.add("server_tcp", kind, [&mark[..], &call].concat());
    }

    fn add_segment(&mut self, kind: &str, fpdu: &[u8]) {
        let ulpdu = fpdu
            .get(LENGTH_LEN..fpdu.len().saturating_sub(CRC_LEN))
            .unwrap_or_default();
        self.add("ddp", kind, ulpdu.to_vec());
        let payload = ulpdu
            .get(UNTAGGED_AT - LENGTH_LEN..)
            .unwrap_or_default()
            .to_vec();
        match kind {
            "terminate" => self.add("rdmap_terminate", kind, payload),
            "read-request" => self.add("rdmap_read_request", kind, payload),
            _ => {}
        }
        let at_marker = [&[0; 8][..], fpdu].concat();
        self.add("mpa_markers", kind, at_marker);
        self.add("mpa_fpdu", kind, fpdu.to_vec());
    }

    /// An RPC-over-RDMA message, and the RPC message in it.
    fn add_message(&mut self, stream: &str, is_call: bool, message: &[u8]) {
        let mut lists = ChunkLists::new();
        let mut decoder = Decoder::new(message);
        let Ok(header) = TransportHeader::parse(&mut decoder, &mut lists, CHUNK_LIMITS) else {
            self.add("rpcrdma", "refused", message.to_vec());
            return;
        };
        let shape = format!(
            "{}-r{}-w{}-p{}",
            if is_call { "call" } else { "reply" },
            lists.reads().len(),
            lists.write_segments().len(),
            lists.reply().map_or(0, <[_]>::len),
        );
        self.add("rpcrdma", shape, message.to_vec());
        let rpc = decoder.remaining();
        if is_call {
            self.add_call(stream, rpc);
        } else {
            self.add_reply(stream, header.xid, rpc);
        }
        if !rpc.is_empty() && rpc.len() < 512 {
            let mark = RecordMark::single(u32::try_from(rpc.len()).unwrap_or(0)).to_bytes();
            let slice: &[u8] = &[7];
            self.add("record", "one", [slice, &mark, rpc].concat());
            self.add("record", "two", [slice, &mark, rpc, &mark, rpc].concat());
        }
    }

    fn add_call(&mut self, stream: &str, rpc: &[u8]) {
        let Ok(header) = CallHeader::parse(&mut Decoder::new(rpc)) else {
            return;
        };
        let (program, procedure) = (header.program, header.procedure);
        self.procedures
            .insert((stream.to_owned(), header.xid), (program, procedure));
        let kind = format!("procedure{procedure:02}");
        self.add("rpc_call", format!("program{program}"), rpc.to_vec());
        match program {
            NFS_PROGRAM => {
                self.add_server_call(&kind, rpc);
                self.add("nfs3_call", kind, rpc.to_vec());
            }
            MOUNT_PROGRAM => self.add("mount3_call", kind, rpc.to_vec()),
            _ => {}
        }
    }

    fn add_reply(&mut self, stream: &str, xid: u32, rpc: &[u8]) {
        let Some((program, procedure)) = self.procedures.get(&(stream.to_owned(), xid)).copied()
        else {
            return;
        };
        if ReplyHeader::parse(&mut Decoder::new(rpc)).is_err() {
            return;
        }
        let kind = format!("procedure{procedure:02}");
        self.add("rpc_reply", format!("program{program}"), rpc.to_vec());
        if program == NFS_PROGRAM {
            self.add("nfs3_reply", kind, [&procedure.to_be_bytes(), rpc].concat());
        }
    }
}

/// The packets of a little-endian pcap file as a pcapng file.
fn as_pcap_ng(header: &[u8], records: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut block = |kind: u32, body: &[&[u8]]| {
        let body = body.concat();
        let pad = body.len().next_multiple_of(4) - body.len();
        let length = u32::try_from(body.len() + pad + 12)
            .unwrap_or(0)
            .to_le_bytes();
        out.extend(
            [
                &kind.to_le_bytes()[..],
                &length,
                &body,
                &[0; 3][..pad],
                &length,
            ]
            .concat(),
        );
    };
    block(
        0x0a0d_0d0a,
        &[&0x1a2b_3c4d_u32.to_le_bytes(), &[1, 0, 0, 0], &[0xff; 8]],
    );
    block(1, &[&header[20..22], &[0; 6]]);
    for record in records {
        // Interface 0, then a time that fits 32 bits, then both lengths, then the packet.
        block(6, &[&[0; 8], &record[..4], &record[8..]]);
    }
    out
}

/// The payload of an untagged segment: `payload=N` bytes behind its headers.
fn payload_of<'a>(fpdu: &'a [u8], about: &str) -> &'a [u8] {
    let count = about
        .split(' ')
        .find_map(|word| word.strip_prefix("payload=")?.parse().ok())
        .unwrap_or(0);
    let rest = fpdu.get(UNTAGGED_AT..).unwrap_or_default();
    rest.get(..count).unwrap_or(rest)
}

/// The bytes of hexadecimal text; `NN*K` repeats a byte K times.
fn bytes_of(text: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for word in text.split_whitespace() {
        if let Some((byte, count)) = word.split_once('*') {
            let byte = u8::from_str_radix(byte, 16)?;
            bytes.extend(std::iter::repeat_n(byte, count.parse()?));
            continue;
        }
        for at in (0..word.len()).step_by(2) {
            let digits = word.get(at..at + 2).context("an odd number of digits")?;
            bytes.push(u8::from_str_radix(digits, 16)?);
        }
    }
    Ok(bytes)
}

/// Words of XDR.
fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn by_hand() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let call = [
        0x1122_3344,
        0,
        2,
        MOUNT_PROGRAM,
        3,
        1,
        0,
        0,
        0,
        0,
        4,
        0x2f73_7276,
    ];
    let accepted = [0x1122_3344, 1, 0, 0, 0, 0];
    let mnt = [
        &[1][..],
        &accepted,
        &[0, 8, 0x0102_0304, 0x0506_0708, 2, 1, 0],
    ]
    .concat();
    let dump = [&[2][..], &accepted, &[1, 1, 0x6100_0000, 1, 0x2f00_0000, 0]].concat();
    let exports = [
        &[5][..],
        &accepted,
        &[1, 4, 0x2f73_7276, 1, 2, 0x3a3a_0000, 0, 0],
    ]
    .concat();
    let steps =
        |steps: [u8; 4]| [&steps[..], &words(&[5, 0x6865_6c6c, 0x6f00_0000, 1, 2, 3])].concat();
    let fragments = [&[3][..], &words(&[4, 7, 0, 0x8000_0004, 9])].concat();
    let config = "[listen]\nnfs_tcp = \"0.0.0.0:2049\"\n[server]\ncores = 2\ncrc = \"off\"\n\
        [[export]]\npath = \"/srv\"\nname = \"/a\"\nsquash = \"all\"\nanonuid = 7\nclients = [\"10.0.0.0/8\"]\n";
    vec![
        ("mount3_call", "mnt", words(&call)),
        ("mount3_reply", "mnt", words(&mnt)),
        ("mount3_reply", "dump", words(&dump)),
        ("mount3_reply", "exports", words(&exports)),
        (
            "tcp_reassembly",
            "in_order",
            vec![0, 6, 0, 1, 2, 6, 0, 4, 4, 7, 0, 8],
        ),
        (
            "tcp_reassembly",
            "holes",
            vec![9, 30, 0, 1, 0, 9, 3, 1, 40, 20, 0, 48, 20, 7, 0, 252],
        ),
        (
            "dump_stream",
            "rpc",
            [&[0, 52, 0x80, 0, 0, 48][..], &words(&call)].concat(),
        ),
        ("xdr", "opaque", steps([4, 0, 1, 2])),
        ("xdr", "array", steps([0, 6, 5, 7])),
        ("record", "fragments", fragments),
        ("rdmap_read_request", "zero", vec![0; 28]),
        ("config", "full", config.into()),
        (
            "url",
            "tcp",
            b"nfs://server:2049/a/b%20c/?mountport=635".to_vec(),
        ),
        ("url", "rdma", b"nfs+rdma://[fe80::1]/%ff".to_vec()),
    ]
}
