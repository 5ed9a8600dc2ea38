//! An RPC/RDMA client made by hand, over a socket that blocks: it does what no provider would.

use gannet_wire::ddp::{
    Header as Segment, MessageOffset, Msn, QueueNumber, UNTAGGED_HEADER_LEN, Untagged,
};
use gannet_wire::mpa::{Fpdu, FrameKind, Revision, StartupFrame, pad_len};
use gannet_wire::rdmap::Opcode;
use gannet_wire::rpcrdma::{ChunkLimits, ChunkLists, Header, PrivateData, Procedure, RDMA_VERSION};
use gannet_wire::xdr::{Decoder, Encoder};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const LIMITS: ChunkLimits = ChunkLimits {
    segments_max: 8,
    write_chunks_max: 8,
};

/// A connection in full operation.
pub struct Peer {
    stream: TcpStream,
    received: Vec<u8>,
    next: Msn,
}

impl Peer {
    pub fn connect(address: SocketAddr) -> Peer {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        let patience = Some(Duration::from_secs(60));
        stream.set_read_timeout(patience).unwrap();
        stream.set_write_timeout(patience).unwrap();
        let private_data = PrivateData {
            remote_invalidation: false,
            send_size: 4096,
            receive_size: 4096,
        };
        let request = StartupFrame {
            kind: FrameKind::Request,
            markers: false,
            crc: false,
            rejected: false,
            reserved: 0,
            revision: Revision::ONE,
            enhanced: None,
            private_data: &private_data.to_bytes(),
        };
        let mut bytes = vec![0; request.encoded_len()];
        request.emit(&mut bytes).unwrap();
        stream.write_all(&bytes).unwrap();
        let mut received = Vec::new();
        loop {
            let mut space = [0; 600];
            let count = stream.read(&mut space).unwrap();
            assert!(count > 0, "the server refused the connection");
            received.extend_from_slice(&space[..count]);
            if let Some((reply, len)) = StartupFrame::parse(FrameKind::Reply, &received).unwrap() {
                assert!(!reply.rejected && !reply.crc && len == received.len());
                break;
            }
        }
        Peer {
            stream,
            received: Vec::new(),
            next: Msn::FIRST,
        }
    }

    /// The FPDU of one message.
    fn frame(&mut self, message: &[u8]) -> Vec<u8> {
        let header = Segment::Untagged(Untagged {
            last: true,
            ulp_control: Opcode::Send.control(),
            ulp_word: 0,
            queue: QueueNumber::SEND,
            msn: self.next,
            offset: MessageOffset(0),
        });
        self.next = self.next.next();
        let mut fields = [0; UNTAGGED_HEADER_LEN];
        let len = header.emit(&mut fields);
        let ulpdu_len = len + message.len();
        let mut bytes = u16::try_from(ulpdu_len).unwrap().to_be_bytes().to_vec();
        bytes.extend_from_slice(&fields[..len]);
        bytes.extend_from_slice(message);
        bytes.resize(bytes.len() + pad_len(ulpdu_len), 0);
        // No CRC was agreed.
        bytes.extend_from_slice(&[0; 4]);
        bytes
    }

    /// A NULL call.
    fn null(&mut self, xid: u32) -> Vec<u8> {
        let header = Header {
            xid,
            version: RDMA_VERSION,
            credits: 128,
            procedure: Procedure::Msg,
        };
        let mut message = Vec::new();
        header.emit(&mut Encoder::new(&mut message), &ChunkLists::new());
        message.extend_from_slice(&super::raw::call_bytes(xid, super::NULL, |_| {}));
        self.frame(&message)
    }

    /// Sends so many calls with one write, or less if the server has ended the connection.
    pub fn call(&mut self, count: u32) {
        let calls: Vec<u8> = (0..count).flat_map(|xid| self.null(xid)).collect();
        // That it is gone shows when answers are awaited.
        let _ = self.stream.write_all(&calls);
    }

    /// The credits that the next reply grants; `None` when the connection is over.
    pub fn reply(&mut self) -> Option<u32> {
        loop {
            if let Some((fpdu, len)) = Fpdu::parse(&self.received).unwrap() {
                let (segment, message) = Segment::parse(fpdu.ulpdu).unwrap();
                if segment.ulp_control() != Opcode::Send.control() {
                    return None;
                }
                let mut lists = ChunkLists::new();
                let header = Header::parse(&mut Decoder::new(message), &mut lists, LIMITS);
                self.received.drain(..len);
                return Some(header.unwrap().credits);
            }
            let mut space = [0; 4096];
            match self.stream.read(&mut space) {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.received.extend_from_slice(&space[..count]),
            }
        }
    }

    /// Makes as many calls at a time as it may, so many times; how many it may make in the end.
    pub fn work(&mut self, rounds: u32) -> u32 {
        let mut window = 1;
        for _ in 0..rounds {
            let calls = window;
            self.call(calls);
            for _ in 0..calls {
                window = self.reply().expect("a reply");
            }
        }
        // What this end keeps is not the server's.
        self.received = Vec::new();
        window
    }
}
