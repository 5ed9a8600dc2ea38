# Replies that are lost with their connection are given again to the kernel's client, and nothing is done twice for it.
# server: gannet --no-root-squash
# over: rdma tcp

# shellcheck disable=SC2046 # two words
set -- $(host proxy)
TCP_PORT=$1 RDMA_PORT=$2
# What the client knows of the folder stays true: all that it asks is the operation.
mount_gannet /mnt actimeo=600
python3 -S /run/lab/scenarios/lost-replies.py /mnt "$EXPORT"
umount /mnt
[ "$(host doom 0)" = 0 ] || fail 'the storm was not what it should have been'
host server stop
case $OVER in
    rdma) replays=47 ;;
    tcp) replays=7 ;;
esac
grep "stopped .* replays=$replays " server.log
