//! Bytes of messages between clients and the manager: peers of other builds send and expect the same.

use gannet_wire::volume::{
    AccessAnswer, AccessMask, Appending, AttributeChanges, AttributeReferences, BODY_MAX, Body,
    Call, CallRecord, Caller, Capability, Chosen, CopiesWanted, CreateMode, DeviceNumbers, Entry,
    FILE_NAME_MAX, FileId, FileState, Found, FoundFiles, Granted, Inode, LayoutRecord, Listed,
    ManagersWanted, NodeKind, ObjectId, Operation, Page, ROOT, Referenced, RequestId, SLOTS_MAX,
    SYMLINK_MAX, SetTimestamp, SlotSequence, StaleGroups, Stripes, Timestamp, WIDTH_MAX,
};
use gannet_wire::xdr::{from_bytes, to_bytes};

fn time(seconds: i64) -> Timestamp {
    Timestamp {
        seconds,
        nanoseconds: 0x0a0b_0c0d,
    }
}

fn change() -> AttributeChanges {
    AttributeChanges {
        mode: Some(0o640),
        uid: None,
        gid: Some(5),
        size: Some(1 << 40),
        access_time: SetTimestamp::Now,
        modify_time: SetTimestamp::To(time(-0x0123_4567_89ab)),
    }
}

fn entry(name: &[u8]) -> Entry {
    Entry {
        directory: FileId(0x0102_0304_0506_0708),
        name: name.to_vec(),
    }
}

fn stripes(on: Chosen) -> Stripes {
    Stripes {
        unit: 65536,
        on,
        copies: None,
    }
}

/// One of each operation, and of each way to say something in it.
fn calls() -> Vec<Call> {
    let file = FileId(7);
    let unchecked = CreateMode::Unchecked(AttributeChanges::default());
    let listed = stripes(Chosen::Listed(vec![3, 0, 2]));
    vec![
        Call::Getattr {
            file,
            wants_references: true,
        },
        Call::Setattr {
            file,
            attributes: change(),
            guard: Some(time(7)),
        },
        Call::Setattr {
            file,
            attributes: AttributeChanges::default(),
            guard: None,
        },
        Call::Lookup {
            entry: entry(b"name"),
            wants_references: true,
        },
        Call::Access {
            file,
            wanted: AccessMask(0x3f),
        },
        Call::Readlink { file },
        Call::Create {
            entry: entry(b"a"),
            mode: unchecked,
        },
        Call::Create {
            entry: entry(b"ab"),
            mode: CreateMode::Guarded(change()),
        },
        Call::Create {
            entry: entry(b"abc"),
            mode: CreateMode::Exclusive(*b"verifier"),
        },
        Call::Mkdir {
            entry: entry(b"name"),
            attributes: change(),
        },
        Call::Symlink {
            entry: entry(b"name"),
            text: b"target".to_vec(),
            attributes: change(),
        },
        Call::Mknod {
            entry: entry(b"n"),
            kind: NodeKind::BlockDevice(DeviceNumbers { major: 8, minor: 1 }),
            attributes: change(),
        },
        Call::Mknod {
            entry: entry(b"n"),
            kind: NodeKind::CharacterDevice(DeviceNumbers { major: 8, minor: 1 }),
            attributes: change(),
        },
        Call::Mknod {
            entry: entry(b"n"),
            kind: NodeKind::Socket,
            attributes: change(),
        },
        Call::Mknod {
            entry: entry(b"n"),
            kind: NodeKind::Fifo,
            attributes: change(),
        },
        Call::Remove {
            entry: entry(b"name"),
        },
        Call::Rmdir {
            entry: entry(b"name"),
        },
        Call::Rename {
            from: entry(b"from"),
            to: entry(b"to"),
        },
        Call::Link {
            file,
            entry: entry(b"name"),
        },
        Call::Readdirplus {
            directory: file,
            cookie: 9,
            wants_files: true,
            wants_references: false,
        },
        Call::Stripes {
            directory: file,
            stripes: None,
        },
        Call::Stripes {
            directory: file,
            stripes: Some(stripes(Chosen::InTurn(2))),
        },
        Call::Stripes {
            directory: file,
            stripes: Some(stripes(Chosen::From { first: 1, width: 2 })),
        },
        Call::Layout {
            file,
            rights: Capability::WRITE,
        },
        Call::Files { from: file },
        Call::Managers {
            wanted: ManagersWanted { ended: 7 },
        },
        Call::StaleGroups {
            accept: StaleGroups { groups: vec![7] },
        },
        Call::Copies {
            wanted: CopiesWanted {
                copies: 2,
                same_host: true,
                min_copies: 2,
            },
        },
        Call::Orphans {
            server: 3,
            remove: true,
            objects: [4, 5].map(|file| ObjectId { group: 1, file }).to_vec(),
        },
        Call::CreateStriped {
            entry: entry(b"name"),
            attributes: change(),
            stripes: listed,
        },
        Call::GiveBack { file, number: 9 },
        Call::Append {
            file,
            number: 2,
            at_least: 3,
            len: 4,
        },
    ]
}

fn layout() -> LayoutRecord {
    LayoutRecord {
        unit: 65536,
        groups: vec![2, 0, 1],
    }
}

