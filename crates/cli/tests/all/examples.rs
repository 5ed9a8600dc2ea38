//! The examples do what they say, on a volume of four I/O servers.

#![allow(clippy::unwrap_used)]

use crate::support;

use crate::volume_io;

use std::path::Path;
use support::{Place, Server, succeed};

#[test]
fn files_of_a_volume_are_read_and_written_from_rust() {
    let place = Place::new();
    let volume = place.text("volume");
    succeed(&["volume", "create", &volume, "--io-servers", "4"]);
    let words = ["--volume", &volume, "--native", "127.0.0.1:0"];
    let nfs = ["--nfs-tcp", "127.0.0.1:0", "--nfs-rdma", "off"];
    let server = Server::with(&[&words[..], &nfs].concat());
    let address = volume_io::address_of(&format!("gannet://{}", server.native)).unwrap();
    let key = format!("{volume}/client-key");
    volume_io::run(address, Path::new(&key)).unwrap();
}
