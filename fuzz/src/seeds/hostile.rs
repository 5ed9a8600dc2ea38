//! Seeds of lying servers, of damaged metadata, of shapes, and of files that people write.

use crate::hostile::edits::{
    CLOSE, DROP, INSERT, OVERWRITE, REPEAT, REPLACE, SAME, TRUNCATE, WORD,
};
use gannet_wire::volume::{
    Capability, Level, Memory, Piece, Placement, Shape, Stability, Transfer,
};
use gannet_wire::xdr::to_bytes;

type Seed = (&'static str, &'static str, Vec<u8>);

/// Target, kind and bytes of each.
pub(super) fn by_hand() -> Vec<Seed> {
    let mut seeds = Vec::new();
    for target in ["nfs_client_tcp", "nfs_client_rdma", "native_client"] {
        seeds.extend(edits().map(|(kind, edits)| (target, kind, edits)));
    }
    seeds.extend(shapes().map(|(kind, body)| ("volume_shapes", kind, body)));
    seeds.extend(metadata());
    seeds.extend(files());
    // Agreed without more: the startup frame of an accepting side, and a message.
    let startup = crate::exceptions::startup(gannet_wire::mpa::FrameKind::Reply);
    seeds.push(("iwarp_initiator", "accepted", startup));
    seeds
}

fn edits() -> [(&'static str, Vec<u8>); 8] {
    [
        ("honest", vec![0xff]),
        ("early-word", vec![2, WORD, 6, 0, 0, 0, 5]),
        ("late-word", vec![12, WORD, 11, 0x7f, 0xff, 0xff, 0xff]),
        ("shorter", vec![8, TRUNCATE, 0, 60, 3, TRUNCATE, 0, 44]),
        ("longer", vec![9, INSERT, 0, 64, 4, 1, 2, 3, 4]),
        ("dropped", vec![10, DROP, 4, REPEAT]),
        ("closed", vec![7, CLOSE, 20, CLOSE]),
        (
            "several",
            [
                &[6, OVERWRITE, 0, 50, 1, 1, 1][..],
                &[0, SAME | WORD, 9, 0, 0, 0, 1],
                &[5, REPLACE, 0, 1, 0],
            ]
            .concat(),
        ),
    ]
}

fn shapes() -> [(&'static str, Vec<u8>); 3] {
    let shape = |first, levels| {
        let shape = Shape::nested(first, levels);
        shape.unwrap_or_else(|_| unreachable!("within the bounds"))
    };
    let body = |file: Shape, memory, unit| {
        to_bytes(&Transfer {
            group: 0,
            capability: Capability {
                file: 7,
                rights: 3,
                expires: 1,
                term: 1,
                proof: [0; 16],
            },
            placement: Placement {
                unit,
                width: 3,
                index: 1,
            },
            stability: Stability::Unstable,
            wants_reference: false,
            file,
            memory,
        })
    };
    let far = Piece {
        offset: 1 << 40,
        len: 10_000,
    };
    let byte = Piece { offset: 0, len: 1 };
    let level = |count, stride| Level { count, stride };
    let tile = shape(far, vec![level(9, 12_288), level(3, 1 << 20)]);
    // The most pieces that there may be, on both sides.
    let million = shape(byte, vec![level(1 << 10, 2), level(1 << 10, 5000)]);
    let region = |shape| Memory::Region { key: 5, shape };
    [
        ("tile", body(tile.clone(), region(tile), 4096)),
        ("million", body(million.clone(), region(million), 4096)),
        (
            "inline",
            body(shape(far, Vec::new()), Memory::Inline, 65_536),
        ),
    ]
}

fn metadata() -> Vec<Seed> {
    let change = |at: u32, bytes: &[u8]| {
        let [_, a0, a1, a2] = at.to_be_bytes();
        let [l0, l1] = (bytes.len() as u16).to_be_bytes();
        [&[a0, a1, a2, l0, l1][..], bytes].concat()
    };
    let pair = |table: u8, key: &[u8], value: &[u8]| {
        let [v0, v1] = (value.len() as u16).to_be_bytes();
        [&[table, key.len() as u8, v0, v1][..], key, value].concat()
    };
    let root = 1_u64.to_be_bytes();
    vec![
        ("metadata_file", "whole", Vec::new()),
        ("metadata_file", "header", change(16, &[1])),
        ("metadata_file", "page", change(3 * 4096 + 10, &[0xff; 16])),
        ("metadata_file", "cut", change(8192, &[])),
        ("metadata_records", "whole", Vec::new()),
        ("metadata_records", "no-root", pair(0, &root, &[])),
        (
            "metadata_records",
            "name",
            pair(1, &[&root[..], b"x"].concat(), &[0; 16]),
        ),
        ("metadata_records", "pending", pair(3, &root, &[0, 0, 0, 1])),
        ("metadata_records", "volume", pair(5, b"next file", &[1])),
    ]
}

fn files() -> Vec<Seed> {
    let volume = "format = 2\nname = \"v\"\nidentity = \"abababababababababababababababab\"\n\
        dscp = \"metadata=24,data=10\"\n[manager]\naddress = \"[::1]:20050\"\n\
        [stripes]\nunit = 65536\nwidth = 1\n\n[[io_server]]\nfolder = \"io/0\"\n\
        [[io_server]]\nfolder = \"/b\"\naddress = \"io1:20051\"\n";
    let key = "# a key\nidentity = \"abababababababababababababababab\"\n\
        key = \"0123456789abcdef0123456789abcdef\"\n";
    vec![
        ("volume_toml", "full", volume.into()),
        ("client_key", "full", key.into()),
    ]
}
