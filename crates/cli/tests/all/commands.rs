//! Every command over both kinds of URL, against a served directory.

#![allow(clippy::unwrap_used)]

use crate::support;

use rustix::fs::{CWD, FileType};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, UNIX_EPOCH};
use support::mount::{Mount, is_left_out};
use support::{Place, Server, assert_same, fail, fail_at_length, gannet, make_tree, run, succeed};

#[test]
fn a_tree_goes_in_and_out_unchanged() {
    let place = Place::new();
    make_tree(&place.path("tree"), 40);
    let server = Server::of(&place.path("share"), &place.path("state"));
    for (number, url) in server.urls().iter().enumerate() {
        let there = format!("{url}/tree-{number}");
        succeed(&["cp", "-r", "--verify", &place.text("tree"), &there]);
        assert_same(
            &place.path("tree"),
            &place.path(&format!("share/tree-{number}")),
        );
        let back = place.path(&format!("out/{number}"));
        succeed(&["cp", "-r", "--verify", &there, back.to_str().unwrap()]);
        assert_same(&place.path("tree"), &back);
        for sparse in [
            place.path(&format!("share/tree-{number}/sparse")),
            back.join("sparse"),
        ] {
            let used = fs::metadata(&sparse).unwrap().blocks() * 512;
            assert!(used < 4 << 20, "{} takes {used} bytes", sparse.display());
        }
    }
}

#[test]
fn fifos_sockets_and_devices_are_copied_as_such() {
    let place = Place::new();
    let tree = place.path("tree");
    fs::create_dir(&tree).unwrap();
    let make = |name: &str, kind, device| {
        rustix::fs::mknodat(CWD, tree.join(name), kind, 0o640.into(), device)
    };
    make("fifo", FileType::Fifo, 0).unwrap();
    make("socket", FileType::Socket, 0).unwrap();
    // For root alone, and not in every container.
    for (name, kind) in [
        ("character", FileType::CharacterDevice),
        ("block", FileType::BlockDevice),
    ] {
        let made = make(name, kind, rustix::fs::makedev(1, 7));
        if made.is_ok() {
            // A copy is its owner's alone.
            let mode = fs::Permissions::from_mode(0o600);
            fs::set_permissions(tree.join(name), mode).unwrap();
        }
        assert!(
            matches!(made, Ok(()) | Err(rustix::io::Errno::PERM)),
            "{made:?}"
        );
    }
    let server = Server::of(&place.path("share"), &place.path("state"));
    for (number, url) in server.urls().iter().enumerate() {
        let there = format!("{url}/tree-{number}");
        succeed(&["mkdir", &there]);
        // Twice: what is there is replaced.
        for _ in 0..2 {
            succeed(&["cp", "-r", &format!("{}/.", tree.display()), &there]);
        }
        assert_same(&tree, &place.path(&format!("share/tree-{number}")));
        let back = place.path(&format!("out/{number}"));
        succeed(&["cp", "-r", &there, back.to_str().unwrap()]);
        assert_same(&tree, &back);
        let fifo = tree.join("fifo");
        let error = fail(&["cp", fifo.to_str().unwrap(), &format!("{url}/fifo")], 1);
        assert!(error.contains("FIFO") && error.contains("-r"), "{error}");
    }
}

