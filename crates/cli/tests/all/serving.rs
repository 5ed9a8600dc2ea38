//! `gannet serve` as its operator sees it: the ready line, signals, configuration, refusals, restarts.

#![allow(clippy::unwrap_used)]

use crate::support;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use support::{
    FREE_PORT, NfsAddresses, Place, Server, assert_same, bytes, fail, fail_at_length, gannet,
    make_tree, succeed,
};

#[test]
fn the_ready_file_holds_the_ready_line() {
    let place = Place::new();
    let ready = place.text("ready");
    let server = Server::start(
        &place.path("state"),
        &[&place.text("share"), "--ready-file", &ready],
    );
    let line = fs::read_to_string(&ready).unwrap();
    assert_eq!(
        line,
        format!("ready nfs-tcp={} nfs-rdma={}\n", server.tcp, server.rdma)
    );
    assert!(!server.tcp.ends_with(":0") && !server.rdma.ends_with(":0"));
}

/// Without rdma-core, without a device, or without a device at this address, which no host has (RFC 5737).
#[test]
fn a_server_for_a_device_that_is_not_there_says_so_in_one_line() {
    let place = Place::new();
    let share = place.text("share");
    let allowed = ["--allow", "192.0.2.0/24"];
    let asked = [
        "serve",
        &share,
        "--nfs-rdma",
        "192.0.2.1:20049",
        "--nfs-tcp",
        "off",
    ];
    let asked = [&asked[..], &allowed, &["--provider", "verbs"]].concat();
    let error = fail(&asked, 1);
    assert_eq!(error.trim_end().lines().count(), 1, "{error}");
    assert!(error.contains("cannot listen for NFS over RDMA"), "{error}");
    let error = fail(&["ls", "nfs+rdma://192.0.2.1/", "--provider", "verbs"], 1);
    assert_eq!(error.trim_end().lines().count(), 1, "{error}");
    assert!(error.contains("cannot use an RDMA device"), "{error}");
}

#[test]
fn auto_serves_and_connects_by_the_software_rnic_where_there_is_no_device() {
    let place = Place::new();
    let share = place.text("share");
    fs::write(place.path("share/file"), b"content").unwrap();
    let server = Server::start(&place.path("state"), &[&share, "--provider", "auto"]);
    for provider in ["auto", "iwarp"] {
        let listed = succeed(&["ls", &server.urls()[1], "--provider", provider]);
        assert_eq!(listed, "file\n", "{provider}");
    }
}

/// The software RNIC pins no memory. With `auto` it serves, where no device can leave pages unpinned.
#[test]
fn on_demand_paging_is_for_devices() {
    let place = Place::new();
    let share = place.text("share");
    let paging = "--on-demand-paging";
    let config = place.path("config");
    fs::write(&config, "[server]\non_demand_paging = true\n").unwrap();
    let config = config.to_str().unwrap();
    let url = "nfs+rdma://192.0.2.1/";
    let refused = [
        &["serve", &share, paging][..],
        &["serve", &share, "--config", config],
        &["ls", url, paging],
        &["ls", url, paging, "--provider", "iwarp"],
    ];
    for command in refused {
        let error = fail(command, 2);
        assert!(
            error.contains("on-demand paging is for RDMA devices"),
            "{error}"
        );
        assert!(error.contains("use it with --provider verbs"), "{error}");
    }
    fs::write(place.path("share/file"), b"content").unwrap();
    let auto = [&share, paging, "--provider", "auto"];
    let server = Server::start(&place.path("state"), &auto);
    let listed = succeed(&["ls", &server.urls()[1], "--provider", "auto", paging]);
    assert_eq!(listed, "file\n");
}

#[test]
fn a_volume_on_a_device_needs_the_devices_address() {
    let place = Place::new();
    let volume = place.text("volume");
    succeed(&["volume", "create", &volume]);
    let serve = ["serve", "--volume", &volume, "--provider", "verbs"];
    let error = fail(&[&serve[..], &["--native", "0.0.0.0:0"]].concat(), 1);
    assert!(
        error.contains("need the address of their RDMA device"),
        "{error}"
    );
    let elsewhere = [&serve[..], &["--native", "192.0.2.1:20050"]].concat();
    let error = fail_at_length(&elsewhere, 1);
    assert!(error.contains("cannot listen for I/O server 0"), "{error}");
}

