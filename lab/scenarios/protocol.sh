# What the kernel's client would take amiss stays right, byte by byte: set-up, READ replies, NFSACL, calls that come again.
# server: gannet --no-root-squash

# The driver's connections hang when a reply dribbles in.
host replies
noise file 400000
cp file "$OUT/export/file"
python3 -S /run/lab/scenarios/protocol.py "$RDMA_PORT" "$TCP_PORT" file
cmp file "$OUT/export/file"
