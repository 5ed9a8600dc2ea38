//! A peer made by hand: NFS over TCP, one call at a time or many without reading.

use gannet_wire::mount3::{self, MntResult};
use gannet_wire::nfs3;
use gannet_wire::rpc::{CallHeader, OpaqueAuth, RecordMark};
use gannet_wire::xdr::{Encoder, from_bytes};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// How long an honest peer waits for anything.
const PATIENCE: Duration = Duration::from_secs(300);

/// A procedure of version 3 of an RPC program.
#[derive(Clone, Copy)]
struct Procedure {
    program: u32,
    number: u32,
}

impl Procedure {
    /// A procedure of NFS.
    const fn nfs(number: u32) -> Procedure {
        Procedure {
            program: nfs3::PROGRAM,
            number,
        }
    }
}

/// A record with one call.
fn call(procedure: Procedure, arguments: impl FnOnce(&mut Encoder<'_>)) -> Vec<u8> {
    let header = CallHeader {
        xid: 1,
        program: procedure.program,
        version: 3,
        procedure: procedure.number,
        credential: OpaqueAuth::NONE,
        verifier: OpaqueAuth::NONE,
    };
    let mut bytes = vec![0; 4];
    let mut encoder = Encoder::new(&mut bytes);
    header.emit(&mut encoder);
    arguments(&mut encoder);
    let mark = RecordMark::single(bytes.len() as u32 - 4);
    bytes[..4].copy_from_slice(&mark.to_bytes());
    bytes
}

pub(crate) fn null() -> Vec<u8> {
    call(Procedure::nfs(0), |_| ())
}

pub(crate) fn getattr(handle: &[u8]) -> Vec<u8> {
    call(Procedure::nfs(1), |arguments| arguments.opaque(handle))
}

/// READDIRPLUS with the longest page.
pub(crate) fn readdirplus(handle: &[u8]) -> Vec<u8> {
    call(Procedure::nfs(17), |arguments| {
        arguments.opaque(handle);
        arguments.u64(0);
        arguments.u64(0);
        arguments.u32(1 << 20);
        arguments.u32(1 << 20);
    })
}

/// WRITE of a mebibyte, whose bytes are not all there.
pub(crate) fn begun_write(handle: &[u8], len: usize) -> Vec<u8> {
    let mut bytes = call(Procedure::nfs(7), |arguments| {
        arguments.opaque(handle);
        arguments.u64(0);
        arguments.u32(1 << 20);
        arguments.u32(0);
        arguments.u32(1 << 20);
    });
    let mark = RecordMark::single(bytes.len() as u32 - 4 + (1 << 20));
    bytes[..4].copy_from_slice(&mark.to_bytes());
    bytes.resize(len, 7);
    bytes
}

pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
    /// See [`Peer::stuff`].
    stuffed: usize,
}

impl Peer {
    pub(crate) fn connect(server: &str) -> Peer {
        Peer::connect_from(Ipv4Addr::LOCALHOST, server).unwrap()
    }

    /// Connects from an address of the loopback network.
    pub(crate) fn connect_from(from: Ipv4Addr, server: &str) -> io::Result<Peer> {
        let server: SocketAddr = server.parse().unwrap();
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        bind(&socket, &SocketAddr::new(from.into(), 0))?;
        connect(&socket, &server)?;
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Peer { stream, stuffed: 0 })
    }

    /// The reply to one call, without the record mark.
    pub(crate) fn exchange(&mut self, call: &[u8]) -> io::Result<Vec<u8>> {
        self.stream.write_all(call)?;
        let mut mark = [0; 4];
        self.stream.read_exact(&mut mark)?;
        let len = RecordMark::from_bytes(mark).length as usize;
        let mut reply = vec![0; len];
        self.stream.read_exact(&mut reply)?;
        Ok(reply)
    }

    /// The handle of the root, by MOUNT.
    pub(crate) fn mount(&mut self) -> Vec<u8> {
        let mount = Procedure {
            program: mount3::PROGRAM,
            number: 1,
        };
        let call = call(mount, |arguments| arguments.opaque(b"/"));
        let reply = self.exchange(&call).unwrap();
        let result: MntResult<'_> = from_bytes(&reply[24..]).unwrap();
        result.unwrap().root.0.to_vec()
    }

    /// Sends `bytes` again and again, as far as the server takes them at once, and reads nothing.
    pub(crate) fn stuff(&mut self, bytes: &[u8]) {
        self.stream.set_nonblocking(true).unwrap();
        while let Ok(count @ 1..) = self.stream.write(&bytes[self.stuffed..]) {
            self.stuffed = (self.stuffed + count) % bytes.len();
        }
    }

    /// Whether the connection lasts, seen from a stream that does not block.
    pub(crate) fn lasts(&self) -> bool {
        match self.stream.peek(&mut [0]) {
            Ok(count) => count > 0,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }
    }
}
