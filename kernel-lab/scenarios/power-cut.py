"""power-cut.py PORT DEVICE MOUNT first|all|settled RECORD: changes names and attributes over NFS, for `cuts.py`.

DEVICE is a target of dm-log-writes below the server's files in MOUNT. It gets a mark before each call, "sNUMBER", and
one behind each reply, "aNUMBER". RECORD gets what each call changes. `first` makes some of the calls. With `settled`,
the file system is written out at times.
"""

import fcntl
import hashlib
import json
import os
import random
import select
import sys
from collections import Counter, namedtuple
from struct import pack, unpack

from peer import COMMIT, CREATE, LINK, MKDIR, MKNOD, MOUNT, NFS, REMOVE, RENAME, RMDIR, SETATTR, SYMLINK, WRITE_FILE
from peer import Cursor, Stream, opaque, rpc

PORT, DEVICE, FOLDER, ACTS, RECORD = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5]
UNSTABLE, DATA_SYNC, FILE_SYNC = 0, 1, 2
UNCHECKED, GUARDED, EXCLUSIVE = 0, 1, 2
FIFO = 7
# Bytes that are written without a COMMIT, and those of a call.
DIRTY, PIECE = 8 << 20, 1 << 18
# The user of those calls that are not root's.
SOMEONE = 1000
# The message of device mapper to a target.
DM_TARGET_MSG = 0xC138FD0E
DM_IOCTL_SIZE = 312
FIFREEZE, FITHAW = 0xC0045877, 0xC0045878
# So many calls, on average, come between two times at which the file system is written out.
SETTLED_AFTER = 16

# A call, what it does in words, and a function that does it to the model.
Call = namedtuple("Call", "what procedure arguments change")


class Node:
    """An object of the file system as it must be found; None is a value that may be any."""

    def __init__(self, kind, mode, user, content=None):
        self.kind, self.mode, self.uid, self.gid = kind, mode, user, user
        self.content = content
        self.size = None if content is None else len(content)
        self.mtime = None
        self.handle = b""

    def found(self, links):
        content = self.content
        if content is not None and self.kind == "file":
            content = hashlib.md5(content).hexdigest()
        elif content is not None:
            content = content.decode()
        links = None if self.kind == "folder" else links
        return [self.kind, self.mode, self.uid, self.gid, self.size, links, self.mtime, content]


TREE = {"": Node("folder", 0o755, 0)}
CALLS = []


def parent(path):
    return path.rpartition("/")[0]


def place(path):
    """Arguments that name a place in a folder."""
    folder, _, name = path.rpartition("/")
    return opaque(TREE[folder].handle) + opaque(name.encode())


def touch(*paths):
    """The folders of these names have other times now."""
    for path in paths:
        TREE[parent(path)].mtime = None


def picture():
    """What must be found, by path."""
    links = Counter(map(id, TREE.values()))
    return {path: node.found(links[id(node)]) for path, node in TREE.items() if path}


