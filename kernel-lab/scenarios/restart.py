"""What the server has answered but not committed is written again when it was lost with the server."""

import os
import sys
import time

from lab import host, noise

DATA = 12 * noise(2_000_000, 0)
KEPT = f"{os.environ['OUT']}/export/uncommitted"


def write():
    """One write without the kernel's cache: many calls to the server, and a COMMIT behind the last of them."""
    file = os.open("/mnt/uncommitted", os.O_CREAT | os.O_WRONLY | os.O_DIRECT)
    # The kernel's client then counts only what it has written again: the result tells nothing.
    os.write(file, DATA)
    sys.exit(0)


def kept():
    return os.stat(KEPT).st_size if os.path.exists(KEPT) else 0


child = os.fork()
if child == 0:
    write()
deadline = time.monotonic() + 60
while kept() < 1 << 20:
    if time.monotonic() > deadline:
        sys.exit("the kernel does not write")
host("server kill")
print(kept(), "of", len(DATA), "bytes were there", flush=True)
if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
    sys.exit("the write had ended before the server did: it must be longer")
os.truncate(KEPT, 0)
host("server start")
if os.waitpid(child, 0)[1] != 0:
    sys.exit("the write has failed")
with open(KEPT, "rb") as file:
    if file.read() != DATA:
        sys.exit("what the server lost is not there again")
