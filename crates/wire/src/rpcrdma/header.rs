//! The transport header (RFC 8166 section 4).

use super::{ChunkLimits, ChunkLists};
use crate::xdr::{Decoder, Encoder, XdrError};

/// The protocol version spoken here.
pub const RDMA_VERSION: u32 = 1;

/// The fixed part of a header, and what kind of message it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransportHeader {
    /// The XID of the RPC message that the header carries.
    pub xid: u32,
    /// The protocol version: 1, or the one refused in a version error.
    pub version: u32,
    /// Credits asked for in a call, granted in a reply (then never 0).
    pub credits: u32,
    /// What follows.
    pub procedure: TransportProcedure,
}

/// The kind of a message (`rdma_proc`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportProcedure {
    /// Chunk lists, then the (reduced) RPC message.
    Msg,
    /// Chunk lists that hold the whole RPC message; nothing behind them.
    Nomsg,
    /// Ends a Read-Read reply (RFC 5666; dead in RFC 8166).
    Done,
    /// A transport error.
    Error(TransportError),
}

/// What went wrong below the RPC layer (`rdma_error`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportError {
    /// ERR_VERS: the version is not spoken.
    Version {
        /// Lowest version spoken.
        low: u32,
        /// Highest version spoken.
        high: u32,
    },
    /// ERR_CHUNK: the header or its chunks cannot be processed. Final for this XID.
    Chunk,
}

/// Why a header was not understood, and with it what to answer (RFC 8166 section 4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TransportHeaderError {
    /// Too short to trust even the XID, or a broken transport error: drop it.
    #[error("transport header too short")]
    Short,
    /// Another protocol version: answer ERR_VERS.
    #[error("transport version {version}")]
    Version {
        /// Whom to answer.
        xid: u32,
        /// The version to echo.
        version: u32,
    },
    /// An undefined (or the dead RDMA_MSGP) procedure: answer ERR_CHUNK.
    #[error("transport procedure {procedure}")]
    Procedure {
        /// Whom to answer.
        xid: u32,
        /// What it asks for.
        procedure: u32,
    },
    /// The lists run past the end or past the limits, or a message without RPC header has no list:
    /// answer ERR_CHUNK.
    #[error("chunk lists malformed: {error}")]
    Chunk {
        /// Whom to answer.
        xid: u32,
        /// What is wrong.
        error: XdrError,
    },
}

impl TransportHeader {
    /// Takes a header off the front of `decoder`, its lists into `lists`; `decoder` then stands at the RPC message.
    ///
    /// # Errors
    /// See [`TransportHeaderError`] for what to answer.
    pub fn parse(
        decoder: &mut Decoder<'_>,
        lists: &mut ChunkLists,
        limits: ChunkLimits,
    ) -> Result<TransportHeader, TransportHeaderError> {
        lists.clear();
        let mut word = || decoder.u32().map_err(|_| TransportHeaderError::Short);
        let (xid, version, credits, procedure) = (word()?, word()?, word()?, word()?);
        if version != RDMA_VERSION && procedure != 4 {
            return Err(TransportHeaderError::Version { xid, version });
        }
        let bad_chunk = |error| TransportHeaderError::Chunk { xid, error };
        let procedure = match procedure {
            0 | 1 => {
                lists.parse(decoder, limits).map_err(bad_chunk)?;
                if procedure == 0 {
                    TransportProcedure::Msg
                } else if lists.reads().is_empty() && lists.reply().is_none() {
                    return Err(bad_chunk(XdrError::Value));
                } else {
                    TransportProcedure::Nomsg
                }
            }
            3 => TransportProcedure::Done,
            4 => TransportProcedure::Error(
                TransportError::parse(decoder).map_err(|_| TransportHeaderError::Short)?,
            ),
            other => {
                return Err(TransportHeaderError::Procedure {
                    xid,
                    procedure: other,
                });
            }
        };
        Ok(TransportHeader {
            xid,
            version,
            credits,
            procedure,
        })
    }

    /// Appends the header and, where its procedure has them, `lists`; the RPC message follows
    /// [`TransportProcedure::Msg`].
    pub fn emit(&self, encoder: &mut Encoder<'_>, lists: &ChunkLists) {
        encoder.u32(self.xid);
        encoder.u32(self.version);
        encoder.u32(self.credits);
        match self.procedure {
            TransportProcedure::Msg => {
                encoder.u32(0);
                lists.emit(encoder);
            }
            TransportProcedure::Nomsg => {
                encoder.u32(1);
                lists.emit(encoder);
            }
            TransportProcedure::Done => encoder.u32(3),
            TransportProcedure::Error(error) => {
                encoder.u32(4);
                error.emit(encoder);
            }
        }
    }
}

impl TransportError {
    fn parse(decoder: &mut Decoder<'_>) -> Result<TransportError, XdrError> {
        match decoder.u32()? {
            1 => Ok(TransportError::Version {
                low: decoder.u32()?,
                high: decoder.u32()?,
            }),
            2 => Ok(TransportError::Chunk),
            _ => Err(XdrError::Value),
        }
    }

    fn emit(&self, encoder: &mut Encoder<'_>) {
        match *self {
            TransportError::Version { low, high } => {
                encoder.u32(1);
                encoder.u32(low);
                encoder.u32(high);
            }
            TransportError::Chunk => encoder.u32(2),
        }
    }
}
