//! The segments between two simulated endpoints, and the sources of their bytes.

use super::device::DeviceRegion;
use gannet_fabric::{
    AccessError, AccessKey, MemoryRegion, RemoteAddress, RemoteKey, SoftwareRegion, Source,
    WorkError,
};
use gannet_runtime::FileRef;
use gannet_softrdma::{Authenticator, MAC_LEN, TableRegion};
use std::io;

/// A segment under way.
pub(super) enum Segment {
    /// Part of a message.
    Message {
        offset: usize,
        bytes: Vec<u8>,
        last: Option<MessageEnd>,
    },
    /// Part of an RDMA Write.
    Write {
        target: RemoteAddress,
        bytes: Vec<u8>,
        /// With its last bytes: the immediate, and the length of the Write.
        immediate: Option<(u32, u32)>,
    },
    /// The request of an RDMA Read.
    ReadRequest {
        read: u64,
        source: RemoteAddress,
        len: u32,
        /// The proof of an optimistic read.
        proof: Option<Proof>,
    },
    /// Part of the response to a Read.
    ReadResponse {
        read: u64,
        offset: u64,
        bytes: Vec<u8>,
        last: bool,
    },
    /// The refusal of a Read; the connection goes on.
    ReadRefused { read: u64, why: AccessError },
    /// The end of the connection for an error of the receiver, with the refused Read if there is one.
    Terminate {
        why: String,
        read: Option<(u64, AccessError)>,
    },
    /// The orderly end of the connection.
    End,
    /// The break of the connection.
    Reset,
}

/// The right to an optimistic read.
#[derive(Clone, Copy)]
pub(super) struct Proof {
    pub(super) access_key: AccessKey,
    timestamp: u64,
    code: [u8; MAC_LEN],
}

impl Proof {
    pub(super) fn new(
        authenticator: &Authenticator,
        source: RemoteAddress,
        len: u32,
        access_key: AccessKey,
        timestamp: u64,
    ) -> Proof {
        let code = authenticator.code(&claim(source, len, access_key, timestamp));
        Proof {
            access_key,
            timestamp,
            code,
        }
    }

    pub(super) fn check(
        &self,
        authenticator: &mut Authenticator,
        source: RemoteAddress,
        len: u32,
    ) -> Result<(), AccessError> {
        let claim = claim(source, len, self.access_key, self.timestamp);
        authenticator.check(&claim, self.timestamp, &self.code)
    }
}

/// The bytes that a proof's code covers: the `len` bytes at `source`, the key and the time.
fn claim(source: RemoteAddress, len: u32, access_key: AccessKey, timestamp: u64) -> Vec<u8> {
    let mut claim = Vec::new();
    claim.extend(source.key.0.to_be_bytes());
    claim.extend(source.offset.to_be_bytes());
    claim.extend(len.to_be_bytes());
    claim.extend(access_key.0.to_be_bytes());
    claim.extend(timestamp.to_be_bytes());
    claim
}

/// The flags of a message's last segment.
#[derive(Clone, Copy)]
pub(super) struct MessageEnd {
    pub(super) invalidate: Option<RemoteKey>,
    pub(super) solicited: bool,
}

impl Segment {
    pub(super) fn len(&self) -> usize {
        match self {
            Segment::Message { bytes, .. }
            | Segment::Write { bytes, .. }
            | Segment::ReadResponse { bytes, .. } => bytes.len(),
            _ => 16,
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Segment::Message { .. } => "message",
            Segment::Write { .. } => "write",
            Segment::ReadRequest { .. } => "read request",
            Segment::ReadResponse { .. } => "read response",
            Segment::ReadRefused { .. } => "read refused",
            Segment::Terminate { .. } => "terminate",
            Segment::End => "end",
            Segment::Reset => "reset",
        }
    }
}

/// The bytes of a segment, the place to read them from, or the error.
pub(super) enum Fetched {
    Bytes(Vec<u8>),
    /// The bytes must come from the disk first.
    Cold {
        file: FileRef,
        offset: u64,
    },
    Failed(WorkError),
}

/// Takes `len` bytes at `at` of a source.
pub(super) fn fetch(source: &Source, at: u64, len: usize) -> Fetched {
    match source {
        Source::Buffer { buffer, .. } => {
            let start = usize::try_from(at).unwrap_or(usize::MAX);
            let bytes = start
                .checked_add(len)
                .and_then(|end| buffer.get(start..end));
            // The post has checked the length.
            Fetched::Bytes(bytes.unwrap_or_default().to_vec())
        }
        Source::Span(span) => match region_for_work(&*span.region) {
            Some(region) => fetch_region(region, span.offset + at, len),
            // Revoked since the post, which refuses a region of another provider.
            None => Fetched::Failed(WorkError::Local(AccessError::InvalidKey)),
        },
        Source::File { file, offset, .. } => fetch_file(file, offset + at, len),
    }
}

/// The region of work that was posted before; `None` for one that an adapter has revoked.
pub(super) fn region_for_work(region: &dyn MemoryRegion) -> Option<&TableRegion> {
    match DeviceRegion::of(region) {
        Some(region) => region.for_work(),
        None => TableRegion::of(region),
    }
}

/// Takes `len` bytes at `at` of a region, if it is valid still.
pub(super) fn fetch_region(region: &TableRegion, at: u64, len: usize) -> Fetched {
    if let Err(error) = region.check_local(at, len as u64) {
        return Fetched::Failed(WorkError::Local(error));
    }
    if let Some((file, offset)) = region.file() {
        return fetch_file(&file, offset + at, len);
    }
    match region.bytes(at, len) {
        Some(bytes) => Fetched::Bytes(bytes.to_vec()),
        None => Fetched::Failed(WorkError::Local(AccessError::InvalidKey)),
    }
}

/// Takes `len` bytes of a file, zeros past its end.
fn fetch_file(file: &FileRef, offset: u64, len: usize) -> Fetched {
    let mut bytes = vec![0; len];
    let mut filled = 0;
    while filled < len {
        match file.try_read_at(offset + filled as u64, &mut bytes[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Fetched::Cold {
                    file: FileRef::clone(file),
                    offset,
                };
            }
            Err(error) => return Fetched::Failed(WorkError::File(error.kind())),
        }
    }
    Fetched::Bytes(bytes)
}
