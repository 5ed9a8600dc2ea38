"""cuts.py FILE-SYSTEM DEVICE RECORD acknowledged|control: cuts the power wherever that can be, and looks at the disk.

The folder has the files `log` of dm-log-writes, `replayed`, a disk as it was at first, and `cut`, the same, which lies
below DEVICE. RECORD is of power-cut.py. The control must lose something.
"""

import ctypes
import hashlib
import json
import os
import stat
import sys
from struct import unpack

from lab import host

FILE_SYSTEM, DEVICE, RECORD, SESSION = sys.argv[1:]
MAGIC = 0x6A736677736872
FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8
MS_RDONLY = 1
KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link", stat.S_IFIFO: "fifo"}
# Contents of files of at most so many bytes are compared.
CONTENT_MAX = 100_000
# Parts of a description: those that depend on a file's bytes, and the number of its names.
BYTES, LINKS = (4, 6, 7), 5
EMPTY = hashlib.md5().hexdigest()

LIBC = ctypes.CDLL(None, use_errno=True)


def entries():
    """Flags, sector and data of each entry of the log, in the order in which they became durable."""
    with open("log", "rb") as log:
        magic, version, count, unit = unpack("<QQQI", log.read(28))
        if (magic, version) != (MAGIC, 1):
            sys.exit("lab: no log")
        log.seek(unit)
        for _ in range(count):
            head = log.read(unit)
            sector, sectors, flags, length = unpack("<4Q", head[:32])
            if flags & MARK:
                yield flags, 0, head[32 : 32 + length].rstrip(b"\0").decode()
            elif flags & DISCARD:
                # The blocks may keep what they had.
                yield flags, 0, b""
            else:
                yield flags, sector * unit, log.read(sectors * unit)


def copy(source, target):
    """Makes a sparse file the same as another."""
    size = os.fstat(source).st_size
    os.ftruncate(target, 0)
    os.ftruncate(target, size)
    at = 0
    while True:
        try:
            at = os.lseek(source, at, os.SEEK_DATA)
        except OSError:
            return
        end = os.lseek(source, at, os.SEEK_HOLE)
        while at < end:
            at += os.pwrite(target, os.pread(source, min(end - at, 1 << 20), at), at)


def found(folder):
    """The objects below a folder, by path, as power-cut.py describes them."""
    seen = {}
    for base, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(base, name)
            status = os.lstat(path)
            kind = KINDS[stat.S_IFMT(status.st_mode)]
            content = None
            if kind == "link":
                content = os.readlink(path)
            elif kind == "file" and not status.st_size:
                content = EMPTY
            elif kind == "file" and status.st_size <= CONTENT_MAX:
                with open(path, "rb") as file:
                    content = hashlib.md5(file.read()).hexdigest()
            seen[path[len(folder) :]] = [
                kind,
                stat.S_IMODE(status.st_mode),
                status.st_uid,
                status.st_gid,
                status.st_size,
                status.st_nlink,
                status.st_mtime_ns,
                content,
            ]
    seen.pop("/lost+found", None)
    return seen


def fits(wanted, got, free=()):
    """Whether an object is as it must be, but for some parts of its description."""
    if wanted is None or got is None:
        return wanted is got
    pairs = enumerate(zip(wanted, got))
    return all(part in free or one is None or one == other for part, (one, other) in pairs)


def has_both_names(call, got):
    """Whether an object that is renamed has its old name and the new one.

    btrfs makes the folders durable one after the other.
    """
    if FILE_SYSTEM != "btrfs" or not call["what"].startswith("rename"):
        return False
    old, new = call["what"].split()[1:]
    wanted = {old: call["before"][old], new: call["after"][new]}
    return wanted[old][0] != "folder" and all(fits(wanted[path], got.get(path), [LINKS]) for path in wanted)


