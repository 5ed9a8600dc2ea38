# How fast Gannet is through the kernel's devices, beside perftest and beside its software RNIC; measurements in turns.
# server: script
# over: rxe siw
# program: gannet-lab
# run: named
# limit: 1800
# capture: no

# The working directory keeps the table of a run that fails.
devices
serve_verbs
verbs=$server
serve --no-root-squash --allow 10.0.2.0/24 --nfs-tcp off --nfs-rdma 10.0.2.15:31049 --state-dir /run/state-software "$EXPORT"
software=$server
python3 -S /run/lab/scenarios/verbs-bench.py "$GANNET" "$PROGRAM" "${OVER}0" "$ADDRESS" \
    "nfs+rdma://$ADDRESS:$RDMA_PORT/?mountport=$MOUNT_PORT" nfs+rdma://10.0.2.15:31049/ >table
while IFS= read -r line; do host note "$line"; done <table
kill $software
wait $software
server=$verbs
stop_verbs
