//! A connection to the primary, which is looked for anew when it fails.

use super::{MAKE_TABLES, PostgresqlPlace, TABLES};
use crate::EngineTls;
use crate::no_answer::no_answer;
use crate::tls::is_distrust;
use gannet_meta::EngineError;
use std::io;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, ready};
use std::time::Duration;
use tokio::runtime;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::{DbError, SqlState};
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{
    AsyncMessage, Client, Config, Connection, Error, NoTls, Row, Socket, Statement,
};
use tokio_postgres_rustls::MakeRustlsConnect;

/// How long a server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long one of its addresses may take: its name may have several.
const ADDRESS_TIMEOUT: Duration = Duration::from_millis(400);
/// How long it may take for an answer. Much shorter than the lease of a manager, which asks the next server then.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(1500);
/// How long it may take to stop the work on a request that is given up.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);
/// Statements that a session keeps prepared.
const PREPARED_MAX: usize = 16;

/// The settings that a session needs, whatever those of the server, the database or the user are.
const SET: &str = "
    set synchronous_commit = on;
    set lock_timeout = '1s';
    set client_min_messages = warning;
    set default_transaction_isolation = 'read committed';
    set search_path = pg_catalog";
/// Whether the server is a standby, its standbys, and whether this session waits for them.
const SETTINGS: &str = "
    select pg_is_in_recovery() or current_setting('transaction_read_only')::bool,
        current_setting('synchronous_standby_names'),
        current_setting('synchronous_commit') in ('on', 'remote_apply')";
/// The function of the server that warns of a wait for standbys that was cut short. Other warnings do not matter.
const WAITS_FOR_STANDBYS: &str = "SyncRepWaitForLSN";
/// Whether the schema is missing.
const IS_SCHEMA_NEW: &str = "select to_regnamespace('gannet') is null";
/// The tables that there are: whether they are logged, and the columns of their primary keys.
const TABLES_FOUND: &str = "
    select relname::text, relpersistence = 'p',
        array(select attname::text from pg_constraint join pg_attribute
            on attrelid = conrelid and attnum = any (conkey)
            where conrelid = pg_class.oid and contype = 'p' order by array_position(conkey, attnum))
    from pg_class join pg_namespace on pg_namespace.oid = relnamespace
    where nspname = 'gannet' and relkind = 'r'";

/// A value of a statement.
#[derive(Debug)]
pub(super) enum Parameter {
    Text(String),
    Number(Option<i64>),
    Bytes(Option<Vec<u8>>),
}

impl Parameter {
    fn of(&self) -> Type {
        match self {
            Parameter::Text(_) => Type::TEXT,
            Parameter::Number(_) => Type::INT8,
            Parameter::Bytes(_) => Type::BYTEA,
        }
    }

    fn value(&self) -> &(dyn ToSql + Sync) {
        match self {
            Parameter::Text(value) => value,
            Parameter::Number(value) => value,
            Parameter::Bytes(value) => value,
        }
    }
}

/// The thread that has the connection. The caller may be a task of another runtime, in which none can run.
pub(super) struct Sessions {
    requests: mpsc::UnboundedSender<Request>,
}

/// A statement that the thread is to ask for.
struct Request {
    statement: &'static str,
    parameters: Vec<Parameter>,
    answer: SyncSender<Result<Vec<Row>, EngineError>>,
}

impl Sessions {
    pub(super) fn new(
        place: &PostgresqlPlace,
        password: &str,
        tls: Option<&EngineTls>,
    ) -> io::Result<Sessions> {
        let servers = place.hosts.iter();
        let servers = servers.map(|(host, port)| Server::new(place, host, *port, password, tls));
        let mut connections = Connections {
            servers: servers.collect(),
            last: 0,
            session: None,
        };
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (requests, mut asked) = mpsc::unbounded_channel::<Request>();
        let thread = std::thread::Builder::new().name(String::from("postgresql"));
        thread.spawn(move || {
            runtime.block_on(async {
                while let Some(request) = asked.recv().await {
                    let answer = connections.ask(request.statement, &request.parameters);
                    let _ = request.answer.send(answer.await);
                }
            });
        })?;
        Ok(Sessions { requests })
    }

