//! Fixed seeds of every scenario, the model by itself, and how a volume's servers start. One program, since each
//! costs a link.

#![allow(clippy::unwrap_used)]

mod clocks;
mod model;
mod scenario;
mod starts;
