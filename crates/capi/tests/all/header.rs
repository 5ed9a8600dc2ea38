//! The header declares each function of the library once.

use std::path::Path;

#[test]
fn the_header_is_what_cbindgen_makes_of_the_sources() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).unwrap();
    // cbindgen follows lib.rs's modules: to name them too would declare their functions twice.
    let builder = cbindgen::Builder::new()
        .with_config(config)
        .with_src(folder.join("src/lib.rs"));
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    let made = String::from_utf8(made).unwrap();
    let header = folder.join("include/gannet.h");
    if std::env::var_os("GANNET_GENERATE").is_some() {
        std::fs::write(&header, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&header).unwrap_or_default();
    assert!(
        kept == made,
        "include/gannet.h is old: GANNET_GENERATE=1 cargo test -p gannet-capi writes it"
    );
}
