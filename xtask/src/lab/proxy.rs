//! A TCP proxy on loopback, whose connections can be cut while they are in use.

use anyhow::{Context, Result};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Bytes that are passed on at a time.
const PIECE: usize = 64 << 10;

/// Passes connections on to a port of this machine.
///
/// Its threads live until the program ends; they do nothing without connections.
pub(super) struct Proxy {
    /// Where it listens, on 127.0.0.1.
    pub(super) port: u16,
    connections: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    /// Listens on a free port.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn start(target: u16) -> Result<Proxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
        let port = listener.local_addr()?.port();
        let connections = Arc::default();
        let open = Arc::clone(&connections);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A client that comes while the server is down sees its connection end.
                let _ = pass_on(client, target, &open);
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

fn pass_on(client: TcpStream, target: u16, open: &Mutex<Vec<TcpStream>>) -> std::io::Result<()> {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, target))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    lock(open).push(client.try_clone()?);
    let (from_client, to_server) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || copy(from_client, to_server));
    thread::spawn(move || copy(server, client));
    Ok(())
}

/// Copies until either side ends, then ends both.
fn copy(mut from: TcpStream, mut to: TcpStream) {
    let mut piece = vec![0; PIECE];
    while let Ok(length @ 1..) = from.read(&mut piece) {
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
        let proxy = Proxy::start(server.local_addr().unwrap().port()).unwrap();
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
}
