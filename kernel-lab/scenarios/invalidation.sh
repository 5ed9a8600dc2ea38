# The server invalidates the key of a call that bears one if the kernel's client says that it may, and no other.
# server: gannet --no-root-squash
# over: remote local

# How often the client had to invalidate keys itself: the call's only one, or several.
invalidated() { awk '$1 == "xprt:" { print $(NF - 2) }' /proc/self/mountstats; }
# reads BYTES: 20 READs; the kernel's client asks for a key more where the size needs padding.
reads() { dd if=/mnt/file of=/run/read bs="$1" count=20 iflag=direct,fullblock status=none; }

noise "$EXPORT/file" 1310720
[ "$OVER" = remote ] || RDMA_PORT=$(host proxy no-invalidation | cut -d ' ' -f 2)
mount_gannet
start=$(invalidated)
reads 65536
cmp /run/read "$EXPORT/file"
one_key=$(invalidated)
reads 65535
two_keys=$(invalidated)
dd if="$EXPORT/file" of=/mnt/copy bs=65536 oflag=direct status=none
writes=$(invalidated)
cmp /mnt/copy "$EXPORT/file"
case $OVER in
    remote) expected='0 20 0' ;;
    local) expected='20 20 20' ;;
esac
done="$((one_key - start)) $((two_keys - one_key)) $((writes - two_keys))"
[ "$done" = "$expected" ] || fail "invalidated by the client in 20 READs, 20 with padding, 20 WRITEs: $done"
umount /mnt
