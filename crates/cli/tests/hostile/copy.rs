//! `gannet cp` of trees in which a server, or another user of an honest server, has put what should not be followed.

use crate::support::{Place, Server, bytes, gannet, run, succeed};
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The names in a directory.
fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

#[test]
fn links_of_an_earlier_copy_are_replaced_and_not_followed() {
    let place = Place::new();
    let outside = place.path("outside");
    fs::create_dir_all(outside.join("folder")).unwrap();
    fs::write(outside.join("precious"), b"precious").unwrap();
    fs::create_dir(place.path("share/tree")).unwrap();
    let server = Server::of(&place.path("share"), &place.path("state"));
    for (number, url) in server.urls().iter().enumerate() {
        let tree = place.path("share/tree");
        let here = place.text(&format!("out/{number}"));
        let there = format!("{url}/tree");
        fs::create_dir(&here).unwrap();
        let target = Path::new(&here).join("tree");
        // A user of the server puts links there; the victim copies them, as links.
        symlink(outside.join("precious"), tree.join("file")).unwrap();
        symlink(outside.join("planted"), tree.join("dangling")).unwrap();
        symlink(outside.join("folder"), tree.join("folder")).unwrap();
        symlink(outside.join("folder"), tree.join("link")).unwrap();
        succeed(&["cp", "-r", &there, &here]);
        assert!(target.join("folder").is_symlink());

        // Then the user makes files and directories of them, and the victim copies again.
        for name in ["file", "dangling", "folder", "link"] {
            fs::remove_file(tree.join(name)).unwrap();
        }
        fs::write(tree.join("file"), b"evil").unwrap();
        fs::write(tree.join("dangling"), b"evil").unwrap();
        fs::create_dir(tree.join("folder")).unwrap();
        fs::write(tree.join("folder/key"), b"evil").unwrap();
        symlink("elsewhere", tree.join("link")).unwrap();
        succeed(&["cp", "-r", "--verify", &there, &here]);

        assert_eq!(names(&outside), ["folder", "precious"]);
        assert_eq!(fs::read(outside.join("precious")).unwrap(), b"precious");
        assert!(names(&outside.join("folder")).is_empty());
        for name in ["file", "dangling", "folder/key"] {
            let path = target.join(name);
            assert!(fs::symlink_metadata(&path).unwrap().is_file(), "{name}");
            assert_eq!(fs::read(path).unwrap(), b"evil");
        }
        assert!(
            fs::symlink_metadata(target.join("folder"))
                .unwrap()
                .is_dir()
        );
        let text = fs::read_link(target.join("link")).unwrap();
        assert_eq!(text, Path::new("elsewhere"));
        assert_eq!(names(&target), names(&tree), "nothing is left beside them");
        fs::remove_dir_all(&tree).unwrap();
        fs::create_dir(&tree).unwrap();
    }
}

#[test]
fn a_single_file_does_not_go_through_a_link_at_its_name() {
    let place = Place::new();
    let precious = place.path("precious");
    fs::write(&precious, b"precious").unwrap();
    fs::write(place.path("share/file"), b"evil").unwrap();
    let server = Server::of(&place.path("share"), &place.path("state"));
    for (number, url) in server.urls().iter().enumerate() {
        let folder = place.path(&format!("out/{number}"));
        fs::create_dir(&folder).unwrap();
        // In a directory, by its own name, and dangling.
        symlink(&precious, folder.join("file")).unwrap();
        symlink(&precious, folder.join("named")).unwrap();
        symlink(place.path("planted"), folder.join("dangling")).unwrap();
        let file = format!("{url}/file");
        for target in ["", "named", "dangling"] {
            succeed(&["cp", &file, folder.join(target).to_str().unwrap()]);
        }
        for name in ["file", "named", "dangling"] {
            assert_eq!(fs::read(folder.join(name)).unwrap(), b"evil", "{name}");
        }
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
        assert!(!place.path("planted").exists());
    }
}

