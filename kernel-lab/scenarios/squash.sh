# Root of the kernel's client may on Gannet what nobody may in memory, unless told otherwise; others, what they may.
# server: gannet
# over: rdma tcp

rm -rf /run/users
for folder in /run/users "$EXPORT/users"; do
    mkdir "$folder"
    python3 -S /run/lab/scenarios/users.py prepare "$folder"
done
mount_gannet
python3 -S /run/lab/scenarios/users.py act /run/users 65534 >/run/users.memory
python3 -S /run/lab/scenarios/users.py act /mnt/users 0 >/run/users.mount
diff /run/users.memory /run/users.mount
umount /mnt
same /run/users "$EXPORT/users"