    /// Asks the servers in turn for the rows of a statement, until the primary answers.
    pub(super) fn ask(
        &mut self,
        statement: &'static str,
        parameters: Vec<Parameter>,
    ) -> Result<Vec<Row>, EngineError> {
        let (answer, answered) = std::sync::mpsc::sync_channel(1);
        let request = Request {
            statement,
            parameters,
            answer,
        };
        let ended = || EngineError::Refused(String::from("the thread of PostgreSQL has ended"));
        self.requests.send(request).map_err(|_| ended())?;
        answered.recv().map_err(|_| ended())?
    }
}

/// Connections to the servers of a database, one at a time.
struct Connections {
    servers: Vec<Server>,
    /// The server that has answered last.
    last: usize,
    session: Option<Session>,
}

/// A server of the database.
struct Server {
    /// Its name for people.
    name: String,
    config: Config,
    tls: Option<MakeRustlsConnect>,
}

/// A connection.
struct Session {
    client: Client,
    tls: Option<MakeRustlsConnect>,
    /// The last warning of the server: it has committed something that the standbys may lack.
    warning: Arc<Mutex<Option<String>>>,
    prepared: Vec<(&'static str, Statement)>,
}

impl Connections {
    async fn ask(
        &mut self,
        statement: &'static str,
        parameters: &[Parameter],
    ) -> Result<Vec<Row>, EngineError> {
        let (mut silent, mut standbys, mut refusals) = (Vec::new(), Vec::new(), Vec::new());
        let first = self.last;
        for turn in 0..self.servers.len() {
            let number = (first + turn) % self.servers.len();
            // One that is silent is not asked first the next time either.
            self.last = number;
            let why = match self.ask_server(number, statement, parameters).await {
                Ok(rows) => return Ok(rows),
                Err(why) => why,
            };
            self.session = None;
            let of_primary = matches!(why, Silence::Alone | Silence::Pooled | Silence::Table(_));
            let is_standby = matches!(why, Silence::IsStandby);
            match self.servers[number].failure(why) {
                EngineError::Unavailable(why) if is_standby => standbys.push(why),
                EngineError::Unavailable(why) => silent.push(why),
                EngineError::Refused(why) if of_primary => return Err(EngineError::Refused(why)),
                // Perhaps a standby that is not set up as the primary is, which is late.
                EngineError::Refused(why) => refusals.push(why),
            }
        }
        Err(no_answer("PostgreSQL", silent, refusals, standbys))
    }

    async fn ask_server(
        &mut self,
        number: usize,
        statement: &'static str,
        parameters: &[Parameter],
    ) -> Result<Vec<Row>, Silence> {
        if let Some(session) = &mut self.session {
            match session.ask(statement, parameters).await {
                // It was closed since the last request. An append that was done all the same shows in the row.
                Err(Silence::Error(error)) if error.is_closed() => {}
                answered => return answered,
            }
        }
        let session = self.session.insert(self.servers[number].session().await?);
        session.ask(statement, parameters).await
    }
}

/// Why a server does not answer.
enum Silence {
    Late,
    IsStandby,
    /// It has no synchronous standbys.
    Alone,
    /// A session has other settings than it was given.
    Pooled,
    /// It may not have replicated what it has committed.
    Warned(String),
    /// A table is not as this program has made it.
    Table(String),
    Error(Error),
}

impl From<Error> for Silence {
    fn from(error: Error) -> Silence {
        Silence::Error(error)
    }
}

impl Server {
    fn new(
        place: &PostgresqlPlace,
        host: &str,
        port: u16,
        password: &str,
        tls: Option<&EngineTls>,
    ) -> Server {
        let mut config = Config::new();
        config
            .host(host)
            .port(port)
            .connect_timeout(ADDRESS_TIMEOUT);
        config
            .user(&place.user)
            .password(password)
            .dbname(&place.database);
        config.application_name("gannet").ssl_mode(match tls {
            Some(_) => SslMode::Require,
            None => SslMode::Disable,
        });
        Server {
            name: format!("{host}:{port}"),
            config,
            tls: tls.map(|it| MakeRustlsConnect::new(it.config())),
        }
    }

