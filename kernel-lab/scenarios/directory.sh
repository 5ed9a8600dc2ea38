# A folder of 10,000 entries is listed whole over both transports; one is removed while it is listed.
# server: gannet --no-root-squash
# limit: 180

directory() { python3 -S /run/lab/scenarios/directory.py "$@"; }

rm -rf /run/directory /run/removed
directory fill /run/directory 10000
directory fill /run/removed 1500
tar -cf tree.tar -C /run directory removed
host unpack tree.tar export
directory list /run/directory >/run/listed
directory names /run/directory >/run/names
for OVER in rdma tcp; do
    mount_gannet
    directory list /mnt/directory | diff /run/listed -
    umount /mnt
    mount_gannet /mnt nordirplus
    directory names /mnt/directory | diff /run/names -
    umount /mnt
done
OVER=rdma
mount_gannet
directory remove /mnt/removed
[ ! -e "$EXPORT/removed" ] || fail 'something is left of the folder'
umount /mnt
