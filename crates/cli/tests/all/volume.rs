//! Striped volumes as their operator and the users of a stock NFS client see them: made, served, filled, crashed.

#![allow(clippy::unwrap_used)]

mod stripes;

use crate::support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use support::{
    FREE_PORT, Place, Server, assert_same, bytes, fail, fail_at_length, gannet, make_tree,
    objects_below, run, succeed,
};

fn create(place: &Place, arguments: &[&str]) -> String {
    let volume = place.text("volume");
    let words = ["volume", "create", volume.as_str()];
    succeed(&[&words[..], arguments].concat());
    volume
}

/// A free port for the manager.
const NATIVE: [&str; 2] = ["--native", "127.0.0.1:0"];

fn serve(place: &Place, volume: &str) -> Server {
    let arguments = ["--volume", volume, "--no-root-squash", "--cores", "2"];
    let arguments = [&arguments[..], &NATIVE].concat();
    Server::start(&place.path("state"), &arguments)
}

/// Objects of all I/O servers of a volume in folders of its own.
fn objects(volume: &Path) -> usize {
    let servers = fs::read_dir(volume.join("io")).unwrap();
    servers
        .map(|server| objects_below(&server.unwrap().path()).len())
        .sum()
}

/// Waits until an event of which the server sends no report.
fn wait_until(what: &str, happened: impl Fn() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < Duration::from_secs(300), "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_tree_goes_in_and_out_of_a_volume_unchanged_and_leaves_nothing() {
    let place = Place::new();
    make_tree(&place.path("tree"), 40);
    for (number, len) in [
        0,
        1,
        4095,
        4096,
        4097,
        65535,
        65536,
        65537,
        7 << 20,
        9_999_991,
    ]
    .into_iter()
    .enumerate()
    {
        fs::write(place.path(&format!("tree/{len}")), bytes(number, len)).unwrap();
    }
    let volume = create(&place, &["--io-servers", "3"]);
    let server = serve(&place, &volume);
    for (number, url) in server.urls().iter().enumerate() {
        let there = format!("{url}/tree-{number}");
        succeed(&["cp", "-r", "--verify", &place.text("tree"), &there]);
        let back = place.path(&format!("out/{number}"));
        succeed(&["cp", "-r", "--verify", &there, back.to_str().unwrap()]);
        assert_same(&place.path("tree"), &back);
    }
    assert!(objects(&place.path("volume")) > 2 * 40);
    for (number, url) in server.urls().iter().enumerate() {
        succeed(&["rm", "-r", &format!("{url}/tree-{number}")]);
    }
    wait_until("objects of removed files stay", || {
        objects(&place.path("volume")) == 0
    });
}

#[test]
fn a_volume_outlives_its_process_and_a_shorter_file_takes_the_place_of_a_longer() {
    let place = Place::new();
    let volume = create(&place, &["--io-servers", "2", "--stripe-unit", "4K"]);
    let mut server = serve(&place, &volume);
    let url = format!("{}/file", server.urls()[1]);
    fs::write(place.path("long"), bytes(1, 300_000)).unwrap();
    fs::write(place.path("short"), bytes(2, 5000)).unwrap();
    succeed(&["cp", &place.text("long"), &url]);
    succeed(&["cp", "--verify", &place.text("short"), &url]);
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    let server = serve(&place, &volume);
    let back = place.text("out/file");
    succeed(&["cp", &format!("{}/file", server.urls()[0]), &back]);
    assert!(fs::read(&back).unwrap() == bytes(2, 5000));
}

/// Starts a copy and waits until some of it is in the volume.
fn start_copy(place: &Place, url: &str) -> Child {
    let copy = gannet()
        .args(["cp", "-r", "--verify", &place.text("tree")])
        .arg(format!("{url}/copy"))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the copy does not begin", || {
        objects(&place.path("volume")) > 60
    });
    copy
}

