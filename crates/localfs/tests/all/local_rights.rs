//! As root, each caller has its own rights and no more; the kernel decides.

#![allow(clippy::unwrap_used)]

use crate::support;

use gannet_localfs::{HandleScheme, LocalOptions, LocalStore, LocalTree, OpenError};
use gannet_runtime::Buffer;
use gannet_vfs::{
    AccessMask, Attributes, CreateMode, Credentials, EntryName, FileHandle, NodeKind,
    SetAttributes, SetTime, Stability, Status, Vfs,
};
use rustix::fs::{IFlags, XattrFlags};
use rustix::io::Errno;
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, capabilities, set_capabilities,
    set_capabilities_secure_bits,
};
use std::fs::Permissions;
use std::future::Future;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;
use support::{Page, World, is_root};

const ALICE: u32 = 54_321;
const BOB: u32 = 54_322;
const TEAM: u32 = 54_400;

fn alice() -> Credentials {
    Credentials::new(ALICE, ALICE, &[])
}

pub(crate) fn bob() -> Credentials {
    Credentials::new(BOB, BOB, &[TEAM])
}

fn mode(mode: u32) -> SetAttributes {
    SetAttributes {
        mode: Some(mode),
        ..SetAttributes::default()
    }
}

/// Runs a story in a directory that any user may write to, once with each kind of handle. It runs for root alone.
fn with_users<F: Future<Output = ()>>(story: impl Fn(LocalStore) -> F) {
    with_local_program(|store, _| story(store));
}

/// A program of root beside the server: a thread of its own, since that of the server has the identity of a caller.
pub(crate) struct LocalProgram {
    /// The served directory.
    path: PathBuf,
    jobs: mpsc::Sender<Box<dyn FnOnce() + Send>>,
}

impl LocalProgram {
    /// Starts the thread, before this one serves callers: it inherits the identity.
    pub(crate) fn start() -> LocalProgram {
        let (jobs, begun) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
        std::thread::spawn(move || begun.iter().for_each(|job| job()));
        let path = PathBuf::new();
        LocalProgram { path, jobs }
    }

    pub(crate) fn at(&self, path: PathBuf) -> LocalProgram {
        let jobs = self.jobs.clone();
        LocalProgram { path, jobs }
    }

    /// Runs `job` with the file of this name to its end.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        name: &str,
        job: impl FnOnce(&Path) -> T + Send + 'static,
    ) -> T {
        let path = self.path.join(name);
        let (done, result) = mpsc::channel();
        self.jobs
            .send(Box::new(move || done.send(job(&path)).unwrap()))
            .unwrap();
        result.recv().unwrap()
    }
}

/// As [`with_users`], beside a local program.
fn with_local_program<F: Future<Output = ()>>(story: impl Fn(LocalStore, LocalProgram) -> F) {
    if !is_root() {
        return;
    }
    let program = LocalProgram::start();
    for scheme in [HandleScheme::Automatic, HandleScheme::Inode] {
        let world = World::new(scheme);
        let local = program.at(world.path());
        std::fs::set_permissions(&local.path, Permissions::from_mode(0o777)).unwrap();
        world.serve(|store| story(store, local));
    }
}

async fn create(
    store: &LocalStore,
    who: &Credentials,
    directory: &FileHandle,
    name: &[u8],
    bits: u32,
) -> FileHandle {
    let made = store
        .create(who, directory, name, &CreateMode::Guarded(mode(bits)))
        .await;
    made.result.unwrap().handle
}

pub(crate) async fn write(
    store: &LocalStore,
    who: &Credentials,
    file: &FileHandle,
) -> Result<(), Status> {
    let data = Buffer::from_vec(vec![1; 4]);
    let written = store
        .write(who, file, 0, data, 0..4, Stability::Unstable)
        .await;
    written.result.map(|_| ())
}

pub(crate) async fn read(
    store: &LocalStore,
    who: &Credentials,
    file: &FileHandle,
) -> Result<(), Status> {
    store.read(who, file, 0, 4).await.map(|_| ())
}

