//! The files that a load works on: one with data, or many empty ones.

use super::load::{FILE, small_file};
use super::measure::{Interrupt, with_session};
use crate::cli::{BenchOp, ClientOptions};
use crate::failure::{Explain, Failure};
use crate::session::Session;
use gannet::url::Url;
use gannet_client::{Existing, Follow, Transfer, Zeros};
use gannet_runtime::{Buffer, all};
use gannet_vfs::{CreateMode, SetAttributes};

/// Bytes of a READ that warms a file.
const WARM_LEN: u32 = 256 << 10;
/// Files that are made at a time.
const MADE_AT_A_TIME: u64 = 32;

/// The files of a folder on a server.
pub struct Prepared<'a> {
    /// The folder, which is there.
    pub folder: &'a Url,
    /// Bytes of the file with data.
    pub size: u64,
    /// Number of empty files.
    pub files: u64,
    /// Options of the connection.
    pub client: &'a ClientOptions,
}

impl Prepared<'_> {
    /// Makes what `op` uses, unless it is there.
    ///
    /// # Errors
    /// The server cannot be reached, a file cannot be made, or a signal came.
    pub fn make(&self, op: BenchOp, interrupt: &Interrupt) -> Result<(), Failure> {
        with_session(self.folder, self.client, interrupt, async |session| {
            if op.has_records() {
                return fill(&session, &self.folder.child(FILE), self.size).await;
            }
            if op.has_files() {
                return self.make_files(&session).await;
            }
            Ok(())
        })
    }

    async fn make_files(&self, session: &Session) -> Result<(), Failure> {
        let what = || format!("cannot prepare {}", self.folder);
        let objects = session.objects();
        let directory = session.node(self.folder, Follow::No).await?.handle;
        let how = CreateMode::Unchecked(SetAttributes {
            mode: Some(0o600),
            ..SetAttributes::default()
        });
        let (how, mut next) = (&how, 0);
        while next < self.files {
            let until = self.files.min(next + MADE_AT_A_TIME);
            let making = (next..until).map(|number| {
                Box::pin(async move {
                    let name = small_file(number);
                    objects.create(&directory, name.as_bytes(), how).await
                })
            });
            for made in all(making).await {
                made.explain(what)?;
            }
            next = until;
        }
        Ok(())
    }

    /// Reads the file with data, so that it is in the server's memory.
    ///
    /// # Errors
    /// The file cannot be read, or a signal came.
    pub fn warm(&self, interrupt: &Interrupt) -> Result<(), Failure> {
        with_session(self.folder, self.client, interrupt, async |session| {
            let url = self.folder.child(FILE);
            let what = || format!("cannot read {url}");
            let file = session.node(&url, Follow::No).await?.handle;
            let (mut memory, mut offset) = (Buffer::zeroed(WARM_LEN as usize), 0);
            loop {
                let read = session.objects().read_into(&file, offset, WARM_LEN, memory);
                let (read, buffer) = read.await.explain(what)?;
                if read.eof || read.count == 0 {
                    return Ok(());
                }
                offset += u64::from(read.count);
                memory = buffer;
            }
        })
    }
}

/// Writes a file of `len` bytes that are not zeros.
async fn fill(session: &Session, url: &Url, len: u64) -> Result<(), Failure> {
    let what = || format!("cannot write {url}");
    let files = session.files();
    let made = files
        .create(&session.path_of(url), 0o600, Existing::Keep)
        .await
        .explain(what)?;
    if made.attributes.size == len {
        return Ok(());
    }
    let mut writer = files.write_file(&made.handle, Zeros::Write, Transfer::default());
    let mut offset = 0;
    while offset < len {
        let mut buffer = writer.buffer();
        buffer.fill(0xa5);
        let count = usize::try_from(len - offset)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        writer.write(offset, buffer, count).await.explain(what)?;
        offset += count as u64;
    }
    writer.finish().await.map(|_| ()).explain(what)
}
