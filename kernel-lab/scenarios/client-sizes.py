"""client-sizes.py FOLDER: makes a folder of files of awkward sizes."""

import os
import sys

# What needs a pad, where WRITEs stop going inline (behind a multiple of 4 that depends on the host's name), pages, blocks.
SIZES = [
    *range(6),
    *(3839, 3840, 3841, 3863, 3864, 3865, 3866),
    *(multiple + odd for multiple in range(3888, 3940, 4) for odd in (0, 1)),
    *(4095, 4096, 4097),
    *(65535, 65536, 65537),
    *(1048575, 1048576, 1048577, 3000001),
]
os.mkdir(sys.argv[1])
os.chdir(sys.argv[1])
for size in SIZES:
    with open(f"{size}", "wb") as file:
        file.write(os.urandom(size))
# Islands of data in a file of holes, so that writes begin anywhere.
with open("islands", "wb") as file:
    for offset in (3, 70000, 300000, 1044000, 2100001):
        file.seek(offset)
        file.write(os.urandom(5001))
