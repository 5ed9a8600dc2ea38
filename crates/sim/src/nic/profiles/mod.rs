//! The testbeds of the papers.

mod linux;
mod opensolaris;
mod sandia;
mod tcp;

pub use linux::LINUX;
pub use opensolaris::OPENSOLARIS;
pub use sandia::{SANDIA_IB, SANDIA_IB_UD, SANDIA_IWARP, SANDIA_TOE};

use super::Profile;

/// All of them.
pub const ALL: &[&Profile] = &[
    &OPENSOLARIS,
    &LINUX,
    &SANDIA_IB,
    &SANDIA_IB_UD,
    &SANDIA_IWARP,
    &SANDIA_TOE,
];
