//! The privileges of a serving process beyond those of any user: as few as serving takes.
//!
//! Capabilities belong to threads, and new threads inherit those of the thread that starts them. So the main thread
//! gives them up before it starts another one.

use crate::failure::{Explain, Failure};
use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

/// The capabilities to take the identity of an operation's caller, and the server's again.
const IDENTITY: CapabilitySet = CapabilitySet::SETUID.union(CapabilitySet::SETGID);
/// The privileges of root over files, since root of a trusted client is served as root. The kernel takes these from
/// a thread that has become another user. DAC_READ_SEARCH also opens files by their handles.
const FILES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::MKNOD);
/// The capability to register memory beyond RLIMIT_MEMLOCK.
const MEMORY: CapabilitySet = CapabilitySet::IPC_LOCK;
/// The capability to listen at ports below 1024, which is dropped after that.
const BINDING: CapabilitySet = CapabilitySet::NET_BIND_SERVICE;

const SERVING: CapabilitySet = IDENTITY.union(FILES).union(MEMORY);

/// Leaves this thread, and those that it starts from now on, the capabilities to open sockets and to serve. Quotas and
/// reserved blocks of file systems hold for the server from then on: CAP_SYS_RESOURCE would lift them for every caller.
///
/// # Errors
/// The system refuses.
pub(super) fn confine() -> Result<(), Failure> {
    let what = || String::from("cannot give up capabilities that serving does not take");
    drop_from_bounding_set(SERVING).explain(what)?;
    // An older kernel, which has none.
    match clear_ambient_capability_set() {
        Ok(()) | Err(Errno::INVAL) => {}
        Err(error) => return Err(Failure::new(what(), error)),
    }
    keep(SERVING.union(BINDING)).explain(what)?;
    set_no_new_privs(true).explain(what)
}

/// All sockets are open: leaves this thread, and those that it starts from now on, the capabilities to serve.
///
/// # Errors
/// The system refuses.
pub(super) fn sockets_are_open() -> Result<(), Failure> {
    let what = || String::from("cannot give up the right to listen at ports below 1024");
    keep(SERVING).explain(what)
}

fn keep(kept: CapabilitySet) -> rustix::io::Result<()> {
    let now = capabilities(None)?;
    let left = CapabilitySets {
        effective: now.effective & kept,
        permitted: now.permitted & kept,
        inheritable: CapabilitySet::empty(),
    };
    if left == now {
        Ok(())
    } else {
        set_capabilities(None, left)
    }
}

/// Programs that this process might start get no others either. Takes CAP_SETPCAP; without it there is no such way to
/// more, since no program that is started gains any.
fn drop_from_bounding_set(kept: CapabilitySet) -> rustix::io::Result<()> {
    for bit in 0..u64::BITS {
        let one = CapabilitySet::from_bits_retain(1 << bit);
        if kept.contains(one) {
            continue;
        }
        match remove_capability_from_bounding_set(one) {
            Ok(()) => {}
            // The kernel knows no capability from here on, or this process may not change the set.
            Err(Errno::INVAL | Errno::PERM) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
