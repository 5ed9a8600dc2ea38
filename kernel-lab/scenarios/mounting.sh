# The recipes of docs/mounting.md mount Gannet: with the options it explains, from fstab, and through rpcbind.
# server: gannet --no-root-squash
# over: rdma tcp

case $OVER in tcp) port=$TCP_PORT ;; *) port=$RDMA_PORT ;; esac
options="vers=3,nolock,proto=$OVER,port=$port,mountport=$MOUNT_PORT,mountproto=tcp"
noise export/file 3000001

# With the ports in place of the usual ones.
case $OVER in
    tcp) "$GANNET" doctor "nfs://10.0.2.2:$TCP_PORT/" ;;
    rdma) "$GANNET" doctor "nfs+rdma://10.0.2.2:$RDMA_PORT/?mountport=$MOUNT_PORT" ;;
esac >/run/doctor
grep '^ok   server  *mounted ' /run/doctor

# mounted OPTION: it is in force, and the mount works. Takes the mount away.
mounted() {
    grep " /mnt nfs .*,proto=$OVER," /proc/mounts | grep ",$1,"
    cmp export/file /mnt/file
    umount /mnt
}
mount -t nfs -o "$options" 10.0.2.2:/ /mnt
mounted wsize=1048576
mount -t nfs -o "$options,rsize=65536,wsize=65536" 10.0.2.2:/ /mnt
mounted rsize=65536
mount -t nfs -o "$options,nconnect=4" 10.0.2.2:/ /mnt
[ "$(grep -c xprt: /proc/self/mountstats)" = 4 ]
mounted nconnect=4
mount -t nfs -o "$options,soft,timeo=100,retrans=2" 10.0.2.2:/ /mnt
mounted soft
cp /etc/fstab /run/fstab
echo "10.0.2.2:/ /mnt nfs $options,noauto,_netdev 0 0" >>/etc/fstab
mount /mnt
cp /run/fstab /etc/fstab
mounted local_lock=all

# Clients that cannot be told the port of MOUNT ask rpcbind, which is told by hand.
"$GANNET" serve --allow 10.0.2.0/24 --nfs-tcp 10.0.2.15:3049 --nfs-rdma 10.0.2.15:30049 --state-dir /run/state-mounting \
    --ready-file /run/ready-mounting export &
server=$!
rpcbind -f &
rpcbind=$!
until [ -e /run/ready-mounting ] && [ -S /run/rpcbind.sock ]; do sleep 0.1; done
python3 -c '
import socket, struct
rpcbind = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
rpcbind.connect(("127.0.0.1", 111))
for program in (100003, 100005):
    rpcbind.send(struct.pack(">14I", program, 0, 2, 100000, 2, 1, 0, 0, 0, 0, program, 3, 6, 3049))
    assert rpcbind.recv(64)[-1] == 1'
mount -t nfs -o vers=3,nolock,proto=tcp 10.0.2.15:/ /mnt
cmp export/file /mnt/file
umount /mnt
kill $server $rpcbind
wait $server
