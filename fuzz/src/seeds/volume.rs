//! Seeds of the volume protocol: one of each kind, as our own ends make them.

use gannet_wire::volume::{
    Accepted, AccessMask, Address, AttributeChanges, AttributeRecord, AttributeReferences, Body,
    Call, Caller, Capability, Chosen, ClaimRecord, Class, ClientBuffer, ClientDrivenDone, Copies,
    CreateMode, DeviceNumbers, Entry, FileAttributes, FileId, FileKind, FileLayout, FilePage,
    FileState, Found, Granted, GroupRecord, Hello, Inode, Kind, LayoutRecord, Level, Listed,
    Memory, MessageHeader, NodeKind, ObjectEntry, ObjectId, ObjectPage, ObjectPosition,
    ObjectRange, ObjectState, ObjectStates, Operation, OrphanStatus, OrphanStatuses, Page, Piece,
    Placement, ROOT, Referenced, Role, SetTimestamp, Settled, Shape, SlotSequence, Stability,
    StateAnswer, Stripes, Term, TermAnswer, TermCall, TermStage, Timestamp, Transfer, TransferDone,
    VolumeRecord,
};
use gannet_wire::xdr::{Encode, Encoder};

/// Target, kind and bytes of each.
pub(super) fn by_hand() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let hello = Hello {
        role: Role::Client,
        server: Hello::io_server(2),
        volume: [1; 16],
        nonce: [2; 16],
        credits: 32,
    };
    let accepted = Accepted {
        volume: [1; 16],
        nonce: [3; 16],
        proof: [4; 16],
        credits: 32,
    };
    let mut seeds = vec![
        ("volume_hello", "hello", hello.to_bytes().to_vec()),
        ("volume_hello", "accepted", accepted.to_bytes().to_vec()),
        ("volume_records", "layout", bytes_of(&layout())),
        ("volume_records", "tile", bytes_of(&tile())),
    ];
    seeds.push(("volume_records", "attributes", record()));
    seeds.extend(inodes().map(|inode| ("volume_records", "inode", bytes_of(&inode))));
    let caller = Caller::new(1, 2, &[3, 4]);
    for (name, call) in calls() {
        let body = call.to_body(&caller, &SlotSequence::default());
        let message = message(Kind::Request, call.operation(), &body);
        seeds.push(("volume_message", name, message));
    }
    for (name, kind, operation, body) in bodies() {
        seeds.push(("volume_message", name, message(kind, operation, &body)));
    }
    seeds
}

fn bytes_of(value: &impl Encode) -> Vec<u8> {
    let mut out = Vec::new();
    value.encode(&mut Encoder::new(&mut out));
    out
}

fn message(kind: Kind, operation: Operation, body: &[u8]) -> Vec<u8> {
    let header = MessageHeader {
        kind,
        operation,
        class: Class::Small,
        status: Ok(()),
        credits: 32,
        id: 7,
        term: 3,
        body_len: u32::try_from(body.len()).unwrap_or(u32::MAX),
        data_len: 0,
    };
    [&header.to_bytes()[..], body].concat()
}

fn layout() -> LayoutRecord {
    LayoutRecord {
        unit: 65536,
        groups: vec![1, 2, 0],
    }
}

fn row() -> Piece {
    Piece {
        offset: 3072,
        len: 100,
    }
}

fn tile() -> Shape {
    let rows = Level {
        count: 9,
        stride: 12288,
    };
    Shape::nested(row(), vec![rows]).unwrap_or_else(|_| unreachable!("nine rows are a shape"))
}

fn list() -> Shape {
    Shape::list(vec![row(); 9]).unwrap_or_else(|_| unreachable!("nine pieces are a shape"))
}

fn inodes() -> impl Iterator<Item = Inode> {
    let directory = |on| Body::Directory {
        parent: ROOT,
        entries: 4,
        next_cookie: 9,
        stripes: Some(Stripes {
            unit: 4096,
            on,
            copies: Some(Copies::Two),
        }),
    };
    let file = Body::Regular {
        layout: layout(),
        verifier: *b"verifier",
        written: Some(Timestamp::default()),
        settled: Some(Settled {
            state: FileState::default(),
            term: 3,
        }),
    };
    let link = Body::Symlink(b"to".to_vec());
    let first = directory(Chosen::From { first: 1, width: 2 });
    let listed = directory(Chosen::Listed(vec![2, 0, 1]));
    [first, listed, file, link].into_iter().map(|body| Inode {
        mode: 0o644,
        uid: 1,
        gid: 2,
        links: 1,
        access_time: Timestamp::default(),
        modify_time: Timestamp::default(),
        change_time: Timestamp::default(),
        body,
    })
}

