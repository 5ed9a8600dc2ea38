//! Fuzz targets: hostile bytes into everything that reads bytes.
//!
//! A target is a function that takes any bytes, must not panic, must not take long, must not hold much memory, and
//! checks what always holds: what was decoded encodes to something that decodes to the same. [`TARGETS`] lists them.
//! Two drivers run them: libFuzzer, guided by coverage (`cargo xtask fuzz SECONDS`), and the tests, which replay the
//! committed inputs.
//!
//! First thing to read: [`TARGETS`].

pub mod corpus;
mod dump;
mod exceptions;
mod files;
mod hostile;
mod initiator;
mod iwarp;
mod journal;
pub mod memory;
mod metadata;
mod native;
mod nfs;
mod rpc;
pub mod seeds;
mod server;
mod shapes;
mod volume;

/// A fuzz target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, and that of its corpus.
    pub name: &'static str,
    /// Its share of the fuzzing time, relative to those of the others.
    pub weight: u32,
    /// Bytes of memory that it may hold, whatever the input.
    pub held_max: usize,
    /// Bytes of memory that it may hold beyond that for each byte of input.
    pub held_per_byte: usize,
    /// Takes any bytes.
    pub run: fn(&[u8]),
}

/// A decoder: what it makes of a message is not much larger than the message.
const fn target(name: &'static str, run: fn(&[u8])) -> Target {
    Target {
        name,
        weight: 1,
        held_max: 16 << 10,
        held_per_byte: 64,
        run,
    }
}

/// A decoder of text that people write.
const fn text(name: &'static str, run: fn(&[u8])) -> Target {
    Target {
        held_per_byte: 512,
        ..target(name, run).holding(64 << 10)
    }
}

/// Systems of several machines in a simulated world, which hold some memory before the first byte of input.
const fn world(name: &'static str, run: fn(&[u8])) -> Target {
    Target {
        weight: 3,
        held_per_byte: 256,
        ..target(name, run).holding(16 << 20)
    }
}

impl Target {
    /// The same, with another bound of what it holds whatever the input.
    const fn holding(self, held_max: usize) -> Target {
        Target { held_max, ..self }
    }

    /// Runs it on an input; the most bytes of memory that it held.
    ///
    /// # Panics
    /// The input shows a fault: what the target checks does not hold, or the memory is more than it may be.
    pub fn check(&self, input: &[u8]) -> usize {
        let held = memory::peak_of(|| (self.run)(input));
        let most = self.held_max + self.held_per_byte * input.len();
        assert!(
            held <= most,
            "{}: {} bytes of input made it hold {held} bytes of memory, and it may hold {most}",
            self.name,
            input.len()
        );
        held
    }
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
    world("refusable_reads", exceptions::refusable_reads),
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
    world("server_tcp", server::server_tcp),
    world("server_rdma", server::server_rdma),
    target("tcp_reassembly", dump::tcp_reassembly),
    target("dump_stream", dump::dump_stream).holding(512 << 10),
    target("dump_capture", dump::dump_capture).holding(512 << 10),
    target("volume_hello", volume::volume_hello),
    target("volume_message", volume::volume_message),
    target("volume_records", volume::volume_records),
    target("volume_shapes", shapes::volume_shapes),
    target("volume_journal", journal::volume_journal).holding(4 << 20),
    target("metadata_file", metadata::metadata_file).holding(8 << 20),
    target("metadata_records", metadata::metadata_records),
    world("iwarp_initiator", initiator::iwarp_initiator),
    world("nfs_client_tcp", hostile::nfs_client_tcp),
    world("nfs_client_rdma", hostile::nfs_client_rdma),
    world("native_client", hostile::native_client),
    world("native_server", native::native_server),
    world("native_peer", native::native_peer),
    text("volume_toml", files::volume_toml),
    text("client_key", files::client_key),
    text("config", files::config),
    text("url", files::url),
];

/// The target with this name.
pub fn target_named(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
