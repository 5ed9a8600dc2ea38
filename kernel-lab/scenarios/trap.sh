# What Linux takes amiss, or does where others would not, byte by byte: each a trap that a server has fallen into.
# server: gannet --no-root-squash
# over: reply-in-one-write first-word ord-0 ord-above-128 revision-1 post-op-attributes write-sizes nfsacl same-xid

# The driver's connections hang when the reply of the set-up dribbles in.
[ "$OVER" != reply-in-one-write ] || host replies
noise file 400000
cp file "$EXPORT/file"
python3 -S /run/lab/scenarios/trap.py "$OVER" "$RDMA_PORT" "$TCP_PORT" file "$EXPORT"
cmp file "$EXPORT/file"
