"""once.py FOLDER: does what cannot be done twice, until the standard input ends. Each must succeed, and have been done."""

import os
import select
import sys

os.chdir(sys.argv[1])
rounds = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    os.mkdir("folder")
    os.close(os.open("folder/file", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    os.link("folder/file", "folder/link")
    os.rename("folder/file", "folder/other")
    os.symlink("other", "folder/file")
    for name in ("file", "link", "other"):
        os.unlink("folder/" + name)
    os.rmdir("folder")
    rounds += 1
print(rounds, "rounds")
