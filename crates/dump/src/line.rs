//! A line of the output, for people and as JSON.
//!
//! For people the columns are: seconds since the first packet, connection, direction, operation, CRC, bytes; then the
//! fields, `key=value` or a bare word, in parts divided by ` | `.

use crate::limits::NAME_SHOWN_MAX;
use gannet_wire::printable;
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::fmt;

/// The direction of a message, by its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the end that opened the connection to the other.
    ToServer,
    /// To the end that opened the connection.
    ToClient,
}

impl Direction {
    pub(crate) const BOTH: [Direction; 2] = [Direction::ToServer, Direction::ToClient];

    /// The index of this direction in arrays with an element per direction.
    pub(crate) fn index(self) -> usize {
        self as usize
    }

    pub(crate) fn opposite(self) -> Direction {
        match self {
            Direction::ToServer => Direction::ToClient,
            Direction::ToClient => Direction::ToServer,
        }
    }
}

/// The result of checking the CRCs of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Crc {
    /// They match.
    Ok,
    /// They are not used on this connection.
    Off,
    /// Bytes that they cover are missing.
    Unknown,
    /// Some CRC does not match.
    Bad,
}

impl Crc {
    /// The name in JSON.
    fn name(self) -> &'static str {
        match self {
            Crc::Ok => "ok",
            Crc::Off => "off",
            Crc::Unknown => "unknown",
            Crc::Bad => "bad",
        }
    }

    /// The text for people, in three columns.
    fn text(self) -> &'static str {
        match self {
            Crc::Ok => "ok",
            Crc::Off => "off",
            Crc::Unknown => "?",
            Crc::Bad => "BAD",
        }
    }
}

/// The value of a field.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Number(u64),
    Text(String),
    /// Text out of the capture: quoted and cut for people, and nothing in it can control a terminal.
    Name(String),
    List(Vec<String>),
    /// Several names, each as `Name`.
    Names(Vec<String>),
    /// Milliseconds.
    Milliseconds(f64),
    True,
}

impl From<u32> for Value {
    fn from(value: u32) -> Value {
        Value::Number(value.into())
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Value {
        Value::Number(value)
    }
}

impl From<usize> for Value {
    fn from(value: usize) -> Value {
        Value::Number(value as u64)
    }
}

impl From<String> for Value {
    fn from(value: String) -> Value {
        Value::Text(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Value {
        Value::Text(value.to_owned())
    }
}

impl From<Vec<String>> for Value {
    fn from(value: Vec<String>) -> Value {
        Value::List(value)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(number) => write!(f, "{number}"),
            Value::Text(text) => f.write_str(text),
            Value::Name(name) => f.write_str(&quoted(name)),
            Value::List(items) => f.write_str(&items.join(",")),
            Value::Names(names) => {
                let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
                f.write_str(&names.join(","))
            }
            Value::Milliseconds(value) => write!(f, "{value:.3}ms"),
            Value::True => f.write_str("yes"),
        }
    }
}

/// The name in quotes, and cut if it is very long.
fn quoted(name: &str) -> String {
    let shown: String = name.chars().take(NAME_SHOWN_MAX).collect();
    let more = name.len() - shown.len();
    let shown = shown.replace('"', "\\\"");
    if more == 0 {
        return format!("\"{shown}\"");
    }
    format!("\"{shown}\"+{more}")
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Number(number) => serializer.serialize_u64(*number),
            Value::Text(text) | Value::Name(text) => serializer.serialize_str(text),
            Value::List(items) | Value::Names(items) => items.serialize(serializer),
            Value::Milliseconds(value) => serializer.serialize_f64(*value),
            Value::True => serializer.serialize_bool(true),
        }
    }
}

/// The form of a field on a line.
#[derive(Debug, Clone, Copy)]
enum Style {
    /// `key=value`.
    Pair,
    /// The value alone, in a column at least this wide.
    Word(usize),
    /// The key alone.
    Flag,
}

#[derive(Debug, Clone)]
struct Field {
    key: &'static str,
    value: Value,
    style: Style,
}

/// Fields that belong together.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    /// The subject of the fields, which is the key of their object in JSON.
    name: &'static str,
    fields: Vec<Field>,
}

impl Part {
    /// A part without fields, about `name`.
    pub(crate) fn new(name: &'static str) -> Part {
        Part {
            name,
            fields: Vec::new(),
        }
    }

    /// Appends `key=value`.
    pub(crate) fn pair(&mut self, key: &'static str, value: impl Into<Value>) -> &mut Part {
        self.push(key, value.into(), Style::Pair)
    }

    /// Appends a quoted name out of the capture.
    pub(crate) fn name(&mut self, key: &'static str, bytes: &[u8]) -> &mut Part {
        self.push(key, Value::Name(printable(bytes)), Style::Pair)
    }

