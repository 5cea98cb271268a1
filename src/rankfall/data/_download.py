"""Real data from their mirrors: fetched beside the cache, verified, and only then kept."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from .._progress import Progress, progress
from . import _store as store
from ._catalogue import File, RealSet, real_set
from ._recognise import recognise

if TYPE_CHECKING:
    import requests

_TRIES = 2
_PATIENCE = (10.0, 30.0)  # seconds to connect, and of silence
_CHUNK = 2**16


def fetch(name: str) -> Path:
    """Fetch a set of real data into the cache, unless it is there; returns the folder with its files.

    Every mirror is tried, and tried again. The environment variable RANKFALL_MIRROR is the address of a
    mirror of your own, which is tried first: it serves `<address>/<set>/<file>`. What is fetched must
    have the known checksum; what has not is put aside, never used. What is here and damaged is replaced.
    """
    bring(real_set(name))
    return store.folder() / name


def bring(each: RealSet) -> int:
    """How many downloads it took to have the set here: none if it was, or if another process brought it."""
    if _complete(each):
        return 0
    if not each.downloads:
        raise ValueError(
            f"{each.title} has no download whose content could be verified: {store.how_to_get(each)}"
        )
    came = 0
    with store.writing() as incoming:
        if not _complete(each):  # it may have come while this process waited
            for number, download in enumerate(each.downloads, start=1):
                if not _has_come(each, download):
                    of = f" ({number} of {len(each.downloads)})" if len(each.downloads) > 1 else ""
                    _keep_all(each, _fetched(each, download, incoming, of), incoming)
                    came += 1
    return came


def _complete(each: RealSet) -> bool:
    return all(store.is_kept(each, file) for file in each.files)


def _has_come(each: RealSet, download: File) -> bool:
    """Is what this download holds here already? Only told where it holds one file, of the same name."""
    kept = [file for file in each.files if download.name in (file.name, f"{file.name}.gz")]
    return any(store.is_kept(each, file) for file in kept)


def _keep_all(each: RealSet, path: Path, incoming: Path) -> None:
    """Keep the files of the set that a verified download holds."""
    for found in recognise(path):
        if found.known is not None and found.known[0].name == each.name:
            store.keep(*found.known, found.content, incoming)
    path.unlink()


def _fetched(each: RealSet, download: File, incoming: Path, of: str) -> Path:
    """The download, verified, from the first mirror that has it."""
    import requests

    tried = []
    with progress(f"fetching {each.title}{of}") as shown:
        for address in [a for a in _addresses(each, download) for _ in range(_TRIES)]:
            path = incoming / download.name
            try:
                _transfer(address, path, download.size, shown)
            except (requests.RequestException, _Refused) as error:
                tried.append(f"{address}: {_reason(error)}")
                continue
            fault = download.fault(path.read_bytes())
            if fault is None:
                return path
            aside = store.set_aside(path, f"{each.name}-{download.name}")
            tried.append(f"{address}: what came {fault}; it is not used, and kept aside as {aside}")
    raise ValueError(_nothing_came(each, download, list(map(_without_password, tried))))


def _addresses(each: RealSet, download: File) -> list[str]:
    own = os.environ.get("RANKFALL_MIRROR")
    if own and not _is_address(own):
        raise ValueError(
            "RANKFALL_MIRROR must be an address like https://mirror.example/data, "
            f"not {_without_password(own)!r}."
        )
    first = [f"{own.rstrip('/')}/{each.name}/{download.name}"] if own else []
    return first + [mirror + download.name for mirror in each.mirrors]


def _is_address(text: str) -> bool:
    try:
        return urlsplit(text).scheme in ("http", "https")
    except ValueError:  # brackets that hold no IPv6 address
        return False


def _without_password(text: str) -> str:
    """The text without the name and the password that an address in it may start with."""
    return re.sub(r"(?<=//)\S*@|^[^/\s]*@", "", text)


class _Refused(Exception):
    """A mirror that does what no mirror should."""


class _Meter:
    """Whom pooch tells after each piece; it looks at the file itself, and stops one that grows too long."""

    def __init__(self, path: Path, size: int, shown: Progress):
        self.total, self._path, self._size, self._shown = 0, path, size, shown

    def update(self, _: int) -> None:
        done = self._path.stat().st_size
        if done > self._size:
            raise _Refused(f"it sends more than the {self._size:,} bytes of the file")
        self._shown.update(done / self._size, store.size_text(self._size))

    def reset(self) -> None:
        pass

    def close(self) -> None:
        pass


def _transfer(address: str, path: Path, size: int, shown: Progress) -> None:
    import pooch

    # Compressed on the way it would arrive unpacked, and its checksum be another one.
    plain = {"Accept-Encoding": "identity"}
    get = pooch.HTTPDownloader(
        progressbar=_Meter(path, size, shown),
        chunk_size=_CHUNK,
        timeout=_PATIENCE,
        headers=plain,
        hooks={"response": _no_downgrade},
    )
    get(address, str(path), None)


def _no_downgrade(response: "requests.Response", **_: Any) -> None:
    """Follow a redirection, but not from https to anything else."""
    target = response.headers.get("location", "")
    secure = urlsplit(response.url).scheme == "https"
    if response.is_redirect and secure and urlsplit(target).scheme not in ("https", ""):
        raise _Refused(f"it redirects from https to {target}")


def _reason(error: Exception) -> str:
    """Why a mirror did not serve, without the inner life of the libraries."""
    import requests

    response = getattr(error, "response", None)
    if response is not None:
        return f"it answers {response.status_code} {response.reason}"
    if isinstance(error, requests.exceptions.InvalidURL):
        return "it is not an address"  # the library would tell a part of it, and of its password
    if isinstance(error, requests.Timeout):
        return "it does not answer in time"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the connection broke off"
    if isinstance(error, requests.ConnectionError):
        return "no connection"
    return str(error)


def _nothing_came(each: RealSet, download: File, tried: list[str]) -> str:
    names = ", ".join(file.name for file in each.downloads)
    return (
        f"{download.name} of {each.title} could not be fetched.\n"
        + "".join(f"  {line}\n" for line in dict.fromkeys(tried))
        + f"Without a network bring {names} from elsewhere, and `rankfall data import PATH` takes it; "
        "a mirror of your own is named by the environment variable RANKFALL_MIRROR."
    )
