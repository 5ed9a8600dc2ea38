//! NFSv3 and MOUNT, byte for byte: known answers, impossible lengths, and the sizes RPC/RDMA reserves.

use crate::nfs_support;

use gannet_wire::mount3;
use gannet_wire::nfs3::*;
use gannet_wire::nfsacl3;
use gannet_wire::xdr::{Decode, Decoder, XdrError, from_bytes};
use nfs_support::{bytes_of, check, encoded};

const HANDLE: FileHandle<'_> = FileHandle(&[0xaa; 8]);

fn directory_attributes() -> Attributes {
    let at = |seconds| Time {
        seconds,
        nanoseconds: 0,
    };
    Attributes {
        kind: FileType::Directory,
        mode: 0o755,
        link_count: 2,
        uid: 0,
        gid: 0,
        size: 4096,
        used: 4096,
        device: Device::default(),
        fsid: 7,
        fileid: 2,
        access_time: at(1),
        modify_time: at(2),
        change_time: at(3),
    }
}

#[test]
fn mnt_answers_with_a_handle_and_the_flavors() {
    let result: mount3::MntResult<'_> = Ok(mount3::MntOk {
        root: HANDLE,
        flavors: mount3::Flavors::new(&[1]),
    });
    let words = bytes_of("00000000 00000008 aaaaaaaa aaaaaaaa 00000001 00000001");
    check(&result, &words);
}

#[test]
fn lookup_of_a_missing_name_without_attributes() {
    let result: LookupResult<'_> = Err(Failed {
        status: Nfsstat::NOENT,
        body: None,
    });
    check(&result, &bytes_of("00000002 00000000"));
}

#[test]
fn attributes_of_a_directory() {
    let words = bytes_of(
        "00000002 000001ed 00000002 00000000 00000000 \
         00000000 00001000 00000000 00001000 00000000 00000000 \
         00000000 00000007 00000000 00000002 \
         00000001 00000000 00000002 00000000 00000003 00000000",
    );
    assert_eq!(words.len(), Attributes::LEN);
    check(&directory_attributes(), &words);
}

#[test]
fn fsinfo_of_a_server_that_takes_a_mebibyte() {
    let result: FsinfoResult = Ok(FsinfoOk {
        attributes: None,
        read_max: 1 << 20,
        read_preferred: 1 << 20,
        read_multiple: 4096,
        write_max: 1 << 20,
        write_preferred: 1 << 20,
        write_multiple: 4096,
        directory_preferred: 64 << 10,
        file_size_max: (1 << 63) - 1,
        time_delta: Time {
            seconds: 0,
            nanoseconds: 1,
        },
        properties: property::LINK
            | property::SYMLINK
            | property::HOMOGENEOUS
            | property::CANSETTIME,
    });
    let words = bytes_of(
        "00000000 00000000 00100000 00100000 00001000 00100000 00100000 00001000 00010000 \
         7fffffff ffffffff 00000000 00000001 0000001b",
    );
    check(&result, &words);
}

#[test]
fn exclusive_create() {
    let arguments = CreateArgs {
        place: DirectoryName {
            directory: HANDLE,
            name: Name(b"abc"),
        },
        how: CreateHow::Exclusive([1, 2, 3, 4, 5, 6, 7, 8]),
    };
    let words = bytes_of("00000008 aaaaaaaa aaaaaaaa 00000003 61626300 00000002 01020304 05060708");
    check(&arguments, &words);
}

#[test]
fn setattr_of_size_and_modify_time() {
    let arguments = SetattrArgs {
        object: HANDLE,
        change: SetAttributes {
            size: Some(5),
            modify_time: SetTime::Server,
            ..SetAttributes::default()
        },
        guard: None,
    };
    let words = bytes_of(
        "00000008 aaaaaaaa aaaaaaaa 00000000 00000000 00000000 00000001 00000000 00000005 \
         00000000 00000001 00000000",
    );
    check(&arguments, &words);
}

