//! Checks of a server: the properties that matter to its clients.

use super::{Finding, Verdict};
use crate::cli::ClientOptions;
use crate::failure::Failure;
use crate::session::{self, Session};
use crate::volume::status;
use gannet::url::Url;
use gannet_client::Follow;
use gannet_nfs::client::Client;
use gannet_runtime::Handle;
use gannet_vfs::{Attributes, CreateMode, FileHandle, FileKind, SetAttributes, Status};

/// Null calls that are timed.
const CALLS: u32 = 20;

/// All checks of the server of `url`.
pub(super) async fn findings(runtime: &Handle, url: &Url, options: &ClientOptions) -> Vec<Finding> {
    let start = runtime.now();
    let session = match Session::connect(runtime, url, options).await {
        Ok(session) => session,
        Err(failure) => return vec![failed(&failure)],
    };
    let took = runtime.now().duration_since(start);
    let mut findings = vec![Finding::ok(
        "server",
        format!("mounted {url} in {:.1} ms", took.as_secs_f64() * 1e3),
    )];
    let called = round_trip(runtime, &session).await;
    findings.push(called.unwrap_or_else(|failure| failed(&failure)));
    findings.push(writing(&session, url, options).await);
    match session.remote().nfs() {
        None => findings.extend(volume_servers(runtime, url, options).await),
        Some(client) => {
            let found = transfers(client, session.files().root()).await;
            findings.push(found.unwrap_or_else(|failure| failed(&failure)));
        }
    }
    findings
}

/// The state of a volume's servers, as this machine reaches them.
async fn volume_servers(runtime: &Handle, url: &Url, options: &ClientOptions) -> Vec<Finding> {
    let status = match status::look(runtime, url, options).await {
        Ok(status) => status,
        Err(failure) => return vec![failed(&failure)],
    };
    let answering = status.io_servers.iter().filter(|it| it.answers());
    let answering = answering.map(|it| {
        let address = it.address.as_deref().unwrap_or("an unknown address");
        Finding::ok("I/O server", format!("{} answers at {address}", it.number))
    });
    let wrong = status.findings.iter();
    let wrong = wrong.map(|it| Finding::fail("volume", &*it.what, &*it.next));
    let notes = status.notes.iter();
    let notes = notes.map(|it| Finding::note("volume", &*it.what, &*it.next));
    answering.chain(wrong).chain(notes).collect()
}

/// A failure says itself what to do.
fn failed(failure: &Failure) -> Finding {
    Finding {
        verdict: Verdict::Fail,
        ..Finding::ok("server", failure.to_string())
    }
}

async fn round_trip(runtime: &Handle, session: &Session) -> Result<Finding, Failure> {
    let start = runtime.now();
    for _ in 0..CALLS {
        session.ping().await?;
    }
    let each = runtime.now().duration_since(start) / CALLS;
    let micros = each.as_secs_f64() * 1e6;
    Ok(Finding::ok(
        "round trip",
        format!("{micros:.0} us for a null call"),
    ))
}

/// Whether this caller may make a file in the directory of `url`: makes one, and removes it.
async fn writing(session: &Session, url: &Url, options: &ClientOptions) -> Finding {
    const WHAT: &str = "writing";
    let caller = session::caller(options);
    let node = match session.node(url, Follow::Yes).await {
        Ok(node) => node,
        Err(failure) => return failed(&failure),
    };
    if node.attributes.kind != FileKind::Directory {
        return Finding::ok(WHAT, format!("not tried: {url} is not a directory"));
    }
    let name = match getrandom::u64() {
        Ok(random) => format!(".gannet-doctor-{random:016x}"),
        Err(error) => return failed(&Failure::new("cannot get random bytes", error)),
    };
    let (objects, directory) = (session.objects(), &node.handle);
    let mode = CreateMode::Guarded(SetAttributes {
        mode: Some(0o600),
        ..SetAttributes::default()
    });
    if let Err(error) = objects.create(directory, name.as_bytes(), &mode).await {
        let Attributes { mode, uid, gid, .. } = node.attributes;
        let found = format!("user {} cannot make files in {url}: {error}", caller.uid);
        let fix = match error.status() {
            // That is a choice at the server, and no fault.
            Some(Status::Rofs) => {
                return Finding::note(WHAT, found, "the server exports it read-only");
            }
            Some(Status::Acces | Status::Perm) if session.may_be_squashed(options) => {
                format!(
                    "its owner is {uid}:{gid}, its mode {mode:o}; {}",
                    session::SQUASHED
                )
            }
            Some(Status::Acces | Status::Perm) => format!(
                "its owner is {uid}:{gid}, its mode {mode:o}: have it changed, or call as another user with --uid"
            ),
            Some(Status::Nospc | Status::Dquot) => {
                String::from("make room at the server, or have the quota raised")
            }
            _ => String::from("see the server's log"),
        };
        return Finding::warn(WHAT, found, fix);
    }
    match objects.remove(directory, name.as_bytes()).await {
        Ok(()) => Finding::ok(
            WHAT,
            format!("user {} can make and remove files in {url}", caller.uid),
        ),
        Err(error) => Finding::warn(
            WHAT,
            format!("user {} cannot remove what it made: {error}", caller.uid),
            format!("remove {} by hand", url.child(name.as_bytes())),
        ),
    }
}

async fn transfers(client: &Client, root: FileHandle) -> Result<Finding, Failure> {
    let info = client.fsinfo(&root).await;
    let info = info.map_err(|error| Failure::new("FSINFO failed", error))?;
    let found = format!(
        "reads up to {} KiB, writes up to {} KiB",
        info.read_max / 1024,
        info.write_max / 1024
    );
    if info.read_max.min(info.write_max) < 1 << 20 {
        let fix = "the server's own limit; larger transfers would need fewer round trips";
        return Ok(Finding::warn("transfers", found, fix));
    }
    Ok(Finding::ok("transfers", found))
}
