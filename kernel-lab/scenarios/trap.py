"""trap.py TRAP RDMA-PORT TCP-PORT FILE EXPORT: what the server must say exactly, because Linux takes it amiss otherwise.

FILE is a copy of the file `file` in the export.
"""

import sys
from struct import pack

from peer import CREATE, MKDIR, NFS, NFSACL, NULL, READ, REMOVE, RENAME, RMDIR, WRITE_FILE
from peer import READ_RESPONSE, Cursor, Peer, Stream, opaque, rpc

TRAP, RDMA_PORT, TCP_PORT, EXPORT = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[5]
with open(sys.argv[4], "rb") as file:
    CONTENT = file.read()
ROOT = Peer(RDMA_PORT).mount()
FILE = Peer(RDMA_PORT).lookup(ROOT, b"file")


def expect(what, wanted, got):
    if wanted != got:
        sys.exit(f"lab: {what}: {got}, not {wanted}")


def depths(pairs):
    """How many Reads each side may have under way: what the client's request says, and what the reply must."""
    for ird, ord_, got in pairs:
        peer = Peer(RDMA_PORT, ird=ird, ord=ord_)
        expect(f"IRD and ORD for IRD {ird}, ORD {ord_}", got, Cursor(peer.private).take("HH"))


def reply_in_one_write():
    """The host has looked whether it is; here, that it is whole."""
    peer = Peer(RDMA_PORT)
    expect("flags and revision", (0x10, 2), (peer.flags, peer.revision))
    expect("a call", "reply 0", peer.ask(NFS, NULL))


def first_word():
    """siw ends a connection when anything comes behind the reply of the set-up before it has said something."""
    peer = Peer(RDMA_PORT)
    expect("what comes before the first FPDU", True, peer.is_silent())
    expect("a call", "reply 0", peer.ask(NFS, NULL))
    expect("the answer to who asks for CRCs", 0x50, Peer(RDMA_PORT, crc=True).flags)


def ord_0():
    """Linux's client lets nobody read more than it says, be it nothing."""
    depths([(0, 0, (0, 0)), (1, 0, (0, 1)), (0, 128, (128, 0))])
    read_depths()


def ord_above_128():
    """siw ends a connection whose other side wants to have more than 128 Reads under way."""
    depths([(128, 0, (0, 128)), (200, 200, (128, 128)), (129, 1, (1, 128))])
    # 0x3fff: each side says for itself (RFC 6581 section 9.1).
    depths([(0x3FFF, 0x3FFF, (0x3FFF, 0x3FFF))])


def write_call(peer, segments, data, file=None, offset=0):
    """Starts a WRITE whose data is to be read in so many segments."""
    arguments = opaque(file or FILE) + pack(">QIII", offset, len(data), 0, len(data))
    position = len(rpc(0, NFS, WRITE_FILE, arguments))
    size = len(data) // segments
    peer.call(NFS, WRITE_FILE, arguments, reads=[(position, 7, size, size * part) for part in range(segments)])


def answer(peer, data, times, depth):
    """Answers so many Read Requests, of which not more than `depth` may come at a time."""
    for left in reversed(range(times)):
        _, _, _, request = peer.message()
        if left and depth == 1:
            expect("what comes beside one Read", True, peer.is_silent())
        stag, offset, size, _, source = Cursor(request).take("IQIIQ")
        peer.put_tagged(READ_RESPONSE, stag, offset, data[source : source + size])


def read_depths():
    """A server may not read more at a time than its client allows."""
    data = CONTENT[:4096]
    peer = Peer(RDMA_PORT, ird=0)
    write_call(peer, 1, data)
    expect("a Read chunk of who lets nobody read", "chunk error", peer.outcome())
    inline = opaque(FILE) + pack(">QII", 0, 1000, 0) + opaque(data[:1000])
    expect("a WRITE of its", "reply 0 0", peer.ask(NFS, WRITE_FILE, inline))
    peer = Peer(RDMA_PORT, ird=1)
    write_call(peer, 4, data)
    answer(peer, data, times=4, depth=1)
    expect("a WRITE of four Reads", "reply 0 0", peer.outcome())


def revision_1():
    """It tells no depths: the server reads all the same."""
    peer = Peer(RDMA_PORT, revision=1)
    expect("flags and revision of the reply", (0, 1), (peer.flags, peer.revision))
    write_call(peer, 2, CONTENT[:8192])
    answer(peer, CONTENT, times=2, depth=2)
    expect("a WRITE", "reply 0 0", peer.outcome())
    read(peer, 1, 3001)
    read(peer, 1, 5001, writes=[[(7, 5001, 0)]])


def read(peer, offset, count, **chunks):
    """A READ whose every byte is checked."""
    what = f"{count} bytes at {offset}, {chunks or 'inline'}"
    expect(what, "reply 0 0", peer.ask(NFS, READ, opaque(FILE) + pack(">QI", offset, count), **chunks))
    wanted = CONTENT[offset : offset + count]
    head = Cursor(peer.results)
    _, has_attributes, kind, size, *got = head.take("III16xQ56xIII")
    # Linux computes from the first reply where data begins in all others: all must have the attributes.
    expect(f"{what}: attributes", (1, 1, len(CONTENT)), (has_attributes, kind, size))
    is_last = offset + count >= len(CONTENT)
    expect(f"{what}: count, end of file, length", [len(wanted), is_last, len(wanted)], got)
    if "writes" in chunks:
        expect(f"{what}: bytes behind the head", b"", head.rest())
        expect(f"{what}: bytes in the Write chunk", len(wanted), sum(peer.lengths))
        data = b"".join(part for _, part in sorted(peer.written.items()))
        # No pad: what lies behind is the application's.
        expect(f"{what}: data in the Write chunk", wanted, data)
    else:
        expect(f"{what}: data and pad", wanted + bytes(-len(wanted) % 4), head.rest())


