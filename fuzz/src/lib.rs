//! Fuzz targets: hostile bytes into everything that reads bytes.
//!
//! A target is a function that takes any bytes, must not panic, must not take long, and checks what always holds: what
//! was decoded encodes to something that decodes to the same. [`TARGETS`] lists them. Three drivers run them: the
//! `gannet-fuzz` binary, which mutates the committed corpora on stable Rust (`cargo xtask fuzz SECONDS`); the tests,
//! which replay the corpora; and libFuzzer, guided by coverage, for those who have a nightly toolchain (`libfuzzer/`).
//!
//! First thing to read: [`TARGETS`].

pub mod driver;
mod dump;
mod exceptions;
mod files;
mod iwarp;
mod journal;
pub mod mutation;
mod nfs;
mod rpc;
pub mod seeds;
mod server;
mod volume;

use std::path::{Path, PathBuf};

/// A fuzz target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, and that of its corpus.
    pub name: &'static str,
    /// Takes any bytes.
    pub run: fn(&[u8]),
}

const fn target(name: &'static str, run: fn(&[u8])) -> Target {
    Target { name, run }
}

/// All targets, bottom layer first.
pub const TARGETS: &[Target] = &[
    target("mpa_startup", iwarp::mpa_startup),
    target("mpa_fpdu", iwarp::mpa_fpdu),
    target("mpa_markers", iwarp::mpa_markers),
    target("ddp", iwarp::ddp),
    target("rdmap_terminate", iwarp::rdmap_terminate),
    target("rdmap_read_request", iwarp::rdmap_read_request),
    target("rdmap_auth_read", exceptions::rdmap_auth_read),
    target("rdmap_read_exception", exceptions::rdmap_read_exception),
    target("refusable_reads", exceptions::refusable_reads),
    target("xdr", rpc::xdr),
    target("record", rpc::record),
    target("rpc_call", rpc::rpc_call),
    target("rpc_reply", rpc::rpc_reply),
    target("rpcrdma", rpc::rpcrdma),
    target("private_data", rpc::private_data),
    target("nfs3_call", nfs::nfs3_call),
    target("nfs3_reply", nfs::nfs3_reply),
    target("mount3_call", nfs::mount3_call),
    target("mount3_reply", nfs::mount3_reply),
    target("server_tcp", server::server_tcp),
    target("server_rdma", server::server_rdma),
    target("tcp_reassembly", dump::tcp_reassembly),
    target("dump_stream", dump::dump_stream),
    target("dump_capture", dump::dump_capture),
    target("volume_hello", volume::volume_hello),
    target("volume_message", volume::volume_message),
    target("volume_records", volume::volume_records),
    target("volume_journal", journal::volume_journal),
    target("config", files::config),
    target("url", files::url),
];

/// The target with this name.
pub fn target_named(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Where the committed inputs of a target are.
pub fn corpus(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target)
}