#[test]
fn a_user_owns_its_new_objects() {
    with_users(|store| async move {
        let root = store.root();
        let file = create(&store, &alice(), &root, b"f", 0o640).await;
        let attributes = store.attributes(&file).await.unwrap();
        assert_eq!((attributes.uid, attributes.gid), (ALICE, ALICE));
        let made = store
            .make_directory(&bob(), &root, b"d", &mode(0o755))
            .await;
        let made = made.result.unwrap().attributes.unwrap();
        assert_eq!((made.uid, made.gid), (BOB, BOB));
        let node = store
            .make_node(
                &alice(),
                &root,
                b"c",
                NodeKind::CharacterDevice { major: 1, minor: 3 },
                &mode(0o666),
            )
            .await;
        assert_eq!(node.result, Err(Status::Perm), "devices are root's");
    });
}

#[test]
fn modes_hold_for_data() {
    with_users(|store| async move {
        let root = store.root();
        for (bits, bob_reads, bob_writes) in [
            (0o600, false, false),
            (0o644, true, false),
            (0o602, false, true),
            (0o711, true, false),
            (0o666, true, true),
        ] {
            let name = format!("{bits:o}");
            let file = create(&store, &alice(), &root, name.as_bytes(), bits).await;
            // The second reply comes from memory.
            for _ in 0..2 {
                assert_eq!(
                    read(&store, &bob(), &file).await.is_ok(),
                    bob_reads,
                    "{name}"
                );
                assert_eq!(
                    write(&store, &bob(), &file).await.is_ok(),
                    bob_writes,
                    "{name}"
                );
                read(&store, &alice(), &file).await.unwrap();
                write(&store, &alice(), &file).await.unwrap();
            }
        }
    });
}

#[test]
fn an_owner_reads_and_writes_whatever_the_mode() {
    with_users(|store| async move {
        let file = create(&store, &alice(), &store.root(), b"f", 0o000).await;
        write(&store, &alice(), &file).await.unwrap();
        read(&store, &alice(), &file).await.unwrap();
        let all = AccessMask(63);
        let (granted, _) = store.access(&alice(), &file, all).await.unwrap();
        assert_eq!(granted.0, 0, "but ACCESS follows the mode");
        assert_eq!(write(&store, &bob(), &file).await, Err(Status::Acces));
        assert_eq!(read(&store, &bob(), &file).await, Err(Status::Acces));
        let committed = store.commit(&alice(), &file, 0, 0).await;
        committed.result.unwrap();
        let refused = store.commit(&bob(), &file, 0, 0).await;
        assert_eq!(refused.result.map(|_| ()), Err(Status::Acces));
        let root = Credentials::new(0, 0, &[]);
        write(&store, &root, &file).await.unwrap();
    });
}

#[test]
fn a_changed_mode_counts_at_once() {
    with_users(|store| async move {
        let file = create(&store, &alice(), &store.root(), b"f", 0o644).await;
        for _ in 0..20 {
            read(&store, &bob(), &file).await.unwrap();
            let set = store
                .set_attributes(&alice(), &file, &mode(0o600), None)
                .await;
            set.result.unwrap();
            assert_eq!(read(&store, &bob(), &file).await, Err(Status::Acces));
            let refused = store
                .set_attributes(&bob(), &file, &mode(0o644), None)
                .await;
            assert_eq!(refused.result, Err(Status::Perm));
            let set = store
                .set_attributes(&alice(), &file, &mode(0o644), None)
                .await;
            set.result.unwrap();
        }
    });
}

/// Gives a file of mode 0660 an access control list in which Bob has these rights: 6 or 4. The mode stays as it is.
fn set_list(file: &Path, bob: u16) {
    // As in the extended attribute: version 2, and entries of tag, rights and id.
    let (nobody, list) = (u32::MAX, "system.posix_acl_access");
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, rights, id) in [
        (0x01u16, 6u16, nobody),
        (0x02, bob, BOB),
        (0x04, 0, nobody),
        (0x10, 6, nobody),
        (0x20, 0, nobody),
    ] {
        bytes.extend([tag.to_le_bytes(), rights.to_le_bytes()].concat());
        bytes.extend(id.to_le_bytes());
    }
    rustix::fs::setxattr(file, list, &bytes, XattrFlags::empty()).unwrap();
}

