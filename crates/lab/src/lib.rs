//! The laboratory: published experiments, run again on simulated machines that cost what those of the papers did.
//!
//! The code that serves real files runs here on a simulated fabric; what is of a paper's is in this crate: its testbeds
//! ([`profiles`]), its workloads ([`experiment`]), and its sentences, each with what came out beside it ([`papers`]).
//! What this crate refuses: code that serves, and what every simulated machine has (that is `sim`).
//!
//! First function to read: [`papers::Paper::run`].

pub mod experiment;
pub mod limits;
pub mod papers;
pub mod profiles;
