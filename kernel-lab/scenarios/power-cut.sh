# Whenever the power is cut, the disk holds each change of names and attributes that the server has acknowledged.
# server: script
# over: ext4 xfs btrfs
# limit: 600

# dm-log-writes keeps the order in which writes become durable. Each cut is replayed onto a copy of the empty disk.
modprobe -a loop dm-log-writes "$OVER"
export DM_DISABLE_UDEV=1
rm -rf /run/cut
mkdir -p /run/cut
mount -t tmpfs -o size=600m none /run/cut
cd /run/cut
# Data stays in memory unless somebody asks for it.
writeback=$(cat /proc/sys/vm/dirty_writeback_centisecs)
echo 0 >/proc/sys/vm/dirty_writeback_centisecs
options=-q
acts=all
case $OVER in
    # A small journal is recovered faster, and wraps.
    ext4) options='-q -F -J size=4' ;;
    # That of XFS cannot be small, and its recovery takes longer with each call.
    xfs) acts=settled ;;
esac

# session NAME CALLS OPTIONS...: has `gannet serve` with these options serve a new file system, and checks its cuts.
session() {
    mkdir mount
    truncate --size=1G disk log
    # shellcheck disable=SC2086 # several words
    "mkfs.$OVER" $options disk
    cp --sparse=always disk replayed
    cp --sparse=always disk cut
    disk=$(losetup --find --show disk)
    log=$(losetup --find --show log)
    dmsetup create cut --table "0 $(blockdev --getsz "$disk") log-writes $disk $log"
    mount -t "$OVER" /dev/mapper/cut mount
    name=$1
    what=$2
    shift 2
    serve --allow 127.0.0.0/8 --nfs-tcp 127.0.0.1:3049 --nfs-rdma off --no-root-squash --state-dir state "$@" mount \
        2>"$OUT/server-$name.log"
    HOST=127.0.0.1 python3 -S /run/lab/scenarios/power-cut.py 3049 cut mount "$what" record
    kill $server
    wait $server
    umount mount
    dmsetup remove cut
    losetup --detach "$disk"
    losetup --detach "$log"
    [ "$OVER" != btrfs ] || btrfs device scan --forget
    cut=$(losetup --find --show cut)
    cp record "$OUT/record-$name"
    python3 -S /run/lab/scenarios/cuts.py "$OVER" "$cut" record "$name"
    losetup --detach "$cut"
    rm -r disk log replayed cut state record mount
}

session acknowledged $acts
# A server that does not wait must be caught.
session control first --async-metadata
! dmesg | grep -E 'EXT4-fs (error|warning)|XFS.*(rror|orrupt)|BTRFS.*(error|critical)' || fail 'a file system complains'
echo "$writeback" >/proc/sys/vm/dirty_writeback_centisecs
cd /
umount /run/cut
