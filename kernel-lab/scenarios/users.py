"""What each of several users may do with files and folders of others; prints the outcome of every attempt.

Run in memory and on a mount, it must print the same and leave the same. `prepare FOLDER` makes the files, as root.
`act FOLDER UID` lets all users try; there the number of root is UID.
"""

import os
import stat
import sys

from lab import do

OWNER, GROUP = 1001, 2000
# Name, user and group number, other groups; a call can bear 16 of them.
USERS = [
    ("owner", OWNER, [GROUP]),
    ("member", 1002, [*range(1100, 1115), GROUP]),
    ("stranger", 1003, []),
]
FILE_MODES = (0o640, 0o604, 0o400, 0o200, 0o000, 0o711, 0o666)
FOLDER_MODES = (0o750, 0o711, 0o733, 0o777, 0o1777, 0o2775, 0o500)


def prepare():
    for mode in FILE_MODES:
        make(f"file-{mode:o}", mode)
    for mode in FOLDER_MODES:
        name = f"folder-{mode:o}"
        os.mkdir(name)
        make(f"{name}/of-owner", 0o666)
        os.mkdir(f"{name}/inner")
        give(name, mode)
    make("of-root", 0o600)
    os.chown("of-root", 0, 0)
    os.mkdir("folder-of-root", 0o755)


def make(name, mode):
    with open(name, "wb") as file:
        file.write(b"0123456789")
    give(name, mode)


def give(name, mode):
    os.chown(name, OWNER, GROUP)
    os.chmod(name, mode)


def become(user, groups):
    os.seteuid(0)
    os.setgroups(groups)
    os.setegid(user)
    os.seteuid(user)


def act(user):
    for mode in FILE_MODES:
        try_file(f"file-{mode:o}")
    for mode in FOLDER_MODES:
        try_folder(f"folder-{mode:o}", user)
    try_file("of-root")
    try_folder("folder-of-root", user)
    change("file-666")
    own_files(user)


def try_file(name):
    do(rights, name)
    do(read, name)
    do(write, name)


def try_folder(name, user):
    do(rights, name)
    do(entries, name)
    do(os.stat, f"{name}/of-owner")
    do(os.stat, f"{name}/none")
    do(write, f"{name}/of-owner")
    do(create, f"{name}/new")
    do(os.lstat, f"{name}/new")
    do(os.mkdir, f"{name}/new-folder")
    do(os.lstat, f"{name}/new-folder")
    do(os.symlink, "new", f"{name}/new-link")
    do(os.rename, f"{name}/of-owner", f"{name}/renamed")
    do(os.rename, f"{name}/renamed", f"{name}/of-owner")
    do(os.rename, f"{name}/new", f"folder-777/from-{name}-{user}")
    do(os.unlink, f"{name}/new-link")
    do(os.rmdir, f"{name}/new-folder")
    do(os.rmdir, f"{name}/inner")
    do(os.mkdir, f"{name}/inner")


def rights(name):
    return [os.access(name, right, effective_ids=True) for right in (os.R_OK, os.W_OK, os.X_OK)]


def read(name):
    with open(name, "rb") as file:
        return file.read()


def write(name):
    file = os.open(name, os.O_CREAT | os.O_WRONLY)
    os.write(file, b"01234")
    os.close(file)


def entries(folder):
    return sorted(os.listdir(folder))


def create(name):
    os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o640))


def change(name):
    """Attributes that only the owner or root may change, and a time that a writer may."""
    do(os.chmod, name, 0o666)
    do(os.utime, name, ns=(1, 10**18))
    do(os.utime, name)
    do(os.chown, name, 1003, -1)
    do(os.chown, name, -1, GROUP)
    do(os.chown, name, -1, 3000)
    do(os.truncate, name, 10)
    do(os.truncate, name, 9)
    do(os.lstat, name)


def own_files(user):
    name = f"folder-777/own-{user}"
    do(create, name)
    change(name)
    # Who opened a file goes on with it whatever its mode is now; who is not root clears set-user-ID by writing.
    file = do(os.open, name, os.O_RDWR)
    do(os.chmod, name, 0)
    do(os.write, file, b"still mine")
    do(os.fsync, file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    do(os.pread, file, 100, 0)
    do(os.chmod, name, 0o6777)
    do(os.lstat, name)
    do(os.pwrite, file, b"anything", 0)
    do(os.close, file)
    do(os.lstat, name)
    do(os.mkfifo, f"{name}-fifo", 0o600)
    do(os.mknod, f"{name}-device", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    do(os.lstat, f"{name}-device")
    do(os.link, name, f"{name}-link")
    do(os.unlink, f"{name}-device")


os.umask(0)
os.chdir(sys.argv[2])
if sys.argv[1] == "prepare":
    prepare()
else:
    for user_name, number, other_groups in [*USERS, ("root", int(sys.argv[3]), [])]:
        print(f"== {user_name}")
        become(number, other_groups)
        act(user_name)
