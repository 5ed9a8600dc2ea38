# A Debian machine installs the package by dpkg, mounts from fstab over RDMA and TCP, reads and writes, unmounts, and
# removes the package.
# server: gannet --no-root-squash
# package: yes
# limit: 360

# Processes of the installed program.
processes() { cat /proc/[0-9]*/comm 2>/dev/null | grep -cx gannet; }

modprobe fuse
[ ! -e /usr/bin/gannet ]
# Without triggers: that of man-db reads all man pages of the host, which takes minutes here.
dpkg --install --no-triggers "$PACKAGE"
/usr/bin/gannet --version
[ "$(readlink /usr/sbin/mount.gannet)" = ../bin/gannet ]
[ -s /etc/gannet/gannet.toml ]
[ -s /usr/share/man/man8/mount.gannet.8.gz ]
[ -s /usr/share/gannet/prometheus/gannet.rules.yml ]
[ -s /usr/share/gannet/grafana/gannet.json ]

noise "$EXPORT/in" 3000001
mkdir -p /mnt/rdma /mnt/tcp /mnt/manual
cp /etc/fstab /tmp/fstab
cat >>/etc/fstab <<END
nfs+rdma://10.0.2.2:$RDMA_PORT/ /mnt/rdma gannet _netdev,timeout=20 0 0
10.0.2.2:/ /mnt/tcp gannet _netdev,proto=tcp,port=$TCP_PORT,ro,x-systemd.automount 0 0
nfs+rdma://10.0.2.2:$RDMA_PORT/ /mnt/manual gannet noauto,_netdev 0 0
END

# As the boot does, twice: what is mounted already is left alone.
mount -a -O _netdev
mount -a -O _netdev
grep " /mnt/rdma fuse.gannet rw," /proc/mounts
grep "^10.0.2.2:/ /mnt/tcp fuse.gannet ro," /proc/mounts
! grep /mnt/manual /proc/mounts || fail 'noauto was mounted'
[ "$(processes)" = 2 ]

cmp /mnt/rdma/in "$EXPORT/in"
noise /tmp/out 3000001
cp /tmp/out /mnt/rdma/out
cmp /tmp/out "$EXPORT/out"
cmp /tmp/out /mnt/tcp/out
! touch /mnt/tcp/new || fail 'ro lets files be made'
# Other users than root see it too.
setpriv --reuid=1000 --regid=1000 --clear-groups ls /mnt/rdma/in
umount /mnt/rdma
umount /mnt/tcp

# One line, by its folder, and errors.
mount /mnt/manual
cmp /mnt/manual/in "$EXPORT/in"
umount /mnt/manual
mount -t fuse.gannet "nfs+rdma://10.0.2.2:$RDMA_PORT/" /mnt/manual
cmp /mnt/manual/in "$EXPORT/in"
umount /mnt/manual
! mount -t gannet -o nonsense "10.0.2.2:/" /mnt/manual 2>/tmp/error || fail 'an unknown option is accepted'
grep '`nonsense` cannot be used' /tmp/error
status=0
mount -t gannet -o port=1 10.0.2.2:/ /mnt/manual 2>/tmp/error || status=$?
[ $status = 32 ]
grep 'gannet: cannot ' /tmp/error

# The processes end when what they serve is unmounted.
until [ "$(processes)" = 0 ]; do sleep 0.1; done
dpkg --purge --no-triggers gannet
[ ! -e /usr/bin/gannet ]
[ ! -e /etc/gannet ]
cp /tmp/fstab /etc/fstab
