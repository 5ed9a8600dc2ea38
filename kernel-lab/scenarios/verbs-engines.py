"""READs from servers with different options, beside the first of them: verbs-engines.py GANNET NAME=URL...

All serve the same folder through the same device. RUNS of `gannet bench` go round them in turns. Each line has the
median of the runs, the median of their ratios to the first server, and each ratio. The program fails when a client fails
or measures nothing.
"""

import json
import subprocess
import sys
import time
from statistics import median

RUNS = 5
OPTIONS = "--provider verbs --json --threads 1 --in-flight 4 --size 16M --seconds 1 --op randread --record 64K,1M"

gannet, *servers = sys.argv[1:]
urls = dict(server.split("=", 1) for server in servers)
first = next(iter(urls))


def measure(url):
    """READs a second, by their bytes."""
    command = [gannet, "bench", url, *OPTIONS.split()]
    output = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    figures = {row["record"]: row["ops_per_s"] for row in map(json.loads, output.splitlines())}
    print(f"{time.monotonic():9.2f}", url, figures, file=sys.stderr, flush=True)
    if len(figures) != 2 or min(figures.values()) <= 0:
        sys.exit(f"lab: gannet bench {url} measures {figures}")
    return figures


rounds = [{name: measure(url) for name, url in urls.items()} for _ in range(RUNS)]
print(f"{'READs a second':20} {'bytes':>8} {'ops/s':>9} {'ratio':>6}  each run's")
for size in rounds[0][first]:
    for name in urls:
        ratios = [one[name][size] / one[first][size] for one in rounds]
        each = " ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"{name:20} {size:8} {median(one[name][size] for one in rounds):9.1f} {median(ratios):6.2f}  {each}")
