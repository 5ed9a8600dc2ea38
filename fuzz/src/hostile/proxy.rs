//! A machine between a client and a server, which passes on what the client sends, and edits what the server sends.

use super::edits::{Edited, Edits};
use crate::server::write_all;
use gannet_runtime::{Handle, Listener, Stream, stream};
use gannet_wire::ddp::{DdpHeader, UNTAGGED_HEADER_LEN};
use gannet_wire::mpa::{CRC_LEN, Fpdu, FrameKind, LENGTH_LEN, StartupFrame, pad_len};
use gannet_wire::rpc::{RECORD_MARK_LEN, RecordMark};
use gannet_wire::volume::{HEADER_LEN, MessageHeader};
use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

/// The units of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// Records of RPC over TCP.
    Records,
    /// MPA's startup frame, then FPDUs without CRC and markers.
    Fpdus,
}

pub(super) struct Proxy {
    pub(super) framing: Framing,
    /// Where it listens.
    pub(super) at: SocketAddr,
    /// Where it connects to.
    pub(super) server: SocketAddr,
    pub(super) edits: Rc<RefCell<Edits>>,
}

impl Proxy {
    /// Begins to listen; where.
    pub(super) fn start(self, runtime: &Handle) -> SocketAddr {
        let at = self.at;
        let listener = runtime.listen(at);
        let listener = listener.expect("the ports of a new node are free");
        let serving = self.serve(Handle::clone(runtime), listener);
        runtime.spawn("proxy", Box::pin(serving));
        at
    }

    async fn serve(self, runtime: Handle, mut listener: Box<dyn Listener>) {
        while let Ok(client) = listener.accept().await {
            let Ok(server) = runtime.connect(self.server).await else {
                client.abort();
                continue;
            };
            let asking = pass(Rc::clone(&client), Rc::clone(&server));
            runtime.spawn("proxy of requests", Box::pin(asking));
            let lie = lie(self.framing, Rc::clone(&self.edits), server, client);
            runtime.spawn("proxy of replies", Box::pin(lie));
        }
    }
}

/// Passes on what the client sends, until either end closes.
async fn pass(client: Stream, server: Stream) {
    let mut bytes = Vec::new();
    while let Ok(1..) = more(&client, &mut bytes).await {
        if write_all(&server, &bytes).await.is_err() {
            break;
        }
        bytes.clear();
    }
    server.shutdown_write();
}

/// Passes on what the server sends, edited, until either end closes.
async fn lie(framing: Framing, edits: Rc<RefCell<Edits>>, server: Stream, client: Stream) {
    let (mut bytes, mut is_first) = (Vec::new(), true);
    while let Ok(1..) = more(&server, &mut bytes).await {
        let (mut out, mut used, mut closes) = (Vec::new(), 0, false);
        while let Some((unit, len)) = framing.next(bytes.get(used..).unwrap_or_default(), is_first)
            && !closes
        {
            match edits.borrow_mut().edit(&unit) {
                None => out.extend_from_slice(&bytes[used..used + len]),
                Some(edited) => {
                    closes = edited.closes;
                    framing.append(edited, is_first, &mut out);
                }
            }
            used += len;
            is_first = false;
        }
        bytes.drain(..used);
        if write_all(&client, &out).await.is_err() || closes {
            break;
        }
    }
    client.abort();
    server.abort();
}

/// Reads what has come behind `bytes`; how much, 0 at the end of the stream.
async fn more(stream: &Stream, bytes: &mut Vec<u8>) -> io::Result<usize> {
    let mut space = [0; 16 << 10];
    loop {
        match stream.try_read(&mut space) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                stream::readable(&**stream).await?;
            }
            read => {
                let len = read?;
                bytes.extend_from_slice(&space[..len]);
                return Ok(len);
            }
        }
    }
}

impl Framing {
    /// The first unit of `bytes` without its frame, and its length with it; `None` if it is not all there.
    fn next(self, bytes: &[u8], is_first: bool) -> Option<(Vec<u8>, usize)> {
        if self == Framing::Records {
            let mark = RecordMark::from_bytes(*bytes.first_chunk::<RECORD_MARK_LEN>()?);
            let end = RECORD_MARK_LEN + mark.length as usize;
            return Some((bytes.get(RECORD_MARK_LEN..end)?.to_vec(), end));
        }
        if is_first {
            let startup = StartupFrame::parse(FrameKind::Reply, bytes).ok()??;
            return Some((bytes.get(..startup.1)?.to_vec(), startup.1));
        }
        let (fpdu, used) = Fpdu::parse(bytes).ok()??;
        Some((fpdu.ulpdu.to_vec(), used))
    }

    fn append(self, edited: Edited, is_first: bool, out: &mut Vec<u8>) {
        for mut unit in edited.units {
            match self {
                Framing::Records => {
                    let len = u32::try_from(unit.len()).unwrap_or(u32::MAX);
                    out.extend(RecordMark::single(len).to_bytes());
                    out.append(&mut unit);
                }
                Framing::Fpdus if is_first => out.append(&mut unit),
                Framing::Fpdus => {
                    if edited.mend {
                        mend(&mut unit);
                    }
                    // No longer than a length can say.
                    unit.truncate(usize::from(u16::MAX));
                    let len = u16::try_from(unit.len()).unwrap_or(u16::MAX);
                    out.extend(len.to_be_bytes());
                    let end = LENGTH_LEN + unit.len() + pad_len(unit.len()) + CRC_LEN;
                    let end = out.len() - LENGTH_LEN + end;
                    out.append(&mut unit);
                    out.resize(end, 0);
                }
            }
        }
    }
}

/// Has the header of a message of the native protocol say how long its body is.
fn mend(ulpdu: &mut [u8]) {
    const BODY_LEN_AT: usize = HEADER_LEN - 8;
    if !matches!(DdpHeader::parse(ulpdu), Ok((DdpHeader::Untagged(_), _))) {
        return;
    }
    let message = ulpdu.get_mut(UNTAGGED_HEADER_LEN..).unwrap_or_default();
    let Some(behind) = message.len().checked_sub(HEADER_LEN) else {
        return;
    };
    let mut header = message.to_vec();
    let data_len = header.split_off(HEADER_LEN - 4);
    let data_len = data_len
        .first_chunk()
        .copied()
        .map_or(0, u32::from_be_bytes);
    let body_len = behind.saturating_sub(data_len as usize);
    let said = u32::try_from(body_len).unwrap_or(u32::MAX).to_be_bytes();
    // Only messages of that protocol: others have no such header.
    let mut mended = message.to_vec();
    mended[BODY_LEN_AT..BODY_LEN_AT + 4].copy_from_slice(&said);
    if MessageHeader::split(&mended).is_ok() {
        message.copy_from_slice(&mended);
    }
}
