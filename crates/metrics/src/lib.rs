//! What servers and clients count, and how it is read while they work.
//!
//! A core has counters of its own ([`Counter`], [`Gauge`], [`Latency`]). An update is an atomic addition to memory
//! that no other core writes, without a lock or an allocation. A [`Source`] has such counters. A reader asks all
//! sources of a [`Registry`] and gets an [`Exposition`], which adds up what has the same name and labels.
//!
//! Names and units follow Prometheus: `gannet_` first, base units (seconds, bytes), the unit last. Label values are
//! fixed words or small numbers, never addresses or paths: the number of series has a bound that no peer can raise.

mod busy;
mod clients;
mod exposition;
mod numbers;
mod parts;
mod pools;
mod slow;
mod text;

pub use busy::{Busy, BusyFile, BusyList, FILES_MAX, Operation};
pub use clients::{CLIENTS_MAX, ClientConnection, ClientList, ClientReading, Clients, Reach, Work};
pub use exposition::{
    Exposition, Family, Kind, Label, LabelValue, Labels, Registry, Source, Value,
};
pub use numbers::{Counter, Gauge, LATENCY_BOUNDS, Latency, LatencyReading};
pub use parts::PartCounters;
pub use pools::Pools;
pub use slow::{Noted, SLOW_MAX, SlowOperation, SlowOperations, UNLOGGED};
