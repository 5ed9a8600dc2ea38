"""A peer made by hand, which does right or wrong as it is told.

MPA, DDP and RDMAP over a TCP socket, RPC/RDMA on top, and as much of NFS as the scenarios need. An oracle that knows
nothing of Gannet: it takes from the RFCs what it expects, and raises an exception when it gets something else.
"""

import os
import random
import select
import socket
from struct import calcsize, pack, unpack, unpack_from

# RDMAP's opcodes.
WRITE, READ_REQUEST, READ_RESPONSE, SEND, SEND_INVALIDATE, TERMINATE = 0, 1, 2, 3, 4, 7
# Programs and procedures.
MOUNT, NFS, NFSACL = 100005, 100003, 100227
NULL, GETATTR, SETATTR, LOOKUP, READ, WRITE_FILE, CREATE, MKDIR = 0, 1, 2, 3, 6, 7, 8, 9
SYMLINK, MKNOD, REMOVE, RMDIR, RENAME, LINK, COMMIT = 10, 11, 12, 13, 14, 15, 21
# Kinds of RPC/RDMA messages.
MSG, NOMSG = 0, 1

# The host as the guest sees it.
HOST = os.environ.get("HOST", "10.0.2.2")
# Largest piece of a message in one FPDU.
PIECE = 16384
# Seconds after which a peer that says nothing is given up.
PATIENCE = 20
# RFC 8797: version 1, no remote invalidation, 4096 bytes both ways.
PRIVATE_DATA = bytes.fromhex("f6ab0e18 01 00 03 03")


def crc_table():
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ 0x82F63B78 * (byte & 1)
        yield byte


CRC_TABLE = list(crc_table())


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def padded(data):
    return data + bytes(-len(data) % 4)


def opaque(data):
    return pack(">I", len(data)) + padded(data)


def tagged(opcode, stag, offset, data, last=True):
    """A segment for the other side's memory (RFC 5041 section 4)."""
    return pack(">BBIQ", 0x81 | last << 6, 0x40 | opcode, stag, offset) + data


def untagged(opcode, queue, number, offset, data, last=True, word=0):
    """A segment for a queue of the other side."""
    return pack(">BBIIII", 0x01 | last << 6, 0x40 | opcode, word, queue, number, offset) + data


def pieces(data):
    """A message cut up: where each piece starts, the piece, and whether it is the last."""
    for start in range(0, max(len(data), 1), PIECE):
        yield start, data[start : start + PIECE], start + PIECE >= len(data)


def rpc(xid, program, procedure, arguments=b"", user=0):
    """A call of root's, or of another user's (RFC 5531 section 9)."""
    credential = pack(">I", 0) + opaque(b"hand") + pack(">III", user, user, 0)
    call = pack(">6I", xid, 0, 2, program, 3, procedure)
    return call + pack(">I", 1) + opaque(credential) + pack(">II", 0, 0) + arguments


def header(xid, kind=MSG, reads=(), writes=(), reply=None):
    """An RPC/RDMA header (RFC 8166 section 4).

    A segment is (STag, length, offset), with the position in front in `reads`. `writes` is a list of chunks, `reply` is
    one.
    """

    def chunk(segments):
        packed = [pack(">IIQ", *segment) for segment in segments]
        return pack(">II", 1, len(packed)) + b"".join(packed)

    return (
        pack(">4I", xid, 1, 128, kind)
        + b"".join(pack(">IIIIQ", 1, *read) for read in reads)
        + bytes(4)
        + b"".join(map(chunk, writes))
        + bytes(4)
        + (chunk(reply) if reply else bytes(4))
    )


