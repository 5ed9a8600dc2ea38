//! Peers that are not what they should be, over real loopback sockets: each is refused or dropped
//! in time, and the provider goes on serving others.

#![allow(clippy::unwrap_used)]

use gannet_fabric::{
    ConnectError, ConnectOptions, Connected, Disconnected, Done, Listener, Provider, RemoteAddress,
    RemoteKey, SendOptions, Signal, Source, WorkId, next_completions,
};
use gannet_iwarp::limits::SETUPS_MAX;
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_runtime::stream::{ByteStream, Follow, readable, writable};
use gannet_runtime::tokio_plug::block_on;
use gannet_runtime::{Buffer, FileSource, Handle, LocalFuture, Stream};
use gannet_wire::mpa::{Enhanced, Fpdu, FrameKind, Revision, StartupFrame};
use gannet_wire::rdmap::{Opcode, Terminate, TerminateCode};
use std::future::Future;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

const SOON: Duration = Duration::from_millis(50);

pub(crate) fn config() -> IwarpConfig {
    IwarpConfig {
        crc: false,
        request_deadline: SOON,
        reply_deadline: SOON,
        stall_deadline: SOON,
        close_deadline: SOON,
        accept_race: None,
        ..IwarpConfig::default()
    }
}

pub(crate) fn address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Runs a story on a runtime, with a provider of these settings.
fn story<F: Future<Output = ()>>(
    config: IwarpConfig,
    body: impl FnOnce(Handle, Rc<IwarpProvider>) -> F,
) {
    block_on(|runtime| {
        let provider = IwarpProvider::new(Rc::clone(&runtime), config);
        body(runtime, provider)
    })
    .unwrap();
}

