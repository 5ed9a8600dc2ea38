# A volume works on the kernel's devices, in one guest; one of its I/O servers is killed during a copy, and nothing is lost.
# server: script
# over: rxe siw rxe@6.12
# limit: 300

# role NAME PORT: starts one of the volume's servers.
role() {
    serve --volume /run/volume --provider verbs --native "$ADDRESS:$2" --role "$1"
}

devices
rm -rf /run/volume
create_volume /run/volume "$ADDRESS:7400" "$ADDRESS:7401" "$ADDRESS:7402"
role manager 7400
manager=$server
role io-server=1 7402
second=$server
role io-server=0 7401

noise /run/large 60000001
volume=gannet://$ADDRESS:7400
export GANNET_VOLUME_KEY=/run/volume/client-key
"$GANNET" cp --provider verbs /run/large "$volume/large" &
copy=$!
until [ "$(du -s /run/volume/io/0 | cut -f 1)" -gt 4000 ]; do sleep 0.1; done
kill -s KILL $server
wait $server || true
[ -e /proc/$copy/exe ] || fail 'the copy was faster than the kill'
role io-server=0 7401
wait $copy
gannet cat "$volume/large" | cmp - /run/large
rm -rf /run/tree /run/back
mkdir -p /run/tree/a/b
for bytes in 0 1 3841 65537 262145; do head -c $bytes /run/large >/run/tree/a/b/$bytes; done
ln -s b/65537 /run/tree/a/link
gannet cp --recursive --verify /run/tree "$volume/tree"
gannet cp --recursive --verify "$volume/tree" /run/back
same /run/tree /run/back
gannet volume check "$volume/"
rm -r /run/tree /run/back
kill "$second" "$manager"
wait "$second" "$manager"
stop_verbs
