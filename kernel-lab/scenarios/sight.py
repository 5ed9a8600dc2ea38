"""Who sees what, and when: the cells of the table in docs/mounting.md, tried on one kind of file system.

    sight.py [--expect KIND] HERE ELSEWHERE

`HERE` and `ELSEWHERE` are the same directory as two hosts see it: two mounts, or one local directory twice. "This
program" changes a file in `HERE`. A second descriptor of it (`self`), another program (`program`), a program of another
user (`user`, if root runs this) and a program in `ELSEWHERE` (`host`) look at it. The script prints a line for each
cell. With `--expect`, a cell whose outcome is not in the column `KIND` of `sight.expected` is an error.
"""

import argparse
import errno
import fcntl
import mmap
import os
import pickle
import shutil
import signal
import stat
import sys
import tempfile
import time

# Seconds in which a change is seen that hosts see within the age of their attributes, on the slowest machine; and the
# seconds after which a change counts as never seen where that is expected.
SEEN_WITHIN, NEVER_WITHIN = 30, 3
# A cell that takes longer hangs.
CELL_LIMIT = 120
# A user other than root, who owns no file.
USER = 54_321
# Some pages, and no whole number of them.
OLD, NEW, MORE = b"o" * 10_000, b"n" * 10_000, b"m" * 5_000
# Moments in their order. A cell that expects one of them, but "never", admits an earlier one.
MOMENTS = ["at once", "after msync", "after fsync", "after close", "next open", "in time", "never"]


class Program:
    """What one program does with files of one directory. Descriptors and mappings have names."""

    def __init__(self, folder):
        self.folder = folder
        self.files = {}
        self.maps = {}

    def path(self, name):
        return os.path.join(self.folder, name)

    def open(self, key, name, flags=os.O_RDONLY):
        self.files[key] = os.open(self.path(name), flags)

    def close(self, key):
        if key in self.maps:
            self.maps.pop(key).close()
        if key in self.files:
            os.close(self.files.pop(key))

    def read(self, key, offset=0):
        return os.pread(self.files[key], 1 << 20, offset)

    def write(self, key, data, offset=0):
        return os.pwrite(self.files[key], data, offset)

    def append(self, key, data):
        return os.write(self.files[key], data)

    def fsync(self, key):
        os.fsync(self.files[key])

    def truncate(self, key, length):
        os.ftruncate(self.files[key], length)

    def length(self, key):
        return os.fstat(self.files[key]).st_size

    def flock(self, key, operation):
        fcntl.flock(self.files[key], operation)

    def lockf(self, key, operation):
        fcntl.lockf(self.files[key], operation)

    def map(self, key, access):
        self.maps[key] = mmap.mmap(self.files[key], len(OLD), access=access)

    def peek(self, key):
        return self.maps[key][:]

    def poke(self, key, data):
        self.maps[key][:] = data

    def msync(self, key):
        self.maps[key].flush()

    def stat(self, name):
        found = os.stat(self.path(name))
        return {"size": found.st_size, "mode": stat.S_IMODE(found.st_mode)}

    def content(self, name):
        """The file as a program reads it that opens it now."""
        with open(self.path(name), "rb") as file:
            return file.read()

    def make(self, name, data):
        """Makes a file with a time in the past: each later change gives it another time."""
        with open(self.path(name), "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), 0o666)
        os.utime(self.path(name), (1_000_000_000, 1_000_000_000))

    def rewrite(self, name, data):
        with open(self.path(name), "wb") as file:
            file.write(data)

    def names(self):
        return sorted(os.listdir(self.folder))

    def chmod(self, name, mode):
        os.chmod(self.path(name), mode)

    def rename(self, old, new):
        os.rename(self.path(old), self.path(new))

    def remove(self, name):
        os.unlink(self.path(name))


class Child:
    """A [`Program`] in a process of its own."""

    def __init__(self, folder, user=None):
        ours, theirs = os.pipe(), os.pipe()
        self.process = os.fork()
        if self.process == 0:
            os.close(ours[1])
            os.close(theirs[0])
            try:
                serve(Program(folder), os.fdopen(ours[0], "rb"), os.fdopen(theirs[1], "wb"), user)
            finally:
                os._exit(1)
        os.close(ours[0])
        os.close(theirs[1])
        self.requests, self.replies = os.fdopen(ours[1], "wb"), os.fdopen(theirs[0], "rb")

    def begin(self, operation, *arguments):
        pickle.dump((operation, arguments), self.requests)
        self.requests.flush()

    def end(self):
        """Waits for the result of the operation that began."""
        result = pickle.load(self.replies)
        if isinstance(result, Exception):
            raise result
        return result

    def __getattr__(self, operation):
        def call(*arguments):
            self.begin(operation, *arguments)
            return self.end()

        return call

    def kill(self):
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)


