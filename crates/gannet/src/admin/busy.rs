//! `/busy.json`: the exports and files with the most work lately.

use super::listener::Rights;
use gannet_metrics::{BusyList, Registry, Work};
use gannet_wire::Hex;
use serde_json::{Map, Value, json};
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// Most files in an answer.
const FILES_SHOWN: usize = 100;

/// The time that the two windows of the cores cover.
pub(super) struct Windows {
    /// The start of the window before this one.
    since: Cell<Instant>,
    turned: Cell<Instant>,
    /// The numbers of exports, which stand for their paths where these are not shown.
    ids: RefCell<HashMap<Arc<str>, usize>>,
}

impl Windows {
    /// Begins to count.
    pub(super) fn start(registry: &Registry, now: Instant) -> Windows {
        registry.turn_busy();
        Windows {
            since: Cell::new(now),
            turned: Cell::new(now),
            ids: RefCell::default(),
        }
    }

    /// Begins a new window.
    pub(super) fn turn(&self, registry: &Registry, now: Instant) {
        registry.turn_busy();
        self.since.set(self.turned.replace(now));
    }

    /// The answer. Paths and handles are for the Unix socket; others see how unevenly the work is spread.
    pub(super) fn answer(&self, list: &BusyList, now: Instant, rights: Rights) -> String {
        let seconds = now.saturating_duration_since(self.since.get());
        let shows = rights == Rights::All;
        let mut ids = self.ids.borrow_mut();
        for path in list.exports.keys() {
            let next = ids.len();
            ids.entry(Arc::clone(path)).or_insert(next);
        }
        let id_of = |export: &str| ids.get(export).copied();
        let mut exports: Vec<_> = list.exports.iter().collect();
        exports.sort_by_key(|(_, work)| Reverse(work.operations));
        let exports = exports.into_iter().map(|(path, work)| {
            let mut row = row(work);
            row.insert("id".to_owned(), json!(id_of(path)));
            row.insert("export".to_owned(), json!(shows.then_some(&**path)));
            row
        });
        let mut files: Vec<_> = list.files.iter().collect();
        files.sort_by_key(|(_, file)| Reverse(file.work.operations));
        let files = files.into_iter().take(FILES_SHOWN).map(|(handle, file)| {
            let mut row = row(&file.work);
            row.insert("export_id".to_owned(), json!(id_of(&file.export)));
            let label = file.label.as_deref();
            for (name, text) in [
                ("export", Some(&*file.export)),
                ("file", label),
                ("handle", Some(&*Hex(handle).to_string())),
            ] {
                row.insert(name.to_owned(), json!(text.filter(|_| shows)));
            }
            row
        });
        let answer = json!({
            "seconds": seconds.as_secs_f64(),
            "exports": exports.collect::<Vec<_>>(),
            "files": files.collect::<Vec<_>>(),
        });
        answer.to_string() + "\n"
    }
}

fn row(work: &Work) -> Map<String, Value> {
    let numbers = [
        ("operations", work.operations),
        ("received_bytes", work.received_bytes),
        ("sent_bytes", work.sent_bytes),
    ];
    let numbers = numbers.map(|(name, number)| (name.to_owned(), json!(number)));
    numbers.into_iter().collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use gannet_metrics::{Busy, Exposition, Operation, Source};
    use std::time::Duration;

    #[derive(Default)]
    struct Core(Busy);

    impl Source for Core {
        fn collect(&self, _into: &mut Exposition) {}

        fn busy(&self) -> Option<&Busy> {
            Some(&self.0)
        }
    }

    impl Core {
        fn note(&self, export: &str, file: u8) {
            let operation = Operation {
                export: export.into(),
                file: Some(&[file]),
                received_bytes: 100,
                sent_bytes: 1000,
            };
            let label = (file != 9).then(|| format!("/{file}"));
            self.0.note(|| Some(operation), || label);
        }
    }

    #[test]
    fn paths_are_for_the_user_who_runs_the_server() {
        let cores = [Arc::new(Core::default()), Arc::new(Core::default())];
        let registry = Registry::default();
        cores
            .iter()
            .for_each(|core| registry.add(Arc::clone(core) as _));
        let start = Instant::now();
        let windows = Windows::start(&registry, start);
        cores[0].note("/b", 1);
        cores[1].note("/b", 1);
        cores[1].note("/a", 9);
        let read = |seconds, rights| -> Value {
            let now = start + Duration::from_secs(seconds);
            serde_json::from_str(&windows.answer(&registry.busy(), now, rights)).unwrap()
        };
        let all = read(5, Rights::All);
        assert_eq!(all["seconds"], 5.0);
        let busiest = json!({
            "id": 1, "export": "/b", "operations": 2, "received_bytes": 200, "sent_bytes": 2000,
        });
        assert_eq!(all["exports"][0], busiest);
        assert_eq!(all["files"][0]["file"], "/1");
        assert_eq!(all["files"][1]["file"], Value::Null);
        assert_eq!(all["files"][1]["handle"], "09");
        for rights in [Rights::Numbers, Rights::Addresses] {
            let hidden = read(5, rights);
            assert_eq!(hidden["exports"][0]["export"], Value::Null);
            for name in ["export", "file", "handle"] {
                assert_eq!(hidden["files"][0].get(name), Some(&Value::Null));
            }
            assert_eq!(hidden["files"][0]["operations"], 2);
        }
        windows.turn(&registry, start + Duration::from_secs(10));
        assert_eq!(read(12, Rights::All)["files"][0]["operations"], 2);
        windows.turn(&registry, start + Duration::from_secs(20));
        assert_eq!(
            read(22, Rights::All),
            json!({"seconds": 12.0, "exports": [], "files": []})
        );
        // The number of an export stays.
        cores[0].note("/b", 1);
        assert_eq!(read(23, Rights::Numbers)["exports"][0]["id"], 1);
    }
}
