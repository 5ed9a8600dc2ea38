# Connections are cut under load: the kernel's client goes on, and nothing is done twice or not at all.
# server: gannet --no-root-squash
# over: rdma tcp
# limit: 240

noise /run/noise 3000000
rm -rf /run/load
# shellcheck disable=SC2046 # two words
set -- $(host proxy)
TCP_PORT=$1 RDMA_PORT=$2
mount_gannet
python3 -S /run/lab/scenarios/load.py cut
umount /mnt
same /run/load "$EXPORT/load"
