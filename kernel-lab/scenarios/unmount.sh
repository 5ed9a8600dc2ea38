# Mounts come and go: while files are open, many times over, and when the server has died.
# server: gannet --no-root-squash
# over: rdma tcp

case $OVER in tcp) port=$TCP_PORT ;; *) port=$RDMA_PORT ;; esac
connections() { awk -v "port=$(printf :%04X "$port")" '$3 ~ port "$" && $4 == "01"' /proc/net/tcp; }

noise "$EXPORT/file" 100000
mount_gannet
exec 5</mnt/file
! umount /mnt || fail 'it can be unmounted although a file is open'
umount -l /mnt
cmp - "$EXPORT/file" <&5
exec 5<&-

memory=$(host memory)
for _ in 1 2 3 4 5; do
    mount_gannet
    cmp /mnt/file "$EXPORT/file"
    umount /mnt
done
grown=$(($(host memory) - memory))
[ $grown -lt 2048 ] || fail "the server has grown by $grown KiB in five mounts"
while [ -n "$(connections)" ]; do echo 'still connected'; done

# Reading waits until it is told to give up.
mount_gannet
exec 5</mnt/file
host server kill
{ dd of=/dev/null iflag=direct status=none <&5 || touch "$OUT/given-up"; } &
while [ ! -e "$OUT/given-up" ]; do
    ! umount -f /mnt || fail 'it can be unmounted although a file is open'
done
exec 5<&-
umount -f /mnt
host server start
mount_gannet
cmp /mnt/file "$EXPORT/file"
umount /mnt
