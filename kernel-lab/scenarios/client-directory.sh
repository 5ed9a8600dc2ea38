# Gannet's client lists, copies and removes a directory of 10,000 entries on the kernel's server.
# server: knfsd
# over: rdma tcp
# limit: 180

mkdir /srv/export/many
(cd /srv/export/many; seq -f "%05g-$(printf '%0100d' 0)" 0 9999 | xargs touch)
ls /srv/export/many >/run/names
[ "$(wc -l </run/names)" = 10000 ]
gannet ls "$(url /many)" | cmp - /run/names
# Every entry with its attributes.
gannet ls --json "$(url /many)" >/run/objects
[ "$(grep -c '"kind":"file",.*"size_bytes":0,' /run/objects)" = 10000 ]
find /srv/export/many -type f -printf '%i\n' | sort >/run/inodes
sed 's/.*"fileid":\([0-9]*\),.*/\1/' /run/objects | sort | cmp - /run/inodes

# What is listed is removed: by several listings, and yet not all of it, which would take most of the scenario's time.
find /srv/export/many -name '*[02468]-*' -delete
find /srv/export/many -name '0[1-9]*' -delete
[ "$(find /srv/export/many -type f | wc -l)" = 500 ]
gannet rm --recursive "$(url /many)"
[ ! -e /srv/export/many ]
