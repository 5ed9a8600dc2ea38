"""Reads and writes, which go on while their server or their connections come and go.

`restart` stops, kills and starts the server, `cut` cuts connections. Everything written goes to the folder /run/load
too, for comparison. No operation may fail or be done twice, and all must go on after each disturbance.
"""

import mmap
import os
import signal
import sys
import time
import traceback

from lab import host, noise

# How long all may take to go on.
RECOVERY_MAX_S = 60
FOLDERS = ("/run/load", "/mnt/load")


def write_and_read(turn):
    """A file written and read back without caches."""
    size, start = 1 + turn * 7919 % 200_000, turn * 104_729 % 2_000_000
    for folder in FOLDERS:
        file = os.open(f"{folder}/direct-{turn % 5}", os.O_CREAT | os.O_RDWR | direct(folder))
        os.ftruncate(file, size)
        assert os.pwrite(file, noise(size, start), 0) == size
        assert os.pread(file, size, 0) == noise(size, start), "what was read is not what was written"
        os.close(file)


def direct(folder):
    return 0 if folder.startswith("/run") else os.O_DIRECT


def write_late(turn):
    """Files that the kernel writes when it likes, and at the latest when they are closed."""
    for folder in FOLDERS:
        with open(f"{folder}/buffered-{turn % 3}", "wb") as file:
            for piece in range(4):
                file.write(noise(150_000 + turn, 1000 * piece + turn))


def change_names(turn):
    """Operations that must be done once although they are asked for twice."""
    name = f"{turn % 7}"
    for folder in FOLDERS:
        os.mkdir(f"{folder}/made-{name}")
        os.rename(f"{folder}/made-{name}", f"{folder}/renamed-{name}")
        os.symlink(f"{turn}", f"{folder}/renamed-{name}/link")
        os.rename(f"{folder}/renamed-{name}/link", f"{folder}/last-link")
        os.link(f"{folder}/last-link", f"{folder}/other", follow_symlinks=False)
        os.unlink(f"{folder}/other")
        os.rmdir(f"{folder}/renamed-{name}")


def work(task, turns, index):
    """A process that does its task until it is told to stop; `turns[index]` counts, modulo 256."""
    child = os.fork()
    if child:
        return child
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    try:
        turn = 0
        while not stopped:
            task(turn)
            turn += 1
            turns[index] = turn % 256
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def await_turns(turns, count):
    """Waits until each task has done two turns more: the first may have been done before."""
    before = turns[:count]
    deadline = time.monotonic() + RECOVERY_MAX_S
    while any((turns[index] - before[index]) % 256 < 2 for index in range(count)):
        if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            sys.exit("a task has ended")
        if time.monotonic() > deadline:
            sys.exit(f"not all tasks go on: {list(before)} turns before, {list(turns[:count])} now")
        time.sleep(0.02)


def run(tasks, disturbances):
    turns = mmap.mmap(-1, mmap.PAGESIZE)
    children = [work(task, turns, index) for index, task in enumerate(tasks)]
    await_turns(turns, len(tasks))
    for requests in disturbances:
        started = time.monotonic()
        for request in requests:
            host(request)
        await_turns(turns, len(tasks))
        print(*requests, f"all go on after {time.monotonic() - started:.1f} s", flush=True)
    for child in children:
        os.kill(child, signal.SIGTERM)
    if any(os.waitpid(child, 0)[1] for child in children):
        sys.exit("a task has failed")


for load_folder in FOLDERS:
    os.mkdir(load_folder)
if sys.argv[1] == "restart":
    # A server that has forgotten what it answered may do a change of names twice.
    run([write_and_read, write_late], [("server stop", "server start"), ("server kill", "server start")])
else:
    run([write_and_read, write_late, change_names], 8 * [("cut",)])
