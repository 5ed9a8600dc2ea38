//! Answers to administrators of a server or a mount, over HTTP: `/metrics`, `/health`, `/status.json`, `/clients.json`,
//! `/busy.json`, `/slow.json`, `/locks.json`, a page.
//!
//! It runs on a thread of its own, so that a reader costs the cores no more than the publication of their numbers. A
//! Unix socket is for the user who runs the server alone, and also changes exports. TCP answers this machine and the
//! networks that were named, and shows no paths; addresses of clients are for these networks.

mod browser;
mod busy;
mod clients;
mod listener;
mod locks;
mod pages;
mod part;
mod slow;
mod subject;

pub use listener::{AdminAddress, AdminError, AdminListener};
pub use part::{Finding, LockList, LockRow, NotReady, Part, PartState};
pub use subject::Subject;

use clients::{LOOK_EVERY, Minute};
use gannet_runtime::tokio_plug::accept_failed;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{HOST, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri, Version, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use listener::{Connection, Rights};
use std::cell::RefCell;
use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, mpsc, oneshot};

/// Most readers at a time; the connections of others are closed.
const CONNECTIONS_MAX: usize = 64;
/// How long a reader may take for a request and its answer.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(10);
/// Bytes of a request's head, and of an answer that the kernel has not taken.
const REQUEST_MAX: usize = 16 * 1024;

/// The paths that are answered to programs.
const PATHS: &str =
    "/metrics\n/health\n/status.json\n/clients.json\n/busy.json\n/slow.json\n/locks.json\n";

/// Asks for the configuration to be read again; answered with what has changed, or why nothing has.
pub type ReloadRequest = oneshot::Sender<Result<String, String>>;

/// Answers until it is dropped.
pub struct Admin {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The facts that are told.
struct Facts {
    subject: Arc<dyn Subject>,
    parts: Vec<Arc<dyn Part>>,
    since: Instant,
    minute: RefCell<Minute>,
    windows: busy::Windows,
    watch: slow::Watch,
    reloads: Option<mpsc::Sender<ReloadRequest>>,
    /// The name of this machine, by which readers may call it.
    host: String,
}

impl Admin {
    /// Answers what `listener` takes with what `subject` counts, and with the state of the `parts` of this process. The
    /// Unix socket hands requests to read the configuration again to `reloads`.
    ///
    /// # Errors
    /// The operating system refuses a thread or an event queue.
    pub fn start(
        listener: AdminListener,
        subject: impl Subject + 'static,
        parts: Vec<Arc<dyn Part>>,
        reloads: Option<mpsc::Sender<ReloadRequest>>,
    ) -> io::Result<Admin> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let windows = busy::Windows::start(subject.registry(), Instant::now());
        let facts = Facts {
            subject: Arc::new(subject),
            parts,
            since: Instant::now(),
            minute: RefCell::new(Minute::new(Instant::now())),
            windows,
            watch: slow::Watch::default(),
            reloads,
            host: rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned(),
        };
        let thread = std::thread::Builder::new()
            .name(String::from("admin"))
            .spawn(move || {
                let local = tokio::task::LocalSet::new();
                let facts = Rc::new(facts);
                let serving = serve(listener, Rc::clone(&facts));
                let until_stopped = async {
                    tokio::select! {
                        () = look_at_clients(&facts) => {}
                        Err(error) = serving => {
                            tracing::error!(%error, "the admin address is not answered any more");
                        }
                        _ = stopped => {}
                    }
                };
                local.block_on(&runtime, until_stopped);
            })?;
        Ok(Admin {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        drop(self.stop.take());
        // It never panics, and a panic would have been reported.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Notes from time to time how much work each client has done; never ends.
async fn look_at_clients(facts: &Facts) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let (registry, now) = (facts.subject.registry(), Instant::now());
        facts.minute.borrow_mut().look(&registry.clients(), now);
        facts.windows.turn(registry, now);
        facts.watch.look(facts.subject.slow(), now);
    }
}

/// Takes connections; ends when the listener is broken.
async fn serve(listener: AdminListener, facts: Rc<Facts>) -> io::Result<()> {
    let listener = listener.listen()?;
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let connection = match listener.accept().await {
            Ok(Some(connection)) => connection,
            // Of an address that may not read.
            Ok(None) => continue,
            Err(error) => {
                accept_failed(&error).await?;
                continue;
            }
        };
        // Without a place the connection is closed.
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            continue;
        };
        let facts = Rc::clone(&facts);
        tokio::task::spawn_local(async move {
            // Whoever takes longer is cut off; other errors are the reader's.
            let _ = tokio::time::timeout(CONNECTION_TIME_MAX, answer(connection, facts)).await;
            drop(place);
        });
    }
}