def differences(wanted, under_way, got):
    """What is not as it must be.

    A call under way has happened as a whole or not at all. But the bytes of a file change one by one.
    """
    done, free = set(), []
    for number in under_way:
        call = CALLS[number]
        parts = BYTES if call["bytes"] else ()
        sides = [call["before"], call["after"]]
        done |= call["after"].keys()
        if any(all(fits(value, got.get(path), parts) for path, value in side.items()) for side in sides):
            continue
        if has_both_names(call, got):
            free = [LINKS]
            continue
        halves = {path: [call["before"][path], call["after"][path], got.get(path)] for path in call["after"]}
        yield f"half done: {call['what']}: {halves}"
    for path in sorted((wanted.keys() | got.keys()) - done):
        if not fits(wanted.get(path), got.get(path), free):
            yield f"{path}: {got.get(path)}, not {wanted.get(path)}"


class Cuts:
    """The disk as it becomes, and what must be on it."""

    def __init__(self):
        self.replayed, self.cut = (os.open(name, os.O_RDWR) for name in ("replayed", "cut"))
        self.wanted, self.under_way, self.last = {}, set(), None
        self.count, self.bad = 0, []

    def write(self, offset, data):
        os.pwrite(self.replayed, data, offset)

    def mark(self, text):
        kind, number = text[0], int(text[1:])
        if kind == "s":
            self.under_way.add(number)
            return
        self.under_way.remove(number)
        self.last = number
        for path, value in CALLS[number]["after"].items():
            self.wanted[path] = value
            if value is None:
                del self.wanted[path]

    def look(self):
        """Cuts the power here."""
        self.count += 1
        copy(self.replayed, self.cut)
        flags = ctypes.c_ulong(MS_RDONLY)
        if LIBC.mount(DEVICE.encode(), b"mount", FILE_SYSTEM.encode(), flags, None):
            bad = [f"mount: {os.strerror(ctypes.get_errno())}"]
            os.system("dmesg | tail -n 20")
        else:
            bad = list(differences(self.wanted, self.under_way, found("mount")))
            if LIBC.umount2(b"mount", 0):
                sys.exit(f"lab: umount: {os.strerror(ctypes.get_errno())}")
        if bad:
            after = CALLS[self.last]["what"] if self.last is not None else "nothing"
            during = ", ".join(CALLS[number]["what"] for number in self.under_way)
            self.bad.append(f"cut {self.count}, after {after}, during {during}: {'; '.join(bad)}")


with open(RECORD) as file:
    RECORD = json.load(file)
CALLS = RECORD["calls"]
FIRST, LAST, DIRTY = RECORD["beside"] or [None, None, 1]
cuts = Cuts()
# Whether the disk may stay as it is now, and whether it was not looked at yet.
is_cut, is_new = False, False
is_beside, beside = False, 0
for flags, offset, data in entries():
    if flags & MARK:
        if data == "end":
            break
        cuts.mark(data)
        is_cut = True
        is_beside = (is_beside or data == f"s{FIRST}") and data != f"a{LAST}"
        continue
    # The last marks before the disk changes ask most of it.
    if data and is_cut and is_new:
        cuts.look()
        is_cut = is_new = False
    if data:
        cuts.write(offset, data)
        is_new = True
        beside += is_beside and len(data)
    is_cut |= bool(flags & (FLUSH | FUA))
else:
    sys.exit("lab: the log does not reach the end")
cuts.look()
print("\n".join(cuts.bad[:40]))
summary = f"{SESSION}: {len(CALLS)} calls, {cuts.count} cuts, {len(cuts.bad)} of them lose something"
print(summary, flush=True)
host(f"note {summary}")
if bool(cuts.bad) != (SESSION == "control"):
    sys.exit(1)
# Attributes of a pipe or a symbolic link take a sync of everything where there is no ordered journal.
if FILE_SYSTEM != "btrfs" and beside >= DIRTY:
    sys.exit(f"lab: changes of names write {beside} bytes beside {DIRTY} that nobody committed")
