//! The suite of the fabric seam on a real device.
//!
//! `GANNET_VERBS_ADDRESS` names the device by the address of its network interface:
//! `GANNET_VERBS_ADDRESS=10.77.0.1 cargo test -p gannet-verbs --test devices -- --ignored`.
//! `GANNET_VERBS_CASES` runs only the cases whose name contains it.

use gannet_conformance::{DiskFile, Harness, Verdict, cases, run_case};
use gannet_fabric::{Provider, Region};
use gannet_runtime::{FileRef, Handle, tokio_plug::block_on};
use gannet_verbs::{VerbsConfig, VerbsLibrary, VerbsProvider, devices};
use std::fs::File;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

/// Cases that no device can pass, each with the reason. The provider's capabilities leave out further ones.
const LEFT_OUT: &[(&str, &str)] = &[(
    "messages::a_solicited_message_is_reported_as_such",
    "a completion does not say that its message was solicited",
)];

/// As [`LEFT_OUT`], for Linux's software iWARP.
const LEFT_OUT_ON_SIW: &[(&str, &str)] = &[
    (
        "refusals::reads_outside_the_grant",
        "it does not check the right to read",
    ),
    (
        "refusals::nothing_is_read_after_deregister",
        "a read under way goes on after the memory was deregistered",
    ),
];

/// As [`LEFT_OUT`], for Linux's software RoCE.
const LEFT_OUT_ON_RXE: &[(&str, &str)] = &[(
    "refusals::a_foreign_key_is_not_invalidated",
    "it does not look whose window a key is",
)];

/// As [`LEFT_OUT_ON_RXE`], after Linux 6.1 (seen on 6.12): where a pair with shared receives breaks, its driver flushes
/// nothing.
const LEFT_OUT_ON_LATER_RXE: &[(&str, &str)] = &[(
    "sharing::memory_of_an_aborted_endpoint_comes_back",
    "a message that is cut off takes its shared receive for good",
)];

/// Whether the kernel is later than Linux 6.1.
fn is_later_linux() -> bool {
    let names = rustix::system::uname();
    let release = names.release().to_string_lossy();
    let mut parts = release
        .split('.')
        .map_while(|part| part.parse::<u32>().ok());
    (parts.next(), parts.next()) >= (Some(6), Some(2))
}

struct Bench {
    runtime: Handle,
    near: Rc<dyn Provider>,
    far: Rc<dyn Provider>,
    address: SocketAddr,
}

impl Harness for Bench {
    fn runtime(&self) -> Handle {
        Rc::clone(&self.runtime)
    }

    fn near(&self) -> Rc<dyn Provider> {
        Rc::clone(&self.near)
    }

    fn far(&self) -> Rc<dyn Provider> {
        Rc::clone(&self.far)
    }

    fn address(&self) -> SocketAddr {
        self.address
    }

    /// A file of tmpfs: the kernels that register pages of files do so there, too.
    fn file(&self, content: Vec<u8>) -> FileRef {
        let file = rustix::fs::memfd_create("source", rustix::fs::MemfdFlags::CLOEXEC);
        let mut file = File::from(file.expect("a file"));
        file.write_all(&content).expect("room");
        Arc::new(DiskFile::cached(file))
    }

    fn look(&self, region: &Region) -> Option<Vec<u8>> {
        if !region.is_valid() {
            let memory = region.deregister().now().ok()?.ok()?;
            return memory.map(|memory| memory.to_vec());
        }
        let memory = region.lend()?;
        let bytes = memory.to_vec();
        region.restore(memory).ok()?;
        Some(bytes)
    }
}

fn address() -> IpAddr {
    let name = "GANNET_VERBS_ADDRESS";
    let address = std::env::var(name).unwrap_or_else(|_| panic!("{name} names no device"));
    address.parse().expect("an address")
}

#[test]
#[ignore = "needs an RDMA device"]
fn the_suite_holds_on_a_device() {
    let only = std::env::var("GANNET_VERBS_CASES").unwrap_or_default();
    let failures = block_on(|runtime| async move {
        let library = VerbsLibrary::open().expect("rdma-core");
        let provider = || {
            let config = VerbsConfig::at(address());
            VerbsProvider::new(Rc::clone(&runtime), &library, &config).expect("a device")
        };
        let near = provider();
        let bench = Bench {
            near: Rc::clone(&near) as Rc<dyn Provider>,
            far: provider(),
            address: SocketAddr::new(address(), 0),
            runtime: Rc::clone(&runtime),
        };
        let infos = devices(&library).expect("devices");
        let name = near.device_name();
        let limits = infos
            .iter()
            .find(|it| it.name == name)
            .expect("the device")
            .limits;
        let left_out = LEFT_OUT.iter();
        let on_siw = LEFT_OUT_ON_SIW.iter().filter(|_| limits.is_siw());
        let on_rxe = LEFT_OUT_ON_RXE.iter().filter(|_| limits.is_rxe());
        let is_later = limits.is_rxe() && is_later_linux();
        let on_later_rxe = LEFT_OUT_ON_LATER_RXE.iter().filter(|_| is_later);
        let on_rxe = on_rxe.chain(on_later_rxe);
        let left_out: Vec<_> = left_out.chain(on_siw).chain(on_rxe).collect();
        let mut failures = Vec::new();
        for case in cases() {
            if !case.name.contains(&only) {
                continue;
            }
            let left_out = left_out.iter().find(|(name, _)| *name == case.name);
            if let Some((name, reason)) = left_out {
                println!("left out {name} ({reason})");
                continue;
            }
            let start = runtime.now();
            let outcome = run_case(&bench, &case).await;
            let took = runtime.now() - start;
            match outcome {
                Ok(Verdict::Held) => println!("held {} ({took:?})", case.name),
                Ok(Verdict::LeftOut(power)) => println!("left out {} ({power:?})", case.name),
                Err(failure) => {
                    println!("FAILED {failure} ({took:?})");
                    failures.push(failure.to_string());
                }
            }
        }
        failures
    });
    let failures = failures.expect("a runtime");
    assert!(failures.is_empty(), "{failures:#?}");
}
