"""How fast the provider for devices is: verbs-bench.py GANNET GANNET_LAB DEVICE ADDRESS VERBS SOFTWARE.

First come the fabric's operations, by `gannet-lab bench fabric` and by perftest, RUNS each in turns. Then comes
`gannet bench` on VERBS through the device and on SOFTWARE through the software RNIC, URLs of the same folder, in turns
too, and RUNS of `gannet-lab bench registration`. Each line gives the medians of both and their ratio. The program fails
when a client fails or measures nothing, and when an operation's ratio to perftest is beyond its floor.
"""

import json
import subprocess
import sys
import time
from statistics import median

RUNS = 5
MIB = 1 << 20

# Gannet's operation and its bytes; perftest's program, options and column; what turns that into Gannet's unit, 10^6 bytes a
# second or microseconds (ib_send_lat reports half of a round trip); the floor of the ratio. The aim is 0.9 of the bandwidth
# and 1.2 of the latency. In an emulated guest, runs differ by three to five times. So the floors are for medians of
# bandwidths, which were 0.9 to 2.5 with four to eight times as many busy threads as processors, and for the best of the
# latencies: each change of threads may wait there for the kernel's next tick, 4 ms. Those were 2.0 (rxe) and 3.3 to 3.8
# (siw) for single Reads, 1.7 and 0.5 for messages.
PERFTEST = {
    ("write", 65536): ("ib_write_bw", "-n 500", 3, MIB / 1e6, 0.4),
    ("write", MIB): ("ib_write_bw", "-n 100", 3, MIB / 1e6, 0.4),
    ("read", 65536): ("ib_read_bw", "-n 500", 3, MIB / 1e6, 0.4),
    ("read", MIB): ("ib_read_bw", "-n 100", 3, MIB / 1e6, 0.4),
    ("single-read", 4096): ("ib_read_lat", "-n 1000 -e", 4, 1, 6),
    ("round-trip", 64): ("ib_send_lat", "-n 1000 -e", 4, 2, 4),
}
FABRIC = "bench fabric --provider verbs --json --seconds 0.03 --memory 1M --device"
REGISTRATION = "bench registration --provider verbs --json --seconds 0.1 --device"
# Rows of its two tables: reaches of each strategy by size, mlock too, and data moved by each strategy, design and size.
REGISTRATION_ROWS = (5 * 4 * 5 + 5, 5 * 2 * 4)
BENCH = "--json --threads 1 --size 8M --seconds 0.3 --op write,read,randread,stat --record 4K,1M"

gannet, lab, device, address, verbs, software = sys.argv[1:]


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout


def log(*words):
    print(f"{time.monotonic():9.2f}", *words, file=sys.stderr, flush=True)


def fabric():
    """Gannet's figures, by operation and bytes."""
    log(lab, FABRIC)
    rows = [json.loads(line) for line in run(lab, *FABRIC.split(), address).splitlines()]
    figures = {(row["op"], row["size"]): row.get("mb_per_s") or row["p50_us"] for row in rows}
    log(figures)
    return figures


def listens():
    """Whether perftest's server accepts connections."""
    return any("LISTEN" in line and ":18515 " in line for line in run("rdma", "resource", "show", "cm_id").splitlines())


