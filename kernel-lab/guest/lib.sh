# Helpers for scenarios; `agent` reads them in before the script. See kernel-lab/README.md.
# shellcheck shell=sh

# host REQUEST: asks the host for something; prints its answer, and ends with its status.
host() (
    flock 4
    printf '%s\n' "$*" >&3
    IFS=' ' read -r status answer <&3 || exit 255
    [ -z "$answer" ] || printf '%s\n' "$answer"
    exit "$status"
) 4>/run/lock/host

# fail TEXT: ends the scenario.
fail() {
    echo "lab: $*"
    exit 1
}

# gannet ARGUMENTS: runs a client in the scenario's folder; output and status are the client's. It runs on the host, where no
# argument may contain white space, or over a device in the guest that has it.
gannet() {
    gannet_status=0
    case $OVER in
        rxe | siw)
            "$GANNET" "$@" --provider verbs >"$OUT/gannet-$NUMBER.out" 2>"$OUT/gannet-$NUMBER.err" || gannet_status=$?
            ;;
        *) host gannet "$@" || gannet_status=$? ;;
    esac
    cat "$OUT/gannet-$NUMBER.err" >&2
    cat "$OUT/gannet-$NUMBER.out"
    return $gannet_status
}

# url PATH: the URL of a file of the server's, for `gannet`, over what $OVER says.
url() {
    case $OVER in
        tcp) printf 'nfs://127.0.0.1:%s' "$TCP_PORT" ;;
        rxe | siw) printf 'nfs+rdma://%s:%s' "$HOST" "$RDMA_PORT" ;;
        *) printf 'nfs+rdma://127.0.0.1:%s' "$RDMA_PORT" ;;
    esac
    case $SERVER in
        knfsd) printf '/srv/export%s?mountport=%s' "$1" "$MOUNT_PORT" ;;
        *) printf '%s?mountport=%s' "$1" "$MOUNT_PORT" ;;
    esac
}

# prepare: what every scenario starts with.
prepare() {
    # The host as the guest sees it, where Gannet serves this folder.
    export HOST=10.0.2.2 EXPORT="$OUT/export"
    [ ! -d /sys/module/siw ] || siw mpa_crc_required "$(case $OVER in rdma-crc) echo 1 ;; *) echo 0 ;; esac)"
    [ "$SERVER" != knfsd ] || knfsd
}

# siw PARAMETER VALUE: sets a parameter of the driver until the scenario ends.
siw() {
    echo "$2" >"/sys/module/siw/parameters/$1"
}

# mount_gannet [FOLDER [OPTIONS]]: mounts Gannet's server (default /mnt), over what $OVER says.
mount_gannet() {
    mount_over "$HOST:/" "$TCP_PORT" "$RDMA_PORT" "$MOUNT_PORT" "$@"
}

# mount_knfsd [FOLDER [OPTIONS]]: mounts the guest's own server (default /mnt), over what $OVER says.
mount_knfsd() {
    mount_over 10.0.2.15:/srv/export 2049 20049 20048 "$@"
}

# mount_over SOURCE TCP_PORT RDMA_PORT MOUNT_PORT [FOLDER [OPTIONS]]: mounts, by default at /mnt, over what $OVER says.
mount_over() {
    case $OVER in
        tcp) nfs_port="proto=tcp,port=$2" ;;
        *) nfs_port="proto=rdma,port=$3" ;;
    esac
    mkdir -p "${5:-/mnt}"
    mount -t nfs -o "vers=3,$nfs_port,mountproto=tcp,mountport=$4,nolock,hard,timeo=100${6:+,$6}" \
        "$1" "${5:-/mnt}"
}

# serve [OPTIONS]: starts `gannet serve` in this guest, and waits until it is ready. $server becomes its process.
serve() {
    rm -f /run/ready
    "$GANNET" serve --ready-file /run/ready "$@" &
    server=$!
    until [ -e /run/ready ]; do
        [ -e "/proc/$server/exe" ] || fail "the server has ended: gannet serve $*"
        sleep 0.1
    done
}

# knfsd: starts the kernel's server on an empty file system at /srv/export: NFS on TCP port 2049 and RDMA port 20049,
# MOUNT on 20048. When it runs already, only the files go.
knfsd() {
    if [ -e /run/knfsd ]; then
        find /srv/export -mindepth 1 -delete
        return
    fi
    mkdir -p /srv/export /run/rpcbind /run/sendsigs.omit.d /var/lib/nfs/rpc_pipefs /var/lib/nfs/v4recovery
    mount -t tmpfs -o size=60% none /srv/export
    : >/var/lib/nfs/etab
    : >/var/lib/nfs/rmtab
    echo '/srv/export *(rw,async,no_root_squash,no_subtree_check,insecure,fsid=1)' >/etc/exports
    rpcbind -w
    mount -t nfsd nfsd /proc/fs/nfsd
    exportfs -r
    rpc.mountd --port 20048 --no-nfs-version 4
    serve_knfsd
    touch /run/knfsd
}

# serve_knfsd [BYTES]: lets the kernel's server answer, for READs and WRITEs of up to so many bytes, until `stop_knfsd`.
serve_knfsd() {
    # It would shrink with the guest's memory.
    echo "${1:-1048576}" >/proc/fs/nfsd/max_block_size
    rpc.nfsd --port 2049 --no-udp --nfs-version 3 4
    echo 'rdma 20049' >/proc/fs/nfsd/portlist
}

# memory: the most memory that Gannet's server has had resident since it was started, in KiB.
memory() {
    case $SERVER in
        gannet) host memory ;;
        *) awk '$1 == "VmHWM:" { print $2 }' "/proc/$server/status" ;;
    esac
}

