//! etcd, by its JSON gateway over HTTP/1.1, with TLS and a user if it has them.
//!
//! The row is one key, and each record another. An append is a transaction: if the row has still the revision of its
//! last change, both are written. Reads are linearizable, which is what etcd does unless it is asked for less.

use crate::EngineTls;
use crate::no_answer::no_answer;
use crate::patience::Patience;
use crate::tls::is_distrust;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use gannet_meta::{Engine, EngineError, FollowerNote, Row};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use ureq::Agent;

/// How long a member of the cluster may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long it may take for an answer. Much shorter than the lease of a manager, which asks the next member then.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(1500);
/// Bytes of the longest answer: records at a time, and their encoding.
const ANSWER_MAX: u64 = 32 << 20;

/// A cluster of etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdPlace {
    /// The addresses of its members: `http://HOST:PORT` or `https://HOST:PORT`.
    pub addresses: Vec<String>,
    /// The user; `None` for a cluster without users.
    pub user: Option<String>,
}

/// A cluster of etcd, with the journal of a volume below a prefix of its keys.
pub struct Etcd {
    agent: Agent,
    place: EtcdPlace,
    password: String,
    /// The token that the cluster gives for the password, for a few minutes.
    token: Option<String>,
    /// The address that has answered last.
    last: usize,
    prefix: String,
    patience: Patience,
}

/// An answer that has pairs.
#[derive(Deserialize)]
struct Ranged {
    #[serde(default)]
    kvs: Vec<Pair>,
}

#[derive(Deserialize)]
struct Pair {
    key: String,
    #[serde(default)]
    value: String,
    mod_revision: String,
}

/// The answer to a transaction.
#[derive(Deserialize)]
struct Done {
    #[serde(default)]
    succeeded: bool,
    header: Header,
}

#[derive(Deserialize)]
struct Header {
    revision: String,
}

/// The answer to a password.
#[derive(Deserialize)]
struct Granted {
    token: String,
}

/// The reason of a refusal.
#[derive(Deserialize)]
struct Reason {
    #[serde(default)]
    message: String,
}

impl Etcd {
    /// A cluster, without TLS or with it. The keys of the volume begin with `prefix`. A request
    /// without an answer is sent again for as long as `patience`.
    pub fn new(
        place: &EtcdPlace,
        password: &str,
        tls: Option<&EngineTls>,
        prefix: &str,
        patience: Duration,
    ) -> Etcd {
        let config = Agent::config_builder()
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_global(Some(ANSWER_TIMEOUT))
            .http_status_as_error(false)
            // No other host has its journal.
            .proxy(None)
            .max_redirects(0);
        let config = match tls {
            Some(tls) => config.tls_config(tls.for_requests()),
            None => config,
        };
        Etcd {
            agent: config.build().into(),
            place: place.clone(),
            password: password.to_owned(),
            token: None,
            last: 0,
            prefix: prefix.to_owned(),
            patience: Patience::new(patience),
        }
    }

    fn row_key(&self) -> Vec<u8> {
        format!("{}/row", self.prefix).into_bytes()
    }

    /// The key of a record. Keys are in the order of the numbers.
    fn record_key(&self, number: u64) -> Vec<u8> {
        format!("{}/record/{number:016x}", self.prefix).into_bytes()
    }

    /// The key behind those of all records.
    fn records_end(&self) -> Vec<u8> {
        format!("{}/record0", self.prefix).into_bytes()
    }

    fn note_prefix(&self) -> String {
        format!("{}/has/", self.prefix)
    }

    /// Asks the members in turn, until one answers.
    fn ask<T: for<'a> Deserialize<'a>>(
        &mut self,
        what: &str,
        body: &Value,
    ) -> Result<T, EngineError> {
        let body = body.to_string();
        let (mut silent, mut refusals) = (Vec::new(), Vec::new());
        let (first, count) = (self.last, self.place.addresses.len());
        for turn in 0..count {
            let number = (first + turn) % count;
            // One that is silent is not asked first the next time either.
            self.last = number;
            let address = self.place.addresses[number].clone();
            match self.ask_as_user(&address, what, &body) {
                Ok((200, answer)) => return parsed(&address, &answer),
                // It has no quorum, looks for a leader, ends (408, 499), is full (429), or away from a balancer (502).
                Ok((408 | 429 | 499 | 500 | 502..=504, answer)) => {
                    silent.push(format!("{address}: {}", reason(&answer)))
                }
                Ok((status, answer)) => {
                    let why = reason(&answer);
                    refusals.push(format!("{address} refuses with status {status}: {why}"));
                }
                Err(ureq::Error::Io(error)) if is_distrust(&error) => {
                    refusals.push(format!("{address} is not trusted: {error}"));
                }
                Err(error) => silent.push(format!("{address}: {error}")),
            }
        }
        Err(no_answer("etcd", silent, refusals, Vec::new()))
    }

    /// Asks a member with a token, and gets a new one where the old one is refused.
    fn ask_as_user(
        &mut self,
        address: &str,
        what: &str,
        body: &str,
    ) -> Result<(u16, Vec<u8>), ureq::Error> {
        let Some(user) = self.place.user.clone() else {
            return self.ask_member(&format!("{address}/v3/kv/{what}"), body);
        };
        if self.token.is_some() {
            let answer = self.ask_member(&format!("{address}/v3/kv/{what}"), body)?;
            // Also after a change of its users.
            if answer.0 != 401 && answer.0 != 400 {
                return Ok(answer);
            }
            self.token = None;
        }
        let asked = json!({ "name": user, "password": self.password }).to_string();
        let answer = self.ask_member(&format!("{address}/v3/auth/authenticate"), &asked)?;
        if answer.0 != 200 {
            return Ok(answer);
        }
        let granted = serde_json::from_slice::<Granted>(&answer.1);
        self.token = granted.ok().map(|granted| granted.token);
        self.ask_member(&format!("{address}/v3/kv/{what}"), body)
    }

