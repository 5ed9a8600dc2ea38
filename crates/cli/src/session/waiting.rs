//! Messages while a server does not reply: which server the command waits for, since when, and how to stop.

use super::remote::away;
use super::{HEARTBEAT_PAUSE, Session, server_of};
use crate::failure::Failure;
use crate::output;
use gannet::url::Url;
use gannet_client::{Error, Listed};
use gannet_runtime::{Handle, Instant, all, sleep, timeout};
use gannet_vfs::{FileHandle, Status};
use std::cell::Cell;
use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

/// How long a server may be silent before a message reports it.
const REPORTED_AFTER: Duration = Duration::from_secs(3);
/// How long a listing may take before it is asked whether I/O servers are away: an answer comes within two seconds.
const LISTING_LATE_AFTER: Duration = Duration::from_millis(600);
/// How long an I/O server may take to greet then, and files on others to be found.
const GREETING_MAX: Duration = Duration::from_millis(500);
const LOOKUPS_MAX: Duration = Duration::from_millis(400);
/// Names of a listing that are looked up at a time.
const LOOKUPS_AT_A_TIME: usize = 32;

/// The message about one server.
struct Notice<'a> {
    runtime: &'a Handle,
    server: String,
    /// The start of the wait that a message has reported.
    reported: Cell<Option<Instant>>,
}

impl<'a> Notice<'a> {
    fn new(runtime: &'a Handle, url: &Url) -> Notice<'a> {
        Notice {
            runtime,
            server: server_of(url),
            reported: Cell::new(None),
        }
    }

    /// Reports once that the command has waited since then.
    fn waits(&self, since: Instant, why: &str) {
        if self.reported.get().is_some() {
            return;
        }
        self.reported.set(Some(since));
        let waited = self.runtime.now().duration_since(since);
        let began = self.runtime.wall_clock().saturating_sub(waited);
        let began = i64::try_from(began.as_secs()).unwrap_or(i64::MAX);
        let began = jiff::Timestamp::from_second(began).unwrap_or_default();
        output::report(&format!(
            "gannet: waiting for {}: {why} since {began} (Ctrl-C stops the command; --timeout SECONDS limits the wait)",
            self.server
        ));
    }

    /// The server has replied.
    fn answered(&self) {
        if let Some(since) = self.reported.take() {
            let waited = self.runtime.now().duration_since(since);
            let seconds = waited.as_secs();
            output::report(&format!(
                "gannet: {} answers again, after {seconds} s",
                self.server
            ));
        }
    }
}

/// Runs `work`, which connects, and reports when it takes long.
pub(super) async fn connecting<T>(runtime: &Handle, url: &Url, work: impl Future<Output = T>) -> T {
    let (notice, began) = (Notice::new(runtime, url), runtime.now());
    let mut work = pin!(work);
    if let Ok(done) = timeout(runtime, REPORTED_AFTER, work.as_mut()).await {
        return done;
    }
    notice.waits(began, "no reply");
    let done = work.await;
    notice.answered();
    done
}

impl Session {
    /// Pings the server periodically, and reports when it does not reply. Ends when it has not replied for
    /// `max`.
    pub(super) async fn silence(&self, runtime: &Handle, url: &Url, max: Duration) -> Failure {
        let heard = async {
            let pause = HEARTBEAT_PAUSE.min(max);
            while timeout(runtime, max, self.ping()).await.is_ok() {
                sleep(runtime, pause).await;
            }
        };
        tokio::select! {
            () = heard => super::silence_failure(format!("lost {}", server_of(url)), max),
            never = self.report_waits(runtime, url) => match never {},
        }
    }

    /// Reports when the server, or one of a volume, does not reply for a while, and when it replies again. Never ends.
    async fn report_waits(&self, runtime: &Handle, url: &Url) -> Infallible {
        let notice = Notice::new(runtime, url);
        loop {
            match self.remote().volume() {
                Some(volume) => match self.objects().waits_since() {
                    Some(since) if runtime.now() >= since + REPORTED_AFTER => {
                        let away = away(volume, GREETING_MAX).await;
                        let why = away.unwrap_or_else(|| String::from("no reply"));
                        notice.waits(since, &why);
                    }
                    _ => notice.answered(),
                },
                None => {
                    let asked = runtime.now();
                    let mut answer = pin!(self.ping());
                    if timeout(runtime, REPORTED_AFTER, answer.as_mut())
                        .await
                        .is_err()
                    {
                        notice.waits(asked, "no reply");
                        // Any outcome, also an error, ends the wait.
                        let _ = answer.await;
                    }
                    notice.answered();
                }
            }
            sleep(runtime, HEARTBEAT_PAUSE).await;
        }
    }

    /// Runs `work`, and reports waits.
    pub(super) async fn reporting<T>(
        &self,
        runtime: &Handle,
        url: &Url,
        work: impl Future<Output = T>,
    ) -> T {
        tokio::select! {
            outcome = work => outcome,
            never = self.report_waits(runtime, url) => match never {},
        }
    }

    /// The entries of a directory, with their attributes or without. While I/O servers of a volume are away, it takes
    /// no longer than two seconds, and names them.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub(crate) async fn list_known(&self, directory: &FileHandle) -> Result<Listed, Error> {
        let (files, objects) = (self.files(), self.objects());
        let Some(volume) = self.remote().volume() else {
            return files.list_known(directory).await;
        };
        let runtime = &self.mounted.runtime();
        let away = async {
            sleep(runtime, LISTING_LATE_AFTER).await;
            loop {
                if let Some(away) = away(volume, GREETING_MAX).await {
                    return away;
                }
                sleep(runtime, HEARTBEAT_PAUSE).await;
            }
        };
        let why = tokio::select! {
            listed = files.list_known(directory) => return listed,
            why = away => why,
        };
        let mut listed = Listed::default();
        let mut items = objects.names(directory).await?;
        let deadline = runtime.now() + LOOKUPS_MAX;
        let mut unknown = Vec::new();
        while !items.is_empty() {
            let left = deadline.duration_since(runtime.now());
            let next = items.split_off(items.len().saturating_sub(LOOKUPS_AT_A_TIME));
            let found = all(next.iter().map(|item| {
                Box::pin(timeout(
                    runtime,
                    left,
                    objects.lookup(directory, &item.name),
                ))
            }));
            let found = found.await;
            for (item, found) in next.into_iter().zip(found) {
                match found {
                    Ok(Ok(node)) => listed.known.push((item, node)),
                    // Gone meanwhile.
                    Ok(Err(Error::Status(Status::Noent | Status::Stale))) => {}
                    Ok(Err(_)) | Err(_) => unknown.push(item),
                }
            }
        }
        if !unknown.is_empty() {
            let why = Error::Failed {
                status: Status::Jukebox,
                cause: why,
            };
            listed.unknown = Some((unknown, why));
        }
        Ok(listed)
    }
}
