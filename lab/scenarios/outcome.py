"""What the programs of the scenarios print of an operation."""

import errno
import os
import stat


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
