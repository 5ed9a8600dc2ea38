//! The native protocol of volumes: messages between clients, the manager and I/O servers.
//!
//! docs/formats/volume.md describes it byte by byte. A message is one Send of the fabric: a [`MessageHeader`] of 40
//! bytes, a body of XDR items, and possibly data. Bodies of most of the manager's operations are a [`Call`] behind a
//! [`Caller`]. Bodies of the I/O servers' operations are [`Transfer`]s and a few short records.
//!
//! Types print on a line by the names of that page ([`crate::xdr::Print`]).

mod answers;
mod attribute_record;
mod attributes;
mod buffers;
mod calls;
mod client_buffer;
mod copies;
mod group;
mod header;
mod hello;
mod inode;
mod inventory;
mod io;
mod locks;
mod managers;
mod number_lease;
mod references;
mod registry;
mod replication;
mod shape;
mod snapshot;
mod status;
mod stripes;
mod term;
mod wish;

pub use answers::{
    AccessAnswer, Appending, FileState, Found, FoundFiles, Granted, Listed, PAGE_ENTRIES_MAX, Page,
    RequestId, SlotSequence,
};
pub use attribute_record::{ATTRIBUTE_RECORD_LEN, AttributeRecord, FileAttributes};
pub use attributes::{
    AccessMask, AttributeChanges, CreateMode, DeviceNumbers, FileId, FileKind, NodeKind, ROOT,
    SetTimestamp, Timestamp,
};
pub use buffers::{Buffers, Carrying, Place};
pub use calls::{Call, CallRecord, Entry};
pub use client_buffer::{ClientBuffer, ClientDrivenDone};
pub use copies::{
    CHOSEN_GROUPS_MAX, Copies, CopiesAnswer, CopiesOutcome, CopiesWanted, STALE_GROUPS_MAX,
    StaleGroups, ToldGroups,
};
pub use group::{
    GROUPS_MAX, GROUPS_OF_SERVER_MAX, GroupRecord, MEMBERS_MAX, Member, MemberState, Membership,
    Memberships, ObjectId,
};
pub use header::{Class, Kind, MessageHeader, MessageHeaderError, Operation};
pub use hello::{Abilities, Accepted, Hello, Refusal, Role, refusal, version_in};
pub use inode::{Body, Inode, Settled};
pub use inventory::{
    FOLDERS, FileLayout, FilePage, ObjectEntry, ObjectPage, ObjectPosition, OrphanStatus,
    OrphanStatuses, PAGE_FILES_MAX, PAGE_OBJECTS_MAX,
};
pub use io::{
    Caller, Capability, LayoutRecord, Memory, ObjectList, ObjectRange, ObjectState, ObjectStates,
    Placement, RegionPiece, StateAnswer, Transfer, TransferDone,
};
pub use locks::{
    LockAction, LockKind, LockOutcome, LockRecord, LockReply, LockRequest, RenewLocksReply,
    RenewLocksRequest,
};
pub use managers::{
    ENGINE_NAME_MAX, MANAGER_NAME_MAX, ManagersAnswer, ManagersOutcome, ManagersWanted,
    STANDBYS_MAX, StandbyRecord,
};
pub use number_lease::{Claimant, NumberLeaseAnswer, NumberLeaseOutcome, NumberLeaseWanted};
pub use references::{
    AttributeReferences, ObjectReference, ObjectRight, RUNS_MAX, ReferenceAnswer, ReferenceAnswers,
    ReferenceRequest, Referenced, ResidentRun, SLOTS_MAX,
};
pub use registry::{
    Address, ClaimRecord, HOST_MAX, NAME_MAX, RegisterRecord, VolumeRecord, VolumeRequest,
};
pub use replication::{ObjectChange, Replicated, Replication};
pub use shape::{Description, Level, Piece, Pieces, Shape};
pub use snapshot::{METADATA_KEY_MAX, MetadataPage, MetadataPair, MetadataRequest};
pub use status::{DONE_UNCONFIRMED, Stability, Status};
pub use stripes::{Chosen, Stripes, StripesError};
pub use term::{TERM_LEN, Term, TermAnswer, TermCall, TermStage};
pub use wish::{GroupWish, Renewal, Renewals, Renewed, Wish};

/// The version of the protocol in this module.
pub const VERSION: u8 = 6;
/// Bytes of a [`MessageHeader`].
pub const HEADER_LEN: usize = 40;
/// Most bytes of a message: a header, a body, and data.
pub const MESSAGE_MAX: usize = 8192;
/// Most bytes of data behind a body.
pub const INLINE_DATA_MAX: usize = 4096;
/// Most bytes of a body, and of a body and the data behind it.
pub const BODY_MAX: usize = MESSAGE_MAX - HEADER_LEN;
/// Most buffers that one side of a connection keeps for the other's short transfers.
pub const EAGER_BUFFERS_MAX: usize = 64;
/// Most bytes of a client-driven buffer.
pub const CLIENT_BUFFER_LEN_MAX: u64 = 1 << 20;
/// Most pieces of an explicit list.
pub const PIECES_MAX: usize = 128;
/// Most levels of a nested description.
pub const LEVELS_MAX: usize = 4;
/// Most bytes that one request moves, over all servers.
pub const TRANSFER_MAX: u64 = 64 << 20;
/// Most pieces that one nested description may stand for.
pub const NESTED_PIECES_MAX: u64 = 1 << 20;
/// Bytes of the smallest stripe unit.
pub const UNIT_MIN: u32 = 4 << 10;
/// Bytes of the largest stripe unit.
pub const UNIT_MAX: u32 = 16 << 20;
/// Most bytes of a name in a directory.
pub const FILE_NAME_MAX: usize = 255;
/// Most bytes of a name that a decoder accepts: one more than is allowed, so that the manager can refuse it with the
/// right status.
const FILE_NAME_DECODED_MAX: usize = FILE_NAME_MAX + 1;
/// Most bytes of the text of a symbolic link: those of Linux's longest path without the zero at its end.
pub const SYMLINK_MAX: usize = 4095;
/// Most I/O servers that one file is striped over.
pub const WIDTH_MAX: usize = 256;
/// Most objects of one request.
pub const OBJECTS_MAX: usize = 64;
/// Bytes of a volume's identity, of a nonce, and of a message authentication code.
pub const TOKEN_LEN: usize = 16;

/// A volume's identity, a nonce, or a message authentication code.
pub type Token = [u8; TOKEN_LEN];
