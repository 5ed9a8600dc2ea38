//! The cells of the table.

use gannet_cli::cli::BenchOp;

const KIB: u32 = 1 << 10;
const MIB: u32 = 1 << 20;

/// A cell of the table: an operation, and how many of it at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    /// Its name on the command line and in tables.
    pub(crate) name: &'static str,
    pub(super) op: BenchOp,
    /// Bytes of a READ or WRITE; 0 for other operations.
    pub(super) record: u32,
    pub(super) connections: u16,
    /// Operations in flight on each connection.
    pub(super) in_flight: u16,
}

impl Cell {
    const fn new(name: &'static str, op: BenchOp, record: u32) -> Cell {
        Cell {
            name,
            op,
            record,
            connections: 1,
            in_flight: 1,
        }
    }

    const fn in_flight(self, in_flight: u16) -> Cell {
        Cell { in_flight, ..self }
    }

    const fn connections(self, connections: u16) -> Cell {
        Cell {
            connections,
            ..self
        }
    }

    /// Whether it reads a file.
    pub(super) fn is_read(&self) -> bool {
        matches!(self.op, BenchOp::Read | BenchOp::Randread)
    }

    /// The unit of its rate, and the number of those units in an operation.
    pub(super) fn unit(&self, names: u32) -> (&'static str, f64) {
        match self.op {
            BenchOp::List => ("names/s", f64::from(names)),
            _ if self.record >= MIB => ("MB/s", f64::from(self.record) / 1e6),
            _ => ("/s", 1.0),
        }
    }
}

/// All cells, in the order in which they are measured.
pub(crate) const CELLS: [Cell; 15] = [
    Cell::new("null-x1", BenchOp::Null, 0),
    Cell::new("null-x32", BenchOp::Null, 0).in_flight(32),
    Cell::new("getattr-x1", BenchOp::Stat, 0),
    Cell::new("getattr-x32", BenchOp::Stat, 0).in_flight(32),
    Cell::new("getattr-64conn", BenchOp::Stat, 0).connections(64),
    Cell::new("lookup-x32", BenchOp::Lookup, 0).in_flight(32),
    Cell::new("readdirplus", BenchOp::List, 0),
    Cell::new("rand4k-x1", BenchOp::Randread, 4 * KIB),
    Cell::new("rand4k-x32", BenchOp::Randread, 4 * KIB).in_flight(32),
    Cell::new("rand4k-64conn", BenchOp::Randread, 4 * KIB).connections(64),
    Cell::new("read1m-x1", BenchOp::Read, MIB),
    Cell::new("read1m-x16", BenchOp::Read, MIB).in_flight(16),
    Cell::new("write1m-x16", BenchOp::Write, MIB).in_flight(16),
    Cell::new("write4k-x32", BenchOp::Write, 4 * KIB).in_flight(32),
    Cell::new("create-x32", BenchOp::Create, 0).in_flight(32),
];