#[test]
fn a_copy_survives_a_crash_of_the_volumes_process_in_the_middle() {
    for way in 0..2 {
        let place = Place::new();
        make_tree(&place.path("tree"), 300);
        fs::write(place.path("tree/a/huge"), bytes(3, 24 << 20)).unwrap();
        let volume = create(&place, &["--io-servers", "2"]);
        let mut server = serve(&place, &volume);
        let mut copy = start_copy(&place, &server.urls()[way]);
        server.kill();
        assert!(
            copy.try_wait().unwrap().is_none(),
            "the copy ended before the crash"
        );
        let arguments = ["--volume", volume.as_str(), "--no-root-squash"];
        let arguments = [&arguments[..], &NATIVE].concat();
        let state = place.path("state");
        let again = Server::start_at(&server.addresses(), &state, &arguments);
        let output = copy.wait_with_output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        assert!(error.contains("connection lost"), "{error}");
        let back = place.path("out/copy");
        let there = format!("{}/copy", again.urls()[way]);
        succeed(&["cp", "-r", &there, back.to_str().unwrap()]);
        assert_same(&place.path("tree"), &back);
    }
}

#[test]
fn exports_of_a_volume_keep_their_rules() {
    let place = Place::new();
    let volume = create(&place, &[]);
    let arguments = [
        "--volume",
        volume.as_str(),
        "--no-root-squash",
        "--read-only",
    ];
    let arguments = [&arguments[..], &NATIVE].concat();
    let server = Server::start(&place.path("state"), &arguments);
    for url in server.urls() {
        let error = fail(&["mkdir", &format!("{url}/made")], 1);
        assert!(error.contains("read-only"), "{error}");
    }
    drop(server);
    let arguments = ["--volume", volume.as_str(), "--allow", "192.0.2.0/24"];
    let arguments = [&arguments[..], &NATIVE].concat();
    let server = Server::start(&place.path("state"), &arguments);
    fail(&["ls", &server.urls()[0]], 1);
    drop(server);
    // The user who made the volume owns its root; a client's root is squashed here.
    let arguments = [&["--volume", volume.as_str()], &NATIVE[..]].concat();
    let server = Server::start(&place.path("state"), &arguments);
    for url in server.urls() {
        succeed(&["ls", &url]);
        let error = fail(&["mkdir", "--uid", "0", &format!("{url}/made")], 1);
        assert!(error.contains("denied"), "{error}");
    }
}

#[test]
fn one_process_at_a_time_serves_a_volume() {
    let place = Place::new();
    let volume = create(&place, &[]);
    let server = serve(&place, &volume);
    let (address, level) = ("127.0.0.1:0", ["--log", "error"]);
    let words = ["serve", "--volume", volume.as_str()];
    let ports = ["--nfs-tcp", address, "--nfs-rdma", address];
    let error = fail(&[&words[..], &ports, &level].concat(), 1);
    assert!(
        error.contains(&volume) && error.contains("another process serves this volume"),
        "{error}"
    );
    succeed(&["ls", &server.urls()[0]]);
}

#[test]
fn a_volume_that_is_not_there_or_damaged_is_explained() {
    let place = Place::new();
    let share = place.text("share");
    let error = fail(&["serve", "--volume", &share, "--log", "error"], 1);
    assert!(error.contains("gannet volume create"), "{error}");
    let error = fail(&["volume", "show", &place.text("nowhere")], 1);
    assert!(error.contains("volume.toml"), "{error}");
    let volume = create(&place, &[]);
    let serve = ["serve", "--volume", volume.as_str(), "--log", "error"];
    let secret = place.path("volume/secret");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).unwrap();
    let error = fail(&serve, 1);
    assert!(error.contains("chmod 600"), "{error}");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    fs::remove_file(place.path("volume/metadata")).unwrap();
    let error = fail(&serve, 1);
    assert!(error.contains("is missing"), "{error}");
    assert!(!place.path("volume/metadata").exists());
}

#[test]
fn the_check_of_a_served_folder_names_the_url_form() {
    let place = Place::new();
    let volume = create(&place, &[]);
    let _server = serve(&place, &volume);
    let error = fail(&["volume", "check", &volume], 1);
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(
        error.contains("another process serves this volume"),
        "{error}"
    );
    let form = "gannet volume check gannet://HOST/";
    assert!(error.contains(form), "{error}");
}

