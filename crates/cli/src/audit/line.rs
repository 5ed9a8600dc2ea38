//! The text of an event: one JSON object on one line.

use gannet_nfs::server::{Event, Field};
use gannet_rpc::Transport;
use jiff::Timestamp;
use serde_json::{Value, to_string};
use std::fmt::Display;

/// Bytes of a message in a line; longer ones are cut.
const MESSAGE_MAX: usize = 1000;

/// A line in the making. Keys are words of this program; values are encoded by `serde_json`, so that no name of a
/// client can end a string or a line.
pub(super) struct Line(String);

impl Line {
    /// A line with the time.
    pub(super) fn new(event: &'static str) -> Line {
        let mut line = Line(String::with_capacity(384));
        line.0.push('{');
        // Microseconds are enough to order events, and a fixed length reads well.
        line.text("time", &format!("{:.6}", Timestamp::now()));
        line.word("event", event);
        line
    }

    fn value(&mut self, key: &'static str, value: &Value) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        self.0.push('"');
        self.0.push_str(key);
        self.0.push_str("\":");
        // Text and numbers can always be encoded.
        let encoded = to_string(value);
        self.0.push_str(encoded.as_deref().unwrap_or("null"));
    }

    pub(super) fn word(&mut self, key: &'static str, word: &str) {
        self.value(key, &Value::from(word));
    }

    /// Text of any length.
    pub(super) fn text(&mut self, key: &'static str, text: &str) {
        let text: String = text.chars().take(MESSAGE_MAX).collect();
        self.value(key, &Value::from(text));
    }

    pub(super) fn number(&mut self, key: &'static str, number: impl Into<u64>) {
        self.value(key, &Value::from(number.into()));
    }

    fn shown(&mut self, key: &'static str, value: impl Display) {
        self.value(key, &Value::from(value.to_string()));
    }

    /// The line with its end.
    pub(super) fn finish(self) -> Vec<u8> {
        let mut bytes = self.0.into_bytes();
        bytes.extend_from_slice(b"}\n");
        bytes
    }
}

/// The line of an event of a server.
pub(super) fn of_event(event: &Event<'_>) -> Vec<u8> {
    let mut line = Line::new(event.kind.name());
    line.shown("client", event.peer.ip().to_canonical());
    line.number("port", event.peer.port());
    match event.transport {
        Some(Transport::Tcp) => line.word("transport", "tcp"),
        Some(Transport::Rdma) => line.word("transport", "rdma"),
        None => {}
    }
    if let Some(user) = event.stated {
        line.number("uid", user.uid);
        line.number("gid", user.gid);
    }
    if let Some(user) = event.effective {
        line.number("as_uid", user.uid);
        line.number("as_gid", user.gid);
    }
    if let Some(subject) = &event.subject {
        subject.each_field(|name, field| match field {
            Field::Number(number) => line.number(name, number),
            other => line.shown(name, other),
        });
    }
    line.word("status", event.status);
    if let Some(check) = event.check {
        line.word("check", check.name());
        line.word("why", check.why());
    }
    line.finish()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use gannet_nfs::server::{Check, EventKind, Subject, User};
    use gannet_wire::nfs3::{self, DirectoryName, FileHandle, Name};
    use gannet_wire::xdr::to_bytes;

    #[test]
    fn a_hostile_name_stays_in_its_line() {
        let name = b"a\",\"event\":\"b\n\r\x1b[2J\\\xff\x00";
        let arguments = to_bytes(&DirectoryName {
            directory: FileHandle(&[1, 2]),
            name: Name(name),
        });
        let subject = Subject::parse(nfs3::PROGRAM, 12, &arguments);
        let bytes = of_event(&Event {
            kind: EventKind::Refusal,
            peer: "[::ffff:192.0.2.7]:823".parse().unwrap(),
            transport: Some(Transport::Rdma),
            stated: Some(User { uid: 0, gid: 1 }),
            effective: None,
            subject,
            status: "ACCES",
            check: Some(Check::Permission),
        });
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(text.matches('\n').count(), 1);
        assert!(text.ends_with("}\n"));
        assert!(!text.contains('\x1b') && text.is_ascii(), "{text}");
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["event"], "refusal");
        assert_eq!(
            (&read["client"], &read["port"]),
            (&Value::from("192.0.2.7"), &Value::from(823))
        );
        assert_eq!(read["name"], r#"a\",\"event\":\"b\n\r\u{1b}[2J\\\xff\u{0}"#);
        assert_eq!(
            (&read["handle"], &read["procedure"]),
            (&Value::from("0102"), &Value::from("REMOVE"))
        );
        assert_eq!(read["check"], "permission");
        assert!(read.get("as_uid").is_none());
        let time = read["time"].as_str().unwrap();
        assert_eq!((time.len(), time.ends_with('Z')), (27, true), "{time}");
    }

    #[test]
    fn the_longest_line_is_shorter_than_the_smallest_file() {
        let long = [0xff; 4096];
        let place = DirectoryName {
            directory: FileHandle(&[255; 64]),
            name: Name(&long),
        };
        let arguments = to_bytes(&nfs3::RenameArgs {
            from: place,
            to: place,
        });
        let event = Event {
            kind: EventKind::Change,
            peer: "192.0.2.7:823".parse().unwrap(),
            transport: None,
            stated: None,
            effective: None,
            subject: Subject::parse(nfs3::PROGRAM, 14, &arguments),
            status: "OK",
            check: None,
        };
        let bytes = of_event(&event);
        assert!(
            (bytes.len() as u64) < super::super::SIZE_MIN,
            "{}",
            bytes.len()
        );
    }
}