pub(crate) async fn write(stream: &Stream, bytes: &[u8]) {
    let mut rest = bytes;
    while !rest.is_empty() {
        writable(&**stream).await.unwrap();
        match stream.try_write(&[IoSlice::new(rest)], Follow::Nothing) {
            Ok(count) => rest = &rest[count..],
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
    }
}

/// Everything until the other side ends the stream, by whatever means.
pub(crate) async fn read_to_end(stream: &Stream) -> Vec<u8> {
    let (mut all, mut space) = (Vec::new(), vec![0; 65_536]);
    loop {
        readable(&**stream).await.unwrap();
        match stream.try_read(&mut space) {
            Ok(0) => return all,
            Ok(count) => all.extend_from_slice(&space[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return all,
        }
    }
}

pub(crate) async fn read_exactly(stream: &Stream, len: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < len {
        readable(&**stream).await.unwrap();
        let mut space = vec![0; len - all.len()];
        match stream.try_read(&mut space) {
            Ok(0) => panic!("the stream ended after {} bytes", all.len()),
            Ok(count) => all.extend_from_slice(&space[..count]),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
    }
    all
}

pub(crate) fn frame(kind: FrameKind) -> StartupFrame<'static> {
    StartupFrame {
        kind,
        markers: false,
        crc: false,
        rejected: false,
        reserved: 0,
        revision: Revision::TWO,
        enhanced: Some(Enhanced::client_server(4, 4)),
        private_data: b"",
    }
}

pub(crate) fn bytes_of(frame: &StartupFrame<'_>) -> Vec<u8> {
    let mut bytes = vec![0; frame.encoded_len()];
    frame.emit(&mut bytes).unwrap();
    bytes
}

pub(crate) fn zero_length_write() -> Vec<u8> {
    let mut bytes = vec![0, 14, 0xc1, 0x40, 0, 0, 0, 1];
    bytes.resize(20, 0);
    bytes
}

/// The Terminate at the end of `bytes`, which are FPDUs.
fn terminate_in(bytes: &[u8]) -> Option<TerminateCode> {
    let mut rest = bytes;
    let mut code = None;
    while let Ok(Some((fpdu, used))) = Fpdu::parse(rest) {
        if fpdu.ulpdu[1] == Opcode::Terminate.control() {
            code = Some(Terminate::parse(&fpdu.ulpdu[18..]).unwrap().0.code);
        }
        rest = &rest[used..];
    }
    code
}

async fn connected(
    provider: &IwarpProvider,
    listener: &mut dyn Listener,
) -> (Connected, Connected) {
    let options = || ConnectOptions {
        receives: vec![Buffer::zeroed(100)].into(),
        ..ConnectOptions::default()
    };
    let connecting = provider.connect(listener.local_address(), options());
    let accepting = async { listener.accept().await.unwrap().accept(options()).await };
    let (near, far) = tokio::join!(connecting, accepting);
    (near.unwrap(), far.unwrap())
}

/// A message arrives: the provider serves.
async fn check_alive(provider: &IwarpProvider, listener: &mut dyn Listener) {
    let (near, far) = connected(provider, listener).await;
    let source = Source::Buffer {
        buffer: Buffer::from_vec(b"alive".to_vec()),
        len: 5,
    };
    near.post_send(WorkId(1), source, SendOptions::default())
        .unwrap();
    near.flush();
    let mut completions = Vec::new();
    next_completions(&*far, &mut completions).await.unwrap();
    assert!(matches!(
        completions[0].outcome,
        Ok(Done::Received { len: 5, .. })
    ));
}

/// Why an endpoint ended, after all its completions.
async fn reason_of(endpoint: &Connected) -> Disconnected {
    loop {
        if let Err(reason) = next_completions(&**endpoint, &mut Vec::new()).await {
            return reason;
        }
    }
}

#[test]
fn a_peer_with_a_malformed_request_is_dropped() {
    story(config(), |runtime, provider| async move {
        let mut listener = provider.listen(address()).unwrap();
        let good = bytes_of(&frame(FrameKind::Request));
        let mut pipelined = good.clone();
        pipelined.extend_from_slice(&zero_length_write());
        let mut revision_0 = good.clone();
        revision_0[17] = 0;
        let revision_3 = bytes_of(&StartupFrame {
            revision: Revision(3),
            ..frame(FrameKind::Request)
        });
        let malformed: [&[u8]; 8] = [
            b"",
            b"GET / HTTP/1.1\r\n\r\n",
            &good[..19],
            &bytes_of(&frame(FrameKind::Reply)),
            &pipelined,
            &revision_0,
            &revision_3,
            &[0xff; 2000],
        ];
        for request in malformed {
            let stream = runtime.connect(listener.local_address()).await.unwrap();
            write(&stream, request).await;
            assert!(
                read_to_end(&stream).await.is_empty(),
                "{request:?} was answered"
            );
        }
        check_alive(&provider, &mut *listener).await;
    });
}

#[test]
fn more_silent_connections_than_set_ups_delay_no_peer() {
    let patient = IwarpConfig {
        request_deadline: Duration::from_millis(300),
        ..config()
    };
    story(patient, |runtime, provider| async move {
        let mut listener = provider.listen(address()).unwrap();
        let mut silent = Vec::new();
        for _ in 0..SETUPS_MAX + 10 {
            silent.push(runtime.connect(listener.local_address()).await.unwrap());
        }
        check_alive(&provider, &mut *listener).await;
        // The first ones had to make room.
        for stream in &silent[..10] {
            assert!(read_to_end(stream).await.is_empty());
        }
    });
}

/// Lets a provider connect to a responder made by hand.
async fn connect_to(
    runtime: &Handle,
    provider: &IwarpProvider,
    reply: Vec<u8>,
) -> (Result<Connected, ConnectError>, Stream) {
    let mut listener = runtime.listen(address()).unwrap();
    let options = ConnectOptions {
        ord: 4,
        ird: 4,
        ..ConnectOptions::default()
    };
    let connecting = provider.connect(listener.local_address(), options);
    let answering = async {
        let stream = listener.accept().await.unwrap();
        read_exactly(&stream, 24).await;
        write(&stream, &reply).await;
        stream
    };
    tokio::join!(connecting, answering)
}

#[test]
fn replies_that_will_not_do() {
    story(config(), |runtime, provider| async move {
        let good = frame(FrameKind::Reply);
        let (silence, _stream) = connect_to(&runtime, &provider, Vec::new()).await;
        assert!(matches!(silence, Err(ConnectError::TimedOut)));
        let (rejection, _stream) = connect_to(
            &runtime,
            &provider,
            bytes_of(&StartupFrame {
                rejected: true,
                private_data: b"why",
                ..good
            }),
        )
        .await;
        match rejection {
            Err(ConnectError::Rejected { private_data }) => assert_eq!(private_data, b"why"),
            _ => panic!("not a rejection"),
        }
        let pipelined = [bytes_of(&good), zero_length_write()].concat();
        let unusable = [
            bytes_of(&frame(FrameKind::Request)),
            bytes_of(&StartupFrame {
                revision: Revision::ONE,
                enhanced: None,
                ..good
            }),
            bytes_of(&StartupFrame {
                enhanced: None,
                ..good
            }),
            pipelined,
        ];
        for reply in unusable {
            let (outcome, stream) = connect_to(&runtime, &provider, reply).await;
            assert!(matches!(outcome, Err(ConnectError::Incompatible(_))));
            assert!(read_to_end(&stream).await.is_empty());
        }
    });
}

#[test]
fn a_responder_that_closes_during_set_up_is_reported_as_an_aborted_connection() {
    story(config(), |runtime, provider| async move {
        let reply = bytes_of(&frame(FrameKind::Reply));
        for answered in [0, 10] {
            let mut listener = runtime.listen(address()).unwrap();
            let options = ConnectOptions::default();
            let connecting = provider.connect(listener.local_address(), options);
            let leaving = async {
                let stream = listener.accept().await.unwrap();
                read_exactly(&stream, 24).await;
                write(&stream, &reply[..answered]).await;
            };
            let (outcome, ()) = tokio::join!(connecting, leaving);
            match outcome {
                Err(ConnectError::Io(error)) => {
                    assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
                    assert!(error.to_string().contains("closed"), "{error}");
                }
                other => panic!("{:?}", other.map(|_| ())),
            }
        }
    });
}

#[test]
fn a_responder_with_too_many_reads_gets_a_terminate() {
    story(config(), |runtime, provider| async move {
        let greedy = StartupFrame {
            enhanced: Some(Enhanced::client_server(4, 200)),
            ..frame(FrameKind::Reply)
        };
        let (outcome, stream) = connect_to(&runtime, &provider, bytes_of(&greedy)).await;
        assert!(matches!(outcome, Err(ConnectError::Incompatible(_))));
        let code = terminate_in(&read_to_end(&stream).await);
        assert_eq!(code, Some(TerminateCode::MPA_INSUFFICIENT_IRD));
    });
}

/// A provider accepts an initiator made by hand.
async fn accepted(runtime: &Handle, provider: &IwarpProvider) -> (Connected, Stream) {
    let mut listener = provider.listen(address()).unwrap();
    let stream = runtime.connect(listener.local_address()).await.unwrap();
    write(&stream, &bytes_of(&frame(FrameKind::Request))).await;
    let incoming = listener.accept().await.unwrap();
    let endpoint = incoming.accept(ConnectOptions::default()).await.unwrap();
    let reply = read_exactly(&stream, 24).await;
    assert!(
        StartupFrame::parse(FrameKind::Reply, &reply)
            .unwrap()
            .is_some()
    );
    (endpoint, stream)
}

#[test]
fn an_unfinished_fpdu_is_not_waited_for_for_ever() {
    story(config(), |runtime, provider| async move {
        let (endpoint, stream) = accepted(&runtime, &provider).await;
        write(&stream, &zero_length_write()).await;
        write(&stream, &zero_length_write()[..10]).await;
        assert_eq!(reason_of(&endpoint).await, Disconnected::TimedOut);
    });
}

#[test]
fn an_idle_peer_is_left_alone() {
    story(config(), |runtime, provider| async move {
        let (endpoint, stream) = accepted(&runtime, &provider).await;
        write(&stream, &zero_length_write()).await;
        let idle = gannet_runtime::timeout(&runtime, 4 * SOON, reason_of(&endpoint)).await;
        assert!(idle.is_err(), "{idle:?}");
        stream.shutdown_write();
        assert_eq!(reason_of(&endpoint).await, Disconnected::Peer);
    });
}

#[test]
fn a_stream_that_ends_within_an_fpdu_is_lost() {
    story(config(), |runtime, provider| async move {
        let (endpoint, stream) = accepted(&runtime, &provider).await;
        write(&stream, &zero_length_write()[..10]).await;
        stream.shutdown_write();
        let lost = Disconnected::Lost(io::ErrorKind::UnexpectedEof);
        assert_eq!(reason_of(&endpoint).await, lost);
    });
}

#[test]
fn work_that_cannot_leave_does_not_keep_a_closed_endpoint() {
    story(config(), |runtime, provider| async move {
        // An initiator that never speaks: the responder must not send before it.
        let (endpoint, stream) = accepted(&runtime, &provider).await;
        let source = Source::Buffer {
            buffer: Buffer::zeroed(5),
            len: 5,
        };
        endpoint
            .post_send(WorkId(1), source, SendOptions::default())
            .unwrap();
        endpoint.close();
        assert_eq!(reason_of(&endpoint).await, Disconnected::TimedOut);
        assert!(read_to_end(&stream).await.is_empty());
    });
}

/// A stream that takes nothing.
struct Clogged(Stream);

impl ByteStream for Clogged {
    fn peer_address(&self) -> SocketAddr {
        self.0.peer_address()
    }

    fn local_address(&self) -> SocketAddr {
        self.0.local_address()
    }

    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_readable(context)
    }

    fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buffer)
    }

    fn try_read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.0.try_read_vectored(buffers)
    }

    fn poll_writable(&self, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }

    fn try_write(&self, _buffers: &[IoSlice<'_>], _follow: Follow) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn try_send_file(&self, _: &dyn FileSource, _: u64, _: usize) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn shutdown_write(&self) {
        self.0.shutdown_write();
    }

    fn abort(&self) {
        self.0.abort();
    }
}

