//! `gannet-lab bench`: the fabric alone, registration alone, the public interface, files sent by one call, servers of
//! any kind beside each other, and servers and simulated testbeds as IOzone does.

mod end;
mod fabric;
mod interface;
mod iozone;
mod median;
mod peers;
mod provider;
mod raw;
mod registration;
mod serving;
mod transfer;

use crate::cli::BenchWhat;
use gannet_cli::failure::Failure;
pub(crate) use peers::CELLS;

/// Runs the benchmark that the arguments name.
///
/// # Errors
/// The failure names the object, the reason, and a remedy if there is one.
pub(crate) fn run(what: &BenchWhat) -> Result<(), Failure> {
    match what {
        BenchWhat::Fabric(options) => fabric::run(options),
        BenchWhat::Interface(options) => interface::run(options),
        BenchWhat::Iozone(options) => iozone::run(options),
        BenchWhat::Peers(options) => peers::run(options),
        BenchWhat::Registration(options) => registration::run(options),
        BenchWhat::Serving(options) => serving::run(options),
    }
}
