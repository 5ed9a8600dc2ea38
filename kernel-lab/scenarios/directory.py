"""A folder of many entries: `fill FOLDER COUNT`, `names FOLDER`, `list FOLDER` (with attributes), `remove FOLDER`."""

import os
import stat
import sys


def fill(folder, count):
    os.mkdir(folder)
    os.chdir(folder)
    for number in range(int(count)):
        name = f"{number:05}" + "-with-a-longer-name" * (number % 5)
        if number % 200 == 0:
            os.mkdir(name)
        elif number % 200 == 1:
            os.close(os.open(name, os.O_CREAT))
        else:
            os.symlink("x" * (1 + number % 100), name)


def names(folder):
    print(*sorted(os.listdir(folder)), sep="\n")


def show(folder):
    """Asks for attributes while it lists, so that the kernel's client goes on with READDIRPLUS."""
    lines = []
    with os.scandir(folder) as entries:
        for entry in entries:
            found = entry.stat(follow_symlinks=False)
            size = "" if stat.S_ISDIR(found.st_mode) else found.st_size
            lines.append(f"{entry.name} {stat.filemode(found.st_mode)} {size} {entry.inode() == found.st_ino}")
    print(*sorted(lines), sep="\n")


def remove(folder):
    """Removes what is listed while it is listed."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                os.rmdir(entry.path)
            else:
                os.unlink(entry.path)
    os.rmdir(folder)


os.umask(0)
{"fill": fill, "names": names, "list": show, "remove": remove}[sys.argv[1]](*sys.argv[2:])
