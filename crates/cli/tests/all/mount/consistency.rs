//! Programs of one host, of two hosts and of two users with one file: what each sees, and when.

use super::MODES;
use super::support::mount::{Mount, is_left_out};
use super::support::{Place, Server, succeed};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A user other than root, who owns no file.
const USER: u32 = 54_321;
/// The time within which a change of another host is seen: the age of attributes, doubled for a busy machine.
const SEEN_WITHIN: Duration = Duration::from_secs(30);

/// An export and a volume, and two directories to mount them on as two hosts do.
pub(super) struct Faces {
    pub(super) place: Place,
    export: Server,
    volume: Server,
}

/// Two mounts of one file system.
pub(super) struct Hosts<'a> {
    pub(super) one: &'a Mount,
    pub(super) other: &'a Mount,
    pub(super) how: &'a str,
    /// The server of the export or the volume.
    server: &'a Server,
    pub(super) is_volume: bool,
    pub(super) is_direct: bool,
}

impl Faces {
    /// With options for the server of the export.
    fn with(options: &[&str]) -> Faces {
        let place = Place::new();
        fs::set_permissions(place.path(""), Permissions::from_mode(0o755)).unwrap();
        let share = place.text("share");
        let options = [&[share.as_str()], options].concat();
        let export = Server::start(&place.path("state"), &options);
        let volume = place.text("volume");
        succeed(&["volume", "create", &volume, "--io-servers", "2"]);
        let native = ["--native", "127.0.0.1:0"];
        let volume = Server::with(&[&["--volume", &volume][..], &native].concat());
        fs::create_dir(place.path("other")).unwrap();
        Faces {
            place,
            export,
            volume,
        }
    }

    pub(super) fn new() -> Faces {
        Faces::with(&["--no-root-squash"])
    }

