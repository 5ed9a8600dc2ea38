# The server ends, well and badly, and comes back under load: the kernel's client goes on, and nothing is lost.
# server: gannet --no-root-squash
# over: rdma tcp
# limit: 240

noise /run/noise 3000000
rm -rf /run/load
mount_gannet
python3 -S /run/lab/scenarios/restart.py
python3 -S /run/lab/scenarios/load.py restart
umount /mnt
same /run/load "$EXPORT/load"