def perftest(size, program, options, column, factor):
    """A figure of perftest. Where it cannot make out the speed of an emulated clock, it gives up or shows 0: once more."""
    command = [program, "-d", device, "-R", "-F", "-s", str(size), *options.split()]
    for _ in range(5):
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        while not listens() and server.poll() is None:
            time.sleep(0.05)
        # On siw it hangs now and then.
        client = ["timeout", "60", *command, address]
        client = subprocess.run(client, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        server.kill()
        server.wait()
        lines = client.stdout.splitlines()
        head = [number for number, line in enumerate(lines) if line.startswith(" #bytes")]
        figure = float(lines[head[0] + 1].split()[column]) * factor if client.returncode == 0 and head else 0
        log(*command, figure)
        if figure > 0:
            return figure
    sys.exit(f"lab: {' '.join(command)}: {client.stdout}")


def compare_with_perftest():
    rounds = []
    for _ in range(RUNS):
        own = fabric()
        rounds.append((own, {cell: perftest(cell[1], *how[:4]) for cell, how in PERFTEST.items()}))
    print(f"{'fabric':25} {'bytes':>8} {'gannet':>9} {'perftest':>9} {'ratio':>6}  each run's")
    for cell in rounds[0][0]:
        own = [one[cell] for one, _ in rounds]
        if cell not in PERFTEST:
            print(f"{cell[0]:25} {cell[1]:8} {median(own):9.1f}")
            continue
        other = [one[cell] for _, one in rounds]
        ratios = " ".join(f"{a / b:.2f}" for a, b in zip(own, other))
        ratio = median(own) / median(other)
        print(f"{cell[0]:25} {cell[1]:8} {median(own):9.1f} {median(other):9.1f} {ratio:6.2f}  {ratios}", flush=True)
        floor = PERFTEST[cell][4]
        if cell[0] in ("read", "write"):
            is_beyond = ratio < floor
        else:
            ratio = min(own) / min(other)
            is_beyond = ratio > floor
        if is_beyond:
            sys.exit(f"lab: {cell[0]} of {cell[1]} bytes: {ratio:.2f} of perftest, not {floor}")


def measure(url, *options):
    """Operations a second, by the name of the operation and the bytes of its record."""
    rows = [json.loads(line) for line in run(gannet, "bench", url, *BENCH.split(), *options).splitlines()]
    figures = {(row["op"], row["record"]): row["ops_per_s"] for row in rows}
    if len(figures) != 7 or min(figures.values()) <= 0:
        sys.exit(f"lab: gannet bench {url} measures {figures}")
    return figures


def compare_with_software():
    rounds = [(measure(verbs, "--provider", "verbs"), measure(software)) for _ in range(RUNS)]
    print(f"{'operations a second':25} {'bytes':>8} {'verbs':>9} {'software':>9} {'ratio':>6}")
    for cell in rounds[0][0]:
        pairs = [(one[cell], other[cell]) for one, other in rounds]
        ratio = median(one / other for one, other in pairs)
        one, other = (median(column) for column in zip(*pairs))
        print(f"{cell[0]:25} {cell[1]:8} {one:9.1f} {other:9.1f} {ratio:6.2f}")


def registration():
    """The rows of both tables of one run, by what tells them apart."""
    log(lab, REGISTRATION)
    rows = [json.loads(line) for line in run(lab, *REGISTRATION.split(), address).splitlines()]
    moved = {(row["design"], row["what"], row["size"]): row for row in rows if "design" in row}
    alone = {(row["reach"], row["what"], row["size"]): row for row in rows if "design" not in row}
    if (len(alone), len(moved)) != REGISTRATION_ROWS or min(row["mb_per_s"] for row in moved.values()) <= 0:
        sys.exit(f"lab: gannet-lab bench registration measures {rows}")
    return alone, moved


def spread(values):
    """How far runs lie apart: the most over the least."""
    return max(values) / max(min(values), 1e-9)


def strategies():
    """Memory registered by each strategy, and data moved by it, beside the first one."""
    rounds = [registration() for _ in range(RUNS)]
    print(f"{'registration':38} {'bytes':>8} {'us':>8} {'release':>8} {'ratio':>6} {'spread':>6}")
    times = {cell: [one[cell]["register_us"] + one[cell]["release_us"] for one, _ in rounds] for cell in rounds[0][0]}
    for (reach, what, size), values in times.items():
        register, release = (
            median(one[reach, what, size][part] for one, _ in rounds) for part in ("register_us", "release_us")
        )
        first = times.get((reach, "dynamic", size), values)
        ratio = median(values) / median(first)
        name = f"{what} {reach or ''}"
        print(f"{name:38} {size:8} {register:8.1f} {release:8.1f} {ratio:6.2f} {spread(values):6.1f}")
    print(f"{'moved':38} {'bytes':>8} {'MB/s':>8} {'ratio':>6} {'spread':>6} {'made':>6} {'copies':>6} {'fallbacks':>9}")
    rates = {cell: [two[cell]["mb_per_s"] for _, two in rounds] for cell in rounds[0][1]}
    for (design, what, size), values in rates.items():
        ratio = median(values) / median(rates[design, "dynamic", size])
        row = rounds[0][1][design, what, size]
        counts = f"{row['registrations']:6.2f} {row['copies']:6.2f} {row['fallbacks']:9.2f}"
        name = f"{design} {what}"
        print(f"{name:38} {size:8} {median(values):8.1f} {ratio:6.2f} {spread(values):6.1f} {counts}", flush=True)


compare_with_perftest()
compare_with_software()
strategies()
