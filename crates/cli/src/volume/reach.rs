//! The options of a connection to a `gannet://` URL.

use super::key;
use crate::cli::{ClientOptions, OptimisticSwitch, TransferOptions};
use crate::failure::Failure;
use gannet::ConnectOptions;
use gannet::url::Url;
use gannet_volume::client::{Optimistic, ReadOptions, TransferPolicy};

/// Adds the options of the volume of `url` to `settled`.
///
/// # Errors
/// There is no key, or it cannot be used.
pub(crate) fn settled(
    settled: ConnectOptions,
    url: &Url,
    options: &ClientOptions,
) -> Result<ConnectOptions, Failure> {
    let key = options.native.volume_key.as_ref().ok_or_else(|| {
        let what = format!("cannot use the volume at {}:{}", url.host, url.port);
        let hint = "give --volume-key FILE, or set GANNET_VOLUME_KEY: the key is `client-key` in the volume's folder";
        Failure::new(what, "its key is missing").hint(hint)
    })?;
    let classes = options.native.dscp.unwrap_or_default();
    let settled = settled.volume_key(key::load(key)?);
    let settled = settled.transfers(classes, policy(&options.transfers));
    Ok(settled.reads(reads(options)?))
}

fn reads(options: &ClientOptions) -> Result<ReadOptions, Failure> {
    let optimistic = match options.native.optimistic[..] {
        [] => OptimisticSwitch::default(),
        [one] => one,
        _ => {
            let why = "--optimistic takes one value here";
            return Err(Failure::usage("wrong usage", why));
        }
    };
    Ok(ReadOptions {
        optimistic: match optimistic {
            OptimisticSwitch::Auto => Optimistic::Auto,
            OptimisticSwitch::On => Optimistic::On,
            OptimisticSwitch::Off => Optimistic::Off,
        },
        cache_len: options.native.read_cache,
        ..ReadOptions::default()
    })
}

fn policy(options: &TransferOptions) -> TransferPolicy {
    let usual = TransferPolicy::default();
    TransferPolicy {
        inline_max: options.inline_max.unwrap_or(usual.inline_max),
        eager_max: options.fast_max.unwrap_or(usual.eager_max),
        client_driven: options.client_based,
    }
}
