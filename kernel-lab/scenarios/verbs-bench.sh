# How fast Gannet is through the kernel's devices, beside its software RNIC in the same guest; measurements in turns.
# server: script
# over: rxe siw
# run: named
# limit: 600
# capture: no

devices
serve_verbs
verbs=$server
serve --no-root-squash --allow 10.0.2.0/24 --nfs-tcp off --nfs-rdma 10.0.2.15:31049 --state-dir /run/state-software "$EXPORT"
software=$server
python3 -S /run/lab/scenarios/verbs-bench.py "$GANNET" "nfs+rdma://$ADDRESS:$RDMA_PORT/?mountport=$MOUNT_PORT" \
    nfs+rdma://10.0.2.15:31049/ >/run/table
while IFS= read -r line; do host note "$line"; done </run/table
kill $software
wait $software
server=$verbs
stop_verbs