    /// Has `story` done with two mounts of the export and of the volume, cached and not.
    pub(super) fn with_each(&self, story: impl Fn(&Hosts<'_>)) {
        let key = self.place.text("volume/client-key");
        let native = format!("gannet://{}/", self.volume.native);
        let [tcp, rdma] = self.export.urls();
        for mode in MODES {
            for (one, other, is_volume) in [(&rdma, &tcp, false), (&native, &native, true)] {
                let key: &[&str] = if is_volume {
                    &["--volume-key", &key]
                } else {
                    &[]
                };
                let options = [key, mode, &["--allow-other", "--timeout", "120"]].concat();
                let first = Mount::of(one, &self.place.path("mnt"), &options);
                let second = Mount::of(other, &self.place.path("other"), &options);
                story(&Hosts {
                    one: &first,
                    other: &second,
                    how: &format!("{one} {mode:?}"),
                    server: if is_volume {
                        &self.volume
                    } else {
                        &self.export
                    },
                    is_volume,
                    is_direct: mode == ["--direct"],
                });
                first.unmount();
                second.unmount();
            }
        }
    }
}

/// Repeats `look` until it is true.
fn eventually(what: &str, mut look: impl FnMut() -> bool) {
    let since = Instant::now();
    while !look() {
        assert!(since.elapsed() < SEEN_WITHIN, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Has a user other than root run a script in a mounted directory; whether it succeeded.
fn user_can(mount: &Mount, script: &str) -> bool {
    let mut shell = Command::new("sh");
    shell.args(["-ec", script]).current_dir(mount.path(""));
    shell.uid(USER).gid(USER).stdin(Stdio::null());
    shell.stderr(Stdio::null()).stdout(Stdio::null());
    shell.status().unwrap().success()
}

#[test]
fn a_counter_under_locks_of_two_hosts_loses_nothing() {
    const ROUNDS: u64 = 60;
    if is_left_out() {
        return;
    }
    Faces::new().with_each(|hosts| {
        if !hosts.is_volume {
            // Locks of an NFS mount hold on its own host alone.
            return;
        }
        fs::write(hosts.one.path("counter"), 0_u64.to_le_bytes()).unwrap();
        // Descriptors stay open: nothing but the lock says that the file may have changed.
        let count = |mount: &Mount| {
            let mut options = OpenOptions::new();
            let open = options.read(true).write(true).open(mount.path("counter"));
            let file = open.unwrap();
            for _ in 0..ROUNDS {
                file.lock().unwrap();
                let mut bytes = [0; 8];
                file.read_exact_at(&mut bytes, 0).unwrap();
                let next = u64::from_le_bytes(bytes) + 1;
                file.write_all_at(&next.to_le_bytes(), 0).unwrap();
                file.unlock().unwrap();
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| count(hosts.one));
            scope.spawn(|| count(hosts.other));
        });
        let counted = fs::read(hosts.one.path("counter")).unwrap();
        assert_eq!(counted, (2 * ROUNDS).to_le_bytes(), "{}", hosts.how);
    });
}

/// The number gets another digit twice: the length changes under the lock of the other host.
#[test]
fn a_number_that_grows_under_locks_of_two_hosts_is_read_whole() {
    if is_left_out() {
        return;
    }
    Faces::new().with_each(|hosts| {
        if !hosts.is_volume {
            return;
        }
        let open = |mount: &Mount| {
            let mut options = OpenOptions::new();
            let open = options.create(true).truncate(false).read(true).write(true);
            open.open(mount.path("number")).unwrap()
        };
        let files = [open(hosts.one), open(hosts.other)];
        for turn in 1..=120_u32 {
            let file = &files[(turn % 2) as usize];
            file.lock().unwrap();
            let mut bytes = [0; 16];
            let len = file.read_at(&mut bytes, 0).unwrap();
            let read = String::from_utf8_lossy(&bytes[..len]);
            let number = read.parse::<u32>().unwrap_or_default() + 1;
            assert_eq!(number, turn, "{read:?} {}", hosts.how);
            file.write_all_at(number.to_string().as_bytes(), 0).unwrap();
            file.unlock().unwrap();
        }
        fs::remove_file(hosts.one.path("number")).unwrap();
    });
}

/// As databases do: the head is read under one lock, and the page behind the former end under the next.
#[test]
fn pages_of_another_host_are_whole_under_the_second_lock() {
    const PAGE: u64 = 4096;
    if is_left_out() {
        return;
    }
    Faces::new().with_each(|hosts| {
        if !hosts.is_volume {
            return;
        }
        let open = |mount: &Mount| {
            let mut options = OpenOptions::new();
            let open = options.create(true).truncate(false).read(true).write(true);
            open.open(mount.path("pages")).unwrap()
        };
        let files = [open(hosts.one), open(hosts.other)];
        files[0].write_all_at(&[1; PAGE as usize], 0).unwrap();
        files[0].sync_all().unwrap();
        for pages in 1..40_u8 {
            let file = &files[usize::from(pages % 2)];
            file.lock_shared().unwrap();
            let mut head = [0; 16];
            file.read_exact_at(&mut head, 0).unwrap();
            assert_eq!(head, [pages; 16], "{}", hosts.how);
            let len = u64::from(pages) * PAGE;
            assert_eq!(file.metadata().unwrap().len(), len, "{}", hosts.how);
            file.lock().unwrap();
            file.read_exact_at(&mut head, 0).unwrap();
            let mut last = [0; PAGE as usize];
            let read = file.read_at(&mut last, len - PAGE).unwrap();
            let expected = (PAGE as usize, [pages; PAGE as usize]);
            assert!((read, last) == expected, "{read} of {pages} {}", hosts.how);
            let next = [pages + 1; PAGE as usize];
            file.write_all_at(&next, len).unwrap();
            file.write_all_at(&next, 0).unwrap();
            file.unlock().unwrap();
        }
        fs::remove_file(hosts.one.path("pages")).unwrap();
    });
}

#[test]
fn a_program_that_follows_a_file_sees_what_another_host_appends() {
    if is_left_out() {
        return;
    }
    Faces::new().with_each(|hosts| {
        let (here, there) = (hosts.one.path("log"), hosts.other.path("log"));
        fs::write(&here, "start\n").unwrap();
        // As `tail -f`: it reads on at the end, and never opens anew.
        let mut follows = File::open(&here).unwrap();
        let (mut seen, mut expected) = (String::new(), String::from("start\n"));
        for round in 0..3 {
            for (path, host) in [(&there, "other"), (&here, "own")] {
                let line = format!("{host} {round}\n");
                let mut log = OpenOptions::new().append(true).open(path).unwrap();
                log.write_all(line.as_bytes()).unwrap();
                drop(log);
                expected += &line;
                eventually(hosts.how, || {
                    follows.read_to_string(&mut seen).unwrap();
                    seen.len() >= expected.len()
                });
                assert_eq!(seen, expected, "{}", hosts.how);
            }
        }
        assert_eq!(fs::read_to_string(&there).unwrap(), expected);
    });
}

/// The kernel answers such reads from its pages and asks nobody.
#[test]
fn a_program_that_reads_inside_the_length_it_knows_sees_what_another_host_writes() {
    if is_left_out() {
        return;
    }
    Faces::new().with_each(|hosts| {
        let (here, there) = (hosts.one.path("fixed"), hosts.other.path("fixed"));
        fs::write(&here, "0 of a length that stays").unwrap();
        let held = File::open(&here).unwrap();
        for round in 1..4u8 {
            // A lock that it has held and released changes nothing.
            if round == 2 {
                held.lock().unwrap();
                held.unlock().unwrap();
            }
            let first = OpenOptions::new().write(true).open(&there).unwrap();
            first.write_all_at(&[b'0' + round], 0).unwrap();
            drop(first);
            eventually(hosts.how, || {
                let mut seen = [0];
                held.read_exact_at(&mut seen, 0).unwrap();
                seen[0] == b'0' + round
            });
        }
    });
}

#[test]
fn a_file_held_open_here_and_rewritten_elsewhere_is_read_anew_at_the_next_open() {
    if is_left_out() {
        return;
    }
    Faces::new().with_each(|hosts| {
        let (here, there) = (hosts.one.path("held"), hosts.other.path("held"));
        fs::write(&here, "a long first text").unwrap();
        let held = File::open(&here).unwrap();
        assert_eq!(fs::read_to_string(&here).unwrap(), "a long first text");
        for text in ["short", "a text of more bytes than ever before", "s"] {
            fs::write(&there, text).unwrap();
            assert_eq!(fs::read_to_string(&here).unwrap(), text, "{}", hosts.how);
        }
        drop(held);
    });
}

#[test]
fn who_may_write_and_not_read_writes_inside_a_page_and_at_the_end() {
    if is_left_out() || !gannet_testing::is_root() {
        return;
    }
    Faces::new().with_each(|hosts| {
        let drop_box = hosts.one.path("box");
        fs::write(&drop_box, "0123456789").unwrap();
        fs::set_permissions(&drop_box, Permissions::from_mode(0o622)).unwrap();
        let how = hosts.how;
        let inside = "printf ab | dd of=box bs=1 seek=3 conv=notrunc";
        assert!(user_can(hosts.one, inside), "{how}");
        assert!(user_can(hosts.one, "printf x >> box"), "{how}");
        assert!(!user_can(hosts.one, "cat box"), "{how}");
        assert_eq!(
            fs::read_to_string(&drop_box).unwrap(),
            "012ab56789x",
            "{how}"
        );
        fs::remove_file(&drop_box).unwrap();
    });
}

#[test]
fn a_user_whom_the_server_refuses_is_told_at_the_open_and_changes_nothing() {
    if is_left_out() || !gannet_testing::is_root() {
        return;
    }
    Faces::new().with_each(|hosts| {
        let (here, there) = (hosts.one.path("file"), hosts.other.path("file"));
        fs::write(&here, "content").unwrap();
        fs::set_permissions(&here, Permissions::from_mode(0o666)).unwrap();
        assert!(user_can(hosts.one, "cat file; : >> file"), "{}", hosts.how);
        // This host goes on believing the old mode for a second.
        fs::set_permissions(&there, Permissions::from_mode(0o600)).unwrap();
        for script in [
            "cat file",
            "echo bad > file",
            "echo bad >> file",
            "echo bad 1<> file",
        ] {
            assert!(!user_can(hosts.one, script), "{script} {}", hosts.how);
        }
        assert_eq!(
            fs::read_to_string(&here).unwrap(),
            "content",
            "{}",
            hosts.how
        );
        fs::remove_file(&here).unwrap();
    });
    for options in [&["--read-only", "--no-root-squash"][..], &[]] {
        let faces = Faces::with(options);
        let shared = faces.place.path("share/file");
        fs::write(&shared, "content").unwrap();
        fs::set_permissions(&shared, Permissions::from_mode(0o644)).unwrap();
        faces.with_each(|hosts| {
            if hosts.is_volume {
                return;
            }
            // The kernel would let root write: the server squashes it, or exports for reading.
            let opened = OpenOptions::new().write(true).open(hosts.one.path("file"));
            let kind = opened.unwrap_err().kind();
            let refusals = [ErrorKind::PermissionDenied, ErrorKind::ReadOnlyFilesystem];
            assert!(refusals.contains(&kind), "{kind} {} {options:?}", hosts.how);
            assert_eq!(
                fs::read_to_string(hosts.one.path("file")).unwrap(),
                "content"
            );
        });
        assert_eq!(fs::read_to_string(&shared).unwrap(), "content");
    }
}

/// A script, run by a user with these supplementary groups; whether it succeeded.
fn member_can(mount: &Mount, groups: &str, script: &str) -> bool {
    let user = USER.to_string();
    let identity = ["--reuid", &user, "--regid", &user, "--groups", groups];
    let mut shell = Command::new("setpriv");
    shell.args(identity).args(["sh", "-ec", script]);
    shell.current_dir(mount.path("")).stdin(Stdio::null());
    shell.stderr(Stdio::null()).stdout(Stdio::null());
    shell.status().unwrap().success()
}

/// The kernel of the client sees a mode that admits the user. Only the server knows better.
#[test]
fn a_user_whom_acl_or_groups_of_the_server_refuse_is_told_at_the_open() {
    if is_left_out() || !gannet_testing::is_root() {
        return;
    }
    let many: Vec<String> = (70_001..=70_017).map(|it: u32| it.to_string()).collect();
    let groups = (many.join(","), 70_017);
    for options in [
        &["--no-root-squash"][..],
        &["--no-root-squash", "--manage-gids"],
    ] {
        let faces = Faces::with(options);
        let is_managed = options.contains(&"--manage-gids");
        let shared = |name: &str| faces.place.path("share").join(name);
        for name in ["acl", "one group", "many groups"] {
            fs::write(shared(name), "content").unwrap();
            chown(shared(name), Some(0), Some(groups.1)).unwrap();
            fs::set_permissions(shared(name), Permissions::from_mode(0o660)).unwrap();
        }
        let has_acl = deny_by_acl(&shared("acl"));
        if !has_acl {
            gannet_testing::left_out("a file system with ACLs");
        }
        faces.with_each(|hosts| {
            if hosts.is_volume {
                return;
            }
            let mount = hosts.one;
            let last = groups.1.to_string();
            // The sixteen groups of a call have no room for the last one; `--manage-gids` asks the server's own list.
            for (name, groups, is_admitted) in [
                ("one group", &last, !is_managed),
                ("many groups", &groups.0, false),
            ] {
                let scripts = [
                    format!("cat '{name}'"),
                    format!("echo bad >> '{name}'; false"),
                ];
                let read = member_can(mount, groups, &scripts[0]);
                assert_eq!(read, is_admitted, "{name} {} {options:?}", hosts.how);
                if !is_admitted {
                    assert!(!member_can(mount, groups, &scripts[1]));
                }
            }
            if has_acl {
                for script in ["cat acl", "echo bad > acl", "echo bad >> acl"] {
                    assert!(!user_can(mount, script), "{script} {}", hosts.how);
                }
            }
        });
        for name in ["acl", "many groups"] {
            assert_eq!(fs::read_to_string(shared(name)).unwrap(), "content");
        }
    }
}

/// Gives a file mode 0666 and an ACL that denies it to [`USER`]; false where the file system has no ACLs.
fn deny_by_acl(file: &std::path::Path) -> bool {
    fs::set_permissions(file, Permissions::from_mode(0o666)).unwrap();
    // acl(5): the owner, the user, the group, the mask, others.
    let entries = [(1, 6, 0), (2, 0, USER), (4, 6, 0), (16, 6, 0), (32, 6, 0)];
    let mut value = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        value.extend(u16::to_le_bytes(tag));
        value.extend(u16::to_le_bytes(rights));
        let id = if tag == 2 { id } else { u32::MAX };
        value.extend(id.to_le_bytes());
    }
    let name = "system.posix_acl_access";
    let set = rustix::fs::setxattr(file, name, &value, rustix::fs::XattrFlags::empty());
    set.is_ok()
}

#[test]
fn a_program_without_right_to_read_it_runs() {
    if is_left_out() || !gannet_testing::is_root() {
        return;
    }
    Faces::new().with_each(|hosts| {
        let program = hosts.one.path("program");
        let Ok(copied) = fs::copy("/bin/true", &program) else {
            return;
        };
        assert!(copied > 0);
        fs::set_permissions(&program, Permissions::from_mode(0o711)).unwrap();
        assert!(user_can(hosts.one, "./program"), "{}", hosts.how);
        assert!(!user_can(hosts.one, "cat program"), "{}", hosts.how);
        chown(&program, Some(USER), None).unwrap();
        fs::remove_file(&program).unwrap();
    });
}

#[test]
fn a_killed_program_ends_although_the_server_is_silent() {
    if is_left_out() {
        return;
    }
    Faces::new().with_each(|hosts| {
        let made = hosts.one.path("made");
        hosts.server.signal("STOP");
        let mut waits = Command::new("mkdir").arg(&made).spawn().unwrap();
        // mkdir(2) is number 83 where this runs.
        let is_waiting = || {
            let call = fs::read_to_string(format!("/proc/{}/syscall", waits.id()));
            call.unwrap_or_default().starts_with("83 ") || !cfg!(target_arch = "x86_64")
        };
        eventually("it came to its wait", is_waiting);
        let since = Instant::now();
        waits.kill().unwrap();
        let ended = waits.wait().unwrap();
        // The mount waits for 120 s.
        let took = since.elapsed();
        hosts.server.signal("CONT");
        assert!(
            !ended.success() && took < SEEN_WITHIN,
            "{took:?} {}",
            hosts.how
        );
        let _ = fs::remove_dir(&made);
    });
}

/// execve(2) closes files, which waits for a silent server. The mount looks meanwhile whether the program was killed,
/// and that look must not wait for execve(2): nothing of the mount would ever answer again.
#[test]
fn a_program_that_starts_another_while_the_server_is_silent_goes_on() {
    if is_left_out() {
        return;
    }
    Faces::new().with_each(|hosts| {
        let mut file = File::create(hosts.one.path("open")).unwrap();
        file.write_all(b"content").unwrap();
        hosts.server.signal("STOP");
        let starting = std::thread::spawn(|| Command::new("true").status().unwrap());
        let since = Instant::now();
        let looked = || since.elapsed() > Duration::from_secs(1);
        eventually("the mount has looked several times", looked);
        hosts.server.signal("CONT");
        eventually("the program has started", || starting.is_finished());
        assert!(starting.join().unwrap().success(), "{}", hosts.how);
        drop(file);
        assert_eq!(fs::read(hosts.one.path("open")).unwrap(), b"content");
    });
}

#[test]
fn close_returns_before_the_server_has_the_bytes_where_it_may() {
    if is_left_out() {
        return;
    }
    let faces = Faces::new();
    let [url, _] = faces.export.urls();
    let options = ["--close", "async", "--timeout", "120"];
    let mount = Mount::of(&url, &faces.place.path("mnt"), &options);
    let mut file = File::create(mount.path("file")).unwrap();
    faces.export.signal("STOP");
    file.write_all(b"content").unwrap();
    // With `sync` it would wait until the server runs again, which is after this.
    drop(file);
    faces.export.signal("CONT");
    let shared = faces.place.path("share/file");
    eventually("the bytes leave by themselves", || {
        fs::read(&shared).is_ok_and(|bytes| bytes == b"content")
    });
    assert_eq!(fs::read(mount.path("file")).unwrap(), b"content");
    mount.unmount();
}

/// On a volume the file has no name from then on, so its directory can be removed too. NFS has no files without names.
#[test]
fn a_file_removed_while_open_stays_and_has_no_name_on_a_volume() {
    if is_left_out() {
        return;
    }
    Faces::new().with_each(|hosts| {
        let (mount, how) = (hosts.one, hosts.how);
        let names = |path: &str| fs::read_dir(mount.path(path)).unwrap().count();
        fs::create_dir(mount.path("d")).unwrap();
        let directory = File::open(mount.path("d")).unwrap();
        fs::write(mount.path("d/new"), "new").unwrap();
        let open = |path: &str| {
            let mut options = OpenOptions::new();
            let options = options.create(true).truncate(true).read(true).write(true);
            options.open(mount.path(path)).unwrap()
        };
        let (removed, replaced) = (open("d/removed"), open("d/replaced"));
        removed.write_all_at(b"before", 0).unwrap();
        replaced.write_all_at(b"before", 0).unwrap();
        fs::remove_file(mount.path("d/removed")).unwrap();
        fs::rename(mount.path("d/new"), mount.path("d/replaced")).unwrap();
        assert_eq!(fs::read(mount.path("d/replaced")).unwrap(), b"new", "{how}");
        for file in [&removed, &replaced] {
            file.write_all_at(b" and after", 6).unwrap();
            file.sync_all().unwrap();
            let mut bytes = [0; 16];
            file.read_exact_at(&mut bytes, 0).unwrap();
            assert_eq!(&bytes, b"before and after", "{how}");
            assert_eq!(file.metadata().unwrap().nlink(), 0, "{how}");
        }
        if hosts.is_volume {
            assert_eq!(names("d"), 1, "{how}");
            fs::remove_file(mount.path("d/replaced")).unwrap();
            fs::remove_dir(mount.path("d")).unwrap();
            assert_eq!(directory.metadata().unwrap().nlink(), 0, "{how}");
        } else {
            assert_eq!(names("d"), 3, "{how}");
            let with_names = fs::remove_dir_all(mount.path("d"));
            assert!(with_names.is_err(), "{how}");
        }
        drop((removed, replaced));
        let _ = fs::remove_dir_all(mount.path("d"));
        eventually(how, || {
            let _ = fs::remove_dir_all(mount.path("d"));
            !mount.path("d").exists()
        });
    });
}

#[test]
fn a_directory_goes_right_after_the_last_close_of_a_removed_file() {
    if is_left_out() {
        return;
    }
    Faces::new().with_each(|hosts| {
        // In a shell: a program that another test of this process is just starting would have the file open too.
        let script = "for round in 1 2 3 4 5 6 7 8 9 10; do mkdir d; exec 3>d/scratch; echo x >&3
            rm d/scratch; exec 3>&-; rmdir d; done";
        let mut shell = Command::new("sh");
        shell.args(["-ec", script]).current_dir(hosts.one.path(""));
        assert!(shell.status().unwrap().success(), "{}", hosts.how);
    });
}

/// xfstests generic/355. The kernel believes the attributes that it has, for their age.
#[test]
fn a_set_user_id_bit_is_gone_with_the_write_that_takes_it() {
    if is_left_out() || !gannet_testing::is_root() {
        return;
    }
    Faces::with(&["--no-root-squash"]).with_each(|hosts| {
        let file = hosts.one.path("program");
        fs::write(&file, "content").unwrap();
        chown(&file, Some(USER), Some(USER)).unwrap();
        for script in [
            "echo x >> program",
            "echo x 1<> program >&1",
            "dd if=/dev/zero of=program bs=4k count=1 conv=notrunc oflag=direct",
        ] {
            fs::set_permissions(&file, Permissions::from_mode(0o6755)).unwrap();
            let mode = || file.metadata().unwrap().permissions().mode() & 0o7777;
            assert_eq!(mode(), 0o6755, "{}", hosts.how);
            assert!(user_can(hosts.one, script), "{script} {}", hosts.how);
            assert_eq!(mode(), 0o755, "{script} {}", hosts.how);
        }
    });
}

/// xfstests generic/035.
#[test]
fn an_open_directory_that_a_rename_replaces_has_attributes_and_no_name() {
    if is_left_out() {
        return;
    }
    Faces::new().with_each(|hosts| {
        for name in ["from", "to"] {
            fs::create_dir(hosts.one.path(name)).unwrap();
        }
        let open = File::open(hosts.one.path("to")).unwrap();
        fs::rename(hosts.one.path("from"), hosts.one.path("to")).unwrap();
        let links = open.metadata().map(|metadata| metadata.nlink());
        assert_eq!(links.ok(), Some(0), "{}", hosts.how);
        drop(open);
        fs::remove_dir(hosts.one.path("to")).unwrap();
    });
}
