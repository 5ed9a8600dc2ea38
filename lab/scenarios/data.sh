# Data is on Gannet, read and written by the kernel's client in every way, what it is in memory.
# server: gannet --no-root-squash
# over: rdma rdma-crc tcp
# limit: 120

mount_gannet
noise /run/noise 3000000
alike data.py
umount /mnt
