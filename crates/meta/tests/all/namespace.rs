//! Names and attributes as POSIX has them, over both stores.
#![allow(clippy::unwrap_used)]

use gannet_meta::namespace::{self, Failure, Intent, KeptFiles, Listed, Make, Outcome, Request};
use gannet_meta::{MemoryStore, MetaStore, RedbStore, Transaction, View};
use gannet_wire::volume::{
    AccessMask, AttributeChanges, Body, Caller, CreateMode, FileId, FileKind, Inode, LayoutRecord,
    NodeKind, ROOT, SetTimestamp, Status, Timestamp,
};
use std::cell::{Cell, RefCell};

mod listing;
mod refusals;

/// A volume's names under test, with a clock that ticks once per operation.
struct Names {
    store: Box<dyn MetaStore>,
    clock: Cell<i64>,
    has_room: Cell<bool>,
    kept: RefCell<KeptFiles>,
    _folder: Option<tempfile::TempDir>,
}

/// A caller by the number of its user and of its group, without further groups.
#[derive(Debug, Clone, Copy)]
struct User {
    uid: u32,
    gid: u32,
}

impl User {
    fn caller(self) -> Caller {
        Caller::new(self.uid, self.gid, &[])
    }
}

const ANN: User = User {
    uid: 1000,
    gid: 1000,
};
const BOB: User = User {
    uid: 1001,
    gid: 1001,
};
const SUPERUSER: User = User { uid: 0, gid: 0 };

fn both(story: impl Fn(&Names)) {
    story(&Names::over(Box::new(MemoryStore::default()), None));
    let folder = tempfile::tempdir().unwrap();
    let store = RedbStore::open(&folder.path().join("metadata"), 1 << 20).unwrap();
    story(&Names::over(Box::new(store), Some(folder)));
}

fn layout() -> LayoutRecord {
    LayoutRecord {
        unit: 4096,
        groups: vec![0, 1],
    }
}

fn guarded(mode: u32) -> CreateMode {
    CreateMode::Guarded(AttributeChanges {
        mode: Some(mode),
        ..AttributeChanges::default()
    })
}

impl Names {
    fn over(store: Box<dyn MetaStore>, folder: Option<tempfile::TempDir>) -> Names {
        let names = Names {
            store,
            clock: Cell::new(1),
            has_room: Cell::new(true),
            kept: RefCell::default(),
            _folder: folder,
        };
        names
            .change(SUPERUSER, |it, request| namespace::format(it, request.now))
            .unwrap();
        let open = AttributeChanges {
            mode: Some(0o777),
            ..AttributeChanges::default()
        };
        names.set(SUPERUSER, ROOT, &open).unwrap();
        names
    }

