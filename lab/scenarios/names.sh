# Names and attributes are on Gannet, seen by the kernel's client, what they are in memory.
# server: gannet --no-root-squash
# over: rdma tcp
# limit: 120

mount_gannet
alike names.py

# The kernel's client counts in blocks of a mebibyte, and others use the disk at the same time.
total='--block-size=1M --output=size,itotal'
# shellcheck disable=SC2086 # two words
[ "$(df $total /mnt)" = "$(df $total "$OUT/export")" ] || fail "df: another size"
free='%a * %S >> 30'
more=$(($(stat -f -c "$free" /mnt) - ($(stat -f -c "$free" "$OUT/export"))))
[ "${more#-}" -le 1 ] || fail "df: $more GiB more are free"
umount /mnt
