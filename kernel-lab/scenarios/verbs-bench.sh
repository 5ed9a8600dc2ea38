# How fast Gannet is through the kernel's devices, beside perftest and beside its software RNIC; measurements in turns. Then
# the memory that servers register for many calls.
# server: script
# over: rxe siw rxe@6.12
# program: gannet-lab
# run: named
# limit: 1800
# capture: no

# counted PORT CALLS HOW OPTIONS...: that many calls to a server with these options, and what they registered, in the table.
counted() {
    port=$1
    calls=$2
    how=$3
    shift 3
    log=/run/counted-$port.log
    rm -f "$log"
    serve --provider verbs "$@" --no-root-squash --allow "$ADDRESS/32" --nfs-tcp off --nfs-rdma "$ADDRESS:$port" \
        --state-dir "/run/state-$port" --log-file "$log" --log-format json "$EXPORT"
    python3 -S /run/lab/scenarios/verbs-cache.py "$GANNET" "nfs+rdma://$ADDRESS:$port/" $server "$log" "$calls" "$how" >>table
    wait $server
}

# The working directory keeps the table of a run that fails.
devices
serve_verbs
verbs=$server
serve --no-root-squash --allow 10.0.2.0/24 --nfs-tcp off --nfs-rdma 10.0.2.15:31049 --state-dir /run/state-software "$EXPORT"
software=$server
python3 -S /run/lab/scenarios/verbs-bench.py "$GANNET" "$PROGRAM" "${OVER}0" "$ADDRESS" \
    "nfs+rdma://$ADDRESS:$RDMA_PORT/?mountport=$MOUNT_PORT" nfs+rdma://10.0.2.15:31049/ >table

case $(uname -r) in
# rxe answers 30 to 80 calls a second there. Its kernel registers ranges of files.
6.12.*)
    counted 32049 1000 server-cache --registration server-cache
    counted 33049 1000 sendfile --engine sendfile
    ;;
*) counted 32049 10000 server-cache --registration server-cache ;;
esac
while IFS= read -r line; do host note "$line"; done <table
kill $software
wait $software
server=$verbs
stop_verbs
