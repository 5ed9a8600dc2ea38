//! Mounts of a volume without a kernel.

use gannet_dst::volume::Bed;
use gannet_fuse::headless::Headless;
use gannet_fuse::limits::KeptBounds;
use gannet_fuse::{Caching, Closing, Locks, MountOptions};
use gannet_sim::Node;
use gannet_vfs::Vfs;
use gannet_volume::client::VolumeFs;
use std::time::Duration;

pub(crate) const CACHE_AGE: Duration = Duration::from_secs(1);

pub(crate) fn mount(bed: &Bed, node: &Node) -> Headless<VolumeFs> {
    let fs = bed.mount(node);
    let root = fs.root();
    let options = MountOptions {
        source: String::from("volume"),
        caching: Caching::Cached,
        read_only: false,
        no_exec: false,
        allow_other: false,
        caller: None,
        cache_age: CACHE_AGE,
        locks: Locks::Shared,
        closing: Closing::Sync,
        deadline: Duration::from_secs(60),
    };
    Headless::new(&node.runtime(), fs, root, options, KeptBounds::default())
}
