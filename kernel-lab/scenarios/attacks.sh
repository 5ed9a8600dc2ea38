# The kernel's client goes on using the server while a peer with raw access to the stream does all that is forbidden.
# server: gannet --no-root-squash
# limit: 120

noise "$EXPORT/victim" 1048576
cp "$EXPORT/victim" /run/victim
: >"$EXPORT/target"
noise /run/data 300000
cat >/run/others <<'END'
#!/bin/sh -e
# What others do meanwhile, without their cache.
dd if=/run/data of=/mnt/data bs=100000 oflag=direct status=none
cmp /run/data "$EXPORT/data"
dd if=/mnt/victim bs=1M iflag=direct status=none | cmp - /run/victim
END
chmod +x /run/others
mount_gannet
/run/others
connections() { awk '$1 == "xprt:" { print $5 }' /proc/self/mountstats; }
connected=$(connections)
before=$(memory)
python3 -S /run/lab/scenarios/attacks.py "$RDMA_PORT" /run/others
[ "$(connections)" = "$connected" ] || fail "the kernel had to connect again"
cmp "$EXPORT/victim" /run/victim || fail 'a file was changed by who may not'
grown=$(($(memory) - before))
[ $grown -lt 65536 ] || fail "the server took $grown KiB more for what the peer asked"
umount /mnt
