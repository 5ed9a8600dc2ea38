//! Addresses at which administrators ask a server or a mount.

use crate::failure::{Explain, Failure};
use gannet::admin::{AdminAddress, AdminError, AdminListener};
use gannet_nfs::server::Network;

/// Refuses networks without an address that they could ask.
///
/// # Errors
/// There are such networks.
pub(crate) fn check(address: Option<&AdminAddress>, allowed: &[Network]) -> Result<(), Failure> {
    if address.is_some() || allowed.is_empty() {
        return Ok(());
    }
    let why = "no address for administrators is given";
    Err(Failure::usage("--admin-allow has no effect", why)
        .hint("add --admin ADDRESS:PORT, or `listen` in [admin]"))
}

/// Listens at the address, if there is one, for this host and for hosts of the networks `allowed`.
///
/// # Errors
/// The address cannot be used; as [`check`].
pub(crate) fn listen(
    address: Option<&AdminAddress>,
    allowed: &[Network],
) -> Result<Option<AdminListener>, Failure> {
    check(address, allowed)?;
    let Some(address) = address else {
        return Ok(None);
    };
    let what = || String::from("cannot answer administrators");
    let address = match address {
        // A process in the background has another working directory when it removes the socket.
        AdminAddress::Unix(path) => AdminAddress::Unix(std::path::absolute(path).explain(what)?),
        tcp @ AdminAddress::Tcp(_) => tcp.clone(),
    };
    let bound = AdminListener::bind(&address, allowed.to_vec());
    bound.map(Some).map_err(|error| {
        let hint = match &error {
            AdminError::Listen { .. } => {
                "choose another address with --admin, or a path in a folder that this user can write"
            }
            AdminError::InUse(_) => "stop that server, or choose another path with --admin",
            AdminError::Exposed(_) => {
                "name the networks with --admin-allow 192.0.2.0/24, or listen at 127.0.0.1"
            }
        };
        Failure::new(what(), error).hint(hint)
    })
}