    fn change<T>(
        &self,
        by: User,
        work: impl Fn(&mut dyn Transaction, Request<'_>) -> Outcome<T>,
    ) -> Result<T, Status> {
        self.clock.set(self.clock.get() + 1);
        let now = Timestamp {
            seconds: self.clock.get(),
            nanoseconds: 0,
        };
        let caller = by.caller();
        let mut outcome = None;
        let intents = std::cell::RefCell::default();
        let request = Request {
            caller: &caller,
            now,
            intents: &intents,
            has_room: self.has_room.get(),
            kept: &self.kept.borrow(),
        };
        self.store
            .commit(&mut |transaction| {
                outcome = Some(work(transaction, request));
                Ok(())
            })
            .unwrap();
        status(outcome.unwrap())
    }

    fn look<T>(&self, look: impl Fn(&dyn View) -> Outcome<T>) -> Result<T, Status> {
        let mut outcome = None;
        self.store
            .read(&mut |view| outcome = Some(look(view)))
            .unwrap();
        status(outcome.unwrap())
    }

    fn create(
        &self,
        by: User,
        at: FileId,
        name: &str,
        mode: &CreateMode,
    ) -> Result<FileId, Status> {
        self.change(by, |it, request| {
            let name = name.as_bytes();
            let opened = namespace::create(it, request, at, name, mode, &mut |_| layout())?;
            Ok(opened.id)
        })
    }

    fn make(&self, by: User, at: FileId, name: &str, what: Make<'_>) -> Result<FileId, Status> {
        let attributes = AttributeChanges::default();
        self.change(by, |it, request| {
            namespace::make(it, request, at, name.as_bytes(), what, &attributes).map(|made| made.0)
        })
    }

    fn directory(&self, by: User, at: FileId, name: &str) -> FileId {
        self.make(by, at, name, Make::Directory).unwrap()
    }

    fn set(&self, by: User, file: FileId, change: &AttributeChanges) -> Result<Inode, Status> {
        self.change(by, |it, request| {
            namespace::set_attributes(it, request, file, change, None, Timestamp::default())
                .map(|(inode, _)| inode)
        })
    }

    fn remove(&self, by: User, at: FileId, name: &str) -> Result<(), Status> {
        self.change(by, |it, request| {
            namespace::remove(it, request, at, name.as_bytes())
        })
    }

    fn remove_directory(&self, by: User, at: FileId, name: &str) -> Result<(), Status> {
        self.change(by, |it, request| {
            namespace::remove_directory(it, request, at, name.as_bytes())
        })
    }

    fn rename(
        &self,
        by: User,
        from: FileId,
        old: &str,
        to: FileId,
        new: &str,
    ) -> Result<(), Status> {
        self.change(by, |it, request| {
            namespace::rename(it, request, from, old.as_bytes(), to, new.as_bytes())
        })
    }

    fn find(&self, by: User, at: FileId, name: &str) -> Result<(FileId, Inode), Status> {
        let caller = by.caller();
        self.look(|view| namespace::lookup(view, &caller, at, name.as_bytes()))
    }

    fn inode(&self, file: FileId) -> Result<Inode, Status> {
        self.look(|view| namespace::inode(view, file))
    }

    fn list(&self, at: FileId) -> Vec<String> {
        let caller = Caller::new(0, 0, &[]);
        let listed = std::cell::RefCell::new(Vec::new());
        let keep = |entry: Listed| {
            listed
                .borrow_mut()
                .push(String::from_utf8(entry.name).unwrap());
            true
        };
        let complete = self.look(|view| namespace::list(view, &caller, at, 0, &mut { keep }));
        assert_eq!(complete, Ok(true));
        listed.into_inner()
    }

    fn intents(&self) -> Vec<Intent> {
        let open = self.look(|view| namespace::intents(view)).unwrap();
        open.into_iter().map(|(_, intent)| intent).collect()
    }
}

fn status<T>(outcome: Outcome<T>) -> Result<T, Status> {
    outcome.map_err(|failure| match failure {
        Failure::Status(status) => status,
        other => panic!("{other}"),
    })
}

#[test]
fn a_file_is_made_found_listed_and_removed() {
    both(|names| {
        let file = names.create(ANN, ROOT, "file", &guarded(0o640)).unwrap();
        let (found, inode) = names.find(BOB, ROOT, "file").unwrap();
        assert_eq!((found, inode.kind()), (file, FileKind::Regular));
        assert_eq!(
            (inode.mode, inode.uid, inode.gid, inode.links),
            (0o640, 1000, 1000, 1)
        );
        assert_eq!(names.list(ROOT), [".", "..", "file"]);
        assert_eq!(
            names.create(BOB, ROOT, "file", &guarded(0o600)),
            Err(Status::Exist)
        );
        names.remove(BOB, ROOT, "file").unwrap();
        assert_eq!(
            names.find(ANN, ROOT, "file").map(|_| ()),
            Err(Status::Noent)
        );
        assert_eq!(names.inode(file), Err(Status::Stale));
        assert_eq!(
            names.intents(),
            [Intent::Unlink {
                file,
                layout: layout()
            }],
            "its objects must go"
        );
        assert_eq!(names.list(ROOT), [".", ".."]);
    });
}

#[test]
fn exclusive_creation_knows_its_own_work() {
    both(|names| {
        let ours = CreateMode::Exclusive(*b"attempt1");
        let file = names.create(ANN, ROOT, "lock", &ours).unwrap();
        assert_eq!(
            names.create(ANN, ROOT, "lock", &ours),
            Ok(file),
            "sent again"
        );
        let theirs = CreateMode::Exclusive(*b"attempt2");
        assert_eq!(names.create(BOB, ROOT, "lock", &theirs), Err(Status::Exist));
    });
}

#[test]
fn opening_an_existing_file_changes_nothing() {
    both(|names| {
        let file = names.create(ANN, ROOT, "file", &guarded(0o640)).unwrap();
        let open = AttributeChanges {
            mode: Some(0o777),
            ..AttributeChanges::default()
        };
        for anybody in [ANN, BOB] {
            let opened = names.create(anybody, ROOT, "file", &CreateMode::Unchecked(open));
            assert_eq!(opened, Ok(file));
        }
        assert_eq!(names.inode(file).unwrap().mode, 0o640);
        // Who cuts a file says which.
        let cut = AttributeChanges {
            size: Some(0),
            ..open
        };
        let refused = names.create(ANN, ROOT, "file", &CreateMode::Unchecked(cut));
        assert_eq!(refused, Err(Status::Inval));
        assert_eq!(names.intents(), []);
    });
}

#[test]
fn only_owners_change_what_is_theirs() {
    both(|names| {
        let file = names.create(ANN, ROOT, "file", &guarded(0o6755)).unwrap();
        let mode = |mode| AttributeChanges {
            mode: Some(mode),
            ..AttributeChanges::default()
        };
        let owner = |uid| AttributeChanges {
            uid: Some(uid),
            ..AttributeChanges::default()
        };
        let read = |access_time| AttributeChanges {
            access_time,
            ..AttributeChanges::default()
        };
        assert_eq!(names.set(BOB, file, &mode(0o777)), Err(Status::Perm));
        assert_eq!(names.set(ANN, file, &owner(1001)), Err(Status::Perm));
        assert_eq!(
            names.set(BOB, file, &read(SetTimestamp::To(Timestamp::default()))),
            Err(Status::Perm)
        );
        assert_eq!(
            names.set(BOB, file, &read(SetTimestamp::Now)),
            Err(Status::Acces)
        );
        assert_eq!(
            names.set(ANN, file, &owner(1000)).unwrap().mode,
            0o755,
            "no setuid after a chown"
        );
        assert_eq!(names.set(SUPERUSER, file, &owner(1001)).unwrap().uid, 1001);
        names.set(BOB, file, &mode(0o600)).unwrap();
    });
}

#[test]
fn set_id_bits_go_when_the_owner_or_the_bytes_change() {
    both(|names| {
        let mode = |mode| AttributeChanges {
            mode: Some(mode),
            ..AttributeChanges::default()
        };
        let owner = AttributeChanges {
            gid: Some(1000),
            ..AttributeChanges::default()
        };
        let size = AttributeChanges {
            size: Some(7),
            ..AttributeChanges::default()
        };
        let file = names.create(ANN, ROOT, "file", &guarded(0o644)).unwrap();
        for (by, change, before, after) in [
            (SUPERUSER, owner, 0o6755, 0o755),
            (SUPERUSER, owner, 0o6745, 0o2745),
            (ANN, owner, 0o6745, 0o2745),
            (ANN, size, 0o6755, 0o755),
            (SUPERUSER, size, 0o6755, 0o6755),
            (BOB, size, 0o6646, 0o646),
        ] {
            names.set(SUPERUSER, file, &mode(before)).unwrap();
            let set = names.set(by, file, &change).unwrap();
            assert_eq!(set.mode, after, "{before:o} by {by:?}: {:o}", set.mode);
        }
        // As chown(2) and then chmod(2).
        let both = AttributeChanges {
            mode: Some(0o4755),
            ..owner
        };
        assert_eq!(names.set(SUPERUSER, file, &both).unwrap().mode, 0o4755);
        let directory = names.directory(ANN, ROOT, "directory");
        names.set(ANN, directory, &mode(0o2755)).unwrap();
        let kept = names.set(SUPERUSER, directory, &owner).unwrap();
        assert_eq!(kept.mode, 0o2755, "a directory is no program");
    });
}

#[test]
fn the_set_group_id_bit_needs_a_member_of_the_group_or_root() {
    both(|names| {
        let shared = names.directory(SUPERUSER, ROOT, "shared");
        let open = AttributeChanges {
            mode: Some(0o2777),
            gid: Some(77),
            ..AttributeChanges::default()
        };
        names.set(SUPERUSER, shared, &open).unwrap();
        let made = |by, name| {
            let file = names.create(by, shared, name, &guarded(0o2755)).unwrap();
            let inode = names.look(|view| namespace::inode(view, file)).unwrap();
            (file, inode.gid, inode.mode)
        };
        let member = User { gid: 77, ..ANN };
        let (file, gid, mode) = made(ANN, "of-a-stranger");
        assert_eq!((gid, mode), (77, 0o755));
        assert_eq!(made(member, "of-a-member").2, 0o2755);
        assert_eq!(made(SUPERUSER, "of-root").2, 0o2755);
        let again = AttributeChanges {
            mode: Some(0o2755),
            ..AttributeChanges::default()
        };
        assert_eq!(names.set(ANN, file, &again).unwrap().mode, 0o755);
    });
}

#[test]
fn nothing_belongs_to_the_user_that_stands_for_no_change() {
    both(|names| {
        let nobody = [
            AttributeChanges {
                uid: Some(u32::MAX),
                ..AttributeChanges::default()
            },
            AttributeChanges {
                gid: Some(u32::MAX),
                ..AttributeChanges::default()
            },
        ];
        let file = names.create(ANN, ROOT, "file", &guarded(0o644)).unwrap();
        for change in nobody {
            assert_eq!(names.set(SUPERUSER, file, &change), Err(Status::Inval));
            let made = names.create(SUPERUSER, ROOT, "new", &CreateMode::Guarded(change));
            assert_eq!(made, Err(Status::Inval));
        }
    });
}

#[test]
fn rights_are_asked_for_at_every_step() {
    both(|names| {
        let home = names.directory(ANN, ROOT, "home");
        names.create(ANN, home, "file", &guarded(0o600)).unwrap();
        assert_eq!(
            names.create(BOB, home, "other", &guarded(0o600)),
            Err(Status::Acces)
        );
        assert_eq!(names.remove(BOB, home, "file"), Err(Status::Acces));
        let closed = AttributeChanges {
            mode: Some(0o700),
            ..AttributeChanges::default()
        };
        names.set(ANN, home, &closed).unwrap();
        assert_eq!(
            names.find(BOB, home, "file").map(|_| ()),
            Err(Status::Acces)
        );
        let (bob, wanted) = (Caller::new(1001, 1001, &[]), AccessMask(0x3f));
        let granted = names
            .look(|view| namespace::access(view, &bob, home, wanted))
            .unwrap();
        assert_eq!(granted.0, AccessMask(0));
    });
}

#[test]
fn a_sticky_directory_protects_what_others_put_there() {
    both(|names| {
        let shared = names.directory(SUPERUSER, ROOT, "shared");
        let sticky = AttributeChanges {
            mode: Some(0o1777),
            ..AttributeChanges::default()
        };
        names.set(SUPERUSER, shared, &sticky).unwrap();
        names.create(ANN, shared, "anns", &guarded(0o666)).unwrap();
        assert_eq!(names.remove(BOB, shared, "anns"), Err(Status::Perm));
        assert_eq!(
            names.rename(BOB, shared, "anns", ROOT, "mine"),
            Err(Status::Perm)
        );
        names.remove(ANN, shared, "anns").unwrap();
    });
}

#[test]
fn directories_count_what_is_in_them() {
    both(|names| {
        let outer = names.directory(ANN, ROOT, "outer");
        let inner = names.directory(ANN, outer, "inner");
        assert_eq!(names.inode(outer).unwrap().links, 3);
        assert_eq!(names.find(ANN, inner, "..").unwrap().0, outer);
        assert_eq!(names.find(ANN, ROOT, "..").unwrap().0, ROOT);
        assert_eq!(
            names.remove_directory(ANN, ROOT, "outer"),
            Err(Status::Notempty)
        );
        assert_eq!(names.remove(ANN, ROOT, "outer"), Err(Status::Isdir));
        names.remove_directory(ANN, outer, "inner").unwrap();
        names.remove_directory(ANN, ROOT, "outer").unwrap();
        assert_eq!(names.inode(ROOT).unwrap().links, 2);
        assert_eq!(names.intents(), [], "directories have no objects");
    });
}

#[test]
fn a_file_with_two_names_loses_its_objects_with_the_second() {
    both(|names| {
        let file = names.create(ANN, ROOT, "one", &guarded(0o600)).unwrap();
        names
            .change(ANN, |it, request| {
                namespace::link(it, request, file, ROOT, b"two")
            })
            .unwrap();
        assert_eq!(names.inode(file).unwrap().links, 2);
        names.remove(ANN, ROOT, "one").unwrap();
        assert_eq!(
            (names.intents().len(), names.inode(file).unwrap().links),
            (0, 1)
        );
        names.remove(ANN, ROOT, "two").unwrap();
        assert_eq!(names.intents().len(), 1);
    });
}

#[test]
fn on_a_full_disk_nothing_is_made_and_all_else_goes_on() {
    both(|names| {
        let (exclusive, guarded) = (CreateMode::Exclusive([1; 8]), guarded(0o644));
        let file = names.create(ANN, ROOT, "file", &exclusive).unwrap();
        let make = |name: &str, what| {
            names.change(ANN, |it, request| {
                let (name, plain) = (name.as_bytes(), AttributeChanges::default());
                namespace::make(it, request, ROOT, name, what, &plain)
            })
        };
        let link = || {
            names.change(ANN, |it, request| {
                namespace::link(it, request, file, ROOT, b"linked")
            })
        };
        make("directory", Make::Directory).unwrap();
        names.has_room.set(false);
        let whole = |it: &Names| it.look(|view| namespace::inode(view, ROOT)).unwrap();
        let before = whole(names);
        let refused = [
            names.create(ANN, ROOT, "new", &guarded).map(drop),
            make("new", Make::Directory).map(drop),
            make("new", Make::Symlink(b"file")).map(drop),
            make("new", Make::Node(NodeKind::Fifo)).map(drop),
            link().map(drop),
        ];
        assert_eq!(refused, [Err(Status::Nospc); 5]);
        // What is wrong in any case is told.
        let there = names.create(ANN, ROOT, "file", &guarded);
        assert_eq!(there, Err(Status::Exist));
        assert_eq!(whole(names), before);
        // One that is there may be opened, also by who made it and was not told.
        assert_eq!(names.create(ANN, ROOT, "file", &exclusive), Ok(file));
        let change = AttributeChanges {
            mode: Some(0o600),
            ..AttributeChanges::default()
        };
        names.set(ANN, file, &change).unwrap();
        names
            .change(ANN, |it, request| {
                namespace::rename(it, request, ROOT, b"file", ROOT, b"moved")?;
                namespace::remove(it, request, ROOT, b"moved")?;
                namespace::remove_directory(it, request, ROOT, b"directory")
            })
            .unwrap();
        names.has_room.set(true);
        names.create(ANN, ROOT, "new", &guarded).unwrap();
    });
}

#[test]
fn a_kept_file_outlives_its_last_name_until_it_is_forgotten() {
    both(|names| {
        let unnamed = || names.look(namespace::unnamed).unwrap();
        let file = names.create(ANN, ROOT, "file", &guarded(0o600)).unwrap();
        let other = names.create(ANN, ROOT, "other", &guarded(0o600)).unwrap();
        names.kept.replace(KeptFiles::These([file, other].into()));
        names
            .change(ANN, |it, request| {
                namespace::remove(it, request, ROOT, b"file")?;
                namespace::rename(it, request, ROOT, b"other", ROOT, b"moved")
            })
            .unwrap();
        assert_eq!(unnamed(), [file].into(), "the other one has a name");
        let links = || names.look(|view| Ok(namespace::inode(view, file)?.links));
        assert_eq!((links(), names.intents()), (Ok(0), vec![]));
        let findings = names.look(|view| Ok(gannet_meta::check::survey(view)?.findings));
        assert_eq!(findings.unwrap(), Vec::<String>::new());
        // As linkat(2) of a file without links.
        let linked = names.change(ANN, |it, request| {
            namespace::link(it, request, file, ROOT, b"again")
        });
        assert_eq!(linked.err(), Some(Status::Noent));
        for _ in 0..2 {
            names
                .change(SUPERUSER, |it, request| {
                    namespace::forget_unnamed(it, request, file)?;
                    namespace::forget_unnamed(it, request, other)
                })
                .unwrap();
        }
        assert_eq!(links(), Err(Status::Stale));
        let layout = layout();
        assert_eq!(names.intents(), [Intent::Unlink { file, layout }]);
        assert_eq!(
            (unnamed(), names.find(ANN, ROOT, "moved").unwrap().0),
            ([].into(), other)
        );
    });
}

#[test]
fn rename_replaces_what_may_be_replaced() {
    both(|names| {
        let file = names.create(ANN, ROOT, "file", &guarded(0o600)).unwrap();
        let old = names.create(ANN, ROOT, "old", &guarded(0o600)).unwrap();
        let empty = names.directory(ANN, ROOT, "empty");
        names.rename(ANN, ROOT, "file", ROOT, "old").unwrap();
        assert_eq!(names.find(ANN, ROOT, "old").unwrap().0, file);
        assert_eq!(
            names.intents(),
            [Intent::Unlink {
                file: old,
                layout: layout()
            }]
        );
        assert_eq!(
            names.rename(ANN, ROOT, "old", ROOT, "empty"),
            Err(Status::Isdir)
        );
        assert_eq!(
            names.rename(ANN, ROOT, "empty", ROOT, "old"),
            Err(Status::Notdir)
        );
        names.rename(ANN, ROOT, "old", empty, "deep").unwrap();
        assert_eq!(
            names.rename(ANN, ROOT, "empty", ROOT, "empty"),
            Ok(()),
            "onto itself"
        );
        let other = names.directory(ANN, ROOT, "other");
        assert_eq!(
            names.rename(ANN, ROOT, "other", ROOT, "empty"),
            Err(Status::Notempty)
        );
        names.rename(ANN, ROOT, "empty", other, "moved").unwrap();
        assert_eq!(names.find(ANN, empty, "..").unwrap().0, other);
        assert_eq!(names.inode(other).unwrap().links, 3);
        assert_eq!(names.list(ROOT), [".", "..", "other"]);
    });
}

#[test]
fn a_directory_never_comes_to_lie_in_itself() {
    both(|names| {
        let a = names.directory(ANN, ROOT, "a");
        let b = names.directory(ANN, a, "b");
        let c = names.directory(ANN, b, "c");
        assert_eq!(names.rename(ANN, ROOT, "a", c, "a"), Err(Status::Inval));
        assert_eq!(names.rename(ANN, ROOT, "a", a, "a"), Err(Status::Inval));
        assert_eq!(names.find(ANN, a, "..").unwrap().0, ROOT);
    });
}

#[test]
fn bad_names_are_refused() {
    both(|names| {
        let long = "x".repeat(256);
        for (name, status) in [
            ("", Status::Inval),
            (".", Status::Inval),
            ("..", Status::Inval),
            ("a/b", Status::Inval),
            ("a\0b", Status::Inval),
            (&long, Status::Nametoolong),
        ] {
            assert_eq!(names.create(ANN, ROOT, name, &guarded(0o600)), Err(status));
            assert_eq!(names.make(ANN, ROOT, name, Make::Directory), Err(status));
            assert_eq!(names.remove(ANN, ROOT, name), Err(status));
            assert_eq!(names.rename(ANN, ROOT, name, ROOT, "x"), Err(status));
        }
        assert_eq!(names.list(ROOT), [".", ".."]);
    });
}

#[test]
fn new_files_of_a_setgid_directory_belong_to_its_group() {
    both(|names| {
        let team = names.directory(SUPERUSER, ROOT, "team");
        let shared = AttributeChanges {
            mode: Some(0o2777),
            gid: Some(77),
            ..AttributeChanges::default()
        };
        names.set(SUPERUSER, team, &shared).unwrap();
        let file = names.create(ANN, team, "file", &guarded(0o644)).unwrap();
        assert_eq!(names.inode(file).unwrap().gid, 77);
        let inner = names.directory(ANN, team, "inner");
        let inode = names.inode(inner).unwrap();
        assert_eq!((inode.gid, inode.mode & 0o2000), (77, 0o2000));
        assert!(matches!(inode.body, Body::Directory { parent, .. } if parent == team));
    });
}

#[test]
fn a_file_made_without_a_mode_has_the_default_of_its_kind() {
    both(|names| {
        for (what, mode) in [
            (Make::Directory, 0o755),
            (Make::Symlink(b"to"), 0o777),
            (Make::Node(NodeKind::Fifo), 0o644),
        ] {
            let made = names.make(ANN, ROOT, &format!("{mode:o}"), what).unwrap();
            assert_eq!(names.inode(made).unwrap().mode, mode);
        }
    });
}

#[test]
fn a_guard_stops_a_change_of_what_has_changed() {
    both(|names| {
        let file = names.create(ANN, ROOT, "file", &guarded(0o600)).unwrap();
        let seen = names.inode(file).unwrap().change_time;
        let mode = |mode| AttributeChanges {
            mode: Some(mode),
            ..AttributeChanges::default()
        };
        let guarded = |change, guard| {
            names.change(ANN, |it, request| {
                namespace::set_attributes(
                    it,
                    request,
                    file,
                    &change,
                    Some(guard),
                    Timestamp::default(),
                )
                .map(|_| ())
            })
        };
        assert_eq!(guarded(mode(0o640), seen), Ok(()));
        assert_eq!(guarded(mode(0o644), seen), Err(Status::NotSync));
        assert_eq!(names.inode(file).unwrap().mode, 0o640);
    });
}
