//! `gannet volume`, and the volume that `gannet serve --volume` serves.
//!
//! A volume's folder holds `volume.toml` (see [`Description`]), `secret`, `client-key`, `metadata` with its
//! journal, and the I/O servers' folders, each with a file that says whose it is.

mod check;
mod check_objects;
mod check_served;
mod claim;
mod create;
mod description;
mod extend;
mod host;
mod key;
mod list;
mod locked;
mod made;
mod owner;
mod place;
mod reach;
mod show;
mod stripes;

pub use description::{Description, Volume};
pub use host::{Front, Host, HostOptions, Listening, OpenHost};
pub use key::load as load_key;
pub use place::Place;
pub(crate) use reach::settled;

use crate::cli::{VolumeOptions, VolumeWhat};
use crate::failure::Failure;

/// Most I/O servers of a volume.
pub const IO_SERVERS_MAX: usize = gannet_wire::volume::WIDTH_MAX;
/// Metadata of a volume that stays in memory, in bytes.
const METADATA_CACHE: usize = 64 << 20;

/// Does what the command line asks.
///
/// # Errors
/// The volume cannot be made or looked at; why, and what to do.
pub fn run(options: &VolumeOptions) -> Result<(), Failure> {
    match &options.what {
        VolumeWhat::Create(options) => create::run(options),
        VolumeWhat::Show(options) => show::run(options),
        VolumeWhat::List(options) => list::run(options),
        VolumeWhat::Extend(options) => extend::run(options),
        VolumeWhat::Check(options) => check::run(options),
        VolumeWhat::Stripes(options) => stripes::run(options),
        VolumeWhat::Key(options) => key::run(options),
    }
}
