//! Memory whose pages a device fetches when it needs them, in place of pinning it.

use super::*;
use std::ffi::c_int;

/// `IBV_ACCESS_ON_DEMAND` and `IBV_ACCESS_MW_BIND`.
const ON_DEMAND: c_int = 1 << 6;
const MW_BIND: c_int = 1 << 4;
/// `IBV_ODP_SUPPORT_SEND`, `IBV_ODP_SUPPORT_WRITE` and `IBV_ODP_SUPPORT_READ`.
const SEND: u32 = 1;
const WRITE: u32 = 1 << 2;
const READ: u32 = 1 << 3;

fn paged() -> VerbsConfig {
    VerbsConfig {
        on_demand_paging: true,
        ..VerbsConfig::default()
    }
}

/// The rights of a registration by a core with these settings, and those of the core's own messages.
async fn rights(runtime: Handle, device: FakeDevice, config: VerbsConfig) -> (c_int, c_int) {
    let bed = try_bed(runtime, device, &config).unwrap();
    let of_messages = bed.device.seen().rights;
    let domain = &bed.core.domain;
    let mut of_memory = Vec::new();
    // Long memory is registered on the pool.
    for len in [100, LONG_REGISTRATION] {
        let backing = Backing::Buffer(Buffer::zeroed(len));
        let registering = domain.register(backing, Access::RemoteWrite, Scope::Domain);
        let region = registering.await.unwrap();
        of_memory.push(bed.device.seen().rights);
        region.deregister().await.unwrap();
    }
    assert_eq!(of_memory[0], of_memory[1]);
    (of_memory[0], of_messages)
}

#[test]
fn memory_of_the_protocols_is_not_pinned_if_that_is_asked_for() {
    block_on(|runtime| async move {
        for make in [FakeDevice::new, FakeDevice::with_windows] {
            let device = make();
            device.page_on_demand(SEND | WRITE | READ);
            let context = device.context();
            assert!(context.pages_on_demand());
            let pinned = rights(
                Handle::clone(&runtime),
                device.clone(),
                VerbsConfig::default(),
            );
            let pinned = pinned.await;
            assert_eq!((pinned.0 | pinned.1) & ON_DEMAND, 0);
            let paged = rights(Handle::clone(&runtime), device, paged()).await;
            // Messages and receives stay pinned, and windows lie over memory that is not.
            assert_eq!(paged, (pinned.0 | ON_DEMAND, pinned.1));
            assert_eq!(paged.0 & MW_BIND != 0, pinned.0 & MW_BIND != 0);
        }
    })
    .unwrap();
}

#[test]
fn a_device_that_pins_memory_is_refused_if_it_is_asked_not_to() {
    block_on(|runtime| async move {
        for operations in [None, Some(0), Some(SEND | WRITE), Some(READ | WRITE)] {
            let device = FakeDevice::new();
            if let Some(operations) = operations {
                device.page_on_demand(operations);
            }
            assert!(!device.context().pages_on_demand(), "{operations:?}");
            let refused = try_bed(Handle::clone(&runtime), device.clone(), &paged()).err();
            let Some(refused @ VerbsError::NoPaging { .. }) = refused else {
                panic!("{operations:?}: {refused:?}");
            };
            let line = refused.to_string();
            assert!(line.contains("fake0") && line.contains("--on-demand-paging"));
            assert_eq!(device.seen().registrations, 0);
            bed(Handle::clone(&runtime), device);
        }
    })
    .unwrap();
}
