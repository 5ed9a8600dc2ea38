//! `gannet clients`: who works with a server, the busiest first.

use super::facts::{Client, Clients};
use super::{ask, run};
use crate::cli::ClientsOptions;
use crate::failure::Failure;
use crate::{output, size, table};

/// `gannet clients`.
///
/// # Errors
/// The server does not answer.
pub fn clients(options: &ClientsOptions) -> Result<(), Failure> {
    let place = &options.admin;
    let asking = async {
        let answer = ask::ask::<Clients>(place, "/clients.json").await;
        answer.map_err(|error| error.explain(place))
    };
    let answer = run(asking)?;
    if options.json {
        return answer.clients.iter().try_for_each(output::json);
    }
    if answer.clients.is_empty() {
        return output::line("no client has a connection");
    }
    let rows: Vec<_> = answer.clients.iter().map(row).collect();
    let header = [
        "client", "tcp", "rdma", "native", "ops/min", "in/min", "out/min", "ops",
    ];
    output::line(&table::render(1, header, &rows))?;
    if answer.more > 0 {
        output::line(&format!("and {} more", answer.more))?;
    }
    if answer.clients.iter().any(|client| client.address.is_none()) {
        output::report(
            "addresses are shown at the Unix socket, and to networks that --admin-allow names",
        );
    }
    Ok(())
}

fn row(client: &Client) -> [String; 8] {
    let count = |connections: u64| match connections {
        0 => String::from(table::NONE),
        some => some.to_string(),
    };
    [
        client.name(),
        count(client.tcp_connections),
        count(client.rdma_connections),
        count(client.native_connections),
        client.minute.operations.to_string(),
        size::human(client.minute.received_bytes),
        size::human(client.minute.sent_bytes),
        client.operations.to_string(),
    ]
}