fn place(name: &'static [u8]) -> DirectoryName<'static> {
    DirectoryName {
        directory: HANDLE,
        name: Name(name),
    }
}

/// Arguments whose other tests only read what they wrote: fields that changed places on both sides would pass those.
#[test]
fn arguments_have_the_order_of_the_specification() {
    let other = FileHandle(&[0xbb; 4]);
    let from = "00000008 aaaaaaaa aaaaaaaa 00000001 61000000";
    let to = DirectoryName {
        directory: other,
        name: Name(b"bc"),
    };
    let renamed = RenameArgs {
        from: place(b"a"),
        to,
    };
    let words = format!("{from} 00000004 bbbbbbbb 00000002 62630000");
    check(&renamed, &bytes_of(&words));
    let linked = LinkArgs {
        file: other,
        place: place(b"a"),
    };
    check(&linked, &bytes_of(&format!("00000004 bbbbbbbb {from}")));
    let no_attributes = "00000000 00000000 00000000 00000000 00000000 00000000";
    let symlink = SymlinkArgs {
        place: place(b"a"),
        attributes: SetAttributes::default(),
        target: Path(b"to"),
    };
    let words = format!("{from} {no_attributes} 00000002 746f0000");
    check(&symlink, &bytes_of(&words));
    let (attributes, device) = (SetAttributes::default(), Device { major: 8, minor: 1 });
    let node = MknodArgs {
        place: place(b"a"),
        what: MknodData::BlockDevice { attributes, device },
    };
    let words = format!("{from} 00000003 {no_attributes} 00000008 00000001");
    check(&node, &bytes_of(&words));
    let access = AccessArgs {
        object: other,
        access: 0x1f,
    };
    check(&access, &bytes_of("00000004 bbbbbbbb 0000001f"));
    let listing = ReaddirplusArgs {
        directory: other,
        cookie: 0x0102_0304_0506_0708,
        verifier: [9; 8],
        directory_count: 512,
        max_count: 4096,
    };
    let words = "00000004 bbbbbbbb 01020304 05060708 09090909 09090909 00000200 00001000";
    check(&listing, &bytes_of(words));
}

/// As [`arguments_have_the_order_of_the_specification`].
#[test]
fn results_have_the_order_of_the_specification() {
    let space: FsstatResult = Ok(FsstatOk {
        attributes: None,
        bytes_total: 1,
        bytes_free: 2,
        bytes_available: 3,
        files_total: 4,
        files_free: 5,
        files_available: 6,
        invariant_seconds: 7,
    });
    let words = "00000000 00000000 00000000 00000001 00000000 00000002 00000000 00000003 \
                 00000000 00000004 00000000 00000005 00000000 00000006 00000007";
    check(&space, &bytes_of(words));
    let pathconf: PathconfResult = Ok(PathconfOk {
        attributes: None,
        link_max: 32_000,
        name_max: 255,
        no_truncation: true,
        chown_restricted: true,
        case_insensitive: false,
        case_preserving: true,
    });
    let words = "00000000 00000000 00007d00 000000ff 00000001 00000001 00000000 00000001";
    check(&pathconf, &bytes_of(words));
    let committed: CommitResult = Ok(CommitOk {
        wcc: WccData::default(),
        verifier: *b"GANNET01",
    });
    check(
        &committed,
        &bytes_of("00000000 00000000 00000000 47414e4e 45543031"),
    );
}

#[test]
fn write_result_without_consistency_data() {
    let result: WriteResult = Ok(WriteOk {
        wcc: WccData::default(),
        count: 5,
        committed: Stable::FileSync,
        verifier: *b"GANNET01",
    });
    let words = bytes_of("00000000 00000000 00000000 00000005 00000002 47414e4e 45543031");
    check(&result, &words);
}

#[test]
fn readdir_of_three_names() {
    let entry = |fileid, name, cookie| Entry {
        fileid,
        name: Name(name),
        cookie,
    };
    let entries = [
        entry(2, b".".as_slice(), 1),
        entry(2, b"..", 2),
        entry(9, b"hello", 3),
    ];
    let result: ReaddirResult<'_> = Ok(DirectoryListing {
        attributes: None,
        verifier: [0; 8],
        entries: List::new(&entries),
        eof: true,
    });
    let words = bytes_of(
        "00000000 00000000 00000000 00000000 \
         00000001 00000000 00000002 00000001 2e000000 00000000 00000001 \
         00000001 00000000 00000002 00000002 2e2e0000 00000000 00000002 \
         00000001 00000000 00000009 00000005 68656c6c 6f000000 00000000 00000003 \
         00000000 00000001",
    );
    check(&result, &words);
    let decoded: ReaddirResult<'_> = from_bytes(&words).unwrap();
    let names: Vec<_> = decoded
        .unwrap()
        .entries
        .iter()
        .map(|entry| entry.name.0)
        .collect();
    assert_eq!(names, [b".".as_slice(), b"..", b"hello"]);
}