#[test]
fn a_file_that_cannot_be_copied_is_reported_and_fails_the_copy() {
    let place = Place::new();
    let tree = place.path("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("file"), b"content").unwrap();
    let kind = FileType::Fifo;
    rustix::fs::mknodat(CWD, tree.join("pipe"), kind, 0o600.into(), 0).unwrap();
    fs::create_dir_all(place.path("share/tree/pipe")).unwrap();
    let server = Server::of(&place.path("share"), &place.path("state"));
    for url in server.urls() {
        let output = run(&["cp", "-r", tree.to_str().unwrap(), &url]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(
            error.contains("cannot make pipe") && error.contains("one object"),
            "{error}"
        );
        assert_eq!(fs::read(place.path("share/tree/file")).unwrap(), b"content");
    }
}

#[test]
fn a_time_that_cannot_be_kept_fails_the_copy_of_that_file_alone() {
    let place = Place::new();
    fs::create_dir(place.path("tree")).unwrap();
    for (name, before) in [("old", 1), ("new", 0)] {
        let file = fs::File::create(place.path("tree").join(name)).unwrap();
        let time = UNIX_EPOCH - Duration::from_secs(before);
        file.set_modified(time).unwrap();
    }
    let server = Server::of(&place.path("share"), &place.path("state"));
    for (number, url) in server.urls().iter().enumerate() {
        let there = format!("{url}/{number}");
        let why = fail_at_length(&["cp", "-r", &place.text("tree"), &there], 1);
        assert!(why.contains("before 1970"), "{why}");
        assert_eq!(succeed(&["ls", &there]), "new\n");
    }
}

#[test]
fn a_file_in_a_mount_is_not_copied_onto_itself() {
    if is_left_out() {
        return;
    }
    for mode in [&[][..], &["--direct"]] {
        let place = Place::new();
        let server = Server::of(&place.path("share"), &place.path("state"));
        let [url, _] = server.urls();
        let mount = Mount::of(&url, &place.path("mnt"), mode);
        fs::write(mount.path("file"), b"content").unwrap();
        let (here, there) = (place.text("mnt/file"), format!("{url}/file"));
        for (from, to) in [(&here, &there), (&there, &here)] {
            let output = run(&["cp", from, to]);
            let error = String::from_utf8(output.stderr).unwrap();
            assert!(error.contains("the same file"), "{error}");
            assert_eq!(output.status.code(), Some(1));
        }
        // Another file of the same length is another file.
        fs::write(mount.path("other"), b"CONTENT").unwrap();
        succeed(&["cp", &here, &format!("{url}/other")]);
        assert_eq!(fs::read(place.path("share/file")).unwrap(), b"content");
        assert_eq!(fs::read(place.path("share/other")).unwrap(), b"content");
        mount.unmount();
    }
}

#[test]
fn a_file_that_is_being_written_is_not_copied_onto_itself() {
    let place = Place::new();
    let log = place.path("share/log");
    fs::write(&log, b"begun\n").unwrap();
    let server = Server::of(&place.path("share"), &place.path("state"));
    let over = AtomicBool::new(false);
    let mut appended = fs::File::options().append(true).open(&log).unwrap();
    let lines = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut lines = 0;
            while !over.load(Ordering::Relaxed) {
                appended.write_all(b"line\n").unwrap();
                lines += 1;
            }
            lines
        });
        let outputs = server.urls().map(|url| {
            let there = format!("{url}/log");
            let here = log.to_str().unwrap();
            [run(&["cp", here, &there]), run(&["cp", &there, here])]
        });
        over.store(true, Ordering::Relaxed);
        for output in outputs.into_iter().flatten() {
            let error = String::from_utf8(output.stderr).unwrap();
            assert!(error.contains("the same file"), "{error}");
        }
        writer.join().unwrap()
    });
    assert_eq!(fs::metadata(&log).unwrap().len(), 6 + 5 * lines);
}

#[test]
fn no_source_takes_the_place_of_another() {
    let place = Place::new();
    let server = Server::of(&place.path("share"), &place.path("state"));
    for folder in ["a", "b"] {
        fs::create_dir(place.path(folder)).unwrap();
        fs::write(place.path(folder).join("same"), folder).unwrap();
    }
    let (a, b) = (place.text("a/same"), place.text("b/same"));
    let error = fail(&["cp", &a, &b, &server.urls()[0]], 2);
    assert!(error.contains("they have the same name"), "{error}");
    assert!(!place.path("share/same").exists());
    succeed(&[
        "cp",
        "-r",
        &place.text("a"),
        &place.text("b"),
        &server.urls()[0],
    ]);
    assert_eq!(fs::read(place.path("share/b/same")).unwrap(), b"b");
}

