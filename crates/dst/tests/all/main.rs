//! Fixed seeds of every scenario, and the model by itself. One program, since each costs a link.

#![allow(clippy::unwrap_used)]

mod model;
mod scenario;
