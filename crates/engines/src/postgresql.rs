//! PostgreSQL, with synchronous standbys.
//!
//! The row is one row of a table, and each record another. An append is one statement: if the row is still the one
//! that this manager knows, it is replaced and the record is inserted. A commit waits for the standbys. One whose wait
//! is cut short is visible and perhaps not replicated, so a read of the row commits something itself, behind what it
//! has read: the standbys get both or none.

mod session;

use crate::EngineTls;
use crate::patience::Patience;
use gannet_meta::{Engine, EngineError, FollowerNote, Row};
use session::{Parameter, Sessions};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

/// The tables, in the schema `gannet`, and the columns of their primary keys.
const TABLES: [(&str, &[&str]); 3] = [
    ("journal", &["volume"]),
    ("manager", &["volume", "name"]),
    ("record", &["volume", "number"]),
];
/// Makes the tables where they are missing. Records are compressed before they come here.
const MAKE_TABLES: &str = "
    create table if not exists gannet.journal
        (volume text primary key, version bigint not null, head bytea not null)
        with (fillfactor = 50);
    create table if not exists gannet.record
        (volume text, number bigint, body bytea not null, primary key (volume, number));
    alter table gannet.record alter column body set storage external;
    create table if not exists gannet.manager
        (volume text, name text, has bigint not null, seen bigint not null,
        primary key (volume, name))
        with (fillfactor = 50);";
/// The row, and a commit behind it. Its message reaches the standbys alone.
const ROW: &str = "
    select version, head, pg_logical_emit_message(true, 'gannet', '')::text
    from (values (1)) as always left join gannet.journal on volume = $1";
/// Replaces the row, and adds a record if there is one.
const REPLACE: &str = "
    with row as (
        update gannet.journal set version = version + 1, head = $2
        where volume = $1 and version = $5 and head = $6 returning version
    ), added as (
        insert into gannet.record (volume, number, body)
        select $1, $3, $4 from row where $3 is not null
    ) select version from row";
/// Writes the first row.
const BEGIN: &str = "
    with row as (
        insert into gannet.journal (volume, version, head) values ($1, 1, $2)
        on conflict do nothing returning version
    ), added as (
        insert into gannet.record (volume, number, body)
        select $1, $3, $4 from row where $3 is not null
    ) select version from row";
const RECORDS: &str = "
    select number, body from gannet.record where volume = $1 and number > $2 order by number limit $3";
/// Removes the first records, so many that it takes a moment.
const REMOVE: &str = "
    with gone as (
        delete from gannet.record where volume = $1 and number <= $2 and number < $3 + (
            select min(number) from gannet.record where volume = $1
        ) returning 1
    ) select count(*) from gone";
/// Most records that are removed by one statement.
const REMOVED_MAX: u64 = 5000;
const NOTE: &str = "
    insert into gannet.manager (volume, name, has, seen) values ($1, $2, $3, $4)
    on conflict (volume, name) do update set has = excluded.has, seen = excluded.seen";
const NOTES: &str = "select name, has, seen from gannet.manager where volume = $1";

/// A database, and the servers that may have it: one of them is the primary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresqlPlace {
    /// Names or addresses, and ports.
    pub hosts: Vec<(String, u16)>,
    /// The user.
    pub user: String,
    /// The name of the database.
    pub database: String,
}

/// A database that has the journal of a volume in its schema `gannet`.
pub struct Postgresql {
    sessions: Sessions,
    volume: String,
    patience: Patience,
}

impl Postgresql {
    /// The journal of the volume of this name, over TLS if that is given. A request without an answer is sent again for
    /// as long as `patience`.
    ///
    /// # Errors
    /// The system gives no event queue, or no thread.
    pub fn new(
        place: &PostgresqlPlace,
        password: &str,
        tls: Option<&EngineTls>,
        volume: &str,
        patience: Duration,
    ) -> io::Result<Postgresql> {
        Ok(Postgresql {
            sessions: Sessions::new(place, password, tls)?,
            volume: volume.to_owned(),
            patience: Patience::new(patience),
        })
    }