/// Gives out streams that take nothing.
struct CloggedListener(Box<dyn gannet_runtime::Listener>);

impl gannet_runtime::Listener for CloggedListener {
    fn local_address(&self) -> SocketAddr {
        self.0.local_address()
    }

    fn accept(&mut self) -> LocalFuture<io::Result<Stream>> {
        let accepting = self.0.accept();
        Box::pin(async { Ok(Rc::new(Clogged(accepting.await?)) as Stream) })
    }
}

#[test]
fn a_reply_that_cannot_leave_is_not_waited_for_for_ever() {
    story(config(), |runtime, provider| async move {
        let streams = CloggedListener(runtime.listen(address()).unwrap());
        let mut listener = provider.listen_on(Box::new(streams));
        let target = listener.local_address();
        for accepts in [true, false] {
            let stream = runtime.connect(target).await.unwrap();
            write(&stream, &bytes_of(&frame(FrameKind::Request))).await;
            let incoming = listener.accept().await.unwrap();
            if accepts {
                let outcome = incoming.accept(ConnectOptions::default()).await;
                assert!(matches!(outcome, Err(ConnectError::TimedOut)));
            } else {
                incoming.reject(Vec::new()).await;
            }
            assert!(read_to_end(&stream).await.is_empty());
        }
    });
}

