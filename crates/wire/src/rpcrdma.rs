//! RPC-over-RDMA version 1 (RFC 8166): the transport header, its chunk lists, and the connection's private data
//! (RFC 8797), with our own offer of the Read-Read design behind it.
//!
//! A [`TransportHeader`] is the fixed part; the [`ChunkLists`] beside it are filled in place, so that a receiver can
//! use the same ones for every message. All counts are checked against [`ChunkLimits`] while reading. What this module
//! does not do: move bytes, decide which lists a call may have (except for what the header's own rules forbid).

mod chunks;
mod design;
mod header;
mod private_data;

pub use chunks::{ChunkLimits, ChunkLists, ReadSegment, Segment, WriteChunk};
pub use design::{DESIGN_LEN, Design, UnknownDesign};
pub use header::{
    RDMA_VERSION, TransportError, TransportHeader, TransportHeaderError, TransportProcedure,
};
pub use private_data::{INLINE_DEFAULT, INLINE_MAX, INLINE_MIN, PRIVATE_DATA_LEN, PrivateData};