/// One that was made by an earlier version: its first line of defence is its description.
#[test]
fn a_volume_of_another_format_is_refused_with_a_cure_and_left_as_it_is() {
    let place = Place::new();
    let volume = create(&place, &[]);
    let (description, metadata) = (
        place.path("volume/volume.toml"),
        place.path("volume/metadata"),
    );
    let text = fs::read_to_string(&description).unwrap();
    fs::write(&description, text.replacen("format = 3", "format = 1", 1)).unwrap();
    let before = fs::read(&metadata).unwrap();
    let serve = ["serve", "--volume", &volume, "--native", "127.0.0.1:0"];
    for command in [&serve[..], &["volume", "check", &volume]] {
        let error = fail(command, 1);
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(error.contains("its format is 1"), "{error}");
        assert!(error.contains("into a new volume"), "{error}");
    }
    assert!(fs::read(&metadata).unwrap() == before);
}

#[test]
fn a_volume_is_made_in_an_empty_place_or_not_at_all() {
    let place = Place::new();
    let volume = create(&place, &["--io-servers", "2"]);
    let modes = [
        ("secret", 0o600),
        ("metadata", 0o600),
        ("io/0", 0o700),
        ("io/1", 0o700),
    ];
    for (name, mode) in modes {
        let found = fs::metadata(place.path("volume").join(name)).unwrap();
        assert_eq!(found.permissions().mode() & 0o777, mode, "{name}");
    }
    assert_eq!(fs::read(place.path("volume/secret")).unwrap().len(), 16);
    let error = fail(&["volume", "create", &volume], 1);
    assert!(error.contains("not empty"), "{error}");
    // The second I/O server's folder is in use: the folders of the first one and of the volume are removed again.
    fs::write(place.path("out/file"), b"").unwrap();
    let (other, first, second) = (place.text("other"), place.text("disk"), place.text("out"));
    let words = ["volume", "create", &other, "--io-server", &first];
    let error = fail(&[&words[..], &["--io-server", &second]].concat(), 1);
    assert!(error.contains("not empty"), "{error}");
    assert!(!place.path("other").exists() && !place.path("out/disk").exists());
    let error = fail(&[&words[..], &["--io-server", &first]].concat(), 1);
    assert!(error.contains("a folder of its own"), "{error}");
    assert!(!place.path("other").exists() && !place.path("out/disk").exists());
}

