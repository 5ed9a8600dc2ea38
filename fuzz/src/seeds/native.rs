//! Seeds of requests to the servers of a volume: each operation as its own peers ask for it.

use crate::native::{FILES, KEY, NUMBER, Peer, Step, UNIT};
use gannet_wire::volume::{
    AccessMask, AttributeChanges, Call, Caller, Capability, Chosen, ClaimRecord, Copies,
    CreateMode, Entry, FileId, LockAction, LockKind, LockRecord, LockRequest, Memory, NodeKind,
    ObjectId, ObjectList, ObjectPosition, ObjectRange, ObjectRight, Operation, Placement,
    ReferenceRequest, RegisterRecord, SetTimestamp, Shape, SlotSequence, Stability, Stripes, Term,
    TermCall, TermStage, Timestamp, Token, Transfer, VolumeRequest,
};
use gannet_wire::xdr::{Encode, to_bytes};

const ROOT: u64 = 0;
const FILE: u64 = 1;
const DIRECTORY: u64 = 2;
const LINK: u64 = 3;

/// A file of those that are there.
fn number(place: u64) -> FileId {
    FileId(u64::from(NUMBER) << 32 | place)
}

fn entry(directory: u64, name: &[u8]) -> Entry {
    Entry {
        directory: number(directory),
        name: name.to_vec(),
    }
}

fn capability() -> Capability {
    Capability {
        file: number(FILE).0,
        rights: Capability::READ | Capability::WRITE,
        expires: u64::from(u32::MAX),
        term: 1,
        proof: Token::default(),
    }
}

fn ask(call: &Call, sequence: u64) -> Step {
    let slot = SlotSequence {
        sequence,
        ..SlotSequence::default()
    };
    let body = call.to_body(&Caller::new(0, 0, &[]), &slot);
    Step::of_bytes(Peer::ClientOfManager, call.operation(), body)
}

fn encoded(steps: &[Step]) -> Vec<u8> {
    steps.iter().flat_map(Step::encoded).collect()
}

/// Target, kind and bytes of each.
pub(super) fn by_hand() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let groups = [
        ("looks", looks()),
        ("changes", changes()),
        ("stripes", stripes()),
        ("grants", grants()),
        ("locks", locks()),
        ("transfers", transfers()),
        ("client-driven", client_driven()),
        ("inventory", inventory()),
    ];
    let together: Vec<Step> = groups.iter().flat_map(|(_, steps)| steps.clone()).collect();
    let mut seeds = Vec::new();
    for (kind, steps) in groups {
        seeds.push(("native_server", kind, encoded(&steps)));
    }
    // None waits for another.
    let at_once = together.into_iter().map(|step| Step {
        waits: false,
        ..step
    });
    let at_once: Vec<Step> = at_once.collect();
    seeds.push(("native_server", "at-once", encoded(&at_once)));
    seeds.push(("native_peer", "manager", encoded(&of_manager())));
    seeds.push(("native_peer", "io-server", encoded(&of_io_server())));
    seeds.push(("native_peer", "client", encoded(&transfers())));
    seeds
}

fn looks() -> Vec<Step> {
    let wants_references = true;
    let calls = [
        Call::Getattr {
            file: number(FILE),
            wants_references,
        },
        Call::Lookup {
            entry: entry(ROOT, FILES[1]),
            wants_references,
        },
        Call::Access {
            file: number(FILE),
            wanted: AccessMask(0x3f),
        },
        Call::Readlink { file: number(LINK) },
        Call::Readdirplus {
            directory: number(ROOT),
            cookie: 0,
            wants_files: true,
            wants_references,
        },
    ];
    calls.iter().map(|call| ask(call, 0)).collect()
}

fn changes() -> Vec<Step> {
    let plain = AttributeChanges::default();
    let cut = AttributeChanges {
        size: Some(5),
        mode: Some(0o4755),
        modify_time: SetTimestamp::To(Timestamp::default()),
        ..plain
    };
    let calls = [
        Call::Create {
            entry: entry(DIRECTORY, b"new"),
            mode: CreateMode::Guarded(plain),
        },
        Call::Mkdir {
            entry: entry(DIRECTORY, b"inner"),
            attributes: plain,
        },
        Call::Symlink {
            entry: entry(ROOT, b"symlink"),
            text: b"text".to_vec(),
            attributes: plain,
        },
        Call::Mknod {
            entry: entry(ROOT, b"fifo"),
            kind: NodeKind::Fifo,
            attributes: plain,
        },
        Call::Setattr {
            file: number(FILE),
            attributes: cut,
            guard: None,
        },
        Call::Link {
            file: number(FILE),
            entry: entry(DIRECTORY, b"hard link"),
        },
        Call::Rename {
            from: entry(DIRECTORY, b"inner"),
            to: entry(ROOT, b"moved"),
        },
        Call::Rmdir {
            entry: entry(ROOT, b"moved"),
        },
        Call::Remove {
            entry: entry(DIRECTORY, b"new"),
        },
        Call::Remove {
            entry: entry(ROOT, FILES[1]),
        },
    ];
    let numbered = calls.iter().zip(1..);
    numbered
        .map(|(call, sequence)| ask(call, sequence))
        .collect()
}

fn stripes() -> Vec<Step> {
    let chosen = |on| Stripes {
        unit: UNIT,
        on,
        copies: Some(Copies::Two),
    };
    let calls = [
        Call::Stripes {
            directory: number(DIRECTORY),
            stripes: Some(chosen(Chosen::Listed(vec![1, 0]))),
        },
        Call::CreateStriped {
            entry: entry(DIRECTORY, b"striped"),
            attributes: AttributeChanges::default(),
            stripes: chosen(Chosen::From { first: 1, width: 1 }),
        },
        Call::Stripes {
            directory: number(DIRECTORY),
            stripes: None,
        },
    ];
    let numbered = calls.iter().zip(1..);
    numbered
        .map(|(call, sequence)| ask(call, sequence))
        .collect()
}

