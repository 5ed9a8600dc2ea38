//! NFSv3 and MOUNT over any input: what is written is read back, and what is read never goes wrong.

use crate::nfs_support;

use gannet_wire::mount3;
use gannet_wire::nfs3::*;
use gannet_wire::nfsacl3;
use gannet_wire::xdr::{Decode, Decoder, from_bytes};
use nfs_support::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

proptest! {
    #[test]
    fn attributes_and_consistency_data_come_back(
        attributes in attributes(), wcc in wcc(), set in set_attributes(),
        guard in option::of(time()),
        handle in handle(),
    ) {
        identity(&attributes, &mut Vec::new());
        identity(&wcc, &mut Vec::new());
        let object = FileHandle(&handle);
        identity(&SetattrArgs { object, change: set, guard }, &mut Vec::new());
    }

    #[test]
    fn arguments_with_names_come_back(
        handle in handle(), other in handle(), name in name(), to in name(),
        set in set_attributes(),
    ) {
        let place = DirectoryName { directory: FileHandle(&handle), name: Name(&name) };
        let to = DirectoryName { directory: FileHandle(&other), name: Name(&to) };
        identity(&RenameArgs { from: place, to }, &mut Vec::new());
        identity(&LinkArgs { file: FileHandle(&other), place }, &mut Vec::new());
        identity(&MkdirArgs { place, attributes: set }, &mut Vec::new());
        let target = Path(&name);
        identity(&SymlinkArgs { place, attributes: set, target }, &mut Vec::new());
    }

    #[test]
    fn creations_come_back(
        handle in handle(), name in name(), set in set_attributes(), verifier: [u8; 8],
        major: u32, minor: u32,
    ) {
        let place = DirectoryName { directory: FileHandle(&handle), name: Name(&name) };
        for how in [
            CreateHow::Unchecked(set), CreateHow::Guarded(set), CreateHow::Exclusive(verifier),
        ] {
            identity(&CreateArgs { place, how }, &mut Vec::new());
        }
        let device = Device { major, minor };
        for what in [
            MknodData::CharacterDevice { attributes: set, device },
            MknodData::BlockDevice { attributes: set, device },
            MknodData::Socket(set), MknodData::Fifo(set), MknodData::Other(FileType::Regular),
            MknodData::Other(FileType::Directory), MknodData::Other(FileType::Symlink),
        ] {
            identity(&MknodArgs { place, what }, &mut Vec::new());
        }
    }

    #[test]
    fn reads_and_writes_come_back(
        handle in handle(), offset: u64, count: u32, stable in stable(),
        data in vec(any::<u8>(), 0..2000),
        verifier: [u8; 8], cookie: u64,
    ) {
        let file = FileHandle(&handle);
        identity(&ReadArgs { file, offset, count }, &mut Vec::new());
        identity(&CommitArgs { file, offset, count }, &mut Vec::new());
        identity(&AccessArgs { object: file, access: count }, &mut Vec::new());
        identity(&WriteArgs { file, offset, count, stable, data: &data }, &mut Vec::new());
        identity(&ReaddirArgs { directory: file, cookie, verifier, count }, &mut Vec::new());
        identity(
            &ReaddirplusArgs {
                directory: file, cookie, verifier, directory_count: count, max_count: !count,
            },
            &mut Vec::new(),
        );
    }

    #[test]
    fn results_come_back(
        handle in option::of(handle()), post in option::of(attributes()),
        both in option::of(attributes()),
        wcc in wcc(), other in wcc(), stable in stable(), words: [u32; 8], longs: [u64; 6],
        verifier: [u8; 8], flags: [bool; 4], data in vec(any::<u8>(), 0..2000), status in status(),
    ) {
        let object = handle.as_deref().map(FileHandle);
        let mut buffers: [Vec<u8>; 13] = Default::default();
        let [b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11, b12] = &mut buffers;
        identity::<LookupResult<'_>>(&Ok(LookupOk {
            object: object.unwrap_or(FileHandle(b"")), attributes: post, directory: both,
        }), b0);
        identity::<LookupResult<'_>>(&Err(Failed { status, body: post }), b1);
        identity::<AccessResult>(&Ok(AccessOk { attributes: post, access: words[0] }), b2);
        let target = Path(&data);
        identity::<ReadlinkResult<'_>>(&Ok(ReadlinkOk { attributes: post, target }), b3);
        identity::<ReadResult<'_>>(&Ok(ReadOk {
            attributes: post, count: words[0], eof: flags[0], data: &data,
        }), b4);
        let (count, committed) = (words[0], stable);
        identity::<WriteResult>(&Ok(WriteOk { wcc, count, committed, verifier }), b5);
        let made = CreateOk { object, attributes: post, directory: wcc };
        identity::<CreateResult<'_>>(&Ok(made), b6);
        let body = RenameWcc { from: wcc, to: other };
        identity::<RenameResult>(&Err(Failed { status, body }), b7);
        identity::<LinkResult>(&Ok(LinkWcc { attributes: post, directory: wcc }), b8);
        identity::<FsstatResult>(&Ok(FsstatOk {
            attributes: post, bytes_total: longs[0], bytes_free: longs[1],
            bytes_available: longs[2],
            files_total: longs[3], files_free: longs[4], files_available: longs[5],
            invariant_seconds: words[0],
        }), b9);
        identity::<FsinfoResult>(&Ok(FsinfoOk {
            attributes: post, read_max: words[0], read_preferred: words[1], read_multiple: words[2],
            write_max: words[3], write_preferred: words[4], write_multiple: words[5],
            directory_preferred: words[6], file_size_max: longs[0], time_delta: Time::default(),
            properties: words[7],
        }), b10);
        identity::<PathconfResult>(&Ok(PathconfOk {
            attributes: post, link_max: words[0], name_max: words[1], no_truncation: flags[0],
            chown_restricted: flags[1], case_insensitive: flags[2], case_preserving: flags[3],
        }), b11);
        identity::<CommitResult>(&Ok(CommitOk { wcc, verifier }), b12);
    }

    #[test]
    fn good_and_bad_results_come_back(
        result in either(attributes(), Just(())), changed in either(wcc(), wcc()),
    ) {
        identity::<GetattrResult>(&result, &mut Vec::new());
        identity::<SetattrResult>(&changed, &mut Vec::new());
    }

    #[test]
    fn listings_come_back(
        names in vec((any::<u64>(), name(), any::<u64>()), 0..20), post in option::of(attributes()),
        handle in option::of(handle()), eof: bool, verifier: [u8; 8],
    ) {
        let plain: Vec<_> = names.iter()
            .map(|(fileid, name, cookie)| {
                let (fileid, name, cookie) = (*fileid, Name(name), *cookie);
                Entry { fileid, name, cookie }
            })
            .collect();
        let plus: Vec<_> = plain.iter().map(|entry| EntryPlus {
            fileid: entry.fileid, name: entry.name, cookie: entry.cookie, attributes: post,
            handle: handle.as_deref().map(FileHandle),
        }).collect();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        identity::<ReaddirResult<'_>>(&Ok(DirectoryListing {
            attributes: post, verifier, entries: List::new(&plain), eof,
        }), &mut first);
        identity::<ReaddirplusResult<'_>>(&Ok(DirectoryListing {
            attributes: post, verifier, entries: List::new(&plus), eof,
        }), &mut second);
    }

    /// Whatever the bytes: no panic, and what is accepted is written as it was read.
    #[test]
    fn any_bytes_are_read_safely(bytes in vec(any_word(), 0..60)) {
        let bytes: Vec<u8> = bytes.into_iter().flatten().collect();
        all_types(&bytes);
    }

    #[test]
    fn any_ragged_bytes_are_read_safely(bytes in vec(any::<u8>(), 0..200)) {
        all_types(&bytes);
    }
}