    /// Appends quoted names out of the capture.
    pub(crate) fn names<'a>(
        &mut self,
        key: &'static str,
        names: impl Iterator<Item = &'a [u8]>,
    ) -> &mut Part {
        self.push(
            key,
            Value::Names(names.map(printable).collect()),
            Style::Pair,
        )
    }

    /// Appends a value that needs no key to be understood.
    pub(crate) fn word(&mut self, key: &'static str, value: impl Into<Value>) -> &mut Part {
        self.push(key, value.into(), Style::Word(0))
    }

    /// Appends a value that needs no key, in a column of `width`.
    pub(crate) fn column(
        &mut self,
        key: &'static str,
        value: impl Into<Value>,
        width: usize,
    ) -> &mut Part {
        self.push(key, value.into(), Style::Word(width))
    }

    /// Appends `key` if `set`.
    pub(crate) fn flag(&mut self, key: &'static str, set: bool) -> &mut Part {
        if set {
            self.push(key, Value::True, Style::Flag);
        }
        self
    }

    /// True without any field.
    pub(crate) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    fn push(&mut self, key: &'static str, value: Value, style: Style) -> &mut Part {
        self.fields.push(Field { key, value, style });
        self
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, field) in self.fields.iter().enumerate() {
            if index > 0 {
                f.write_str(" ")?;
            }
            match field.style {
                Style::Pair => write!(f, "{}={}", field.key, field.value)?,
                Style::Flag => f.write_str(field.key)?,
                Style::Word(width) => write!(f, "{:<width$}", field.value.to_string())?,
            }
        }
        Ok(())
    }
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.fields.len()))?;
        for field in &self.fields {
            map.serialize_entry(field.key, &field.value)?;
        }
        map.end()
    }
}

/// A message of a connection, or an event.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// The time at which its last byte was captured, in nanoseconds since the epoch.
    pub(crate) time: u64,
    /// Number of the connection, in the order in which they were opened.
    pub(crate) connection: u32,
    pub(crate) direction: Option<Direction>,
    /// Its kind: an RDMAP operation, an RPC record, or an event of the connection.
    pub(crate) operation: &'static str,
    /// Its number on its queue.
    pub(crate) msn: Option<u32>,
    pub(crate) crc: Option<Crc>,
    /// Bytes of the message without the headers of the layers below it.
    pub(crate) bytes: Option<u64>,
    pub(crate) parts: Vec<Part>,
}

impl Line {
    /// A line without parts.
    pub(crate) fn new(time: u64, operation: &'static str) -> Line {
        Line {
            time,
            connection: 0,
            direction: None,
            operation,
            msn: None,
            crc: None,
            bytes: None,
            parts: Vec::new(),
        }
    }

    /// The line for people; `start` is the time of the first packet.
    pub(crate) fn text(&self, start: u64) -> String {
        let arrow = match self.direction {
            None => "",
            Some(Direction::ToServer) => "->",
            Some(Direction::ToClient) => "<-",
        };
        let operation = match self.msn {
            None => self.operation.to_owned(),
            Some(msn) => format!("{} #{msn}", self.operation),
        };
        let bytes = self
            .bytes
            .map(|bytes| bytes.to_string())
            .unwrap_or_default();
        let parts: Vec<String> = self.parts.iter().map(Part::to_string).collect();
        let line = format!(
            "{:>11.6} {:>4} {arrow:<2} {operation:<12} {:<3} {bytes:>8}  {}",
            seconds_between(start, self.time),
            self.connection,
            self.crc.map(Crc::text).unwrap_or_default(),
            parts.join(" | "),
        );
        line.trim_end().to_owned()
    }

    /// The line for machines.
    pub(crate) fn json(&self, start: u64) -> impl Serialize + '_ {
        Json { line: self, start }
    }
}

/// The heading of the columns of [`Line::text`].
pub(crate) const HEADING: &str = "#      time conn    operation    crc    bytes";

struct Json<'a> {
    line: &'a Line,
    start: u64,
}

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let line = self.line;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("time_s", &seconds_between(self.start, line.time))?;
        map.serialize_entry("connection", &line.connection)?;
        if let Some(direction) = line.direction {
            let to = match direction {
                Direction::ToServer => "server",
                Direction::ToClient => "client",
            };
            map.serialize_entry("to", to)?;
        }
        map.serialize_entry("operation", line.operation)?;
        if let Some(msn) = line.msn {
            map.serialize_entry("msn", &msn)?;
        }
        if let Some(crc) = line.crc {
            map.serialize_entry("crc", crc.name())?;
        }
        if let Some(bytes) = line.bytes {
            map.serialize_entry("bytes", &bytes)?;
        }
        for part in &line.parts {
            map.serialize_entry(part.name, part)?;
        }
        map.end()
    }
}

/// Seconds from `start` to `time`, to the microsecond.
pub(crate) fn seconds_between(start: u64, time: u64) -> f64 {
    let microseconds = (i128::from(time) - i128::from(start)).div_euclid(1000);
    microseconds as f64 / 1e6
}
