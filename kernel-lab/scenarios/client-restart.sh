# The kernel's server is restarted while Gannet's client copies to it and from it: the copies end, and nothing is lost.
# server: knfsd
# over: rdma rdma-crc tcp
# limit: 240

# restart_before ALL DONE: restarts the server, and says in $within whether DONE had not printed ALL by then.
restart_before() {
    stop_knfsd
    within=
    so_far=$($2)
    [ "$so_far" -ge "$1" ] || within=yes
    serve_knfsd
}
# more: when a copy was faster than the restart, it is done again with twice as much.
more() {
    attempts=$((attempts + 1))
    [ $attempts -lt 2 ] || fail 'the copies are faster than the restarts'
}
# copied DIRECTORY NAME: how much of a file is copied; it has its name when that is all.
copied() { stat -c %s "$1"/.gannet-cp-* 2>/dev/null || stat -c %s "$1/$2" 2>/dev/null || echo 0; }
sent() { copied /srv/export large; }
brought() { copied . back; }
# links: a directory has two, and one for each directory in it.
links() { stat -c %h /srv/export/tree; }

size=50000001
attempts=0
within=
until [ $within ]; do
    rm -f /srv/export/large back
    noise large $size
    gannet cp large "$(url /large)" &
    until [ "$(sent)" -gt 0 ]; do sleep 0.05; done
    restart_before $size sent
    wait $!
    cmp large /srv/export/large
    within_sent=$within
    gannet cp "$(url /large)" back &
    until [ "$(brought)" -gt 0 ]; do sleep 0.05; done
    restart_before $size brought
    wait $!
    cmp large back
    size=$((size * 2))
    [ $within ] && [ $within_sent ] || { within=; more; }
done

# Calls that cannot be repeated: those sent again may have been done before.
count=200
attempts=0
within=
until [ $within ]; do
    rm -rf /run/tree /srv/export/tree tree
    mkdir /run/tree
    (cd /run/tree; seq $count | xargs mkdir; for folder in *; do echo $folder >$folder/file; done; ln -s .. 1/link)
    tar -cf tree.tar -C /run tree
    host unpack tree.tar .
    gannet cp --recursive tree "$(url /tree)" &
    until [ -e /srv/export/tree ] && [ "$(links)" -gt 50 ]; do :; done
    restart_before $((count + 2)) links
    wait $!
    same /run/tree /srv/export/tree
    count=$((count * 2))
    [ $within ] || more
done
