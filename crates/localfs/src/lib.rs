//! The store that serves a directory of a Linux machine.
//!
//! [`LocalTree`] is the directory with everything the cores share: the key of the handles, open descriptors, known
//! names, listings. It is made once. [`LocalStore`] is one core's front of it and implements [`gannet_vfs::Vfs`].
//!
//! **Handles** name inodes, not paths, and carry a keyed MAC. As root they hold the kernel's own file handle
//! (open_by_handle_at(2)). Otherwise they hold the inode's number and time of birth, and a table of places, filled
//! by everything seen, leads back to it; after a restart a search of the tree fills it again. See `handle`,
//! `resolve`, `places`.
//!
//! **Nothing leaves the tree**: every name is opened with openat2(2) beneath its directory, never through a symbolic
//! link, never into another mount. A directory reached by handle must lie below the root, and is checked again every
//! few seconds while it is used.
//!
//! **Subvolumes of btrfs** are in the tree, because they share its mount. Their inodes have equal numbers: attributes
//! tell them apart by `fsid`, and the store by numbers and handles of its own (see `handle`).
//!
//! **The kernel decides** what a caller may do. As root, operations run with the caller's file system identity,
//! per thread (see `identity`), and root that may not take it on does not start. The kernel's answers for open
//! descriptors are remembered while the inode's change time stays the same (see `access`). Not as root, everything
//! happens as the server's user.
//!
//! **Accepted writes are kept**, or their loss shows in the write verifier, whatever the caches close (see `sync`).
//! Changes of names and attributes are durable before they are answered; those under way share a sync (see `durable`,
//! `group_commit`).
//!
//! **No core waits**: operations that descriptors and caches can answer are answered at once; all others go to the
//! blocking pool, changes through short queues so that a burst of them costs one visit (see `lanes`).
//!
//! This crate refuses protocols and exports: it serves one directory to any caller. Only programs that compose a
//! server, and tests, may name it; all others take any [`gannet_vfs::Vfs`].
//!
//! First type to read: [`LocalStore`].

mod access;
mod attributes;
mod change;
mod clock_map;
mod counters;
mod descriptors;
mod durable;
mod group_commit;
mod handle;
mod identity;
mod key;
mod lanes;
mod largest_file;
pub mod limits;
mod listing;
mod listing_build;
mod lookup;
mod namespace;
mod object;
mod open;
mod places;
mod resolve;
mod snapshots;
mod store;
mod sync;
mod sys;
mod tree;

pub use counters::TreeCounters;
pub use descriptors::descriptors_each;
pub use identity::own_credentials;
pub use object::file_source;
pub use open::{HandleScheme, LocalOptions, OpenError, survive_file_size_limit};
pub use store::LocalStore;
pub use tree::LocalTree;
