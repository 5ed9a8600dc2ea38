//! The startup phase over a stream: one frame each way, each within its deadline.

use crate::limits::STARTUP_FRAME_MAX;
use crate::provider::Core;
use crate::startup::{self, Refusal, Role};
use crate::{crc, endpoint};
use gannet_fabric::{ConnectError, ConnectOptions, Connected};
use gannet_runtime::stream::{Follow, readable, writable};
use gannet_runtime::{ByteStream, Dscp, Stream, timeout};
use gannet_wire::ddp::{DdpHeader, MessageOffset, Msn, QueueNumber, UNTAGGED_HEADER_LEN, Untagged};
use gannet_wire::mpa::{FrameKind, StartupError, StartupFrame};
use gannet_wire::rdmap::{
    EXCEPTIONS_OFFER, Opcode, TERMINATE_LEN_MAX, Terminate, TerminateCode, split_exceptions_offer,
};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Why no startup frame was received.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    /// The peer closed first.
    #[error("the peer closed the connection during set-up")]
    Closed,
    /// The received bytes are no MPA frame of the expected kind.
    #[error(transparent)]
    Malformed(#[from] StartupError),
    /// Bytes follow the frame before the other end has answered it.
    #[error("bytes follow the startup frame")]
    Pipelined,
    /// The frame was not complete within its deadline.
    #[error("no startup frame came in time")]
    TimedOut,
    /// The stream broke.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<FrameError> for ConnectError {
    fn from(error: FrameError) -> ConnectError {
        match error {
            // The peer may be restarting: the caller can try again, as after any broken connection.
            FrameError::Closed => {
                io::Error::new(io::ErrorKind::ConnectionAborted, error.to_string()).into()
            }
            FrameError::Malformed(_) => ConnectError::Incompatible("the answer is no MPA frame"),
            FrameError::Pipelined => ConnectError::Incompatible("bytes follow the startup frame"),
            FrameError::TimedOut => ConnectError::TimedOut,
            FrameError::Io(error) => ConnectError::Io(error),
        }
    }
}

/// Connects as initiator.
pub(crate) async fn connect(
    core: Rc<Core>,
    address: SocketAddr,
    options: ConnectOptions,
) -> Result<Connected, ConnectError> {
    let offered = private_data_of(&options)?;
    let connecting = core.runtime.connect(address);
    let stream = timeout(&core.runtime, core.config.connect_deadline, connecting)
        .await
        .map_err(|_| ConnectError::TimedOut)??;
    mark(&*stream, options.traffic_class)?;
    let request = startup::request(&core.config, &options, &offered);
    send_frame(&core, &*stream, &request).await?;
    let bytes = receive_frame(
        &core,
        &*stream,
        FrameKind::Reply,
        core.config.reply_deadline,
    )
    .await?;
    let reply = parsed(FrameKind::Reply, &bytes)?;
    let agreement = match startup::conclude(&core.config, &options, &reply) {
        Ok(agreement) => agreement,
        Err(Refusal::Rejected) => {
            return Err(ConnectError::Rejected {
                private_data: reply.private_data.to_vec(),
            });
        }
        Err(Refusal::Incompatible(why)) => return Err(ConnectError::Incompatible(why)),
        Err(Refusal::Terminate(code)) => {
            let crc = core.config.crc || reply.crc;
            terminate(&core, stream, code, crc);
            return Err(ConnectError::Incompatible(
                "the reply's read depths or opening message do not fit",
            ));
        }
    };
    tracing::debug!(peer = %address, %agreement, "connected");
    // A peer that got no offer cannot answer one: all of its private data is the upper layer's.
    let private_data = if agreement.exceptions {
        split_exceptions_offer(reply.private_data).1
    } else {
        reply.private_data
    };
    let private_data = private_data.to_vec();
    endpoint::start(
        core,
        stream,
        Role::Initiator,
        agreement,
        private_data,
        options.receives,
    )
}

/// Accepts a request as responder.
pub(crate) async fn accept(
    core: Rc<Core>,
    stream: Stream,
    request: Vec<u8>,
    options: ConnectOptions,
) -> Result<Connected, ConnectError> {
    mark(&*stream, options.traffic_class)?;
    let request = parsed(FrameKind::Request, &request)?;
    let (offers, private_data) = split_exceptions_offer(request.private_data);
    // An initiator that made no offer would take ours for private data.
    let options = ConnectOptions {
        exceptions: options.exceptions && offers,
        ..options
    };
    let answer = private_data_of(&options)?;
    let (reply, agreement) = match startup::accept(&core.config, &request, &options, &answer) {
        Ok(accepted) => accepted,
        Err(_) => {
            let reply = startup::reject(&request, &[]);
            send_frame(&core, &*stream, &reply).await?;
            finish(&core, stream);
            return Err(ConnectError::Incompatible(
                "the request offers no known opening message",
            ));
        }
    };
    send_frame(&core, &*stream, &reply).await?;
    tracing::debug!(peer = %stream.peer_address(), %agreement, "accepted");
    let private_data = private_data.to_vec();
    endpoint::start(
        core,
        stream,
        Role::Responder,
        agreement,
        private_data,
        options.receives,
    )
}

/// Refuses a request.
pub(crate) async fn reject(
    core: Rc<Core>,
    stream: Stream,
    request: Vec<u8>,
    private_data: Vec<u8>,
) -> Result<(), ConnectError> {
    check_private_data(&private_data)?;
    let request = parsed(FrameKind::Request, &request)?;
    send_frame(&core, &*stream, &startup::reject(&request, &private_data)).await?;
    finish(&core, stream);
    Ok(())
}

