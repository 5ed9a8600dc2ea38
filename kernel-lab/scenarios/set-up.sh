# The kernel's client connects in every way that its driver knows, and what it reads and writes is right.
# server: gannet --no-root-squash
# over: revision-1 peer-to-peer read-first write-first crc-strict no-crc-strict gso

case $OVER in
    revision-1) siw mpa_version 1 ;;
    peer-to-peer) siw peer_to_peer 1 ;;
    # How the client opens the connection: RDMA Read is 0x4000, RDMA Write 0x8000.
    read-first) siw peer_to_peer 1 && siw rtr_type_be 64 ;;
    write-first) siw peer_to_peer 1 && siw rtr_type_be 128 ;;
    # A strict client takes nothing but what it asked for.
    crc-strict) siw mpa_crc_strict 1 && siw mpa_crc_required 1 ;;
    no-crc-strict) siw mpa_crc_strict 1 ;;
    gso) siw try_gso 1 ;;
esac
noise /run/odd 1000001
mount_gannet
cp /run/odd /mnt/odd
cmp /run/odd "$EXPORT/odd"
dd if=/mnt/odd bs=1M iflag=direct status=none | cmp - /run/odd
umount /mnt