#[test]
fn show_reports_stripes_servers_and_space_of_a_volume() {
    let place = Place::new();
    let (first, share) = (place.text("disk"), place.text("share"));
    let servers = ["--io-server", &first, "--io-server", &share];
    let stripes = ["--stripe-unit", "1M", "--stripe-width", "1"];
    let volume = create(&place, &[&servers[..], &stripes].concat());
    let text = succeed(&["volume", "show", &volume]);
    assert!(text.contains("1.00 MiB over 1 of 2 I/O servers"), "{text}");
    let text = succeed(&["volume", "show", &volume, "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(shown["name"], "volume");
    assert_eq!(shown["stripe_unit_bytes"], 1 << 20);
    assert_eq!(shown["io_servers"][1]["number"], 1);
    let space = |value: &serde_json::Value| value["total_bytes"].as_u64().unwrap();
    assert_eq!(space(&shown), space(&shown["io_servers"][0]), "one disk");
    let server = serve(&place, &volume);
    let file = place.path("file");
    fs::write(&file, bytes(1, 100_000)).unwrap();
    let url = format!("{}/file", server.urls()[0]);
    succeed(&["cp", "--verify", file.to_str().unwrap(), &url]);
    let text = succeed(&["df", "--json", &server.urls()[0]]);
    let free: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(space(&free), space(&shown), "the disk is counted once");
    let used = ["disk", "share"].map(|name| objects_below(&place.path(name)).len());
    assert_eq!(used.iter().sum::<usize>(), 1, "a file lies on one server");
}

/// Each role counts what it does; the log of a process that ends has it.
#[test]
fn the_last_lines_of_the_log_say_what_a_volume_did() {
    let place = Place::new();
    let volume = create(&place, &["--io-servers", "2"]);
    let log = place.path("log");
    let words = ["--volume", &volume, "--no-root-squash", "--log", "info"];
    let nfs = ["--nfs-tcp", FREE_PORT, "--nfs-rdma", "off"];
    let mut server = Server::limited(4096, &log, &[&words[..], &NATIVE, &nfs].concat());
    let file = place.text("file");
    fs::write(&file, bytes(1, 300_000)).unwrap();
    succeed(&["cp", &file, &format!("{}/file", server.urls()[0])]);
    server.signal("TERM");
    server.wait();
    let log = fs::read_to_string(&log).unwrap();
    for role in ["manager", "I/O servers"] {
        let said = format!("role=\"{role}\"");
        let line = log.lines().find(|line| line.contains(&said));
        let line = line.unwrap_or_else(|| panic!("{log}"));
        let count = |name: &str| -> u64 {
            let mut words = line.split_whitespace();
            let word = words.find_map(|word| word.strip_prefix(name));
            word.unwrap_or_else(|| panic!("{line}")).parse().unwrap()
        };
        assert!(
            count("connections=") > 0 && count("requests=") > 0,
            "{line}"
        );
        assert!(count("bytes_out=") > 0, "{line}");
        if role == "I/O servers" {
            assert!(count("bytes_in=") >= 300_000, "{line}");
        }
    }
}

#[test]
fn list_finds_volumes_in_folders() {
    let place = Place::new();
    let volume = create(&place, &["--io-servers", "3"]);
    let (here, other) = (place.text(""), place.text("share/other"));
    succeed(&["volume", "create", &other]);
    let line = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let listed = line(&succeed(&["volume", "list", &here]));
    assert!(listed.len() == 1 && listed[0].contains("3 I/O servers  volume at"));
    let both = line(&succeed(&[
        "volume",
        "list",
        "--json",
        &volume,
        &place.text("share"),
    ]));
    let names = both.iter().map(|line| {
        let listed: serde_json::Value = serde_json::from_str(line).unwrap();
        listed["name"].as_str().unwrap().to_owned()
    });
    assert_eq!(names.collect::<Vec<_>>(), ["volume", "other"]);
    assert_eq!(succeed(&["volume", "list", &place.text("out")]), "");
}

#[test]
fn a_check_finds_damage_and_repairs_orphans() {
    let place = Place::new();
    make_tree(&place.path("tree"), 20);
    let volume = create(&place, &["--io-servers", "2"]);
    let server = serve(&place, &volume);
    succeed(&["cp", "-r", &place.text("tree"), &server.urls()[0]]);
    let check = ["volume", "check", &volume];
    let error = fail(&check, 1);
    assert!(
        error.contains("another process serves this volume"),
        "{error}"
    );
    drop(server);
    let text = succeed(&check);
    assert!(text.contains(": 0 findings"), "{text}");
    let io = place.path("volume/io/1");
    let left = |path: &str, age: u64| {
        let path = io.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, b"left").unwrap();
        let object = fs::File::options().write(true).open(&path).unwrap();
        let written = std::time::SystemTime::now() - Duration::from_secs(age);
        object.set_modified(written).unwrap();
        path
    };
    // The root directory's number: no other record shows whether a file had it.
    let orphan = left("01/0000000000000001", 3600);
    let ahead = left("77/0000000000099977", 3600);
    let notes = left("77/notes", 3600);
    let output = support::run(&check);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    for part in [
        "0000000000000001 belongs to no file\n",
        "0000000000099977 belongs to a file that the manager never made",
        "notes is a foreign file",
        ": 3 findings, 0 repaired",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let output = support::run(&[&check[..], &["--repair"]].concat());
    assert_eq!(output.status.code(), Some(1), "notes stay");
    assert!(!orphan.exists() && ahead.exists() && notes.exists());
    fs::remove_file(notes).unwrap();
    fs::remove_file(ahead).unwrap();
    // The client that wrote to it a minute ago may still have had the right to.
    let recent = left("01/0000000000000001", 60);
    let text = succeed(&[&check[..], &["--repair"]].concat());
    assert!(text.contains("less than five minutes ago"), "{text}");
    assert!(recent.exists() && text.contains(": 0 findings"), "{text}");
    // Its disk is lost.
    fs::remove_dir_all(&io).unwrap();
    fs::create_dir(&io).unwrap();
    let output = support::run(&check);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    let lost = "I/O server 1 has no objects at all, and ";
    assert!(
        text.contains(lost) && text.contains(": 1 findings"),
        "{text}"
    );
}

#[test]
fn damaged_pages_of_metadata_are_reported_on_one_line() {
    let place = Place::new();
    let volume = create(&place, &["--io-servers", "1"]);
    let path = place.path("volume/metadata");
    let sound = fs::read(&path).unwrap();
    let mut damaged = 0;
    for page in 1..(sound.len() / 4096).min(16) {
        let mut bytes = sound.clone();
        bytes[page * 4096..][..4096].fill(0xa5);
        fs::write(&path, bytes).unwrap();
        let output = run(&["volume", "check", &volume, "--log", "error"]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.lines().count() <= 1, "page {page}: {error}");
        damaged += usize::from(error.contains("lists the damage"));
    }
    assert!(damaged > 0, "no page was needed");
}

#[test]
fn a_flipped_bit_in_an_inode_is_never_served_and_the_check_names_it() {
    let place = Place::new();
    let volume = create(&place, &["--io-servers", "1"]);
    let file = place.text("file");
    fs::write(&file, "secret").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let server = serve(&place, &volume);
    succeed(&["cp", &file, &format!("{}/file", server.urls()[0])]);
    drop(server);
    // The check moves the journal's contents into the metadata.
    succeed(&["volume", "check", &volume]);
    let path = place.path("volume/metadata");
    let sound = fs::read(&path).unwrap();
    // Format, kind and mode of an inode of a file with mode 0600.
    let head = [0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 1, 0x80];
    let mut bytes = sound.clone();
    let mut flipped = 0;
    for at in 0..bytes.len() - head.len() {
        if sound[at..].starts_with(&head) {
            bytes[at + 11] ^= 0x07;
            flipped += 1;
        }
    }
    assert!(flipped > 0, "no inode is in the metadata");
    fs::write(&path, bytes).unwrap();
    let refused = fail(
        &[
            &["serve", "--volume", &volume, "--log", "error"],
            &NATIVE[..],
        ]
        .concat(),
        1,
    );
    assert!(refused.contains("gannet volume check"), "{refused}");
    let output = run(&["volume", "check", &volume]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("the inode of file "), "{text}");
    fs::write(&path, sound).unwrap();
    drop(serve(&place, &volume));
}

#[test]
fn an_old_copy_of_the_metadata_costs_no_object() {
    let place = Place::new();
    let volume = create(&place, &["--io-servers", "2"]);
    let server = serve(&place, &volume);
    let file = place.text("file");
    fs::write(&file, bytes(1, 200_000)).unwrap();
    let there = |server: &Server, name: &str| format!("{}/{name}", server.urls()[0]);
    succeed(&["cp", &file, &there(&server, "old")]);
    drop(server);
    let both = ["metadata", "metadata.journal"];
    let kept = |name: &str| place.path(&format!("out/{name}"));
    let own = |name: &str| place.path(&format!("volume/{name}"));
    for name in both {
        fs::copy(own(name), kept(name)).unwrap();
    }
    let server = serve(&place, &volume);
    succeed(&["cp", &file, &there(&server, "new")]);
    drop(server);
    // All of them were written long ago when somebody looks.
    for server in ["io/0", "io/1"] {
        for object in objects_below(&own(server)) {
            let object = fs::File::options().write(true).open(object).unwrap();
            let long_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
            object.set_modified(long_ago).unwrap();
        }
    }
    let later = |name: &str| place.path(&format!("state/{name}"));
    for name in both {
        fs::rename(own(name), later(name)).unwrap();
        fs::copy(kept(name), own(name)).unwrap();
    }
    let output = support::run(&["volume", "check", &volume, "--repair"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("may be an old copy"), "{text}");
    assert!(text.contains(": 2 findings, 0 repaired"), "{text}");
    // It is not served by mistake, since the I/O servers know the newer term.
    let serve_it = ["serve", "--volume", &volume, "--log", "error"];
    let refused = fail_at_length(&[&serve_it[..], &NATIVE].concat(), 1);
    assert!(
        refused.contains("older copy") && refused.contains("--force-term"),
        "{refused}"
    );
    for name in both {
        fs::copy(own(name), kept(name)).unwrap();
    }
    // So nothing is lost when the right one is found.
    for name in both {
        fs::rename(later(name), own(name)).unwrap();
    }
    let server = serve(&place, &volume);
    let back = place.text("out/back");
    succeed(&["cp", &there(&server, "new"), &back]);
    assert!(fs::read(back).unwrap() == bytes(1, 200_000));
    drop(server);
    // Or the copy is wanted.
    for name in both {
        fs::copy(kept(name), own(name)).unwrap();
    }
    let words = ["--volume", &volume, "--no-root-squash", "--force-term"];
    let server = Server::start(&place.path("state"), &[&words[..], &NATIVE].concat());
    succeed(&["cp", &there(&server, "old"), &place.text("out/old")]);
    fail(&["cp", &there(&server, "new"), &place.text("out/new")], 1);
}

#[test]
fn swapped_disks_are_neither_served_nor_repaired() {
    let place = Place::new();
    let volume = create(&place, &["--io-servers", "2"]);
    let file = place.text("file");
    fs::write(&file, bytes(1, 200_000)).unwrap();
    let server = serve(&place, &volume);
    succeed(&["cp", &file, &format!("{}/file", server.urls()[0])]);
    drop(server);
    let swap = || {
        let (a, b, aside) = ("volume/io/0", "volume/io/1", "out/aside");
        for (from, to) in [(a, aside), (b, a), (aside, b)] {
            fs::rename(place.path(from), place.path(to)).unwrap();
        }
    };
    swap();
    let serve_them = ["serve", "--volume", &volume, "--log", "error"];
    let refused = fail(&[&serve_them[..], &NATIVE].concat(), 1);
    assert!(
        refused.contains("it belongs to I/O server 1 of the volume"),
        "{refused}"
    );
    let output = support::run(&["volume", "check", &volume, "--repair"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("I/O server 0 is not checked") && text.contains(" 0 repaired"),
        "{text}"
    );
    swap();
    let server = serve(&place, &volume);
    let back = place.text("out/back");
    succeed(&["cp", &format!("{}/file", server.urls()[0]), &back]);
    assert!(fs::read(back).unwrap() == bytes(1, 200_000));
}

#[test]
fn servers_of_several_hosts_with_folders_of_one_name_are_not_mixed_up() {
    let place = Place::new();
    let volume = create(&place, &["--io-servers", "2"]);
    let server = serve(&place, &volume);
    let file = place.text("file");
    fs::write(&file, bytes(1, 200_000)).unwrap();
    succeed(&["cp", &file, &format!("{}/file", server.urls()[0])]);
    drop(server);
    // Each host has an `io/0` of its own; this one is the second server's, maybe.
    let description = place.path("volume/volume.toml");
    let text = fs::read_to_string(&description).unwrap();
    fs::write(&description, text.replace("io/1", "io/0")).unwrap();
    let text = succeed(&["volume", "check", &volume, "--repair"]);
    assert!(text.contains("I/O server 1 is not checked"), "{text}");
    assert_eq!(objects(Path::new(&volume)), 2, "{text}");
}

#[test]
fn a_disk_that_is_not_mounted_or_lost_is_not_read_as_zeros() {
    let place = Place::new();
    let volume = create(&place, &["--io-servers", "2"]);
    let (file, back) = (place.text("file"), place.text("out/back"));
    fs::write(&file, bytes(1, 200_000)).unwrap();
    let server = serve(&place, &volume);
    succeed(&["cp", &file, &format!("{}/file", server.urls()[0])]);
    succeed(&["mkdir", &format!("{}/dir", server.urls()[0])]);
    succeed(&["cp", &file, &format!("{}/dir/file", server.urls()[0])]);
    drop(server);
    let (folder, disk) = (place.path("volume/io/1"), place.path("out/disk"));
    fs::rename(&folder, &disk).unwrap();
    fs::create_dir(&folder).unwrap();
    // A disk with a new file system is not quite empty.
    fs::create_dir(folder.join("lost+found")).unwrap();
    let serve_it = ["serve", "--volume", &volume, "--log", "error"];
    let refused = fail(&[&serve_it[..], &NATIVE].concat(), 1);
    for part in ["cannot start I/O server 1", "is empty", "--lost-disk 1"] {
        assert!(refused.contains(part), "{refused}");
    }
    assert_eq!(
        fs::read_dir(&folder).unwrap().count(),
        1,
        "it stays as it is"
    );
    fs::remove_dir_all(&folder).unwrap();
    fs::rename(&disk, &folder).unwrap();
    let server = serve(&place, &volume);
    let there = |server: &Server| format!("{}/file", server.urls()[0]);
    succeed(&["cp", &there(&server), &back]);
    assert!(fs::read(&back).unwrap() == bytes(1, 200_000));
    drop(server);

    // The disk is lost, and the option that says so is accepted once.
    let lost = |number: &str, code| {
        let option = ["--lost-disk", number];
        fail(&[&serve_it[..], &NATIVE, &option].concat(), code)
    };
    let error = lost("1", 2);
    assert!(
        error.contains("the disk of I/O server 1 is not lost"),
        "{error}"
    );
    let error = lost("2", 2);
    assert!(error.contains("does not run that server"), "{error}");
    fs::rename(&folder, &disk).unwrap();
    fs::create_dir(&folder).unwrap();
    let words = ["--volume", &volume, "--no-root-squash", "--lost-disk", "1"];
    let server = Server::start(&place.path("state"), &[&words[..], &NATIVE].concat());
    fail_at_length(&["cp", "--verify", &there(&server), &back], 1);
    drop(server);
    assert!(lost("1", 2).contains("is not lost"), "once is enough");
    let check = ["volume", "check", "--lost", &volume];
    let output = run(&check);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "/dir/file\n/file\n"
    );
    let server = serve(&place, &volume);
    fail_at_length(&["cp", &there(&server), &back], 1);
    succeed(&["cp", "--verify", &file, &there(&server)]);
    succeed(&["rm", "-r", &format!("{}/dir", server.urls()[0])]);
    drop(server);
    assert_eq!(succeed(&check), "");
}

#[test]
fn a_folder_that_was_served_may_be_unmarked_but_not_empty() {
    let place = Place::new();
    let volume = create(&place, &["--io-servers", "2"]);
    let server = serve(&place, &volume);
    let there = format!("{}/file", server.urls()[0]);
    let file = place.text("file");
    fs::write(&file, bytes(1, 200_000)).unwrap();
    succeed(&["cp", &file, &there]);
    succeed(&["rm", &there]);
    drop(server);
    let folder = place.path("volume/io/1");
    fs::rename(&folder, place.path("disk")).unwrap();
    fs::create_dir(&folder).unwrap();
    // No file is there to lose, but soon there would be some in both folders.
    let serve_it = ["serve", "--volume", &volume, "--log", "error"];
    let refused = fail(&[&serve_it[..], &NATIVE].concat(), 1);
    assert!(refused.contains("--lost-disk 1"), "{refused}");
    fs::remove_dir(&folder).unwrap();
    fs::rename(place.path("disk"), &folder).unwrap();
    let server = serve(&place, &volume);
    succeed(&["cp", &file, &format!("{}/again", server.urls()[0])]);
    drop(server);
    // As volumes were made before folders said whose they are.
    fs::remove_file(folder.join("io-server.toml")).unwrap();
    drop(serve(&place, &volume));
    assert!(folder.join("io-server.toml").exists());
}
