//! READDIR, READDIRPLUS: entries go from the store straight into the reply.

use super::export::{OuterHandle, Served};
use super::{Answered, Server, arguments, failed, put};
use crate::convert::attributes_to_wire;
use crate::limits::DIRECTORY_PAGE_MAX;
use gannet_rpc::{Call, Reply};
use gannet_vfs::{DirectoryEntry, DirectoryPage, Entries, Status, Vfs};
use gannet_wire::nfs3::{
    Attributes, EntryPlus, Name, PostOpAttributes, ReaddirArgs, ReaddirResult, ReaddirplusArgs,
};
use gannet_wire::xdr::{Encode, Encoder, Reserved, padded};

/// RFC 1813 section 3.3.16.
pub(super) async fn readdir<V: Vfs>(
    server: &Server<V>,
    call: &Call,
    reply: &mut Reply,
) -> Answered {
    let args: ReaddirArgs<'_> = arguments(call)?;
    let request = PageRequest {
        plus: false,
        bytes_max: args.count,
        names_max: u32::MAX,
    };
    list(server, call, reply, &plus(&args, request), request).await
}

/// RFC 1813 section 3.3.17.
pub(super) async fn readdirplus<V: Vfs>(
    server: &Server<V>,
    call: &Call,
    reply: &mut Reply,
) -> Answered {
    let args: ReaddirplusArgs<'_> = arguments(call)?;
    let request = PageRequest {
        plus: true,
        bytes_max: args.max_count,
        names_max: args.directory_count,
    };
    list(server, call, reply, &args, request).await
}

fn plus<'a>(args: &ReaddirArgs<'a>, request: PageRequest) -> ReaddirplusArgs<'a> {
    ReaddirplusArgs {
        directory: args.directory,
        cookie: args.cookie,
        verifier: args.verifier,
        directory_count: request.names_max,
        max_count: request.bytes_max,
    }
}

/// The differences between the two procedures.
#[derive(Clone, Copy)]
struct PageRequest {
    /// Attributes and handles are wanted.
    plus: bool,
    /// Bytes of the whole result that the client can take; a hard bound.
    bytes_max: u32,
    /// Bytes of names, numbers and cookies that the client suggests. The first entry may exceed it.
    names_max: u32,
}

async fn list<V: Vfs>(
    server: &Server<V>,
    call: &Call,
    reply: &mut Reply,
    args: &ReaddirplusArgs<'_>,
    request: PageRequest,
) -> Answered {
    let target = match server.target(call, args.directory).await {
        Ok(target) => target,
        Err(status) => return put_failed(reply, status, None),
    };
    let mut page = PageWriter::new(reply.results(), &target.served, request);
    let read = target
        .store()
        .read_directory(
            &target.credentials,
            &target.handle,
            args.cookie,
            args.verifier,
            &mut page,
        )
        .await;
    let refused = match read {
        // An empty page that is not the end would make clients ask for the same page for ever.
        Ok(end) if page.count > 0 || (end.eof && !page.is_full) => {
            page.finish(&end);
            return Ok(());
        }
        Ok(end) => (Status::Toosmall, Some(attributes_to_wire(&end.attributes))),
        Err(status) => (status, None),
    };
    // The writer has put a successful result's beginning there already.
    reply.clear();
    put_failed(reply, refused.0, refused.1)
}

fn put_failed(reply: &mut Reply, status: Status, attributes: PostOpAttributes) -> Answered {
    let result: ReaddirResult<'_> = Err(failed(status, attributes));
    put(reply, &result)
}

/// Words before the entries that are known after them: the directory's attributes and the verifier.
const LATE_WORDS: usize = Attributes::LEN / 4 + 2;
/// Bytes of the result that are not entries: the words above with the attributes' flag, the end of the list, eof.
const AROUND: usize = 4 + LATE_WORDS * 4 + 4 + 4;

/// Bytes of a READDIRPLUS entry with a name of four bytes and the shortest handle of a local store.
const PLUS_MIN: usize = 4 + 8 + 8 + 8 + (4 + Attributes::LEN) + (4 + 4 + 28);
/// Bytes of its name, number and cookie.
const NAME_MIN: usize = 8 + 8 + 8;

/// Writes entries into a reply as the store finds them, up to what the client can take.
struct PageWriter<'r, V> {
    encoder: Encoder<'r>,
    served: &'r Served<V>,
    late: [Reserved; LATE_WORDS],
    plus: bool,
    bytes_left: usize,
    names_left: usize,
    count: u32,
    is_full: bool,
}

impl<'r, V: Vfs> PageWriter<'r, V> {
    fn new(
        mut encoder: Encoder<'r>,
        served: &'r Served<V>,
        request: PageRequest,
    ) -> PageWriter<'r, V> {
        encoder.u32(0);
        encoder.bool(true);
        let late = std::array::from_fn(|_| encoder.reserve());
        let bytes_max = request.bytes_max.min(DIRECTORY_PAGE_MAX) as usize;
        PageWriter {
            encoder,
            served,
            late,
            plus: request.plus,
            bytes_left: bytes_max.saturating_sub(AROUND),
            names_left: request.names_max as usize,
            count: 0,
            is_full: false,
        }
    }

    /// Takes `entry` if it fits: `None` when it does not.
    fn take(&mut self, entry: &DirectoryEntry<'_>) -> Option<()> {
        let name_bytes = 8 + 4 + padded(entry.name.len())? + 8;
        if self.count > 0 && name_bytes > self.names_left {
            return None;
        }
        let before = self.encoder.position();
        self.encoder.bool(true);
        if self.plus {
            let object = entry.object.as_ref();
            let outer = object.and_then(|(handle, _)| self.served.outer(handle));
            EntryPlus {
                fileid: entry.fileid,
                name: Name(entry.name),
                cookie: entry.cookie,
                attributes: object.map(|(_, attributes)| attributes_to_wire(attributes)),
                handle: outer.as_ref().map(OuterHandle::as_wire),
            }
            .encode(&mut self.encoder);
        } else {
            self.encoder.u64(entry.fileid);
            self.encoder.opaque(entry.name);
            self.encoder.u64(entry.cookie);
        }
        let Some(left) = self
            .bytes_left
            .checked_sub(self.encoder.position() - before)
        else {
            self.encoder.truncate(before);
            return None;
        };
        self.bytes_left = left;
        self.names_left = self.names_left.saturating_sub(name_bytes);
        self.count += 1;
        Some(())
    }

    fn finish(mut self, page: &DirectoryPage) {
        self.encoder.bool(false);
        self.encoder.bool(page.eof && !self.is_full);
        let words = attributes_to_wire(&page.attributes).words();
        let verifier = page
            .verifier
            .as_chunks::<4>()
            .0
            .iter()
            .map(|word| u32::from_be_bytes(*word));
        for (place, word) in self.late.into_iter().zip(words.into_iter().chain(verifier)) {
            self.encoder.patch(place, word);
        }
    }
}

impl<V: Vfs> Entries for PageWriter<'_, V> {
    fn wants_objects(&self) -> bool {
        self.plus
    }

    fn room(&self) -> usize {
        // One more, the entry that does not fit: the store must have it before `push` can refuse it.
        (self.bytes_left / PLUS_MIN).min(self.names_left / NAME_MIN) + 1
    }

    fn push(&mut self, entry: &DirectoryEntry<'_>) -> bool {
        if self.is_full {
            return false;
        }
        self.is_full = self.take(entry).is_none();
        !self.is_full
    }
}