#[test]
fn sigterm_and_sigint_end_it_with_0_even_with_idle_and_silent_peers() {
    for signal in ["TERM", "INT"] {
        let place = Place::new();
        let mut server = Server::of(&place.path("share"), &place.path("state"));
        let silent = TcpStream::connect(&server.tcp).unwrap();
        let mut garbage = TcpStream::connect(&server.rdma).unwrap();
        garbage.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        succeed(&["ls", &server.urls()[0]]);
        server.signal(signal);
        assert_eq!(server.wait().code(), Some(0), "{signal}");
        drop(silent);
    }
}

#[test]
fn sighup_and_sigusr1_end_nothing_and_sigusr1_opens_the_log_file_again() {
    let place = Place::new();
    let (log, moved) = (place.path("out/log"), place.path("out/log.1"));
    let file = log.to_str().unwrap();
    let share = place.text("share");
    let arguments = [&share, "--log", "info", "--log-file", file];
    let mut server = Server::start(&place.path("state"), &arguments);
    // The line comes behind the one on standard output.
    while !fs::read_to_string(&log).unwrap().contains("ready nfs-tcp=") {
        std::thread::yield_now();
    }
    fs::rename(&log, &moved).unwrap();
    server.signal("HUP");
    server.signal("USR1");
    // Bounded by the test program's own limit: the server makes the file when it has the signal.
    while !log.exists() {
        succeed(&["ls", &server.urls()[0]]);
    }
    succeed(&["ls", &server.urls()[1]]);
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    let text = fs::read_to_string(&log).unwrap();
    assert!(
        text.contains("stopping") && !text.contains("ready nfs-tcp="),
        "{text}"
    );
}

#[test]
fn a_manager_that_stands_by_outlives_sighup_and_sigusr1() {
    let place = Place::new();
    let (volume, log, moved) = (place.text("volume"), place.path("log"), place.path("log.1"));
    let managers = ["--managers", "127.0.0.1:1,127.0.0.1:2"];
    let away = ["--etcd", "http://127.0.0.1:1"];
    succeed(&[&["volume", "create", &volume][..], &managers, &away].concat());
    let mut serve = gannet();
    let words = ["serve", "--volume", &volume, "--role", "manager"];
    let file = log.to_str().unwrap();
    let logged = [
        "--log",
        "info",
        "--log-file",
        file,
        "--native",
        "127.0.0.1:1",
    ];
    let mut manager = serve.args([&words[..], &logged].concat()).spawn().unwrap();
    let pid = manager.id().to_string();
    let signal = |name: &str| {
        let sent = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(sent.unwrap().success());
    };
    let says = |line: &str| fs::read_to_string(&log).is_ok_and(|log| log.contains(line));
    let wait_for = |line: &str| {
        while !says(line) {
            std::thread::yield_now();
        }
    };
    wait_for("waiting for the engine");
    fs::rename(&log, &moved).unwrap();
    signal("USR1");
    wait_for("opened the log file again");
    signal("HUP");
    wait_for("SIGHUP: the configuration is read again when");
    signal("TERM");
    // It has no changes to save.
    assert_eq!(manager.wait().unwrap().signal(), Some(15));
}

#[test]
fn a_taken_port_is_explained() {
    let place = Place::new();
    let server = Server::of(&place.path("share"), &place.path("state"));
    let error = fail(
        &[
            "serve",
            &place.text("share"),
            "--nfs-tcp",
            &server.tcp,
            "--nfs-rdma",
            "off",
            "--log",
            "error",
        ],
        1,
    );
    assert!(
        error.contains("in use") && error.contains("--nfs-tcp"),
        "{error}"
    );
}

#[test]
fn files_are_the_same_by_every_engine_that_a_server_can_have() {
    let place = Place::new();
    let content = bytes(3, 2_000_001);
    fs::write(place.path("share/file"), &content).unwrap();
    for engine in ["static", "dynamic", "sendfile"] {
        let share = place.text("share");
        let server = Server::start(&place.path("state"), &[&share, "--engine", engine]);
        let [_, rdma] = server.urls();
        let copy = place.text("copy");
        succeed(&["cp", &format!("{rdma}/file"), &copy]);
        assert!(fs::read(&copy).unwrap() == content, "{engine}");
    }
    let refused = fail(&["serve", &place.text("share"), "--engine", "pipelined"], 2);
    assert!(
        refused.contains("use static, dynamic or sendfile"),
        "{refused}"
    );
    let unknown = fail(&["serve", &place.text("share"), "--engine", "fast"], 2);
    assert!(unknown.contains("no engine is called"), "{unknown}");
}

