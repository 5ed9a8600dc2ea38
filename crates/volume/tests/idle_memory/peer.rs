//! A client made by hand, over a socket that blocks, which keeps next to nothing itself.
#![allow(clippy::unwrap_used)]

use gannet_volume::secret::{ServerKeys, client_proof};
use gannet_wire::ddp::{
    Header as Segment, MessageOffset, Msn, QueueNumber, UNTAGGED_HEADER_LEN, Untagged,
};
use gannet_wire::mpa::{Fpdu, FrameKind, Revision, StartupFrame, pad_len};
use gannet_wire::rdmap::Opcode;
use gannet_wire::volume::{
    Accepted, Class, Header, Hello, Kind, Operation, Role, StatusCode, Token,
};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Requests that a client may send before the first reply.
const CREDITS: u32 = 32;

/// A connection to a server that has let us in.
pub(crate) struct Peer {
    stream: TcpStream,
    received: Vec<u8>,
    next: Msn,
    sent: u32,
    allowed: u32,
}

impl Peer {
    /// Connects as the client with this session.
    pub(crate) fn connect(
        address: SocketAddr,
        volume: Token,
        keys: ServerKeys,
        session: Token,
    ) -> Peer {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        let patience = Some(Duration::from_secs(60));
        stream.set_read_timeout(patience).unwrap();
        stream.set_write_timeout(patience).unwrap();
        let hello = Hello {
            role: Role::Client,
            server: Hello::io_server(0),
            volume,
            nonce: session,
        };
        let request = StartupFrame {
            kind: FrameKind::Request,
            markers: false,
            crc: false,
            rejected: false,
            reserved: 0,
            revision: Revision::ONE,
            enhanced: None,
            private_data: &hello.to_bytes(),
        };
        let mut bytes = vec![0; request.encoded_len()];
        request.emit(&mut bytes).unwrap();
        stream.write_all(&bytes).unwrap();
        let accepted = accepted(&mut stream);
        let mut peer = Peer {
            stream,
            received: Vec::new(),
            next: Msn::FIRST,
            sent: 0,
            allowed: CREDITS,
        };
        let proof = client_proof(keys.for_clients(), &hello, &accepted, &session);
        let hello = peer.frame(Kind::Control, Operation::Hello, &[proof, session].concat());
        peer.stream.write_all(&hello).unwrap();
        peer
    }

    /// The FPDU of one message.
    fn frame(&mut self, kind: Kind, operation: Operation, body: &[u8]) -> Vec<u8> {
        let header = Header {
            kind,
            operation,
            class: Class::Metadata,
            status: StatusCode::OK,
            credits: 0,
            id: u64::from(self.sent) + 1,
            body_len: body.len() as u32,
            data_len: 0,
        };
        let segment = Segment::Untagged(Untagged {
            last: true,
            ulp_control: Opcode::Send.control(),
            ulp_word: 0,
            queue: QueueNumber::SEND,
            msn: self.next,
            offset: MessageOffset(0),
        });
        self.next = self.next.next();
        let mut fields = [0; UNTAGGED_HEADER_LEN];
        let len = segment.emit(&mut fields);
        let message = [&header.to_bytes(), body].concat();
        let ulpdu_len = len + message.len();
        let mut bytes = u16::try_from(ulpdu_len).unwrap().to_be_bytes().to_vec();
        bytes.extend_from_slice(&fields[..len]);
        bytes.extend_from_slice(&message);
        bytes.resize(bytes.len() + pad_len(ulpdu_len), 0);
        // No CRC was agreed.
        bytes.extend_from_slice(&[0; 4]);
        bytes
    }

    /// Sends so many requests with one write.
    fn send(&mut self, count: u32) {
        let mut requests = Vec::new();
        for _ in 0..count {
            requests.extend(self.frame(Kind::Request, Operation::Usage, &[]));
            self.sent += 1;
        }
        self.stream.write_all(&requests).unwrap();
    }

    /// Has the server make its buffers for short transfers.
    pub(crate) fn ask_for_buffers(&mut self) {
        // Of length 0 on our side, and none of them.
        let asked = self.frame(Kind::Control, Operation::Buffers, &[0; 8]);
        self.stream.write_all(&asked).unwrap();
        let answer = self.message().expect("buffers");
        assert_eq!(answer.operation, Operation::Buffers);
        assert!(answer.body_len > 8, "no room for buffers");
    }

    /// Takes the next reply; false when the connection is over.
    fn reply(&mut self) -> bool {
        let Some(header) = self.message() else {
            return false;
        };
        assert_eq!((header.kind, header.status), (Kind::Reply, StatusCode::OK));
        self.allowed = header.credits;
        true
    }

    /// The header of the next message; `None` when the connection is over.
    fn message(&mut self) -> Option<Header> {
        loop {
            if let Some((fpdu, len)) = Fpdu::parse(&self.received).unwrap() {
                let (segment, message) = Segment::parse(fpdu.ulpdu).unwrap();
                if segment.ulp_control() != Opcode::Send.control() {
                    return None;
                }
                let (header, ..) = Header::split(message).unwrap();
                self.received.drain(..len);
                return Some(header);
            }
            let mut space = [0; 4096];
            match self.stream.read(&mut space) {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.received.extend_from_slice(&space[..count]),
            }
        }
    }

    /// Makes as many requests at a time as it may, `most` at most, so many times.
    pub(crate) fn work(&mut self, rounds: u32, most: u32) {
        for _ in 0..rounds {
            let count = self.allowed.wrapping_sub(self.sent).min(most);
            assert!(count > 0, "no credits");
            self.send(count);
            assert!((0..count).all(|_| self.reply()), "the connection is over");
        }
        // What this end keeps is not the server's.
        self.received = Vec::new();
    }
}

fn accepted(stream: &mut TcpStream) -> Accepted {
    let mut received = Vec::new();
    loop {
        let mut space = [0; 600];
        let count = stream.read(&mut space).unwrap();
        assert!(count > 0, "the server refused the connection");
        received.extend_from_slice(&space[..count]);
        if let Some((reply, len)) = StartupFrame::parse(FrameKind::Reply, &received).unwrap() {
            assert!(!reply.rejected && !reply.crc && len == received.len());
            return Accepted::from_bytes(reply.private_data).unwrap();
        }
    }
}
