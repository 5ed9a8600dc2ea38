//! `gannet reload`: a new configuration for a server at work.

use super::ask::{self, AskError};
use super::run;
use crate::cli::ReloadOptions;
use crate::failure::Failure;
use crate::output;

/// `gannet reload`.
///
/// # Errors
/// The server does not answer, or its new configuration cannot be used.
pub fn reload(options: &ReloadOptions) -> Result<(), Failure> {
    let place = &options.admin;
    let said = run(async {
        let answer = ask::change(place, "/reload").await;
        answer.map_err(|error| match error {
            AskError::Status { status, text } if status == hyper::StatusCode::CONFLICT => {
                Failure::new("nothing has changed", text)
            }
            other => other.explain(place),
        })
    })?;
    output::line(&said)
}
