//! RPC-over-RDMA version 1 (RFC 8166): the transport header, its chunk lists, and the connection's private data
//! (RFC 8797), with our own offer of the Read-Read design behind it.
//!
//! A [`TransportHeader`] is the fixed part. The [`ChunkLists`] beside it are filled in place, so that a receiver can
//! use the same ones for every message. All counts are checked against [`ChunkLimits`] while reading. This module does
//! not move bytes. It enforces the header's own rules and leaves it to its callers which lists a call may have.

mod chunks;
mod design;
mod header;
mod private_data;

pub use chunks::{Chunk, ChunkLimits, ChunkLists, ReadSegment, Segment};
pub use design::{DESIGN_LEN, Design, UnknownDesign};
pub use header::{
    RDMA_VERSION, TransportError, TransportHeader, TransportHeaderError, TransportProcedure,
};
pub use private_data::{INLINE_DEFAULT, INLINE_MAX, INLINE_MIN, PRIVATE_DATA_LEN, PrivateData};