#[test]
fn a_copy_does_not_lend_the_rights_of_its_owner() {
    let place = Place::new();
    let set_mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let mode_of = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    let tree = place.path("share/tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("program"), b"#!/bin/sh\n").unwrap();
    set_mode(&tree.join("program"), 0o6755);
    set_mode(&tree, 0o3775);
    let server = Server::of(&place.path("share"), &place.path("state"));
    for (number, url) in server.urls().iter().enumerate() {
        let back = place.path(&format!("out/{number}"));
        succeed(&["cp", "-r", &format!("{url}/tree"), back.to_str().unwrap()]);
        assert_eq!(mode_of(&back.join("program")), 0o755);
        assert_eq!(mode_of(&back), 0o1775);
        // Nor on a server.
        let again = format!("{url}/again-{number}");
        succeed(&["cp", tree.join("program").to_str().unwrap(), &again]);
        let again = place.path(&format!("share/again-{number}"));
        assert_eq!(mode_of(&again), 0o755);
    }
}

#[test]
fn names_do_not_reach_the_terminal_as_they_are() {
    let place = Place::new();
    let tree = place.path("share/tree");
    let name = "\u{1b}]0;evil\u{7}\u{9b}2J\n";
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join(name), b"content").unwrap();
    symlink(name, tree.join("link")).unwrap();
    let server = Server::of(&place.path("share"), &place.path("state"));
    let said = |words: &[&str]| {
        let output = run(words);
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        let raw = |letter: char| letter.is_control() && letter != '\n';
        assert!(!said.contains(raw), "{words:?}: {said:?}");
        said
    };
    for (number, url) in server.urls().iter().enumerate() {
        let out = place.path(&format!("out/{number}"));
        // A directory is in the way of the file.
        fs::create_dir_all(out.join("tree").join(name)).unwrap();
        let (there, here) = (format!("{url}/tree"), out.to_str().unwrap());
        let failed = said(&["cp", "-r", &there, here]);
        assert!(failed.contains("evil"), "{failed}");
        let failed = said(&["cp", "-r", here, &format!("{there}/link")]);
        assert!(failed.contains("not a directory"), "{failed}");
        for words in [["ls", "-lR", &there], ["stat", "--json", &there]] {
            said(&words);
        }
        said(&["cat", &format!("{there}/%1B%5B2J")]);
        said(&["rm", &format!("{there}/%C2%9B2J")]);
    }
}

/// Passes on what goes through it, until enough has; then nothing, until it is let go.
struct Dam {
    address: String,
    passed: Arc<AtomicUsize>,
    is_open: Arc<AtomicBool>,
}

/// Bytes that pass a dam, in both directions.
const PASSED_MAX: usize = 3 << 20;

impl Dam {
    fn before(server: &str) -> Dam {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let dam = Dam {
            address: listener.local_addr().unwrap().to_string(),
            passed: Arc::default(),
            is_open: Arc::default(),
        };
        let (passed, is_open) = (Arc::clone(&dam.passed), Arc::clone(&dam.is_open));
        let server = server.to_owned();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(&server).unwrap());
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let flow = Flow {
                        from: from.try_clone().unwrap(),
                        to: to.try_clone().unwrap(),
                    };
                    let (passed, is_open) = (Arc::clone(&passed), Arc::clone(&is_open));
                    std::thread::spawn(move || flow.pass(&passed, &is_open));
                }
            }
        });
        dam
    }

    fn is_full(&self) -> bool {
        self.passed.load(Ordering::SeqCst) >= PASSED_MAX
    }

    fn open(&self) {
        self.is_open.store(true, Ordering::SeqCst);
    }
}

/// One direction of a connection through a dam.
struct Flow {
    from: TcpStream,
    to: TcpStream,
}

impl Flow {
    /// Passes bytes on until one end closes; after [`PASSED_MAX`] bytes only while the dam is open.
    fn pass(mut self, passed: &AtomicUsize, is_open: &AtomicBool) {
        let mut buffer = vec![0; 64 << 10];
        loop {
            while passed.load(Ordering::SeqCst) >= PASSED_MAX && !is_open.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            match self.from.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) | Ok(0) => break,
                Ok(count) => {
                    passed.fetch_add(count, Ordering::SeqCst);
                    if self.to.write_all(&buffer[..count]).is_err() {
                        break;
                    }
                }
            }
        }
        let _ = self.to.shutdown(Shutdown::Both);
    }
}

