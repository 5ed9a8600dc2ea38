//! A volume that a client's machine has mounted, by either protocol.

use gannet_fuse::headless::{Headless, Named, Opened};
use gannet_nfs::client::NfsFs;
use gannet_vfs::Stability;
use gannet_volume::client::VolumeFs;
use std::io;

/// A mounted volume of a client's machine. Its functions are those of [`Headless`].
pub(in super::super) enum Mount {
    /// A mount by the volume's own protocol.
    Volume(Headless<VolumeFs>),
    /// A mount by NFS, from a server that is a client of the volume.
    Export(Headless<NfsFs>),
}

/// Evaluates an expression for either kind of mount.
macro_rules! either {
    ($mount:expr, $it:ident => $done:expr) => {
        match $mount {
            Mount::Volume($it) => $done,
            Mount::Export($it) => $done,
        }
    };
}

impl Mount {
    pub(super) async fn lookup(&self, parent: u64, name: &[u8], process: usize) -> io::Result<u64> {
        either!(self, it => it.lookup(parent, name, process as u32).await)
    }

    pub(super) async fn stat(
        &self,
        parent: u64,
        name: &[u8],
        process: usize,
    ) -> io::Result<(u64, u64)> {
        either!(self, it => it.stat(parent, name, process as u32).await)
    }

    pub(super) async fn size(&self, file: Opened) -> io::Result<u64> {
        either!(self, it => it.size(file).await)
    }

    pub(super) fn forget(&self, number: u64, lookups: u64) {
        either!(self, it => it.forget(number, lookups));
    }

    pub(super) async fn create(&self, parent: u64, name: &[u8]) -> io::Result<Opened> {
        either!(self, it => it.create(parent, name).await)
    }

    pub(super) async fn open(&self, number: u64, process: usize) -> io::Result<Opened> {
        either!(self, it => it.open(number, process as u32).await)
    }

    pub(super) async fn read(&self, file: Opened, offset: u64, count: u32) -> io::Result<Vec<u8>> {
        either!(self, it => it.read(file, offset, count).await)
    }

    pub(super) async fn write(
        &self,
        file: Opened,
        offset: u64,
        bytes: &[u8],
        stability: Stability,
    ) -> io::Result<()> {
        either!(self, it => it.write(file, offset, bytes, stability).await)
    }

    pub(super) async fn lock(
        &self,
        file: Opened,
        process: usize,
        is_wanted: bool,
    ) -> io::Result<()> {
        either!(self, it => it.lock(file, process as u32, is_wanted).await)
    }

    pub(super) async fn sync(&self, file: Opened) -> io::Result<()> {
        either!(self, it => it.sync(file).await)
    }

    pub(super) async fn release(&self, file: Opened) {
        either!(self, it => it.release(file).await);
    }

    pub(super) async fn truncate(&self, file: Opened, size: u64) -> io::Result<()> {
        either!(self, it => it.truncate(file, size).await)
    }

    pub(super) async fn list(&self, number: u64, portion_max: usize) -> io::Result<Vec<Named>> {
        either!(self, it => it.list(number, portion_max).await)
    }

    pub(super) async fn remove(&self, parent: u64, name: &[u8]) -> io::Result<()> {
        either!(self, it => it.remove(parent, name).await)
    }

    pub(super) async fn rename(
        &self,
        parent: u64,
        name: &[u8],
        new_parent: u64,
        new_name: &[u8],
    ) -> io::Result<()> {
        either!(self, it => it.rename(parent, name, new_parent, new_name).await)
    }
}
