//! `gannet volume`, and the volume that `gannet serve --volume` serves.
//!
//! `gannet::volume` defines, makes and serves volumes; this module has the arguments, and messages for users.

mod check;
mod check_objects;
mod check_served;
mod copies;
mod create;
mod explain;
mod extend;
mod heal;
mod key;
mod list;
mod managers;
mod reach;
mod show;
pub(crate) mod status;
mod stripes;

pub(crate) use explain::explain;
pub use key::load as load_key;
pub(crate) use reach::settled;

use crate::cli::{VolumeOptions, VolumeWhat};
use crate::failure::Failure;
use gannet::Volume;
use std::path::Path;

/// The volume at `path`.
///
/// # Errors
/// There is none, or this program does not understand it.
pub(crate) fn open(path: &Path) -> Result<Volume, Failure> {
    Volume::open(path).map_err(|error| explain(path, error))
}

/// Does what the command line asks.
///
/// # Errors
/// The volume cannot be made or looked at; why, and what to do.
pub fn run(options: &VolumeOptions) -> Result<(), Failure> {
    match &options.what {
        VolumeWhat::Create(options) => create::run(options),
        VolumeWhat::Show(options) => show::run(options),
        VolumeWhat::Status(options) => status::run(options),
        VolumeWhat::List(options) => list::run(options),
        VolumeWhat::Extend(options) => extend::run(options),
        VolumeWhat::Check(options) => check::run(options),
        VolumeWhat::Stripes(options) => stripes::run(options),
        VolumeWhat::Copies(options) => copies::run(options),
        VolumeWhat::Switch(options) => managers::switch(options),
        VolumeWhat::Heal(options) => heal::run(options),
        VolumeWhat::Key(options) => key::run(options),
    }
}
