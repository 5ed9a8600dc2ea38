"""What two clients see of each other. Each of them runs this at the same time, in the same folder."""

import errno
import itertools
import os
import sys

from lab import noise

NAMES = 60
BLOCK = 65_536
BLOCKS = 32


def meet():
    """Waits for the other; quicker than the host's way to meet, so that what follows happens at the same time."""
    number = next(MEETINGS)
    os.close(os.open(f"{OUT}/meeting-{number}-{GUEST}", os.O_CREAT))
    while not os.path.exists(f"{OUT}/meeting-{number}-{3 - GUEST}"):
        pass


def exclusive():
    """Of both that create the same name, one does. Returns how often it was this one."""
    won = 0
    for number in range(NAMES):
        create = (make_file, os.mkdir, make_link)[number % 3]
        meet()
        try:
            create(f"race-{number}")
            won += 1
        except FileExistsError:
            pass
    return won


def make_file(name):
    os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY))


def make_link(name):
    os.symlink(f"of {GUEST}", name)


def blocks():
    """Both write every other block of a file."""
    file = os.open("blocks", os.O_CREAT | os.O_RDWR | os.O_DIRECT)
    for block in range(GUEST - 1, BLOCKS, 2):
        os.pwrite(file, noise(BLOCK, block), block * BLOCK)
    meet()
    expected = b"".join(noise(BLOCK, block) for block in range(BLOCKS))
    if os.pread(file, len(expected), 0) != expected:
        sys.exit("not all blocks are in the file")
    os.close(file)


def turns():
    """What one has written and closed, the other sees when it opens the file, in its own cache too."""
    for turn in range(6):
        if turn % 2 == GUEST - 1:
            with open("turns", "ab") as file:
                file.write(noise(5000, turn))
        meet()
        expected = b"".join(noise(5000, number) for number in range(turn + 1))
        with open("turns", "rb") as file:
            if file.read() != expected:
                sys.exit(f"turn {turn} is not seen")
        meet()


def removal():
    """A file that the other removes is gone, also for those that have it open; one that it replaces, too."""
    if GUEST == 1:
        for name in ("removed", "replaced", "new"):
            with open(name, "wb") as file:
                file.write(name.encode())
    meet()
    if GUEST == 2:
        files = [os.open(name, os.O_RDONLY | os.O_DIRECT) for name in ("removed", "replaced")]
    meet()
    if GUEST == 1:
        os.unlink("removed")
        os.rename("new", "replaced")
    meet()
    if GUEST == 2:
        for file in files:
            try:
                sys.exit(f"removed, and yet there: {os.pread(file, 100, 0)}")
            except OSError as error:
                assert error.errno == errno.ESTALE, error
        with open("replaced", "rb") as file:
            assert file.read() == b"new"
        assert not os.path.exists("removed")
    meet()


GUEST, OUT = int(os.environ["GUEST"]), os.environ["OUT"]
MEETINGS = itertools.count()
os.chdir(sys.argv[1])
meet()
print("won", exclusive(), flush=True)
meet()
blocks()
turns()
removal()