#[test]
fn copies_onto_the_same_file_or_a_special_file_are_refused() {
    let place = Place::new();
    fs::write(place.path("share/file"), b"content").unwrap();
    fs::hard_link(place.path("share/file"), place.path("share/link")).unwrap();
    fs::write(place.path("share/empty"), b"").unwrap();
    let pipe = place.path("pipe");
    rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, 0o640.into(), 0).unwrap();
    let server = Server::of(&place.path("share"), &place.path("state"));
    let refused = |from: &str, to: &str| {
        let output = run(&["cp", from, to]);
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    for url in server.urls() {
        let at = |name: &str| format!("{url}/{name}");
        let error = refused(&at("file"), &at("link"));
        assert!(error.contains("the same file"), "{error}");
        // The very directory that is served.
        let here = |name: &str| place.text(&format!("share/{name}"));
        for (from, to) in [(here("file"), at("link")), (at("file"), here("link"))] {
            let error = refused(&from, &to);
            assert!(error.contains("the same file"), "{error}");
        }
        assert_eq!(fs::read(here("file")).unwrap(), b"content");
        let error = refused(&at("empty"), pipe.to_str().unwrap());
        assert!(error.contains("no regular file"), "{error}");
        let error = refused("/proc/self/status", &at("status"));
        assert!(error.contains("/proc"), "{error}");
        assert!(!place.path("share/status").exists());
    }
    assert_eq!(fs::read(place.path("share/file")).unwrap(), b"content");
    assert_eq!(fs::metadata(&pipe).unwrap().mode() & 0o777, 0o640);
}

#[test]
fn copies_go_between_ways_and_over_existing_files() {
    let place = Place::new();
    make_tree(&place.path("share/tree"), 5);
    let server = Server::of(&place.path("share"), &place.path("state"));
    let [tcp, rdma] = server.urls();
    succeed(&["cp", "-r", &format!("{tcp}/tree"), &format!("{rdma}/copy")]);
    assert_same(&place.path("share/tree"), &place.path("share/copy"));
    // Again, into what is there now: it becomes copy/tree; and a single file over a longer one.
    succeed(&["cp", "-r", &format!("{rdma}/tree"), &format!("{tcp}/copy")]);
    assert_same(&place.path("share/tree"), &place.path("share/copy/tree"));
    let short = place.path("short");
    fs::write(&short, b"short").unwrap();
    succeed(&[
        "cp",
        short.to_str().unwrap(),
        &format!("{tcp}/copy/a/large"),
    ]);
    assert_eq!(
        fs::read(place.path("share/copy/a/large")).unwrap(),
        b"short"
    );
}

#[test]
fn file_commands_work_over_tcp_and_rdma() {
    let place = Place::new();
    let server = Server::of(&place.path("share"), &place.path("state"));
    for url in server.urls() {
        let at = |path: &str| format!("{url}{path}");
        succeed(&["mkdir", "-p", &at("/d/e/f")]);
        fs::write(place.path("share/d/file"), b"content\n").unwrap();
        fs::write(place.path("share/d/.hidden"), b"").unwrap();
        assert_eq!(succeed(&["ls", &at("/d")]), "e\nfile\n");
        assert_eq!(succeed(&["ls", "-a", &at("/d")]), ".hidden\ne\nfile\n");
        let long = succeed(&["ls", "-l", &at("/d/file")]);
        assert!(
            long.starts_with('-') && long.contains(" 8 ") && long.ends_with(" file\n"),
            "{long}"
        );
        let owner = fs::metadata(place.path("share/d/file")).unwrap().uid();
        let numeric = succeed(&["ls", "-n", &at("/d/file")]);
        assert!(numeric.contains(&format!(" {owner} ")), "{numeric}");
        if owner == 0 {
            assert!(long.contains(" root "), "{long}");
        }
        let json = succeed(&["ls", "--json", &at("/d")]);
        assert!(json.contains(&format!("\"uid\":{owner},")), "{json}");
        assert_eq!(json.lines().count(), 2);
        assert!(json.contains("\"size_bytes\":8"), "{json}");
        let below = succeed(&["ls", "-R", "--json", &url]);
        let below: Vec<serde_json::Value> = below
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let paths: Vec<_> = below.iter().map(|entry| &entry["path"]).collect();
        assert_eq!(paths, ["/d", "/d/e", "/d/file", "/d/e/f"]);
        assert_eq!(below[3]["url"], at("/d/e/f"));
        let time = below[3]["modify_time"].as_str().unwrap();
        assert!(time.contains('T') && time.ends_with('Z'), "{time}");
        assert_eq!(
            succeed(&["cat", &at("/d/file"), &at("/d/file")]),
            "content\ncontent\n"
        );
        assert!(succeed(&["stat", &at("/d/file")]).contains("8 bytes"));
        assert!(succeed(&["stat", "--json", &at("/d")]).contains("\"kind\":\"directory\""));
        succeed(&["mv", &at("/d/file"), &at("/d/e")]);
        succeed(&["mv", &at("/d/e/file"), &at("/d/renamed")]);
        assert!(place.path("share/d/renamed").exists());
        assert!(succeed(&["df", &at("/")]).contains('%'));
        assert!(succeed(&["df", "--json", &at("/")]).contains("\"available_bytes\":"));
        let error = fail(&["rm", &at("/d")], 1);
        assert!(error.contains("-r removes"), "{error}");
        succeed(&["rm", "-r", &at("/d")]);
        assert!(!place.path("share/d").exists());
        succeed(&["rm", "-f", &at("/d")]);
        let error = fail(&["cat", &at("/d")], 1);
        assert!(error.contains("no such file or directory"), "{error}");
    }
}

