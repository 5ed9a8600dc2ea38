//! Reads that may be refused (docs/formats/exceptions.md): their fields, and an end that has agreed on them, exports an
//! object and reads optimistically itself, with hostile bytes for a peer.

use crate::iwarp::check_line;
use crate::server::{PATIENCE, read_to_end, write_all};
use gannet_fabric::{
    Access, AccessKey, Backing, CapabilityKey, Completion, ConnectOptions, Connected, Done, Export,
    ExportTable, Exported, Listener, Provider, Reference, Region, RemoteAddress, RemoteKey, Scope,
    SendOptions, Source, Span, WorkError, WorkId, next_completions,
};
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_runtime::{Buffer, Handle, Instant, Stream, stream, timeout};
use gannet_sim::{Node, World};
use gannet_softrdma::Authenticator;
use gannet_wire::ddp::UNTAGGED_HEADER_LEN;
use gannet_wire::mpa::{Enhanced, Fpdu, FrameKind, LENGTH_LEN, Revision, StartupFrame};
use gannet_wire::rdmap::{
    AUTHENTICATED_READ_REQUEST_LEN, AuthenticatedReadRequest, EXCEPTIONS_OFFER, MAC_LEN, Opcode,
    READ_EXCEPTION_LEN, ReadException,
};
use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

