//! The file system identity of a thread: the rights of its file operations.
//!
//! Linux keeps identity per thread, and a new thread inherits its parent's: a thread that the pool starts has the
//! identity of the caller whom its core served last. So every job of the pool begins with
//! [`Identities::begin_job`]: as the server, or as the caller whose change it is. A switch costs three to five system
//! calls of about a microsecond, so a job leaves its identity to the next one, which switches nothing if it is
//! for the same caller. The visit that ran them gives the thread back as the server's.
//!
//! Within a job, [`Identities::as_server`] takes on the server's rights for one operation and gives the caller's back.
//! A core thread calls [`Identities::assume`] before each operation that depends on rights, and stays the caller;
//! its other work (sockets, timers) does not depend on the file system identity.

use crate::sys;
use gannet_vfs::limits::CALL_GROUPS_MAX;
use gannet_vfs::{Credentials, Status};
use rustix::process::{Gid, Uid};
use rustix::thread::{CapabilitySet, capabilities};
use std::cell::{Cell, RefCell};
use std::io;

/// The capabilities of root over files that others own.
const FILE_RIGHTS: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::MKNOD);

thread_local! {
    /// The present identity of this thread; unknown at first.
    static CURRENT: RefCell<Option<Credentials>> = const { RefCell::new(None) };
    /// Whether this thread tried to get an empty file creation mask, and whether it has one.
    static UMASK: Cell<Option<bool>> = const { Cell::new(None) };
}

/// How callers map to identities.
pub(crate) enum Identities {
    /// As root: each operation runs as its caller.
    Callers {
        /// The server's own.
        own: Credentials,
    },
    /// The server does not run as root, or each caller is the server: all operations run as its user.
    Server,
}

impl Identities {
    /// Callers' identities if the server is root, else the server's. Root in a sandbox may lack the right to take on
    /// identities; then all operations run as root, which is right only if `callers_are_server`.
    ///
    /// # Errors
    /// The system's reason why root cannot take on the identities of callers that are not the server.
    pub(crate) fn probe(callers_are_server: bool) -> io::Result<Identities> {
        let own = own_credentials();
        if own.uid != 0 {
            return Ok(Identities::Server);
        }
        let back = own.clone();
        // On a thread of its own, which switches and switches back.
        let probe = std::thread::spawn(move || {
            switch(&Credentials::new(1, 1, &[1]))?;
            gives_up_privileges()?;
            Ok(switch(&back)?)
        });
        let probed = probe
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread that tried it panicked")));
        match probed {
            Ok(()) => Ok(Identities::Callers { own }),
            Err(_) if callers_are_server => Ok(Identities::Server),
            Err(error) => Err(error),
        }
    }

    /// Makes this thread's file operations count as the caller's.
    ///
    /// # Errors
    /// `Acces` when the kernel does not take this identity (an id without a mapping in a user namespace).
    pub(crate) fn assume(&self, caller: &Credentials) -> Result<(), Status> {
        match self {
            Identities::Callers { .. } => assume(caller),
            Identities::Server => Ok(()),
        }
    }

    /// Begins a job of the pool: as `caller` if the job changes something for one, else as the server.
    ///
    /// # Errors
    /// `Acces` as [`Identities::assume`]; `Serverfault` when the server's own identity cannot be taken on. Nothing may
    /// be done with the wrong rights then.
    pub(crate) fn begin_job(&self, caller: Option<&Credentials>) -> Result<(), Status> {
        match (self, caller) {
            (Identities::Callers { .. }, Some(caller)) => assume(caller),
            (Identities::Callers { own }, None) => assume(own).map_err(|_| Status::Serverfault),
            (Identities::Server, _) => Ok(()),
        }
    }

    /// Runs one operation with the server's own rights, and gives this thread's identity back.
    ///
    /// # Errors
    /// The errors of `operation`; `Serverfault` when the server's identity cannot be taken on, or the one before it
    /// cannot be taken back.
    pub(crate) fn as_server<T>(
        &self,
        operation: impl FnOnce() -> Result<T, Status>,
    ) -> Result<T, Status> {
        let Identities::Callers { own } = self else {
            return operation();
        };
        let before = CURRENT.with_borrow(|current| current.clone().filter(|it| it != own));
        assume(own).map_err(|_| Status::Serverfault)?;
        let result = operation();
        if let Some(before) = before {
            assume(&before).map_err(|_| Status::Serverfault)?;
        }
        result
    }

    /// Whether this thread has the server's own rights: an invariant of what a job does as the server.
    pub(crate) fn is_server(&self) -> bool {
        match self {
            Identities::Callers { own } => {
                CURRENT.with_borrow(|current| current.as_ref().is_none_or(|it| it == own))
            }
            Identities::Server => true,
        }
    }

    /// The credentials that decide what `caller` may do: its own, or always the server's.
    pub(crate) fn deciding<'a>(&self, caller: &'a Credentials) -> Option<&'a Credentials> {
        match self {
            Identities::Callers { .. } => Some(caller),
            Identities::Server => None,
        }
    }
}