/// A copy that has come to a dam in the middle of a file.
fn begun(words: &[&str], dam: &Dam, folder: &Path) -> Child {
    let mut copy = gannet()
        .args(["cp", "--log", "error"])
        .args(words)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while !dam.is_full() || names(folder).is_empty() {
        assert!(copy.try_wait().unwrap().is_none(), "it ended too early");
        std::thread::yield_now();
    }
    copy
}

#[test]
fn a_wait_for_a_silent_server_is_reported() {
    for way in ["nfs", "nfs+rdma"] {
        let place = Place::new();
        fs::write(place.path("share/large"), bytes(1, 24 << 20)).unwrap();
        let server = Server::of(&place.path("share"), &place.path("state"));
        let address = match way {
            "nfs" => &server.tcp,
            _ => &server.rdma,
        };
        let (dam, out) = (Dam::before(address), place.path("out"));
        let url = format!("{way}://{}", dam.address);
        let mut copy = begun(
            &[&format!("{url}/large"), out.to_str().unwrap()],
            &dam,
            &out,
        );
        let mut lines = BufReader::new(copy.stderr.take().unwrap()).lines();
        let line = lines.next().unwrap().unwrap();
        assert!(
            line.contains(&format!("waiting for {url}: no reply since 2")),
            "{line}"
        );
        assert!(
            line.contains("Ctrl-C") && line.contains("--timeout"),
            "{line}"
        );
        dam.open();
        let line = lines.next().unwrap().unwrap();
        assert!(line.contains(&format!("{url} answers again")), "{line}");
        assert!(copy.wait().unwrap().success());
        assert!(fs::read(out.join("large")).unwrap() == bytes(1, 24 << 20));
    }
}

fn interrupt(copy: Child, signal: &str) {
    let sent = Command::new("kill")
        .args(["-s", signal, &copy.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
    let output = copy.wait_with_output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("interrupted by SIG"), "{error}");
}

#[test]
fn an_interrupted_copy_leaves_nothing_that_looks_complete() {
    for (way, signal) in [("nfs", "INT"), ("nfs+rdma", "TERM")] {
        let place = Place::new();
        fs::write(place.path("share/large"), bytes(1, 24 << 20)).unwrap();
        let server = Server::of(&place.path("share"), &place.path("state"));
        let address = match way {
            "nfs" => &server.tcp,
            _ => &server.rdma,
        };
        // Out of the server: it does not answer any more.
        let (dam, out) = (Dam::before(address), place.path("out"));
        let from = format!("{way}://{}/large", dam.address);
        let copy = begun(&[&from, out.to_str().unwrap()], &dam, &out);
        interrupt(copy, signal);
        assert!(names(&out).is_empty(), "{:?}", names(&out));

        // Over a file that is there, which stays whole.
        fs::write(out.join("large"), b"old").unwrap();
        let dam = Dam::before(address);
        let from = format!("{way}://{}/large", dam.address);
        let copy = begun(&[&from, out.to_str().unwrap()], &dam, &out);
        assert_eq!(fs::read(out.join("large")).unwrap(), b"old");
        interrupt(copy, signal);
        assert_eq!(names(&out), ["large"]);
        assert_eq!(fs::read(out.join("large")).unwrap(), b"old");

        // Into the server.
        let share = place.path("share");
        fs::rename(share.join("large"), place.path("large")).unwrap();
        fs::write(share.join("large"), b"old").unwrap();
        let dam = Dam::before(address);
        let to = format!("{way}://{}/large", dam.address);
        let copy = begun(&[&place.text("large"), &to], &dam, &share);
        assert_eq!(fs::read(share.join("large")).unwrap(), b"old");
        dam.open();
        interrupt(copy, signal);
        assert_eq!(names(&share), ["large"]);
    }
}
