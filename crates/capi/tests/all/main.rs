//! The C interface, as C sees it: its header, and a program built with `cc` and `pkg-config` from the installed
//! library.

#![allow(clippy::unwrap_used)]

mod header;
mod program;
mod waiting;
