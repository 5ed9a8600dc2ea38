//! The transport header (RFC 8166 section 4).

use super::{ChunkLimits, ChunkLists};
use crate::xdr::{Decoder, Encoder, XdrError};
use core::fmt;

/// The protocol version spoken here (`rdma_vers`).
pub const RDMA_VERSION: u32 = 1;

/// `rdma_proc` (RFC 8166 section 4.2). RDMA_MSGP (2) is dead: RFC 8166 forbids it.
mod rdma_proc {
    pub(super) const RDMA_MSG: u32 = 0;
    pub(super) const RDMA_NOMSG: u32 = 1;
    pub(super) const RDMA_DONE: u32 = 3;
    pub(super) const RDMA_ERROR: u32 = 4;
}

/// `rpc_rdma_errcode` (RFC 8166 section 4.5).
mod rdma_err {
    pub(super) const ERR_VERS: u32 = 1;
    pub(super) const ERR_CHUNK: u32 = 2;
}

/// The fixed part of a header, and the kind of its message (`rdma_msg`, RFC 8166 section 4.2):
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                           rdma_xid                            |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                         rdma_vers = 1                         |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                          rdma_credit                          |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                           rdma_proc                           |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ~   RDMA_MSG, RDMA_NOMSG: the chunk lists; RDMA_ERROR: error    ~
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ~                RDMA_MSG: the RPC message                      ~
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransportHeader {
    /// rdma_xid: the XID of the RPC message that the header carries.
    pub xid: u32,
    /// rdma_vers: [`RDMA_VERSION`], or any other in an RDMA_ERROR.
    pub version: u32,
    /// rdma_credit: the credits asked for in a call, or granted in a reply, where they are never 0.
    pub credits: u32,
    /// rdma_proc: the kind of the message.
    pub procedure: TransportProcedure,
}

impl fmt::Display for TransportHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "RPC/RDMA xid={:08x} vers={} {} credits={}",
            self.xid, self.version, self.procedure, self.credits
        )?;
        if let TransportProcedure::Error(error) = self.procedure {
            write!(f, " {error}")?;
        }
        Ok(())
    }
}

/// The kind of a message (`rdma_proc`, RFC 8166 section 4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportProcedure {
    /// RDMA_MSG: chunk lists, then the (reduced) RPC message.
    Msg,
    /// RDMA_NOMSG: chunk lists that hold the whole RPC message; nothing behind them.
    Nomsg,
    /// RDMA_DONE: ends a Read-Read reply (RFC 5666; dead in RFC 8166).
    Done,
    /// RDMA_ERROR: a transport error.
    Error(TransportError),
}

impl fmt::Display for TransportProcedure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TransportProcedure::Msg => "msg",
            TransportProcedure::Nomsg => "nomsg",
            TransportProcedure::Done => "done",
            TransportProcedure::Error(_) => "error",
        })
    }
}

/// An error below the RPC layer (`rdma_error`, RFC 8166 section 4.5). It prints by the RFC's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportError {
    /// ERR_VERS: the sender does not speak the version.
    Version {
        /// Lowest version that it speaks.
        low: u32,
        /// Highest version that it speaks.
        high: u32,
    },
    /// ERR_CHUNK: the sender cannot process the header or its chunks. Final for this XID.
    Chunk,
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TransportError::Version { low, high } => write!(f, "ERR_VERS({low}..{high})"),
            TransportError::Chunk => f.write_str("ERR_CHUNK"),
        }
    }
}

/// The reason why a header was not understood. Each variant names the answer to send (RFC 8166 section 4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TransportHeaderError {
    /// The fixed part, or an RDMA_ERROR, ends early or is malformed. The receiver drops the message.
    #[error("transport header too short")]
    Short,
    /// The version is not [`RDMA_VERSION`]. The answer is ERR_VERS.
    #[error("transport version {version}")]
    Version {
        /// The XID for the answer.
        xid: u32,
        /// The version of the message, which the answer repeats.
        version: u32,
    },
    /// The procedure is undefined, or the dead RDMA_MSGP. The answer is ERR_CHUNK.
    #[error("transport procedure {procedure}")]
    Procedure {
        /// The XID for the answer.
        xid: u32,
        /// rdma_proc of the message.
        procedure: u32,
    },
    /// The lists end early or exceed the limits, or an RDMA_NOMSG has neither Read list nor Reply chunk. The answer is
    /// ERR_CHUNK.
    #[error("chunk lists malformed: {error}")]
    Chunk {
        /// The XID for the answer.
        xid: u32,
        /// The error of the lists; [`XdrError::Value`] for the missing ones.
        error: XdrError,
    },
}

