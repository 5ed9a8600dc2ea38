# Names and attributes are on Gannet, seen by the kernel's client, what they are in memory.
# server: gannet --no-root-squash
# over: rdma tcp
# limit: 120

mount_gannet
alike names.py

# The kernel's client counts in blocks of a mebibyte, and others use the disk at the same time.
total='--block-size=1M --output=size,itotal'
# shellcheck disable=SC2086 # two words
[ "$(df $total /mnt)" = "$(df $total "$EXPORT")" ] || fail "df: another size"
gib_free() {
    set -- $(stat -f -c '%a %S' "$1")
    echo $(($1 * $2 >> 30))
}
before=$(gib_free "$EXPORT")
seen=$(gib_free /mnt)
after=$(gib_free "$EXPORT")
[ "$seen" -ge $((before < after ? before - 1 : after - 1)) ] && [ "$seen" -le $((before > after ? before + 1 : after + 1)) ] ||
    fail "df: $seen GiB free through the mount, $before and then $after GiB beside it"
umount /mnt
