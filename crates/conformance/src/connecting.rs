//! Set-up: private data, refusals, depths.

use crate::bed::{Bed, Peer, pattern, ping};
use crate::{Broken, Outcome, ensure, ensure_bytes, ensure_eq};
use gannet_fabric::{ConnectError, ConnectOptions, PrivateDataLimits};
use gannet_runtime::{Dscp, both, timeout};
use std::time::Duration;

/// The time after which no connection of a failed connect arrives any more.
const NOBODY_COMES: Duration = Duration::from_secs(2);

pub(crate) async fn private_data_goes_both_ways(bed: &Bed<'_>) -> Outcome {
    let limits = bed.private_data();
    for (there, back) in [
        (0, 0),
        (1, 20),
        (56, 0),
        (limits.request_max, limits.reply_max),
    ] {
        let (question, answer) = (pattern(1, there), pattern(2, back));
        let mut listener = bed.far.listen(bed.address())?;
        let mut near_options = bed.options()?;
        near_options.private_data = question.clone();
        let mut far_options = bed.options()?;
        far_options.private_data = answer.clone();
        let connecting = bed.near.connect(listener.local_address(), near_options);
        let accepting = async {
            let incoming = listener.accept().await.map_err(ConnectError::from)?;
            let heard = incoming.private_data().to_vec();
            Ok::<_, ConnectError>((incoming.accept(far_options).await?, heard))
        };
        let (near, far) = both(connecting, accepting).await;
        let (near, (far, heard)) = (near?, far?);
        let request = |what, heard: &[u8]| {
            let full = padded(limits, &question, limits.request_max);
            ensure_bytes(what, heard, &full)
        };
        request("private data seen before accepting", &heard)?;
        request("private data at the far end", far.private_data())?;
        let reply = padded(limits, &answer, limits.reply_max);
        ensure_bytes("private data at the near end", near.private_data(), &reply)?;
    }
    Ok(())
}

/// The bytes that arrive when `sent` was sent.
fn padded(limits: PrivateDataLimits, sent: &[u8], max: usize) -> Vec<u8> {
    let mut bytes = sent.to_vec();
    if !limits.exact {
        bytes.resize(max, 0);
    }
    bytes
}

pub(crate) async fn too_much_private_data_is_refused_at_home(bed: &Bed<'_>) -> Outcome {
    let listener = bed.far.listen(bed.address())?;
    let options = ConnectOptions {
        private_data: pattern(3, bed.private_data().request_max + 1),
        ..ConnectOptions::default()
    };
    let outcome = bed.near.connect(listener.local_address(), options).await;
    ensure(
        matches!(outcome, Err(ConnectError::Unsupported(_))),
        "connect took more private data than a set-up message can carry",
    )
}

pub(crate) async fn a_rejection_brings_its_private_data(bed: &Bed<'_>) -> Outcome {
    for len in [0, 77] {
        let why = pattern(4, len);
        let mut listener = bed.far.listen(bed.address())?;
        let connecting = bed.near.connect(listener.local_address(), bed.options()?);
        let rejecting = async {
            listener.accept().await?.reject(why.clone()).await;
            Ok::<_, std::io::Error>(())
        };
        let (near, far) = both(connecting, rejecting).await;
        far?;
        match near {
            Err(ConnectError::Rejected { private_data }) => {
                let limits = bed.private_data();
                let full = padded(limits, &why, limits.reply_max);
                ensure_bytes("private data of the rejection", &private_data, &full)?;
            }
            Err(other) => return Err(Broken::new(format!("not a rejection: {other:?}"))),
            Ok(_) => return Err(Broken::new("connected although rejected")),
        }
    }
    Ok(())
}

pub(crate) async fn a_port_without_listener_is_an_error(bed: &Bed<'_>) -> Outcome {
    let listener = bed.far.listen(bed.address())?;
    let address = listener.local_address();
    drop(listener);
    let outcome = bed.near.connect(address, bed.options()?).await;
    ensure(
        matches!(outcome, Err(ConnectError::Io(_) | ConnectError::TimedOut)),
        "connecting to nobody did not fail as the network's error",
    )
}

pub(crate) async fn read_depths_are_agreed(bed: &Bed<'_>) -> Outcome {
    for (near_ord, near_ird, far_ord, far_ird) in [(4, 4, 4, 4), (8, 2, 3, 5), (1, 1, 8, 8)] {
        let near = ConnectOptions {
            ord: near_ord,
            ird: near_ird,
            ..bed.options()?
        };
        let far = ConnectOptions {
            ord: far_ord,
            ird: far_ird,
            ..bed.options()?
        };
        let (mut near, mut far) = bed.pair_with(near, far).await?;
        ping(&mut near, &mut far).await?;
        let (near, far) = (near.endpoint.attributes(), far.endpoint.attributes());
        ensure(near.ord <= near_ord.min(far.ird), "near ORD passes far IRD")?;
        ensure(far.ord <= far_ord.min(near.ird), "far ORD passes near IRD")?;
        ensure_eq(
            "ORD of both ends",
            (near.ord > 0, far.ord > 0),
            (true, true),
        )?;
    }
    Ok(())
}

pub(crate) async fn a_traffic_class_is_taken_or_refused_at_home(bed: &Bed<'_>) -> Outcome {
    let none = Dscp::default();
    for (near_class, far_class) in [(Dscp::MAX, none), (none, Dscp::MAX)] {
        let options = |traffic_class| {
            Outcome::Ok(ConnectOptions {
                traffic_class,
                ..bed.options()?
            })
        };
        let mut listener = bed.far.listen(bed.address())?;
        let connecting = bed
            .near
            .connect(listener.local_address(), options(near_class)?);
        let far_options = options(far_class)?;
        let accepting = async {
            // When the near end refuses, no connection arrives.
            let incoming = timeout(&bed.runtime, NOBODY_COMES, listener.accept()).await;
            let incoming = incoming.map_err(|_| ConnectError::TimedOut)??;
            incoming.accept(far_options).await
        };
        let (near, far) = both(connecting, accepting).await;
        let refused = if near_class == none { &far } else { &near };
        match refused {
            Err(ConnectError::Unsupported(_)) => {}
            _ => ping(&mut bed.near_peer(near?), &mut Peer::new(&bed.far, far?)).await?,
        }
    }
    Ok(())
}

pub(crate) async fn many_connections_at_once(bed: &Bed<'_>) -> Outcome {
    let mut pairs = Vec::new();
    for _ in 0..8 {
        pairs.push(bed.pair().await?);
    }
    for (near, far) in &mut pairs {
        ping(near, far).await?;
    }
    let mut ids: Vec<_> = pairs.iter().map(|(near, _)| near.endpoint.id()).collect();
    ids.sort();
    ids.dedup();
    ensure_eq("endpoints with an identity of their own", ids.len(), 8)
}