fn entry() -> Entry {
    Entry {
        directory: ROOT,
        name: b"name".to_vec(),
    }
}

fn calls() -> Vec<(&'static str, Call)> {
    let change = AttributeChanges {
        mode: Some(0o640),
        size: Some(1 << 20),
        modify_time: SetTimestamp::To(Timestamp::default()),
        ..AttributeChanges::default()
    };
    let listed = Stripes {
        unit: 65536,
        on: Chosen::Listed(vec![3, 0, 2]),
        copies: None,
    };
    vec![
        (
            "rename",
            Call::Rename {
                from: entry(),
                to: entry(),
            },
        ),
        (
            "create",
            Call::Create {
                entry: entry(),
                mode: CreateMode::Unchecked(change),
            },
        ),
        (
            "mknod",
            Call::Mknod {
                entry: entry(),
                kind: NodeKind::BlockDevice(DeviceNumbers { major: 8, minor: 1 }),
                attributes: change,
            },
        ),
        (
            "access",
            Call::Access {
                file: FileId(7),
                wanted: AccessMask(0x3f),
            },
        ),
        ("files", Call::Files { from: FileId(7) }),
        (
            "stripes",
            Call::Stripes {
                directory: ROOT,
                stripes: Some(listed.clone()),
            },
        ),
        (
            "create-striped",
            Call::CreateStriped {
                entry: entry(),
                attributes: change,
                stripes: listed,
            },
        ),
        (
            "orphans",
            Call::Orphans {
                server: 1,
                remove: true,
                objects: [7, 8].map(|file| ObjectId { group: 5, file }).to_vec(),
            },
        ),
    ]
}

