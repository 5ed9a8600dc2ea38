"""10,000 READs and WRITEs of 64 KiB of a server that keeps its registrations: verbs-cache.py GANNET URL SERVER LOG.

SERVER is its process, which is ended. Its last words in LOG, in JSON, must say that it registered memory during the first
of the calls alone, and that its strategy copied nothing: so a READ has the one copy from the page cache.
"""

import json
import os
import signal
import subprocess
import sys
import time

CALLS = 10000
# Slots of the server's memory that operations in flight need at a time, with those that wait for the disk.
SLOTS = 64
# Other memory that is registered for one use, in one run of the benchmark: lists of the folder that it makes and removes.
LISTS_OF_A_RUN = 10
OPTIONS = "--provider verbs --json --threads 1 --in-flight 4 --record 64K --size 16M --seconds 10 --op"

gannet, url, server, log = sys.argv[1:]


def last_words():
    """What the server says of its registrations when it ends."""
    while True:
        lines = [json.loads(line) for line in open(log) if line.endswith("\n")]
        said = [line for line in lines if line["message"] == "registered memory"]
        if said:
            return said[0]
        time.sleep(0.1)


done = {"write": 0, "randread": 0}
runs = 0
while min(done.values()) < CALLS:
    op = min(done, key=done.get)
    command = [gannet, "bench", url, *OPTIONS.split(), op]
    rows = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    done[op] += json.loads(rows)["ops"]
    runs += 1
os.kill(int(server), signal.SIGTERM)
memory = last_words()
used, lists, copied = (memory[name] for name in ("hits", "fallbacks", "copied_bytes"))
made = memory["registrations"] - lists
print(f"server-cache: {done['randread']} READs and {done['write']} WRITEs used {made} registrations {used} times, {copied} bytes copied")
print(f"registered for one use: {lists} lists of {runs} runs")
if used + made < sum(done.values()) or made > SLOTS or lists > LISTS_OF_A_RUN * runs or copied:
    sys.exit(f"lab: {memory}")
