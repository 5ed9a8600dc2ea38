"""lost-replies.py FOLDER EXPORT: operations whose replies are lost, on a mount of EXPORT through a proxy."""

import os
import sys
import time
import traceback

from lab import host

folder, export = sys.argv[1:]
# Connections that one call takes in a storm.
STORM = 40


def create(path):
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))


def lost(operation, *names, leaves=None, takes=None, times=1):
    """Does an operation, whose connection is cut when it is done: when a name is there, or is no more.

    So are those on which the kernel sends it again, until it has been done `times` times for nothing.
    """
    print(operation.__name__, *names, flush=True)
    for name in names:
        # The kernel must not have to ask for it when no reply comes any more.
        os.path.lexists(f"{folder}/{name}")
    host("mute")
    child = os.fork()
    if child == 0:
        try:
            operation(*(f"{folder}/{name}" for name in names))
        except OSError:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    while takes and os.path.lexists(f"{export}/{takes}") or leaves and not os.path.lexists(f"{export}/{leaves}"):
        time.sleep(0.01)
    if os.waitpid(child, os.WNOHANG) != (0, 0):
        sys.exit("lab: the reply was not lost")
    if times > 1:
        host(f"doom {times - 1}")
    host("cut")
    if os.waitpid(child, 0)[1] != 0:
        sys.exit(f"lab: {operation.__name__} fails when it is sent again")


# What the caller may do there is asked for once.
create(f"{folder}/first")
os.unlink(f"{folder}/first")

lost(os.mkdir, "made", leaves="made")
lost(os.rename, "made", "renamed", takes="made")
lost(os.rmdir, "renamed", takes="renamed")
lost(create, "file", leaves="file")
lost(os.rename, "file", "other", takes="file")
lost(os.unlink, "other", takes="other")
lost(os.symlink, "target", "symlink", leaves="symlink")
if os.environ["OVER"] == "rdma":
    # It connects again at once, and sends the same call, as often as it takes.
    lost(os.mkdir, "stormy", leaves="stormy", times=STORM)
