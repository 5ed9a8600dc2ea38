//! A TCP proxy on loopback, whose connections can be cut while they are in use, lose what the server says, or end with
//! its first answer.

use anyhow::{Context, Result};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Bytes that are passed on at a time.
const PIECE: usize = 64 << 10;
/// The number of the piece from an RDMA server that holds its first reply; the reply to the set-up comes before.
const FIRST_ANSWER: usize = 2;

/// Changes bytes that pass.
pub(super) type Edit = fn(&mut [u8]);

/// Changes nothing.
pub(super) fn as_it_is(_: &mut [u8]) {}

/// Clears the flag of a client's MPA request that allows the server to invalidate the client's keys (RFC 8797 section
/// 4). Linux always sets it.
pub(super) fn forbid_invalidation(request: &mut [u8]) {
    const MAGIC_AND_VERSION: [u8; 5] = [0xf6, 0xab, 0x0e, 0x18, 1];
    let length = MAGIC_AND_VERSION.len();
    let block = request
        .windows(length)
        .position(|bytes| bytes == MAGIC_AND_VERSION);
    if let Some(flags) = block.and_then(|start| request.get_mut(start + length)) {
        *flags &= !1;
    }
}

/// Passes connections on to a port of this machine.
///
/// The proxy's threads run until the program ends; they do nothing without connections.
pub(super) struct Proxy {
    /// The port of 127.0.0.1 on which the proxy listens.
    pub(super) port: u16,
    connections: Arc<Mutex<Vec<Connection>>>,
    /// Number of connections that are still to end with their first reply.
    doomed: Arc<AtomicUsize>,
}

/// A connection that is passed on.
struct Connection {
    client: TcpStream,
    /// Whether bytes to the client are dropped.
    is_mute: Arc<AtomicBool>,
}

impl Proxy {
    /// Listens on a free port. `edit` may change the first bytes of each connection that come from its client.
    ///
    /// # Errors
    /// No port is free.
    pub(super) fn start(target: u16, edit: Edit) -> Result<Proxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
        let port = listener.local_addr()?.port();
        let proxy = Proxy {
            port,
            connections: Arc::default(),
            doomed: Arc::default(),
        };
        let (open, doomed) = (Arc::clone(&proxy.connections), Arc::clone(&proxy.doomed));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A client that comes while the server is down sees its connection end.
                let _ = pass_on(client, target, edit, &open, &doomed);
            }
        });
        Ok(proxy)
    }

    /// Ends the next `count` RDMA connections when the server answers their first call, and loses the reply. Returns
    /// how many connections the last such order still had to end.
    pub(super) fn doom(&self, count: usize) -> usize {
        self.doomed.swap(count, Ordering::Relaxed)
    }

    /// Loses all that the server sends from here on over the open connections. Returns the number of these connections.
    pub(super) fn mute(&self) -> usize {
        let open = lock(&self.connections);
        for connection in open.iter() {
            connection.is_mute.store(true, Ordering::Relaxed);
        }
        open.len()
    }

    /// Cuts all connections, at any place of a message. Returns how many of them were still open.
    pub(super) fn cut(&self) -> usize {
        let open = std::mem::take(&mut *lock(&self.connections));
        // One end of each is known here: the other follows when its thread sees the end. Those that had ended fail.
        open.iter()
            .filter(|connection| connection.client.shutdown(Shutdown::Both).is_ok())
            .count()
    }
}

fn lock(connections: &Mutex<Vec<Connection>>) -> MutexGuard<'_, Vec<Connection>> {
    connections.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pass_on(
    client: TcpStream,
    target: u16,
    edit: Edit,
    open: &Mutex<Vec<Connection>>,
    doomed: &Arc<AtomicUsize>,
) -> std::io::Result<()> {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, target))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let is_mute = Arc::new(AtomicBool::new(false));
    lock(open).push(Connection {
        client: client.try_clone()?,
        is_mute: Arc::clone(&is_mute),
    });
    let (from_client, to_server) = (client.try_clone()?, server.try_clone()?);
    let mut edit = Some(edit);
    let edit_first = move |piece: &mut [u8]| {
        if let Some(edit) = edit.take() {
            edit(piece);
        }
        Fate::GoesOn
    };
    thread::spawn(move || copy(from_client, to_server, edit_first));
    let doomed = Arc::clone(doomed);
    let mut pieces = 0;
    let unless_lost = move |_: &mut [u8]| {
        pieces += 1;
        let one_less = |count: usize| count.checked_sub(1);
        if is_mute.load(Ordering::Relaxed) {
            Fate::Lost
        } else if pieces == FIRST_ANSWER
            && doomed
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
                .is_ok()
        {
            Fate::LastOfAll
        } else {
            Fate::GoesOn
        }
    };
    thread::spawn(move || copy(server, client, unless_lost));
    Ok(())
}