def sattr(mode=None, uid=None, gid=None, size=None, mtime=None):
    def option(form, value):
        return pack(">I", 0) if value is None else pack(form, 1, value)

    seconds = pack(">III", 2, mtime // 10**9, mtime % 10**9) if mtime is not None else pack(">I", 0)
    return option(">II", mode) + option(">II", uid) + option(">II", gid) + option(">IQ", size) + pack(">I", 0) + seconds


def make(path, node, procedure, arguments):
    """Makes an object; its handle is in the results."""

    def change():
        TREE[path] = node
        touch(path)

    what = f"{node.kind} {path}"
    results = yield Call(what, procedure, place(path) + arguments, change)
    if not results.take("I"):
        raise ValueError("no handle")
    (length,) = unpack(">I", results.rest()[:4])
    node.handle = results.rest()[4 : 4 + length]


def create(path, user=0, mode=0o644, how=UNCHECKED):
    if how == EXCLUSIVE:
        node = Node("file", None, user, b"")
        return make(path, node, CREATE, pack(">I", how) + b"verifier")
    return make(path, Node("file", mode, user, b""), CREATE, pack(">I", how) + sattr(mode=mode))


def mkdir(path, user=0, mode=0o755):
    return make(path, Node("folder", mode, user), MKDIR, sattr(mode=mode))


def symlink(path, target, user=0):
    return make(path, Node("link", 0o777, user, target), SYMLINK, sattr() + opaque(target))


def fifo(path, user=0, mode=0o600):
    return make(path, Node("fifo", mode, user), MKNOD, pack(">I", FIFO) + sattr(mode=mode))


def rename(old, new):
    arguments = place(old) + place(new)

    def change():
        touch(old, new)
        TREE.pop(new, None)
        for path in [path for path in TREE if path == old or path.startswith(old + "/")]:
            TREE[new + path[len(old) :]] = TREE.pop(path)

    yield Call(f"rename {old} {new}", RENAME, arguments, change)


def link(old, new):
    def change():
        TREE[new] = TREE[old]
        touch(new)

    yield Call(f"link {old} {new}", LINK, opaque(TREE[old].handle) + place(new), change)


def remove(path):
    def change():
        del TREE[path]
        touch(path)

    procedure = RMDIR if TREE[path].kind == "folder" else REMOVE
    yield Call(f"remove {path}", procedure, place(path), change)


def setattr_(path, **attributes):
    node = TREE[path]

    def change():
        vars(node).update(attributes)
        if "size" in attributes and node.content is not None:
            size = attributes["size"]
            node.content = node.content[:size] + bytes(max(0, size - len(node.content)))
        if "size" in attributes and "mtime" not in attributes:
            node.mtime = None

    arguments = opaque(node.handle) + sattr(**attributes) + pack(">I", 0)
    yield Call(f"setattr {path} {attributes}", SETATTR, arguments, change)


def write(path, content, stable, offset=0):
    """Writes a file, from its start if stably. What is not stable may be there or not, until a COMMIT."""
    node = TREE[path]

    def change():
        node.content, node.size, node.mtime = content, len(content), None
        if stable == UNSTABLE:
            node.content, node.size = None, None

    arguments = opaque(node.handle) + pack(">QII", offset, len(content), stable) + opaque(content)
    yield Call(f"write {path} {stable}", WRITE_FILE, arguments, change)


def commit(path, content):
    node = TREE[path]

    def change():
        node.content, node.size = content, len(content)

    yield Call(f"commit {path}", COMMIT, opaque(node.handle) + pack(">QI", 0, 0), change)


def everything(at, user=0):
    """Every kind of change, one after the other."""
    yield from create(f"{at}/new", user, 0o640)
    yield from create(f"{at}/guarded", user, 0o4755, GUARDED)
    yield from create(f"{at}/exclusive", user, how=EXCLUSIVE)
    yield from mkdir(f"{at}/folder", user, 0o750)
    yield from mkdir(f"{at}/folder/inner", user)
    yield from create(f"{at}/folder/inner/deep", user)
    yield from symlink(f"{at}/short", b"target", user)
    yield from symlink(f"{at}/long", 140 * b"target/", user)
    yield from fifo(f"{at}/fifo", user)
    # Names: moved, used again, replaced.
    yield from rename(f"{at}/new", f"{at}/renamed")
    yield from create(f"{at}/new", user, 0o600)
    yield from rename(f"{at}/new", f"{at}/folder/moved")
    yield from create(f"{at}/over", user, 0o604)
    yield from rename(f"{at}/folder/moved", f"{at}/over")
    yield from link(f"{at}/over", f"{at}/folder/second")
    yield from rename(f"{at}/folder/second", f"{at}/folder/inner/third")
    yield from remove(f"{at}/over")
    yield from link(f"{at}/folder/inner/third", f"{at}/over")
    yield from rename(f"{at}/renamed", f"{at}/over")
    yield from rename(f"{at}/folder/inner", f"{at}/inner")
    yield from create(f"{at}/inner/later", user)
    yield from mkdir(f"{at}/empty", user)
    yield from rename(f"{at}/folder", f"{at}/empty")
    yield from rename(f"{at}/inner", f"{at}/empty/inner")
    yield from remove(f"{at}/empty/inner/deep")
    yield from create(f"{at}/empty/inner/deep", user, 0o666)
    yield from remove(f"{at}/empty/inner/deep")
    yield from mkdir(f"{at}/empty/inner/deep", user, 0o711)
    yield from remove(f"{at}/empty/inner/deep")
    yield from symlink(f"{at}/empty/inner/deep", b"..", user)
    yield from rename(f"{at}/short", f"{at}/empty/short")
    yield from remove(f"{at}/fifo")
    # Two names change places.
    yield from rename(f"{at}/guarded", f"{at}/third")
    yield from rename(f"{at}/exclusive", f"{at}/guarded")
    yield from rename(f"{at}/third", f"{at}/exclusive")
    # A file is replaced by its next version.
    for version in range(3):
        yield from create(f"{at}/version.new", user)
        yield from write(f"{at}/version.new", pack(">I", version) * 2000, UNSTABLE)
        yield from commit(f"{at}/version.new", pack(">I", version) * 2000)
        yield from rename(f"{at}/version.new", f"{at}/version")
    # Attributes.
    yield from setattr_(f"{at}/version", mode=0o400)
    yield from setattr_(f"{at}/version", mtime=1_000_000_000_123_456_789)
    yield from setattr_(f"{at}/version", size=100)
    yield from setattr_(f"{at}/version", size=70_000, mode=0o640, mtime=1_100_000_000_000_000_001)
    yield from setattr_(f"{at}/version", size=0)
    yield from setattr_(f"{at}/empty", mode=0o700)
    yield from setattr_(f"{at}/empty/inner", mtime=1_200_000_000_000_000_002)
    yield from setattr_(f"{at}/long", mtime=1_300_000_000_000_000_003)
    if not user:
        yield from setattr_(f"{at}/empty", uid=SOMEONE, gid=7)
        yield from setattr_(f"{at}/version", uid=SOMEONE, gid=SOMEONE)
        yield from setattr_(f"{at}/long", uid=SOMEONE)
    yield from write(f"{at}/version", b"stable" * 1000, FILE_SYNC)
    # A file with data that nobody has committed.
    yield from write(f"{at}/guarded", b"unstable" * 1000, UNSTABLE)
    yield from setattr_(f"{at}/guarded", mode=0o606)
    yield from rename(f"{at}/guarded", f"{at}/empty/guarded")
    yield from link(f"{at}/empty/guarded", f"{at}/guarded")


def at_random(at, count, user=0):
    """Changes by chance, below a folder that nobody else changes."""
    chance = random.Random(at)
    for number in range(count):
        below = [path for path in TREE if path.startswith(at + "/")]
        inside = [at] + [path for path in below if TREE[path].kind == "folder"]
        others = [path for path in below if TREE[path].kind != "folder"]
        empty = [path for path in inside[1:] if not any(other.startswith(path + "/") for other in below)]
        # Few names, so that they are used again.
        new = f"{chance.choice(inside)}/{chance.choice('abcdefgh')}"
        old = chance.choice(others) if others else None
        action = chance.choice(["make", "make", "rename", "rename", "rename", "link", "remove", "folder", "setattr"])
        if action == "make" and new not in TREE:
            kind = chance.choice([create, create, create, mkdir, mkdir, fifo])
            yield from kind(new, user)
        elif action == "make" and TREE[new].kind == "file":
            yield from write(new, b"%d" % number * 100, chance.choice([UNSTABLE, DATA_SYNC, FILE_SYNC]))
        elif action == "rename" and old and (new not in TREE or new in others) and TREE.get(new) != TREE[old]:
            yield from rename(old, new)
        elif action == "link" and old and new not in TREE:
            yield from link(old, new)
        elif action == "remove" and old:
            yield from remove(chance.choice([old] + empty))
        elif action == "folder" and len(inside) > 1:
            moved = chance.choice(inside[1:])
            if not new.startswith(moved + "/") and new != moved and (new not in TREE or new in empty):
                yield from rename(moved, new)
        elif action == "setattr" and below:
            yield from setattr_(chance.choice(below), mode=chance.randrange(0o400, 0o1000) | 0o700)


def own_names(at, number, user):
    """Changes of names that nobody else changes, in folders that others change too."""
    file = f"{at}/{number}"
    yield from create(file, user)
    yield from create(f"{at}/sub/{number}", user)
    yield from rename(f"{at}/sub/{number}", f"{file}.new")
    yield from rename(f"{file}.new", file)
    yield from link(file, f"{at}/sub/{number}")
    yield from setattr_(file, mode=0o600)
    yield from remove(f"{at}/sub/{number}")
    yield from mkdir(f"{at}/sub/{number}", user)
    yield from remove(f"{at}/sub/{number}")


def folders(*paths):
    """Folders in which everybody may make names."""
    for path in paths:
        yield from mkdir(path, mode=0o777)


def mark(text):
    """Puts a mark behind all that is durable by now."""
    message = pack("Q", 0) + b"mark " + text.encode() + b"\0"
    size = DM_IOCTL_SIZE + len(message)
    head = pack("=3I7IQ128s136x", 4, 0, 0, size, DM_IOCTL_SIZE, 0, 0, 0, 0, 0, 0, DEVICE.encode())
    fcntl.ioctl(CONTROL, DM_TARGET_MSG, bytearray(head + message))


def settle():
    """Has the file system written out, so that what follows is recovered alone."""
    for request in FIFREEZE, FITHAW:
        fcntl.ioctl(MOUNTED, request, 0)


def run(*scripts, settles=ACTS == "settled"):
    """Carries out scripts at the same time, each over a connection of its own: pairs of user and script."""
    waiting = {}

    def advance(stream, script, results):
        try:
            call = script.send(results)
        except StopIteration:
            return
        before = picture()
        call.change()
        after = picture()
        changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
        number = len(CALLS)
        CALLS.append(
            {
                "what": call.what,
                "bytes": call.procedure in (WRITE_FILE, COMMIT) or " {'size'" in call.what,
                "before": {path: before.get(path) for path in changed},
                "after": {path: after.get(path) for path in changed},
            }
        )
        if settles and CHANCE.random() < 1 / SETTLED_AFTER:
            settle()
        mark(f"s{number}")
        stream.xid += 1
        message = rpc(stream.xid, NFS, call.procedure, call.arguments, stream.user)
        stream.put(pack(">I", 1 << 31 | len(message)) + message)
        waiting[stream.socket] = stream, script, number

    for user, script in scripts:
        stream = Stream(PORT)
        stream.user = user
        advance(stream, script, None)
    while waiting:
        for ready in select.select(list(waiting), [], [], 20)[0]:
            stream, script, number = waiting.pop(ready)
            (length,) = unpack(">I", stream.get(4))
            outcome = stream.outcome_of(stream.get(length & ~(1 << 31)))
            if outcome != "reply 0 0":
                sys.exit(f"lab: {CALLS[number]['what']}: {outcome}")
            mark(f"a{number}")
            results = Cursor(stream.results)
            results.take("I")
            advance(stream, script, results)


CHANCE = random.Random(1)
MOUNTED = os.open(FOLDER, os.O_RDONLY)
CONTROL = os.open("/dev/mapper/control", os.O_RDWR)
first = Stream(PORT)
if first.call_tcp(MOUNT, 1, opaque(b"/")) != "reply 0 0":
    sys.exit("lab: MOUNT fails")
words = Cursor(first.results)
_, size = words.take("II")
TREE[""].handle = words.rest()[:size]

run((0, folders("/first")), settles=False)
run((0, everything("/first")))
beside = None
if ACTS != "first":
    run((0, folders("/chance", "/beside", "/shared", "/shared/sub", "/shared/someone")))
    run((0, at_random("/chance", 50)))
    # At the same time: a sync covers changes of several.
    others = [(number % 2 * SOMEONE, own_names("/shared", number, number % 2 * SOMEONE)) for number in range(6)]
    run((SOMEONE, everything("/shared/someone", SOMEONE)), *others)
    # Beside data that another client has not committed.
    run((0, create("/large")))
    for part in range(DIRTY // PIECE):
        run((0, write("/large", bytes(PIECE), UNSTABLE, part * PIECE)), settles=False)
    beside = [len(CALLS)]
    run((0, at_random("/beside", 25)), settles=False)
    beside += [len(CALLS) - 1, DIRTY]
mark("end")
with open(RECORD, "w") as file:
    json.dump({"calls": CALLS, "beside": beside}, file)
