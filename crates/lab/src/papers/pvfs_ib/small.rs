//! Section 6.5: small transfers.

use super::super::laboratory::Laboratory;
use super::super::row::{LEAST_DIFFERENCE, Shown, Table};
use super::super::{Failure, Figure, Series};
use super::line;
use crate::experiment::volume::{Access, Load};
use gannet_volume::client::TransferPolicy;
use std::time::Duration;

const SIZES: [u32; 10] = [
    128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536,
];

/// Three of [`SIZES`], for short runs.
const FEW: [u32; 3] = [128, 4096, 65_536];

/// The share from which a difference is material.
const MATERIAL: f64 = 0.15;

/// Sizes up to which data may travel in the message.
const INLINE_MAX: f64 = 4096.0;

fn load(len: usize, writes: bool, policy: TransferPolicy, registered: bool) -> Load {
    Load {
        io_nodes: 1,
        writes,
        access: Access::Contiguous(len as u32),
        policy,
        registered,
        // Fast RDMA buffers are made by the first transfer that asks for one.
        warm_up: 20,
        time: Duration::from_millis(10),
        ..Load::default()
    }
}

/// All data travels in the message.
const INLINE: TransferPolicy = TransferPolicy {
    inline_max: u32::MAX,
    eager_max: 0,
    client_driven: false,
};

/// All data travels through Fast RDMA buffers.
const FAST: TransferPolicy = TransferPolicy {
    inline_max: 0,
    eager_max: u32::MAX,
    client_driven: false,
};

/// The server moves all data.
const SERVER_BASED: TransferPolicy = TransferPolicy {
    inline_max: 0,
    eager_max: 0,
    client_driven: false,
};

struct Schemes {
    inline: Series,
    fast_hit: Series,
    fast_miss: Series,
    server_hit: Series,
    server_miss: Series,
}

pub(super) fn run(
    laboratory: &mut Laboratory<'_>,
    table: &mut Table,
) -> Result<Vec<Figure>, Failure> {
    let writes = schemes(laboratory, true)?;
    rows(table, &writes, "write");
    let reads = schemes(laboratory, false)?;
    rows(table, &reads, "read");
    let figure = |file, title: &str, schemes: Schemes| {
        let Schemes {
            inline,
            fast_hit,
            fast_miss,
            server_hit,
            server_miss,
        } = schemes;
        Figure {
            file,
            title: title.to_string(),
            x: "bytes",
            y: "us",
            series: vec![inline, fast_hit, fast_miss, server_hit, server_miss],
        }
    };
    Ok(vec![
        figure(
            "pvfs-ib-small-writes",
            "Time of a small write by scheme and hits in the pin-down cache (figure 11)",
            writes,
        ),
        figure(
            "pvfs-ib-small-reads",
            "Time of a small read by scheme and hits in the pin-down cache",
            reads,
        ),
    ])
}

fn schemes(laboratory: &mut Laboratory<'_>, writes: bool) -> Result<Schemes, Failure> {
    let all: &[u32] = if laboratory.is_short() { &FEW } else { &SIZES };
    let inline_sizes: Vec<u32> = all
        .iter()
        .copied()
        .filter(|size| f64::from(*size) <= INLINE_MAX)
        .collect();
    let mut of = |name: &str, sizes: &[u32], policy, registered| {
        let load = |len| load(len, writes, policy, registered);
        line(laboratory, name, sizes, load, |outcome| {
            outcome.latency_ns / 1e3
        })
    };
    Ok(Schemes {
        inline: of("inline", &inline_sizes, INLINE, false)?,
        fast_hit: of("Fast RDMA, all hits", all, FAST, true)?,
        fast_miss: of("Fast RDMA, no hit", all, FAST, false)?,
        server_hit: of("server-based, all hits", all, SERVER_BASED, true)?,
        server_miss: of("server-based, no hit", all, SERVER_BASED, false)?,
    })
}

/// The greatest of one line's values as a share of another's, where both have one.
fn most(one: &Series, other: &Series) -> f64 {
    let pairs = one.points.iter().filter_map(|one| {
        let other = other
            .points
            .iter()
            .find(|other| (other.0 - one.0).abs() < 0.5);
        other.map(|other| (one, other))
    });
    pairs
        .map(|(one, other)| one.1 / other.1)
        .fold(0.0, f64::max)
}

fn rows(table: &mut Table, schemes: &Schemes, name: &str) {
    let Schemes {
        inline,
        fast_hit,
        fast_miss,
        server_hit,
        server_miss,
    } = schemes;
    let hits = most(fast_hit, server_hit);
    table.ahead(
        &format!(
            "6.5: small {name}s, Fast RDMA over server-based, all hits, most of 128 B to 64 KiB"
        ),
        "Fast RDMA best",
        Shown::new("times", hits),
        LEAST_DIFFERENCE,
        &[1.0 / hits.max(0.01)],
        match name {
            "read" => {
                "Of reads the paper has no figure. Memory that servers write is registered for each \
                 request, so the server-based way has no hits here."
            }
            _ => "",
        },
    );
    let misses = most(fast_miss, server_miss);
    table.ahead(
        &format!(
            "6.5: small {name}s, Fast RDMA over server-based, no hits, most of 128 B to 64 KiB"
        ),
        "server-based without hits worst",
        Shown::new("times", misses),
        LEAST_DIFFERENCE,
        &[
            1.0 / misses.max(0.01),
            1.0 / most(server_hit, server_miss).max(0.01),
        ],
        "",
    );
    let (below, above) = (most(inline, fast_miss), most(fast_miss, inline));
    table.same(
        &format!("6.5: small {name}s up to 4 KiB, inline over Fast RDMA, no hits, most"),
        "no material difference",
        MATERIAL,
        if below > above { below } else { 1.0 / above },
        "",
    );
}
