"""How many operations a second two mounts of the same folder do: speed.py SERVED FIRST SECOND.

Rounds go from mount to mount, so that what else the machine does falls on both. A line for each operation gives the
medians of both, and of the rounds' own ratios, second to first. Fails when the median of all rounds is below FLOOR; where
it is after some, there are more.
"""

import mmap
import os
import random
import sys
import time

ROUNDS_MIN = 7
# The machine is busy with other things, and the processor emulated: a row of the same build spreads by a third.
ROUNDS_MAX = 28
SECONDS = 0.2
FLOOR = 0.8
PROCESSES = (1, 8)

MIB = 1 << 20
BLOCK = 4096
LARGE = 32 * MIB
FILES = 1000

served, *mounts = sys.argv[1:]


def sequential(call):
    """Calls with a file, a buffer and one offset of a MiB after the other."""

    def prepare(mount):
        file = os.open(f"{mount}/large", os.O_RDWR | os.O_DIRECT)
        # Memory that begins on a page, as programs that use O_DIRECT have it.
        memory = mmap.mmap(-1, MIB)
        offset = -MIB

        def operate():
            nonlocal offset
            offset = (offset + MIB) % LARGE
            assert call(file, [memory], offset) == MIB

        return operate

    return prepare


def random_read(mount):
    file = os.open(f"{mount}/large", os.O_RDONLY | os.O_DIRECT)
    memory = mmap.mmap(-1, BLOCK)

    def operate():
        assert os.preadv(file, [memory], random.randrange(LARGE // BLOCK) * BLOCK) == BLOCK

    return operate


def stat(mount):
    return lambda: os.lstat(f"{mount}/many/file-{random.randrange(FILES)}")


def readdir(forget):
    """Lists a folder that the client does not know, or knows no more."""

    def prepare(mount):
        def operate():
            forget()
            assert len(os.listdir(f"{mount}/many")) == FILES

        return operate

    return prepare


def drop_caches():
    with open("/proc/sys/vm/drop_caches", "w") as file:
        file.write("2")


OPERATIONS = {
    "read of 1 MiB, O_DIRECT": sequential(os.preadv),
    "write of 1 MiB, O_DIRECT": sequential(os.pwritev),
    "read of 4 KiB anywhere, O_DIRECT": random_read,
    "stat": stat,
    f"readdir of {FILES} entries": readdir(drop_caches),
    f"readdir of {FILES} entries, changed": readdir(lambda: os.utime(f"{served}/many")),
}


def work(prepare, mount, ready, result):
    """A process: works when all are ready, and says how much it did, from when to when."""
    operate = prepare(mount)
    operate()
    os.read(ready, 1)
    count = 0
    began = now = time.monotonic()
    while now < began + SECONDS:
        operate()
        count += 1
        now = time.monotonic()
    os.write(result, f"{count} {began} {now}\n".encode())


def rate(prepare, mount, processes):
    """Operations a second of so many processes together."""
    ready, start = os.pipe()
    results, result = os.pipe()
    children = []
    for _ in range(processes):
        child = os.fork()
        if child == 0:
            os.close(start)
            random.seed()
            work(prepare, mount, ready, result)
            os._exit(0)
        children.append(child)
    for end in (start, ready, result):
        os.close(end)
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
    with os.fdopen(results) as file:
        lines = [[float(word) for word in line.split()] for line in file]
    counts, begins, ends = zip(*lines)
    return sum(counts) / (max(ends) - min(begins))


def median(values):
    return sorted(values)[len(values) // 2]


def compare(prepare, processes):
    """The median rates on both mounts, the median ratio, and how many rounds there were."""
    rounds = []
    while True:
        rounds += [[rate(prepare, mount, processes) for mount in mounts] for _ in range(ROUNDS_MIN)]
        ratio = median([after / before for before, after in rounds])
        if ratio >= FLOOR or len(rounds) >= ROUNDS_MAX:
            first, second = zip(*rounds)
            return median(first), median(second), ratio, len(rounds)


failed = False
print(f"{'operations a second':36} processes     knfsd    Gannet  ratio rounds")
for name, prepare in OPERATIONS.items():
    for processes in PROCESSES:
        first, second, ratio, rounds = compare(prepare, processes)
        failed = failed or ratio < FLOOR
        print(f"{name:36} {processes:9} {first:9.1f} {second:9.1f} {ratio:6.2f} {rounds:6}", flush=True)
sys.exit(failed)
