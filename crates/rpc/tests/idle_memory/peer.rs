//! An RPC/RDMA client made by hand: it does what no provider would.

use crate::bare::Bare;
use crate::common::{NULL, raw};
use gannet_wire::rpcrdma::{
    ChunkLimits, ChunkLists, PrivateData, RDMA_VERSION, TransportHeader, TransportProcedure,
};
use gannet_wire::xdr::{Decoder, Encoder};
use std::net::SocketAddr;

const LIMITS: ChunkLimits = ChunkLimits {
    segments_max: 8,
    write_chunks_max: 8,
};

/// A connection in full operation.
pub(crate) struct Peer(Bare);

impl Peer {
    pub(crate) fn connect(address: SocketAddr) -> Peer {
        let private_data = PrivateData {
            remote_invalidation: false,
            send_size: 4096,
            receive_size: 4096,
        };
        Peer(Bare::connect(address, &private_data.to_bytes()).0)
    }

    /// Sends `count` calls with one write, or fewer if the server has ended the connection.
    pub(crate) fn call(&mut self, count: u32) {
        // `reply` reports the end of the connection.
        let _ = self.0.send((0..count).map(null));
    }

    /// The credits that the next reply grants; `None` when the connection is over.
    pub(crate) fn reply(&mut self) -> Option<u32> {
        let message = self.0.message()?;
        let mut lists = ChunkLists::new();
        let header = TransportHeader::parse(&mut Decoder::new(&message), &mut lists, LIMITS);
        Some(header.unwrap().credits)
    }

    /// Makes as many calls at a time as the credits allow, `rounds` times; returns the credits in the end.
    pub(crate) fn work(&mut self, rounds: u32) -> u32 {
        let mut window = 1;
        for _ in 0..rounds {
            let calls = window;
            self.call(calls);
            for _ in 0..calls {
                window = self.reply().expect("a reply");
            }
        }
        self.0.rest();
        window
    }
}

/// A NULL call.
fn null(xid: u32) -> Vec<u8> {
    let header = TransportHeader {
        xid,
        version: RDMA_VERSION,
        credits: 128,
        procedure: TransportProcedure::Msg,
    };
    let mut message = Vec::new();
    header.emit(&mut Encoder::new(&mut message), &ChunkLists::new());
    message.extend_from_slice(&raw::call_bytes(xid, NULL, |_| {}));
    message
}