    /// Asks for the rows of a statement, whose first parameter is the volume.
    fn ask(
        &mut self,
        statement: &'static str,
        more: impl IntoIterator<Item = Parameter>,
    ) -> Result<Vec<tokio_postgres::Row>, EngineError> {
        let volume = Parameter::Text(self.volume.clone());
        let parameters = std::iter::once(volume).chain(more);
        self.sessions.ask(statement, parameters.collect())
    }
}

fn text(text: &str) -> Parameter {
    Parameter::Text(text.to_owned())
}

fn bytes(bytes: &[u8]) -> Parameter {
    Parameter::Bytes(Some(bytes.to_vec()))
}

/// A number as PostgreSQL has it.
fn signed(number: u64) -> Parameter {
    Parameter::Number(Some(i64::try_from(number).unwrap_or(i64::MAX)))
}

/// A value of a row that a statement of this module gives.
fn value<'a, T: tokio_postgres::types::FromSql<'a>>(
    row: &'a tokio_postgres::Row,
    column: usize,
) -> Result<T, EngineError> {
    let value = row.try_get(column);
    value
        .map_err(|error| EngineError::Refused(format!("a table of PostgreSQL is another: {error}")))
}

fn number(row: &tokio_postgres::Row, column: usize) -> Result<u64, EngineError> {
    let number = u64::try_from(value::<i64>(row, column)?);
    number.map_err(|_| EngineError::Refused(String::from("PostgreSQL has a number below 0")))
}

impl Engine for Postgresql {
    fn name(&self) -> &'static str {
        "PostgreSQL"
    }

    fn row(&mut self) -> Result<Option<Row>, EngineError> {
        let found = self.ask(ROW, [])?;
        let Some(found) = found.first() else {
            return Ok(None);
        };
        let Some(bytes) = value::<Option<Vec<u8>>>(found, 1)? else {
            return Ok(None);
        };
        let version = number(found, 0)?;
        Ok(Some(Row { version, bytes }))
    }

    fn replace(
        &mut self,
        old: Option<&Row>,
        row: &[u8],
        record: Option<(u64, &[u8])>,
    ) -> Result<Option<u64>, EngineError> {
        let (place, body) = match record {
            Some((number, body)) => (signed(number), bytes(body)),
            None => (Parameter::Number(None), Parameter::Bytes(None)),
        };
        let new = [bytes(row), place, body];
        // The version of a row that a failover has undone may come again. Its bytes, which name a manager and a
        // record, do not.
        let done = match old {
            Some(old) => {
                let old = [signed(old.version), bytes(&old.bytes)];
                self.ask(REPLACE, new.into_iter().chain(old))?
            }
            None => self.ask(BEGIN, new)?,
        };
        done.first().map(|row| number(row, 0)).transpose()
    }

    fn records(&mut self, after: u64, count: usize) -> Result<Vec<(u64, Vec<u8>)>, EngineError> {
        let found = self.ask(RECORDS, [signed(after), signed(count as u64)])?;
        let records = found
            .iter()
            .map(|row| Ok((number(row, 0)?, value(row, 1)?)));
        records.collect()
    }

    fn remove(&mut self, up_to: u64) -> Result<(), EngineError> {
        loop {
            let gone = self.ask(REMOVE, [signed(up_to), signed(REMOVED_MAX)])?;
            let gone = gone.first().map_or(Ok(0), |row| number(row, 0))?;
            if gone == 0 {
                return Ok(());
            }
        }
    }

    fn note(&mut self, name: &str, note: FollowerNote) -> Result<(), EngineError> {
        self.ask(NOTE, [text(name), signed(note.has), signed(note.seen)])?;
        Ok(())
    }

    fn notes(&mut self) -> Result<BTreeMap<String, FollowerNote>, EngineError> {
        let found = self.ask(NOTES, [])?;
        let notes = found.iter().map(|row| {
            let (has, seen) = (number(row, 1)?, number(row, 2)?);
            Ok((value(row, 0)?, FollowerNote { has, seen }))
        });
        notes.collect()
    }

    fn wait(&mut self, attempt: u32) -> bool {
        self.patience.wait(attempt)
    }
}
