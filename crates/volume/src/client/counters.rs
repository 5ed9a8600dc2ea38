//! Everything that a client of a volume counts, for readers of metrics.

use super::file_system::AttributeCounters;
use super::pin_down::PinDownCounters;
use super::references::{OptimisticCounters, References};
use super::servers::Servers;
use gannet_metrics::{Exposition, Family, Kind, Label};
use std::cell::Cell;
use std::ops::Add;
use std::rc::Rc;
use std::time::Duration;

/// The counters of a client of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClientCounters {
    /// Counters of optimistic reads, of cached blocks and of references.
    pub reads: OptimisticCounters,
    /// Counters of attribute references.
    pub attributes: AttributeCounters,
    /// Counters of memory registration for transfers.
    pub memory: PinDownCounters,
    /// Bytes that were copied to and from messages, and buffers that both ends keep registered.
    pub copied_bytes: u64,
    /// Connections to servers that were made again after a loss.
    pub reconnects: u64,
}

impl Add for ClientCounters {
    type Output = ClientCounters;

    fn add(self, other: ClientCounters) -> ClientCounters {
        ClientCounters {
            reads: self.reads + other.reads,
            attributes: self.attributes + other.attributes,
            memory: self.memory + other.memory,
            copied_bytes: self.copied_bytes + other.copied_bytes,
            reconnects: self.reconnects + other.reconnects,
        }
    }
}

/// Looks at the counters of a client, on its core.
#[derive(Clone)]
pub struct ClientWatch {
    pub(super) references: Rc<References>,
    pub(super) attributes: Rc<Cell<AttributeCounters>>,
    pub(super) memory: Rc<Cell<PinDownCounters>>,
    pub(super) copied: Rc<Cell<u64>>,
    pub(super) servers: Rc<Servers>,
}

impl ClientWatch {
    /// The present counters.
    pub fn counters(&self) -> ClientCounters {
        ClientCounters {
            reads: self.references.counters(),
            attributes: self.attributes.get(),
            memory: self.memory.get(),
            copied_bytes: self.copied.get(),
            reconnects: self.servers.reconnects(),
        }
    }

    /// How long no manager has answered the question that each look puts; `None` while one does.
    pub fn manager_silent_for(&self) -> Option<Duration> {
        self.servers.manager_silent_for()
    }
}

/// A value of a label, and its number.
type Sample = (&'static str, fn(&ClientCounters) -> u64);

/// A family whose samples have one label.
struct Row {
    family: Family,
    label: &'static str,
    samples: &'static [Sample],
}

const fn row(
    kind: Kind,
    name: &'static str,
    help: &'static str,
    label: &'static str,
    samples: &'static [Sample],
) -> Row {
    Row {
        family: Family { name, help, kind },
        label,
        samples,
    }
}

const ROWS: [Row; 14] = [
    row(
        Kind::Counter,
        "gannet_volume_client_optimistic_reads",
        "Reads of servers' memory without a call.",
        "",
        &[("", |all| all.reads.reads)],
    ),
    row(
        Kind::Counter,
        "gannet_volume_client_refused_reads",
        "Such reads that a server refused; a call followed.",
        "reason",
        &[
            ("bounds", |all| all.reads.refused_bounds),
            ("key", |all| all.reads.refused_keys),
            ("residence", |all| {
                let others = all.reads.refused_bounds + all.reads.refused_keys;
                all.reads.refused.saturating_sub(others)
            }),
        ],
    ),
    row(
        Kind::Counter,
        "gannet_volume_client_lookups",
        "Lookups of blocks in the client's memory, by the entry that they found.",
        "found",
        &[
            ("data", |all| all.reads.memory.cache_hits),
            ("nothing", |all| all.reads.memory.misses),
            ("reference", |all| all.reads.memory.references_found),
        ],
    ),
    row(
        Kind::Counter,
        "gannet_volume_client_stale_references",
        "References to blocks that a server refused.",
        "",
        &[("", |all| all.reads.memory.stale_hits)],
    ),
    row(
        Kind::Counter,
        "gannet_volume_client_evictions",
        "Entries of the client's memory that made room for others.",
        "kind",
        &[
            ("data", |all| all.reads.memory.data_evictions),
            ("reference", |all| all.reads.memory.reference_evictions),
        ],
    ),
    row(
        Kind::Gauge,
        "gannet_volume_client_memory_bytes",
        "Bytes of cached blocks and of references.",
        "kind",
        &[
            ("data", |all| all.reads.memory.data_bytes),
            ("reference", |all| all.reads.memory.reference_bytes),
        ],
    ),
    row(
        Kind::Gauge,
        "gannet_volume_client_referenced_objects",
        "Objects of I/O servers whose references are known.",
        "",
        &[("", |all| all.reads.objects)],
    ),
    row(
        Kind::Counter,
        "gannet_volume_client_policy_switches",
        "Decisions to read by calls from now on, or by references again.",
        "to",
        &[
            ("calls", |all| all.reads.policy.switches_off),
            ("references", |all| all.reads.policy.switches_on),
        ],
    ),
    row(
        Kind::Counter,
        "gannet_volume_client_policy_probes",
        "Trials whether reads by references pay again.",
        "",
        &[("", |all| all.reads.policy.probings)],
    ),
    row(
        Kind::Counter,
        "gannet_volume_client_attribute_reads",
        "Reads of attribute records in the manager's memory, by their results.",
        "result",
        &[
            ("hit", |all| all.attributes.hits),
            ("stale", |all| all.attributes.stale),
            ("torn", |all| all.attributes.torn),
        ],
    ),
    row(
        Kind::Counter,
        "gannet_volume_client_registrations",
        "Transfers for which memory was registered, or found registered.",
        "result",
        &[
            ("hit", |all| all.memory.hits),
            ("made", |all| all.memory.registrations),
        ],
    ),
    row(
        Kind::Counter,
        "gannet_volume_client_registered_bytes",
        "Bytes of memory registered for transfers.",
        "",
        &[("", |all| all.memory.registered_bytes)],
    ),
    row(
        Kind::Counter,
        "gannet_volume_client_copied_bytes",
        "Bytes copied to and from messages and buffers that stay registered.",
        "",
        &[("", |all| all.copied_bytes)],
    ),
    row(
        Kind::Counter,
        "gannet_volume_client_reconnects",
        "Connections to servers that were made again after a loss.",
        "",
        &[("", |all| all.reconnects)],
    ),
];

impl ClientCounters {
    /// Adds the counters to what a reader gets.
    pub fn collect(&self, into: &mut Exposition) {
        for row in &ROWS {
            for (value, number) in row.samples {
                let label = Label::word(row.label, value);
                let labels = if row.label.is_empty() {
                    &[][..]
                } else {
                    std::slice::from_ref(&label)
                };
                into.number(&row.family, labels, number(self));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_refused_for_one_reason_each() {
        let counters = ClientCounters {
            reads: OptimisticCounters {
                refused: 6,
                refused_keys: 2,
                refused_bounds: 1,
                ..OptimisticCounters::default()
            },
            ..ClientCounters::default()
        };
        let mut read = Exposition::default();
        (counters + ClientCounters::default()).collect(&mut read);
        let text = read.into_text();
        for (reason, count) in [("bounds", 1), ("key", 2), ("residence", 3)] {
            let family = "gannet_volume_client_refused_reads_total";
            let sample = format!("{family}{{reason=\"{reason}\"}} {count}");
            assert!(text.contains(&sample), "{sample}: {text}");
        }
    }
}
