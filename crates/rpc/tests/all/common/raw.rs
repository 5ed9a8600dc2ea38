//! An RPC/RDMA requester made by hand, for what a proper one would not send.

use super::{PROGRAM, config};
use gannet_fabric::{
    Access, Backing, Completion, ConnectError, ConnectOptions, Connected, Disconnected, Done,
    Incoming, Provider, Region, RemoteKey, Scope, SendOptions, Source, WorkId, next_completions,
};
use gannet_runtime::{Buffer, Handle, timeout};
use gannet_wire::rpc::{AcceptStatus, CallHeader, OpaqueAuth, ReplyHeader};
use gannet_wire::rpcrdma::{
    ChunkLimits, ChunkLists, PrivateData, Segment, TransportError, TransportHeader,
    TransportProcedure,
};
use gannet_wire::xdr::{Decoder, Encoder};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

pub const LIMITS: ChunkLimits = ChunkLimits {
    segments_max: 64,
    write_chunks_max: 8,
};

/// The header of a call of the test program, and `arguments`.
pub fn call_bytes(xid: u32, procedure: u32, arguments: impl FnOnce(&mut Encoder<'_>)) -> Vec<u8> {
    call_bytes_as(OpaqueAuth::NONE, xid, procedure, arguments)
}

/// The same, with a credential.
pub fn call_bytes_as(
    credential: OpaqueAuth<'_>,
    xid: u32,
    procedure: u32,
    arguments: impl FnOnce(&mut Encoder<'_>),
) -> Vec<u8> {
    let verifier = OpaqueAuth::NONE;
    let header = CallHeader {
        xid,
        program: PROGRAM,
        version: 1,
        procedure,
        credential,
        verifier,
    };
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes);
    header.emit(&mut encoder);
    arguments(&mut encoder);
    bytes
}

/// A received message.
pub struct Answer {
    pub header: TransportHeader,
    pub lists: ChunkLists,
    pub message: Vec<u8>,
    pub invalidated: Option<RemoteKey>,
}

impl Answer {
    pub fn is_chunk_error(&self) -> bool {
        self.header.procedure == TransportProcedure::Error(TransportError::Chunk)
    }
}

pub struct Raw {
    runtime: Handle,
    pub endpoint: Connected,
    received: RefCell<Vec<Completion>>,
}

pub fn linux() -> PrivateData {
    PrivateData {
        remote_invalidation: true,
        send_size: 4096,
        receive_size: 4096,
    }
}

impl Raw {
    pub async fn connect(
        runtime: &Handle,
        provider: &Rc<dyn Provider>,
        address: SocketAddr,
        private_data: &[u8],
    ) -> Raw {
        let connected = Raw::try_connect(runtime, provider, address, private_data).await;
        connected.unwrap()
    }

    pub async fn try_connect(
        runtime: &Handle,
        provider: &Rc<dyn Provider>,
        address: SocketAddr,
        private_data: &[u8],
    ) -> Result<Raw, ConnectError> {
        let options = ConnectOptions {
            private_data: private_data.to_vec(),
            // For the Read-Read design; a server of the other one grants none.
            ord: 8,
            ird: 8,
            receives: (0..200).map(|_| Buffer::zeroed(4096)).collect(),
            ..ConnectOptions::default()
        };
        let endpoint = provider.connect(address, options).await?;
        Ok(Raw {
            runtime: Handle::clone(runtime),
            endpoint,
            received: RefCell::default(),
        })
    }

    /// The server's end, made by hand: with so many receives and no more.
    pub async fn accept(runtime: &Handle, incoming: Box<dyn Incoming>, receives: u32) -> Raw {
        let options = ConnectOptions {
            private_data: linux().to_bytes().to_vec(),
            receives: (0..receives).map(|_| Buffer::zeroed(4096)).collect(),
            ..ConnectOptions::default()
        };
        Raw {
            runtime: Handle::clone(runtime),
            endpoint: incoming.accept(options).await.unwrap(),
            received: RefCell::default(),
        }
    }

    /// Posts as many receives.
    pub fn post_receives(&self, count: u32) {
        for _ in 0..count {
            let buffer = Buffer::zeroed(4096);
            self.endpoint.post_receive(WorkId(0), buffer).unwrap();
        }
    }

    /// As the server: answers a call without results, and grants so many credits.
    pub fn reply(&self, xid: u32, credits: u32) {
        self.reply_with(xid, credits, SendOptions::default());
    }

    /// The same, as a Send of another kind.
    pub fn reply_with(&self, xid: u32, credits: u32, options: SendOptions) {
        let header = TransportHeader {
            xid,
            version: 1,
            credits,
            procedure: TransportProcedure::Msg,
        };
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes);
        header.emit(&mut encoder, &ChunkLists::new());
        ReplyHeader::accepted(xid, AcceptStatus::Success).emit(&mut encoder);
        self.send_with(bytes, options);
    }

    /// Memory the server may use; all of it.
    pub fn register(&self, bytes: Vec<u8>, access: Access) -> Region {
        let scope = Scope::Endpoint(self.endpoint.id());
        let backing = Backing::Buffer(Buffer::from_vec(bytes));
        self.endpoint
            .domain()
            .register_now(backing, access, scope)
            .unwrap()
    }

    pub fn send_bytes(&self, bytes: Vec<u8>) {
        self.send_with(bytes, SendOptions::default());
    }

    pub fn send_with(&self, bytes: Vec<u8>, options: SendOptions) {
        let len = bytes.len() as u32;
        let source = Source::Buffer {
            buffer: Buffer::from_vec(bytes),
            len,
        };
        self.endpoint.post_send(WorkId(7), source, options).unwrap();
        self.endpoint.flush();
    }

    pub fn send(
        &self,
        xid: u32,
        procedure: TransportProcedure,
        lists: &ChunkLists,
        message: &[u8],
    ) {
        let header = TransportHeader {
            xid,
            version: 1,
            credits: 128,
            procedure,
        };
        let mut bytes = Vec::new();
        header.emit(&mut Encoder::new(&mut bytes), lists);
        bytes.extend_from_slice(message);
        self.send_bytes(bytes);
    }

    /// The next message from the server, or why there will be none.
    pub async fn receive(&self) -> Result<Answer, Disconnected> {
        let patience = config().reply_timeout;
        timeout(&self.runtime, patience, self.next())
            .await
            .expect("an answer in time")
    }

    /// The same, without a bound.
    pub async fn next(&self) -> Result<Answer, Disconnected> {
        loop {
            let next = {
                let mut received = self.received.borrow_mut();
                (!received.is_empty()).then(|| received.remove(0))
            };
            let Some(completion) = next else {
                let mut completions = Vec::new();
                next_completions(&*self.endpoint, &mut completions).await?;
                self.received.borrow_mut().extend(completions);
                continue;
            };
            let Ok(Done::Received {
                len, invalidated, ..
            }) = completion.outcome
            else {
                continue;
            };
            let buffer = completion.buffer.unwrap();
            let mut decoder = Decoder::new(&buffer[..len as usize]);
            let mut lists = ChunkLists::new();
            let header = TransportHeader::parse(&mut decoder, &mut lists, LIMITS).unwrap();
            let message = decoder.remaining().to_vec();
            return Ok(Answer {
                header,
                lists,
                message,
                invalidated,
            });
        }
    }

    /// Makes calls until the server grants so many credits.
    pub async fn earn(&self, credits: u32) {
        for xid in 0xea00_0000.. {
            let (none, call) = (ChunkLists::new(), call_bytes(xid, super::NULL, |_| {}));
            let answer = self
                .exchange(xid, TransportProcedure::Msg, &none, &call)
                .await;
            let granted = answer.header.credits;
            let buffer = Buffer::zeroed(4096);
            self.endpoint.post_receive(WorkId(0), buffer).unwrap();
            if granted >= credits {
                return;
            }
        }
    }

    pub async fn exchange(
        &self,
        xid: u32,
        procedure: TransportProcedure,
        lists: &ChunkLists,
        message: &[u8],
    ) -> Answer {
        self.send(xid, procedure, lists, message);
        let answer = self.receive().await.unwrap();
        assert_eq!(answer.header.xid, xid);
        assert!(answer.header.credits > 0, "a grant of nothing");
        assert!(answer.lists.reads().is_empty());
        answer
    }
}

/// Part of a region, as a segment.
pub fn part(region: &Region, from: usize, len: usize) -> Segment {
    let offset = region.base() + from as u64;
    Segment {
        handle: region.remote_key().0,
        length: len as u32,
        offset,
    }
}