def post_op_attributes():
    peer = Peer(RDMA_PORT)
    for count in (*range(10), 1000, 3840, 3863, 3864):
        read(peer, 3, count)
    for count in (0, 1, 2, 3, 4, 5, 4095, 4096, 4097, 65537, 300001):
        read(peer, 5, count, writes=[[(7, count, 0)]])
        read(peer, 6, count, writes=[[(7, 5, 0), (7, 1002, 5), (7, 300000, 1007)]])
        read(peer, 7, count, reply=[(8, 3, 0), (8, 400000, 3)])
    size = len(CONTENT)
    for offset, count in [(size - 7, 7), (size - 7, 8), (size, 100), (size + 10, 100)]:
        read(peer, offset, count)
        read(peer, offset, count, writes=[[(7, 100, 0)]])
    # What is not asked for may not be written, and is reported as such.
    stale = opaque(FILE[:-1] + bytes([FILE[-1] ^ 1])) + pack(">QI", 0, 4096)
    outcome = peer.ask(NFS, READ, stale, writes=[[(7, 4096, 0)]])
    expect("a READ of no file, its Write chunk", ("reply 0 70", [0]), (outcome, peer.lengths))


def write_sizes():
    """WRITEs inline and by Read chunks, also of nothing, which Linux never writes: no byte more, none less."""
    peer = Peer(RDMA_PORT)
    sizes = 0, 1, 2, 3, 4, 3839, 3840, 3841, 3863, 3864, 3865, 3866, 4095, 4096, 4097
    for size in (*sizes, 65535, 65536, 65537, 262145):
        name, data = b"%d" % size, CONTENT[:size]
        created = peer.ask(NFS, CREATE, opaque(ROOT) + opaque(name) + pack(">7I", 0, 0, 0, 0, 0, 0, 0))
        expect(f"CREATE of {size}", "reply 0 0", created)
        file = peer.lookup(ROOT, name)
        if size <= 3840:
            arguments = opaque(file) + pack(">QII", 5, size, 0) + opaque(data)
            expect(f"a WRITE of {size} bytes inline", "reply 0 0", peer.ask(NFS, WRITE_FILE, arguments))
        else:
            write_call(peer, 1, data, file, 5)
            answer(peer, data, times=1, depth=1)
            expect(f"a WRITE of {size} bytes", "reply 0 0", peer.outcome())
        with open(f"{EXPORT}/{size}", "rb") as kept:
            expect(f"what {size} bytes left", bytes(5) * (size > 0) + data, kept.read())


def nfsacl():
    """Linux asks for NFSACL on the connection of NFS, and goes on without."""
    for peer in (Peer(RDMA_PORT), Peer(RDMA_PORT)):
        expect("NFSACL", "reply 1", peer.ask(NFSACL, NULL))
        expect("NFS behind it", "reply 0", peer.ask(NFS, NULL))
    stream = Stream(TCP_PORT)
    expect("NFSACL over TCP", "reply 1", stream.call_tcp(NFSACL, NULL))
    expect("NFS behind it", "reply 0", stream.call_tcp(NFS, NULL))


def same_xid():
    """What must not be done twice is answered twice, on whatever connection the same call comes again."""

    def rdma(xid, procedure, arguments):
        peer = Peer(RDMA_PORT)
        peer.xid = xid - 1
        return peer.ask(NFS, procedure, arguments), peer.results

    def tcp(xid, procedure, arguments):
        stream = Stream(TCP_PORT)
        return stream.call_tcp(NFS, procedure, arguments, xid), stream.results

    # Name, arguments, and what the same gives as a call of its own.
    old, new = (opaque(ROOT) + opaque(name) for name in (b"old", b"new"))
    no_attributes = pack(">6I", 0, 0, 0, 0, 0, 0)
    calls = {
        "CREATE, guarded": (CREATE, old + pack(">I", 1) + no_attributes, 17),
        "RENAME": (RENAME, old + new, 2),
        "REMOVE": (REMOVE, new, 2),
        "MKDIR": (MKDIR, old + no_attributes, 17),
    }
    xid = Peer(RDMA_PORT).xid
    for first, again in [(rdma, rdma), (rdma, tcp), (tcp, rdma)]:
        for what, (procedure, arguments, other) in calls.items():
            xid += 2
            done = first(xid, procedure, arguments)
            expect(what, "reply 0 0", done[0])
            expect(f"{what}, sent again", done, again(xid, procedure, arguments))
            repeated, _ = again(xid + 1, procedure, arguments)
            expect(f"{what}, done again", f"reply 0 {other}", repeated)
        xid += 1
        expect("RMDIR", "reply 0 0", first(xid, RMDIR, old)[0])


{
    "reply-in-one-write": reply_in_one_write,
    "first-word": first_word,
    "ord-0": ord_0,
    "ord-above-128": ord_above_128,
    "revision-1": revision_1,
    "post-op-attributes": post_op_attributes,
    "write-sizes": write_sizes,
    "nfsacl": nfsacl,
    "same-xid": same_xid,
}[TRAP]()