/// Answers one request.
async fn answer(connection: Connection, facts: Rc<Facts>) -> Result<(), hyper::Error> {
    let (mut builder, rights) = (http1::Builder::new(), connection.rights());
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(CONNECTION_TIME_MAX)
        .max_buf_size(REQUEST_MAX)
        .keep_alive(false);
    let respond = service_fn(|request| {
        let facts = Rc::clone(&facts);
        async move { Ok::<_, Infallible>(respond(&request, rights, &facts).await) }
    });
    match connection {
        Connection::Tcp(stream, _) => {
            builder
                .serve_connection(TokioIo::new(stream), respond)
                .await
        }
        Connection::Unix(stream) => {
            builder
                .serve_connection(TokioIo::new(stream), respond)
                .await
        }
    }
}

/// An answer, with what browsers must not do with it.
fn page(
    status: StatusCode,
    media_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    for (name, value) in [
        (header::CONTENT_TYPE, media_type),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'"),
    ] {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

fn refuse(status: StatusCode, why: &'static str) -> Response<Full<Bytes>> {
    page(status, "text/plain; charset=utf-8", why)
}

async fn respond(
    request: &Request<Incoming>,
    rights: Rights,
    facts: &Facts,
) -> Response<Full<Bytes>> {
    if rights != Rights::All && !names_this_host(request, &facts.host) {
        // A page of somebody else, in a browser here, that has its own name point to this address.
        let why = "the Host is no address of this server: ask by its address, or by its own name\n";
        return refuse(StatusCode::MISDIRECTED_REQUEST, why);
    }
    if request.method() == Method::POST && request.uri().path() == "/reload" {
        return reload(rights, facts).await;
    }
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return refuse(
            StatusCode::METHOD_NOT_ALLOWED,
            "only GET and HEAD are answered\n",
        );
    }
    if let Some(file) = browser::answer(request) {
        return file;
    }
    match request.uri().path() {
        "/metrics" => {
            let reading = facts.subject.read().await;
            let text = pages::metrics(reading, &facts.parts, facts.since.elapsed());
            page(StatusCode::OK, gannet_metrics::Exposition::MEDIA_TYPE, text)
        }
        "/health" => {
            let (is_ready, text) = pages::health(&facts.subject.read().await.health, &facts.parts);
            let status = if is_ready {
                StatusCode::OK
            } else {
                StatusCode::SERVICE_UNAVAILABLE
            };
            page(status, "application/json", text)
        }
        "/status.json" => {
            let reading = facts.subject.read().await;
            let (subject, uptime) = (&*facts.subject, facts.since.elapsed());
            let text = pages::status(subject, &reading, &facts.parts, uptime);
            page(StatusCode::OK, "application/json", text)
        }
        "/clients.json" => {
            let list = facts.subject.registry().clients();
            let mut minute = facts.minute.borrow_mut();
            let text = minute.answer(&list, Instant::now(), rights != Rights::Numbers);
            page(StatusCode::OK, "application/json", text)
        }
        "/busy.json" => {
            let list = facts.subject.registry().busy();
            let text = facts.windows.answer(&list, Instant::now(), rights);
            page(StatusCode::OK, "application/json", text)
        }
        "/slow.json" => {
            let query = request.uri().query().unwrap_or_default();
            let text = facts.watch.answer(facts.subject.slow(), query, rights);
            page(StatusCode::OK, "application/json", text)
        }
        "/locks.json" => {
            let list = facts.subject.registry().clients();
            let shows = rights != Rights::Numbers;
            let text = locks::answer(&facts.parts, &list, &mut facts.minute.borrow_mut(), shows);
            page(StatusCode::OK, "application/json", text)
        }
        "/" => page(StatusCode::OK, "text/plain; charset=utf-8", PATHS),
        _ => refuse(StatusCode::NOT_FOUND, PATHS),
    }
}

/// Has the configuration read again.
async fn reload(rights: Rights, facts: &Facts) -> Response<Full<Bytes>> {
    let text = "text/plain; charset=utf-8";
    if rights != Rights::All {
        let why = "only the Unix socket changes anything: `--admin PATH`, or send SIGHUP\n";
        return refuse(StatusCode::FORBIDDEN, why);
    }
    let Some(reloads) = &facts.reloads else {
        return refuse(
            StatusCode::NOT_FOUND,
            "this process has no configuration to read again\n",
        );
    };
    let (request, answer) = oneshot::channel();
    // A server that ends drops both.
    let sent = reloads.send(request).await.is_ok();
    match answer.await {
        Ok(Ok(said)) if sent => page(StatusCode::OK, text, said + "\n"),
        Ok(Err(why)) => page(StatusCode::CONFLICT, text, why + "\n"),
        _ => refuse(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping\n"),
    }
}

/// Whether the request calls this server by an address, by `localhost`, or by the name of the machine. Requests of
/// HTTP/1.0 need no Host; no browser sends them.
fn names_this_host(request: &Request<Incoming>, own: &str) -> bool {
    let Some(host) = request.headers().get(HOST) else {
        return request.version() == Version::HTTP_10;
    };
    let Some(uri) = host.to_str().ok().and_then(|host| host.parse::<Uri>().ok()) else {
        return false;
    };
    let Some(name) = uri.host() else { return false };
    let address = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    address.unwrap_or(name).parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || name.eq_ignore_ascii_case(own)
}