    fn ask_member(&self, url: &str, body: &str) -> Result<(u16, Vec<u8>), ureq::Error> {
        let mut request = self.agent.post(url);
        if let Some(token) = &self.token {
            request = request.header("Authorization", token);
        }
        let mut answer = request.send(body)?;
        let status = answer.status().as_u16();
        let read = answer.body_mut().with_config().limit(ANSWER_MAX);
        Ok((status, read.read_to_vec()?))
    }
}

fn parsed<T: for<'a> Deserialize<'a>>(address: &str, answer: &[u8]) -> Result<T, EngineError> {
    let parsed = serde_json::from_slice(answer);
    parsed.map_err(|_| {
        EngineError::Refused(format!("{address} gives an answer that is none of etcd"))
    })
}

fn reason(answer: &[u8]) -> String {
    let reason = serde_json::from_slice::<Reason>(answer);
    reason.map_or_else(|_| String::from("no reason given"), |it| it.message)
}

fn encoded(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

fn decoded(text: &str) -> Result<Vec<u8>, EngineError> {
    let bytes = BASE64_STANDARD.decode(text);
    bytes.map_err(|_| EngineError::Refused(String::from("etcd gives a value that is not encoded")))
}

fn number(text: &str) -> Result<u64, EngineError> {
    let number = text.parse();
    number.map_err(|_| EngineError::Refused(format!("etcd gives `{text}` for a number")))
}

impl Engine for Etcd {
    fn name(&self) -> &'static str {
        "etcd"
    }

    fn row(&mut self) -> Result<Option<Row>, EngineError> {
        let asked = json!({ "key": encoded(&self.row_key()) });
        let found: Ranged = self.ask("range", &asked)?;
        let row = found.kvs.first().map(|pair| {
            Ok(Row {
                version: number(&pair.mod_revision)?,
                bytes: decoded(&pair.value)?,
            })
        });
        row.transpose()
    }

    fn replace(
        &mut self,
        old: Option<&Row>,
        row: &[u8],
        record: Option<(u64, &[u8])>,
    ) -> Result<Option<u64>, EngineError> {
        let key = encoded(&self.row_key());
        let put = |key: String, value: &[u8]| json!({ "request_put": { "key": key, "value": encoded(value) } });
        let mut puts = vec![put(key.clone(), row)];
        if let Some((number, record)) = record {
            puts.push(put(encoded(&self.record_key(number)), record));
        }
        // A key that was never written has revision 0.
        let compare = json!({
            "key": key,
            "target": "MOD",
            "result": "EQUAL",
            "mod_revision": old.map_or(0, |row| row.version).to_string(),
        });
        let done: Done = self.ask("txn", &json!({ "compare": [compare], "success": puts }))?;
        let revision = done.succeeded.then(|| number(&done.header.revision));
        revision.transpose()
    }

    fn records(&mut self, after: u64, count: usize) -> Result<Vec<(u64, Vec<u8>)>, EngineError> {
        let asked = json!({
            "key": encoded(&self.record_key(after.saturating_add(1))),
            "range_end": encoded(&self.records_end()),
            "limit": count,
        });
        let found: Ranged = self.ask("range", &asked)?;
        let records = found.kvs.iter().map(|pair| {
            let key = decoded(&pair.key)?;
            let text = std::str::from_utf8(&key).unwrap_or_default();
            let number = text.rsplit('/').next().unwrap_or_default();
            let number = u64::from_str_radix(number, 16);
            let number = number.map_err(|_| {
                EngineError::Refused(format!("etcd has a key that is no record: {text}"))
            })?;
            Ok((number, decoded(&pair.value)?))
        });
        records.collect()
    }

    fn remove(&mut self, up_to: u64) -> Result<(), EngineError> {
        let asked = json!({
            "key": encoded(&self.record_key(0)),
            "range_end": encoded(&self.record_key(up_to.saturating_add(1))),
        });
        self.ask("deleterange", &asked).map(|_: Value| ())
    }

    fn note(&mut self, name: &str, note: FollowerNote) -> Result<(), EngineError> {
        let key = format!("{}{name}", self.note_prefix());
        let value = format!("{} {}", note.has, note.seen);
        let asked = json!({
            "key": encoded(key.as_bytes()),
            "value": encoded(value.as_bytes()),
        });
        self.ask("put", &asked).map(|_: Value| ())
    }

    fn notes(&mut self) -> Result<BTreeMap<String, FollowerNote>, EngineError> {
        let prefix = self.note_prefix();
        // The byte after the last slash.
        let end = format!("{}/has0", self.prefix);
        let asked =
            json!({ "key": encoded(prefix.as_bytes()), "range_end": encoded(end.as_bytes()) });
        let found: Ranged = self.ask("range", &asked)?;
        let notes = found.kvs.iter().map(|pair| {
            let (key, value) = (decoded(&pair.key)?, decoded(&pair.value)?);
            let name = String::from_utf8_lossy(&key);
            let name = name.strip_prefix(&prefix).unwrap_or_default().to_owned();
            let value = String::from_utf8_lossy(&value);
            let (has, seen) = value.split_once(' ').unwrap_or((&value, "0"));
            let (has, seen) = (number(has)?, number(seen)?);
            Ok((name, FollowerNote { has, seen }))
        });
        notes.collect()
    }

    fn wait(&mut self, attempt: u32) -> bool {
        self.patience.wait(attempt)
    }
}
