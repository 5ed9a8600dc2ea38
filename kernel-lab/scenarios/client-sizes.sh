# Gannet's client writes and reads files of every awkward size on the kernel's server, in blocks at even and odd offsets.
# server: knfsd
# over: rdma rdma-crc tcp
# limit: 180

rm -rf /run/files
python3 -S /run/lab/scenarios/client-sizes.py /run/files
# files_on_host: what the client copies from.
files_on_host() {
    tar -Scf files.tar -C /run files
    host unpack files.tar .
}
files_on_host
# copy NAME: to the server and back, read again by the client, and compared here.
copy() {
    gannet cp --recursive --verify files "$(url "/$1")"
    same /run/files "/srv/export/$1"
    gannet cp --recursive --verify "$(url "/$1")" "$1"
    same /run/files "$1"
}
copy whole
gannet cat $(for size in 0 1 3841 3865 4097 65537 3000001; do url /whole/$size; echo; done) >/tmp/all
(cd /run/files; cat 0 1 3841 3865 4097 65537 3000001) | cmp - /tmp/all
find /run/files -type f -size -64k -delete
mv files/islands .
rm -r files /run/files/islands
files_on_host
# Blocks of 65 KiB: only the first begins at a multiple of a power of two above 1024.
stop_knfsd
serve_knfsd 66560
copy odd
# This knfsd answers READs of holes on tmpfs wrongly when they begin within a page (data comes too late by the offset in
# it), so this file is not read back.
gannet cp islands "$(url /islands)"
cmp islands /srv/export/islands
stop_knfsd
serve_knfsd

# The bench overwrites 0xa5 with zeros, record by record, and removes its file: here it keeps a name.
mkdir -m 777 /srv/export/bench
for record in 3 3841 65537 1000001; do
    (until ln /srv/export/bench/*/data /srv/export/kept; do sleep 0.1; done) &
    gannet bench "$(url /bench)" --op write,read,randread --record $record --size $((3 * record + 2)) --threads 2 --seconds 0.3
    wait
    [ "$(stat -c %s /srv/export/kept)" = $((3 * record + 2)) ]
    cmp -n $((3 * record)) /srv/export/kept /dev/zero
    [ "$(tail -c 2 /srv/export/kept)" = "$(printf '\245\245')" ]
    rm /srv/export/kept
done