def serve(program, requests, replies, user):
    """Does what the parent asks for, as this user, until it ends."""
    signal.alarm(0)
    if user is not None:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    while True:
        try:
            operation, arguments = pickle.load(requests)
        except EOFError:
            os._exit(0)
        try:
            result = getattr(program, operation)(*arguments)
        except Exception as error:
            result = error
        pickle.dump(result, replies)
        replies.flush()


class Cell:
    """This program and who looks at what it does, with a file of this cell."""

    def __init__(self, operation, observer, programs, patience):
        self.name = f"{operation}-{observer}"
        self.patience = patience
        self.is_elsewhere = observer == "host"
        self.this = programs["self"]
        self.other = programs[observer]
        # A program on the other host than the observer's.
        self.far = programs["self" if self.is_elsewhere else "host"]
        self.programs = programs

    def start(self, mode=os.O_RDONLY):
        """Makes the file and opens it for both. The observer has its content and its attributes in its caches."""
        self.this.make(self.name, OLD)
        self.this.open("mine", self.name, os.O_RDWR)
        self.other.open("seen", self.name, mode)
        assert self.other.read("seen") == OLD
        # In this order: a read makes the time of access old.
        assert self.other.length("seen") == self.other.stat(self.name)["size"] == len(OLD)

    def when(self, look, *later):
        """The moment at which something is seen: at once, after the first of some acts, or in time without any."""
        if look():
            return "at once"
        for moment, act in later:
            act()
            if look():
                return moment
        until = time.monotonic() + self.patience
        while time.monotonic() < until:
            time.sleep(0.02)
            if look():
                return "in time"
        return "never"

    def sees_anew(self, data):
        """Whether the observer reads this when it opens the file."""
        return lambda: self.other.content(self.name) == data

    def after_fsync(self):
        return ("after fsync", lambda: self.this.fsync("mine"))

    def after_close(self):
        return ("after close", lambda: self.this.close("mine"))

    def after_open(self):
        return ("next open", lambda: self.other.content(self.name))


# The operations of the table. Each returns the outcome, or fails with an error, which is the outcome then.


def open_(cell):
    """The content of a file that this program has closed, at the next open."""
    cell.this.make(cell.name, OLD)
    assert cell.other.content(cell.name) == OLD
    cell.this.rewrite(cell.name, MORE)
    return cell.when(cell.sees_anew(MORE))


def read(cell):
    """The content of a file after fsync(2), read by a descriptor that was open before."""
    cell.start()
    return when_synced(cell)


def read_write(cell):
    """The same by a descriptor that is open for writing too."""
    cell.start(os.O_RDWR)
    return when_synced(cell)


def when_synced(cell):
    cell.this.write("mine", NEW)
    cell.this.fsync("mine")
    return cell.when(lambda: cell.other.read("seen") == NEW)


def write(cell):
    """Written bytes, for a program that opens the file."""
    cell.start()
    cell.this.write("mine", NEW)
    return cell.when(cell.sees_anew(NEW), cell.after_fsync(), cell.after_close())


def append(cell):
    """Where O_APPEND writes, if another program appended to the open file since."""
    cell.this.make(cell.name, OLD)
    for program, key in [(cell.this, "mine"), (cell.other, "seen")]:
        program.open(key, cell.name, os.O_WRONLY | os.O_APPEND)
    for program, key, data in [(cell.this, "mine", NEW), (cell.other, "seen", MORE), (cell.this, "mine", NEW)]:
        program.append(key, data)
        program.fsync(key)
    whole = OLD + NEW + MORE + NEW
    cell.this.close("mine")
    cell.other.close("seen")
    return "at the end" if cell.this.content(cell.name) == whole else "over others"


def stat_(cell):
    """The length after a write, by path."""
    cell.start()
    cell.this.write("mine", MORE, len(OLD))
    length = len(OLD) + len(MORE)
    return cell.when(lambda: cell.other.stat(cell.name)["size"] == length, cell.after_fsync())


def truncate(cell):
    """The length after ftruncate(2), by a descriptor that was open before."""
    cell.start()
    cell.this.truncate("mine", 7)
    return cell.when(lambda: cell.other.length("seen") == 7 and cell.other.read("seen") == OLD[:7])


