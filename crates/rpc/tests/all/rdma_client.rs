//! The requester's duties of RFC 8166, with a responder made by hand.

#![allow(clippy::unwrap_used)]

use crate::common;

use common::by_hand::by_hand;
use common::raw::Raw;
use common::*;
use gannet_fabric::{Invalidate, RemoteKey, SendOptions};
use gannet_rpc::{CallError, Client};
use gannet_runtime::both;

/// Bytes of a result that a Write chunk is offered for.
const LONG: usize = 60_000;

async fn read_long(client: &Client) -> Option<CallError> {
    let mut call = read_request(READ, LONG);
    call.arguments().u32(LONG as u32);
    client.call(call).await.err()
}

/// A server that revokes the key of one call with the reply to another has broken the protocol: the memory of the first
/// call would come back while RDMA Writes to it may be on the way.
#[test]
fn a_reply_that_revokes_the_key_of_another_call_ends_the_connection() {
    by_hand(|mut lab| async move {
        let calls = async {
            let null = lab.client.call(request(NULL, 0)).await;
            assert!(null.is_ok());
            all([read_long(&lab.client), read_long(&lab.client)]).await
        };
        let serving = async {
            let incoming = lab.listener.accept().await.unwrap();
            let raw = Raw::accept(&lab.runtime, incoming, 1).await;
            let first = raw.receive().await.unwrap();
            raw.post_receives(2);
            raw.reply(first.header.xid, 2);
            let (one, other) = (raw.receive().await.unwrap(), raw.receive().await.unwrap());
            let key = other.lists.writes().next().unwrap()[0].handle;
            let options = SendOptions {
                invalidate: Invalidate::Key(RemoteKey(key)),
                ..SendOptions::default()
            };
            raw.reply_with(one.header.xid, 2, options);
            assert!(raw.receive().await.is_err(), "the connection goes on");
            // Neither call was answered: both come again.
            let incoming = lab.listener.accept().await.unwrap();
            let raw = Raw::accept(&lab.runtime, incoming, 1).await;
            raw.receive().await.unwrap();
            lab.client.close();
        };
        let (failed, ()) = both(calls, serving).await;
        assert_eq!(failed, [Some(CallError::Closed), Some(CallError::Closed)]);
    });
}
