# Gannet's client connects to the kernel's server, which loses what comes too early, many times, and with and without CRCs
# to one that is strict about them.
# server: knfsd

mkdir -m 777 /srv/export/bench
noise /srv/export/bench/odd 100001
# A connection per stream. The kernel's driver forgets connections when more than ten come at once.
gannet bench "$(url /bench)" --op stat --size 1M --threads 4,4,4,4,4,4,4,4 --seconds 0.1 --timeout 20

read_odd() { # read_odd CRC
    gannet cat --timeout 20 --crc "$1" "$(url /bench/odd)" >/run/odd && cmp /run/odd /srv/export/bench/odd
}
siw mpa_crc_strict 1
read_odd off
! read_odd on || fail 'CRCs are used that the server does not want'
grep rejected "$OUT/gannet-$NUMBER.err"
siw mpa_crc_required 1
read_odd on
