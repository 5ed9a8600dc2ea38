//! Writes that leave behind their answers, and writes kept until the store confirms them.

mod descriptions;
mod file;
mod runs;
mod table;
mod turns;

pub use descriptions::{Description, Descriptions};
pub use file::{FileWrites, KeptWrite};
pub use runs::{Run, RunBytes, Runs};
pub use table::FileTable;
pub use turns::Turns;