#[test]
fn listings_are_sorted_as_the_options_say() {
    let place = Place::new();
    for (name, len, age) in [("a", 20_000, 3), ("b", 3, 1), ("c", 100, 2)] {
        let path = place.path("share").join(name);
        fs::write(&path, vec![b'x'; len]).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        let time = UNIX_EPOCH + Duration::from_secs(1_000_000 - age);
        file.set_modified(time).unwrap();
    }
    let server = Server::of(&place.path("share"), &place.path("state"));
    let url = &server.urls()[0];
    for (options, names) in [
        (&["-t"][..], "b\nc\na\n"),
        (&["-S"], "a\nc\nb\n"),
        (&["-tS"], "a\nc\nb\n"),
        (&["-r"], "c\nb\na\n"),
        (&["-tr"], "a\nc\nb\n"),
    ] {
        assert_eq!(succeed(&[&["ls", url], options].concat()), names);
    }
    let long = succeed(&["ls", "-lh", url]);
    assert!(
        long.contains(" 19.5 KiB ") && long.contains(" 3 B "),
        "{long}"
    );
    assert!(succeed(&["ls", "--help"]).contains("--human-readable"));
}

#[test]
fn commands_continue_with_other_arguments_after_a_failure() {
    let place = Place::new();
    let server = Server::of(&place.path("share"), &place.path("state"));
    let at = |path: &str| format!("{}{path}", server.urls()[0]);
    let (first, missing, last) = (at("/first"), at("/missing"), at("/last"));
    let lost = at("/lost");
    let all = |command: &str| {
        let output = run(&[command, &missing, &first, &lost, &last]);
        let [said, shown] = [output.stderr, output.stdout].map(|it| String::from_utf8(it).unwrap());
        assert_eq!(output.status.code(), Some(1), "{command}: {said}");
        let reported: Vec<&str> = said.lines().collect();
        assert_eq!(reported.len(), 2, "{command}: {said}");
        assert!(reported[0].starts_with("gannet: ") && reported[0].contains("/missing"));
        assert!(reported[1].starts_with("gannet: ") && reported[1].contains("/lost"));
        shown
    };
    fs::write(place.path("share/first"), "one\n").unwrap();
    fs::write(place.path("share/last"), "two\n").unwrap();
    assert_eq!(all("cat"), "one\ntwo\n");
    assert_eq!(all("ls"), "first\nlast\n");
    assert_eq!(all("stat").matches("4 bytes").count(), 2);
    assert_eq!(all("df").matches('%').count(), 2);
    all("rm");
    assert_eq!(fs::read_dir(place.path("share")).unwrap().count(), 0);
    fs::write(place.path("share/missing"), "in the way\n").unwrap();
    fs::write(place.path("share/lost"), "in the way\n").unwrap();
    all("mkdir");
    let directory = at("/last/");
    let moved = run(&[
        "mv",
        &at("/none"),
        &missing,
        &at("/nothing"),
        &first,
        &directory,
    ]);
    assert_eq!(moved.status.code(), Some(1));
    assert!(place.path("share/last/missing").exists() && place.path("share/last/first").exists());
}