def chmod(cell):
    """The mode after chmod(2)."""
    cell.this.make(cell.name, OLD)
    assert cell.other.stat(cell.name)["mode"] == 0o666
    cell.this.chmod(cell.name, 0o644)
    return cell.when(lambda: cell.other.stat(cell.name)["mode"] == 0o644)


def create(cell):
    """A new name that was looked for before."""
    # Linux's client trusts the second answer: the first one shows that the directory has changed.
    for _ in range(2):
        if outcome(lambda: cell.other.content(cell.name)) != "ENOENT":
            return "there before"
    cell.this.make(cell.name, OLD)
    return cell.when(lambda: outcome(lambda: cell.other.content(cell.name)) is None)


def list_(cell):
    """A new name in a directory that was listed before."""
    for _ in range(2):
        if cell.name in cell.other.names():
            return "there before"
    cell.this.make(cell.name, OLD)
    return cell.when(lambda: cell.name in cell.other.names())


def flock(cell):
    """Another's flock(2), as long as this program has one."""
    return conflict(cell, "flock")


def fcntl_(cell):
    """The same with fcntl(2)."""
    return conflict(cell, "lockf")


def conflict(cell, lock):
    cell.start(os.O_RDWR)
    getattr(cell.this, lock)("mine", fcntl.LOCK_EX)
    try:
        getattr(cell.other, lock)("seen", fcntl.LOCK_EX | fcntl.LOCK_NB)
        return "granted"
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise
    if isinstance(cell.other, Child):
        cell.other.begin(lock, "seen", fcntl.LOCK_EX)
        getattr(cell.this, lock)("mine", fcntl.LOCK_UN)
        cell.other.end()
    return "waits"


def unlock(cell):
    """Bytes written under a lock, read under the next lock by a descriptor that was open before."""
    cell.start()
    cell.this.flock("mine", fcntl.LOCK_EX)
    cell.this.write("mine", NEW)
    cell.this.flock("mine", fcntl.LOCK_UN)
    cell.other.flock("seen", fcntl.LOCK_EX)
    return cell.when(lambda: cell.other.read("seen") == NEW, cell.after_open())


def mmap_(cell):
    """Bytes stored into a shared mapping, for a program that opens the file."""
    cell.start()
    cell.this.map("mine", mmap.ACCESS_WRITE)
    cell.this.poke("mine", NEW)
    msync = ("after msync", lambda: cell.this.msync("mine"))
    return cell.when(cell.sees_anew(NEW), msync, cell.after_close())


def mapped(cell):
    """Written bytes after fsync(2), in a mapping that was read before."""
    cell.start()
    cell.other.map("seen", mmap.ACCESS_READ)
    assert cell.other.peek("seen") == OLD
    cell.this.write("mine", NEW)
    cell.this.fsync("mine")
    return cell.when(lambda: cell.other.peek("seen") == NEW, cell.after_open())


def refuse(cell):
    """An open after the other host took the right to it away, which this host does not know yet."""
    cell.this.make(cell.name, OLD)
    assert cell.other.content(cell.name) == OLD
    cell.far.chmod(cell.name, 0o600)
    cell.other.open("seen", cell.name)
    return "open"


def error(cell):
    """The errors of write, fsync, fsync and close by a user who lost the right to write, or of the observer's fsync."""
    user = cell.programs["user"]
    cell.this.make(cell.name, OLD)
    user.open("mine", cell.name, os.O_RDWR)
    cell.other.open("seen", cell.name, os.O_RDWR)
    cell.far.chmod(cell.name, 0o600)
    steps = [lambda: user.write("mine", NEW), lambda: user.fsync("mine"), lambda: user.fsync("mine")]
    steps.append(lambda: user.close("mine"))
    if cell.other is not user:
        for step in steps:
            outcome(step)
        return outcome(lambda: cell.other.fsync("seen")) or "none"
    return " ".join(filter(None, map(outcome, steps))) or "none"


def outcome(act):
    """The name of the error, if there is one."""
    try:
        act()
    except OSError as error:
        return errno.errorcode[error.errno]


def replace(cell):
    """A file that is open while this program renames another over it."""
    open_unread(cell)
    cell.this.make("new", NEW)
    cell.this.rename("new", cell.name)
    return {OLD: "the old", NEW: "the new"}[cell.other.read("seen")]


def replaced(cell):
    """The content at the next open after that. This program has the file closed."""
    cell.start()
    cell.this.close("mine")
    return when_replaced(cell)


def replaced_open(cell):
    """The same while this program still has the old file open."""
    cell.start()
    return when_replaced(cell)


def when_replaced(cell):
    cell.this.make("new", NEW)
    cell.this.rename("new", cell.name)
    return cell.when(cell.sees_anew(NEW))


