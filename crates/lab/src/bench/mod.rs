//! `gannet-lab bench`: the fabric alone, registration alone, the public interface, files sent by one call, and servers
//! and simulated testbeds as IOzone does.

mod fabric;
mod interface;
mod iozone;
mod median;
mod raw;
mod registration;
mod serving;

use crate::cli::BenchWhat;
use gannet_cli::failure::Failure;

/// Measures what the command line says.
///
/// # Errors
/// What failed, why, and what to do about it.
pub(crate) fn run(what: &BenchWhat) -> Result<(), Failure> {
    match what {
        BenchWhat::Fabric(options) => fabric::run(options),
        BenchWhat::Interface(options) => interface::run(options),
        BenchWhat::Iozone(options) => iozone::run(options),
        BenchWhat::Registration(options) => registration::run(options),
        BenchWhat::Serving(options) => serving::run(options),
    }
}
