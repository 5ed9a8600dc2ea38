"""attacks.py PORT COMMAND: what a peer with raw access to the stream can do wrong, done to the server at PORT.

Each attack must end as the RFCs have it, and COMMAND, which runs at the same time and uses the server as others do,
must succeed. The export must hold the files `victim`, of a mebibyte, which must not change, and `target`.

A server on siw has the kernel's RNIC, whose Terminates name other errors, or are left out: there any end will do.
"""

import os
import random
import re
import sys
from struct import pack
from time import monotonic, sleep

from peer import GETATTR, NFS, NOMSG, NULL, READ, WRITE_FILE
from peer import READ_REQUEST, READ_RESPONSE, SEND, SEND_INVALIDATE, TERMINATE, WRITE
from peer import Cursor, Peer, Stream, header, opaque, rpc, tagged, untagged

PORT, COMMAND = int(sys.argv[1]), sys.argv[2]
MEBIBYTE = 1 << 20
GOOD_REQUEST = b"MPA ID Req Frame" + pack(">BBHHH", 0x10, 2, 4, 16, 16)
wrong = set()


# What siw lets pass: it knows revision 0 of MPA, does not check the right to read, and lets any connection revoke a key.
PASSED_BY_SIW = {
    "MPA revision 0": "answered",
    "a Read of it": "opcode 2",
    "the WRITE whose key was abused by a Send that revokes": "reply 0 0|closed",
}


def expect(what, wanted, got):
    """Checks an attack's outcome against a regular expression."""
    if os.environ.get("OVER") == "siw":
        any_end = "terminate ././..|closed" if re.match("terminate|closed", wanted) else wanted
        wanted = PASSED_BY_SIW.get(what, any_end)
    if what not in wrong and not re.fullmatch(wanted, got):
        wrong.add(what)
        print(f"lab: {what}: {got}, not {wanted}", flush=True)


def during(name, attack):
    """Repeats an attack as long as COMMAND takes."""
    process = os.posix_spawn(COMMAND, [COMMAND], os.environ)
    started = monotonic()
    rounds = 0
    ended = 0
    while not ended:
        attack()
        rounds += 1
        ended, status = os.waitpid(process, os.WNOHANG)
    print(f"{name}: {rounds} rounds in {monotonic() - started:.1f} s", flush=True)
    if status:
        sys.exit(f"lab: {name}: others cannot use the server")


def noise(count):
    return random.getrandbits(8 * count).to_bytes(count, "big")


ROOT = Peer(PORT).mount()
VICTIM, TARGET = (Peer(PORT).lookup(ROOT, name) for name in (b"victim", b"target"))


def write_of(file, length):
    """Arguments of a WRITE up to its data, and where in the call these are."""
    arguments = opaque(file) + pack(">QIII", 0, length, 0, length)
    return arguments, len(rpc(0, NFS, WRITE_FILE, arguments))


def strangers():
    """Connections that never become one."""
    requests = {
        "HTTP": b"GET / HTTP/1.1\r\nHost: gannet\r\n\r\n",
        "a reply to nothing": b"MPA ID Rep Frame" + GOOD_REQUEST[16:],
        "MPA revision 0": b"MPA ID Req Frame" + pack(">BBH", 0, 0, 0),
        "MPA revision 3": b"MPA ID Req Frame" + pack(">BBHHH", 0x10, 3, 4, 16, 16),
        "600 bytes of private data": b"MPA ID Req Frame" + pack(">BBH", 0x10, 2, 600) + bytes(600),
        "an FPDU behind the request": GOOD_REQUEST + bytes.fromhex("0010c140") + bytes(18),
        "noise": noise(2000),
    }
    for what, request in requests.items():
        stranger = Stream(PORT)
        stranger.put(request)
        expect(what, "closed", "closed" if stranger.get(1) is None else "answered")
    # Those that say nothing, or not all, wait while others come.
    idle = [Stream(PORT) for _ in range(40)]
    for stranger in idle[::2]:
        stranger.put(GOOD_REQUEST[:10])
    Peer(PORT).mount()