#[test]
fn readdirplus_of_one_name_without_attributes() {
    let entries = [EntryPlus {
        fileid: 9,
        name: Name(b"hello"),
        cookie: 3,
        attributes: None,
        handle: Some(HANDLE),
    }];
    let result: ReaddirplusResult<'_> = Ok(DirectoryListing {
        attributes: None,
        verifier: [0; 8],
        entries: List::new(&entries),
        eof: true,
    });
    let words = bytes_of(
        "00000000 00000000 00000000 00000000 \
         00000001 00000000 00000009 00000005 68656c6c 6f000000 00000000 00000003 \
         00000000 00000001 00000008 aaaaaaaa aaaaaaaa 00000000 00000001",
    );
    check(&result, &words);
}

#[test]
fn write_arguments_as_the_linux_client_sends_them() {
    // rpc-rdma.md section 1, WRITE of 4096 bytes: what follows the credential and verifier.
    let words = bytes_of(
        "00000020 00010203 04050607 08090a0b 0c0d0e0f 10111213 14151617 18191a1b 1c1d1e1f \
         00000000 00002000 00001000 00000002 00001000",
    );
    let handle: Vec<u8> = (0..32).collect();
    let head = WriteHead {
        file: FileHandle(&handle),
        offset: 8192,
        count: 4096,
        stable: Stable::FileSync,
        length: 4096,
    };
    check(&head, &words);
}

#[test]
fn heads_of_links_end_with_the_length_of_their_text() {
    let result: ReadlinkHeadResult = Ok(ReadlinkHead {
        attributes: None,
        length: 4000,
    });
    check(&result, &bytes_of("00000000 00000000 00000fa0"));

    let arguments = SymlinkHead {
        place: DirectoryName {
            directory: HANDLE,
            name: Name(b"abc"),
        },
        attributes: SetAttributes {
            mode: Some(0o777),
            ..SetAttributes::default()
        },
        length: 4000,
    };
    let words = bytes_of(
        "00000008 aaaaaaaa aaaaaaaa 00000003 61626300 \
         00000001 000001ff 00000000 00000000 00000000 00000000 00000000 00000fa0",
    );
    check(&arguments, &words);
}

#[test]
fn read_and_write_agree_with_their_heads() {
    let read: ReadResult<'_> = Ok(ReadOk {
        attributes: Some(directory_attributes()),
        count: 5,
        eof: true,
        data: b"hello",
    });
    let bytes = encoded(&read);
    let mut decoder = Decoder::new(&bytes);
    let head = ReadHeadResult::decode(&mut decoder).unwrap().unwrap();
    assert_eq!((head.count, head.eof, head.length), (5, true, 5));
    assert_eq!(decoder.remaining(), b"hello\0\0\0");

    let write = WriteArgs {
        file: HANDLE,
        offset: 3,
        count: 5,
        stable: Stable::Unstable,
        data: b"hello",
    };
    let bytes = encoded(&write);
    let mut decoder = Decoder::new(&bytes);
    let head = WriteHead::decode(&mut decoder).unwrap();
    assert_eq!((head.offset, head.count, head.length), (3, 5, 5));
    assert_eq!(decoder.remaining(), b"hello\0\0\0");
}