/// The fate of a piece.
enum Fate {
    GoesOn,
    Lost,
    /// The piece is lost, and the connection ends.
    LastOfAll,
}

/// Copies until either side ends, then ends both. `fate` may change a piece.
fn copy(mut from: TcpStream, mut to: TcpStream, mut fate: impl FnMut(&mut [u8]) -> Fate) {
    let mut piece = vec![0; PIECE];
    while let Ok(length @ 1..) = from.read(&mut piece) {
        let piece = &mut piece[..length];
        let passed = match fate(piece) {
            Fate::GoesOn => to.write_all(piece).is_ok(),
            Fate::Lost => true,
            Fate::LastOfAll => false,
        };
        if !passed {
            break;
        }
    }
    // They may have ended by themselves.
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_ends_both_sides_and_new_connections_pass() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let proxy = Proxy::start(server.local_addr().unwrap().port(), as_it_is).unwrap();
        for _ in 0..2 {
            let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port)).unwrap();
            let (mut served, _) = server.accept().unwrap();
            client.write_all(b"ping").unwrap();
            let mut bytes = [0; 4];
            served.read_exact(&mut bytes).unwrap();
            assert_eq!(&bytes, b"ping");
            assert_eq!(proxy.cut(), 1);
            assert!(matches!(client.read(&mut bytes), Ok(0) | Err(_)));
            assert!(matches!(served.read(&mut bytes), Ok(0) | Err(_)));
        }
    }

    #[test]
    fn a_mute_connection_loses_what_the_server_says() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let proxy = Proxy::start(server.local_addr().unwrap().port(), as_it_is).unwrap();
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port)).unwrap();
        let (mut served, _) = server.accept().unwrap();
        let mut bytes = [0; 4];
        for _ in 0..2 {
            client.write_all(b"ping").unwrap();
            served.read_exact(&mut bytes).unwrap();
            assert_eq!(&bytes, b"ping");
            assert_eq!(proxy.mute(), 1);
            served.write_all(b"lost").unwrap();
        }
        drop(served);
        assert!(matches!(client.read(&mut bytes), Ok(0) | Err(_)));
    }

    #[test]
    fn doomed_connections_end_with_their_first_answer() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let proxy = Proxy::start(server.local_addr().unwrap().port(), as_it_is).unwrap();
        assert_eq!(proxy.doom(2), 0);
        for is_doomed in [true, true, false] {
            let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port)).unwrap();
            let (mut served, _) = server.accept().unwrap();
            let mut bytes = [0; 6];
            served.write_all(b"set-up").unwrap();
            client.read_exact(&mut bytes).unwrap();
            served.write_all(b"answer").unwrap();
            assert_eq!(client.read_exact(&mut bytes).is_err(), is_doomed);
        }
        assert_eq!(proxy.doom(0), 0);
    }

    #[test]
    fn a_request_loses_one_bit_at_most() {
        let mut request =
            *b"MPA ID Req Frame\x10\x02\x00\x0c\x00\x80\x00\x00\xf6\xab\x0e\x18\x01\x01\x03\x03";
        let mut expected = request;
        expected[29] = 0;
        for _ in 0..2 {
            forbid_invalidation(&mut request);
            assert_eq!(request, expected);
        }
        let mut cut = *b"\xf6\xab\x0e\x18\x01";
        forbid_invalidation(&mut cut);
        assert_eq!(&cut, b"\xf6\xab\x0e\x18\x01");
    }
}