/// Checks that this thread, as another user, has none of root's rights over files. The kernel takes them away, unless
/// the process was started with securebits that forbid it.
fn gives_up_privileges() -> io::Result<()> {
    let kept = capabilities(None)?.effective & FILE_RIGHTS;
    if kept.is_empty() {
        return Ok(());
    }
    let why =
        "a thread that acts as another user keeps the rights of root (securebits: no_setuid_fixup)";
    Err(io::Error::other(why))
}

/// The user and group of this process, as a caller without supplementary groups.
pub fn own_credentials() -> Credentials {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    Credentials::new(uid.as_raw(), gid.as_raw(), &[])
}

/// The user as whom fstat(2) reports all owners without an id in this process's user namespace; `None` where each user
/// has one, and where that user is one of the namespace too, whose files must stay its own. Blocks.
pub(crate) fn unmapped_user() -> Option<u32> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    // A file that cannot be read is empty here: not the map of all users.
    let map = read("/proc/self/uid_map");
    unmapped_user_of(&map, || read("/proc/sys/kernel/overflowuid"))
}

fn unmapped_user_of(map: &str, overflow: impl FnOnce() -> String) -> Option<u32> {
    /// The number in Linux's source, should /proc not tell.
    const DEFAULT_OVERFLOW: u32 = 65_534;
    if map.split_whitespace().eq(["0", "0", "4294967295"]) {
        return None;
    }
    let overflow: u32 = overflow().trim().parse().unwrap_or(DEFAULT_OVERFLOW);
    // A line is the first id here, the first id outside, and how many there are.
    let is_of_map = map.lines().any(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        match (numbers.next(), numbers.nth(1)) {
            (Some(Ok(first)), Some(Ok(count))) => {
                (first..first.saturating_add(count)).contains(&overflow.into())
            }
            _ => false,
        }
    });
    (!is_of_map).then_some(overflow)
}

fn assume(wanted: &Credentials) -> Result<(), Status> {
    CURRENT.with_borrow_mut(|current| {
        if current.as_ref() == Some(wanted) {
            return Ok(());
        }
        *current = None;
        switch(wanted).map_err(|error| {
            tracing::debug!(uid = wanted.uid, gid = wanted.gid, %error, "identity refused");
            Status::Acces
        })?;
        *current = Some(wanted.clone());
        Ok(())
    })
}

fn switch(to: &Credentials) -> rustix::io::Result<()> {
    let (mut few, mut many) = ([Gid::ROOT; CALL_GROUPS_MAX], Vec::new());
    let groups = match few.get_mut(..to.groups().len()) {
        Some(groups) => groups,
        None => {
            many.resize(to.groups().len(), Gid::ROOT);
            &mut many[..]
        }
    };
    for (slot, group) in groups.iter_mut().zip(to.groups()) {
        *slot = gid(*group)?;
    }
    gid(to.gid)?;
    if to.uid == u32::MAX {
        return Err(rustix::io::Errno::INVAL);
    }
    // The C library's setgroups would change all threads; this is the system call alone.
    rustix::thread::set_thread_groups(groups)?;
    sys::set_thread_file_identity(Uid::from_raw(to.uid).as_raw(), to.gid)
}

/// A group for the kernel. All bits set means "no change" to the kernel, and is refused.
fn gid(raw: u32) -> rustix::io::Result<Gid> {
    if raw == u32::MAX {
        return Err(rustix::io::Errno::INVAL);
    }
    Ok(Gid::from_raw(raw))
}

/// Gives new files of this thread exactly the mode of the call, because NFS clients apply their own mask. False when a
/// sandbox forbids it; the caller then corrects the mode afterwards.
pub(crate) fn has_empty_umask() -> bool {
    UMASK.with(|known| {
        known.get().unwrap_or_else(|| {
            let cleared = sys::clear_thread_umask();
            if let Err(error) = cleared {
                tracing::debug!(%error, "no file creation mask of this thread's own");
            }
            known.set(Some(cleared.is_ok()));
            cleared.is_ok()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overflow_user_is_nobody_where_the_map_lacks_it() {
        let overflow = || "65000\n".to_owned();
        let all = "         0          0 4294967295\n";
        assert_eq!(unmapped_user_of(all, overflow), None);
        for some in ["", "0 1000 1\n", "0 1000 1\n1 100000 64999\n", "x y z\n"] {
            assert_eq!(unmapped_user_of(some, overflow), Some(65_000), "{some}");
            assert_eq!(unmapped_user_of(some, String::new), Some(65_534), "{some}");
        }
        // Anonymous callers own what they make, as in the usual container of an unprivileged user.
        for with_it in ["0 0 65536\n", "0 1000 1\n1 100000 65536\n"] {
            assert_eq!(unmapped_user_of(with_it, overflow), None, "{with_it}");
            assert_eq!(unmapped_user_of(with_it, String::new), None, "{with_it}");
        }
    }
}
