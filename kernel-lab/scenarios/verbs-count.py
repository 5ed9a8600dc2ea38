"""CALLS READs and WRITEs of 64 KiB, and the memory that their server registered: verbs-count.py GANNET URL SERVER LOG CALLS HOW.

SERVER is its process, which is ended. Its last words in LOG, in JSON, must say what HOW promises.
- server-cache: it registered memory during the first of the calls alone, and its strategy copied nothing. So a READ has the
  one copy from the page cache.
- sendfile: each of the READs registered one range of the file, and no byte was copied. There are no WRITEs.
"""

import json
import os
import signal
import subprocess
import sys
import time

# Slots of the server's memory that operations in flight need at a time, with those that wait for the disk.
SLOTS = 64
# Other memory that is registered for one use, in one run of the benchmark: lists of the folder that it makes and removes.
LISTS_OF_A_RUN = 10
# Calls of a run besides those that it counts: the others in flight when its time is over.
IN_FLIGHT = 4
OPTIONS = f"--provider verbs --json --threads 1 --in-flight {IN_FLIGHT} --record 64K --size 4M --seconds 10 --op"

gannet, url, server, log, calls, how = sys.argv[1:]


def last_words():
    """What the server says of its registrations when it ends."""
    while True:
        lines = [json.loads(line) for line in open(log) if line.endswith("\n")]
        said = [line for line in lines if line["message"] == "registered memory"]
        if said:
            return said[0]
        time.sleep(0.1)


def promised(memory):
    """Prints what the calls cost; whether that is what the server promises."""
    used, made, copied = (memory[name] for name in ("hits", "registrations", "copied_bytes"))
    if how == "sendfile":
        ranges, copies = memory["file_ranges"], memory["file_ranges_copied"]
        print(f"sendfile: {done['randread']} READs registered {ranges} ranges of the file, {copies + copied} copies")
        return 0 <= ranges - done["randread"] <= IN_FLIGHT * runs and copies + copied == 0
    lists = memory["fallbacks"]
    made -= lists
    print(f"server-cache: {done['randread']} READs and {done['write']} WRITEs used {made} registrations {used} times, {copied} bytes copied")
    print(f"registered for one use: {lists} lists of {runs} runs")
    return used + made >= sum(done.values()) and made <= SLOTS and lists <= LISTS_OF_A_RUN * runs and copied == 0


done = {"randread": 0} if how == "sendfile" else {"write": 0, "randread": 0}
runs = 0
while min(done.values()) < int(calls):
    op = min(done, key=done.get)
    command = [gannet, "bench", url, *OPTIONS.split(), op]
    rows = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    done[op] += json.loads(rows)["ops"]
    runs += 1
os.kill(int(server), signal.SIGTERM)
memory = last_words()
if not promised(memory):
    sys.exit(f"lab: {memory}")
