# What the kernel's client would take amiss stays right, byte by byte: set-up, READ replies, NFSACL, calls that come again.
# server: gannet --no-root-squash

noise file 400000
cp file "$OUT/export/file"
python3 -S /run/lab/scenarios/protocol.py "$RDMA_PORT" "$TCP_PORT" file
cmp file "$OUT/export/file"