def frames():
    """FPDUs that must not be, each on a connection of its own."""
    data = bytes(64)
    read = pack(">IQIIQ", 0x1000, 0, 64, 0xBEEF01, 0x2000)
    send = untagged(SEND, 0, 1, 0, data)
    write = tagged(WRITE, 0xBEEF01, 0x1000, data)
    ulpdus = {
        "a Write to an unknown key": ("1/1/00", write),
        "a Write to key 0": ("1/1/00", tagged(WRITE, 0, 0, data)),
        "a Read of an unknown key": ("0/1/00", untagged(READ_REQUEST, 1, 1, 0, read)),
        "half a Read Request": ("1/2/05", untagged(READ_REQUEST, 1, 1, 0, read[:14])),
        "an answer to no Read": ("1/1/00", tagged(READ_RESPONSE, 0x1000, 0, data)),
        "a Send that revokes an unknown key": ("0/2/09", untagged(SEND_INVALIDATE, 0, 1, 0, data)),
        "a Send longer than all receives": ("1/2/05", untagged(SEND, 0, 1, 0, bytes(60000))),
        "a Send on queue 5": ("1/2/01", untagged(SEND, 5, 1, 0, data)),
        "a Send out of sequence": ("1/2/03", untagged(SEND, 0, 7, 0, data)),
        "a Send that starts in the middle": ("1/2/04", untagged(SEND, 0, 1, 64, data)),
        "a tagged Send": ("0/2/06", tagged(SEND, 0xBEEF01, 0, data)),
        "an untagged Write": ("0/2/06", untagged(WRITE, 0, 1, 0, data)),
        "opcode 9": ("0/2/06", untagged(9, 0, 1, 0, data)),
        "a Terminate out of sequence": ("1/2/03", untagged(TERMINATE, 2, 2, 0, data)),
        "DDP version 2, untagged": ("1/2/06", b"\x42" + send[1:]),
        "DDP version 2, tagged": ("1/1/04", b"\xc2" + write[1:]),
        "RDMAP version 2": ("0/2/05", b"\x41\x83" + send[2:]),
        "an empty FPDU": ("2/0/03", b""),
        "an FPDU of one byte": ("2/0/03", b"\x41"),
        "an FPDU that ends in its header": ("2/0/03", send[:11]),
    }
    for what, (code, ulpdu) in ulpdus.items():
        attacker = Peer(PORT)
        attacker.put(attacker.fpdu(ulpdu))
        expect(what, f"terminate {code}", attacker.outcome())
    attacker = Peer(PORT, ord=0)
    attacker.request(0xBEEF01, 0, 64)
    expect("a Read where none was agreed", "terminate 0/2/07", attacker.outcome())
    attacker = Peer(PORT, crc=True)
    fpdu = attacker.fpdu(send)
    attacker.put(fpdu[:30] + b"!" + fpdu[31:])
    expect("a wrong CRC", "terminate 2/0/02", attacker.outcome())
    for length in (1, 3, 25, len(fpdu) - 1):
        Peer(PORT, crc=True).put(fpdu[:length])
    attacker = Peer(PORT)
    attacker.put(noise(100_000))
    expect("noise", "terminate .*|closed", attacker.outcome())


def asked(file, length):
    """A connection on which the server wants to read the data of a WRITE; key and offset of its memory for them."""
    attacker = Peer(PORT)
    arguments, position = write_of(file, length)
    attacker.call(NFS, WRITE_FILE, arguments, reads=[(position, 0x4711, length, 0x8000)])
    _, _, _, request = attacker.message()
    return attacker, *Cursor(request).take("IQ")


