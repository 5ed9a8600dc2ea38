//! `/locks.json`: the locks and grants of clients.

use super::clients::Minute;
use super::{LockList, Part};
use gannet_metrics::ClientList;
use serde_json::{Value, json};
use std::sync::Arc;

/// The answer. A client has the number of `/clients.json`; its address, users and processes are for those who may see
/// its address.
pub(super) fn answer(
    parts: &[Arc<dyn Part>],
    clients: &ClientList,
    minute: &mut Minute,
    shows_addresses: bool,
) -> String {
    // Once, not for each row: it goes through all clients.
    minute.notice(clients);
    let lists: Vec<LockList> = parts.iter().filter_map(|part| part.locks()).collect();
    let rows = lists.iter().flat_map(|list| &list.rows);
    let rows: Vec<Value> = rows
        .map(|lock| {
            let mut row = lock.row.clone();
            let id = lock.client.and_then(|client| minute.id_of(client));
            row["client"] = json!(id);
            let address = lock.client.filter(|_| shows_addresses);
            row["address"] = json!(address.map(|address| address.to_string()));
            row["uid"] = json!(lock.uid.filter(|_| shows_addresses));
            row["process"] = json!(lock.process.filter(|_| shows_addresses));
            row
        })
        .collect();
    let answer = json!({
        "locks": rows,
        "more": lists.iter().map(|list| list.more).sum::<usize>(),
        "keeps_locks": !lists.is_empty(),
    });
    answer.to_string() + "\n"
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::{LockRow, PartState};
    use super::*;
    use gannet_metrics::ClientReading;
    use std::time::Instant;

    struct Manager;

    impl Part for Manager {
        fn name(&self) -> &'static str {
            "volume"
        }

        fn state(&self) -> Option<PartState> {
            None
        }

        fn locks(&self) -> Option<LockList> {
            let row = |client: &str| LockRow {
                client: client.parse().ok(),
                uid: Some(1000),
                process: Some(4711),
                row: json!({"kind": "exclusive"}),
            };
            Some(LockList {
                rows: vec![row("10.0.0.1"), row("10.0.0.2"), row("")],
                more: 7,
            })
        }
    }

    #[test]
    fn addresses_are_for_those_who_may_see_them() {
        let clients = ClientList {
            clients: [("10.0.0.1".parse().unwrap(), ClientReading::default())].into(),
            unlisted: 0,
        };
        let mut minute = Minute::new(Instant::now());
        let parts: [Arc<dyn Part>; 1] = [Arc::new(Manager)];
        let mut read = |shows| -> Value {
            serde_json::from_str(&answer(&parts, &clients, &mut minute, shows)).unwrap()
        };
        let (hidden, shown) = (read(false), read(true));
        assert_eq!(
            (&hidden["more"], &hidden["keeps_locks"]),
            (&json!(7), &json!(true))
        );
        for index in 0..3 {
            for name in ["address", "uid", "process"] {
                assert_eq!(hidden["locks"][index].get(name), Some(&Value::Null));
            }
            assert_eq!(shown["locks"][index]["uid"], 1000);
            assert_eq!(shown["locks"][index]["process"], 4711);
            assert_eq!(
                hidden["locks"][index]["client"],
                shown["locks"][index]["client"]
            );
        }
        assert_eq!(hidden["locks"][0]["client"], 1);
        assert_eq!(shown["locks"][1]["address"], "10.0.0.2");
        // No connection of it is listed.
        assert_eq!(shown["locks"][1]["client"], Value::Null);
        let none: Value = serde_json::from_str(&answer(&[], &clients, &mut minute, true)).unwrap();
        assert_eq!(none, json!({"locks": [], "more": 0, "keeps_locks": false}));
    }
}
