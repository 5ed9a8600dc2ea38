//! A TCP connection driven by readiness.
//!
//! A read or write that moves less than asked has emptied (filled) the socket, so readiness is cleared in the same
//! step and the extra system call that would only say `WouldBlock` is saved. Edge-triggered epoll reports anything
//! that arrives later.

use crate::FileSource;
use crate::stream::{ByteStream, Dscp, Follow};
use rustix::net::{RecvFlags, SendFlags, sockopt};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Time of silence after which the kernel probes the peer (TCP keep-alive).
const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(60);
/// Time between two probes.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(10);
/// Probes without an answer after which the connection ends.
const KEEP_ALIVE_PROBES: u32 = 6;

/// A TCP connection of this core.
pub struct TcpByteStream {
    socket: TcpStream,
    peer: SocketAddr,
    local: SocketAddr,
}

impl TcpByteStream {
    /// Takes over a connected socket; sets it non-blocking, without delay, and to end when the peer's machine does not
    /// answer for two minutes. Only inside a runtime.
    ///
    /// # Errors
    /// The socket is no longer connected, or the runtime takes no more descriptors.
    pub fn new(stream: std::net::TcpStream) -> io::Result<TcpByteStream> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        keep_alive(&stream)?;
        let (peer, local) = (stream.peer_addr()?, stream.local_addr()?);
        Ok(TcpByteStream {
            socket: TcpStream::from_std(stream)?,
            peer,
            local,
        })
    }

    /// Runs one transfer if the socket is ready. `wanted` is the number of bytes of a full one: a shorter one has
    /// emptied or filled the socket, and clears the readiness in the same step.
    fn transfer(
        &self,
        interest: Interest,
        wanted: usize,
        operation: impl Fn(&TcpStream) -> rustix::io::Result<usize>,
    ) -> io::Result<usize> {
        let mut moved = 0;
        let outcome = self.socket.try_io(interest, || {
            loop {
                match operation(&self.socket) {
                    Ok(count) => {
                        moved = count;
                        // Clears tokio's readiness; `moved` keeps the count for the caller.
                        return if count < wanted && count > 0 {
                            Err(io::ErrorKind::WouldBlock.into())
                        } else {
                            Ok(())
                        };
                    }
                    Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        });
        match outcome {
            Err(error) if moved == 0 => Err(error),
            _ => Ok(moved),
        }
    }
}

/// Has the kernel probe a silent peer. A machine that lost its power sends no reset: while nothing is sent to it, its
/// connections would keep their places at a server for ever.
fn keep_alive(stream: &std::net::TcpStream) -> rustix::io::Result<()> {
    sockopt::set_tcp_keepidle(stream, KEEP_ALIVE_AFTER)?;
    sockopt::set_tcp_keepintvl(stream, KEEP_ALIVE_EVERY)?;
    sockopt::set_tcp_keepcnt(stream, KEEP_ALIVE_PROBES)?;
    sockopt::set_socket_keepalive(stream, true)?;
    // The kernel sends no probes while bytes are unacknowledged, and retransmits these for a quarter of an hour. The
    // user timeout bounds that to the same two minutes.
    let longest = KEEP_ALIVE_AFTER + KEEP_ALIVE_EVERY * KEEP_ALIVE_PROBES;
    sockopt::set_tcp_user_timeout(stream, longest.as_millis() as u32)
}

impl ByteStream for TcpByteStream {
    fn peer_address(&self) -> SocketAddr {
        self.peer
    }

    fn local_address(&self) -> SocketAddr {
        self.local
    }

    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_read_ready(context)
    }

    fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let cell = std::cell::RefCell::new(buffer);
        let wanted = cell.borrow().len();
        self.transfer(Interest::READABLE, wanted, |socket| {
            let (count, _) =
                rustix::net::recv(socket, &mut **cell.borrow_mut(), RecvFlags::empty())?;
            Ok(count)
        })
    }

    fn look(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        // The socket does not block. Tokio's event for these bytes comes later, and is a wake-up without bytes.
        Ok(rustix::io::readv(&self.socket, buffers)?)
    }

    fn try_read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let wanted = buffers.iter().map(|buffer| buffer.len()).sum();
        let cell = std::cell::RefCell::new(buffers);
        self.transfer(Interest::READABLE, wanted, |socket| {
            rustix::io::readv(socket, &mut cell.borrow_mut())
        })
    }

    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_write_ready(context)
    }

    fn try_write(&self, buffers: &[IoSlice<'_>], follow: Follow) -> io::Result<usize> {
        let flags = match follow {
            Follow::Nothing | Follow::Rest => SendFlags::NOSIGNAL,
            Follow::More => SendFlags::NOSIGNAL | SendFlags::MORE,
        };
        let wanted = match follow {
            // Fewer bytes taken than offered must not clear the readiness: a file may have become shorter.
            Follow::Rest => 0,
            Follow::Nothing | Follow::More => buffers.iter().map(|buffer| buffer.len()).sum(),
        };
        self.transfer(Interest::WRITABLE, wanted, |socket| match buffers {
            [one] => rustix::net::send(socket, one, flags),
            many => rustix::net::sendmsg(
                socket,
                many,
                &mut rustix::net::SendAncillaryBuffer::default(),
                flags,
            ),
        })
    }

    fn try_send_file(&self, file: &dyn FileSource, offset: u64, len: usize) -> io::Result<usize> {
        let Some(source) = file.descriptor() else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        // Fewer bytes than `len` may also mean that the file ends while the socket has room: the readiness must stay.
        let wanted = 0;
        self.transfer(Interest::WRITABLE, wanted, |socket| {
            let mut position = offset;
            rustix::fs::sendfile(socket, source, Some(&mut position), len)
        })
    }

    fn shutdown_write(&self) {
        // Fails only when the connection has ended already.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write);
    }

    fn abort(&self) {
        let socket = &self.socket;
        // Dissolving the association resets the connection; fails only when the connection has ended already.
        let _ = rustix::net::connect_unspec(socket);
    }

    fn set_traffic_class(&self, class: Dscp) -> io::Result<()> {
        let byte = class.to_byte();
        // A socket that listens at [::] takes IPv4 as well, which has an option of its own.
        let set = match self.peer.ip().to_canonical() {
            IpAddr::V4(_) => sockopt::set_ip_tos(&self.socket, byte),
            IpAddr::V6(_) => sockopt::set_ipv6_tclass(&self.socket, byte.into()),
        };
        Ok(set?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::block_on;
    use super::*;
    use crate::stream::{readable, writable};
    use crate::{Handle, Stream};

    async fn pair(runtime: &Handle) -> (Stream, Stream) {
        let mut listener = runtime.listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let near = runtime.connect(listener.local_address()).await.unwrap();
        (near, listener.accept().await.unwrap())
    }

    #[test]
    fn bytes_arrive_in_order_and_the_end_is_seen() {
        let received = block_on(|runtime| async move {
            let (near, far) = pair(&runtime).await;
            let sent: Vec<u8> = (0..3_000_000u32).map(|value| value as u8).collect();
            let expected = sent.clone();
            runtime.spawn(
                "writer",
                Box::pin(async move {
                    let mut done = 0;
                    while done < sent.len() {
                        writable(&*near).await.unwrap();
                        match near.try_write(&[IoSlice::new(&sent[done..])], Follow::Nothing) {
                            Ok(count) => done += count,
                            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                        }
                    }
                    near.shutdown_write();
                }),
            );
            let (mut received, mut buffer) = (Vec::new(), vec![0; 70_000]);
            loop {
                readable(&*far).await.unwrap();
                match far.try_read(&mut buffer) {
                    Ok(0) => break,
                    Ok(count) => received.extend_from_slice(&buffer[..count]),
                    Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                }
            }
            received == expected
        })
        .unwrap();
        assert!(received);
    }

    #[test]
    fn both_ends_have_traffic_classes_of_their_own_over_ipv4_and_ipv6() {
        let class = |value| Dscp::new(value).unwrap();
        assert_eq!((Dscp::new(64), class(63)), (None, Dscp::MAX));
        for (listen, connect) in [
            ("127.0.0.1", "127.0.0.1"),
            ("[::1]", "[::1]"),
            // IPv4 at a socket of IPv6.
            ("[::]", "127.0.0.1"),
        ] {
            let found = block_on(|_| async move {
                let listener = std::net::TcpListener::bind(format!("{listen}:0")).unwrap();
                let port = listener.local_addr().unwrap().port();
                let near = std::net::TcpStream::connect(format!("{connect}:{port}")).unwrap();
                let near = TcpByteStream::new(near).unwrap();
                let far = TcpByteStream::new(listener.accept().unwrap().0).unwrap();
                near.set_traffic_class(class(10)).unwrap();
                far.set_traffic_class(class(26)).unwrap();
                [near, far].map(|end| match end.peer.ip().to_canonical() {
                    IpAddr::V4(_) => sockopt::ip_tos(&end.socket).unwrap(),
                    IpAddr::V6(_) => sockopt::ipv6_tclass(&end.socket).unwrap() as u8,
                })
            });
            assert_eq!(found.unwrap(), [10 << 2, 26 << 2], "{listen} {connect}");
        }
    }

    #[test]
    fn an_abort_is_a_reset_for_the_peer() {
        let kind = block_on(|runtime| async move {
            let (near, far) = pair(&runtime).await;
            near.abort();
            drop(near);
            readable(&*far).await.unwrap();
            far.try_read(&mut [0; 16]).map_err(|error| error.kind())
        })
        .unwrap();
        assert!(
            matches!(kind, Err(io::ErrorKind::ConnectionReset) | Ok(0)),
            "{kind:?}"
        );
    }

    #[test]
    fn a_silent_peer_is_probed_and_bytes_that_it_does_not_take_are_given_up() {
        block_on(|_| async {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let near = TcpByteStream::new(near).unwrap();
            assert!(sockopt::socket_keepalive(&near.socket).unwrap());
            let after = sockopt::tcp_keepidle(&near.socket).unwrap();
            let every = sockopt::tcp_keepintvl(&near.socket).unwrap();
            let probes = sockopt::tcp_keepcnt(&near.socket).unwrap();
            assert_eq!(after + every * probes, Duration::from_secs(120));
            assert_eq!(sockopt::tcp_user_timeout(&near.socket).unwrap(), 120_000);
        })
        .unwrap();
    }
}