#[test]
fn an_export_list_names_its_groups() {
    let groups = [
        mount3::HostName(b"10.0.0.0/8"),
        mount3::HostName(b"::1/128"),
    ];
    let exports = [
        mount3::Export {
            path: mount3::DirPath(b"/"),
            groups: List::new(&[]),
        },
        mount3::Export {
            path: mount3::DirPath(b"/data"),
            groups: List::new(&groups),
        },
    ];
    let words = bytes_of(
        "00000001 00000001 2f000000 00000000 \
         00000001 00000005 2f646174 61000000 \
         00000001 0000000a 31302e30 2e302e30 2f380000 \
         00000001 00000007 3a3a312f 31323800 00000000 \
         00000000",
    );
    check(&List::new(&exports), &words);
    let decoded: mount3::ExportResult<'_> = from_bytes(&words).unwrap();
    assert_eq!(
        decoded
            .iter()
            .map(|export| export.groups.iter().count())
            .sum::<usize>(),
        2
    );
}

#[test]
fn access_control_lists_as_linux_sends_them() {
    let words = bytes_of("00000008 01000100 01000000 0000000c");
    let arguments = nfsacl3::GetaclArgs {
        object: FileHandle(&[1, 0, 1, 0, 1, 0, 0, 0]),
        parts: nfsacl3::part::DEFAULT | nfsacl3::part::DEFAULT_COUNT,
    };
    check(&arguments, &words);

    // Four entries of an access list that has five, and no default list.
    let words = bytes_of(
        "00000008 aaaaaaaa aaaaaaaa 00000001 00000005 00000004 \
         00000001 00000000 00000006 00000002 000003e8 00000004 \
         00000004 00000000 00000004 00000010 00000000 00000007 00000000 00000000",
    );
    let arguments: nfsacl3::SetaclArgs<'_> = from_bytes(&words).unwrap();
    check(&arguments, &words);
    assert_eq!(arguments.object, HANDLE);
    assert_eq!(arguments.acls.parts, nfsacl3::part::ACCESS);
    assert_eq!(
        (arguments.acls.access.count, arguments.acls.default.count),
        (5, 0)
    );
    let entries: Vec<_> = arguments.acls.access.entries().collect();
    assert_eq!(entries.len(), 4);
    let user = nfsacl3::AclEntry {
        kind: 2,
        id: 1000,
        rights: 4,
    };
    assert_eq!(entries[1], user);

    let words = bytes_of("00000000 00000000 0000000c 00000000 00000000 00000000 00000000");
    let result: nfsacl3::GetaclResult<'_> = from_bytes(&words).unwrap();
    check(&result, &words);
    let too_many = bytes_of("00000008 aaaaaaaa aaaaaaaa 00000001 00000401 00000401");
    let refused = from_bytes::<nfsacl3::SetaclArgs<'_>>(&too_many);
    assert_eq!(refused.map(|_| ()), Err(XdrError::TooLong));
}

#[test]
fn lengths_beyond_a_type_are_refused() {
    fn refused<'a, T: Decode<'a> + std::fmt::Debug>(bytes: &'a [u8], why: XdrError) {
        assert_eq!(from_bytes::<T>(bytes).map(|_| ()), Err(why));
    }
    let with_length = |length: u32, rest: usize| {
        let mut bytes = length.to_be_bytes().to_vec();
        bytes.resize(4 + rest, 0);
        bytes
    };
    refused::<FileHandle<'_>>(&with_length(65, 68), XdrError::TooLong);
    refused::<FileHandle<'_>>(&with_length(64, 60), XdrError::Short);
    refused::<FileHandle<'_>>(&with_length(u32::MAX, 64), XdrError::TooLong);
    refused::<Name<'_>>(&with_length(4097, 4096), XdrError::Short);
    refused::<Name<'_>>(&with_length(u32::MAX, 8), XdrError::Short);
    refused::<Path<'_>>(&with_length(u32::MAX, 8), XdrError::TooLong);
    refused::<mount3::DirPath<'_>>(&with_length(1025, 1028), XdrError::TooLong);
    refused::<mount3::HostName<'_>>(&with_length(256, 256), XdrError::TooLong);
    refused::<mount3::Flavors>(&with_length(17, 68), XdrError::TooLong);
    refused::<Option<u32>>(&bytes_of("00000002 00000000"), XdrError::Bool);
    refused::<SetTime>(&bytes_of("00000003"), XdrError::Value);
    refused::<FileType>(&bytes_of("00000000"), XdrError::Value);
    refused::<FileType>(&bytes_of("00000008"), XdrError::Value);
    refused::<Stable>(&bytes_of("00000003"), XdrError::Value);
    refused::<CreateHow>(&bytes_of("00000003"), XdrError::Value);
    refused::<FileHandle<'_>>(&bytes_of("00000004 aaaaaaaa 00"), XdrError::Trailing);

    let mut write = encoded(&WriteArgs {
        file: HANDLE,
        offset: 0,
        count: 0,
        stable: Stable::Unstable,
        data: b"",
    });
    let length_at = write.len() - 4;
    write[length_at..].copy_from_slice(&(DATA_MAX as u32 + 1).to_be_bytes());
    write.resize(length_at + 4 + DATA_MAX + 4, 0);
    refused::<WriteArgs<'_>>(&write, XdrError::TooLong);
}

