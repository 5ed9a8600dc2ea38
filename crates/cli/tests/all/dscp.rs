//! Traffic classes of a volume's connections, read from the sockets of clients and servers while they run.

#![allow(clippy::unwrap_used)]

use crate::support;

use clap::Parser;
use gannet::url::Url;
use gannet_cli::cli::ClientOptions;
use gannet_cli::session::Session;
use gannet_client::Follow;
use gannet_runtime::Buffer;
use gannet_runtime::tokio_plug::block_on;
use rustix::io::Errno;
use rustix::net::sockopt::ip_tos;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::fs;
use std::net::{SocketAddr, TcpStream};
use support::{Place, Server, bytes, succeed};

/// One end of a TCP connection over IPv4.
struct End {
    here: SocketAddr,
    there: SocketAddr,
    /// The mark of the packets that it sends.
    dscp: u8,
}

/// Containers may keep processes from each other's descriptors, and old kernels do.
fn may_look() -> bool {
    let child = std::process::Command::new("cat")
        .stdin(std::process::Stdio::piped())
        .spawn();
    let mut child = child.unwrap();
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    let handle = pidfd_open(pid, PidfdFlags::empty());
    let copy = handle.and_then(|handle| pidfd_getfd(&handle, 0, PidfdGetfdFlags::empty()));
    drop(child.stdin.take());
    let refused = matches!(copy, Err(Errno::PERM | Errno::ACCESS | Errno::NOSYS));
    drop(copy);
    child.wait().unwrap();
    !refused
}

/// All that a process has.
fn ends(process: u32) -> Vec<End> {
    let pid = Pid::from_raw(process.try_into().unwrap()).unwrap();
    let handle = pidfd_open(pid, PidfdFlags::empty()).unwrap();
    let open = fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let end = |entry: std::io::Result<fs::DirEntry>| {
        let number = entry.unwrap().file_name();
        let number = number.to_str().unwrap().parse().unwrap();
        let socket = match pidfd_getfd(&handle, number, PidfdGetfdFlags::empty()) {
            Ok(copy) => TcpStream::from(copy),
            // It was closed meanwhile.
            Err(Errno::BADF) => return None,
            Err(error) => panic!("{error}"),
        };
        Some(End {
            there: socket.peer_addr().ok()?,
            here: socket.local_addr().ok()?,
            dscp: ip_tos(&socket).unwrap() >> 2,
        })
    };
    open.filter_map(end).collect()
}

/// The classes of the connections between two processes, in both directions, each combination once.
fn classes_between(near: u32, far: u32) -> Vec<(u8, u8)> {
    let (near, far) = (ends(near), ends(far));
    let mut found = Vec::new();
    for end in &near {
        let others = far.iter();
        let mut others = others.filter(|it| (it.here, it.there) == (end.there, end.here));
        found.extend(others.next().map(|other| (end.dscp, other.dscp)));
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Options as the command line has them.
#[derive(Parser)]
struct Options {
    #[command(flatten)]
    client: ClientOptions,
}

#[test]
fn links_to_the_manager_and_those_with_data_are_marked_at_both_ends() {
    if !may_look() {
        gannet_testing::left_out("other processes' sockets cannot be looked at here");
        return;
    }
    let place = Place::new();
    let (volume, file) = (place.text("volume"), place.text("file"));
    succeed(&["volume", "create", &volume]);
    // Servers use the marks of the volume's description, unless options override them.
    let description = place.path("volume/volume.toml");
    let said = fs::read_to_string(&description).unwrap();
    let marked = said.replace("[stripes]", "dscp = \"metadata=12,data=10\"\n[stripes]");
    fs::write(&description, marked).unwrap();
    let manager = [
        "--volume",
        &volume,
        "--role",
        "manager",
        "--nfs-rdma",
        "off",
    ];
    let listen = ["--native", "127.0.0.1:0", "--nfs-tcp", "127.0.0.1:0"];
    let manager = Server::with(&[&manager[..], &listen, &["--dscp", "metadata=26"]].concat());
    let io_server = ["--volume", &volume, "--role", "io-server=0", "--native"];
    let io_server = [
        &io_server[..],
        &["127.0.0.1:0", "--manager", &manager.native],
    ];
    let io_server = Server::with(&io_server.concat());

    let (key, there) = (format!("{volume}/client-key"), &manager.native);
    let url = format!("gannet://{there}/file");
    fs::write(&file, bytes(1, 300_000)).unwrap();
    succeed(&["cp", &file, &url, "--volume-key", &key]);
    // For which the manager connects to the I/O server.
    let all = format!("gannet://{there}/");
    succeed(&["volume", "check", &all, "--volume-key", &key]);
    let (manager, io_server) = (manager.pid(), io_server.pid());
    assert_eq!(classes_between(io_server, manager), [(12, 26)]);

    for (dscp, to_manager, to_io_server) in [
        ("metadata=34,data=18", (34, 26), (18, 10)),
        ("data=18", (0, 26), (18, 10)),
    ] {
        let options = ["gannet", "--volume-key", &key, "--dscp", dscp];
        let (url, options) = (Url::parse(&url).unwrap(), Options::parse_from(options));
        let found = block_on(async |runtime| {
            let session = Session::connect(&runtime, &url, &options.client).await;
            let session = session.unwrap();
            let node = session.node(&url, Follow::No).await.unwrap();
            let objects = session.objects();
            let memory = Buffer::zeroed(1 << 20);
            let read = objects.read_into(&node.handle, 0, 1 << 20, memory).await;
            assert_eq!(read.unwrap().0.count, 300_000);
            let here = std::process::id();
            [manager, io_server].map(|there| classes_between(here, there))
        });
        assert_eq!(found.unwrap(), [[to_manager], [to_io_server]], "{dscp}");
    }
}
