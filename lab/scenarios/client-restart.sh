# The kernel's server is restarted while Gannet's client copies to it and from it: the copies end, and nothing is lost.
# server: knfsd
# over: rdma rdma-crc tcp
# limit: 180

# restart_before SIZE FILE: as soon as there is something in the file, and before it is complete.
restart_before() {
    until [ -s "$2" ]; do sleep 0.05; done
    stop_knfsd
    [ "$(stat -c %s "$2")" -lt "$1" ] || fail 'the copy was faster than the restart'
    serve_knfsd
}
noise large 50000001
gannet cp large "$(url /large)" &
restart_before 50000001 /srv/export/large
wait $!
cmp large /srv/export/large
gannet cp "$(url /large)" back &
restart_before 50000001 back
wait $!
cmp large back

# Calls that cannot be repeated: those sent again may have been done before.
rm -rf /run/tree
mkdir /run/tree
(cd /run/tree; seq 0 199 | xargs mkdir; for folder in *; do echo $folder >$folder/file; done; ln -s .. 0/link)
tar -cf tree.tar -C /run tree
host unpack tree.tar .
gannet cp --recursive tree "$(url /tree)" &
# A directory has two links, and one for each directory in it.
until links=$(stat -c %h /srv/export/tree) && [ "$links" -gt 50 ]; do :; done
stop_knfsd
[ "$(stat -c %h /srv/export/tree)" -lt 202 ] || fail 'the copy was faster than the restart'
serve_knfsd
wait $!
same /run/tree /srv/export/tree
