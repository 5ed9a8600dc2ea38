//! The way from an installation to an alert, as docs/operating.md has it: its commands and its Prometheus
//! configuration, with other paths and free ports.

#![allow(clippy::unwrap_used)]

use crate::support;

use gannet_testing::left_out;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{FREE_PORT, Place, Server, succeed};

/// The title of the section.
const TITLE: &str = "## From installation to an alert\n";
/// How long Prometheus may take for something that it does every second.
const PATIENCE: Duration = Duration::from_secs(120);

/// The section's blocks of a kind, one after the other.
fn blocks(guide: &str, kind: &str) -> String {
    let (_, section) = guide.split_once(TITLE).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let fence = format!("```{kind}\n");
    let blocks = section.split(&*fence).skip(1);
    blocks
        .map(|rest| rest.split("```").next().unwrap())
        .collect()
}

/// The volume of the section, each server in a process of its own.
struct Story {
    place: Place,
    guide: String,
    /// Addresses of the guide, and those that stand for them here.
    addresses: Vec<(String, String)>,
    servers: Vec<Server>,
}

impl Story {
    fn new() -> Story {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let guide = fs::read_to_string(root.join("docs/operating.md")).unwrap();
        let mut story = Story {
            place: Place::new(),
            guide,
            addresses: Vec::new(),
            servers: Vec::new(),
        };
        let commands = blocks(&story.guide, "sh");
        let commands: Vec<_> = commands.lines().map(str::to_owned).collect();
        for command in commands {
            match command.split_once("gannet serve ") {
                Some(("", arguments)) => story.serve(arguments),
                _ if command.starts_with("gannet volume create ") => {
                    let words = story.words(command.strip_prefix("gannet ").unwrap());
                    succeed(&words.iter().map(String::as_str).collect::<Vec<_>>());
                }
                // Packages are installed by the kernel lab; Prometheus is started below.
                _ => assert!(
                    command.starts_with("apt install") || command.starts_with("prometheus"),
                    "{command}"
                ),
            }
        }
        story
    }

    /// The words of a command here.
    fn words(&self, command: &str) -> Vec<String> {
        let volume = self.place.text("volume");
        let words = command.split_whitespace();
        words
            .map(|word| word.replace("/srv/volume", &volume))
            .collect()
    }

    /// Starts a server of the guide, on ports of its own.
    fn serve(&mut self, arguments: &str) {
        let mut words = self.words(arguments);
        let mut own = Vec::new();
        for index in 1..words.len() {
            match &*words[index - 1] {
                "--native" | "--admin" => {
                    own.push((words[index - 1].clone(), words[index].clone()));
                    words[index] = FREE_PORT.to_owned();
                }
                "--manager" => words[index] = self.here(&words[index]),
                _ => {}
            }
        }
        let server = Server::with(&words.iter().map(String::as_str).collect::<Vec<_>>());
        for (option, address) in own {
            let here = if option == "--admin" {
                &server.admin
            } else {
                &server.native
            };
            self.addresses.push((address, here.clone()));
        }
        self.servers.push(server);
    }

    fn here(&self, address: &str) -> String {
        let mut known = self.addresses.iter();
        known.find(|(there, _)| there == address).unwrap().1.clone()
    }

    /// Starts the guide's Prometheus, which looks every second and takes a second for thirty.
    fn prometheus(&self) -> Prometheus {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let rules = root.join("packaging/prometheus/gannet.rules.yml");
        let rules = fs::read_to_string(rules)
            .unwrap()
            .replace("for: 30s", "for: 1s");
        fs::write(self.place.path("gannet.rules.yml"), rules).unwrap();
        let mut config = blocks(&self.guide, "yaml");
        let installed = "/usr/share/gannet/prometheus/";
        assert!(config.contains(installed), "{config}");
        config = config.replace(installed, &self.place.text(""));
        for (there, here) in &self.addresses {
            config = config.replace(&format!("\"{there}\""), &format!("\"{here}\""));
        }
        fs::write(
            self.place.path("prometheus.yml"),
            config.replace("_interval: 5s", "_interval: 1s"),
        )
        .unwrap();
        Prometheus::start(&self.place)
    }
}

/// Prometheus at work; killed when dropped.
struct Prometheus {
    child: Child,
    address: String,
}

impl Prometheus {
    fn start(place: &Place) -> Prometheus {
        let mut child = Command::new("prometheus")
            .arg(format!("--config.file={}", place.text("prometheus.yml")))
            .arg(format!("--storage.tsdb.path={}", place.text("data")))
            .arg("--web.listen-address=127.0.0.1:0")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = log.by_ref().map(Result::unwrap);
        let listening = line
            .into_iter()
            .find(|line| line.contains("\"Listening on\""))
            .unwrap();
        let address = listening
            .split_once("address=")
            .unwrap()
            .1
            .trim()
            .to_owned();
        // It must not block on its log.
        std::thread::spawn(move || log.for_each(drop));
        Prometheus { child, address }
    }

    /// The data of an answer, once it has some.
    fn ask(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        let mut answer: Value = serde_json::from_str(body).ok()?;
        Some(answer["data"].take())
    }

    /// Asks until the answer is what the test waits for.
    fn until(&self, path: &str, is_it: impl Fn(&Value) -> bool) {
        let end = Instant::now() + PATIENCE;
        loop {
            let answer = self.ask(path);
            if answer.as_ref().is_some_and(&is_it) {
                return;
            }
            assert!(Instant::now() < end, "{path}: {answer:?}");
            // Prometheus looks once a second; asking it all the time would slow it.
            std::thread::park_timeout(Duration::from_millis(100));
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The alert that the I/O server 2 is not ready fires.
fn fires(answer: &Value) -> bool {
    let alerts = answer["alerts"].as_array().unwrap();
    alerts.iter().any(|alert| {
        let labels = &alert["labels"];
        alert["state"] == "firing"
            && labels["alertname"] == "GannetIoServerNotReady"
            && labels["io_server"] == "2"
    })
}

#[test]
fn an_alert_fires_when_an_io_server_is_killed() {
    if Command::new("prometheus")
        .arg("--version")
        .output()
        .is_err()
    {
        return left_out("prometheus is not installed");
    }
    let mut story = Story::new();
    // A manager and four I/O servers.
    assert_eq!(story.servers.len(), 5);
    let prometheus = story.prometheus();
    let ready = "/api/v1/query?query=count(gannet_volume_io_server_ready==1)";
    let count = |answer: &Value| answer["result"][0]["value"][1] == "4";
    prometheus.until(ready, count);
    let up = "/api/v1/query?query=count(up==1)";
    prometheus.until(up, |answer| answer["result"][0]["value"][1] == "5");
    let alerts = prometheus.ask("/api/v1/alerts").unwrap();
    assert!(!fires(&alerts), "{alerts}");

    story.servers[3].kill();
    prometheus.until("/api/v1/alerts", fires);

    let commands = blocks(&story.guide, "sh");
    let again = commands
        .lines()
        .find(|line| line.contains("io-server=2"))
        .unwrap();
    story.serve(again.strip_prefix("gannet serve ").unwrap());
    prometheus.until(ready, count);
    prometheus.until("/api/v1/alerts", |answer| !fires(answer));
}
