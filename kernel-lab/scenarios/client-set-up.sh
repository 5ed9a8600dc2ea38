# Gannet's client connects to the kernel's server, which loses what comes too early, many times, and with and without CRCs
# to one that is strict about them.
# server: knfsd
# over: accept-race crc

mkdir -m 777 /srv/export/bench
noise /srv/export/bench/odd 100001
read_odd() { # read_odd CRC
    gannet cat --timeout 20 --crc "$1" "$(url /bench/odd)" >/run/odd && cmp /run/odd /srv/export/bench/odd
}
case $OVER in
    accept-race)
        # A connection per stream: more than the kernel's listener can keep waiting, so the client must not make all at once.
        gannet bench "$(url /bench)" --op stat --size 1M --threads 12,24 --seconds 0.1 --timeout 20
        read_odd off
        ;;
    crc)
        siw mpa_crc_strict 1
        read_odd off
        ! read_odd on || fail 'CRCs are used that the server does not want'
        grep rejected "$OUT/gannet-$NUMBER.err"
        siw mpa_crc_required 1
        read_odd on
        ;;
esac
