//! The testbeds of the papers.

mod linux;
mod odafs;
mod opensolaris;
mod pvfs;
mod sandia;
mod sendfile;
mod tcp;

pub use linux::LINUX;
pub use odafs::{ODAFS_50, ODAFS_100};
pub use opensolaris::OPENSOLARIS;
pub use pvfs::{PVFS_IB, PVFS_IB_DISK};
pub use sandia::{SANDIA_IB, SANDIA_IB_UD, SANDIA_IWARP, SANDIA_TOE};
pub use sendfile::{SENDFILE_IB, SENDFILE_IB_2X, SENDFILE_IB_4X};

use gannet_sim::nic::Profile;

/// The profiles on which any load runs. The machines of Optimistic DAFS are not among them: costs that its paper leaves
/// out are 0 there.
pub const ALL: &[&Profile] = &[
    &OPENSOLARIS,
    &LINUX,
    &PVFS_IB,
    &PVFS_IB_DISK,
    &SANDIA_IB,
    &SANDIA_IB_UD,
    &SANDIA_IWARP,
    &SANDIA_TOE,
    &SENDFILE_IB,
    &SENDFILE_IB_2X,
    &SENDFILE_IB_4X,
];