const PORT: u16 = 7471;
const KEY: CapabilityKey = CapabilityKey([5; 32]);
/// Bytes of the exported object, and of each sink.
const OBJECT_LEN: usize = 3000;
pub(crate) const SINK_LEN: usize = 100;
/// The value of each byte of the object.
const CONTENT: u8 = 0x5a;
/// Reads that the attacked end has under way, of which the first are optimistic.
const READS: u64 = 4;
const DEPTH: u16 = 8;
/// A zero-length RDMA Write.
const OPENING: [u8; 20] = [
    0, 14, 0xc1, 0x40, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

pub(crate) fn rdmap_auth_read(data: &[u8]) {
    let Some(bytes) = data.first_chunk::<AUTHENTICATED_READ_REQUEST_LEN>() else {
        return;
    };
    let request = AuthenticatedReadRequest::from_bytes(bytes);
    check_line(&request);
    let mut out = [0xa5; AUTHENTICATED_READ_REQUEST_LEN];
    request.emit(&mut out);
    assert_eq!(out, *bytes);
    let claim = request.claim();
    assert_eq!(claim.len() + MAC_LEN, out.len());
    assert_eq!(out.get(..claim.len()), Some(&claim[..]));
}

pub(crate) fn rdmap_read_exception(data: &[u8]) {
    match ReadException::parse(data) {
        Ok(exception) => {
            check_line(&exception);
            let mut out = [0xa5; READ_EXCEPTION_LEN];
            exception.emit(&mut out);
            assert_eq!(data, out);
        }
        Err(error) => drop(error.to_string()),
    }
}

/// Bytes behind the handshake into a connection that has agreed on exceptions. A request whose code is zeros gets the
/// right one: else no mutated request would ever reach the table.
pub(crate) fn refusable_reads(data: &[u8]) {
    if let Some(setting) = attack(&signed(data)) {
        // That of the honest peer at least.
        assert!(setting.exporter.stats().reads > 0);
        assert_eq!(setting.outcomes.borrow().len() as u64, READS);
    }
}

/// The memory that the attacked end offers to the first peer that connects, which is the same in every run.
pub(crate) struct Setting {
    pub(crate) reference: Reference,
    pub(crate) sinks: Vec<RemoteAddress>,
    pub(crate) exporter: Rc<dyn ExportTable>,
    /// The outcomes of its Reads, in order.
    pub(crate) outcomes: Rc<RefCell<Vec<Result<Done, WorkError>>>>,
}

/// One run; `None` when the hostile peer ends before it receives the reference.
pub(crate) fn attack(data: &[u8]) -> Option<Setting> {
    let world = World::new(1);
    let [hostile, honest, attacked] =
        ["hostile", "honest", "attacked"].map(|name| world.add_node(name));
    let setting = Rc::<RefCell<Option<Setting>>>::default();
    start(&attacked, &setting);
    let address = SocketAddr::new(attacked.ip(), PORT);
    let (runtime, data) = (hostile.runtime(), data.to_vec());
    let ended = world.run(async move {
        let talk = talk(&runtime, address, &data);
        let ended = timeout(&runtime, PATIENCE, talk).await;
        assert!(ended.is_ok(), "the end neither answers nor closes");
        let served = timeout(&runtime, PATIENCE, ask(&honest, address)).await;
        assert_eq!(served, Ok(true), "another peer was not served");
    });
    if let Err(stopped) = ended {
        panic!("{stopped}");
    }
    setting.take()
}

/// Without CRCs, so that a mutated frame is more than a frame with a wrong CRC.
fn provider(node: &Node) -> Rc<IwarpProvider> {
    let config = IwarpConfig {
        crc: false,
        ..IwarpConfig::default()
    };
    IwarpProvider::new(node.runtime(), config)
}

fn options() -> ConnectOptions {
    ConnectOptions {
        ord: DEPTH,
        ird: DEPTH,
        exceptions: true,
        receives: vec![Buffer::zeroed(256), Buffer::zeroed(256)].into(),
        ..ConnectOptions::default()
    }
}

/// Starts the end that is attacked.
fn start(node: &Node, setting: &Rc<RefCell<Option<Setting>>>) {
    let provider = provider(node);
    let listener = provider.listen(SocketAddr::new(node.ip(), PORT));
    let mut listener = listener.expect("the ports of a new node are free");
    let (runtime, setting) = (node.runtime(), Rc::clone(setting));
    let serving = Rc::clone(&runtime);
    let accepting = async move {
        let memory = Backing::Buffer(Buffer::from_vec(vec![CONTENT; OBJECT_LEN]));
        let domain = provider.domain();
        let region = domain.register_now(memory, Access::Local, Scope::Domain);
        let region = region.expect("an empty table has room");
        let exporter = domain.exports(Rc::new(|_| None));
        let exporter = exporter.expect("the software RNIC has optimistic reads");
        while let Ok(endpoint) = accept(&mut *listener).await {
            let Some(endpoint) = endpoint else {
                continue;
            };
            let (exporter, region) = (Rc::clone(&exporter), Rc::clone(&region));
            let serve = serve(endpoint, exporter, region, Rc::clone(&setting));
            serving.spawn("attacked", Box::pin(serve));
        }
    };
    runtime.spawn("accepting", Box::pin(accepting));
}

async fn accept(listener: &mut dyn Listener) -> io::Result<Option<Connected>> {
    let incoming = listener.accept().await?;
    Ok(incoming.accept(options()).await.ok())
}

/// Exports the object to one peer, sends it the reference, and reads from it. Each Read must be done once, even so.
async fn serve(
    endpoint: Connected,
    exporter: Rc<dyn ExportTable>,
    region: Region,
    setting: Rc<RefCell<Option<Setting>>>,
) {
    endpoint.authenticate(KEY);
    let reference = exporter.enter(Export {
        object: 1,
        endpoint: endpoint.id(),
        until: Instant::from_nanos(u64::MAX),
        bytes: Exported::Memory {
            region,
            offset: 0,
            len: OBJECT_LEN as u64,
        },
    });
    let sinks: Vec<Region> = (0..READS).map(|_| sink(&endpoint)).collect();
    let outcomes = Rc::default();
    setting.borrow_mut().get_or_insert_with(|| Setting {
        reference,
        sinks: sinks.iter().map(address_of).collect(),
        exporter,
        outcomes: Rc::clone(&outcomes),
    });
    let message = Buffer::from_vec(told(reference));
    let len = u32::try_from(message.len()).unwrap_or(0);
    let source = Source::Buffer {
        buffer: message,
        len,
    };
    let mut posted = 0;
    let told = endpoint.post_send(WorkId(READS), source, SendOptions::default());
    if told.is_ok() {
        posted = read_all(&endpoint, &sinks);
    }
    endpoint.flush();
    let mut completions = Vec::new();
    while next_completions(&*endpoint, &mut completions).await.is_ok() {
        note_reads(&mut completions, &outcomes);
    }
    note_reads(&mut completions, &outcomes);
    let done = outcomes.borrow().len() as u64;
    assert_eq!(done, posted, "Reads that were done, of those posted");
}

/// Starts Reads of what the peer does not have; how many.
fn read_all(endpoint: &Connected, sinks: &[Region]) -> u64 {
    let nowhere = RemoteAddress {
        key: RemoteKey(0x7777),
        offset: 0,
    };
    let mut posted = 0;
    for (id, sink) in (0..READS).zip(sinks) {
        let sink = Span::whole(sink).expect("a sink is short");
        let reading = if id + 1 < READS {
            let reference = Reference {
                address: nowhere,
                access_key: AccessKey(id),
            };
            endpoint.post_optimistic_read(WorkId(id), sink, reference)
        } else {
            endpoint.post_read(WorkId(id), sink, nowhere)
        };
        posted += u64::from(reading.is_ok());
    }
    posted
}

/// Adds the Reads that are done, well or not. They are done in the order in which they were posted.
fn note_reads(completions: &mut Vec<Completion>, outcomes: &RefCell<Vec<Result<Done, WorkError>>>) {
    for completion in completions.drain(..) {
        let is_read = matches!(completion.outcome, Ok(Done::Read) | Err(_));
        if is_read && completion.id.0 < READS && completion.buffer.is_none() {
            let mut outcomes = outcomes.borrow_mut();
            assert_eq!(completion.id.0, outcomes.len() as u64, "out of order");
            outcomes.push(completion.outcome);
        }
    }
}

fn sink(endpoint: &Connected) -> Region {
    let scope = Scope::Endpoint(endpoint.id());
    let memory = Backing::Buffer(Buffer::zeroed(SINK_LEN));
    let region = endpoint.domain().register_now(memory, Access::Local, scope);
    region.expect("the table has room for sinks")
}

fn address_of(region: &Region) -> RemoteAddress {
    RemoteAddress {
        key: region.remote_key(),
        offset: region.base(),
    }
}

/// A reference as a peer receives it.
fn told(reference: Reference) -> Vec<u8> {
    let Reference {
        address,
        access_key,
    } = reference;
    let mut bytes = address.key.0.to_be_bytes().to_vec();
    bytes.extend(address.offset.to_be_bytes());
    bytes.extend(access_key.0.to_be_bytes());
    bytes
}

fn heard(bytes: &[u8]) -> Option<Reference> {
    let (key, rest) = bytes.split_first_chunk::<4>()?;
    let (offset, rest) = rest.split_first_chunk::<8>()?;
    Some(Reference {
        address: RemoteAddress {
            key: RemoteKey(u32::from_be_bytes(*key)),
            offset: u64::from_be_bytes(*offset),
        },
        access_key: AccessKey(u64::from_be_bytes(*rest.first_chunk()?)),
    })
}

/// An honest peer: receives the reference and reads all of the object.
async fn ask(node: &Node, address: SocketAddr) -> bool {
    let provider = provider(node);
    let Ok(endpoint) = provider.connect(address, options()).await else {
        return false;
    };
    endpoint.authenticate(KEY);
    // A responder speaks once it was spoken to.
    let hello = Source::Buffer {
        buffer: Buffer::zeroed(1),
        len: 1,
    };
    if (endpoint.post_send(WorkId(0), hello, SendOptions::default())).is_err() {
        return false;
    }
    endpoint.flush();
    let mut completions = Vec::new();
    loop {
        if next_completions(&*endpoint, &mut completions)
            .await
            .is_err()
        {
            return false;
        }
        let messages = completions
            .drain(..)
            .filter_map(|completion| completion.buffer);
        let references: Vec<Reference> = messages.filter_map(|message| heard(&message)).collect();
        if let Some(reference) = references.first() {
            return read_object(&endpoint, *reference).await;
        }
    }
}

async fn read_object(endpoint: &Connected, reference: Reference) -> bool {
    let memory = Backing::Buffer(Buffer::zeroed(OBJECT_LEN));
    let scope = Scope::Endpoint(endpoint.id());
    let sink = endpoint.domain().register_now(memory, Access::Local, scope);
    let sink = sink.expect("an empty table has room");
    let span = Span::whole(&sink).expect("a sink is short");
    if (endpoint.post_optimistic_read(WorkId(1), span, reference)).is_err() {
        return false;
    }
    endpoint.flush();
    let mut completions = Vec::new();
    while next_completions(&**endpoint, &mut completions)
        .await
        .is_ok()
    {
        for completion in completions.drain(..) {
            match completion.outcome {
                Ok(Done::Read) => {
                    let software = sink.software();
                    let bytes = software.and_then(|region| region.bytes(0, OBJECT_LEN));
                    return bytes.is_some_and(|it| it.iter().all(|byte| *byte == CONTENT));
                }
                Err(WorkError::Remote(_)) => return false,
                _ => {}
            }
        }
    }
    false
}

/// Agrees on exceptions, lets the other end ask for its Reads, sends everything, and reads what comes.
async fn talk(runtime: &Handle, address: SocketAddr, data: &[u8]) -> io::Result<()> {
    let peer = runtime.connect(address).await?;
    write_all(&peer, &startup(FrameKind::Request)).await?;
    hear(&peer, is_reply).await?;
    // A zero-length RDMA Write: from now on the other end may send.
    write_all(&peer, &OPENING).await?;
    hear(&peer, is_asked).await?;
    write_all(&peer, data).await?;
    peer.shutdown_write();
    read_to_end(&peer).await
}

/// The startup frame of an end that offers exceptions, or agrees to them.
pub(crate) fn startup(kind: FrameKind) -> Vec<u8> {
    let request = StartupFrame {
        kind,
        markers: false,
        crc: false,
        rejected: false,
        reserved: 0,
        revision: Revision::TWO,
        enhanced: Some(Enhanced::client_server(DEPTH, DEPTH)),
        private_data: &EXCEPTIONS_OFFER,
    };
    let mut bytes = vec![0; request.encoded_len()];
    request.emit(&mut bytes).expect("the offer is short");
    bytes
}

/// Reads until something whole has come, as `is_whole` says.
async fn hear(peer: &Stream, is_whole: fn(&[u8]) -> bool) -> io::Result<()> {
    let mut heard = Vec::new();
    while !is_whole(&heard) {
        let mut space = [0; 512];
        match peer.try_read(&mut space) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => heard.extend_from_slice(&space[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                stream::readable(&**peer).await?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_reply(bytes: &[u8]) -> bool {
    matches!(
        StartupFrame::parse(FrameKind::Reply, bytes),
        Ok(Some((_, used))) if used == bytes.len()
    )
}

/// The reference, and the requests for all Reads.
fn is_asked(bytes: &[u8]) -> bool {
    let (mut rest, mut fpdus) = (bytes, 0);
    while let Ok(Some((_, used))) = Fpdu::parse(rest) {
        rest = rest.get(used..).unwrap_or_default();
        fpdus += 1;
    }
    rest.is_empty() && fpdus == 1 + READS
}

/// The same bytes with right codes in requests that have none.
pub(crate) fn signed(data: &[u8]) -> Vec<u8> {
    const PAYLOAD_AT: usize = LENGTH_LEN + UNTAGGED_HEADER_LEN;
    let mut authenticator = Authenticator::default();
    authenticator.set_key(KEY);
    let (mut out, mut at) = (data.to_vec(), 0);
    while let Some(Ok(Some((fpdu, used)))) = data.get(at..).map(Fpdu::parse) {
        if let Some(payload) = fpdu.ulpdu.get(UNTAGGED_HEADER_LEN..)
            && let Ok(payload) = <&[u8; AUTHENTICATED_READ_REQUEST_LEN]>::try_from(payload)
            && fpdu.ulpdu.get(1) == Some(&Opcode::AuthenticatedReadRequest.control())
            && payload.ends_with(&[0; MAC_LEN])
        {
            let claim = AuthenticatedReadRequest::from_bytes(payload).claim();
            let code = authenticator.code(&claim);
            let start = at + PAYLOAD_AT + claim.len();
            if let Some(place) = out.get_mut(start..start + MAC_LEN) {
                place.copy_from_slice(&code);
            }
        }
        at += used;
    }
    out
}
