//! A call that an NFS client sends again, to another server of the volume or to one that was restarted.

use super::Bed;
use crate::support::{FREE_PORT, Server};
use gannet_wire::mount3::{self, MntResult};
use gannet_wire::nfs3;
use gannet_wire::rpc::{AuthFlavor, AuthSys, CallHeader, Groups, OpaqueAuth, RecordMark};
use gannet_wire::xdr::{Encoder, from_bytes};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Bytes of a reply to a call before its result.
const REPLY_HEAD: usize = 24;
const MKDIR: u32 = 9;
const REMOVE: u32 = 12;
const RMDIR: u32 = 13;
const RENAME: u32 = 14;
const OK: u32 = 0;
const NOENT: u32 = 2;
const EXIST: u32 = 17;

/// Sends a call of root to a server; gives the result.
fn call(
    server: &str,
    xid: u32,
    (program, procedure): (u32, u32),
    arguments: impl FnOnce(&mut Encoder<'_>),
) -> Vec<u8> {
    let mut body = Vec::new();
    let root = AuthSys {
        stamp: xid,
        machine_name: b"client",
        uid: 0,
        gid: 0,
        groups: Groups::default(),
    };
    root.emit(&mut Encoder::new(&mut body));
    let header = CallHeader {
        xid,
        program,
        version: 3,
        procedure,
        credential: OpaqueAuth {
            flavor: AuthFlavor::SYS,
            body: &body,
        },
        verifier: OpaqueAuth::NONE,
    };
    let mut bytes = vec![0; 4];
    let mut encoder = Encoder::new(&mut bytes);
    header.emit(&mut encoder);
    arguments(&mut encoder);
    let mark = RecordMark::single(bytes.len() as u32 - 4);
    bytes[..4].copy_from_slice(&mark.to_bytes());
    let mut stream = TcpStream::connect(server).unwrap();
    let patience = Some(Duration::from_secs(60));
    stream.set_read_timeout(patience).unwrap();
    stream.write_all(&bytes).unwrap();
    let mut mark = [0; 4];
    stream.read_exact(&mut mark).unwrap();
    let mut reply = vec![0; RecordMark::from_bytes(mark).length as usize];
    stream.read_exact(&mut reply).unwrap();
    reply.split_off(REPLY_HEAD)
}

/// Does an operation on names of the root; gives its status.
fn change(server: &str, xid: u32, procedure: u32, root: &[u8], names: &[&str]) -> u32 {
    let result = call(server, xid, (nfs3::PROGRAM, procedure), |arguments| {
        for name in names {
            arguments.opaque(root);
            arguments.opaque(name.as_bytes());
        }
        if procedure == MKDIR {
            // No attribute is set.
            (0..6).for_each(|_| arguments.u32(0));
        }
    });
    u32::from_be_bytes(*result.first_chunk().unwrap())
}

fn nfs_server(bed: &Bed) -> Server {
    let words = ["--volume", &bed.volume, "--role", "nfs", "--manager"];
    let nfs = ["--nfs-tcp", FREE_PORT, "--nfs-rdma", "off", "--cores", "1"];
    let all = [&words[..], &[&bed.native], &nfs, &["--no-root-squash"]].concat();
    Server::with(&all)
}

#[test]
fn a_call_that_comes_again_to_another_server_is_done_once() {
    let bed = Bed::embedded("2");
    let (mut one, other) = (nfs_server(&bed), nfs_server(&bed));
    let mounted = call(&one.tcp, 1, (mount3::PROGRAM, 1), |arguments| {
        arguments.opaque(b"/");
    });
    let mounted: MntResult<'_> = from_bytes(&mounted).unwrap();
    let root = mounted.unwrap().root.0.to_vec();
    let ask = |server: &Server, xid, procedure, names: &[&str]| {
        change(&server.tcp, xid, procedure, &root, names)
    };
    for (xid, procedure, names, undone) in [
        (2, MKDIR, &["a"][..], EXIST),
        (3, RENAME, &["a", "b"], NOENT),
        (4, RMDIR, &["b"], NOENT),
    ] {
        assert_eq!(ask(&one, xid, procedure, names), OK, "{names:?}");
        assert_eq!(ask(&other, xid, procedure, names), OK, "{names:?} again");
        // The same change for another call, with an XID that has the same row, or another one.
        assert_eq!(ask(&other, xid + 256, procedure, names), undone);
        assert_eq!(ask(&one, xid + 100, procedure, names), undone);
    }
    // What failed is tried again, and what was done is known to a server that starts.
    assert_eq!(ask(&one, 9, REMOVE, &["c"]), NOENT);
    assert_eq!(ask(&one, 10, MKDIR, &["c"]), OK);
    one.kill();
    one = nfs_server(&bed);
    assert_eq!(ask(&one, 10, MKDIR, &["c"]), OK);
    assert_eq!(ask(&one, 11, RMDIR, &["c"]), OK);
    assert_eq!(ask(&other, 9, RMDIR, &["c"]), NOENT);
}