#[test]
fn a_peer_that_takes_nothing_is_given_up_with_its_queue_full() {
    let bounded = IwarpConfig {
        send_queue_max: 64,
        ..config()
    };
    story(bounded, |runtime, provider| async move {
        let (endpoint, stream) = accepted(&runtime, &provider).await;
        write(&stream, &zero_length_write()).await;
        let target = RemoteAddress {
            key: RemoteKey(0x1234),
            offset: 0,
        };
        let mut posted = 0;
        loop {
            let source = Source::Buffer {
                buffer: Buffer::zeroed(1 << 20),
                len: 1 << 20,
            };
            match endpoint.post_write(WorkId(posted), source, target, Signal::OnError) {
                Ok(()) => posted += 1,
                Err(error) => {
                    assert_eq!(error, gannet_fabric::PostError::QueueFull);
                    break;
                }
            }
            endpoint.flush();
        }
        assert!(
            posted < 200,
            "{posted} MiB were taken for a peer that reads nothing"
        );
        assert_eq!(reason_of(&endpoint).await, Disconnected::TimedOut);
    });
}

#[test]
fn a_violation_is_answered_although_the_stream_ends() {
    story(config(), |runtime, provider| async move {
        let (endpoint, stream) = accepted(&runtime, &provider).await;
        let mut bytes = zero_length_write();
        // An unknown version, and bytes behind it that the responder does not read.
        bytes[2] ^= 3;
        write(&stream, &bytes).await;
        write(&stream, &[0xee; 10_000]).await;
        let code = terminate_in(&read_to_end(&stream).await);
        assert_eq!(code, Some(TerminateCode::TAGGED_VERSION));
        assert!(matches!(
            reason_of(&endpoint).await,
            Disconnected::PeerMisbehaved(_)
        ));
    });
}
