//! Engines that several machines run, for the journal of a volume ([`gannet_meta::Engine`]).

#[cfg(feature = "etcd")]
mod etcd;
mod no_answer;
mod patience;
#[cfg(feature = "postgresql")]
mod postgresql;
mod tls;

#[cfg(feature = "etcd")]
pub use etcd::{Etcd, EtcdPlace};
#[cfg(feature = "postgresql")]
pub use postgresql::{Postgresql, PostgresqlPlace};
pub use tls::{Credentials, EngineTls, TlsError};
