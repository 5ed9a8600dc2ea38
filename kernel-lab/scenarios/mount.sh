# The kernel's client mounts Gannet, lists, reads and writes.
# server: gannet --no-root-squash
# over: rdma rdma-crc tcp

mkdir "$EXPORT/folder"
noise "$EXPORT/folder/in" 3000001
mount_gannet
case $OVER in tcp) protocol=tcp ;; *) protocol=rdma ;; esac
grep " /mnt nfs .*proto=$protocol," /proc/mounts
[ "$(ls /mnt/folder)" = in ]
cmp /mnt/folder/in "$EXPORT/folder/in"
noise /tmp/out 3000001
cp /tmp/out /mnt/folder/out
cmp /tmp/out "$EXPORT/folder/out"
umount /mnt
mount_gannet
cmp /tmp/out /mnt/folder/out
same /mnt "$EXPORT"
umount /mnt