type Seed = (&'static str, Kind, Operation, Vec<u8>);

fn bodies() -> Vec<Seed> {
    let (mut bodies, reply) = (io_servers(), Kind::Reply);
    let granted = Granted {
        capability: capability(),
        number: 3,
        layout: layout(),
    };
    let granted = bytes_of(&granted);
    bodies.push(("granted", reply, Operation::Layout, granted));
    bodies.push(("page", reply, Operation::Readdirplus, page()));
    bodies
}

fn capability() -> Capability {
    Capability {
        file: 7,
        rights: Capability::READ,
        expires: 1_800_000_000,
        term: 3,
        proof: [9; 16],
    }
}

fn record() -> Vec<u8> {
    let attributes = FileAttributes {
        kind: FileKind::Regular,
        mode: 0o644,
        links: 1,
        uid: 1,
        gid: 2,
        major: 0,
        minor: 0,
        size: 1 << 20,
        used: 4096,
        access_time: Timestamp::default(),
        modify_time: Timestamp::default(),
        change_time: Timestamp::default(),
        change_id: 9,
    };
    let record = AttributeRecord::Inode {
        file: FileId(7),
        attributes,
        written: Some(Timestamp::default()),
    };
    record.to_bytes(4).to_vec()
}

fn page() -> Vec<u8> {
    let found = |inode| Found {
        id: FileId(7),
        inode,
        state: Some(FileState::default()),
    };
    let entries = inodes().map(|inode| Listed {
        name: b"name".to_vec(),
        cookie: 9,
        id: FileId(7),
        found: Some(found(inode)),
    });
    let page = inodes().next().map(|directory| Page {
        directory: found(directory),
        entries: entries.collect(),
        complete: true,
    });
    let references = AttributeReferences {
        key: 5,
        offset: 1 << 40,
        access_key: 6,
        slots: vec![Some(7), None],
    };
    let referenced = page.map(|answer| Referenced {
        answer,
        references: Some(references),
    });
    referenced.map_or(Vec::new(), |page| bytes_of(&page))
}

fn volume() -> VolumeRecord {
    VolumeRecord {
        name: String::from("data"),
        unit: 65536,
        width: 0,
        count: 2,
        group_count: 8,
        servers: vec![Address::default()],
        groups: vec![GroupRecord::of(1); 2],
    }
}

fn transfer() -> Transfer {
    Transfer {
        group: 3,
        capability: capability(),
        placement: Placement {
            unit: 65536,
            width: 4,
            index: 3,
        },
        stability: Stability::FileSync,
        wants_reference: false,
        file: tile(),
        memory: Memory::Region {
            key: 5,
            shape: list(),
        },
    }
}

fn io_servers() -> Vec<Seed> {
    let transfer = transfer();
    let state = ObjectState {
        size: 1,
        used: 4096,
        modified: Timestamp {
            seconds: -2,
            nanoseconds: 3,
        },
        version: 5,
        verifier: 4,
    };
    let range = ObjectRange {
        group: 3,
        capability: capability(),
        size: 10,
    };
    let done = TransferDone {
        count: 900,
        state,
        reference: None,
    };
    let known = StateAnswer {
        outcome: Ok(()),
        state,
    };
    let states = ObjectStates {
        states: vec![known; 3],
    };
    let (objects, files, statuses) = inventory();
    let (ask, reply) = (Kind::Request, Kind::Reply);
    let mut seeds = vec![
        ("write", ask, Operation::Write, bytes_of(&transfer)),
        ("truncate", ask, Operation::Truncate, bytes_of(&range)),
        ("read-done", reply, Operation::Read, bytes_of(&done)),
        ("states", reply, Operation::States, bytes_of(&states)),
        ("objects", reply, Operation::Objects, bytes_of(&objects)),
        ("files-page", reply, Operation::Files, bytes_of(&files)),
        ("standings", reply, Operation::Orphans, bytes_of(&statuses)),
        ("volume", reply, Operation::Volume, bytes_of(&volume())),
    ];
    seeds.extend(client_driven(&transfer, done, &range));
    seeds.extend(terms());
    seeds
}

/// A transfer by a client-driven buffer, and how that is opened and closed.
fn client_driven(transfer: &Transfer, done: TransferDone, range: &ObjectRange) -> Vec<Seed> {
    let by_client = Transfer {
        memory: Memory::ClientDriven { number: 3 },
        ..transfer.clone()
    };
    let buffer = ClientBuffer {
        number: 4,
        key: 5,
        offset: 1 << 40,
        len: 256 << 10,
    };
    let buffer_done = ClientDrivenDone {
        done,
        buffer: Some(buffer),
    };
    let (ask, reply) = (Kind::Request, Kind::Reply);
    vec![
        ("write-lent", ask, Operation::Write, bytes_of(&by_client)),
        ("lend", ask, Operation::OpenBuffer, bytes_of(range)),
        (
            "lent",
            reply,
            Operation::OpenBuffer,
            bytes_of(&Some(buffer)),
        ),
        (
            "write-lent-done",
            reply,
            Operation::Write,
            bytes_of(&buffer_done),
        ),
        (
            "return",
            ask,
            Operation::CloseBuffer,
            bytes_of(&buffer.number),
        ),
    ]
}

/// Messages of a manager and its I/O servers about earlier terms.
fn terms() -> Vec<Seed> {
    let claim = ClaimRecord {
        number: 3,
        is_lost: true,
    };
    let term = TermCall {
        stage: TermStage::Hold,
        term: Term {
            number: 3,
            token: [4; 16],
        },
        change: 5,
    };
    let known = TermAnswer {
        accepted: true,
        known: term.term,
        change: term.change,
    };
    let (ask, reply) = (Kind::Request, Kind::Reply);
    vec![
        ("claim", ask, Operation::Claim, bytes_of(&claim)),
        ("term", ask, Operation::Term, bytes_of(&term)),
        ("term-known", reply, Operation::Term, bytes_of(&known)),
    ]
}

fn inventory() -> (ObjectPage, FilePage, OrphanStatuses) {
    let next = ObjectPosition {
        folder: 7,
        cookie: 8,
        verifier: 9,
    };
    let objects = ObjectPage {
        next,
        foreign_files: 1,
        lost_below: 6,
        objects: vec![
            ObjectEntry {
                object: ObjectId { group: 3, file: 7 },
                size: 10
            };
            3
        ],
    };
    let files = FilePage {
        complete: false,
        files: vec![
            FileLayout {
                file: 7,
                layout: layout(),
            },
            FileLayout {
                file: 9,
                layout: layout(),
            },
        ],
    };
    let statuses = OrphanStatuses {
        statuses: vec![
            OrphanStatus::Orphan,
            OrphanStatus::Gone,
            OrphanStatus::Named,
        ],
    };
    (objects, files, statuses)
}
