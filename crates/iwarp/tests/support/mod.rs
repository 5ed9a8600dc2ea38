//! A handmade peer for tests of other crates: a connection over a blocking socket, without a provider, that keeps
//! almost no state. The tests include this file by its path.
#![allow(dead_code, clippy::unwrap_used)] // each test uses its own part

pub(crate) mod idle;

use gannet_wire::ddp::{DdpHeader, MessageOffset, Msn, QueueNumber, UNTAGGED_HEADER_LEN, Untagged};
use gannet_wire::mpa::{Fpdu, FrameKind, Revision, StartupFrame, pad_len};
use gannet_wire::rdmap::Opcode;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A connection in full operation, without markers and CRC.
pub(crate) struct Bare {
    stream: TcpStream,
    received: Vec<u8>,
    next: Msn,
}

impl Bare {
    /// Connects with `private_data`; also what the reply says in its place.
    pub(crate) fn connect(address: SocketAddr, private_data: &[u8]) -> (Bare, Vec<u8>) {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        let patience = Some(Duration::from_secs(300));
        stream.set_read_timeout(patience).unwrap();
        stream.set_write_timeout(patience).unwrap();
        let request = StartupFrame {
            kind: FrameKind::Request,
            markers: false,
            crc: false,
            rejected: false,
            reserved: 0,
            revision: Revision::ONE,
            enhanced: None,
            private_data,
        };
        let mut bytes = vec![0; request.encoded_len()];
        request.emit(&mut bytes).unwrap();
        stream.write_all(&bytes).unwrap();
        let answer = startup_reply(&mut stream);
        let bare = Bare {
            stream,
            received: Vec::new(),
            next: Msn::FIRST,
        };
        (bare, answer)
    }

    /// Sends messages with one write.
    ///
    /// # Errors
    /// The other side has ended the connection.
    pub(crate) fn send(&mut self, messages: impl IntoIterator<Item = Vec<u8>>) -> io::Result<()> {
        let messages = messages.into_iter();
        let bytes: Vec<u8> = messages.flat_map(|message| self.frame(&message)).collect();
        self.stream.write_all(&bytes)
    }

    /// The FPDU of one Send.
    fn frame(&mut self, message: &[u8]) -> Vec<u8> {
        let header = DdpHeader::Untagged(Untagged {
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

    /// The next message, which is a Send in one segment; `None` when the connection is over.
    pub(crate) fn message(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some((fpdu, len)) = Fpdu::parse(&self.received).unwrap() {
                let (segment, message) = DdpHeader::parse(fpdu.ulpdu).unwrap();
                if segment.ulp_control() != Opcode::Send.control() {
                    return None;
                }
                let message = message.to_vec();
                self.received.drain(..len);
                return Some(message);
            }
            let mut space = [0; 4096];
            match self.stream.read(&mut space) {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.received.extend_from_slice(&space[..count]),
            }
        }
    }

    /// Gives up the memory for what was received: what this end keeps is not the server's.
    pub(crate) fn rest(&mut self) {
        self.received = Vec::new();
    }
}

/// The private data of the reply that accepts the connection.
fn startup_reply(stream: &mut TcpStream) -> Vec<u8> {
    let mut received = Vec::new();
    loop {
        let mut space = [0; 600];
        let count = stream.read(&mut space).unwrap();
        assert!(count > 0, "the server refused the connection");
        received.extend_from_slice(&space[..count]);
        if let Some((reply, len)) = StartupFrame::parse(FrameKind::Reply, &received).unwrap() {
            assert!(!reply.rejected && !reply.crc && len == received.len());
            return reply.private_data.to_vec();
        }
    }
}