#[test]
fn copies_and_removals_of_trees_end_with_a_summary() {
    let place = Place::new();
    make_tree(&place.path("tree"), 40);
    let server = Server::of(&place.path("share"), &place.path("state"));
    let said = |words: &[&str]| {
        let output = run(words);
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), said)
    };
    for url in server.urls() {
        let there = format!("{url}/tree");
        let tree = place.text("tree");
        let (code, line) = said(&["cp", "-r", &tree, &there, "--log", "error"]);
        assert_eq!(code, Some(0), "{line}");
        let copied = "copied 44 files and 5 directories, ";
        assert!(line.starts_with(copied) && line.ends_with("/s\n"), "{line}");
        let (code, line) = said(&["rm", "-r", &there]);
        assert_eq!(code, Some(0), "{line}");
        let removed = "removed 44 files and 5 directories, ";
        assert!(
            line.starts_with(removed) && line.ends_with("files/s\n"),
            "{line}"
        );
        assert!(!place.path("share/tree").exists());
        // In silence.
        for words in [["cp", "-qr", &tree, &there], ["rm", "-q", "-r", &there]] {
            let words = [&words[..], &["--log", "error"]].concat();
            assert_eq!(said(&words), (Some(0), String::new()));
        }
    }
}

#[test]
fn a_removal_continues_after_failures_and_lists_them() {
    if !gannet_testing::is_root() {
        return;
    }
    let place = Place::new();
    let server = Server::of(&place.path("share"), &place.path("state"));
    for url in server.urls() {
        let tree = place.path("share/tree");
        make_tree(&tree, 30);
        fs::create_dir_all(tree.join("a/locked/open")).unwrap();
        for name in ["one", "two", "open/three"] {
            fs::write(tree.join("a/locked").join(name), b"").unwrap();
        }
        for path in ["", "a", "a/b c", "a/b c/é", "a/locked/open", "empty"] {
            std::os::unix::fs::chown(tree.join(path), Some(1000), Some(1000)).unwrap();
        }
        let output = run(&["rm", "-r", "--uid", "1000", &format!("{url}/tree")]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        // The objects that keep the rest in place are reported, and no directory above them.
        for name in ["locked/one: ", "locked/two: ", "locked/open: "] {
            assert!(said.contains(name), "{said}");
        }
        assert!(said.contains("3 objects could not be removed"), "{said}");
        assert_eq!(said.lines().count(), 5, "{said}");
        let left = |path: &str| fs::read_dir(tree.join(path)).unwrap().count();
        assert_eq!((left(""), left("a"), left("a/locked/open")), (1, 1, 0));
        fs::remove_dir_all(&tree).unwrap();
    }
}

#[test]
fn mount_may_be_served_at_another_port() {
    let place = Place::new();
    fs::write(place.path("share/file"), b"content").unwrap();
    let server = Server::of(&place.path("share"), &place.path("state"));
    let port = server.tcp.rsplit(':').next().unwrap();
    for url in server.urls() {
        assert_eq!(
            succeed(&["cat", &format!("{url}/file?mountport={port}")]),
            "content"
        );
        let error = fail(&["cat", &format!("{url}/file?mountport=1")], 1);
        assert!(error.contains("cannot mount"), "{error}");
    }
}

#[test]
fn bench_measures_every_operation() {
    let place = Place::new();
    let server = Server::of(&place.path("share"), &place.path("state"));
    for url in server.urls() {
        let rows = succeed(&[
            "bench",
            &url,
            "--json",
            "--threads",
            "1,2",
            "--record",
            "4k,64k",
            "--size",
            "256k",
            "--seconds",
            "0.05",
            "--op",
            "write,read,randread,null,stat,lookup,list,create",
        ]);
        assert_eq!(rows.lines().count(), 3 * 4 + 5 * 2, "{rows}");
        for row in rows.lines() {
            for key in [
                "op",
                "threads",
                "record",
                "mb_per_s",
                "ops_per_s",
                "p50_us",
                "p99_us",
                "reconnects",
            ] {
                assert!(row.contains(&format!("\"{key}\":")), "{row}");
            }
            let has_credits = row.contains("\"credit_starved_ms\":");
            assert_eq!(has_credits, url.starts_with("nfs+rdma:"), "{row}");
        }
        assert_eq!(
            fs::read_dir(place.path("share")).unwrap().count(),
            0,
            "the bench cleans up"
        );
    }
}

#[test]
fn bench_ends_after_a_number_of_operations() {
    let place = Place::new();
    let server = Server::of(&place.path("share"), &place.path("state"));
    let [url, _] = server.urls();
    let words = [
        "bench",
        &url,
        "--json",
        "--op",
        "create,lookup",
        "--size",
        "1M",
    ];
    let count = ["--operations", "30", "--threads", "1,4"];
    let rows = succeed(&[&words[..], &count, &["--in-flight", "8"]].concat());
    assert_eq!(rows.lines().count(), 4, "{rows}");
    for row in rows.lines() {
        assert!(row.contains("\"ops\":30,"), "{row}");
    }
}

#[test]
fn an_interrupted_bench_removes_its_folder() {
    let place = Place::new();
    let server = Server::of(&place.path("share"), &place.path("state"));
    let [tcp, rdma] = server.urls();
    // While it measures, and while it makes what it wants to measure.
    for (url, signal, op, size) in [
        (&tcp, "INT", "create", "1M"),
        (&rdma, "TERM", "create", "1M"),
        (&rdma, "INT", "read", "64G"),
    ] {
        let words = ["bench", url, "--op", op, "--size", size, "--seconds", "600"];
        let mut bench = gannet()
            .args([&words[..], &["--threads", "3", "--record", "4K"]].concat())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let made = || {
            let folder = fs::read_dir(place.path("share")).unwrap().next()?.ok()?;
            fs::read_dir(folder.path()).ok()?.next()
        };
        while made().is_none() {
            assert!(bench.try_wait().unwrap().is_none(), "it ended too early");
            std::thread::yield_now();
        }
        // A directory of one sample, which this one could not remove.
        let folder = fs::read_dir(place.path("share")).unwrap().next();
        let inner = folder.unwrap().unwrap().path().join("inner");
        fs::create_dir(&inner).unwrap();
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(inner.join("file"), b"").unwrap();
        let sent = Command::new("kill")
            .args(["-s", signal, &bench.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
        let output = bench.wait_with_output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        let said = "gannet: the benchmark is not complete: interrupted\n";
        assert_eq!(error, said, "{op} {signal}");
        let left = fs::read_dir(place.path("share")).unwrap().count();
        assert_eq!(left, 0, "{op} {signal}");
    }
}

#[test]
fn a_failure_is_reported_on_one_line() {
    let place = Place::new();
    let error = fail(&["ls", "nfs://127.0.0.1:1/"], 1);
    assert!(error.contains("refused"), "{error}");
    let error = fail(&["ls", "nfs+rdma://127.0.0.1:1/"], 1);
    assert!(error.contains("RDMA"), "{error}");
    fail(&["ls", "nfs://no-such-host.invalid/"], 1);
    let error = fail(&["ls", "gannet://127.0.0.1:1/"], 1);
    assert!(error.contains("key"), "{error}");
    fail(&["cp", "/etc/hostname", &place.text("out")], 2);
    fail(&["frobnicate"], 2);
    fail(
        &[
            "serve",
            &place.text("no such directory"),
            "--nfs-tcp",
            "127.0.0.1:0",
            "--nfs-rdma",
            "127.0.0.1:0",
        ],
        1,
    );
    assert!(succeed(&["--help"]).contains("demo"));
    assert!(succeed(&["--version"]).starts_with("gannet "));
    assert_eq!(succeed(&["version"]), succeed(&["--version"]));
    assert_eq!(succeed(&["help"]), succeed(&["--help"]));
    let serve = succeed(&["help", "serve"]);
    assert_eq!(serve, succeed(&["serve", "--help"]));
    assert!(serve.contains("--nfs-tcp"), "{serve}");
}

#[test]
fn doctor_checks_this_host_and_a_server() {
    let place = Place::new();
    let mut server = Server::of(&place.path("share"), &place.path("state"));
    let urls = server.urls();
    for url in &urls {
        let lines = succeed(&["doctor", url]);
        for what in [
            "memlock",
            "kernel",
            "server",
            "round trip",
            "transfers",
            "can make and remove",
        ] {
            assert!(lines.contains(what), "no line about {what}: {lines}");
        }
        for line in succeed(&["doctor", "--json", url]).lines() {
            let finding: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(
                finding["verdict"] == "ok",
                finding["fix"].is_null(),
                "{line}"
            );
        }
    }
    assert_eq!(std::fs::read_dir(place.path("share")).unwrap().count(), 0);
    server.kill();
    let error = fail(&["doctor", &urls[0]], 1);
    assert!(error.contains("1 check failed"), "{error}");
}

#[test]
fn doctor_has_colours_where_they_are_wanted() {
    let doctor = |variables: &[(&str, &str)]| {
        let mut command = gannet();
        command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
        let output = command.arg("doctor").envs(variables.iter().copied());
        String::from_utf8(output.output().unwrap().stdout).unwrap()
    };
    assert!(!doctor(&[]).contains('\u{1b}'), "a pipe");
    assert!(doctor(&[("CLICOLOR_FORCE", "1")]).contains("\u{1b}[32mok"));
    let refused = doctor(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]);
    assert!(!refused.contains('\u{1b}'), "{refused}");
}

#[test]
fn doctor_explains_a_denied_write() {
    let place = Place::new();
    let share = place.text("share");
    let read_only = [&share, "--no-root-squash", "--read-only"];
    let read_only = Server::start(&place.path("state"), &read_only);
    // Lines are broken at 80 columns.
    let doctor = |arguments: &[&str]| {
        let text = succeed(&[&["doctor"], arguments].concat());
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let lines = doctor(&[&read_only.urls()[0]]);
    assert!(lines.contains("exports it read-only"), "{lines}");
    assert!(lines.contains("note writing"), "{lines}");
    // The user of this test is not user 12345, and no other user may write there.
    let server = Server::of(&place.path("share"), &place.path("state"));
    if !gannet_testing::is_root() {
        return;
    }
    let lines = doctor(&[&server.urls()[0], "--uid", "12345"]);
    assert!(lines.contains("user 12345 cannot make files"), "{lines}");
    assert!(lines.contains("its owner is 0:0, its mode 755"), "{lines}");
}

#[test]
fn a_denied_write_of_root_has_a_hint_at_root_squash() {
    if !gannet_testing::is_root() {
        return;
    }
    let place = Place::new();
    std::fs::write(place.path("file"), b"content").unwrap();
    let squashing = Server::start(&place.path("state"), &[&place.text("share")]);
    for url in squashing.urls() {
        let made = format!("{url}/made");
        let error = fail(&["mkdir", &made], 1);
        assert!(error.contains("--no-root-squash"), "{error}");
        let copy = run(&["cp", &place.text("file"), &made]);
        let error = String::from_utf8(copy.stderr).unwrap();
        assert!(error.contains("--no-root-squash"), "{error}");
        let lines = succeed(&["doctor", &url]);
        assert!(lines.contains("--no-root-squash"), "{lines}");
        let error = fail(&["mkdir", &made, "--uid", "12345"], 1);
        assert!(!error.contains("root"), "{error}");
    }
}

#[test]
fn a_tree_goes_over_rdma_under_every_registration_strategy() {
    let place = Place::new();
    make_tree(&place.path("tree"), 20);
    let strategies = [
        ["--registration", "dynamic"].as_slice(),
        &["--registration", "fmr"],
        &["--registration", "server-cache"],
        &["--registration", "client-cache"],
        &["--registration", "all-physical", "--trust-peer"],
    ];
    for (number, options) in strategies.into_iter().enumerate() {
        let share = place.text(&format!("share-{number}"));
        std::fs::create_dir(&share).unwrap();
        let arguments = [[share.as_str(), "--no-root-squash"].as_slice(), options].concat();
        let server = Server::start(&place.path(&format!("state-{number}")), &arguments);
        let there = format!("{}/tree", server.urls()[1]);
        let tree = place.text("tree");
        let copy = [["cp", "-r", "--verify", &tree, &there].as_slice(), options].concat();
        succeed(&copy);
        assert_same(
            &place.path("tree"),
            &place.path(&format!("share-{number}/tree")),
        );
    }
    let error = fail(
        &[
            "ls",
            "--registration",
            "all-physical",
            "nfs+rdma://127.0.0.1:1/",
        ],
        2,
    );
    assert!(error.contains("--trust-peer"), "{error}");
}

#[test]
fn records_that_a_benchmark_cannot_move_are_refused_before_anything_is_measured() {
    for (arguments, part) in [
        (["--record", "2M"], "NFS moves at most 1048576 bytes"),
        (["--size", "512K"], "--size is too small"),
    ] {
        let error = fail(&[&["bench", "nfs://h/"], &arguments[..]].concat(), 2);
        assert!(error.contains(part), "{arguments:?}: {error}");
    }
}
