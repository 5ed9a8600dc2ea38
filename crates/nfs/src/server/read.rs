//! READ.

use super::{Answered, Server, arguments, failed, put};
use crate::convert::attributes_to_wire;
use crate::limits::TRANSFER_MAX;
use gannet_rpc::{Call, FileRange, Payload, Reply};
use gannet_vfs::Vfs;
use gannet_wire::nfs3::{PostOpAttributes, ReadArgs, ReadResult};
use gannet_wire::xdr::Encode;

/// The results of a READ whose file cannot be read after all: NFS3ERR_IO, no attributes.
const UNREADABLE: [u8; 8] = [0, 0, 0, 5, 0, 0, 0, 0];

/// RFC 1813 section 3.3.6.
///
/// Attributes are in every successful reply: the Linux client places the data of a later READ by the length of the
/// results before the data in the first one.
pub(super) async fn read<V: Vfs>(server: &Server<V>, call: &Call, reply: &mut Reply) -> Answered {
    let args: ReadArgs<'_> = arguments(call)?;
    let count = args.count.min(TRANSFER_MAX);
    let opened = match server.target(call, args.file).await {
        Ok(target) => {
            target
                .store()
                .read(&target.credentials, &target.handle, args.offset, count)
                .await
        }
        Err(status) => Err(status),
    };
    let opened = match opened {
        Ok(opened) => opened,
        Err(status) => {
            let peer = call.peer;
            tracing::debug!(%peer, offset = args.offset, count, %status, "a READ is refused");
            let result: ReadResult<'_> = Err(failed(status, None));
            return put(reply, &result);
        }
    };
    let attributes: PostOpAttributes = Some(attributes_to_wire(&opened.attributes));
    let mut results = reply.results();
    results.u32(0);
    attributes.encode(&mut results);
    results.u32(opened.count);
    results.bool(opened.eof);
    // No byte was read yet: the transport takes them from the page cache, and can wait for the disk.
    reply.put_payload(Payload::File(FileRange {
        file: opened.file,
        offset: args.offset,
        len: opened.count as usize,
    }));
    reply.answer_if_unreadable(&UNREADABLE);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_vfs::Status;
    use gannet_wire::xdr::Encoder;

    #[test]
    fn the_answer_for_an_unreadable_file_is_a_legal_read_result() {
        let mut bytes = Vec::new();
        let result: ReadResult<'_> = Err(failed(Status::Io, None));
        result.encode(&mut Encoder::new(&mut bytes));
        assert_eq!(bytes, UNREADABLE);
    }
}
