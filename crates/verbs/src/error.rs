//! The reason why RDMA devices cannot be used, as one line with a cure.

use std::io;
use std::net::IpAddr;
use thiserror::Error;

/// RDMA devices cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum VerbsError {
    /// A library of rdma-core is missing, or lacks a function.
    #[error(
        "cannot load {file}: {reason} (install rdma-core: libibverbs1, librdmacm1, ibverbs-providers)"
    )]
    Library {
        /// The library.
        file: &'static str,
        /// The reason that the loader gives.
        reason: String,
    },
    /// The machine has no RDMA device, or no driver for it.
    #[error(
        "no RDMA device (load the adapter's driver, or add a software device: `rdma link add`)"
    )]
    NoDevice,
    /// There is no device with this name.
    #[error("no RDMA device is called {name} (see `rdma link`)")]
    UnknownDevice {
        /// The name.
        name: String,
    },
    /// The address is of no RDMA device.
    #[error("no RDMA device has the address {address}: {source} (see `rdma link`)")]
    Address {
        /// The address.
        address: IpAddr,
        /// The reason that the system gives.
        source: io::Error,
    },
    /// The process may not use the devices.
    #[error("may not use {what}: {source} (give this user access to /dev/infiniband)")]
    Permission {
        /// The object.
        what: &'static str,
        /// The reason that the system gives.
        source: io::Error,
    },
    /// The kernel has no connection manager for processes.
    #[error("the kernel has no RDMA connection manager: {source} (load the module rdma_ucm)")]
    Manager {
        /// The reason that the system gives.
        source: io::Error,
    },
    /// The device refuses a resource.
    #[error("cannot make {what}: {source} (raise the limit of locked memory: `ulimit -l`)")]
    Resources {
        /// The resource.
        what: &'static str,
        /// The reason that the system gives.
        source: io::Error,
    },
    /// The device pins all memory that it reaches.
    #[error(
        "the RDMA device {name} has no on-demand paging for Send, RDMA Read and RDMA Write (leave --on-demand-paging out)"
    )]
    NoPaging {
        /// The kernel's name of the device.
        name: String,
    },
    /// The device does not answer.
    #[error("the RDMA device does not answer: {source} (see the kernel's log)")]
    Device {
        /// The reason that the system gives.
        source: io::Error,
    },
}

impl VerbsError {
    /// The error of a listing of devices.
    pub(crate) fn of_devices(source: io::Error) -> VerbsError {
        match source.kind() {
            io::ErrorKind::PermissionDenied => VerbsError::Permission {
                what: "the RDMA devices",
                source,
            },
            io::ErrorKind::NotFound => VerbsError::NoDevice,
            _ if source.raw_os_error() == Some(libc::ENODEV) => VerbsError::NoDevice,
            _ => VerbsError::Device { source },
        }
    }

    /// The error of the connection manager.
    pub(crate) fn of_manager(source: io::Error) -> VerbsError {
        match source.kind() {
            io::ErrorKind::PermissionDenied => VerbsError::Permission {
                what: "the RDMA connection manager",
                source,
            },
            _ => VerbsError::Manager { source },
        }
    }

    /// The error of making `what`.
    pub(crate) fn resources(what: &'static str) -> impl FnOnce(io::Error) -> VerbsError {
        move |source| VerbsError::Resources { what, source }
    }
}
