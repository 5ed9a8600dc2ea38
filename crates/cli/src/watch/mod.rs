//! Commands for administrators: `gannet top` and `gannet clients` show what a server tells at its admin
//! address; `gannet reload` has it read its configuration again.

mod ask;
mod clients;
mod facts;
mod rates;
mod reload;
mod screen;
mod top;

pub use ask::AskError;
pub use clients::clients;
pub use reload::reload;
pub use top::top;

use crate::failure::{Explain, Failure};
use std::future::Future;

/// Runs a command that waits for nothing but answers.
fn run<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .explain(|| String::from("cannot wait for events"))?
        .block_on(work)
}
