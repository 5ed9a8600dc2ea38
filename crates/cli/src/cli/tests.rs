use super::*;
use clap::CommandFactory;

fn parsed(line: &str) -> Result<Arguments, Failure> {
    let words = line.split_whitespace();
    let own = words.clone().skip(1).map(String::from);
    Arguments::try_parse_from(words)
        .map_err(|error| usage_failure(&error, Arguments::command(), own))
}

/// A command with all below it, each with its path.
fn with_all_below(command: &clap::Command, path: &str) -> Vec<(String, clap::Command)> {
    let own = format!("{path} {}", command.get_name());
    let below = command.get_subcommands();
    let mut all: Vec<_> = below.flat_map(|it| with_all_below(it, &own)).collect();
    all.push((own.trim().to_owned(), command.clone()));
    all
}

/// Clap's own checks, and ours: every command and every option says what it does.
#[test]
fn the_definition_is_consistent_and_explains_itself() {
    let command = Arguments::command();
    command.clone().debug_assert();
    let all = with_all_below(&command, "");
    for (path, command) in &all {
        assert!(command.get_about().is_some(), "{path} is not explained");
        for argument in command.get_arguments() {
            let name = argument.get_id();
            assert!(
                argument.get_help().is_some(),
                "{path}: {name} is not explained"
            );
        }
    }
    let names: Vec<&str> = command
        .get_subcommands()
        .map(clap::Command::get_name)
        .collect();
    let expected = [
        "demo", "serve", "mount", "volume", "ls", "cat", "stat", "cp", "mkdir", "rm", "mv", "df",
        "bench", "doctor", "top", "clients", "trace", "locks", "reload", "dump", "version",
        "generate",
    ];
    assert_eq!(names, expected);
}

/// The options that several commands share have headings of their own in `--help`.
#[test]
fn shared_options_are_grouped_apart() {
    let mut grouped = 0;
    for (path, command) in with_all_below(&Arguments::command(), "") {
        for argument in command.get_arguments() {
            let id = argument.get_id().as_str();
            let heading = match id {
                "timeout" | "uid" | "gid" => "Connection",
                "crc" | "provider" | "on_demand_paging" | "registration" | "trust_peer"
                | "design" => "RDMA",
                "volume_key" | "optimistic" | "read_cache" => "Volume (gannet:// URLs)",
                "json" | "quiet" | "log" | "log_format" => "Output",
                "busy_poll" => "Performance",
                _ => continue,
            };
            assert_eq!(argument.get_help_heading(), Some(heading), "{path}: --{id}");
            grouped += 1;
        }
    }
    assert!(grouped > 50, "{grouped}");
}

/// Each line sets exactly the options that it names.
#[test]
fn documented_command_lines_set_the_options_they_name() {
    for (line, parts) in [
        (
            "gannet demo --json",
            &["json: true", "seed: 1,", "scratch: None"][..],
        ),
        (
            "gannet serve /data --nfs-tcp 127.0.0.1:0 --nfs-rdma off --read-only --no-root-squash --ready-file r",
            &[
                "path: Some(\"/data\")",
                "127.0.0.1:0",
                "nfs_rdma: Some(Off)",
                "read_only: true",
                "no_root_squash: true",
                "ready_file: Some(\"r\")",
                "secure: false",
                "volume: None",
            ],
        ),
        (
            "gannet serve --config gannet.toml",
            &[
                "path: None",
                "config: Some(\"gannet.toml\")",
                "read_only: false",
            ],
        ),
        (
            "gannet serve --volume /data --nfs-tcp 127.0.0.1:0 --no-root-squash",
            &[
                "path: None",
                "volume: Some(\"/data\")",
                "127.0.0.1:0",
                "nfs_rdma: None",
                "role: []",
            ],
        ),
        (
            "gannet serve --volume /data --config gannet.toml --native off",
            &[
                "volume: Some(\"/data\")",
                "native: Some(Off)",
                "config: Some(\"gannet.toml\")",
            ],
        ),
        (
            "gannet volume heal gannet://h/ --accept-stale",
            &["accept_stale: true", "json: false"],
        ),
        (
            "gannet volume copies gannet://h/ 2 --same-host",
            &["copies: Some(2)", "same_host: true", "min_copies: None"],
        ),
        (
            "gannet serve /data --allow ::/0 --secure --manage-gids",
            &["secure: true", "manage_gids: true", "no_root_squash: false"],
        ),
        (
            "gannet serve --volume /data --role manager --native :20050 --dscp metadata=24,data=10",
            &["role: [Manager]", "20050", "24", "10"],
        ),
        (
            "gannet serve --volume /data --role io-server=0 --role io-server=3 --manager h:20050",
            &["role: [IoServer(0), IoServer(3)]", "20050"],
        ),
        (
            "gannet ls gannet://h/a --volume-key k --dscp data=10",
            &["volume_key: Some(\"k\")", "long: false", "10"],
        ),
        (
            "gannet volume create /data --io-servers 4 --stripe-unit 1M --stripe-width 2",
            &[
                "path: \"/data\"",
                "io_servers: 4,",
                "io_server: []",
                "stripe_unit: 1048576",
                "stripe_width: Some(2)",
            ],
        ),
        (
            "gannet volume create /data --io-server /disk1/a --io-server /disk2/a",
            &[
                "io_server: [\"/disk1/a\", \"/disk2/a\"]",
                "stripe_unit: 65536",
                "stripe_width: None",
            ],
        ),
        (
            "gannet volume show /data --json",
            &["volume: Local(\"/data\")", "json: true"],
        ),
        (
            "gannet volume list /a /b",
            &["paths: [\"/a\", \"/b\"]", "json: false"],
        ),
        (
            "gannet volume extend /data --io-server /disk3/a --io-server /disk4/a",
            &[
                "path: \"/data\"",
                "io_servers: None",
                "io_server: [\"/disk3/a\", \"/disk4/a\"]",
            ],
        ),
        (
            "gannet volume check /data --repair",
            &["repair: true", "lost: false", "/data"],
        ),
        (
            "gannet volume check gannet://h/",
            &["repair: false", "lost: false"],
        ),
        (
            "gannet volume stripes gannet://h/a --unit 1M --width 2 --first 0",
            &[
                "unit: Some(1048576)",
                "width: Some(2)",
                "first: Some(0)",
                "servers: []",
                "default: false",
            ],
        ),
        (
            "gannet serve /data --allow 10.0.0.0/8,::1 --cores 2 --crc on --state-dir s --log debug",
            &[
                "10.0.0.0",
                "cores: Some(2)",
                "crc: Some(On)",
                "state_dir: Some(\"s\")",
                "log: Some(Debug)",
            ],
        ),
        (
            "gannet ls nfs://h/a nfs+rdma://h:7/b",
            &["recursive: false", "json: false", "7"],
        ),
        (
            "gannet cp -r --verify a b nfs+rdma://h/c",
            &[
                "recursive: true",
                "verify: true",
                "jobs: 16,",
                "quiet: false",
            ],
        ),
        (
            "gannet bench nfs://h/x --threads 1,4 --record 4k,1M --size 64M --op read,randread --json",
            &[
                "threads: [1, 4]",
                "record: [4096, 1048576]",
                "size: 67108864",
                "seconds: 2s",
                "json: true",
            ],
        ),
        (
            "gannet bench gannet://h/x --record 1M,64M",
            &["threads: [1, 4, 16]", "record: [1048576, 67108864]"],
        ),
        (
            "gannet dump capture.pcap -v --json",
            &["file: \"capture.pcap\"", "verbose: true", "json: true"],
        ),
        ("gannet mkdir -p nfs://h/a/b", &["parents: true"]),
        ("gannet mv nfs://h/a nfs://h/b nfs://h/c", &["Mv("]),
    ] {
        let options = parsed(line).unwrap_or_else(|failure| panic!("{line}: {failure}"));
        let options = format!("{options:?}");
        for part in parts {
            assert!(options.contains(part), "{line}: no {part} in {options}");
        }
    }
    let Command::Mv(moving) = parsed("gannet mv nfs://h/a nfs://h/b nfs://h/c")
        .unwrap()
        .command
    else {
        panic!("not mv");
    };
    assert_eq!(moving.sources.len(), 2);
}