    /// Connects to the server, if it is the primary.
    async fn session(&self) -> Result<Session, Silence> {
        let opened = timeout(CONNECT_TIMEOUT, async {
            match &self.tls {
                Some(tls) => self.connect(tls.clone()).await,
                None => self.connect(NoTls).await,
            }
        });
        let session = opened.await.map_err(|_| Silence::Late)??;
        let prepared = timeout(ANSWER_TIMEOUT, session.prepare());
        prepared.await.map_err(|_| Silence::Late)??;
        Ok(session)
    }

    async fn connect<T>(&self, tls: T) -> Result<Session, Error>
    where
        T: MakeTlsConnect<Socket>,
        T::Stream: Send + 'static,
        T::TlsConnect: TlsConnect<Socket>,
    {
        let (client, connection) = self.config.connect(tls).await?;
        let warning = Arc::default();
        tokio::spawn(drive(connection, Arc::clone(&warning)));
        Ok(Session {
            client,
            tls: self.tls.clone(),
            warning,
            prepared: Vec::new(),
        })
    }

    fn failure(&self, why: Silence) -> EngineError {
        let name = &self.name;
        let unavailable = |why: String| EngineError::Unavailable(format!("{name}: {why}"));
        let refused = |why: &str| EngineError::Refused(format!("PostgreSQL at {name} {why}"));
        match why {
            Silence::Late => unavailable(String::from("no answer in time")),
            Silence::IsStandby => unavailable(String::from("it is a standby")),
            Silence::Warned(warning) => unavailable(warning),
            Silence::Alone => refused(
                "has no synchronous standbys: set `synchronous_standby_names`, or changes are lost with its disk",
            ),
            Silence::Pooled => refused(
                "has other settings than the session was given: connect without a pooler between",
            ),
            Silence::Table(why) => refused(&why),
            Silence::Error(error) => match error.as_db_error() {
                Some(db) if is_passing(db) => unavailable(db.message().to_owned()),
                Some(db) => refused(&format!("refuses: {}", db.message())),
                None if is_distrust(&error) => {
                    refused(&format!("is not trusted: {}", causes(&error)))
                }
                None => unavailable(causes(&error)),
            },
        }
    }
}

/// An error and its causes.
fn causes(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

/// Whether an error of the server may go away by itself, or on another server.
fn is_passing(error: &DbError) -> bool {
    let code = error.code();
    // Connections, conflicts, resources, intervention, and errors of the system.
    let class = code.code().get(..2).unwrap_or_default();
    ["08", "40", "53", "57", "58"].contains(&class)
        || *code == SqlState::LOCK_NOT_AVAILABLE
        || *code == SqlState::READ_ONLY_SQL_TRANSACTION
        // Another manager makes the schema and the tables.
        || *code == SqlState::DUPLICATE_SCHEMA
        || *code == SqlState::DUPLICATE_TABLE
        || *code == SqlState::UNIQUE_VIOLATION && error.schema() == Some("pg_catalog")
}

impl Session {
    /// Sees that the server may have the journal, and makes its tables where they are missing.
    async fn prepare(&self) -> Result<(), Silence> {
        self.client.batch_execute(SET).await?;
        check(&self.client.query_typed_one(SETTINGS, &[]).await?)?;
        if self.are_tables_missing().await? {
            // A user who may make tables in a schema that is there need not be allowed to make schemas.
            let is_new = self.client.query_typed_one(IS_SCHEMA_NEW, &[]).await?;
            if is_new.get::<_, bool>(0) {
                self.client.batch_execute("create schema gannet").await?;
            }
            self.client.batch_execute(MAKE_TABLES).await?;
            if self.are_tables_missing().await? {
                return Err(Silence::Table(String::from("does not make its tables")));
            }
        }
        Ok(())
    }

    async fn are_tables_missing(&self) -> Result<bool, Silence> {
        let found = self.client.query_typed(TABLES_FOUND, &[]).await?;
        for (name, key) in TABLES {
            let table = found.iter().find(|row| row.get::<_, &str>(0) == name);
            let Some(table) = table else {
                return Ok(true);
            };
            if !table.get::<_, bool>(1) {
                let why = format!("has an unlogged table gannet.{name}, which standbys do not get");
                return Err(Silence::Table(why));
            }
            if table.get::<_, Vec<&str>>(2) != key {
                let key = key.join(", ");
                let why = format!("has a table gannet.{name} without its primary key ({key})");
                return Err(Silence::Table(why));
            }
        }
        Ok(false)
    }

    /// Asks for the rows of a statement. They are known to the standbys.
    async fn ask(
        &mut self,
        statement: &'static str,
        parameters: &[Parameter],
    ) -> Result<Vec<Row>, Silence> {
        let asked = timeout(ANSWER_TIMEOUT, self.ask_in_time(statement, parameters));
        let answer = asked.await;
        if answer.is_err() {
            // Or it keeps a lock until its standbys are back, and a connection.
            let _ = timeout(CANCEL_TIMEOUT, self.cancel()).await;
        }
        answer.map_err(|_| Silence::Late)?
    }

    async fn cancel(&self) -> Result<(), Error> {
        let token = self.client.cancel_token();
        match &self.tls {
            Some(tls) => token.cancel_query(tls.clone()).await,
            None => token.cancel_query(NoTls).await,
        }
    }

    async fn ask_in_time(
        &mut self,
        statement: &'static str,
        parameters: &[Parameter],
    ) -> Result<Vec<Row>, Silence> {
        let statement = self.prepared(statement, parameters).await?;
        let settings = self.prepared(SETTINGS, &[]).await?;
        self.last_warning().take();
        let values: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(Parameter::value).collect();
        // The settings are those after the commit: with none of its standbys left it does not wait for them.
        let (rows, settings) = tokio::join!(
            self.client.query(&statement, &values),
            self.client.query_one(&settings, &[])
        );
        let rows = rows?;
        check(&settings?)?;
        match self.last_warning().take() {
            Some(warning) => Err(Silence::Warned(warning)),
            None => Ok(rows),
        }
    }

    fn last_warning(&self) -> MutexGuard<'_, Option<String>> {
        self.warning.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn prepared(
        &mut self,
        statement: &'static str,
        parameters: &[Parameter],
    ) -> Result<Statement, Error> {
        let known = self.prepared.iter().find(|(text, _)| *text == statement);
        if let Some((_, known)) = known {
            return Ok(known.clone());
        }
        let types: Vec<Type> = parameters.iter().map(Parameter::of).collect();
        let made = self.client.prepare_typed(statement, &types).await?;
        debug_assert!(
            self.prepared.len() < PREPARED_MAX,
            "there are few statements"
        );
        self.prepared.push((statement, made.clone()));
        Ok(made)
    }
}

/// Sees that a server is the primary, and that its commits wait for standbys.
fn check(settings: &Row) -> Result<(), Silence> {
    if settings.get::<_, bool>(0) {
        return Err(Silence::IsStandby);
    }
    if settings.get::<_, &str>(1).trim().is_empty() {
        return Err(Silence::Alone);
    }
    if !settings.get::<_, bool>(2) {
        return Err(Silence::Pooled);
    }
    Ok(())
}

/// Takes what the server sends, and keeps its last warning.
async fn drive<S, T>(mut connection: Connection<S, T>, warning: Arc<Mutex<Option<String>>>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let ended = std::future::poll_fn(|context| {
        loop {
            match ready!(connection.poll_message(context)) {
                Some(Ok(AsyncMessage::Notice(notice)))
                    if notice.routine().is_none_or(|it| it == WAITS_FOR_STANDBYS) =>
                {
                    let mut last = warning.lock().unwrap_or_else(PoisonError::into_inner);
                    *last = Some(notice.message().to_owned());
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Poll::Ready(()),
            }
        }
    });
    ended.await
}
