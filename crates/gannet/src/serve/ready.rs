//! The line that says where clients can connect, on standard output and in a file.

use crate::failure::{Explain, Failure};
use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;

/// `ready nfs-tcp=A:P nfs-rdma=A:P`; `off` for what does not listen.
pub(super) fn line(tcp: Option<SocketAddr>, rdma: Option<SocketAddr>) -> String {
    let text = |address: Option<SocketAddr>| {
        address.map_or_else(|| String::from("off"), |address| address.to_string())
    };
    format!("ready nfs-tcp={} nfs-rdma={}", text(tcp), text(rdma))
}

/// Writes the line to a file that appears complete or not at all.
///
/// # Errors
/// It cannot be written.
pub(super) fn write_file(path: &Path, line: &str) -> Result<(), Failure> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{}", std::process::id()));
    File::create(&unfinished)
        .and_then(|mut file| writeln!(file, "{line}"))
        .and_then(|()| std::fs::rename(&unfinished, path))
        .explain(|| format!("cannot write the ready file {}", path.display()))
}
