//! What a person hears while a server does not answer: for whom the command waits, since when, and how to stop it.

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

/// How long a server may be silent before that is told.
const TOLD_AFTER: Duration = Duration::from_secs(3);
/// How long a listing may take before it is asked whether I/O servers are away: an answer comes within two seconds.
const LISTING_LATE_AFTER: Duration = Duration::from_millis(600);
/// How long an I/O server may take to greet then, and files on others to be found.
const GREETING_MAX: Duration = Duration::from_millis(500);
const LOOKUPS_MAX: Duration = Duration::from_millis(400);
/// Names of a listing that are looked up at a time.
const LOOKUPS_AT_A_TIME: usize = 32;

/// What was told about one server.
struct Notice<'a> {
    runtime: &'a Handle,
    server: String,
    /// The last wait began then, and was told.
    told: Cell<Option<Instant>>,
}

impl<'a> Notice<'a> {
    fn new(runtime: &'a Handle, url: &Url) -> Notice<'a> {
        Notice {
            runtime,
            server: server_of(url),
            told: Cell::new(None),
        }
    }

    /// Tells, once, that an answer has been waited for since then.
    fn waits(&self, since: Instant, why: &str) {
        if self.told.get().is_some() {
            return;
        }
        self.told.set(Some(since));
        let waited = self.runtime.now().duration_since(since);
        let began = self.runtime.wall_clock().saturating_sub(waited);
        let began = i64::try_from(began.as_secs()).unwrap_or(i64::MAX);
        let began = jiff::Timestamp::from_second(began).unwrap_or_default();
        output::report(&format!(
            "gannet: waiting for {}: {why} since {began} (Ctrl-C stops the command; --timeout SECONDS limits the wait)",
            self.server
        ));
    }

    /// There was an answer.
    fn answered(&self) {
        if let Some(since) = self.told.take() {
            let waited = self.runtime.now().duration_since(since);
            let seconds = waited.as_secs();
            output::report(&format!(
                "gannet: {} answers again, after {seconds} s",
                self.server
            ));
        }
    }
}

/// Makes a connection; tells if that takes long.
pub(super) async fn connecting<T>(runtime: &Handle, url: &Url, work: impl Future<Output = T>) -> T {
    let (notice, began) = (Notice::new(runtime, url), runtime.now());
    let mut work = pin!(work);
    if let Ok(done) = timeout(runtime, TOLD_AFTER, work.as_mut()).await {
        return done;
    }
    notice.waits(began, "no reply");
    let done = work.await;
    notice.answered();
    done
}

impl Session {
    /// Asks the server again and again whether it is there, and tells when it is not. Ends when it has not answered for
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

    /// Tells when the server, or one of a volume, has not answered for a while, and when it does again. Has no end.
    async fn report_waits(&self, runtime: &Handle, url: &Url) -> Infallible {
        let notice = Notice::new(runtime, url);
        loop {
            match self.remote().volume() {
                Some(volume) => match self.objects().waits_since() {
                    Some(since) if runtime.now() >= since + TOLD_AFTER => {
                        let away = away(volume, GREETING_MAX).await;
                        let why = away.unwrap_or_else(|| String::from("no reply"));
                        notice.waits(since, &why);
                    }
                    _ => notice.answered(),
                },
                None => {
                    let asked = runtime.now();
                    let mut answer = pin!(self.ping());
                    if timeout(runtime, TOLD_AFTER, answer.as_mut()).await.is_err() {
                        notice.waits(asked, "no reply");
                        // Whatever came of it: somebody is there.
                        let _ = answer.await;
                    }
                    notice.answered();
                }
            }
            sleep(runtime, HEARTBEAT_PAUSE).await;
        }
    }

    /// Runs `work` to its end, and tells of waits.
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

    /// Everything in a directory, be it known what it is or not. While I/O servers of a volume are away, it takes no
    /// longer than two seconds, and they are named.
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
