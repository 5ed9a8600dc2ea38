"""floating-address.py: two NFS servers of one volume, and a mount of the address that one of them has at a time."""

import ctypes
import os
import shutil
import socket
import subprocess
import sys
import time
import traceback

ADDRESS = "10.88.0.20"
MOUNT = "/mnt"


def run(*words):
    subprocess.run(words, check=True)


class Host:
    """A host with an NFS server of the volume: a network with a port at the bridge."""

    def __init__(self, number):
        self.number, self.name = number, f"nfs{number}"
        self.boots()

    def boots(self):
        run("ip", "netns", "add", self.name)
        peer = ["type", "veth", "peer", "name", "eth0", "netns", self.name]
        run("ip", "link", "add", f"port{self.number}", *peer)
        run("ip", "link", "set", f"port{self.number}", "master", "lan", "up")
        self.ip("link", "set", "lo", "up")
        for network in ("10.88.0", "10.89.0"):
            self.ip("address", "add", f"{network}.1{self.number}/24", "dev", "eth0")
        self.ip("link", "set", "eth0", "up")
        self.serves()

    def ip(self, *words):
        run("ip", "-n", self.name, *words)

    def serves(self):
        ready = f"/run/{self.name}.ready"
        if os.path.exists(ready):
            os.unlink(ready)
        serve = [os.environ["GANNET"], "serve", "--volume", "/run/nfs", "--role", "nfs", "--ready-file", ready]
        options = ["--nfs-tcp", "0.0.0.0:2049", "--nfs-rdma", "off", "--allow", "10.88.0.0/24", "--no-root-squash"]
        self.server = subprocess.Popen(["ip", "netns", "exec", self.name, *serve, *options])
        while not os.path.exists(ready):
            if self.server.poll() is not None:
                sys.exit("lab: the server has ended")
            time.sleep(0.1)

    def gets_address(self):
        self.ip("address", "add", f"{ADDRESS}/24", "dev", "eth0")
        self.announcing = announce(self.name)

    def says_nothing(self):
        """From here on replies to the client get lost. The volume is at another address of the same machine."""
        self.ip("route", "add", "blackhole", "10.88.0.1/32")

    def dies(self):
        """Its kernel too: that would remember connections of an address that comes back."""
        self.server.kill()
        self.server.wait()
        wait_for(self.announcing, "announcing the address")
        self.is_gone()

    def is_gone(self):
        # The kernel takes its time with the network of a name that is gone.
        run("ip", "link", "delete", f"port{self.number}")
        run("ip", "netns", "delete", self.name)

    def stops(self):
        self.server.terminate()
        if self.server.wait() != 0:
            sys.exit("lab: the server does not end well")

    def loses_address(self):
        wait_for(self.announcing, "announcing the address")
        self.ip("address", "delete", f"{ADDRESS}/24", "dev", "eth0")


def wait_for(child, what):
    if os.waitpid(child, 0)[1] != 0:
        sys.exit(f"lab: {what} fails")


def announce(host):
    """What `arping -A -c 3` does: the neighbours learn who has the address (RFC 5227 section 1.2).

    Linux does not believe the first of them when it has just used the address.
    """
    child = os.fork()
    if child != 0:
        return child
    network = os.open(f"/run/netns/{host}", os.O_RDONLY)
    set_network(network)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as link:
        link.bind(("eth0", 0x0806))
        own, address = link.getsockname()[4], socket.inet_aton(ADDRESS)
        head = bytes.fromhex("ffffffffffff") + own + bytes.fromhex("0806" "0001" "0800" "06" "04" "0002")
        for _ in range(3):
            link.send(head + own + address + bytes.fromhex("ffffffffffff") + address)
            time.sleep(1)
    os._exit(0)


def set_network(network):
    """`os.setns`, which earlier Pythons lack."""
    if ctypes.CDLL(None, use_errno=True).setns(network, 0x40000000) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def create(path):
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))


def names():
    """The names in the root, as the volume's own client sees them."""
    ls = [os.environ["GANNET"], "ls", "gannet://10.89.0.1/", "--volume-key", "/run/volume/client-key"]
    return subprocess.run(ls, check=True, capture_output=True, text=True).stdout.split()


def under_way(operation, *arguments, leaves=None, takes=None):
    """The server dies when it has done an operation and before it has said so; the other one gets its address."""
    global server, other
    print(operation.__name__, *arguments, flush=True)
    for name in arguments:
        # The kernel must not have to ask for it when no reply comes any more.
        os.path.lexists(f"{MOUNT}/{name}")
    server.says_nothing()
    child = os.fork()
    if child == 0:
        try:
            operation(*(f"{MOUNT}/{name}" for name in arguments))
        except OSError:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    until = time.monotonic() + 60
    while True:
        there = names()
        if takes not in there and (leaves is None or leaves in there):
            break
        if time.monotonic() > until:
            sys.exit(f"lab: {operation.__name__} is not done: {there}")
    if os.waitpid(child, os.WNOHANG) != (0, 0):
        sys.exit("lab: the reply was not lost")
    server.dies()
    other.gets_address()
    began = time.monotonic()
    wait_for(child, f"{operation.__name__} at the other server")
    print(f"answered after {time.monotonic() - began:.1f} s", flush=True)
    server.boots()
    server, other = other, server


server, other = Host(0), Host(1)
server.gets_address()
options = "vers=3,proto=tcp,port=2049,mountproto=tcp,mountport=2049,nolock,hard,timeo=50,actimeo=600"
run("mount", "-t", "nfs", "-o", options, f"{ADDRESS}:/", MOUNT)

# What the caller may do there is asked for once.
create(f"{MOUNT}/first")
os.unlink(f"{MOUNT}/first")
under_way(os.mkdir, "made", leaves="made")
under_way(os.rename, "made", "renamed", leaves="renamed", takes="made")
under_way(os.rmdir, "renamed", takes="renamed")
under_way(create, "file", leaves="file")
under_way(os.rename, "file", "other", leaves="other", takes="file")
under_way(os.unlink, "other", takes="other")
under_way(os.symlink, "target", "symlink", leaves="symlink")

# A tree is copied while the address moves, from servers that end as they should.
shutil.copytree("/run/lab/scenarios", "/run/tree", dirs_exist_ok=True)
for _ in range(3):
    child = os.fork()
    if child == 0:
        shutil.copytree("/run/tree", f"{MOUNT}/tree")
        os._exit(0)
    while not os.path.lexists(f"{MOUNT}/tree"):
        if os.waitpid(child, os.WNOHANG) != (0, 0):
            sys.exit("lab: the copy ended before it began")
        time.sleep(0.01)
    server.stops()
    server.loses_address()
    other.gets_address()
    wait_for(child, "the copy")
    run("diff", "--recursive", "/run/tree", f"{MOUNT}/tree")
    server.serves()
    server, other = other, server
    shutil.rmtree(f"{MOUNT}/tree")
if names() != ["symlink"]:
    sys.exit(f"lab: these are left: {names()}")
run("umount", MOUNT)
server.loses_address()
for host in (server, other):
    host.stops()
    host.is_gone()