/// Gives a file this flag, or takes it away.
fn set_flag(file: &Path, flag: IFlags, given: bool) {
    let opened = std::fs::File::open(file).unwrap();
    let mut flags = rustix::fs::ioctl_getflags(&opened).unwrap();
    flags.set(flag, given);
    rustix::fs::ioctl_setflags(&opened, flags).unwrap();
}

pub(crate) fn set_mode(file: &Path, mode: u32) {
    std::fs::set_permissions(file, Permissions::from_mode(mode)).unwrap();
}

/// Gives Bob the right to write a file of Alice, or takes it away, as a local program.
type Right = fn(&Path, bool);

/// Each way in which a local program may change it.
const RIGHTS: [(&str, Right); 5] = [
    ("mode", |file, bob| {
        set_mode(file, if bob { 0o606 } else { 0o600 })
    }),
    ("group", |file, bob| {
        set_mode(file, 0o660);
        chown(file, None, Some(if bob { TEAM } else { ALICE })).unwrap();
    }),
    ("owner", |file, bob| {
        set_mode(file, 0o600);
        chown(file, Some(if bob { BOB } else { ALICE }), None).unwrap();
    }),
    ("list", |file, bob| set_list(file, if bob { 6 } else { 4 })),
    ("flag", |file, bob| {
        set_flag(file, IFlags::IMMUTABLE, !bob);
        if bob {
            set_mode(file, 0o606);
        }
    }),
];

/// Whether the file system of the tests has the means of this right.
fn is_there(name: &str, probe: &Path) -> bool {
    std::fs::write(probe, "").unwrap();
    let opened = std::fs::File::open(probe).unwrap();
    let works = match name {
        "list" => {
            // Reading no list is an answer too.
            let mut none = [0u8; 0];
            let asked = rustix::fs::fgetxattr(&opened, "system.posix_acl_access", &mut none);
            asked != Err(Errno::OPNOTSUPP)
        }
        "flag" => {
            let flags = rustix::fs::ioctl_getflags(&opened);
            flags.is_ok_and(|flags| {
                let set = rustix::fs::ioctl_setflags(&opened, flags | IFlags::IMMUTABLE);
                set.and_then(|()| rustix::fs::ioctl_setflags(&opened, flags))
                    .is_ok()
            })
        }
        _ => true,
    };
    std::fs::remove_file(probe).unwrap();
    works
}

/// Whether tests with this right can run.
fn can_test(name: &'static str, local: &LocalProgram) -> bool {
    let works = local.run("probe", move |probe| is_there(name, probe));
    if !works {
        gannet_testing::left_out(&format!("no {name} for files in {}", local.path.display()));
    }
    works
}

/// Bob asks for the right to write without a change of the file.
pub(crate) async fn may_write(store: &LocalStore, file: &FileHandle) -> bool {
    let modify = AccessMask(AccessMask::MODIFY);
    store.access(&bob(), file, modify).await.unwrap().0 == modify
}

#[test]
fn a_right_that_a_local_program_takes_away_is_gone_at_the_next_write() {
    with_local_program(|store, local| async move {
        for (name, give) in RIGHTS {
            if !can_test(name, &local) {
                continue;
            }
            let file = create(&store, &alice(), &store.root(), name.as_bytes(), 0o600).await;
            let give = |bob| local.run(name, move |file| give(file, bob));
            for round in 0..20 {
                give(true);
                write(&store, &bob(), &file).await.unwrap();
                write(&store, &bob(), &file).await.unwrap();
                if round % 10 == 0 {
                    // By now an answer is remembered.
                    std::thread::sleep(Duration::from_millis(40));
                    assert!(may_write(&store, &file).await, "{name}");
                    assert!(may_write(&store, &file).await, "{name}");
                }
                give(false);
                // The flag is no matter of who asks.
                let reason = if name == "flag" {
                    Status::Perm
                } else {
                    Status::Acces
                };
                assert_eq!(write(&store, &bob(), &file).await, Err(reason), "{name}");
                assert!(!may_write(&store, &file).await, "{name}");
            }
            give(true);
            write(&store, &bob(), &file).await.unwrap();
        }
    });
}

