"""Every kind of operation on names and attributes, in a folder; prints what each of them gave.

Run in memory and on a mount, it must print the same and leave the same.
"""

import os
import stat
import sys

from lab import do

EARLY = 1_000_000_000_123_456_789
LATE = 3_000_000_000_987_654_321


def look(*paths):
    for path in paths:
        do(os.lstat, path)


def write(path, text, flags=os.O_TRUNC, mode=0o666):
    """Creates or opens a file and writes to it; gives the open file."""
    file = os.open(path, os.O_CREAT | os.O_RDWR | flags, mode)
    os.write(file, text)
    return file


def put(path, text):
    os.close(write(path, text))


def names():
    """What the folder holds. The kernel's client renames what is removed while open: that is not there."""
    return sorted(name for name in os.listdir(b".") if not name.startswith(b".nfs"))


def restamped(path, operation, *arguments):
    """Whether an operation sets a path's time of modification."""
    os.utime(path, ns=(EARLY, EARLY))
    do(operation, *arguments)
    print("    restamps", path, os.stat(path).st_mtime_ns != EARLY)


def creation():
    for mode in (0o666, 0o600, 0o444, 0o777, 0o4755, 0o2755):
        do(os.open, f"mode-{mode:o}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
        look(f"mode-{mode:o}")
    do(os.open, "mode-666", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    put("short", b"something longer")
    put("short", b"short")
    do(os.open, "none", os.O_RDONLY)
    do(os.open, "none/none", os.O_CREAT | os.O_WRONLY)
    do(os.open, "short/none", os.O_CREAT | os.O_WRONLY)
    do(os.open, ".", os.O_WRONLY)
    do(os.open, "short", os.O_DIRECTORY)
    look("short", "none")
    restamped(".", put, "new", b"")
    restamped("new", put, "new", b"more")


def folders():
    do(os.mkdir, "folder", 0o777)
    do(os.mkdir, "folder/inner", 0o1770)
    do(os.mkdir, "folder", 0o777)
    do(os.mkdir, "none/inner")
    look("folder", "folder/inner")
    do(os.rmdir, "folder")
    do(os.unlink, "folder")
    do(os.rmdir, "short")
    do(os.rmdir, "none")
    restamped("folder", os.rmdir, "folder/inner")
    restamped("folder", os.mkdir, "folder/again")
    look("folder")
    do(os.listdir, "folder/again")
    do(os.listdir, "short")


def special_files():
    do(os.mkfifo, "fifo", 0o640)
    do(os.mknod, "socket", stat.S_IFSOCK | 0o600)
    do(os.mknod, "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    do(os.mknod, "block", stat.S_IFBLK | 0o600, os.makedev(259, 1_000_000))
    do(os.mknod, "plain", stat.S_IFREG | 0o640)
    do(os.mkfifo, "fifo")
    look("fifo", "socket", "null", "block", "plain")
    fifo = os.open("fifo", os.O_RDWR)
    do(os.write, fifo, b"through the pipe")
    do(os.read, fifo, 100)
    null = os.open("null", os.O_RDWR)
    do(os.write, null, b"to nowhere")
    do(os.read, null, 100)


def symbolic_links():
    for length in (1, 2, 3, 4, 60, 1023, 4095):
        do(os.symlink, "x" * length, f"link-{length}")
        do(os.readlink, f"link-{length}")
        look(f"link-{length}")
    do(os.symlink, "x" * 4096, "link-4096")
    do(os.symlink, "short", "link-1")
    do(os.symlink, b"\xff \n\\../there", b"link-odd")
    do(os.readlink, b"link-odd")
    do(os.readlink, "short")
    do(os.symlink, "short", "to-short")
    do(os.symlink, "loop", "loop")
    do(os.stat, "to-short")
    do(os.stat, "loop")
    do(os.stat, "link-60")
    do(os.utime, "to-short", ns=(EARLY, LATE), follow_symlinks=False)
    do(os.chown, "to-short", 7, 8, follow_symlinks=False)
    look("to-short", "short")


def hard_links():
    put("first", b"linked")
    restamped(".", os.link, "first", "second")
    do(os.link, "first", "folder/third")
    do(os.link, "first", "second")
    do(os.link, "folder", "folder-link")
    do(os.link, "none", "none-link")
    do(os.link, "to-short", "to-short-too", follow_symlinks=False)
    do(os.link, "fifo", "fifo-too")
    put("second", b"linked, and written by another name")
    look("first", "second", "folder/third", "to-short-too", "fifo-too")
    print("one file", os.path.samefile("first", "folder/third"))
    do(os.unlink, "first")
    look("first", "second")


def renames():
    for name in "abcdefgh":
        put(name, b"file " + name.encode())
    for path in ("d1", "d1/sub", "d2", "d2/full", "d2/full/entry", "d3"):
        os.mkdir(path)
    number = os.stat("a").st_ino
    restamped(".", os.rename, "a", "renamed")
    print("same number", os.stat("renamed").st_ino == number)
    do(os.rename, "b", "c")  # over a file
    do(os.rename, "d", "d1/d")  # to another directory
    do(os.rename, "e", "d1/d")  # over a file there
    do(os.rename, "d1/d", "back")
    do(os.rename, "f", "f")
    os.link("f", "f-too")
    do(os.rename, "f", "f-too")  # two names of one file: nothing happens
    do(os.rename, "f", "folder")
    do(os.rename, "folder", "f")
    do(os.rename, "none", "g")
    do(os.rename, "g", "none/g")
    do(os.rename, "d1", "d2/full")
    do(os.rename, "d1", "d1/sub/deeper")
    restamped("d3", os.rename, "d1", "d3/moved")
    do(os.rename, "d2/full", "d3/moved/sub")
    do(os.rename, "to-short", "h")
    do(os.rename, "fifo-too", "d3/fifo")
    look("renamed", "c", "back", "f", "f-too", "d1", "d2", "d3", "d3/moved", "d3/moved/sub", "h", "d3/fifo")
    print(names())


def removals():
    for name in ("f", "h", "d3/fifo", "null", "none", "d3/none"):
        do(os.unlink, name)
    restamped("d3", os.unlink, "d3/moved/sub/none")
    do(os.rmdir, "d3")
    do(os.rmdir, "d3/moved/sub/entry")
    restamped("d3/moved", os.rmdir, "d3/moved/sub")
    look("d3", "d3/moved", "f-too", "h")


def attribute_changes():
    put("owned", b"0123456789")
    for mode in (0, 0o7777, 0o6755, 0o644):
        do(os.chmod, "owned", mode)
        look("owned")
    for owner in ((7, 8), (-1, 9), (10, -1), (65534, 65534), (4_000_000_000, 0)):
        os.chmod("owned", 0o6755)
        do(os.chown, "owned", *owner)
        look("owned")
    do(os.chmod, "folder", 0o3775)
    do(os.chown, "folder", 7, 8)
    put("folder/inherits", b"")
    os.mkdir("folder/inherits-too")
    look("folder", "folder/inherits", "folder/inherits-too")
    # The kernel's client drops the nanoseconds of the first and the last second that NFSv3 has.
    for times in ((EARLY, LATE), (10**9 + 1, (2**32 - 1) * 10**9 - 1), (0, (2**32 - 1) * 10**9)):
        do(os.utime, "owned", ns=times)
        found = os.stat("owned")
        print(found.st_atime_ns, found.st_mtime_ns)
    restamped("owned", os.utime, "owned")
    # Where the size is the old one, the kernel's client asks for nothing.
    restamped("owned", os.truncate, "owned", 9)
    do(os.chmod, "none", 0o644)
    do(os.listxattr, "owned")
    do(os.setxattr, "owned", "user.name", b"value")


def sizes():
    put("sized", b"0123456789")
    for size in (5, 20, 0, 4097, 1 << 40, 3):
        do(os.truncate, "sized", size)
        look("sized")
    file = os.open("sized", os.O_RDWR)
    do(os.ftruncate, file, 1 << 33)
    do(os.pread, file, 4, (1 << 33) - 2)
    do(os.ftruncate, file, 7)
    do(os.pread, file, 100, 0)
    do(os.truncate, "folder", 0)
    do(os.truncate, "none", 0)


def odd_names():
    for name in (b"n" * 255, b"n" * 256, b"\xff\xfe", b" ", b"line\nend", b"back\\slash", b"-", b"...", b"\x01", b"*"):
        do(put, name, name)
        do(os.stat, name)
    print(names())


def open_files():
    for other in ("renamed over", "removed", "truncated", "made unreadable"):
        put(other, b"old contents")
    put("newer", b"newer contents")
    over, removed, truncated, unreadable = (
        os.open(name, os.O_RDWR) for name in ("renamed over", "removed", "truncated", "made unreadable")
    )
    do(os.rename, "newer", "renamed over")
    do(os.unlink, "removed")
    put("truncated", b"new")
    do(os.chmod, "made unreadable", 0)
    do(os.open, "removed", os.O_RDONLY)
    for file in (over, removed, truncated, unreadable):
        do(os.pread, file, 100, 0)
        do(os.pwrite, file, b"more", 10)
        do(os.fsync, file)
        do(os.pread, file, 100, 0)
        do(os.fchmod, file, 0o640)
    print(names())
    for file in (over, removed, truncated, unreadable):
        do(os.close, file)
    put("removed", b"another of that name")
    look("renamed over", "removed", "truncated", "made unreadable")


os.chdir(sys.argv[1])
os.umask(0o027)
for part in (
    creation,
    folders,
    special_files,
    symbolic_links,
    hard_links,
    renames,
    removals,
    attribute_changes,
    sizes,
    odd_names,
    open_files,
):
    print(f"== {part.__name__}")
    part()
