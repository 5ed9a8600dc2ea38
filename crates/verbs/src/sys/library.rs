//! rdma-core's libraries, opened at run time.

use super::bindings::{
    CmEvent, CmId, CompChannel, ConnParam, Context, Cq, Device, DeviceAttr, EventChannel, Gid, Mr,
    Pd, PortAttr, Qp, QpAttr, QpInitAttr, Srq, SrqInitAttr,
};
use super::manager::Manager;
use crate::VerbsError;
use libloading::Library;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::Arc;

const VERBS: &str = "libibverbs.so.1";
const CM: &str = "librdmacm.so.1";

macro_rules! functions {
    ($($library:ident: $name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of both libraries; valid while the libraries are open.
        #[derive(Clone, Copy)]
        pub(super) struct Functions {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Functions {
            fn find(verbs: &Library, cm: &Library) -> Result<Functions, VerbsError> {
                Ok(Functions {
                    $($name: $library!(verbs, cm, find, concat!(stringify!($name), "\0"))?,)*
                })
            }
        }
    };
}

macro_rules! verbs {
    ($verbs:expr, $cm:expr, $find:ident, $name:expr) => {
        $find($verbs, VERBS, $name)
    };
}
macro_rules! cm {
    ($verbs:expr, $cm:expr, $find:ident, $name:expr) => {
        $find($cm, CM, $name)
    };
}

functions! {
    verbs: ibv_get_device_name(*mut Device) -> *const c_char;
    verbs: ibv_query_device(*mut Context, *mut DeviceAttr) -> c_int;
    verbs: ibv_query_port(*mut Context, u8, *mut PortAttr) -> c_int;
    verbs: ibv_query_gid(*mut Context, u8, c_int, *mut Gid) -> c_int;
    verbs: ibv_alloc_pd(*mut Context) -> *mut Pd;
    verbs: ibv_dealloc_pd(*mut Pd) -> c_int;
    verbs: ibv_reg_mr(*mut Pd, *mut c_void, usize, c_int) -> *mut Mr;
    verbs: ibv_dereg_mr(*mut Mr) -> c_int;
    verbs: ibv_create_comp_channel(*mut Context) -> *mut CompChannel;
    verbs: ibv_destroy_comp_channel(*mut CompChannel) -> c_int;
    verbs: ibv_create_cq(*mut Context, c_int, *mut c_void, *mut CompChannel, c_int) -> *mut Cq;
    verbs: ibv_destroy_cq(*mut Cq) -> c_int;
    verbs: ibv_get_cq_event(*mut CompChannel, *mut *mut Cq, *mut *mut c_void) -> c_int;
    verbs: ibv_ack_cq_events(*mut Cq, c_uint);
    verbs: ibv_create_srq(*mut Pd, *mut SrqInitAttr) -> *mut Srq;
    verbs: ibv_destroy_srq(*mut Srq) -> c_int;
    verbs: ibv_modify_qp(*mut Qp, *mut QpAttr, c_int) -> c_int;
    cm: rdma_create_event_channel() -> *mut EventChannel;
    cm: rdma_destroy_event_channel(*mut EventChannel);
    cm: rdma_get_devices(*mut c_int) -> *mut *mut Context;
    cm: rdma_free_devices(*mut *mut Context);
    cm: rdma_create_id(*mut EventChannel, *mut *mut CmId, *mut c_void, c_uint) -> c_int;
    cm: rdma_destroy_id(*mut CmId) -> c_int;
    cm: rdma_bind_addr(*mut CmId, *mut libc::sockaddr) -> c_int;
    cm: rdma_resolve_addr(*mut CmId, *mut libc::sockaddr, *mut libc::sockaddr, c_int) -> c_int;
    cm: rdma_resolve_route(*mut CmId, c_int) -> c_int;
    cm: rdma_create_qp(*mut CmId, *mut Pd, *mut QpInitAttr) -> c_int;
    cm: rdma_destroy_qp(*mut CmId);
    cm: rdma_connect(*mut CmId, *mut ConnParam) -> c_int;
    cm: rdma_listen(*mut CmId, c_int) -> c_int;
    cm: rdma_accept(*mut CmId, *mut ConnParam) -> c_int;
    cm: rdma_reject(*mut CmId, *const c_void, u8) -> c_int;
    cm: rdma_disconnect(*mut CmId) -> c_int;
    cm: rdma_migrate_id(*mut CmId, *mut EventChannel) -> c_int;
    cm: rdma_get_cm_event(*mut EventChannel, *mut *mut CmEvent) -> c_int;
    cm: rdma_ack_cm_event(*mut CmEvent) -> c_int;
    cm: rdma_set_option(*mut CmId, c_int, c_int, *mut c_void, usize) -> c_int;
}

fn find<T: Copy>(
    library: &Library,
    file: &'static str,
    name: &'static str,
) -> Result<T, VerbsError> {
    // SAFETY: each name is given with the type of that function in the headers of its library.
    let found = unsafe { library.get::<T>(name.as_bytes()) };
    found
        .map(|symbol| *symbol)
        .map_err(|source| VerbsError::Library {
            file,
            reason: reason(&source),
        })
}

/// The loader's reason, on one line.
fn reason(error: &libloading::Error) -> String {
    let loader = std::error::Error::source(error);
    let text = loader.map_or_else(|| error.to_string(), ToString::to_string);
    text.replace('\n', " ")
}

/// rdma-core, opened at run time. One for a process; its cores share it.
pub struct VerbsLibrary {
    pub(super) functions: Functions,
    pub(super) manager: Manager,
    // Closed after the last use of a function: each user holds an `Arc` of this. Tests have functions of their own.
    _libraries: Option<[Library; 2]>,
}

impl VerbsLibrary {
    /// Opens libibverbs, then librdmacm.
    ///
    /// # Errors
    /// [`VerbsError::Library`] when one of them is missing or lacks a function.
    pub fn open() -> Result<Arc<VerbsLibrary>, VerbsError> {
        VerbsLibrary::open_files(VERBS, CM)
    }

    #[cfg(test)]
    pub(super) fn of_functions(functions: Functions) -> Arc<VerbsLibrary> {
        Arc::new(VerbsLibrary {
            functions,
            manager: Manager::start().expect("a thread"),
            _libraries: None,
        })
    }

    pub(crate) fn open_files(
        verbs: &'static str,
        cm: &'static str,
    ) -> Result<Arc<VerbsLibrary>, VerbsError> {
        let open = |file: &'static str| {
            // SAFETY: the initialisers of rdma-core's libraries register drivers and touch nothing of ours.
            unsafe { Library::new(file) }.map_err(|source| VerbsError::Library {
                file,
                reason: reason(&source),
            })
        };
        let verbs = open(verbs)?;
        let cm = open(cm)?;
        Ok(Arc::new(VerbsLibrary {
            functions: Functions::find(&verbs, &cm)?,
            manager: Manager::start().map_err(VerbsError::resources("a thread"))?,
            _libraries: Some([cm, verbs]),
        }))
    }
}

impl std::fmt::Debug for VerbsLibrary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("VerbsLibrary")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_one_line_with_a_cure() {
        let missing = VerbsLibrary::open_files("libgannet-missing.so.1", CM).unwrap_err();
        let line = missing.to_string();
        assert!(
            line.starts_with("cannot load libgannet-missing.so.1: "),
            "{line}"
        );
        assert!(
            line.contains("install rdma-core") && !line.contains('\n'),
            "{line}"
        );
    }

    #[test]
    fn a_library_without_a_function_is_an_error() {
        let other = VerbsLibrary::open_files("libc.so.6", "libc.so.6").unwrap_err();
        assert!(other.to_string().contains("ibv_get_device_name"), "{other}");
    }
}
