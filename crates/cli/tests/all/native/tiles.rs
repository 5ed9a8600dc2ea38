//! Files that ranks share, tile by tile.

use super::{Bed, fail};

#[test]
fn ranks_that_share_a_file_are_measured_beside_ranks_apart() {
    let bed = Bed::embedded("2");
    let words = ["bench", "tile", &bed.url("/"), "--json", "--ranks", "3"];
    let short = [
        "--rows",
        "130",
        "--row",
        "100",
        "--seconds",
        "0.02",
        "--rounds",
        "2",
    ];
    // Every way reads what was written, or the bench fails; a window of sieving holds two rows and a half.
    let all = [
        "--op",
        "read,write",
        "--how",
        "rows,lists,nested,sieve",
        "--hints",
        "on,off",
        "--sieve-buffer",
        "750",
    ];
    let rows = bed.succeed(&[&words[..], &short, &all].concat());
    let rows: Vec<serde_json::Value> = (rows.lines())
        .map(|row| serde_json::from_str(row).unwrap())
        .collect();
    let of = |row: &serde_json::Value| {
        let names = ["op", "how", "hints", "layout"];
        names.map(|name| row[name].as_str().unwrap().to_owned())
    };
    let kinds: Vec<_> = rows.iter().map(of).collect();
    let mut expected = Vec::new();
    for op in ["read", "write"] {
        for (how, hints) in [
            ("rows", "on"),
            ("rows", "off"),
            ("lists", "on"),
            ("lists", "off"),
            ("nested", "on"),
            ("sieve", "on"),
        ] {
            let layouts = ["apart", "interleaved"];
            expected.extend(layouts.map(|layout| [op, how, hints, layout].map(String::from)));
        }
    }
    assert_eq!(kinds, expected);
    for row in &rows {
        assert!(row["tiles"].as_u64().unwrap() > 0, "{row}");
        assert_eq!(
            row["layout"] == "interleaved",
            row["of_apart"].as_f64().is_some()
        );
    }
    // Rows too long to be copied: a list names one allocation with hints, and every row without.
    let long = [
        "--rows",
        "128",
        "--row",
        "8K",
        "--how",
        "lists",
        "--hints",
        "on,off",
        "--seconds",
        "0.02",
        "--rounds",
        "1",
        "--op",
        "read",
    ];
    let rows = bed.succeed(&[&words[..], &long].concat());
    let named = |row: &str| {
        let row: serde_json::Value = serde_json::from_str(row).unwrap();
        row["registrations"].as_f64().unwrap() + row["registration_hits"].as_f64().unwrap()
    };
    let named: Vec<f64> = rows.lines().map(named).collect();
    assert_eq!(named, [1.0, 1.0, 128.0, 128.0], "{rows}");
    let error = fail(
        &[
            "bench",
            "tile",
            &bed.url("/"),
            "--how",
            "nested",
            "--hints",
            "off",
        ],
        2,
    );
    assert!(error.contains("without hints"), "{error}");
    let error = fail(&["bench", "tile", "nfs://127.0.0.1:1/"], 2);
    assert!(error.contains("not on a volume"), "{error}");
    assert_eq!(bed.succeed(&["ls", &bed.url("/")]), "");
}
