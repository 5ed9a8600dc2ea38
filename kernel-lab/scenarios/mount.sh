# The kernel's client mounts Gannet, lists, reads and writes.
# server: gannet --no-root-squash
# over: rdma rdma-crc tcp

mkdir "$OUT/export/folder"
noise "$OUT/export/folder/in" 3000001
mount_gannet
grep " /mnt nfs .*proto=${OVER%-crc}," /proc/mounts
[ "$(ls /mnt/folder)" = in ]
cmp /mnt/folder/in "$OUT/export/folder/in"
noise /tmp/out 3000001
cp /tmp/out /mnt/folder/out
cmp /tmp/out "$OUT/export/folder/out"
umount /mnt
mount_gannet
cmp /tmp/out /mnt/folder/out
same /mnt "$OUT/export"
umount /mnt
