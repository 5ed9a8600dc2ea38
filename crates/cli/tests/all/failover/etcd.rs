//! A cluster of etcd on this host, with TLS and users.

use super::cluster::{
    Cluster, Member, PASSWORD, REQUEST_PATIENCE, certified, certify, free_port, until, wait,
};
use gannet_engines::{Credentials, EngineTls, EtcdPlace};
use gannet_meta::Engine;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The user that has the journal.
const USER: &str = "gannet";

pub(super) struct Etcd {
    /// The members; `None` for one that does not run.
    members: Vec<Option<Member>>,
    commands: Vec<Vec<String>>,
    clients: Vec<String>,
    /// Other addresses, without TLS.
    plain: Vec<String>,
    folder: PathBuf,
}

fn free_address(scheme: &str) -> String {
    format!("{scheme}://127.0.0.1:{}", free_port())
}

impl Etcd {
    pub(super) fn start(folder: &Path) -> Etcd {
        let cluster = Etcd::without_users(folder);
        cluster.make_users();
        wait(&cluster);
        cluster
    }

    /// The addresses without TLS.
    pub(super) fn plain(&self) -> String {
        self.plain.join(",")
    }

    /// A cluster that every client may use.
    pub(super) fn without_users(folder: &Path) -> Etcd {
        std::fs::create_dir(folder).unwrap();
        certify(folder);
        let peers: Vec<String> = (0..3).map(|_| free_address("http")).collect();
        let clients: Vec<String> = (0..3).map(|_| free_address("https")).collect();
        let plain: Vec<String> = (0..3).map(|_| free_address("http")).collect();
        let all = peers.iter().enumerate();
        let all = all.map(|(number, peer)| format!("m{number}={peer}"));
        let all = all.collect::<Vec<String>>().join(",");
        let commands: Vec<Vec<String>> = (0..3)
            .map(|number: usize| {
                let below = |name: &str| folder.join(name).display().to_string();
                let listen = format!("{},{}", clients[number], plain[number]);
                let words = [
                    ("--name", format!("m{number}")),
                    ("--data-dir", below(&format!("m{number}"))),
                    ("--listen-client-urls", listen),
                    ("--advertise-client-urls", clients[number].clone()),
                    ("--cert-file", below("server.pem")),
                    ("--key-file", below("server.key")),
                    ("--trusted-ca-file", below("ca.pem")),
                    ("--listen-peer-urls", peers[number].clone()),
                    ("--initial-advertise-peer-urls", peers[number].clone()),
                    ("--initial-cluster", all.clone()),
                    ("--auto-compaction-mode", String::from("revision")),
                    ("--auto-compaction-retention", String::from("1000")),
                    ("--log-level", String::from("error")),
                ];
                let words = words.into_iter();
                words
                    .flat_map(|(name, value)| [name.to_owned(), value])
                    .collect()
            })
            .collect();
        Etcd {
            members: commands.iter().map(|it| Some(begin(it))).collect(),
            commands,
            clients,
            plain,
            folder: folder.to_owned(),
        }
    }

    /// Makes a user that may use the keys of volumes alone.
    fn make_users(&self) {
        let encoded = |text: &str| base64::Engine::encode(&base64::prelude::BASE64_STANDARD, text);
        let permission = serde_json::json!({
            "permType": "READWRITE",
            "key": encoded("/gannet/"),
            "range_end": encoded("/gannet0"),
        });
        for (what, body) in [
            (
                "user/add",
                serde_json::json!({ "name": "root", "password": "r" }),
            ),
            ("role/add", serde_json::json!({ "name": "root" })),
            (
                "user/grant",
                serde_json::json!({ "user": "root", "role": "root" }),
            ),
            (
                "user/add",
                serde_json::json!({ "name": USER, "password": PASSWORD }),
            ),
            ("role/add", serde_json::json!({ "name": USER })),
            (
                "role/grant",
                serde_json::json!({ "name": USER, "perm": permission }),
            ),
            (
                "user/grant",
                serde_json::json!({ "user": USER, "role": USER }),
            ),
            ("enable", serde_json::json!({})),
        ] {
            let url = format!("{}/v3/auth/{what}", self.plain[0]);
            // An election may be on. A second attempt finds that it is done.
            until(what, || match ureq::post(&url).send(body.to_string()) {
                Ok(_) | Err(ureq::Error::StatusCode(400)) => Ok(()),
                Err(error) => Err(error.to_string()),
            });
        }
    }

    /// Trusts the authority in a folder, and has the certificate of the cluster's.
    pub(super) fn tls(&self, authority: &Path) -> EngineTls {
        let own = |name| certified(&self.folder, name);
        let credentials = Credentials {
            certificate: &own("server.pem"),
            key: &own("server.key"),
        };
        EngineTls::new(&certified(authority, "ca.pem"), Some(credentials)).unwrap()
    }

    /// A way with this password, to members that an authority in this folder vouches for.
    pub(super) fn engine_with(
        &self,
        password: &str,
        authority: &Path,
        volume: &str,
    ) -> gannet_engines::Etcd {
        let place = EtcdPlace {
            addresses: self.clients.clone(),
            user: Some(String::from(USER)),
        };
        let (tls, prefix) = (self.tls(authority), format!("/gannet/{volume}"));
        gannet_engines::Etcd::new(&place, password, Some(&tls), &prefix, REQUEST_PATIENCE)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Cluster for Etcd {
    fn options(&self) -> Vec<String> {
        let file = |name: &str| self.folder.join(name).display().to_string();
        let options = [
            ("--etcd", self.clients.join(",")),
            ("--journal-user", String::from(USER)),
            ("--journal-ca", file("ca.pem")),
            ("--journal-certificate", file("server.pem")),
            ("--journal-key", file("server.key")),
        ];
        let options = options.into_iter();
        options
            .flat_map(|(name, value)| [name.to_owned(), value])
            .collect()
    }

    fn engine(&self, volume: &str) -> Box<dyn Engine> {
        Box::new(self.engine_with(PASSWORD, &self.folder, volume))
    }

    fn strike(&mut self, round: usize) {
        let number = round % 3;
        let member = self.members[number].take().unwrap();
        match round % 2 {
            0 => drop(member),
            _ => member.end("TERM"),
        }
        self.members[number] = Some(begin(&self.commands[number]));
    }

    fn lose(&mut self, count: usize) {
        self.members[..count].fill_with(|| None);
    }

    fn recover(&mut self) {
        for (member, command) in self.members.iter_mut().zip(&self.commands) {
            member.get_or_insert_with(|| begin(command));
        }
    }
}

fn begin(words: &[String]) -> Member {
    let mut command = Command::new("etcd");
    command.args(words);
    Member::start(command)
}
