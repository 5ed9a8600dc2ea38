//! A new configuration for a server at work: what changes at once, what does not, and what is refused.

#![allow(clippy::unwrap_used)]

use crate::support;

use std::fs;
use support::{FREE_PORT, Load, Place, Server, fail, fail_at_length, run, succeed};

/// A server whose configuration changes.
struct Story {
    place: Place,
    server: Server,
}

impl Story {
    fn new(config: &str) -> Story {
        let place = Place::new();
        write(&place, config);
        let (config, socket) = (place.text("config"), place.text("admin.sock"));
        let arguments = ["--config", &*config, "--admin", &*socket];
        let server = Server::start(&place.path("state"), &arguments);
        Story { place, server }
    }

    /// The answer of `gannet reload` to a new configuration.
    fn reload(&self, config: &str) -> String {
        write(&self.place, config);
        succeed(&["reload", &self.server.admin])
    }

    /// Why a new configuration is refused.
    fn refuse(&self, config: &str) -> String {
        write(&self.place, config);
        let error = fail(&["reload", &self.server.admin], 1);
        assert!(error.contains("nothing has changed"), "{error}");
        error
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.server.urls()[1])
    }
}

/// Replaces `DIR` in the configuration by the place's directory.
fn write(place: &Place, config: &str) {
    let directory = place.text("");
    let config = config.replace("DIR", directory.trim_end_matches('/'));
    fs::write(place.path("config"), config).unwrap();
}

/// An export of a directory of the place.
fn export(name: &str, directory: &str, rules: &str) -> String {
    format!("[[export]]\nname = \"{name}\"\npath = \"DIR/{directory}\"\n{rules}\n")
}

#[test]
fn exports_come_change_and_go_while_connections_stay() {
    let own = "squash = \"none\"";
    let first = export("/a", "share", own);
    let story = Story::new(&first);
    fs::write(story.place.path("out/hello"), "hello").unwrap();
    let mut load = Load::of(&story.url("/a"));
    let listed = || succeed(&["clients", &story.server.admin, "--json"]);
    let busy = |_| listed().contains("\"rdma_connections\":1").then_some(());
    (0..1000).find_map(busy).unwrap();
    fail(&["ls", &story.url("/b")], 1);

    let second = export("/a", "share", own) + &export("/b", "out", own);
    assert_eq!(
        story.reload(&second),
        "exports: 1 new, 0 changed, 0 removed\n"
    );
    assert_eq!(succeed(&["cat", &story.url("/b/hello")]), "hello");
    let file = story.place.text("out/hello");
    succeed(&["cp", &file, &story.url("/b/copy")]);

    let third = export("/a", "share", own) + &export("/b", "out", "read_only = true");
    assert_eq!(
        story.reload(&third),
        "exports: 0 new, 1 changed, 0 removed\n"
    );
    let error = fail_at_length(&["cp", &file, &story.url("/b/another")], 1);
    assert!(error.contains("read-only"), "{error}");
    assert_eq!(succeed(&["cat", &story.url("/b/copy")]), "hello");

    // Another directory under the same name, and the first way to ask.
    let fourth =
        export("/a", "share", own) + &export("/b", "state", own) + &export("/c", "out", own);
    write(&story.place, &fourth);
    story.server.signal("HUP");
    let is_there = |_| {
        run(&["cat", &story.url("/c/copy")])
            .status
            .success()
            .then_some(())
    };
    (0..1000).find_map(is_there).unwrap();
    fail(&["cat", &story.url("/b/copy")], 1);

    assert_eq!(
        story.reload(&first),
        "exports: 0 new, 0 changed, 2 removed\n"
    );
    fail(&["ls", &story.url("/c")], 1);
    // The reader has its first connection, and reads.
    let operations = || {
        let row: serde_json::Value = serde_json::from_str(&listed()).unwrap();
        assert_eq!(row["rdma_connections"], 1, "{row}");
        row["operations"].as_u64().unwrap()
    };
    let before = operations();
    (0..1000)
        .find_map(|_| (operations() > before).then_some(()))
        .unwrap();
    assert!(load.runs());
}

#[test]
fn clients_that_are_not_admitted_any_more_are_refused() {
    let story = Story::new(&export("/a", "share", "clients = [\"127.0.0.1\"]"));
    succeed(&["ls", &story.url("/a")]);
    let elsewhere = export("/a", "share", "clients = [\"192.0.2.0/24\"]");
    let said = story.reload(&elsewhere);
    assert!(
        said.starts_with("exports: 0 new, 1 changed, 0 removed"),
        "{said}"
    );
    fail(&["ls", &story.url("/a")], 1);
    story.reload(&export("/a", "share", "clients = [\"127.0.0.1\"]"));
    succeed(&["ls", &story.url("/a")]);
}

#[test]
fn a_configuration_that_cannot_be_used_changes_nothing() {
    let first = export("/a", "share", "");
    let story = Story::new(&first);
    for (wrong, why) in [
        (String::from("[[export]\n"), "config"),
        (export("/a", "share", "colour = \"red\""), "colour"),
        (
            first.clone() + &export("/b", "missing", ""),
            "cannot export /b",
        ),
        (first.clone() + &export("/a", "out", ""), "/a"),
    ] {
        let error = story.refuse(&wrong);
        assert!(error.contains(why), "{error}");
        succeed(&["ls", &story.url("/a")]);
        fail(&["ls", &story.url("/b")], 1);
    }
    let said = story.reload(&(String::from("[server]\ncores = 7\n") + &first));
    assert!(
        said.ends_with("; these need a restart: server.cores\n"),
        "{said}"
    );
}

/// The sockets listen for other machines already: a configuration that starts at loopback would not protect them.
#[test]
fn a_reload_opens_nothing_to_every_machine() {
    let place = Place::new();
    write(&place, &export("/a", "share", "clients = [\"127.0.0.1\"]"));
    let (config, socket) = (place.text("config"), place.text("admin.sock"));
    let any = support::NfsAddresses {
        tcp: String::from("0.0.0.0:0"),
        rdma: String::from(FREE_PORT),
    };
    let arguments = ["--config", &*config, "--admin", &*socket];
    let _server = Server::start_at(&any, &place.path("state"), &arguments);
    write(&place, &export("/a", "share", ""));
    let error = fail(&["reload", &socket], 1);
    assert!(
        error.contains("the export has no list of clients"),
        "{error}"
    );
}

#[test]
fn only_the_socket_reloads() {
    let place = Place::new();
    let share = place.text("share");
    let server = Server::start(&place.path("state"), &[&share, "--admin", FREE_PORT]);
    let error = fail(&["reload", &server.admin], 1);
    assert!(error.contains("only the Unix socket"), "{error}");
}

#[test]
fn a_reload_takes_another_bound_for_slow_calls() {
    let own = export("/a", "share", "");
    let story = Story::new(&own);
    let slow = || {
        succeed(&["trace", &story.server.admin, "--once", "--json"])
            .lines()
            .count()
    };
    succeed(&["ls", &story.url("/a")]);
    assert_eq!(slow(), 0);
    let said = story.reload(&format!("[admin]\nslow = \"1us\"\n{own}"));
    assert_eq!(said, "exports: 0 new, 0 changed, 0 removed\n");
    succeed(&["ls", &story.url("/a")]);
    assert!(slow() > 0);
    story.reload(&own);
    let before = slow();
    succeed(&["ls", &story.url("/a")]);
    assert_eq!(slow(), before);
}
