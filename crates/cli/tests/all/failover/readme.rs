//! The commands of the README for a volume of several managers, on one host.

use super::Process;
use super::cluster::until;
use super::etcd::Etcd;
use super::support::mount::{Mount, is_left_out};
use super::support::{Place, gannet, run, succeed};
use std::fs;
use std::path::Path;

/// The commands of the block with managers over etcd, without comments, lines that go on joined.
fn commands() -> Vec<String> {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let text = fs::read_to_string(readme).unwrap();
    let block = text.split("```").find(|block| block.contains("--etcd"));
    let block = block.unwrap().replace("\\\n", " ");
    let commands = block
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default());
    let words = |line: &str| line.split_whitespace().collect::<Vec<&str>>().join(" ");
    commands.map(words).filter(|it| !it.is_empty()).collect()
}

#[test]
#[ignore = "cargo xtask failover"]
fn the_commands_of_the_readme_over_etcd() {
    if is_left_out() {
        return;
    }
    let place = Place::new();
    let engine = Etcd::without_users(&place.path("etcd"));
    // Hosts of their own, as addresses of the loopback device: `m0` is one, and its volume is in a folder of its own.
    let id = std::process::id();
    let address = |number: usize| format!("127.{}.{}.{}", id / 250 % 250 + 1, id % 250, number + 1);
    let on_host = |command: &str, number: usize| {
        let mut command = command.replace(
            "http://e0:2379,http://e1:2379,http://e2:2379",
            &engine.plain(),
        );
        for host in 0..3 {
            command = command.replace(&format!("m{host}"), &address(host));
        }
        let folder = place.text(&format!("srv-{number}"));
        let command = command
            .replace("/srv/volume", &folder)
            .replace("/mnt", &place.text("mnt"));
        let words = command.split_whitespace().skip(1);
        words.map(str::to_owned).collect::<Vec<String>>()
    };
    let said = commands();
    let [create, manager, io_server, mount] = &said[..] else {
        panic!("{said:?}");
    };
    let words = on_host(create, 0);
    // Of another host in each case. Here all zones are on one.
    succeed(&words.iter().map(String::as_str).collect::<Vec<&str>>());
    for host in 1..3 {
        let folder = place.path(&format!("srv-{host}"));
        for folder in [
            folder.clone(),
            folder.join("io"),
            folder.join(format!("io/{host}")),
        ] {
            fs::create_dir(folder).unwrap();
        }
        for name in ["volume.toml", "secret", "client-key"] {
            fs::copy(place.path("srv-0").join(name), folder.join(name)).unwrap();
        }
    }
    let start = |command: &str, number: usize, native: String, name: &str| {
        let mut serve = gannet();
        serve
            .args(on_host(command, number))
            .args(["--native", &native]);
        Process::start(serve, place.path(&format!("{name}-{number}")))
    };
    let io_servers = (0..3).map(|number| {
        let command = io_server.replace("io-server=0", &format!("io-server={number}"));
        start(
            &command,
            number,
            format!("{}:0", address(number)),
            "io-server",
        )
    });
    let io_servers: Vec<Process> = io_servers.collect();
    let managers = (0..3).map(|number| {
        start(
            manager,
            number,
            format!("{}:20050", address(number)),
            "manager",
        )
    });
    let mut managers: Vec<Process> = managers.collect();
    let logs = |managers: &[Process]| managers.iter().map(Process::log).collect::<String>();
    until("a manager is active", || {
        match managers.iter().any(Process::is_ready) {
            true => Ok(()),
            false => Err(logs(&managers)),
        }
    });
    let words = on_host(mount, 0);
    let options: Vec<&str> = words[3..].iter().map(String::as_str).collect();
    let mounted = Mount::of(&words[1], Path::new(&words[2]), &options);
    fs::write(mounted.path("before"), "1").unwrap();
    // A manager that stands by has the names. Before that they are at the active one alone.
    until("two managers stand by", || {
        let status = run(&["volume", "status", &words[1], options[0], options[1]]);
        let text = String::from_utf8(status.stdout).unwrap();
        match text.matches("behind").count() {
            2 => Ok(()),
            _ => Err(text),
        }
    });
    // "any one of these hosts may die": that of the active manager, with its I/O server.
    let active = managers.iter().position(Process::is_ready).unwrap();
    managers.remove(active);
    let mut io_servers = io_servers;
    io_servers.remove(active);
    if let Err(error) = fs::write(mounted.path("after"), "2") {
        panic!("{error}: {}{}", logs(&managers), logs(&io_servers));
    }
    assert_eq!(fs::read_to_string(mounted.path("before")).unwrap(), "1");
    assert_eq!(fs::read_to_string(mounted.path("after")).unwrap(), "2");
    mounted.unmount();
}