fn grants() -> Vec<Step> {
    let file = number(FILE);
    let calls = [
        Call::Layout { file, rights: 3 },
        Call::Append {
            file,
            number: 1,
            at_least: 0,
            len: 300,
        },
        Call::GiveBack { file, number: 1 },
    ];
    let mut steps: Vec<Step> = calls.iter().map(|call| ask(call, 0)).collect();
    let (peer, volume) = (Peer::ClientOfManager, Operation::Volume);
    steps.push(Step::new(peer, volume, &VolumeRequest::default()));
    steps
}

fn locks() -> Vec<Step> {
    let request = |action, owner| {
        let request = LockRequest {
            caller: Caller::new(0, 0, &[]),
            file: number(FILE).0,
            action,
            lock: LockRecord {
                owner,
                kind: LockKind::Exclusive,
                start: 5,
                end: 500,
                process: 1,
            },
        };
        Step::new(Peer::ClientOfManager, Operation::Lock, &request)
    };
    let renewal = Step::of_bytes(Peer::ClientOfManager, Operation::RenewLocks, Vec::new());
    vec![
        request(LockAction::Try, 1),
        request(LockAction::Test, 2),
        request(LockAction::Wait, 2),
        renewal,
        request(LockAction::Unlock, 1),
        request(LockAction::Reclaim, 1),
    ]
}

fn transfer(file: Shape, memory: Memory) -> Transfer {
    Transfer {
        group: 0,
        capability: capability(),
        placement: Placement {
            unit: UNIT,
            width: 2,
            index: 0,
        },
        stability: Stability::FileSync,
        wants_reference: true,
        file,
        memory,
    }
}

fn object(file: FileId) -> ObjectId {
    ObjectId {
        group: 0,
        file: file.0,
    }
}

fn contiguous(len: u32) -> Shape {
    Shape::contiguous(0, len).unwrap_or_else(|_| unreachable!("a short shape"))
}

fn of_client(operation: Operation, body: &impl Encode) -> Step {
    Step::new(Peer::ClientOfIoServer, operation, body)
}

fn transfers() -> Vec<Step> {
    let (short, long) = (contiguous(64), contiguous(3 * UNIT));
    let there = |shape| Memory::Region { key: KEY, shape };
    let inline = transfer(short.clone(), Memory::Inline);
    let written = Step {
        data: vec![1; 64],
        ..of_client(Operation::Write, &inline)
    };
    let by_region = transfer(long.clone(), there(long));
    let range = ObjectRange {
        group: 0,
        capability: capability(),
        size: 10,
    };
    let references = ReferenceRequest {
        objects: vec![
            ObjectRight {
                group: 0,
                capability: capability()
            };
            2
        ],
    };
    vec![
        written,
        of_client(Operation::Read, &inline),
        of_client(Operation::Write, &by_region),
        of_client(Operation::Read, &by_region),
        of_client(Operation::Commit, &range),
        of_client(Operation::References, &references),
        of_client(Operation::Read, &transfer(short, Memory::Eager { slot: 0 })),
    ]
}

fn client_driven() -> Vec<Step> {
    let range = ObjectRange {
        group: 0,
        capability: capability(),
        size: u64::from(4 * UNIT),
    };
    let by_client = |number| transfer(contiguous(4 * UNIT), Memory::ClientDriven { number });
    vec![
        of_client(Operation::OpenBuffer, &range),
        of_client(Operation::Write, &by_client(1)),
        of_client(Operation::Read, &by_client(0)),
        of_client(Operation::CloseBuffer, &1_u64),
        of_client(Operation::CloseBuffer, &2_u64),
    ]
}

fn inventory() -> Vec<Step> {
    let position = ObjectPosition {
        folder: 0,
        cookie: 0,
        verifier: 0,
    };
    vec![
        of_client(Operation::Objects, &position),
        Step::of_bytes(Peer::ClientOfIoServer, Operation::Usage, Vec::new()),
        ask(&Call::Files { from: FileId(0) }, 0),
        ask(
            &Call::Orphans {
                server: 0,
                remove: true,
                objects: vec![object(number(FILE)), object(FileId(8))],
            },
            0,
        ),
    ]
}

fn of_manager() -> Vec<Step> {
    let term = |stage, number| {
        let term = TermCall {
            stage,
            term: Term {
                number,
                token: [1; 16],
            },
            change: 1,
        };
        Step::new(Peer::Manager, Operation::Term, &term)
    };
    let objects = ObjectList {
        objects: vec![object(number(FILE)), object(FileId(9))],
    };
    let range = ObjectRange {
        group: 0,
        capability: capability(),
        size: 10,
    };
    vec![
        term(TermStage::Ask, 0),
        term(TermStage::Propose, 2),
        term(TermStage::Hold, 2),
        Step::new(Peer::Manager, Operation::States, &objects),
        Step::new(Peer::Manager, Operation::Truncate, &range),
        Step::new(Peer::Manager, Operation::Revoke, &range),
        Step::new(Peer::Manager, Operation::Unlink, &range),
    ]
}

fn of_io_server() -> Vec<Step> {
    let claim = ClaimRecord {
        number: 0,
        is_lost: true,
    };
    let registration = RegisterRecord {
        number: 1,
        address: gannet_wire::volume::Address {
            host: "10.0.0.9".to_owned(),
            port: 1,
        },
    };
    vec![
        Step::new(Peer::IoServer, Operation::Claim, &claim),
        Step::of_bytes(Peer::IoServer, Operation::Register, to_bytes(&registration)),
    ]
}
