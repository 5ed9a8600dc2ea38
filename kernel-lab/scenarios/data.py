"""Reads and writes of every size and kind in a folder; prints checksums of what was read.

Run in memory and on a mount, it must print the same and leave the same. The bytes come from the file /run/noise.
"""

import mmap
import os
import sys
import zlib

from lab import noise

# Where a call or a reply stops going inline (WRITE 3836 and READ 3864, where messages of 4096 bytes do; 764 and 792
# where those of 1024 do), pages, chunks of several segments, and chunks that need padding.
SIZES = [
    *(0, 1, 2, 3, 4, 5),
    *(763, 764, 765, 791, 792, 793),
    *range(3832, 3843),
    *range(3862, 3867),
    *(4095, 4096, 4097, 65535, 65536, 65537),
    *((1 << 20) + odd for odd in (-1, 0, 1, 2)),
    2_500_003,
]
PAGE = mmap.PAGESIZE


def show(what, data):
    print(what, len(data), f"{zlib.crc32(data):08x}")


def create(name, flags=0):
    return os.open(name, os.O_CREAT | os.O_RDWR | flags, 0o644)


def direct(name, flags=0):
    """Opens a file whose data the kernel does not keep; memory has nothing like that."""
    try:
        return create(name, flags | os.O_DIRECT)
    except OSError:
        return create(name, flags)


def forget(file):
    """Lets the kernel forget a file's data, so that the next read asks the server."""
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)


def sizes():
    """One WRITE and one READ of each size, as far as the mount's sizes allow."""
    for size in SIZES:
        file = direct(f"direct-{size}")
        print(os.pwrite(file, noise(size, size % 1000), 0))
        show("direct", os.pread(file, size, 0))
        show("direct, past the end", os.pread(file, size + 100, 7))


def buffered_sizes():
    """The kernel gathers what is written, and reads whole pages ahead."""
    for size in SIZES:
        file = create(f"buffered-{size}")
        os.pwrite(file, noise(size, size % 1000), 0)
        forget(file)
        show("buffered", os.pread(file, size + 1, 0))
        os.pwrite(file, noise(100, 0), size // 2)
        os.close(file)


def overwrites():
    """Reads, writes and cuts at odd places in every way by turns; each sees what those before it did."""
    whole = 1 << 19
    plain, uncached, synchronous = create("mixed"), direct("mixed"), create("mixed", os.O_SYNC)
    os.pwrite(plain, noise(whole, 0), 0)
    state = 1
    for turn in range(150):
        state = state * 6364136223846793005 % (1 << 64) + 1442695040888963407
        start, size = state % whole, (state >> 24) % 70_000
        data = noise(size, state >> 44)
        kind = turn % 10
        if kind in (0, 5):
            os.pwrite(uncached, data, start)
        elif kind in (1, 6):
            os.pwrite(plain, data, start)
        elif kind == 2:
            os.pwrite(synchronous, data[:9000], start)
        elif kind == 3:
            os.ftruncate(plain, start)
        elif kind == 4 and os.fstat(plain).st_size > PAGE:
            overwrite_mapped(plain, data, start)
        else:
            show(f"at {start}", os.pread((uncached, plain, uncached)[kind % 3], size, start))
    show("mixed", os.pread(plain, 2 * whole, 0))


def overwrite_mapped(file, data, start):
    with mmap.mmap(file, 0) as memory:
        start %= len(memory)
        data = data[: len(memory) - start]
        memory[start : start + len(data)] = data
        memory.flush()


def maps():
    file = create("mapped")
    os.ftruncate(file, 300_001)
    with mmap.mmap(file, 0) as memory:
        show("map of a hole", memory[:])
        memory[1000:200_000] = noise(199_000, 0)
        memory.flush()
        show("read of what is mapped", os.pread(file, 400_000, 0))
        os.pwrite(file, noise(50_000, 9), 150_000)
        show("map of what was written", memory[:])
        memory[-1:] = b"!"
    forget(file)
    with mmap.mmap(file, 0, mmap.MAP_PRIVATE, mmap.PROT_READ) as memory:
        show("map", memory[:])
    os.close(file)


def appends():
    one, other = create("appended", os.O_APPEND), direct("appended", os.O_APPEND)
    for turn in range(20):
        os.write((one, other)[turn % 2], noise(turn * 997, turn))
        print(os.fstat(one).st_size)
    os.ftruncate(one, 5000)
    os.write(other, b"after the cut")
    show("appended", os.pread(one, 200_000, 0))


def holes():
    file = create("holes")
    for start in (5_000_001, 2_500_000, 4095, 1):
        os.pwrite(file, noise(5000, start % 1000), start)
    forget(file)
    show("around a hole", os.pread(file, 100_000, 2_490_000))
    show("a hole", os.pread(file, 1 << 20, 3_000_000))
    show("direct", os.pread(direct("holes"), 10_000_000, 0))
    os.ftruncate(file, 7000)
    os.ftruncate(file, 100_000)
    show("nothing comes back behind a cut", os.pread(file, 200_000, 0))
    forget(file)
    show("and not from the server", os.pread(file, 200_000, 0))
    print("sparse", os.fstat(file).st_blocks * 512 < 100_000)


os.chdir(sys.argv[1])
for part in (sizes, buffered_sizes, overwrites, maps, appends, holes):
    print(f"== {part.__name__}")
    part()
