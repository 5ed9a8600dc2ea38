use super::*;
use clap::CommandFactory;

fn parsed(line: &str) -> Result<Arguments, Failure> {
    let words = line.split_whitespace();
    let own = words.clone().skip(1).map(String::from);
    Arguments::try_parse_from(words)
        .map_err(|error| usage_failure(&error, Arguments::command(), own))
}

#[test]
fn the_definition_is_consistent() {
    Arguments::command().debug_assert();
}

#[test]
fn the_documented_forms_parse() {
    for line in [
        "gannet demo --json",
        "gannet serve /data --nfs-tcp 127.0.0.1:0 --nfs-rdma off --read-only --no-root-squash --ready-file r",
        "gannet serve --config gannet.toml",
        "gannet serve --volume /data --nfs-tcp 127.0.0.1:0 --no-root-squash",
        "gannet serve --volume /data --config gannet.toml --native off",
        "gannet serve /data --allow ::/0 --secure --manage-gids",
        "gannet serve --volume /data --role manager --native :20050 --dscp metadata=24,data=10",
        "gannet serve --volume /data --role io-server=0 --role io-server=3 --manager h:20050",
        "gannet ls gannet://h/a --volume-key k --dscp data=10",
        "gannet volume create /data --io-servers 4 --stripe-unit 1M --stripe-width 2",
        "gannet volume create /data --io-server /disk1/a --io-server /disk2/a",
        "gannet volume show /data --json",
        "gannet volume list /a /b",
        "gannet volume extend /data --io-server /disk3/a --io-server /disk4/a",
        "gannet volume check /data --repair",
        "gannet volume check gannet://h/",
        "gannet volume stripes gannet://h/a --unit 1M --width 2 --first 0",
        "gannet serve /data --allow 10.0.0.0/8,::1 --cores 2 --crc on --state-dir s --log debug",
        "gannet ls nfs://h/a nfs+rdma://h:7/b",
        "gannet cp -r --verify a b nfs+rdma://h/c",
        "gannet bench nfs://h/x --threads 1,4 --record 4k,1M --size 64M --op read,randread --json",
        "gannet bench gannet://h/x --record 1M,64M",
        "gannet dump capture.pcap -v --json",
        "gannet mkdir -p nfs://h/a/b",
        "gannet mv nfs://h/a nfs://h/b nfs://h/c",
    ] {
        assert!(parsed(line).is_ok(), "{line}: {:?}", parsed(line).err());
    }
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
    for (line, help) in [
        ("gannet cp nfs://h/x", "`gannet cp --help`"),
        ("gannet ls --frob nfs://h/x", "`gannet ls --help`"),
        ("gannet volume create", "`gannet volume create --help`"),
        ("gannet --frob", "`gannet --help`"),
    ] {
        let text = parsed(line).unwrap_err().to_string();
        assert!(text.contains(help), "{text}");
    }
}
