#!/bin/sh
# Installs libgannet.so, gannet.h and gannet.pc below a prefix: install.sh PREFIX [LIBRARY]. The library is what
# `cargo build --release -p gannet-capi` has built, unless it is named.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 1 ] || { echo "usage: install.sh PREFIX [LIBRARY]" >&2; exit 2; }
mkdir -p "$1/lib/pkgconfig" "$1/include"
prefix=$(cd "$1" && pwd)
library=${2:-${CARGO_TARGET_DIR:-$here/../../target}/release/libgannet_capi.so}
[ -r "$library" ] || { echo "install.sh: no $library: run cargo build --release -p gannet-capi first" >&2; exit 1; }
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/../../Cargo.toml" | head -n 1)
cp "$library" "$prefix/lib/libgannet.so.0"
ln -sf libgannet.so.0 "$prefix/lib/libgannet.so"
cp "$here/include/gannet.h" "$prefix/include/gannet.h"
cat >"$prefix/lib/pkgconfig/gannet.pc" <<EOF
prefix=$prefix
libdir=\${prefix}/lib
includedir=\${prefix}/include

Name: gannet
Description: Messages, registered memory and files over RDMA
Version: $version
Libs: -L\${libdir} -lgannet
Cflags: -I\${includedir}
EOF
