# Two hosts with the kernel's client, and their programs and users, see each other's changes of files on Gannet when
# sight.expected says so.
# server: gannet --no-root-squash
# over: rdma tcp
# limit: 120

# Each mount has caches of its own, as if on its own host. Attributes are trusted as long as by `gannet mount`.
mount_gannet /mnt nosharecache,actimeo=1
mount_gannet /run/elsewhere nosharecache,actimeo=1
python3 -S /run/lab/scenarios/sight.py --expect local /run /run
python3 -S /run/lab/scenarios/sight.py --expect linux /mnt /run/elsewhere
umount /mnt /run/elsewhere
