# Data is on Gannet, read and written by the kernel's client in every way, what it is in memory.
# server: gannet --no-root-squash
# over: rdma rdma-crc rdma-1024 tcp
# limit: 120

# inline BYTES: how much the client sends and expects without chunks, at most.
inline() {
    echo "$1" >/proc/sys/sunrpc/rdma_max_inline_read
    echo "$1" >/proc/sys/sunrpc/rdma_max_inline_write
}

[ "$OVER" != rdma-1024 ] || inline 1024
mount_gannet
noise /run/noise 3000000
alike data.py
umount /mnt
inline 4096
