//! Commands for administrators: `gannet top`, `gannet clients`, `gannet locks` and `gannet trace` show what a server
//! tells at its admin address; `gannet reload` has it read its configuration again.

mod ask;
mod clients;
mod facts;
mod locks;
mod rates;
mod reload;
mod screen;
mod top;
mod trace;

pub use ask::AskError;
pub use clients::clients;
pub(crate) use facts::IoServer as ToldIoServer;
pub use locks::locks;
pub use reload::reload;
pub(crate) use screen::time;
pub use top::top;
pub use trace::trace;

use crate::cli::AdminPlace;
use crate::failure::{Explain, Failure};
use gannet_runtime::stages::{Parts, Stage};
use std::future::Future;
use std::time::Duration;

/// The volume whose manager has this admin address.
///
/// # Errors
/// It cannot be asked, or no manager runs there.
pub(crate) async fn volume_at(place: &AdminPlace) -> Result<facts::Volume, Failure> {
    let asked = ask::ask::<facts::Status>(place, "/status.json").await;
    let status = asked.map_err(|error| error.explain(place))?;
    status.volume.ok_or_else(|| {
        Failure::new(
            format!("cannot ask {place}"),
            "no manager of a volume runs there",
        )
        .hint("give the address after `admin=` in the manager's ready line")
    })
}

/// Where the time of the READs and WRITEs so far of the server with this admin address went. It must have `--slow`.
///
/// # Errors
/// It cannot be asked, or takes no operation apart.
pub fn parts_at(place: &AdminPlace) -> Result<Parts, Failure> {
    let asked = run(async {
        let asked = ask::ask::<facts::Status>(place, "/status.json").await;
        asked.map_err(|error| error.explain(place))
    })?;
    if asked.slow_seconds.is_none() {
        let why = "it takes no operation apart";
        let failure = Failure::new(format!("cannot use {place}"), why);
        return Err(failure.hint("start it with --slow TIME: a long time will do"));
    }
    let samples = asked.samples("gannet_nfs_operation_part_seconds").iter();
    let mut parts = Parts::default();
    for sample in samples.filter(|it| ["READ", "WRITE"].contains(&it.label("procedure"))) {
        let stage = Stage::ALL
            .into_iter()
            .find(|it| it.name() == sample.label("part"));
        let time = Duration::try_from_secs_f64(sample.value).unwrap_or_default();
        if let Some(stage) = stage {
            parts.add(stage, time);
        }
    }
    Ok(parts)
}

/// Runs a command that waits for nothing but answers.
fn run<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .explain(|| String::from("cannot wait for events"))?
        .block_on(work)
}