#[test]
fn endless_lists_end_with_their_message() {
    // Every element says that another follows; the message stops after some thousands.
    let bytes: Vec<u8> = std::iter::repeat_n(bytes_of("00000001 00000000 00000000"), 5000)
        .flatten()
        .collect();
    let list = from_bytes::<List<'_, mount3::Mount<'_>>>(&bytes);
    assert_eq!(list.map(|_| ()), Err(XdrError::Short));
}

#[test]
fn procedures_have_their_numbers() {
    for (number, procedure) in NfsProcedure::ALL.into_iter().enumerate() {
        let number = u32::try_from(number).unwrap();
        assert_eq!(procedure.number(), number);
        assert_eq!(NfsProcedure::from_number(number), Some(procedure));
    }
    assert_eq!(NfsProcedure::from_number(22), None);
    let mount = (0..7).map(|number| format!("{:?}", mount3::MountProcedure::from_number(number)));
    let named = |name: &str| format!("Some({name})");
    let expected = ["Null", "Mnt", "Dump", "Umnt", "Umntall", "Export"].map(named);
    assert!(mount.eq(expected.into_iter().chain(["None".to_owned()])));
    let acl = (0..4).map(|number| format!("{:?}", nfsacl3::AclProcedure::from_number(number)));
    let expected = ["Null", "Getacl", "Setacl"].map(named);
    assert!(acl.eq(expected.into_iter().chain(["None".to_owned()])));
    // RFC 1813 appendix I: the handle and a list of flavors behind the status, behind the header of an RPC reply.
    assert_eq!(mount3::MNT_REPLY_MAX, 24 + 4 + (4 + 64) + (4 + 16 * 4));
    // WRITE: handle, offset, count, how stable, and the data with its length.
    assert_eq!(ARGUMENTS_MAX, (4 + 64) + 8 + 4 + 4 + (4 + DATA_MAX));
    let sensitive = NfsProcedure::ALL
        .into_iter()
        .filter(|p| p.is_replay_sensitive())
        .count();
    assert_eq!(sensitive, 10);
}

#[test]
fn statuses_have_their_names() {
    assert_eq!(Nfsstat::new(0), None);
    assert_eq!(Nfsstat::new(70), Some(Nfsstat::STALE));
    assert_eq!(format!("{:?}", Nfsstat::JUKEBOX), "JUKEBOX");
    assert_eq!(format!("{:?}", Nfsstat::new(4711).unwrap()), "nfsstat 4711");
}

