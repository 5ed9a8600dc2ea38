"""What the scenarios' programs share."""

import errno
import os
import stat
import sys


def do(operation, *arguments, **options):
    """Prints what an operation gives, be it an error, and returns it."""
    try:
        result = operation(*arguments, **options)
        shown = attributes(result) if isinstance(result, os.stat_result) else result
    except OSError as error:
        result, shown = None, errno.errorcode[error.errno]
    print(operation.__name__, *map(repr, arguments), options or "", "->", shown)
    return result


def attributes(found):
    """What file systems must agree on: a directory's size and the time of a change are their own affair."""
    fields = [stat.filemode(found.st_mode), found.st_nlink, found.st_uid, found.st_gid]
    if not stat.S_ISDIR(found.st_mode):
        fields.append(found.st_size)
    if stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode):
        fields += [os.major(found.st_rdev), os.minor(found.st_rdev)]
    return fields


def host(request):
    """Asks the host for something, as lib.sh does."""
    status = os.waitstatus_to_exitcode(os.system(f". /run/lab/guest/lib.sh; host {request}"))
    if status != 0:
        sys.exit(f"host {request}: status {status}")


def noise(size, start):
    """Bytes of the file /run/noise, which the scenario makes."""
    if not _noise:
        with open("/run/noise", "rb") as file:
            _noise.append(file.read())
    return _noise[0][start : start + size]


_noise = []