#[test]
fn wrong_usage_is_one_line_with_a_hint_and_exit_code_2() {
    for (line, part) in [
        ("gannet", "a command is missing"),
        ("gannet frob", "unrecognized subcommand"),
        ("gannet serve", "<PATH>"),
        ("gannet ls", "<URL>"),
        ("gannet ls other://h/x", "gannet://HOST"),
        ("gannet serve /d --native :1", "--native"),
        ("gannet serve --volume /v --role io-server", "io-server=N"),
        ("gannet serve --volume /v --dscp data=64", "0 to 63"),
        ("gannet serve /d --dscp data=10", "--dscp"),
        ("gannet mount gannet://h/ /m --dscp 10", "metadata=N,data=N"),
        ("gannet cp nfs://h/x", "<SOURCE>..."),
        ("gannet mv", "<SOURCE>... <TARGET>"),
        ("gannet bench", "<URL>"),
        ("gannet bench nfs://h/x --record 65M", "at most 67108864"),
        ("gannet serve /d --nfs-tcp localhost", "ADDRESS:PORT"),
        ("gannet serve /d --allow 10.0.0.0/33", "33"),
        ("gannet serve /d --volume /v", "--volume"),
        ("gannet serve --role manager", "--volume"),
        ("gannet bench gannet://h/x --inline-max 8K", "4096"),
        ("gannet bench gannet://h/x --fast-max 1G", "65536"),
        ("gannet volume create /v --io-servers 257", "257"),
        ("gannet volume create /v --stripe-unit 1k", "4096"),
        ("gannet volume extend /v", "--io-server"),
    ] {
        let failure = parsed(line).unwrap_err();
        let text = failure.to_string();
        assert!(
            text.contains(part) && text.contains("--help`)"),
            "{line}: {text}"
        );
        assert!(!text.contains('\n'), "{text}");
        assert_eq!(failure.exit_code(), 2);
    }
    for (line, hint) in [
        (
            "gannet srve /d",
            "(a similar subcommand exists: 'serve'; see `gannet --help`)",
        ),
        (
            "gannet bench nfs://h/x --recrod 4K",
            "(a similar argument exists: '--record'; see `gannet bench --help`)",
        ),
        (
            "gannet bench nfs://h/x --op raed",
            "(a similar value exists: 'read'; see `gannet bench --help`)",
        ),
        (
            "gannet volume crate /v",
            "(a similar subcommand exists: 'create'; see `gannet volume --help`)",
        ),
        ("gannet help srve", "(see `gannet --help`)"),
        ("gannet ls nfs://h/x --frob", "(see `gannet ls --help`)"),
        ("gannet cp nfs://h/x", "`gannet cp --help`"),
        ("gannet ls --frob nfs://h/x", "`gannet ls --help`"),
        ("gannet volume create", "`gannet volume create --help`"),
        ("gannet --frob", "`gannet --help`"),
    ] {
        let failure = parsed(line).unwrap_err();
        let text = failure.to_string();
        assert!(text.contains(hint), "{line}: {text}");
        assert!(!text.contains('\n'), "{text}");
        assert_eq!(failure.exit_code(), 2);
    }
}
