//! From a `gannet://` URL to a client of its volume.

use super::key::ClientKey;
use super::place::resolver;
use crate::cli::{ClientOptions, TransferOptions};
use crate::failure::Failure;
use crate::session::provider;
use crate::url::Url;
use gannet_runtime::Handle;
use gannet_volume::client::{Addresses, Siblings, TransferPolicy, VolumeFs};
use gannet_volume::limits::PATIENCE_MAX;
use std::net::SocketAddr;
use std::time::Duration;

/// A client of the volume of `url`, whose manager is at `address`, for the core of `runtime`. Its operations are
/// tried for `patience`, or for ever. The manager has answered when this returns.
///
/// # Errors
/// No key, another volume's key, or nobody there who knows it.
pub async fn connect(
    runtime: &Handle,
    (url, address): (&Url, SocketAddr),
    options: &ClientOptions,
    patience: Option<Duration>,
) -> Result<VolumeFs, Failure> {
    let what = || format!("cannot use the volume at {}:{}", url.host, url.port);
    let key = options.native.volume_key.as_ref().ok_or_else(|| {
        let hint = "give --volume-key FILE, or set GANNET_VOLUME_KEY: it is `client-key` in the volume's folder";
        Failure::new(what(), "its key is missing").hint(hint)
    })?;
    let key = ClientKey::load(key)?;
    let identity = key.client(options.native.dscp.unwrap_or_default());
    let addresses = Addresses {
        manager: Some(address),
        io_servers: Vec::new(),
    };
    let (clock, provider) = (Handle::clone(runtime), provider(runtime, options));
    let siblings = Siblings::new(runtime.random());
    let client = VolumeFs::new(clock, provider, identity, addresses, siblings)
        .resolving(resolver(runtime))
        .patient(patience.unwrap_or(PATIENCE_MAX))
        .with_policy(policy(&options.transfers));
    match client.volume().await {
        Ok(_) => Ok(client),
        Err(error) => Err(Failure::new(what(), error).hint(
            "see whether `gannet serve --volume` runs there, and whether --volume-key is its volume's `client-key`",
        )),
    }
}

fn policy(options: &TransferOptions) -> TransferPolicy {
    let usual = TransferPolicy::default();
    TransferPolicy {
        inline_max: options.inline_max.unwrap_or(usual.inline_max),
        fast_max: options.fast_max.unwrap_or(usual.fast_max),
        client_based: options.client_based,
    }
}
