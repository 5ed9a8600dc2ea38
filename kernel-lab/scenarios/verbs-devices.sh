# The kernel's RDMA devices serve its own NFS and the programs of rdma-core, which leave nothing behind there.
# server: knfsd
# over: rxe siw rxe@6.12
# limit: 120

# pair PORT SERVER CLIENT: runs the command of a server, and that of its client when the server accepts connections.
pair() {
    $2 &
    server=$!
    listening "$1" $server && timeout 30 $3 && wait $server
}

# perftest FIELD UNIT PROGRAM OPTIONS...: measures, and shows one field of the result. The program gives up when it cannot
# make out the speed of the clock, which an emulated processor makes hard: then it tries again.
perftest() {
    field=$1
    unit=$2
    shift 2
    command="$* -d ${OVER}0 -R -F -n 100"
    for _ in 1 2 3; do
        ! pair 18515 "$command" "$command $ADDRESS" >/tmp/perftest 2>&1 || break
        grep 'Correlation coefficient' /tmp/perftest || fail "$command: $(cat /tmp/perftest)"
    done
    host note "$1: $(awk "/^ #bytes/ { getline; print \$$field; exit }" /tmp/perftest) $unit"
}

devices
rdma link show rxe0/1 | grep 'state ACTIVE'
case $(uname -r) in 6.1.*) rdma link show siw0/1 | grep 'state ACTIVE' ;; esac
mount_over "$ADDRESS:/srv/export" 2049 20049 20048
noise /run/file 3000001
cp /run/file /mnt/file
cmp /run/file /srv/export/file
umount /mnt
ibv_devinfo -d "${OVER}0" | grep PORT_ACTIVE
ping="-v -a $ADDRESS -C 3 -S 100"
pair 7174 "rping -s $ping" "rping -c $ping"
perftest 4 MB/s ib_write_bw -s 65536
perftest 5 us ib_read_lat -s 4096 -e
devices_free
