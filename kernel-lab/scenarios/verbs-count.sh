# Servers on a device register memory as often as their options promise: counts of 64 KiB READs and WRITEs.
# server: script
# over: rxe siw rxe@6.12
# run: named
# limit: 900
# capture: no

# counted PORT CALLS HOW OPTIONS...: that many calls to a server with these options, and what they registered, in a table.
counted() {
    port=$1
    calls=$2
    how=$3
    shift 3
    log=/run/counted-$port.log
    rm -f "$log"
    serve --provider verbs "$@" --no-root-squash --allow "$ADDRESS/32" --nfs-tcp off --nfs-rdma "$ADDRESS:$port" \
        --state-dir "/run/state-$port" --log-file "$log" --log-format json "$EXPORT"
    python3 -S /run/lab/scenarios/verbs-count.py "$GANNET" "nfs+rdma://$ADDRESS:$port/" $server "$log" "$calls" "$how" >>table
    wait $server
}

# The working directory keeps the table of a run that fails.
devices
serve_verbs
verbs=$server
: >table
case $(uname -r) in
# rxe moves 30 to 80 messages a second there. Its kernel registers ranges of files.
6.12.*)
    counted 32049 1000 server-cache --registration server-cache
    counted 33049 1000 sendfile --engine sendfile
    ;;
*) counted 32049 10000 server-cache --registration server-cache ;;
esac
while IFS= read -r line; do host note "$line"; done <table
server=$verbs
stop_verbs