#[test]
fn garbage_does_not_disturb_others() {
    let place = Place::new();
    fs::write(place.path("share/file"), b"content").unwrap();
    let server = Server::of(&place.path("share"), &place.path("state"));
    for address in [&server.tcp, &server.rdma] {
        for round in 0..20 {
            let mut peer = TcpStream::connect(address).unwrap();
            // The server may close in the middle of it, which is its right.
            let _ = peer.write_all(&bytes(round, 10_000));
        }
    }
    for url in server.urls() {
        assert_eq!(succeed(&["cat", &format!("{url}/file")]), "content");
    }
}

#[test]
fn a_configuration_serves_several_directories_by_their_rules() {
    let place = Place::new();
    for name in ["one", "two", "three"] {
        fs::create_dir(place.path(&format!("share/{name}"))).unwrap();
        fs::write(place.path(&format!("share/{name}/file")), name).unwrap();
    }
    let share = place.text("share");
    let config = format!(
        "[[export]]\npath = \"{share}/one\"\nname = \"/one\"\nsquash = \"none\"\n\
         [[export]]\npath = \"{share}/two\"\nname = \"/deep/two\"\nread_only = true\n\
         [[export]]\npath = \"{share}/three\"\nname = \"/three\"\nclients = [\"192.0.2.0/24\"]\n"
    );
    let file = place.path("gannet.toml");
    fs::write(&file, config).unwrap();
    let server = Server::start(&place.path("state"), &["--config", file.to_str().unwrap()]);
    for url in server.urls() {
        assert_eq!(succeed(&["cat", &format!("{url}/one/file")]), "one");
        assert_eq!(succeed(&["cat", &format!("{url}/deep/two/file")]), "two");
        succeed(&["mkdir", &format!("{url}/one/made")]);
        succeed(&["rm", "-r", &format!("{url}/one/made")]);
        let error = fail(&["mkdir", &format!("{url}/deep/two/made")], 1);
        assert!(error.contains("read-only"), "{error}");
        fail(&["cat", &format!("{url}/three/file")], 1);
        let error = fail(&["cat", &format!("{url}/four/file")], 1);
        assert!(error.contains("/deep/two"), "{error}");
    }
    fs::write(&file, "[[export]]\npath = 7\n").unwrap();
    let error = fail(&["serve", "--config", file.to_str().unwrap()], 2);
    assert!(error.contains("gannet.toml:2:"), "{error}");
}

#[test]
fn nothing_but_loopback_is_served_unless_clients_are_named() {
    let place = Place::new();
    let (share, state) = (place.text("share"), place.text("state"));
    let serve = ["serve", "--log", "error", "--state-dir", &state];
    let anywhere = ["--nfs-tcp", "0.0.0.0:0", "--nfs-rdma", "off"];
    let error = fail(&[&serve[..], &[&share], &anywhere].concat(), 2);
    assert!(
        error.contains("--allow 192.0.2.0/24") && error.contains("127.0.0.1"),
        "{error}"
    );
    let ipv6 = ["--nfs-tcp", "off", "--nfs-rdma", "[::]:0"];
    fail(&[&serve[..], &[&share], &ipv6].concat(), 2);

    // An export without clients beside one that has some.
    let config = format!(
        "[[export]]\npath = \"{share}\"\nclients = [\"127.0.0.1\"]\n\
         [[export]]\npath = \"{share}\"\nname = \"/open\"\n"
    );
    let file = place.text("gannet.toml");
    fs::write(&file, config).unwrap();
    let with_file = [&serve[..], &["--config", &file], &anywhere].concat();
    let error = fail(&with_file, 2);
    assert!(error.contains("cannot serve /open"), "{error}");
    let arguments = [&anywhere[..], &["--state-dir", &state, "--config", &file]].concat();
    let server = Server::with(&[&arguments[..], &["--allow", "127.0.0.0/8"]].concat());
    let port = server.tcp.strip_prefix("0.0.0.0:").unwrap();
    succeed(&["ls", &format!("nfs://127.0.0.1:{port}/open")]);
}

