# The address of a volume's NFS server moves to another server, and what the kernel had under way is done once.
# server: script
# limit: 240

# Two hosts for NFS have networks of their own beside the client's. The volume is at another address of this bridge.
modprobe -a bridge veth
ip link add lan type bridge
ip address add 10.88.0.1/24 dev lan
ip address add 10.89.0.1/24 dev lan
ip link set lan up
rm -rf /run/volume /run/nfs
create_volume /run/volume 10.89.0.1:20050 '' ''
sed -i '/^address = ""$/d' /run/volume/volume.toml
serve --volume /run/volume --native 10.89.0.1:20050 --nfs-tcp off --nfs-rdma off
volume=$server
mkdir -m 700 /run/nfs
cp /run/volume/volume.toml /run/volume/secret /run/nfs

python3 -S /run/lab/scenarios/floating-address.py

kill $volume
wait $volume
ip link delete lan
