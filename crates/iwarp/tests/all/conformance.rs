//! The fabric's suite over real loopback sockets.

#![allow(clippy::unwrap_used)]

use gannet_conformance::{DiskFile, Harness, Power, Verdict, cases, run_case};
use gannet_fabric::Provider;
use gannet_iwarp::{IwarpConfig, IwarpProvider, Revision};
use gannet_runtime::tokio_plug::block_on;
use gannet_runtime::{FileRef, Handle};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::Arc;

struct Loopback {
    files: Files,
    runtime: Handle,
    near: Rc<IwarpProvider>,
    far: Rc<IwarpProvider>,
}

/// The part of the files that can be read without waiting.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Files {
    Cached,
    /// None: their file system cannot report that a read would wait.
    Slow,
}

impl Harness for Loopback {
    fn runtime(&self) -> Handle {
        Rc::clone(&self.runtime)
    }

    fn near(&self) -> Rc<dyn Provider> {
        Rc::clone(&self.near) as Rc<dyn Provider>
    }

    fn far(&self) -> Rc<dyn Provider> {
        Rc::clone(&self.far) as Rc<dyn Provider>
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }

    fn file(&self, content: Vec<u8>) -> FileRef {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&content, 0).unwrap();
        Arc::new(match self.files {
            Files::Slow => DiskFile::slow(file),
            Files::Cached => DiskFile::cached(file),
        })
    }
}

/// The settings of the tests: no consideration for Linux siw, so that connecting takes no time.
pub(crate) fn config() -> IwarpConfig {
    IwarpConfig {
        accept_race: None,
        ..IwarpConfig::default()
    }
}

fn check(near: IwarpConfig, far: IwarpConfig) {
    check_except(near, far, Files::Cached, "");
}

fn check_except(near: IwarpConfig, far: IwarpConfig, files: Files, exempt: &str) {
    let failures = block_on(|runtime| async move {
        let harness = Loopback {
            files,
            near: IwarpProvider::new(Rc::clone(&runtime), near),
            far: IwarpProvider::new(Rc::clone(&runtime), far),
            runtime,
        };
        let mut failures = Vec::new();
        for case in cases().into_iter().filter(|case| case.name != exempt) {
            match run_case(&harness, &case).await {
                Ok(Verdict::Held | Verdict::LeftOut(Power::Immediates)) => {}
                Ok(Verdict::LeftOut(power)) => failures.push(format!("{}: {power:?}", case.name)),
                Err(failure) => failures.push(failure.to_string()),
            }
        }
        failures
    })
    .unwrap();
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn with_crc() {
    check(config(), config());
}

#[test]
fn without_crc() {
    let plain = IwarpConfig {
        crc: false,
        ..config()
    };
    check(plain.clone(), plain);
}

#[test]
fn with_files_that_are_read_on_the_pool() {
    let plain = IwarpConfig {
        crc: false,
        ..config()
    };
    check_except(plain.clone(), plain, Files::Slow, "");
}

#[test]
fn with_frames_of_ethernet_size_and_one_side_asking_for_crc() {
    let small = IwarpConfig {
        ulpdu_max: 1442,
        crc: false,
        ..config()
    };
    check(small, config());
}

#[test]
fn peer_to_peer() {
    let p2p = IwarpConfig {
        peer_to_peer: true,
        ..config()
    };
    check(p2p, config());
}

#[test]
fn revision_one() {
    let old = IwarpConfig {
        revision: Revision::ONE,
        crc: false,
        ..config()
    };
    // Revision 1 carries no depths: each end goes by what its own application said.
    let exempt = "connecting::read_depths_are_agreed";
    check_except(old.clone(), old, Files::Cached, exempt);
}

#[test]
fn considerate_of_siw() {
    check(IwarpConfig::default(), IwarpConfig::default());
}