/// Waits for a whole startup frame and nothing behind it; returns its bytes.
pub(crate) async fn receive_frame(
    core: &Core,
    stream: &dyn ByteStream,
    kind: FrameKind,
    deadline: Duration,
) -> Result<Vec<u8>, FrameError> {
    let received = timeout(&core.runtime, deadline, receive_frame_forever(stream, kind)).await;
    received.unwrap_or(Err(FrameError::TimedOut))
}

async fn receive_frame_forever(
    stream: &dyn ByteStream,
    kind: FrameKind,
) -> Result<Vec<u8>, FrameError> {
    let mut bytes = Vec::new();
    loop {
        readable(stream).await?;
        let mut space = [0; STARTUP_FRAME_MAX + 1];
        match stream.try_read(&mut space) {
            Ok(0) => return Err(FrameError::Closed),
            Ok(count) => bytes.extend_from_slice(space.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error.into()),
        }
        match StartupFrame::parse(kind, &bytes)? {
            Some((_, len)) if len == bytes.len() => return Ok(bytes),
            Some(_) => return Err(FrameError::Pipelined),
            None => {}
        }
    }
}

/// Reads back a frame that [`receive_frame`] returned.
pub(crate) fn parsed(kind: FrameKind, bytes: &[u8]) -> Result<StartupFrame<'_>, FrameError> {
    match StartupFrame::parse(kind, bytes)? {
        Some((frame, _)) => Ok(frame),
        None => Err(FrameError::Closed),
    }
}

/// Sends a startup frame, with one call: Linux siw blocks a kernel thread over a reply that comes
/// in pieces.
async fn send_frame(
    core: &Core,
    stream: &dyn ByteStream,
    frame: &StartupFrame<'_>,
) -> Result<(), ConnectError> {
    let mut bytes = vec![0; frame.encoded_len()];
    let emitted = frame.emit(&mut bytes);
    emitted.map_err(|_| ConnectError::Unsupported("too much private data"))?;
    let sending = send_all(stream, &bytes);
    timeout(&core.runtime, core.config.stall_deadline, sending)
        .await
        .map_err(|_| ConnectError::TimedOut)??;
    Ok(())
}

async fn send_all(stream: &dyn ByteStream, bytes: &[u8]) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        writable(stream).await?;
        match stream.try_write(&[IoSlice::new(rest)], Follow::Nothing) {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The private data for the peer: the caller's, behind the offer of exceptions if it makes one.
fn private_data_of(options: &ConnectOptions) -> Result<Vec<u8>, ConnectError> {
    let offer = if options.exceptions {
        &EXCEPTIONS_OFFER[..]
    } else {
        &[]
    };
    let bytes = [offer, &options.private_data].concat();
    check_private_data(&bytes)?;
    Ok(bytes)
}

fn check_private_data(bytes: &[u8]) -> Result<(), ConnectError> {
    if bytes.len() > gannet_fabric::limits::PRIVATE_DATA_MAX {
        return Err(ConnectError::Unsupported("too much private data"));
    }
    Ok(())
}

/// Sets the traffic class that the caller asked for, if it is not the default.
fn mark(stream: &dyn ByteStream, class: Dscp) -> Result<(), ConnectError> {
    if class == Dscp::default() {
        return Ok(());
    }
    stream
        .set_traffic_class(class)
        .map_err(|error| match error.kind() {
            io::ErrorKind::Unsupported => ConnectError::Unsupported("a traffic class"),
            _ => error.into(),
        })
}

/// Sends a Terminate with the reason why set-up failed (RFC 6581 section 9), then closes.
fn terminate(core: &Rc<Core>, stream: Stream, code: TerminateCode, crc_on: bool) {
    let mut payload = [0; TERMINATE_LEN_MAX];
    let len = Terminate::bare(code).emit(&mut payload);
    let header = DdpHeader::Untagged(Untagged {
        last: true,
        ulp_control: Opcode::Terminate.control(),
        ulp_word: 0,
        queue: QueueNumber::TERMINATE,
        msn: Msn::FIRST,
        offset: MessageOffset(0),
    });
    let mut fields = [0; UNTAGGED_HEADER_LEN];
    let header_len = header.emit(&mut fields);
    let mut bytes = u16::try_from(header_len + len)
        .unwrap_or_default()
        .to_be_bytes()
        .to_vec();
    // Control word and header together fill whole words: a bare Terminate has no pad.
    bytes.extend_from_slice(&fields);
    bytes.extend_from_slice(payload.get(..len).unwrap_or_default());
    let crc = if crc_on {
        crc::field_of(&bytes)
    } else {
        [0; 4]
    };
    bytes.extend_from_slice(&crc);
    let lingering = Rc::clone(core);
    core.runtime.spawn(
        "iwarp-refusal",
        Box::pin(async move {
            let sent = timeout(&lingering.runtime, lingering.config.close_deadline, async {
                send_all(&*stream, &bytes).await
            });
            if matches!(sent.await, Ok(Ok(()))) {
                finish(&lingering, stream);
            }
        }),
    );
}

/// Closes our side and waits until the peer closes its own, at most the close deadline. Without the wait, bytes that
/// the peer still sends cause a reset, which makes it drop our last frame.
fn finish(core: &Rc<Core>, stream: Stream) {
    stream.shutdown_write();
    let lingering = Rc::clone(core);
    core.runtime.spawn(
        "iwarp-linger",
        Box::pin(async move {
            let drained = timeout(
                &lingering.runtime,
                lingering.config.close_deadline,
                drain(&*stream),
            );
            if drained.await.is_err() {
                stream.abort();
            }
        }),
    );
}

async fn drain(stream: &dyn ByteStream) {
    let mut space = [0; 4096];
    while readable(stream).await.is_ok() {
        match stream.try_read(&mut space) {
            Ok(0) => return,
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return,
            _ => {}
        }
    }
}