#[test]
fn each_network_of_an_export_has_its_own_rules() {
    let place = Place::new();
    fs::write(place.path("share/file"), b"content").unwrap();
    let config = format!(
        "[[export]]\npath = \"{}\"\nclients = [\"0.0.0.0/0\"]\nsquash = \"none\"\n\
         [[export.rule]]\nclients = [\"127.0.0.0/16\"]\nread_only = true\n\
         [[export.rule]]\nclients = [\"127.0.0.0/8\"]\nsecure = true\n",
        place.text("share")
    );
    let file = place.text("gannet.toml");
    fs::write(&file, config).unwrap();
    let server = Server::start(&place.path("state"), &["--config", &file]);
    for url in server.urls() {
        assert_eq!(succeed(&["cat", &format!("{url}/file")]), "content");
        let error = fail(&["mkdir", &format!("{url}/made")], 1);
        assert!(error.contains("read-only"), "{error}");
    }
    let error = fail(&["serve", "--config", &file, "--allow", "10.0.0.0/8"], 2);
    assert!(error.contains("rules of /"), "{error}");
    let secure = [&place.text("share"), "--secure"];
    let secure = Server::start(&place.path("state"), &secure);
    let error = fail(&["ls", &secure.urls()[0]], 1);
    assert!(error.contains("below 1024"), "{error}");
}

#[test]
fn a_volume_serves_nfs_only_at_given_addresses() {
    let place = Place::new();
    let volume = place.text("volume");
    succeed(&["volume", "create", &volume, "--io-servers", "1"]);
    let serve = ["--volume", &volume, "--native", "127.0.0.1:0"];
    let mut server = Server::with(&serve);
    assert_eq!((&*server.tcp, &*server.rdma), ("off", "off"));
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    let usage = [&["serve"][..], &serve, &["--read-only"]].concat();
    let error = fail(&usage, 2);
    assert!(
        error.contains("--read-only") && error.contains("--nfs-tcp"),
        "{error}"
    );
    let file = place.text("gannet.toml");
    let config = "[listen]\nnative = \"127.0.0.1:0\"\nnfs_tcp = \"127.0.0.1:0\"\n\
                  [[export]]\nname = \"/volume\"\nsquash = \"none\"\n";
    fs::write(&file, config).unwrap();
    let server = Server::with(&["--volume", &volume, "--config", &file]);
    assert!(server.native.starts_with("127.0.0.1:"));
    succeed(&["mkdir", &format!("nfs://{}/volume/made", server.tcp)]);
}

/// The line `name` of `/proc/PID/task/TID/status` of all threads.
fn of_all_threads(pid: u32, name: &str) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    // One that ends meanwhile has no status any more.
    let all = threads.flat_map(|thread| fs::read_to_string(thread.path().join("status")));
    let line = |status: String| {
        let mut lines = status.lines();
        let found = lines.find_map(|line| line.strip_prefix(name)).unwrap();
        found.trim().to_owned()
    };
    all.map(line).collect()
}

/// CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID, SETGID, SETUID, IPC_LOCK, MKNOD (capability.h).
const SERVING: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 14 | 1 << 27;

#[test]
fn a_server_of_root_drops_capabilities_that_serving_does_not_need() {
    if !gannet_testing::is_root() {
        return;
    }
    let place = Place::new();
    let (share, volume) = (place.path("share"), place.text("volume"));
    fs::set_permissions(&share, fs::Permissions::from_mode(0o777)).unwrap();
    succeed(&["volume", "create", &volume, "--io-servers", "2"]);
    // With a thread for the audit log.
    let (exported, audit) = (place.text("share"), place.text("audit"));
    let audited = [&*exported, "--no-root-squash", "--audit-log", &*audit];
    let directory = Server::start(&place.path("state"), &audited);
    let ports = ["--nfs-tcp", "127.0.0.1:0", "--nfs-rdma", "off"];
    let native = [
        "--volume",
        &volume,
        "--native",
        "127.0.0.1:0",
        "--no-root-squash",
    ];
    let striped = Server::with(&[&native[..], &ports].concat());
    for server in [&directory, &striped] {
        // As two callers, so that there are threads of the pool.
        let url = format!("nfs://{}", server.tcp);
        succeed(&["mkdir", &format!("{url}/root")]);
        succeed(&["ls", "-l", &url, "--uid", "12345"]);
        for set in ["CapEff:", "CapPrm:", "CapBnd:", "CapInh:", "CapAmb:"] {
            for bits in of_all_threads(server.pid(), set) {
                let more = u64::from_str_radix(&bits, 16).unwrap() & !SERVING;
                assert_eq!(more, 0, "{set} {bits}");
            }
        }
        let locked = of_all_threads(server.pid(), "NoNewPrivs:");
        assert!(locked.len() > 1 && locked.iter().all(|word| word == "1"));
    }
    // It is still each of its callers.
    let made = format!("{}/user", directory.urls()[0]);
    succeed(&["mkdir", &made, "--uid", "12345"]);
    assert_eq!(fs::metadata(share.join("user")).unwrap().uid(), 12345);
    assert_eq!(fs::metadata(share.join("root")).unwrap().uid(), 0);
}

