# Gannet's client lists, reads, copies, changes and measures on the kernel's server.
# server: knfsd
# over: rdma rdma-crc tcp
# limit: 120

mkdir -m 777 /srv/export/folder
noise /srv/export/folder/in 3000001
chmod 600 /srv/export/folder/in
[ "$(gannet ls "$(url /folder)")" = in ]
gannet cat "$(url /folder/in)" >/tmp/in
cmp /tmp/in /srv/export/folder/in
! gannet cat --uid 1000 --gid 1000 "$(url /folder/in)" || fail 'somebody else may read it'
[ ! -s "$OUT/gannet-$NUMBER.out" ]
grep 'permission denied' "$OUT/gannet-$NUMBER.err"

mkdir tree
noise tree/small 15
noise tree/large 5000003
ln -s small tree/link
gannet cp --recursive --verify tree "$(url /tree)"
same tree /srv/export/tree
gannet cp --recursive --verify "$(url /tree)" back
same tree back

gannet mkdir --parents "$(url /folder/deep/below)"
gannet mv "$(url /tree/small)" "$(url /folder/deep/below/moved)"
cmp tree/small /srv/export/folder/deep/below/moved
[ ! -e /srv/export/tree/small ]
gannet stat --json "$(url /tree/large)" >/tmp/stat
grep "\"size_bytes\":5000003,.*\"fileid\":$(stat -c %i /srv/export/tree/large)," /tmp/stat
gannet df --json "$(url /)" >/tmp/df
grep "\"total_bytes\":$(($(stat -f -c '%b * %S' /srv/export)))," /tmp/df
gannet rm --recursive "$(url /folder/deep)" "$(url /tree)"
[ "$(ls /srv/export /srv/export/folder)" = "$(printf '/srv/export:\nfolder\n\n/srv/export/folder:\nin')" ]

gannet bench "$(url /folder)" --size 4M --threads 2 --seconds 0.3