fn found(body: Body) -> Found {
    let is_regular = matches!(body, Body::Regular { .. });
    let inode = Inode {
        mode: 0o640,
        uid: 10,
        gid: 20,
        links: 1,
        access_time: time(0x0001_0203_0405),
        modify_time: time(2),
        change_time: time(3),
        body,
    };
    let state = FileState {
        size: 1 << 40,
        used: 4096,
        written: time(4),
        version: 0x1122_3344_5566_7788,
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
        settled: None,
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
        Body::Node(NodeKind::BlockDevice(DeviceNumbers { major: 8, minor: 1 })),
        Body::Node(NodeKind::CharacterDevice(DeviceNumbers {
            major: 1,
            minor: 3,
        })),
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

fn referenced() -> Referenced<Page> {
    Referenced {
        answer: page(),
        references: Some(AttributeReferences {
            key: 0x0102_0304,
            offset: 0x0102_0304_0506_0708,
            access_key: 0x1122_3344_5566_7788,
            slots: vec![Some(9), None, Some(0)],
        }),
    }
}

fn slot_sequence() -> SlotSequence {
    SlotSequence {
        client: *b"fedcba9876543210",
        slot: 3,
        sequence: 1 << 40,
    }
}

fn request() -> RequestId {
    RequestId {
        client: *b"0123456789abcdef",
        xid: 0x0102_0304,
    }
}

/// Everything above, one item a line, in hexadecimal digits.
fn lines() -> String {
    let (caller, slot_sequence) = (Caller::new(1, 2, &[3, 4]), slot_sequence());
    let mut items = Vec::new();
    for call in calls() {
        let name = format!("{:?}", call.operation());
        items.push((name, call.to_body(&caller, &slot_sequence)));
    }
    items.extend(files().iter().map(|it| ("found".to_owned(), to_bytes(it))));
    items.push(("granted".to_owned(), to_bytes(&granted())));
    let appending = Appending {
        granted: granted(),
        offset: 10,
    };
    items.push(("appending".to_owned(), to_bytes(&appending)));
    items.push(("request".to_owned(), to_bytes(&request())));
    items.push(("page".to_owned(), to_bytes(&page())));
    items.push(("referenced".to_owned(), to_bytes(&referenced())));
    let line = |(name, bytes): (String, Vec<u8>)| {
        let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
        format!("{name} {}\n", digits.collect::<String>())
    };
    items.into_iter().map(line).collect()
}

#[test]
fn messages_keep_their_bytes() {
    let expected = include_str!("volume_messages.txt");
    let lines = lines();
    assert_eq!(lines.lines().count(), expected.lines().count());
    for (line, expected) in lines.lines().zip(expected.lines()) {
        assert_eq!(line, expected);
    }
}

#[test]
fn calls_come_back_as_they_went_in() {
    let caller = Caller::new(1, 2, &[3, 4]);
    for call in calls() {
        let body = call.to_body(&caller, &slot_sequence());
        let back = Call::from_body(call.operation(), &body);
        let slot_sequence = if call.is_change() {
            slot_sequence()
        } else {
            SlotSequence::default()
        };
        let mut asked = CallRecord {
            caller,
            slot_sequence,
            call: call.clone(),
            request: None,
        };
        assert_eq!(back.as_ref(), Ok(&asked));
        for len in 0..body.len() {
            assert!(Call::from_body(call.operation(), &body[..len]).is_err());
        }
        // An NFS server says which call it asks for: of a change alone.
        let behind = request().behind(&body);
        let back = Call::from_body(call.operation(), &behind);
        asked.request = Some(request());
        assert_eq!(back.is_ok_and(|it| it == asked), call.is_change());
        for len in body.len() + 1..behind.len() {
            assert!(Call::from_body(call.operation(), &behind[..len]).is_err());
        }
    }
}

/// Beside the longest names, in the directories whose stripes take most.
#[test]
fn the_longest_symbolic_link_fits_a_message_of_each_kind() {
    let text = vec![b't'; SYMLINK_MAX];
    let name = [b'n'; FILE_NAME_MAX];
    let call = Call::Symlink {
        entry: entry(&name),
        // One more is refused by the manager, with words.
        text: [&text[..], b"t"].concat(),
        attributes: change(),
    };
    let caller = Caller::new(1, 2, &[7; 16]);
    let asked = request().behind(&call.to_body(&caller, &slot_sequence()));
    assert!(asked.len() <= BODY_MAX);
    let back = Call::from_body(Operation::Symlink, &asked);
    assert_eq!(back.unwrap().call, call);
    let servers = (0..WIDTH_MAX as u32).collect();
    let directory = found(Body::Directory {
        parent: ROOT,
        entries: 4,
        next_cookie: 9,
        stripes: Some(stripes(Chosen::Listed(servers))),
    });
    let link = found(Body::Symlink(text));
    let page = Page {
        directory: directory.clone(),
        entries: vec![Listed {
            name: name.to_vec(),
            cookie: 9,
            id: FileId(7),
            found: Some(link.clone()),
        }],
        complete: true,
    };
    assert!(to_bytes(&page).len() + AttributeReferences::encoded_len(SLOTS_MAX) <= BODY_MAX);
    let found = FoundFiles {
        files: vec![link, directory],
    };
    let granted = AccessMask(0x3f);
    let answer = to_bytes(&AccessAnswer { granted, found });
    assert!(answer.len() <= BODY_MAX);
}

#[test]
fn answers_come_back_as_they_went_in() {
    for found in files() {
        assert_eq!(from_bytes(&to_bytes(&found)), Ok(found));
    }
    assert_eq!(from_bytes(&to_bytes(&granted())), Ok(granted()));
    assert_eq!(from_bytes(&to_bytes(&page())), Ok(page()));
    assert_eq!(from_bytes(&to_bytes(&referenced())), Ok(referenced()));
}
