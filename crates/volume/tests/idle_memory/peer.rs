//! A client of a volume made by hand.

use crate::bare::Bare;
use gannet_volume::limits::CREDITS;
use gannet_volume::secret::{ServerKeys, client_proof};
use gannet_wire::volume::{Accepted, Class, Hello, Kind, MessageHeader, Operation, Role, Token};
use std::net::SocketAddr;

/// A connection to a server that has authenticated us.
pub(crate) struct Peer {
    bare: Bare,
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
        let hello = Hello {
            role: Role::Client,
            server: Hello::io_server(0),
            volume,
            nonce: session,
            credits: CREDITS,
        };
        let (mut bare, answer) = Bare::connect(address, &hello.to_bytes());
        let accepted = Accepted::from_bytes(&answer).unwrap();
        let proof = client_proof(keys.for_clients(), &hello, &accepted, &session);
        let hello = [proof, session].concat();
        bare.send([message(Kind::Control, Operation::Hello, 1, &hello)])
            .unwrap();
        Peer {
            bare,
            sent: 0,
            allowed: CREDITS,
        }
    }

    /// Sends so many requests with one write.
    fn send(&mut self, count: u32) {
        let ids = (self.sent..).map(|sent| u64::from(sent) + 1);
        let ids = ids.take(count as usize);
        let requests = ids.map(|id| message(Kind::Request, Operation::Usage, id, &[]));
        self.bare.send(requests).unwrap();
        self.sent += count;
    }

    /// Has the server make its buffers for short transfers.
    pub(crate) fn ask_for_buffers(&mut self) {
        // Of length 0 on our side, and none of them.
        let asked = message(Kind::Control, Operation::Buffers, 0, &[0; 8]);
        self.bare.send([asked]).unwrap();
        let answer = self.header().expect("buffers");
        assert_eq!(answer.operation, Operation::Buffers);
        assert!(answer.body_len > 8, "no room for buffers");
    }

    /// Takes the next reply; false when the connection is over.
    fn reply(&mut self) -> bool {
        let Some(header) = self.header() else {
            return false;
        };
        assert_eq!((header.kind, header.status), (Kind::Reply, Ok(())));
        self.allowed = header.credits;
        true
    }

    /// The header of the next message; `None` when the connection is over.
    fn header(&mut self) -> Option<MessageHeader> {
        let message = self.bare.message()?;
        Some(MessageHeader::split(&message).unwrap().0)
    }

    /// Makes as many requests at a time as it may, `most` at most, so many times.
    pub(crate) fn work(&mut self, rounds: u32, most: u32) {
        for _ in 0..rounds {
            let count = self.allowed.wrapping_sub(self.sent).min(most);
            assert!(count > 0, "no credits");
            self.send(count);
            assert!((0..count).all(|_| self.reply()), "the connection is over");
        }
        self.bare.rest();
    }
}

fn message(kind: Kind, operation: Operation, id: u64, body: &[u8]) -> Vec<u8> {
    let header = MessageHeader {
        kind,
        operation,
        class: Class::Metadata,
        status: Ok(()),
        credits: 0,
        id,
        term: 0,
        body_len: body.len() as u32,
        data_len: 0,
    };
    [&header.to_bytes(), body].concat()
}
