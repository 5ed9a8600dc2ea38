# What docs/troubleshooting.md says that one sees when a mount does not work is what one sees.
# server: gannet
# limit: 120

options=vers=3,nolock,retry=0,mountproto=tcp,mountport=$MOUNT_PORT
# says TEXT COMMAND...: the command fails, and says so.
says() {
    text=$1
    shift
    if "$@" >/run/said 2>&1; then fail "it works: $*"; fi
    grep -F "$text" /run/said
}
# kernel TEXT: the kernel said so.
kernel() {
    dmesg | grep -F "$1"
}

says 'mount.nfs: Connection refused' mount -t nfs -o $options,proto=rdma,port=1 10.0.2.2:/ /mnt
says 'mount.nfs: Connection refused' mount -t nfs -o $options,proto=rdma,port=$TCP_PORT 10.0.2.2:/ /mnt
grep 'connection dropped .*record marks: record of 1297105184 bytes or more' server.log
says 'mount.nfs: Connection refused' mount -t nfs -o $options,proto=tcp,port=$RDMA_PORT 10.0.2.2:/ /mnt
grep 'connection dropped during set-up .*the key of the startup frame is wrong' server.log
says 'mount.nfs: Protocol not supported' mount -t nfs -o vers=4,retry=0,proto=tcp,port=$TCP_PORT 10.0.2.2:/ /mnt
says 'reason given by server: No such file or directory' \
    mount -t nfs -o $options,proto=rdma,port=$RDMA_PORT 10.0.2.2:/nothing /mnt
"$GANNET" serve --allow 192.0.2.0/24 --nfs-tcp 10.0.2.15:3049 --nfs-rdma off --state-dir /run/state-symptoms \
    --ready-file /run/ready-symptoms export 2>/run/log-symptoms &
server=$!
until [ -e /run/ready-symptoms ]; do sleep 0.1; done
says 'mount.nfs: Connection reset by peer' \
    mount -t nfs -o vers=3,nolock,retry=0,proto=tcp,port=3049,mountproto=tcp,mountport=3049 10.0.2.15:/ /mnt
grep 'nothing is exported to its address' /run/log-symptoms
kill $server
wait $server

rdma link delete siw0
says 'mount.nfs: Protocol error' mount -t nfs -o $options,proto=rdma,port=$RDMA_PORT 10.0.2.2:/ /mnt
rdma link add siw0 type siw netdev eth0
says 'error: No such device' rdma link add siw1 type siw netdev none
kernel 'eth0 speed is unknown, defaulting to 1000'

mount -t nfs -o $options,proto=rdma,port=$RDMA_PORT,timeo=10,retrans=1 10.0.2.2:/ /mnt
says 'Permission denied' touch /mnt/file
host server kill
ls /mnt &
until kernel 'nfs: server 10.0.2.2 not responding, still trying'; do sleep 0.5; done
host server start
wait $!
kernel 'nfs: server 10.0.2.2 OK'
# Without its key a server does not know its own handles.
host server kill
rm -r state
host server start
says 'Stale file handle' ls /mnt
umount /mnt

# An earlier scenario may have left the kernel's server behind, which uses the module too.
[ ! -e /run/knfsd ] || stop_knfsd
rmmod rpcrdma
modprobe=$(cat /proc/sys/kernel/modprobe)
echo /bin/false >/proc/sys/kernel/modprobe
says 'mount.nfs: an incorrect mount option was specified' mount -t nfs -o $options,proto=rdma,port=$RDMA_PORT 10.0.2.2:/ /mnt
echo "$modprobe" >/proc/sys/kernel/modprobe
modprobe rpcrdma
[ ! -e /run/knfsd ] || serve_knfsd