# create_volume FOLDER MANAGER IO_SERVER...: makes a volume whose servers have these addresses.
create_volume() (
    volume=$1
    manager=$2
    shift 2
    "$GANNET" volume create --io-servers $# "$volume"
    {
        sed '/^\[\[io_server/,$d' "$volume/volume.toml"
        printf '[manager]\naddress = "%s"\n' "$manager"
        number=0
        for address; do
            printf '[[io_server]]\nfolder = "io/%s"\naddress = "%s"\n' $number "$address"
            number=$((number + 1))
        done
    } >/run/volume.toml
    mv /run/volume.toml "$volume/volume.toml"
)

# stop_knfsd: ends the kernel's server. It takes a fraction of a second; once in some hundred times it never ends, with no
# client left: status 120 has the scenario run again in a fresh guest. The log then holds what its threads wait for.
stop_knfsd() (
    rpc.nfsd 0 &
    left=300
    while [ -e "/proc/$!/exe" ]; do
        [ $left -gt 0 ] || knfsd_stays
        left=$((left - 1))
        sleep 0.1
    done
    wait $!
)

# knfsd_stays: says where the kernel's server hangs, and ends the scenario.
knfsd_stays() {
    set +ex
    echo w >/proc/sysrq-trigger
    cat /proc/net/tcp
    for process in /proc/[0-9]*; do
        name=$(cat "$process/comm")
        case $name in nfsd | rpc.nfsd) echo "$name $(tr '\n' ' ' <"$process/stack")" ;; esac
    done | sort | uniq -c
    exit 120
}

# noise FILE BYTES: a file that compresses badly and never twice the same.
noise() {
    # Pieces of a mebibyte: each takes as long through the shared folder as one of a few bytes.
    dd if=/dev/urandom of="$1" bs=1M count="$2" iflag=count_bytes,fullblock status=none
}

# manifest FOLDER: what is in a tree: kind, mode, size, link and checksum of each object.
manifest() (
    cd "$1"
    find . -mindepth 1 ! -type d -printf '%p %y %m %s %l\n' -o -mindepth 1 -printf '%p %y %m\n' | sort
    find . -type f -exec md5sum {} + | sort
)

# same FOLDER FOLDER: two trees must hold the same.
same() {
    manifest "$1" >/run/manifest.1
    manifest "$2" >/run/manifest.2
    diff /run/manifest.1 /run/manifest.2
}

# alike PROGRAM: runs a Python program beside the scenarios in memory and on /mnt, in empty folders. It must print the
# same and leave the same, as seen by a second mount and on the host.
alike() {
    rm -rf /run/alike
    mkdir /run/alike /mnt/alike
    python3 -S "/run/lab/scenarios/$1" /run/alike >/run/alike.memory
    python3 -S "/run/lab/scenarios/$1" /mnt/alike >/run/alike.mount
    diff /run/alike.memory /run/alike.mount
    umount /mnt
    mount_gannet
    same /run/alike /mnt/alike
    same /run/alike "$EXPORT/alike"
}

# devices: gives programs of this guest the kernel's RDMA devices: siw0 on eth0, and rxe0 on an interface of its own, because
# one with both would not say which of them an address means. $ADDRESS becomes that of the device that $OVER names.
devices() {
    if [ ! -e /sys/class/infiniband/rxe0 ]; then
        modprobe -a rdma_rxe ib_uverbs rdma_ucm dummy
        ip link add rxe-net type dummy
        ip addr add 10.77.0.1/24 dev rxe-net
        ip link set rxe-net up
        rdma link add rxe0 type rxe netdev rxe-net
    fi
    case $OVER in
        rxe) ADDRESS=10.77.0.1 ;;
        siw) ADDRESS=10.0.2.15 ;;
        *) fail "devices: no device named $OVER" ;;
    esac
    # siw counts locked memory of root too.
    ulimit -l unlimited
    rdma resource show >/run/resources
}

# serve_verbs: starts Gannet's server on the device of `devices`, with an empty ext4 file system, since that of the guest's
# memory differs from those of disks. From here on, what leads to the host's server leads to this one.
serve_verbs() {
    HOST=$ADDRESS EXPORT=/run/export TCP_PORT=3049 RDMA_PORT=30049 MOUNT_PORT=3049
    if [ ! -e "$EXPORT" ]; then
        modprobe -a loop ext4
        truncate --size=1G /run/disk
        mkfs.ext4 -q /run/disk
        mkdir "$EXPORT"
        mount -o loop /run/disk "$EXPORT"
    fi
    find "$EXPORT" -mindepth 1 -delete
    serve --provider verbs --no-root-squash --allow "$ADDRESS/32" --nfs-tcp "$ADDRESS:$TCP_PORT" \
        --nfs-rdma "$ADDRESS:$RDMA_PORT" --state-dir /run/state "$EXPORT"
}

# stop_verbs: ends $server, which must end well and leave nothing behind in the devices.
stop_verbs() {
    kill "$server"
    wait "$server"
    devices_free
}

# devices_free: waits until programs have left nothing behind in the devices since `devices`, and fails after 20 looks.
devices_free() (
    set +x
    left=20
    until rdma resource show | cmp -s - /run/resources; do
        [ $left -gt 0 ] || fail "ended programs left something in the devices: $(rdma resource show | diff /run/resources -)"
        left=$((left - 1))
        sleep 0.1
    done
)

# listening PORT PROCESS: waits until a program accepts RDMA connections on a port, and fails when it ends before.
listening() (
    set +x
    until rdma resource show cm_id | grep -q "LISTEN.*:$1 "; do
        [ -e "/proc/$2/exe" ] || fail "the program that was to accept RDMA connections on port $1 has ended"
        sleep 0.1
    done
)