/// Results as long as they get, each checked against the table of rpc-rdma.md section 6.
#[test]
fn the_longest_replies_are_as_long_as_the_table_says() {
    const RPC_REPLY: usize = 24;
    let attributes = directory_attributes();
    let longest_handle = [7; HANDLE_MAX];
    let object = FileHandle(&longest_handle);
    let wcc = WccData {
        before: Some(WccAttributes {
            size: 1,
            modify_time: Time::default(),
            change_time: Time::default(),
        }),
        after: Some(attributes),
    };
    let post = Some(attributes);
    let create: CreateResult<'_> = Ok(CreateOk {
        object: Some(object),
        attributes: post,
        directory: wcc,
    });
    let check = |procedure: NfsProcedure, room: u32, results: &[u8], table: usize| {
        assert_eq!(RPC_REPLY + results.len(), table, "{procedure:?} as encoded");
        assert_eq!(
            reply_max(procedure, room),
            table,
            "{procedure:?} as computed"
        );
    };
    check(NfsProcedure::Null, 0, &[], 24);
    check(
        NfsProcedure::Getattr,
        0,
        &encoded(&GetattrResult::Ok(attributes)),
        112,
    );
    let wcc_only = encoded(&SetattrResult::Ok(wcc));
    check(NfsProcedure::Setattr, 0, &wcc_only, 144);
    check(NfsProcedure::Remove, 0, &wcc_only, 144);
    check(NfsProcedure::Rmdir, 0, &wcc_only, 144);
    let found: LookupResult<'_> = Ok(LookupOk {
        object,
        attributes: post,
        directory: post,
    });
    check(NfsProcedure::Lookup, 0, &encoded(&found), 272);
    let granted: AccessResult = Ok(AccessOk {
        attributes: post,
        access: 63,
    });
    check(NfsProcedure::Access, 0, &encoded(&granted), 120);
    let link: ReadlinkResult<'_> = Ok(ReadlinkOk {
        attributes: post,
        target: Path(&[b'x'; 4095]),
    });
    check(NfsProcedure::Readlink, 4095, &encoded(&link), 120 + 4096);
    let read: ReadResult<'_> = Ok(ReadOk {
        attributes: post,
        count: 5001,
        eof: false,
        data: &[1; 5001],
    });
    check(NfsProcedure::Read, 5001, &encoded(&read), 128 + 5004);
    let written: WriteResult = Ok(WriteOk {
        wcc,
        count: 1,
        committed: Stable::FileSync,
        verifier: [0; 8],
    });
    check(NfsProcedure::Write, 0, &encoded(&written), 160);
    for procedure in [
        NfsProcedure::Create,
        NfsProcedure::Mkdir,
        NfsProcedure::Symlink,
        NfsProcedure::Mknod,
    ] {
        check(procedure, 0, &encoded(&create), 304);
    }
    let renamed = RenameResult::Ok(RenameWcc { from: wcc, to: wcc });
    check(NfsProcedure::Rename, 0, &encoded(&renamed), 260);
    let linked = LinkResult::Ok(LinkWcc {
        attributes: post,
        directory: wcc,
    });
    check(NfsProcedure::Link, 0, &encoded(&linked), 232);
    let space = FsstatResult::Ok(FsstatOk {
        attributes: post,
        bytes_total: 1,
        bytes_free: 1,
        bytes_available: 1,
        files_total: 1,
        files_free: 1,
        files_available: 1,
        invariant_seconds: 0,
    });
    check(NfsProcedure::Fsstat, 0, &encoded(&space), 168);
    let info = FsinfoResult::Ok(FsinfoOk {
        attributes: post,
        read_max: 1,
        read_preferred: 1,
        read_multiple: 1,
        write_max: 1,
        write_preferred: 1,
        write_multiple: 1,
        directory_preferred: 1,
        file_size_max: 1,
        time_delta: Time::default(),
        properties: 1,
    });
    check(NfsProcedure::Fsinfo, 0, &encoded(&info), 164);
    let pathconf = PathconfResult::Ok(PathconfOk {
        attributes: post,
        link_max: 1,
        name_max: 255,
        no_truncation: true,
        chown_restricted: true,
        case_insensitive: false,
        case_preserving: true,
    });
    check(NfsProcedure::Pathconf, 0, &encoded(&pathconf), 140);
    let committed = CommitResult::Ok(CommitOk {
        wcc,
        verifier: [0; 8],
    });
    check(NfsProcedure::Commit, 0, &encoded(&committed), 152);
    assert_eq!(reply_max(NfsProcedure::Readdir, 4096), 28 + 88 + 8 + 4096);
    assert_eq!(
        reply_max(NfsProcedure::Readdirplus, 65536),
        28 + 88 + 8 + 65536
    );
}
