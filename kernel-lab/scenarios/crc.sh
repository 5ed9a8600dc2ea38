# A server that insists on CRCs gets them from a kernel's client that does not ask for them.
# server: gannet --no-root-squash --crc on
# over: rdma

# This kernel refuses a connection with CRCs, to show that the server asks.
siw mpa_crc_strict 1
! mount_gannet /mnt retry=0 || fail "the server does not insist"
siw mpa_crc_strict 0
mount_gannet
noise /run/noise 3000001
dd if=/run/noise of=/mnt/file bs=1M oflag=direct status=none
cmp /run/noise "$EXPORT/file"
dd if=/mnt/file bs=1M iflag=direct status=none | cmp - /run/noise
umount /mnt
