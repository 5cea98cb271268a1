"""What a stranger does not have. Every Python process that `run` starts begins here, and so do its children.

PyTorch cannot be imported. Connecting to another host raises an exception, and so does opening, listing or
looking for a path next to the checkout or in a home folder, or starting a browser. Since code may catch it,
each attempt is also noted in the file `reached`, which must be empty at the end.
"""

import functools
import os
import sys
from collections.abc import Callable
from importlib import machinery

FOLDER = os.environ["STRANGER"]
CHECKOUT = f"{FOLDER}/empty/rankfall"
REACHED = f"{FOLDER}/reached"
SAMPLES = f"{FOLDER}/empty/shared/data"  # tests/conftest.py may look whether it is there
# Of all these folders that a path is in, the deepest decides.
CLOSED = [FOLDER, *(place for place in os.environ["HIDDEN"].split(":") if place.strip("/"))]
OPEN = [CHECKOUT, f"{FOLDER}/tmp", f"{FOLDER}/bin", f"{FOLDER}/needs_data", sys.prefix, sys.base_prefix]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")

PATH_EVENTS = {"open", "os.listdir", "os.scandir", "os.chdir", "os.mkdir", "os.remove", "os.rename"}
ADDRESS_EVENTS = {"socket.connect", "socket.sendto", "socket.sendmsg"}
NAME_EVENTS = {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"}


class Reached(Exception):
    """Something was reached for that a stranger does not have."""


def reached(what: str) -> None:
    """Note it, with the name of the running test, and raise it."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "outside of the tests")
    line = f"{test}: {what}\n".encode()
    note = os.open(REACHED, os.O_WRONLY | os.O_APPEND)
    os.write(note, line)
    os.close(note)
    raise Reached(what)


def inside(path: str, folder: str) -> bool:
    """Is this path the folder, or in it?"""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def hidden(path: str) -> bool:
    """Does a stranger not have this path?"""
    around = [folder for folder in (*CLOSED, *OPEN) if inside(path, folder)]
    deepest = max(around, key=len, default=None)
    return deepest in CLOSED or (deepest is None and os.path.basename(path) in BROWSERS)


def absolute(path: object) -> str | None:
    """The absolute path; None for the number of an open file."""
    if not isinstance(path, str | bytes | os.PathLike):
        return None
    return os.path.abspath(os.fsdecode(path))


def loopback(host: object) -> bool:
    """Is this a name or an address of this machine?"""
    name = host.decode() if isinstance(host, bytes) else host
    return name in (None, "", "localhost", "::1") or str(name).startswith("127.")


def audit(event: str, args: tuple[object, ...]) -> None:
    """Refuse what is not there; Python's documentation has a table of the events and their arguments."""
    if event in PATH_EVENTS or event == "subprocess.Popen":
        path = absolute(args[0])
        if path is not None and path != REACHED and hidden(path):
            reached(f"{event} {path}")
    elif event in ADDRESS_EVENTS:
        if isinstance(args[1], tuple) and not loopback(args[1][0]):  # the address of a Unix socket is a path
            reached(f"{event} {args[1]}")
    elif event in NAME_EVENTS and not loopback(args[0]):
        reached(f"{event} {args[0]!r}")


def watched(plain: Callable) -> Callable:
    """This function of `os`, refusing what is not there: Python has no audit event for it."""

    @functools.wraps(plain)
    def look(path, *args, **kwargs):
        found = absolute(path) if kwargs.get("dir_fd") is None else None
        # To resolve a path every folder on the way to it is looked at.
        on_the_way = found is not None and any(inside(place, found) for place in (SAMPLES, *OPEN))
        if found is not None and hidden(found) and not on_the_way:
            reached(f"os.{plain.__name__} {found}")
        return plain(path, *args, **kwargs)

    for supported in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
        if plain in supported:
            supported.add(look)
    return look


class PathFinder(machinery.PathFinder):
    """Finds modules on sys.path, but not PyTorch; jaxtyping looks for it by this name."""

    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        """None if there is no such module."""
        if fullname.partition(".")[0] == "torch":
            return None
        return super().find_spec(fullname, path, target)


# The environment has the checkout installed that was cloned: its source is not there, either.
sys.path[:] = [place for place in sys.path if not hidden(os.path.abspath(place))]
sys.meta_path[sys.meta_path.index(machinery.PathFinder)] = PathFinder
for name in ("stat", "lstat", "access"):
    setattr(os, name, watched(getattr(os, name)))
sys.addaudithook(audit)
