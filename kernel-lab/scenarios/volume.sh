# A volume is three machines, a manager and two I/O servers; one of these is killed during a copy, and nothing is lost.
# server: script
# guests: 3
# limit: 180

# An earlier scenario may have left the kernel's server behind, on the ports of ours.
[ ! -e /run/knfsd ] || stop_knfsd
echo "$SAME_PORT" >"port-$GUEST"
rm -rf /run/volume
host meet
manager=10.0.2.2:$(cat port-1)

# role NAME [OPTIONS]: starts this guest's server, and waits until it is ready.
role() {
    serve --volume /run/volume --native "10.0.2.15:$SAME_PORT" --role "$@"
}

# io_server: what guests 2 and 3 do.
io_server() {
    mkdir -m 700 /run/volume
    cp volume.toml secret /run/volume
    mkdir -p "/run/volume/io/$((GUEST - 2))"
    role "io-server=$((GUEST - 2))"
    if [ "$GUEST" = 2 ]; then
        # In the middle of the copy.
        until [ "$(du -s /run/volume/io/0 | cut -f 1)" -gt 4000 ]; do sleep 0.1; done
        kill -s KILL $server
        wait $server || true
        [ ! -e copied ] || fail 'the copy was faster than the kill'
        role io-server=0
    fi
    host meet
    kill $server
    wait $server
}

# manager_and_client: what guest 1 does.
manager_and_client() {
    noise /run/large 20000001
    role manager --allow 10.0.2.0/24 --nfs-tcp 10.0.2.15:2049 --nfs-rdma 10.0.2.15:20049 --no-root-squash
    volume=gannet://$manager
    export GANNET_VOLUME_KEY=/run/volume/client-key
    "$GANNET" cp /run/large "$volume/large"
    touch copied
    "$GANNET" cat "$volume/large" | cmp - /run/large
    rm -rf /run/tree
    mkdir -p /run/tree/a/b
    for bytes in 0 1 3841 65537 262145; do head -c $bytes /run/large >/run/tree/a/b/$bytes; done
    ln -s b/65537 /run/tree/a/link
    "$GANNET" cp --recursive --verify /run/tree "$volume/tree"
    "$GANNET" volume check "$volume/"
    # The kernel's client sees the same volume through the manager's NFS, where MOUNT has the port of NFS over TCP.
    MOUNT_PORT=$TCP_PORT
    mount_gannet
    cmp /mnt/large /run/large
    same /run/tree /mnt/tree
    umount /mnt
    host meet
    kill $server
    wait $server
}

if [ "$GUEST" = 1 ]; then
    create_volume /run/volume "$manager" "10.0.2.2:$(cat port-2)" "10.0.2.2:$(cat port-3)"
    cp /run/volume/volume.toml .
    cp /run/volume/secret .
    host meet
    manager_and_client
else
    host meet
    io_server
fi
[ ! -e /run/knfsd ] || serve_knfsd