/// Words that steer decoders into their branches more often than uniform ones would.
fn any_word() -> impl Strategy<Value = [u8; 4]> {
    prop_oneof![
        4 => (0u32..4).prop_map(u32::to_be_bytes),
        2 => (0u32..80).prop_map(u32::to_be_bytes),
        1 => any::<[u8; 4]>(),
    ]
}

/// A value that was accepted is written, and read again as the same value.
macro_rules! reread {
    ($bytes:expr, $type:ty) => {
        let mut decoder = Decoder::new($bytes);
        if let Ok(value) = <$type>::decode(&mut decoder) {
            let again = encoded(&value);
            assert_eq!(again.len(), decoder.position());
            assert_eq!(from_bytes::<$type>(&again).as_ref(), Ok(&value));
            assert!(!format!("{value:?}").is_empty());
        }
    };
}

fn all_types(bytes: &[u8]) {
    reread!(bytes, SetattrArgs<'_>);
    reread!(bytes, AccessArgs<'_>);
    reread!(bytes, ReadArgs<'_>);
    reread!(bytes, WriteHead<'_>);
    reread!(bytes, WriteArgs<'_>);
    reread!(bytes, CreateArgs<'_>);
    reread!(bytes, SymlinkArgs<'_>);
    reread!(bytes, SymlinkHead<'_>);
    reread!(bytes, MknodArgs<'_>);
    reread!(bytes, RenameArgs<'_>);
    reread!(bytes, LinkArgs<'_>);
    reread!(bytes, ReaddirplusArgs<'_>);
    reread!(bytes, GetattrResult);
    reread!(bytes, LookupResult<'_>);
    reread!(bytes, ReadlinkResult<'_>);
    reread!(bytes, ReadlinkHeadResult);
    reread!(bytes, ReadResult<'_>);
    reread!(bytes, ReadHeadResult);
    reread!(bytes, WriteResult);
    reread!(bytes, CreateResult<'_>);
    reread!(bytes, RenameResult);
    reread!(bytes, LinkResult);
    reread!(bytes, ReaddirResult<'_>);
    reread!(bytes, ReaddirplusResult<'_>);
    reread!(bytes, FsstatResult);
    reread!(bytes, FsinfoResult);
    reread!(bytes, PathconfResult);
    reread!(bytes, CommitResult);
    reread!(bytes, nfsacl3::GetaclArgs<'_>);
    reread!(bytes, nfsacl3::GetaclResult<'_>);
    reread!(bytes, nfsacl3::SetaclArgs<'_>);
    reread!(bytes, nfsacl3::SetaclResult);
    reread!(bytes, mount3::MntResult<'_>);
    reread!(bytes, mount3::DumpResult<'_>);
    reread!(bytes, mount3::ExportResult<'_>);
}