class Cursor:
    """Bytes that are taken apart from front to end."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        """The values of a struct format; the value, when there is one."""
        values = unpack_from(">" + form, self.data, self.at)
        self.at += calcsize(">" + form)
        return values if len(values) > 1 else values[0]

    def chunk(self):
        return [self.take("IIQ") for _ in range(self.take("I"))]

    def rest(self):
        return self.data[self.at :]


class Stream:
    """A TCP connection to the host."""

    def __init__(self, port):
        self.socket = socket.create_connection((HOST, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        # The server may still know the XIDs of another run.
        self.xid = random.getrandbits(31)
        self.results = b""

    def put(self, data):
        try:
            self.socket.sendall(data)
        except ConnectionError:
            pass  # That the other side has closed shows when it is read from.

    def get(self, length):
        """The next bytes; None when the stream ends before."""
        while len(self.buffer) < length:
            if not select.select([self.socket], [], [], PATIENCE)[0]:
                raise TimeoutError(f"nothing comes for {PATIENCE} s")
            try:
                more = self.socket.recv(1 << 20)
            except ConnectionError:
                more = b""
            if not more:
                return None
            self.buffer += more
        taken, self.buffer = self.buffer[:length], self.buffer[length:]
        return taken

    def is_silent(self):
        """Whether nothing comes for a while."""
        return not self.buffer and not select.select([self.socket], [], [], 0.2)[0]

    def call_tcp(self, program, procedure, arguments=b"", xid=None):
        """A call over TCP, and its outcome; with the next XID if none is given."""
        self.xid += 1
        message = rpc(self.xid if xid is None else xid, program, procedure, arguments)
        self.put(pack(">I", 1 << 31 | len(message)) + message)
        mark = self.get(4)
        return self.outcome_of(self.get(unpack(">I", mark)[0] & ~(1 << 31))) if mark else "closed"

    def outcome_of(self, message):
        """An RPC reply as text: "rejected", "reply STATUS" (of RPC) or "reply 0 STATUS" (of NFS).

        Keeps its results.
        """
        if len(message) % 4:
            raise ValueError(f"a reply of {len(message)} bytes")
        words = Cursor(message)
        _, kind, rejected = words.take("III")
        if kind != 1:
            raise ValueError("no RPC reply")
        if rejected:
            return "rejected"
        flavor, length, status = words.take("III")
        if flavor or length:
            # The kernel's client would take READ data from the wrong place.
            raise ValueError(f"a verifier of flavor {flavor}, {length} bytes")
        self.results = words.rest()
        return f"reply {status}" if status or not self.results else f"reply 0 {words.take('I')}"


class Peer(Stream):
    """An RDMA connection to the host."""

    def __init__(self, port, crc=False, revision=2, ird=16, ord=16, flags=0):
        super().__init__(port)
        self.sent = [0, 0, 0]
        private = PRIVATE_DATA
        if revision == 2:
            private = pack(">HH", ird, ord) + private
            flags |= 0x10
        start = pack(">BBH", flags | crc << 6, revision, len(private))
        self.put(b"MPA ID Req Frame" + start + private)
        start = self.get(20)
        if start is None or start[:16] != b"MPA ID Rep Frame":
            raise ConnectionError(f"no reply to the request: {start}")
        self.flags, self.revision, length = unpack_from(">BBH", start, 16)
        self.private = self.get(length)
        self.crc = bool(self.flags & 0x40)
        # For the last call: what was written, by STag and offset; Read Requests; lengths of Write segments.
        self.written, self.requests, self.lengths = {}, [], []

    def fpdu(self, ulpdu):
        """An FPDU (RFC 5044 section 4)."""
        covered = padded(pack(">H", len(ulpdu)) + ulpdu)
        return covered + pack("<I", crc32c(covered) if self.crc else 0)

    def send(self, data, invalidate=None):
        """A Send, which revokes a key."""
        opcode = SEND if invalidate is None else SEND_INVALIDATE
        self.sent[0] += 1
        segments = [
            untagged(opcode, 0, self.sent[0], start, piece, last, invalidate or 0)
            for start, piece, last in pieces(data)
        ]
        self.put(b"".join(map(self.fpdu, segments)))

    def put_tagged(self, opcode, stag, offset, data):
        """An RDMA Write or a Read Response."""
        segments = [tagged(opcode, stag, offset + start, *rest) for start, *rest in pieces(data)]
        self.put(b"".join(map(self.fpdu, segments)))

    def request(self, stag, offset, length):
        """An RDMA Read of the other side's memory."""
        self.sent[1] += 1
        body = pack(">IQIIQ", 0x1000, 0, length, stag, offset)
        self.put(self.fpdu(untagged(READ_REQUEST, 1, self.sent[1], 0, body)))

    def terminate(self, body):
        self.sent[2] += 1
        self.put(self.fpdu(untagged(TERMINATE, 2, self.sent[2], 0, body)))

    def message(self):
        """The next message: opcode, STag, offset, data. None when the stream ends."""
        stag, offset, data = None, None, b""
        while start := self.get(2):
            (length,) = unpack(">H", start)
            rest = self.get(len(padded(start + bytes(length))) + 2)
            if rest is None:
                return None
            covered, crc = start + rest[:-4], rest[-4:]
            if crc != pack("<I", crc32c(covered) if self.crc else 0):
                raise ValueError("a wrong CRC")
            ulpdu = Cursor(covered[2 : 2 + length])
            control, opcode = ulpdu.take("BB")
            if control & 0x80:
                place = ulpdu.take("IQ")
                if not data:
                    stag, offset = place
            else:
                ulpdu.take("IIII")
            data += ulpdu.rest()
            if control & 0x40:
                return opcode & 0x0F, stag, offset, data
        return None

    def outcome(self):
        """What becomes of what was sent last.

        That of `outcome_of`, "chunk error", "version error", "terminate LAYER/TYPE/CODE" or "closed".
        """
        while message := self.message():
            opcode, stag, offset, data = message
            if opcode == WRITE:
                self.written[stag, offset] = data
            elif opcode == READ_REQUEST:
                self.requests.append(unpack(">IQIIQ", data))
            elif opcode == TERMINATE:
                return f"terminate {data[0] >> 4}/{data[0] & 15}/{data[1]:02x}"
            elif opcode in (SEND, SEND_INVALIDATE):
                return self.outcome_of_send(data)
            else:
                return f"opcode {opcode}"
        return "closed"

    def outcome_of_send(self, data):
        words = Cursor(data)
        _, _, credits, kind, reads = words.take("5I")
        if credits == 0:
            raise ValueError("no credits")
        if kind == 4:
            return "chunk error" if reads == 2 else "version error"
        if reads:
            raise ValueError("a Read list in a reply")
        while words.take("I"):
            self.lengths += [length for _, length, _ in words.chunk()]
        reply = words.chunk() if words.take("I") else []
        if kind == MSG:
            return self.outcome_of(words.rest())
        parts = [self.written[stag, offset] for stag, length, offset in reply if length]
        return self.outcome_of(b"".join(parts))

    def call(self, program, procedure, arguments=b"", **chunks):
        """Sends a call with what `header` takes, as the next XID."""
        self.xid += 1
        self.written, self.requests, self.lengths = {}, [], []
        message = header(self.xid, **chunks)
        if chunks.get("kind") != NOMSG:
            message += rpc(self.xid, program, procedure, arguments)
        self.send(message)

    def ask(self, *call, **chunks):
        """A call and its outcome."""
        self.call(*call, **chunks)
        return self.outcome()

    def mount(self):
        """The handle of the export's root."""
        return self.handle(MOUNT, 1, opaque(b"/"))

    def lookup(self, folder, name):
        """The handle of a file."""
        return self.handle(NFS, LOOKUP, opaque(folder) + opaque(name))

    def handle(self, *call):
        outcome = self.ask(*call)
        if outcome != "reply 0 0":
            raise ValueError(f"no handle: {outcome}")
        words = Cursor(self.results)
        _, length = words.take("II")
        return words.rest()[:length]