def keys_of_others():
    """A server lends no memory to clients, but its Reads tell them a key."""
    length = 8192
    data = bytes(length)

    def write(attacker, key, offset):
        attacker.put_tagged(WRITE, key, offset, data)

    def read(attacker, key, offset):
        attacker.request(key, offset, length)

    def revoke(attacker, key, _):
        attacker.send(b"", invalidate=key)

    def answer(attacker, key, offset):
        attacker.put_tagged(READ_RESPONSE, key, offset, data)

    def answer_beyond(attacker, key, offset):
        answer(attacker, key, offset + length)

    def answer_before(attacker, key, offset):
        answer(attacker, key, offset - 4 & (1 << 64) - 1)

    def answer_more(attacker, key, offset):
        attacker.put_tagged(READ_RESPONSE, key, offset, data + b"more")

    def answer_less(attacker, key, offset):
        attacker.put_tagged(READ_RESPONSE, key, offset, data[4:])

    def answer_elsewhere(attacker, key, offset):
        answer(attacker, key ^ 0x100, offset)

    attacks = {
        "a Write to the memory of a Read": ("1/1/00", write),
        "a Read of it": ("0/1/02", read),
        "a Send that revokes it": ("0/2/09", revoke),
        "an answer beyond it": ("1/1/01", answer_beyond),
        "an answer before it": ("1/1/01", answer_before),
        "an answer that is too long": ("1/1/01", answer_more),
        "an answer that is too short": ("1/1/01", answer_less),
        "an answer to another key": ("1/1/00", answer_elsewhere),
    }
    for what, (code, attack) in attacks.items():
        attacker, *memory = asked(VICTIM, length)
        attack(attacker, *memory)
        expect(what, f"terminate {code}", attacker.outcome())
    # On another core of the server a key is unknown instead of another connection's.
    attacks = {
        "a Write": ("1/1/0[02]", write),
        "a Read": ("0/1/0[03]", read),
        "a Send that revokes": ("0/[12]/09", revoke),
        "an answer": ("1/1/00", answer),
    }
    for what, (code, attack) in attacks.items():
        honest, *memory = asked(TARGET, length)
        attacker = Peer(PORT)
        attack(attacker, *memory)
        expect(f"{what} with another's key", f"terminate {code}", attacker.outcome())
        answer(honest, *memory)
        expect(f"the WRITE whose key was abused by {what}", "reply 0 0", honest.outcome())
        attack(honest, *memory)
        expect(f"{what} with a key that was used", f"terminate {code}", honest.outcome())


def lists():
    """RPC/RDMA messages that make no sense, all on one connection: it goes on."""
    attacker = Peer(PORT)
    segment = (7, 4096, 0x1000)
    huge = (7, 0xFFFFFFFF, 0)
    headers = {
        "a Read list of 65 segments": {"reads": [(200, *segment)] * 65},
        "a Read chunk at position 2": {"reads": [(2, *segment)]},
        "Read chunks in turn": {"reads": [(position, *segment) for position in (200, 204, 200)]},
        "a Read chunk of 8 GiB": {"reads": [(200, *huge)] * 2},
        "a long call of 8 GiB": {"kind": NOMSG, "reads": [(0, *huge)] * 2},
        "a long call that begins later": {"kind": NOMSG, "reads": [(4, *segment)]},
        "a long call without chunks": {"kind": NOMSG},
        "a short call with a chunk at 0": {"reads": [(0, *segment)]},
        "a Write list of 9 chunks": {"writes": [[segment]] * 9},
        "a Write chunk of 65 segments": {"writes": [[segment] * 65]},
        "a Reply chunk of 65 segments": {"reply": [segment] * 65},
        "RDMA_MSGP": {"kind": 2},
        "kind 7": {"kind": 7},
    }
    for what, chunks in headers.items():
        expect(what, "chunk error", attacker.ask(NFS, NULL, **chunks))
    attacker.xid += 1
    xid = attacker.xid
    fixed = pack(">4I", xid, 1, 128, 0)
    plain = header(xid)

    def message_of(*words):
        return plain + pack(f">{1 + len(words)}I", xid, *words)

    messages = {
        "a list that ends too early": ("chunk error", fixed + pack(">III", 1, 200, 7)),
        "4294967295 segments": ("chunk error", fixed + pack(">III", 0, 1, 0xFFFFFFFF) + bytes(64)),
        "version 2": ("version error", pack(">4I", xid, 2, 128, 0) + bytes(40)),
        "two XIDs": ("chunk error", plain + rpc(xid + 1, NFS, NULL)),
        "a call that ends in its header": ("chunk error", plain + rpc(xid, NFS, NULL)[:20]),
        "RPC version 3": ("rejected", message_of(0, 3, NFS, 3, 0, 0, 0, 0, 0)),
        "an unknown program": ("reply 1", message_of(0, 2, 100099, 3, 0, 0, 0, 0, 0)),
        "NFS version 9": ("reply 2", message_of(0, 2, NFS, 9, 0, 0, 0, 0, 0)),
        "NFS procedure 99": ("reply 3", message_of(0, 2, NFS, 3, 99, 0, 0, 0, 0)),
        "an endless credential": ("rejected", message_of(0, 2, NFS, 3, 0, 1, 0xFFFFFFF0)),
        "a credential of flavor 6": ("rejected", message_of(0, 2, NFS, 3, 0, 6, 4, 0, 0, 0)),
        "arguments that are none": ("reply 4", plain + rpc(xid, NFS, GETATTR, pack(">I", 99))),
    }
    for what, (wanted, message) in messages.items():
        attacker.send(message)
        expect(what, wanted, attacker.outcome())
    done, error = pack(">4I", xid, 1, 128, 3), pack(">5I", xid, 1, 128, 4, 2)
    reply = message_of(1)
    for message in (b"", b"abc", done, error, reply):
        attacker.send(message)
    expect("a call behind what deserves no answer", "reply 0", attacker.ask(NFS, NULL))
    call = NFS, READ, opaque(VICTIM) + pack(">QI", 0, 4096)
    small = [(7, 4095, 0)]
    expect("a Write chunk that is too small", "chunk error", attacker.ask(*call, writes=[small]))
    expect("a Reply chunk that is too small", "chunk error", attacker.ask(*call, reply=small))
    attacker.call(NFS, NULL, reads=[(400, 7, 4096, 0)])
    _, _, _, request = attacker.message()
    attacker.put_tagged(READ_RESPONSE, *Cursor(request).take("IQ"), bytes(4096))
    expect("a Read chunk behind the end", "chunk error", attacker.outcome())


