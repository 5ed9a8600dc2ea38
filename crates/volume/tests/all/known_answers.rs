//! Bytes of messages between clients and the manager: peers of other builds send and expect the same.

use gannet_vfs::{AccessMask, CreateMode, Credentials, NodeKind, SetAttributes, SetTime, Time};
use gannet_volume::calls::{Appending, Call, FileState, Found, Granted, Listed, Page, Ticket};
use gannet_volume::meta::{Body, Chosen, FileId, Inode, ROOT, Stripes};
use gannet_wire::volume::{Capability, LayoutRecord};
use gannet_wire::xdr::{Encode, Encoder};

fn time(seconds: u32) -> Time {
    Time {
        seconds,
        nanoseconds: 0x0a0b_0c0d,
    }
}

fn change() -> SetAttributes {
    SetAttributes {
        mode: Some(0o640),
        uid: None,
        gid: Some(5),
        size: Some(1 << 40),
        access_time: SetTime::Now,
        modify_time: SetTime::To(time(0xfedc_ba98)),
    }
}

fn entry(name: &[u8]) -> (FileId, Vec<u8>) {
    (FileId(0x0102_0304_0506_0708), name.to_vec())
}

fn stripes(on: Chosen) -> Stripes {
    Stripes { unit: 65536, on }
}

/// One of each operation, and of each way to say something in it.
fn calls() -> Vec<Call> {
    let file = FileId(7);
    let unchecked = CreateMode::Unchecked(SetAttributes::default());
    let listed = stripes(Chosen::Listed(vec![3, 0, 2]));
    vec![
        Call::Getattr(file),
        Call::Setattr(file, change(), Some(time(7))),
        Call::Setattr(file, SetAttributes::default(), None),
        Call::Lookup(entry(b"name")),
        Call::Access(file, AccessMask(0x3f)),
        Call::Readlink(file),
        Call::Create(entry(b"a"), unchecked),
        Call::Create(entry(b"ab"), CreateMode::Guarded(change())),
        Call::Create(entry(b"abc"), CreateMode::Exclusive(*b"verifier")),
        Call::Mkdir(entry(b"name"), change()),
        Call::Symlink(entry(b"name"), b"target".to_vec(), change()),
        Call::Mknod(entry(b"n"), NodeKind::BlockDevice(8, 1), change()),
        Call::Mknod(entry(b"n"), NodeKind::CharacterDevice(8, 1), change()),
        Call::Mknod(entry(b"n"), NodeKind::Socket, change()),
        Call::Mknod(entry(b"n"), NodeKind::Fifo, change()),
        Call::Remove(entry(b"name")),
        Call::Rmdir(entry(b"name")),
        Call::Rename(entry(b"from"), entry(b"to")),
        Call::Link(file, entry(b"name")),
        Call::Readdirplus(file, 9, true),
        Call::Stripes(file, None),
        Call::Stripes(file, Some(stripes(Chosen::InTurn(2)))),
        Call::Stripes(file, Some(stripes(Chosen::From { first: 1, width: 2 }))),
        Call::Layout(file, Capability::WRITE),
        Call::Files(file),
        Call::Orphans(3, true, vec![FileId(4), FileId(5)]),
        Call::CreateStriped(entry(b"name"), change(), listed),
        Call::GiveBack(file, 9),
        Call::Append(file, 2, 3, 4),
    ]
}

fn layout() -> LayoutRecord {
    LayoutRecord {
        unit: 65536,
        servers: vec![2, 0, 1],
    }
}

fn found(body: Body) -> Found {
    let is_regular = matches!(body, Body::Regular { .. });
    let inode = Inode {
        mode: 0o640,
        uid: 10,
        gid: 20,
        links: 1,
        access_time: time(1),
        modify_time: time(2),
        change_time: time(3),
        body,
    };
    let state = FileState {
        size: 1 << 40,
        used: 4096,
        written: time(4),
    };
    Found {
        id: FileId(7),
        inode,
        state: is_regular.then_some(state),
    }
}

/// One of each kind of file.
fn files() -> Vec<Found> {
    let regular = |written| Body::Regular {
        layout: layout(),
        verifier: *b"verifier",
        written,
    };
    let directory = |stripes| Body::Directory {
        parent: ROOT,
        entries: 4,
        next_cookie: 9,
        stripes,
    };
    let bodies = [
        regular(None),
        regular(Some(time(5))),
        directory(None),
        directory(Some(stripes(Chosen::Listed(vec![3, 0])))),
        Body::Symlink(b"target".to_vec()),
        Body::Node(NodeKind::BlockDevice(8, 1)),
        Body::Node(NodeKind::CharacterDevice(1, 3)),
        Body::Node(NodeKind::Socket),
        Body::Node(NodeKind::Fifo),
    ];
    bodies.into_iter().map(found).collect()
}

fn granted() -> Granted {
    Granted {
        capability: Capability {
            file: 7,
            rights: Capability::READ,
            expires: 1_800_000_000,
            term: 3,
            proof: *b"0123456789abcdef",
        },
        number: 8,
        layout: layout(),
    }
}

fn page() -> Page {
    let listed = |name: &[u8], found| Listed {
        name: name.to_vec(),
        cookie: 9,
        id: FileId(7),
        found,
    };
    let mut files = files();
    Page {
        directory: files.remove(2),
        entries: vec![listed(b"one", None), listed(b"other", files.pop())],
        complete: true,
    }
}

fn encoded(value: &impl Encode) -> Vec<u8> {
    let mut out = Vec::new();
    value.encode(&mut Encoder::new(&mut out));
    out
}

/// Everything above, one item a line, in hexadecimal digits.
fn lines() -> String {
    let caller = Credentials::new(1, 2, &[3, 4]);
    let ticket = Ticket {
        client: *b"fedcba9876543210",
        slot: 3,
        sequence: 1 << 40,
    };
    let mut items = Vec::new();
    for call in calls() {
        let name = format!("{:?}", call.operation());
        items.push((name, call.to_body(&caller, &ticket)));
    }
    items.extend(files().iter().map(|it| ("found".to_owned(), encoded(it))));
    items.push(("granted".to_owned(), encoded(&granted())));
    let appending = Appending {
        granted: granted(),
        offset: 10,
    };
    items.push(("appending".to_owned(), encoded(&appending)));
    items.push(("page".to_owned(), encoded(&page())));
    let line = |(name, bytes): (String, Vec<u8>)| {
        let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
        format!("{name} {}\n", digits.collect::<String>())
    };
    items.into_iter().map(line).collect()
}

#[test]
fn messages_keep_their_bytes() {
    let expected = include_str!("known_answers.txt");
    let lines = lines();
    assert_eq!(lines.lines().count(), expected.lines().count());
    for (line, expected) in lines.lines().zip(expected.lines()) {
        assert_eq!(line, expected);
    }
}
