//! Changes that a kernel refuses to a local program. No kernel stands before a volume, so the manager refuses them.

use super::{ANN, BOB, Names, SUPERUSER, User, both, guarded};
use gannet_meta::namespace::{self, Make};
use gannet_wire::volume::{
    AttributeChanges, CreateMode, DeviceNumbers, FileId, NodeKind, ROOT, SetTimestamp, Status,
    Timestamp,
};

fn link(names: &Names, by: User, file: FileId, name: &str) -> Result<u32, Status> {
    names.change(by, |it, request| {
        namespace::link(it, request, file, ROOT, name.as_bytes()).map(|inode| inode.links)
    })
}

#[test]
fn a_verifier_of_zeros_matches_no_file_that_was_made_otherwise() {
    both(|names| {
        names.create(ANN, ROOT, "plain", &guarded(0o600)).unwrap();
        let zeros = CreateMode::Exclusive([0; 8]);
        let taken = names.create(BOB, ROOT, "plain", &zeros);
        assert_eq!(taken, Err(Status::Exist));
        let made = names.create(BOB, ROOT, "own", &zeros);
        assert_eq!(names.create(BOB, ROOT, "own", &zeros), made, "sent again");
        made.unwrap();
    });
}

#[test]
fn a_time_has_fewer_nanoseconds_than_a_second() {
    both(|names| {
        let file = names.create(ANN, ROOT, "f", &guarded(0o600)).unwrap();
        let at = |nanoseconds| {
            SetTimestamp::To(Timestamp {
                seconds: 5,
                nanoseconds,
            })
        };
        for by in [ANN, SUPERUSER] {
            for nanoseconds in [1_000_000_000, u32::MAX] {
                let access = AttributeChanges {
                    access_time: at(nanoseconds),
                    ..AttributeChanges::default()
                };
                let modify = AttributeChanges {
                    modify_time: at(nanoseconds),
                    ..AttributeChanges::default()
                };
                assert_eq!(names.set(by, file, &access), Err(Status::Inval));
                assert_eq!(names.set(by, file, &modify), Err(Status::Inval));
                let made = names.create(by, ROOT, "g", &CreateMode::Guarded(modify));
                assert_eq!(made, Err(Status::Inval));
            }
        }
        let last = AttributeChanges {
            modify_time: at(999_999_999),
            ..AttributeChanges::default()
        };
        names.set(ANN, file, &last).unwrap();
        assert_eq!(names.list(ROOT), [".", "..", "f"]);
    });
}

#[test]
fn links_without_text_and_devices_without_numbers_are_not_made() {
    both(|names| {
        let make = |what| names.make(SUPERUSER, ROOT, "it", what);
        let device = |major, minor| {
            let numbers = DeviceNumbers { major, minor };
            let character = Make::Node(NodeKind::CharacterDevice(numbers));
            [
                make(character),
                make(Make::Node(NodeKind::BlockDevice(numbers))),
            ]
        };
        for text in [&b""[..], b"a\0b"] {
            assert_eq!(make(Make::Symlink(text)), Err(Status::Inval));
        }
        assert_eq!(device(1 << 12, 0), [Err(Status::Inval); 2]);
        assert_eq!(device(0, 1 << 20), [Err(Status::Inval); 2]);
        assert_eq!(
            device(4095, (1 << 20) - 1).map(|it| it.is_ok()),
            [true, false]
        );
    });
}

/// fs.protected_hardlinks of Linux.
#[test]
fn others_link_only_files_that_they_may_read_and_write() {
    both(|names| {
        let cases = [
            (0o666, true),
            (0o644, false),
            (0o662, false),
            (0o4666, false),
            (0o2676, false),
            (0o2666, true),
        ];
        for (mode, may) in cases {
            let name = format!("{mode:o}");
            let file = names.create(ANN, ROOT, &name, &guarded(mode)).unwrap();
            let linked = link(names, BOB, file, &format!("{name}-of-bob"));
            let expected = if may { Ok(2) } else { Err(Status::Perm) };
            assert_eq!(linked, expected, "{mode:o}");
            link(names, ANN, file, &format!("{name}-of-ann")).unwrap();
            link(names, SUPERUSER, file, &format!("{name}-of-root")).unwrap();
        }
        let fifo = names.make(ANN, ROOT, "fifo", Make::Node(NodeKind::Fifo));
        let symlink = names.make(ANN, ROOT, "symlink", Make::Symlink(b"to"));
        for file in [fifo.unwrap(), symlink.unwrap()] {
            assert_eq!(link(names, BOB, file, "other"), Err(Status::Perm));
        }
    });
}
