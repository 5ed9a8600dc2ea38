"""What `gannet bench` measures through a device and through the software RNIC: verbs-bench.py GANNET VERBS SOFTWARE.

VERBS and SOFTWARE are URLs of the same folder. Rounds go from one to the other, so that what else the machine does falls
on both. A line for each operation gives the medians of both, and of the rounds' own ratios, verbs to software. It is an
error when a client fails, or measures nothing.
"""

import json
import subprocess
import sys
from statistics import median

ROUNDS = 7
ARGUMENTS = "--json --threads 1 --size 8M --seconds 0.3 --op write,read,randread,stat --record 4K,1M"

gannet, verbs, software = sys.argv[1:]


def measure(url, *options):
    """Operations a second, by the name of the operation and the bytes of its record."""
    command = [gannet, "bench", url, *ARGUMENTS.split(), *options]
    output = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    rows = [json.loads(line) for line in output.splitlines()]
    figures = {(row["op"], row["record"]): row["ops_per_s"] for row in rows}
    if len(figures) != 7 or min(figures.values()) <= 0:
        sys.exit(f"lab: {' '.join(command)} measures {figures}")
    return figures


def main():
    rounds = [(measure(verbs, "--provider", "verbs"), measure(software)) for _ in range(ROUNDS)]
    print(f"{'operations a second':20} {'bytes':>8} {'verbs':>9} {'software':>9} {'ratio':>6}")
    for cell in rounds[0][0]:
        pairs = [(one[cell], other[cell]) for one, other in rounds]
        ratio = median(one / other for one, other in pairs)
        one, other = (median(column) for column in zip(*pairs))
        print(f"{cell[0]:20} {cell[1]:8} {one:9.1f} {other:9.1f} {ratio:6.2f}")


main()
