# Gannet's client lists, reads, copies and measures on the kernel's server.
# server: knfsd
# over: rdma rdma-crc tcp

mkdir -m 777 /srv/export/folder
noise /srv/export/folder/in 3000001
[ "$(gannet ls "$(url /folder)")" = in ]
gannet cat "$(url /folder/in)" >/tmp/in
cmp /tmp/in /srv/export/folder/in
mkdir tree
noise tree/small 15
noise tree/large 5000003
ln -s small tree/link
gannet cp --recursive --verify tree "$(url /tree)"
same tree /srv/export/tree
gannet cp --recursive --verify "$(url /tree)" back
same tree back
gannet bench "$(url /folder)" --size 4M --threads 2 --seconds 1