async fn cut(store: &LocalStore, who: &Credentials, file: &FileHandle) -> Result<(), Status> {
    let size = SetAttributes {
        size: Some(1),
        ..SetAttributes::default()
    };
    store.set_attributes(who, file, &size, None).await.result
}

#[test]
fn a_flag_that_a_local_program_sets_counts_though_the_file_is_open() {
    with_local_program(|store, local| async move {
        if !can_test("flag", &local) {
            return;
        }
        let file = create(&store, &alice(), &store.root(), b"f", 0o606).await;
        for flag in [IFlags::IMMUTABLE, IFlags::APPEND] {
            // The owner's right is not asked for, and that of the other is remembered.
            for who in [alice(), bob()] {
                std::thread::sleep(Duration::from_millis(40));
                write(&store, &who, &file).await.unwrap();
                local.run("f", move |file| set_flag(file, flag, true));
                let written = write(&store, &who, &file).await;
                let resized = cut(&store, &who, &file).await;
                let seen = read(&store, &who, &file).await;
                // Without the flag, so that the directory can be removed.
                local.run("f", move |file| set_flag(file, flag, false));
                let refused = Err(Status::Perm);
                let uid = who.uid;
                assert_eq!((written, resized), (refused, refused), "{flag:?} {uid}");
                assert_eq!(seen, Ok(()), "{flag:?} {uid}");
                write(&store, &who, &file).await.unwrap();
                cut(&store, &who, &file).await.unwrap();
            }
        }
    });
}

#[test]
fn rights_that_leave_the_mode_as_it_was_end_at_once() {
    with_local_program(|store, local| async move {
        if !can_test("list", &local) {
            return;
        }
        let file = create(&store, &alice(), &store.root(), b"f", 0o660).await;
        for _ in 0..5 {
            local.run("f", |file| set_list(file, 6));
            std::thread::sleep(Duration::from_millis(40));
            for _ in 0..2 {
                assert!(may_write(&store, &file).await);
                read(&store, &bob(), &file).await.unwrap();
            }
            let before = store.attributes(&file).await.unwrap();
            local.run("f", |file| set_list(file, 4));
            // The stamp of the owner's write takes the place of that of the list.
            write(&store, &alice(), &file).await.unwrap();
            let after = store.attributes(&file).await.unwrap();
            let known = |it: &Attributes| (it.mode, it.uid, it.gid);
            assert_eq!(known(&before), known(&after));
            assert_eq!(after.modify_time, after.change_time);
            assert_eq!(write(&store, &bob(), &file).await, Err(Status::Acces));
            read(&store, &bob(), &file).await.unwrap();
        }
    });
}

