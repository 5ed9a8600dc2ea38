# The kernel's client over siw is not much slower with Gannet than with the kernel's own server, both in this guest.
# server: knfsd
# limit: 600
# capture: no

serve --no-root-squash --allow 10.0.2.0/24 --nfs-tcp 10.0.2.15:3049 --nfs-rdma 10.0.2.15:30049 --state-dir /run/state \
    /srv/export
# Debian's number of threads.
echo 8 >/proc/fs/nfsd/threads
noise /srv/export/large 33554432
mkdir /srv/export/many
(cd /srv/export/many; seq -f file-%g 0 999 | xargs touch)
# Attributes are asked for each time: the client's cache is not what is measured.
mount_knfsd /mnt actimeo=0
mount_over 10.0.2.15:/ 3049 30049 3049 /gannet actimeo=0
status=0
python3 -S /run/lab/scenarios/speed.py /srv/export /mnt /gannet >/run/table || status=$?
umount /gannet /mnt
kill $server
while IFS= read -r line; do host note "$line"; done </run/table
[ $status = 0 ] || fail "too slow: $(cat /run/table)"
