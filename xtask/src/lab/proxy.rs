//! A TCP proxy on loopback, whose connections can be cut while they are in use.

use anyhow::{Context, Result};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Bytes that are passed on at a time.
const PIECE: usize = 64 << 10;

/// Changes bytes that pass.
pub(super) type Edit = fn(&mut [u8]);

/// Changes nothing.
pub(super) fn as_it_is(_: &mut [u8]) {}

/// Takes from a client's MPA request the word that keys of its own may be invalidated by the server (RFC 8797 section
/// 4): Linux always gives it.
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
/// Its threads live until the program ends; they do nothing without connections.
pub(super) struct Proxy {
    /// Where it listens, on 127.0.0.1.
    pub(super) port: u16,
    connections: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    /// Listens on a free port. `edit` may change the first bytes of each connection that come from its client.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn start(target: u16, edit: Edit) -> Result<Proxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
        let port = listener.local_addr()?.port();
        let connections = Arc::default();
        let open = Arc::clone(&connections);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A client that comes while the server is down sees its connection end.
                let _ = pass_on(client, target, edit, &open);
            }
        });
        Ok(Proxy { port, connections })
    }

    /// Cuts all connections, wherever in a message they are; how many there were.
    pub(super) fn cut(&self) -> usize {
        let open = std::mem::take(&mut *lock(&self.connections));
        // One end of each is known here: the other follows when its thread sees the end. Those that had ended fail.
        open.iter()
            .filter(|connection| connection.shutdown(Shutdown::Both).is_ok())
            .count()
    }
}

fn lock(connections: &Mutex<Vec<TcpStream>>) -> std::sync::MutexGuard<'_, Vec<TcpStream>> {
    connections.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pass_on(
    client: TcpStream,
    target: u16,
    edit: Edit,
    open: &Mutex<Vec<TcpStream>>,
) -> std::io::Result<()> {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, target))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    lock(open).push(client.try_clone()?);
    let (from_client, to_server) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || copy(from_client, to_server, edit));
    thread::spawn(move || copy(server, client, as_it_is));
    Ok(())
}

/// Copies until either side ends, then ends both.
fn copy(mut from: TcpStream, mut to: TcpStream, mut edit: Edit) {
    let mut piece = vec![0; PIECE];
    while let Ok(length @ 1..) = from.read(&mut piece) {
        edit(&mut piece[..length]);
        edit = as_it_is;
        if to.write_all(&piece[..length]).is_err() {
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