#[test]
fn rights_that_are_asked_for_one_by_one_are_told_apart() {
    with_users(|store| async move {
        let root = store.root();
        for bits in 0..8 {
            let name = format!("{bits}");
            let file = create(&store, &alice(), &root, name.as_bytes(), 0o700 | bits).await;
            // Settled, so that each answer is remembered beside those before it.
            std::thread::sleep(Duration::from_millis(40));
            for _ in 0..2 {
                let reads = read(&store, &bob(), &file).await.is_ok();
                assert_eq!(reads, bits & 0o5 != 0, "{name}");
                assert_eq!(may_write(&store, &file).await, bits & 0o2 != 0, "{name}");
                for (wanted, right) in [
                    (AccessMask::READ, 0o4),
                    (AccessMask::MODIFY, 0o2),
                    (AccessMask::EXTEND, 0o2),
                    (AccessMask::EXECUTE, 0o1),
                ] {
                    let granted = store.access(&bob(), &file, AccessMask(wanted)).await;
                    let expected = if bits & right != 0 { wanted } else { 0 };
                    assert_eq!(granted.unwrap().0.0, expected, "{name}: {wanted}");
                }
                let none = AccessMask::LOOKUP | AccessMask::DELETE;
                let granted = store.access(&bob(), &file, AccessMask(none)).await;
                assert_eq!(granted.unwrap().0.0, 0, "rights of directories");
            }
            let name = format!("d{bits}");
            let (me, bits_of_all) = (alice(), mode(0o700 | bits));
            let made = store.make_directory(&me, &root, name.as_bytes(), &bits_of_all);
            let directory = made.await.result.unwrap().handle;
            for wanted in 0..64 {
                let granted = store.access(&bob(), &directory, AccessMask(wanted)).await;
                let mut expected = 0;
                for (mask, right) in [
                    (AccessMask::READ, 0o4),
                    (AccessMask::LOOKUP, 0o1),
                    (AccessMask::MODIFY | AccessMask::EXTEND, 0o2),
                    (AccessMask::DELETE, 0o3),
                ] {
                    if bits & right == right {
                        expected |= wanted & mask;
                    }
                }
                assert_eq!(granted.unwrap().0.0, expected, "{name}: {wanted}");
            }
        }
    });
}

#[test]
fn groups_count() {
    with_users(|store| async move {
        let root = store.root();
        let file = create(&store, &alice(), &root, b"f", 0o660).await;
        let give = SetAttributes {
            gid: Some(TEAM),
            ..SetAttributes::default()
        };
        let refused = store.set_attributes(&alice(), &file, &give, None).await;
        assert_eq!(refused.result, Err(Status::Perm), "not in that group");
        assert_eq!(write(&store, &bob(), &file).await, Err(Status::Acces));
        let super_user = Credentials::new(0, 0, &[]);
        let given = store.set_attributes(&super_user, &file, &give, None).await;
        given.result.unwrap();
        write(&store, &bob(), &file).await.unwrap();
        let loner = Credentials::new(BOB, BOB, &[]);
        assert_eq!(write(&store, &loner, &file).await, Err(Status::Acces));
    });
}

#[test]
fn more_groups_count_than_a_call_carries() {
    with_users(|store| async move {
        let root = store.root();
        let file = create(&store, &alice(), &root, b"f", 0o060).await;
        let give = SetAttributes {
            gid: Some(TEAM),
            ..SetAttributes::default()
        };
        let super_user = Credentials::new(0, 0, &[]);
        let given = store.set_attributes(&super_user, &file, &give, None).await;
        given.result.unwrap();
        let groups: Vec<u32> = (TEAM - 99..=TEAM).collect();
        let member = Credentials::new(BOB, BOB, &groups);
        write(&store, &member, &file).await.unwrap();
        read(&store, &member, &file).await.unwrap();
        let other = Credentials::new(BOB, BOB, &groups[..99]);
        assert_eq!(write(&store, &other, &file).await, Err(Status::Acces));
    });
}

#[test]
fn a_private_directory_refuses_other_users() {
    with_users(|store| async move {
        let root = store.root();
        let made = store
            .make_directory(&alice(), &root, b"d", &mode(0o700))
            .await;
        let d = made.result.unwrap().handle;
        let file = create(&store, &alice(), &d, b"f", 0o644).await;
        for _ in 0..2 {
            assert!(store.lookup(&alice(), &d, b"f").await.0.unwrap().0 == file);
            let (refused, _) = store.lookup(&bob(), &d, b"f").await;
            assert_eq!(refused.map(|_| ()), Err(Status::Acces));
        }
        let mut page = Page {
            room: 10,
            objects: true,
            taken: Vec::new(),
        };
        let listed = store
            .read_directory(&alice(), &d, 0, [0; 8], &mut page)
            .await;
        assert!(listed.unwrap().eof && page.taken.len() == 3);
        let refused = store.read_directory(&bob(), &d, 0, [0; 8], &mut page).await;
        assert_eq!(
            refused,
            Err(Status::Acces),
            "though the listing is in memory"
        );
        // The right to list without the right to search gives names without objects.
        let set = store.set_attributes(&alice(), &d, &mode(0o744), None).await;
        set.result.unwrap();
        page.taken.clear();
        let listed = store.read_directory(&bob(), &d, 0, [0; 8], &mut page).await;
        assert!(listed.unwrap().eof);
        assert!(page.taken.iter().all(|entry| entry.object.is_none()));
        for (name, result) in [
            (&b"f"[..], Err(Status::Acces)),
            (b"new", Err(Status::Acces)),
        ] {
            assert_eq!(store.remove(&bob(), &d, name).await.result, result);
            let (renamed, _, _) = store
                .rename(
                    &bob(),
                    EntryName::new(&d, name),
                    EntryName::new(&root, b"x"),
                )
                .await;
            assert_eq!(renamed, result);
        }
    });
}

