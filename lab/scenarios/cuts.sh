# The kernel's client connects again after each of many cuts, and sends again what was under way: it is done once.
# server: gannet --no-root-squash
# over: rdma tcp

ports=$(host proxy)
TCP_PORT=${ports% *} RDMA_PORT=${ports#* }
mount_gannet
rm -f /run/end
mkfifo /run/end
python3 -S /run/lab/scenarios/once.py /mnt </run/end &
exec 5>/run/end
for _ in $(seq 40); do
    host cut
    sleep 0.1
done
exec 5>&-
wait $!
umount /mnt
