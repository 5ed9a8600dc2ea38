# A device and the software RNIC understand each other: siw in the guest and Gannet on the host, both ways.
# server: gannet --no-root-squash
# over: siw
# program: gannet example web
# limit: 300

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

# The web server of the examples, by the device in the guest and by the software RNIC on the host.
"$PROGRAM" serve /run/served "10.0.2.15:$SAME_PORT" --provider verbs &
server=$!
listening "$SAME_PORT" $server
host program fetch "127.0.0.1:$SAME_PORT" /in
cmp in "program-$NUMBER.out"
kill $server
wait $server || [ $? = 143 ]

web_port=$(host start serve . 127.0.0.1:0)
web_port=${web_port##*:}
"$PROGRAM" fetch "10.0.2.2:$web_port" /in --provider verbs >/run/out
cmp in /run/out
devices_free