/// Starts a copy and waits until some of it is there.
fn start_copy(place: &Place, url: &str) -> Child {
    let copy = gannet()
        .args([
            "cp",
            "-r",
            "--verify",
            &place.text("tree"),
            &format!("{url}/copy"),
        ])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let target = place.path("share/copy/a/b c");
    while fs::read_dir(&target).map_or(0, Iterator::count) < 30 {
        std::thread::yield_now();
    }
    copy
}

#[test]
fn a_copy_survives_a_crash_of_the_server_in_the_middle() {
    for way in 0..2 {
        let place = Place::new();
        make_tree(&place.path("tree"), 300);
        fs::write(place.path("tree/a/huge"), bytes(3, 24 << 20)).unwrap();
        let share = place.text("share");
        let mut server = Server::of(&place.path("share"), &place.path("state"));
        let mut copy = start_copy(&place, &server.urls()[way]);
        server.kill();
        assert!(
            copy.try_wait().unwrap().is_none(),
            "the copy ended before the crash"
        );
        let arguments = [share.as_str(), "--no-root-squash"];
        let again = Server::start_at(&server.addresses(), &place.path("state"), &arguments);
        let output = copy.wait_with_output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        assert!(
            error.contains("connection lost"),
            "no report of the wait: {error}"
        );
        assert_same(&place.path("tree"), &place.path("share/copy"));
        drop(again);
    }
}

#[test]
fn a_server_killed_during_the_first_connect_is_waited_for() {
    for way in ["nfs", "nfs+rdma"] {
        let place = Place::new();
        fs::write(place.path("file"), b"content").unwrap();
        let dying = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = dying.local_addr().unwrap().to_string();
        let mut copy = gannet()
            .args([
                "cp",
                &place.text("file"),
                &format!("{way}://{address}/copy"),
            ])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut peer, _) = dying.accept().unwrap();
        assert!(peer.read(&mut [0; 1000]).unwrap() > 0, "nothing was asked");
        drop((peer, dying));
        // The client has noticed that the server ended.
        let mut said = BufReader::new(copy.stderr.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap().contains("refused")));
        let free = String::from(FREE_PORT);
        let (tcp, rdma) = match way {
            "nfs" => (address, free),
            _ => (free, address),
        };
        let addresses = NfsAddresses { tcp, rdma };
        let arguments = [&place.text("share"), "--no-root-squash"];
        let server = Server::start_at(&addresses, &place.path("state"), &arguments);
        assert!(copy.wait().unwrap().success());
        assert_eq!(fs::read(place.path("share/copy")).unwrap(), b"content");
        drop(server);
    }
}

#[test]
fn a_copy_does_not_wait_for_a_server_that_never_replied() {
    let place = Place::new();
    fs::write(place.path("file"), b"content").unwrap();
    let file = place.text("file");
    for way in ["nfs", "nfs+rdma"] {
        let nowhere = format!("{way}://127.0.0.1:1/copy");
        let error = fail(&["cp", "--log", "error", &file, &nowhere], 1);
        assert!(error.contains("refused"), "{error}");
        let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("{way}://{}/copy", stranger.local_addr().unwrap());
        let accepted = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&accepted);
        std::thread::spawn(move || {
            while let Ok(peer) = stranger.accept() {
                counted.fetch_add(1, Ordering::Relaxed);
                drop(peer);
            }
        });
        let error = fail(&["cp", "--log", "error", &file, &url], 1);
        assert!(error.contains("cannot connect"), "{error}");
        assert_eq!(accepted.load(Ordering::Relaxed), 3);
    }
}

#[test]
fn a_timeout_bounds_the_wait_for_a_stopped_server() {
    let place = Place::new();
    make_tree(&place.path("tree"), 300);
    let mut server = Server::of(&place.path("share"), &place.path("state"));
    let url = server.urls()[0].clone();
    let copy = gannet()
        .args([
            "cp",
            "-r",
            "--timeout",
            "1",
            "--log",
            "error",
            &place.text("tree"),
            &format!("{url}/copy"),
        ])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while !place.path("share/copy/a").exists() {
        std::thread::yield_now();
    }
    server.signal("STOP");
    let output = copy.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("no reply for 1 s"), "{error}");
    server.kill();
}