#[test]
fn a_sticky_directory_protects_its_entries() {
    with_users(|store| async move {
        let root = store.root();
        let super_user = Credentials::new(0, 0, &[]);
        let made = store
            .make_directory(&super_user, &root, b"tmp", &mode(0o1777))
            .await;
        let tmp = made.result.unwrap().handle;
        create(&store, &alice(), &tmp, b"f", 0o666).await;
        let removed = store.remove(&bob(), &tmp, b"f").await.result;
        assert_eq!(removed, Err(Status::Perm));
        let (renamed, _, _) = store
            .rename(
                &bob(),
                EntryName::new(&tmp, b"f"),
                EntryName::new(&tmp, b"g"),
            )
            .await;
        assert_eq!(renamed, Err(Status::Perm));
        store.remove(&alice(), &tmp, b"f").await.result.unwrap();
    });
}

#[test]
fn a_setgid_directory_gives_its_group() {
    with_users(|store| async move {
        let root = store.root();
        let super_user = Credentials::new(0, 0, &[]);
        let made = SetAttributes {
            mode: Some(0o2777),
            gid: Some(TEAM),
            ..SetAttributes::default()
        };
        let made = store
            .make_directory(&super_user, &root, b"team", &made)
            .await;
        let team = made.result.unwrap();
        assert_eq!(team.attributes.unwrap().gid, TEAM);
        let file = create(&store, &alice(), &team.handle, b"f", 0o644).await;
        let attributes = store.attributes(&file).await.unwrap();
        assert_eq!((attributes.uid, attributes.gid), (ALICE, TEAM));
    });
}

#[test]
fn a_write_by_another_clears_setuid() {
    with_users(|store| async move {
        let file = create(&store, &alice(), &store.root(), b"f", 0o6777).await;
        let before = store.attributes(&file).await.unwrap();
        assert_eq!(before.mode, 0o6777);
        write(&store, &bob(), &file).await.unwrap();
        let after = store.attributes(&file).await.unwrap();
        assert_eq!(after.mode & 0o4000, 0);
        let set = store
            .set_attributes(&alice(), &file, &mode(0o4777), None)
            .await;
        set.result.unwrap();
        let cut = SetAttributes {
            size: Some(1),
            ..SetAttributes::default()
        };
        let cut = store.set_attributes(&bob(), &file, &cut, None).await;
        assert_eq!(cut.wcc.after.unwrap().mode & 0o4000, 0);
    });
}

#[test]
fn a_user_with_the_right_to_write_may_set_times_to_now() {
    with_users(|store| async move {
        let file = create(&store, &alice(), &store.root(), b"f", 0o646).await;
        let touch = SetAttributes {
            modify_time: SetTime::Now,
            ..SetAttributes::default()
        };
        let touched = store.set_attributes(&bob(), &file, &touch, None).await;
        touched.result.unwrap();
        let exact = SetAttributes {
            modify_time: SetTime::To(gannet_vfs::Time::default()),
            ..SetAttributes::default()
        };
        let refused = store.set_attributes(&bob(), &file, &exact, None).await;
        assert_eq!(refused.result, Err(Status::Perm));
        let other = create(&store, &alice(), &store.root(), b"g", 0o644).await;
        let refused = store.set_attributes(&bob(), &other, &touch, None).await;
        assert_eq!(refused.result, Err(Status::Acces));
    });
}

