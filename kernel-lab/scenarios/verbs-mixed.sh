# A device and the software RNIC understand each other: siw in the guest and Gannet on the host, both ways.
# server: gannet --no-root-squash
# over: siw
# limit: 120

# on_host ARGUMENTS: Gannet's client on the host, with the software RNIC.
on_host() (
    OVER=rdma
    gannet "$@"
)

devices
noise in 5000003
gannet cp --verify in "$(url /in)"
cmp in "$EXPORT/in"
gannet cat "$(url /in)" >/run/out
cmp in /run/out
gannet bench "$(url /)" --size 4M --threads 2 --seconds 0.3

rm -rf /run/served
mkdir /run/served
serve --provider verbs --no-root-squash --allow 10.0.2.0/24 --nfs-tcp off --nfs-rdma "10.0.2.15:$SAME_PORT" \
    --state-dir /run/state /run/served
there=nfs+rdma://127.0.0.1:$SAME_PORT
on_host cp --verify in "$there/in"
cmp in /run/served/in
on_host cat "$there/in" >/run/out
cmp in /run/out
on_host bench "$there/" --size 4M --threads 2 --seconds 0.3
stop_verbs