def terminates():
    """Terminates that say anything."""
    body = pack(">BBBBH", 0x11, 0, 0xE0, 0, 64) + noise(2000)
    for length in (0, 3, 4, 5, 23, 51, 2000):
        attacker = Peer(PORT)
        attacker.terminate(body[:length])
        attacker.terminate(b"again")
        expect(f"a Terminate of {length} bytes", "closed", attacker.outcome())
    for nibbles in range(64):
        Peer(PORT).terminate(bytes([nibbles, nibbles & 7, 0, 0]))


def bomb(program, procedure, arguments, crc=False, **chunks):
    """As many calls as the credits allow, on five connections.

    What the server asks for never comes, and what it writes is never read.
    """
    attackers = [Peer(PORT, crc=crc) for _ in range(5)]
    for attacker in attackers:
        # Credits come with the first reply.
        attacker.ask(NFS, NULL)
        for _ in range(128):
            attacker.call(program, procedure, arguments, **chunks)

    def hold():
        sleep(0.05)
        return attackers

    return hold


def main():
    for attack in (strangers, frames, keys_of_others, lists, terminates):
        during(attack.__name__, attack)
    write, position = write_of(VICTIM, MEBIBYTE)
    read = opaque(VICTIM) + pack(">QI", 0, MEBIBYTE)

    def pieces(position):
        return [(position, 7, 16384, 16384 * index) for index in range(64)]

    during("WRITEs without data", bomb(NFS, WRITE_FILE, write, reads=pieces(position)))
    during("long calls without data", bomb(NFS, NULL, b"", kind=NOMSG, reads=pieces(0)))
    during("READs into the void", bomb(NFS, READ, read, writes=[[(7, MEBIBYTE, 0)]]))
    during("the same with CRCs", bomb(NFS, READ, read, crc=True, writes=[[(7, MEBIBYTE, 0)]]))
    during("long replies into the void", bomb(NFS, READ, read, reply=[(7, MEBIBYTE + 4096, 0)]))
    greedy = Peer(PORT)
    greedy.ask(NFS, NULL)
    for _ in range(150):
        greedy.call(NFS, WRITE_FILE, write, reads=pieces(position))
    expect("more calls than credits", "terminate 1/2/02|closed", greedy.outcome())
    sys.exit(len(wrong) > 0)


main()