#[test]
fn a_refused_attribute_leaves_the_size_unchanged() {
    with_users(|store| async move {
        let file = create(&store, &alice(), &store.root(), b"f", 0o666).await;
        write(&store, &alice(), &file).await.unwrap();
        let size = SetAttributes {
            size: Some(0),
            ..SetAttributes::default()
        };
        let long_ago = SetTime::To(gannet_vfs::Time::default());
        let refused = [
            SetAttributes {
                modify_time: long_ago,
                ..size
            },
            SetAttributes {
                mode: Some(0o600),
                ..size
            },
            SetAttributes {
                gid: Some(TEAM),
                ..size
            },
        ];
        for change in refused {
            let cut = store.set_attributes(&bob(), &file, &change, None).await;
            assert_eq!(cut.result, Err(Status::Perm), "{change:?}");
            let now = store.attributes(&file).await.unwrap();
            assert_eq!(
                (now.size, now.mode, now.uid),
                (4, 0o666, ALICE),
                "{change:?}"
            );
        }
        let by_owner = SetAttributes {
            mode: Some(0o4755),
            access_time: long_ago,
            modify_time: long_ago,
            ..size
        };
        let cut = store.set_attributes(&alice(), &file, &by_owner, None).await;
        let now = cut.wcc.after.unwrap();
        let times = [now.access_time, now.modify_time].map(SetTime::To);
        assert_eq!((cut.result, now.size, now.mode), (Ok(()), 0, 0o4755));
        assert_eq!(times, [long_ago; 2], "they outlive the cut");
    });
}

#[test]
fn an_export_with_a_private_root_is_served_to_its_owner_alone() {
    if !is_root() {
        return;
    }
    let world = World::new(HandleScheme::Automatic);
    let closed = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(world.path(), closed).unwrap();
    chown(world.path(), Some(ALICE), Some(ALICE)).unwrap();
    world.serve(|store| async move {
        create(&store, &alice(), &store.root(), b"f", 0o644).await;
        let (refused, _) = store.lookup(&bob(), &store.root(), b"f").await;
        assert_eq!(refused.map(|_| ()), Err(Status::Acces));
        let path: [&[u8]; 1] = [b"f"];
        let resolved = store.resolve(&alice(), &path).await;
        assert_eq!(resolved, Err(Status::Notdir));
    });
}

/// Root in a container may lack these capabilities. Each of its callers would have the rights of root.
#[test]
fn root_that_cannot_act_as_its_callers_serves_only_itself() {
    if !is_root() {
        return;
    }
    let without_capabilities = || {
        let identity = CapabilitySet::SETUID | CapabilitySet::SETGID;
        let mut held = capabilities(None).unwrap();
        held.effective -= identity;
        held.permitted -= identity;
        set_capabilities(None, held).unwrap();
    };
    let with_all_rights_kept = || {
        let kept = CapabilitiesSecureBits::NO_SETUID_FIXUP;
        set_capabilities_secure_bits(kept).unwrap();
    };
    let world = World::new(HandleScheme::Automatic);
    let open = |prepare: fn(), callers_are_server| {
        let (path, options) = (world.path(), world.options.clone());
        // Capabilities and securebits belong to threads; this one ends with them.
        let thread = std::thread::spawn(move || {
            prepare();
            let options = LocalOptions {
                callers_are_server,
                ..options
            };
            LocalTree::open(&path, &options).map(|_| ())
        });
        thread.join().unwrap()
    };
    for prepare in [without_capabilities as fn(), with_all_rights_kept] {
        let refused = open(prepare, false);
        assert!(matches!(refused, Err(OpenError::Identity { .. })));
        open(prepare, true).unwrap();
    }
    open(|| (), false).unwrap();
}
