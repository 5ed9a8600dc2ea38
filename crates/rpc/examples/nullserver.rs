//! A server that knows next to nothing: for measuring the RPC layer alone.
//!
//! `cargo run --release -p gannet-rpc --example nullserver -- [ADDRESS [FILE]]` answers MOUNT MNT of any path and
//! NFS NULL; with a file also GETATTR, LOOKUP (every name is that file), CREATE, READ and WRITE, without any check
//! or permission. Prints the addresses it listens at: TCP, then RPC/RDMA on the software RNIC.

use gannet_fabric::Provider;
use gannet_fabric::registration::Registration;
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_rpc::{
    Call, Counters, FileRange, OpaqueArgument, Payload, Program, Reply, Server, Service,
};
use gannet_runtime::{FileRef, FileSource, tokio_plug};
use gannet_wire::rpc::AcceptStatus;
use gannet_wire::xdr::{Decoder, Encoder, XdrError};
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::Arc;

const NFS: u32 = 100_003;
const MOUNT: u32 = 100_005;
const PROGRAMS: [Program; 2] = [
    Program {
        number: NFS,
        low: 3,
        high: 3,
        procedures: 22,
    },
    Program {
        number: MOUNT,
        low: 3,
        high: 3,
        procedures: 6,
    },
];
const HANDLE: &[u8] = b"a file!!";

struct WholeFile(File);

impl FileSource for WholeFile {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }

    fn try_read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn is_resident(&self, _offset: u64, _len: u64) -> bool {
        true
    }
}

struct Null {
    file: Option<Arc<WholeFile>>,
}

impl Null {
    fn size(&self) -> u64 {
        self.file
            .as_ref()
            .and_then(|file| file.0.metadata().ok())
            .map_or(0, |it| it.len())
    }

    fn attributes(&self, out: &mut Encoder<'_>) {
        for word in [1, 0o644, 1, 0, 0] {
            out.u32(word);
        }
        for long in [self.size(), self.size(), 0, 1, 2, 0, 0, 0] {
            out.u64(long);
        }
    }

    fn read(&self, arguments: &mut Decoder<'_>, reply: &mut Reply) -> Result<(), XdrError> {
        let (_, offset, count) = (arguments.opaque(64)?, arguments.u64()?, arguments.u32()?);
        let len = u64::from(count).min(self.size().saturating_sub(offset));
        let mut out = reply.results();
        out.u32(0);
        out.bool(true);
        self.attributes(&mut out);
        out.u32(u32::try_from(len).unwrap_or(0));
        out.bool(offset + len == self.size());
        let Some(file) = &self.file else {
            return Err(XdrError::Value);
        };
        let file = Arc::clone(file) as FileRef;
        let len = usize::try_from(len).unwrap_or(0);
        reply.put_payload(Payload::File(FileRange { file, offset, len }));
        Ok(())
    }

    fn write(&self, call: &Call, reply: &mut Reply) -> Result<(), XdrError> {
        let mut arguments = call.decoder();
        let (_, offset) = (arguments.opaque(64)?, arguments.u64()?);
        let (count, stable) = (arguments.u32()?, arguments.u32()?);
        let data: OpaqueArgument<'_> = call.take_opaque(&mut arguments, 1 << 20)?;
        let Some(file) = &self.file else {
            return Err(XdrError::Value);
        };
        let status = file
            .0
            .write_all_at(data.as_slice(), offset)
            .map_or(5, |()| 0);
        let mut out = reply.results();
        for word in [status, 0, 0, count, stable, 0, 0] {
            out.u32(word);
        }
        Ok(())
    }

    fn answer(&self, call: &Call, reply: &mut Reply) -> Result<(), XdrError> {
        match (call.program, call.procedure) {
            (_, 0) => {}
            (MOUNT, 1) => {
                let mut out = reply.results();
                out.u32(0);
                out.opaque(HANDLE);
                out.u32_array(&[1]);
            }
            (NFS, 1) => {
                let mut out = reply.results();
                out.u32(0);
                self.attributes(&mut out);
            }
            (NFS, 3) => {
                let mut out = reply.results();
                out.u32(0);
                out.opaque(HANDLE);
                out.u32(0);
                out.u32(0);
            }
            (NFS, 6) => self.read(&mut call.decoder(), reply)?,
            (NFS, 7) => self.write(call, reply)?,
            (NFS, 8) => {
                let mut out = reply.results();
                out.u32(0);
                out.bool(true);
                out.opaque(HANDLE);
                for _ in 0..3 {
                    out.u32(0);
                }
            }
            _ => reply.fail(AcceptStatus::ProcUnavail),
        }
        Ok(())
    }
}

impl Service for Null {
    fn programs(&self) -> &[Program] {
        &PROGRAMS
    }

    fn is_cached(&self, _program: u32, _procedure: u32) -> bool {
        false
    }

    fn locate_payload(&self, program: u32, procedure: u32, prefix: &[u8]) -> Option<usize> {
        if (program, procedure) != (NFS, 7) {
            return None;
        }
        let mut arguments = Decoder::new(prefix);
        arguments.opaque(64).ok()?;
        arguments.bytes(20).ok()?;
        Some(arguments.position())
    }

    async fn call(&self, call: &Call, reply: &mut Reply) {
        if self.answer(call, reply).is_err() {
            reply.fail(AcceptStatus::GarbageArgs);
        }
    }
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments
        .next()
        .unwrap_or_else(|| "127.0.0.1:0".to_string());
    let address: SocketAddr = address.parse().map_err(io::Error::other)?;
    let open = |path| File::options().read(true).write(true).open(path);
    let file = arguments
        .next()
        .map(open)
        .transpose()?
        .map(WholeFile)
        .map(Arc::new);
    tokio_plug::block_on(|runtime| async move {
        let service = Rc::new(Null { file });
        let (cache, counters) = (Arc::default(), Arc::<Counters>::default());
        let server = Server::new(Rc::clone(&runtime), service, cache, counters);
        let listener = runtime.listen(address)?;
        println!("{}", listener.local_address());
        let provider = IwarpProvider::new(Rc::clone(&runtime), IwarpConfig::default());
        let rdma = provider.listen(SocketAddr::new(address.ip(), 0))?;
        println!("{}", rdma.local_address());
        let over_rdma = server.clone();
        let task = async move {
            if let Err(error) = over_rdma
                .serve_rdma(provider, Registration::default(), rdma)
                .await
            {
                eprintln!("rdma: {error}");
            }
        };
        runtime.spawn("rdma", Box::pin(task));
        server.serve_tcp(listener).await
    })?
}