impl TransportHeader {
    /// Takes a header off the front of `decoder`, its lists into `lists`; `decoder` then stands at the RPC message.
    ///
    /// # Errors
    /// - [`TransportHeaderError::Short`]: there are fewer than four words, or an RDMA_ERROR is malformed.
    /// - [`TransportHeaderError::Version`]: the version of a message other than RDMA_ERROR is not [`RDMA_VERSION`].
    /// - [`TransportHeaderError::Procedure`]: rdma_proc is not one of [`TransportProcedure`].
    /// - [`TransportHeaderError::Chunk`]: the lists cannot be read, or an RDMA_NOMSG has none that it needs.
    pub fn parse(
        decoder: &mut Decoder<'_>,
        lists: &mut ChunkLists,
        limits: ChunkLimits,
    ) -> Result<TransportHeader, TransportHeaderError> {
        lists.clear();
        let mut word = || decoder.u32().map_err(|_| TransportHeaderError::Short);
        let (xid, version, credits, procedure) = (word()?, word()?, word()?, word()?);
        if version != RDMA_VERSION && procedure != rdma_proc::RDMA_ERROR {
            return Err(TransportHeaderError::Version { xid, version });
        }
        let bad_chunk = |error| TransportHeaderError::Chunk { xid, error };
        let procedure = match procedure {
            rdma_proc::RDMA_MSG => {
                lists.parse(decoder, limits).map_err(bad_chunk)?;
                TransportProcedure::Msg
            }
            rdma_proc::RDMA_NOMSG => {
                lists.parse(decoder, limits).map_err(bad_chunk)?;
                if lists.reads().is_empty() && lists.reply().is_none() {
                    return Err(bad_chunk(XdrError::Value));
                }
                TransportProcedure::Nomsg
            }
            rdma_proc::RDMA_DONE => TransportProcedure::Done,
            rdma_proc::RDMA_ERROR => TransportProcedure::Error(
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
                encoder.u32(rdma_proc::RDMA_MSG);
                lists.emit(encoder);
            }
            TransportProcedure::Nomsg => {
                encoder.u32(rdma_proc::RDMA_NOMSG);
                lists.emit(encoder);
            }
            TransportProcedure::Done => encoder.u32(rdma_proc::RDMA_DONE),
            TransportProcedure::Error(error) => {
                encoder.u32(rdma_proc::RDMA_ERROR);
                error.emit(encoder);
            }
        }
    }
}

impl TransportError {
    fn parse(decoder: &mut Decoder<'_>) -> Result<TransportError, XdrError> {
        match decoder.u32()? {
            rdma_err::ERR_VERS => Ok(TransportError::Version {
                low: decoder.u32()?,
                high: decoder.u32()?,
            }),
            rdma_err::ERR_CHUNK => Ok(TransportError::Chunk),
            _ => Err(XdrError::Value),
        }
    }

    fn emit(&self, encoder: &mut Encoder<'_>) {
        match *self {
            TransportError::Version { low, high } => {
                encoder.u32(rdma_err::ERR_VERS);
                encoder.u32(low);
                encoder.u32(high);
            }
            TransportError::Chunk => encoder.u32(rdma_err::ERR_CHUNK),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::{String, ToString};

    fn printed(words: &[u32]) -> String {
        let bytes: alloc::vec::Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        let limits = ChunkLimits {
            segments_max: 4,
            write_chunks_max: 4,
        };
        let mut lists = ChunkLists::new();
        TransportHeader::parse(&mut Decoder::new(&bytes), &mut lists, limits)
            .unwrap()
            .to_string()
    }

    #[test]
    fn a_header_prints_on_a_line() {
        assert_eq!(
            printed(&[0xb1b4_cd3d, 1, 128, 0, 0, 0, 0]),
            "RPC/RDMA xid=b1b4cd3d vers=1 msg credits=128"
        );
        assert_eq!(
            printed(&[7, 1, 32, 4, 1, 1, 1]),
            "RPC/RDMA xid=00000007 vers=1 error credits=32 ERR_VERS(1..1)"
        );
        assert_eq!(
            printed(&[7, 2, 32, 4, 2]),
            "RPC/RDMA xid=00000007 vers=2 error credits=32 ERR_CHUNK"
        );
    }
}
