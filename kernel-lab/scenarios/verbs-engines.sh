# The engines that send READ data on a device, and memory that stays registered there, beside the defaults, in turns.
# server: script
# over: rxe@6.12
# run: named
# limit: 900
# capture: no

# server NAME PORT OPTIONS...: a server of the same folder with these options, in $servers and $others.
servers=
others=
server() {
    name=$1
    port=$2
    shift 2
    serve --provider verbs "$@" --no-root-squash --allow "$ADDRESS/32" --nfs-tcp off --nfs-rdma "$ADDRESS:$port" \
        --state-dir "/run/state-$port" "$EXPORT"
    servers="$servers $name=nfs+rdma://$ADDRESS:$port/"
    others="$others $server"
}

devices
serve_verbs
default=$server
server sendfile 31049 --engine sendfile
server server-cache 32049 --registration server-cache
# shellcheck disable=SC2086 # words
python3 -S /run/lab/scenarios/verbs-engines.py "$GANNET" \
    "default=nfs+rdma://$ADDRESS:$RDMA_PORT/?mountport=$MOUNT_PORT" $servers >table
while IFS= read -r line; do host note "$line"; done <table
for other in $others; do
    kill "$other"
    wait "$other"
done
server=$default
stop_verbs
