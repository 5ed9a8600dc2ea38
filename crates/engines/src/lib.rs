//! Engines of several machines that keep the journal of a volume: [`gannet_meta::Engine`] over their protocols.

mod etcd;

pub use etcd::{Etcd, EtcdAddressError};
