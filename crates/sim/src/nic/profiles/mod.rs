//! The testbeds of the papers.

mod opensolaris;

pub use opensolaris::OPENSOLARIS;

use super::Profile;

/// All of them.
pub const ALL: &[&Profile] = &[&OPENSOLARIS];