def remove(cell):
    """A file that is open while this program removes it."""
    open_unread(cell)
    cell.this.remove(cell.name)
    assert cell.other.read("seen") == OLD
    return "the old"


def removed(cell):
    """The next open after that. This program has the file closed."""
    cell.start()
    cell.this.close("mine")
    return when_removed(cell)


def removed_open(cell):
    """The same while this program still has the file open."""
    cell.start()
    return when_removed(cell)


def when_removed(cell):
    cell.this.remove(cell.name)
    return cell.when(lambda: outcome(lambda: cell.other.content(cell.name)) == "ENOENT")


def open_unread(cell):
    """The observer has the file open and none of its bytes. This program has it closed."""
    cell.far.make(cell.name, OLD)
    cell.other.open("seen", cell.name)


ALL = ["self", "program", "user", "host"]
# The operations, and who looks.
OPERATIONS = [
    *((operation, ALL) for operation in (open_, read, read_write, write, append, stat_, truncate, chmod, create, list_)),
    *((operation, ALL) for operation in (flock, fcntl_, unlock, mmap_, mapped)),
    (refuse, ["user"]),
    (error, ["user", "program"]),
    *((operation, ALL) for operation in (replace, replaced, replaced_open, remove, removed, removed_open)),
]


def cells(programs, expected):
    """Runs all cells: their operation and observer, the outcome, and the seconds that it took."""
    for operation, observers in OPERATIONS:
        name = operation.__name__.strip("_").replace("_", "-")
        for observer in observers:
            # The cells `error` are about a user, whoever looks.
            if observer not in programs or (name == "error" and "user" not in programs):
                continue
            is_never = expected.get((name, observer)) == "never"
            cell = Cell(name, observer, programs, NEVER_WITHIN if is_never else SEEN_WITHIN)
            signal.alarm(CELL_LIMIT)
            since = time.monotonic()
            seen = tried(operation, cell)
            yield name, observer, seen, time.monotonic() - since
            for program in programs.values():
                for key in ("mine", "seen"):
                    # The cells `error` leave descriptors whose errors are known.
                    outcome(lambda: program.close(key))


def tried(operation, cell):
    """The outcome of a cell, which may be an error of the file system."""
    try:
        return operation(cell)
    except OSError as error:
        return errno.errorcode[error.errno]
    except BaseException:
        print(f"in the cell {cell.name}", file=sys.stderr)
        raise


def table(kind):
    """The outcomes that are expected of a kind of file system: by operation and observer."""
    with open(os.path.splitext(__file__)[0] + ".expected", encoding="utf-8") as file:
        rows = [line.split("|") for line in file if line.strip() and not line.startswith("#")]
    rows = [[field.strip() for field in row] for row in rows]
    column = rows[0].index(kind)
    expected = {}
    for row in rows[1:]:
        for observer in row[1].split():
            expected[row[0], observer] = row[column]
    return expected


def is_expected(seen, expected):
    if seen in MOMENTS and expected in MOMENTS[:-1]:
        return MOMENTS.index(seen) <= MOMENTS.index(expected)
    return seen == expected


def compare(programs, kind):
    """Prints all cells; the number of wrong ones."""
    expected = table(kind) if kind else {}
    wrong = 0
    for operation, observer, seen, took in cells(programs, expected):
        line = f"{operation:14} {observer:8} {seen}"
        print(f"{line:40} {took:.2f} s" if took > 0.5 else line, flush=True)
        should = expected[operation, observer] if kind else seen
        if not is_expected(seen, should):
            wrong += 1
            print(f"wrong: {operation}, seen by {observer}, on {kind}: expected {should}, saw {seen}", flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--expect", metavar="KIND")
    parser.add_argument("here")
    parser.add_argument("elsewhere")
    options = parser.parse_args()
    os.umask(0)
    folder = tempfile.mkdtemp(prefix="sight-", dir=options.here)
    os.chmod(folder, 0o777)
    elsewhere = os.path.join(options.elsewhere, os.path.basename(folder))
    programs = {"self": Program(folder), "program": Child(folder), "host": Child(elsewhere)}
    if os.geteuid() == 0:
        programs["user"] = Child(folder, USER)
    try:
        wrong = compare(programs, options.expect)
    finally:
        signal.alarm(0)
        for program in programs.values():
            if isinstance(program, Child):
                program.kill()
    shutil.rmtree(folder)
    sys.exit(1 if wrong else 0)


def hang(_signal, _frame):
    raise RuntimeError("it hangs")


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, hang)
    main()
