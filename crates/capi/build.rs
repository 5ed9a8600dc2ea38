//! Gives the shared library the name that programs are linked with; its number goes up when they must be built again.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libgannet.so.0");
    println!("cargo::rerun-if-changed=build.rs");
}
